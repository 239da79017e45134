"""`kafkagroups encode`: Kafka's JSON of a record, as bytes."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.records.serde import encode, from_json

NAME = "encode"
HELP = "encode records, as `decode --jsonl` prints them, to bytes"
EXAMPLES = """\
examples:
  kafkagroups decode --jsonl < records.jsonl | kafkagroups encode --jsonl
  echo '{"key":{"type":"2","data":{"group":"billing"}},"value":null}' | kafkagroups encode --jsonl"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jsonl", action="store_true", help="a record a line on stdin, key_hex and value_hex a line out"
    )


def run(args: argparse.Namespace) -> int:
    if not args.jsonl:
        raise UsageError("encode reads records on stdin and wants --jsonl")
    worst = 0
    for line in sys.stdin:
        out = _encode_line(line)
        worst = max(worst, int("error" in out))
        print(json.dumps(out), flush=True)
    return worst


def _encode_line(line: str) -> dict[str, Any]:
    try:
        key, value = encode(from_json(json.loads(line)))
        return {"key_hex": key.hex(), "value_hex": None if value is None else value.hex()}
    except json.JSONDecodeError as error:
        return {"error": f"no JSON: {error}"}
    except UsageError as error:
        return {"error": str(error)}
