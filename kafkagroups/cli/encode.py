"""`kafkagroups encode`: Kafka's JSON of a record, as bytes."""

from __future__ import annotations

import argparse
from typing import Any

from kafkagroups.cli import options
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
    return options.answer_lines(_encode_row)


def _encode_row(row: Any) -> dict[str, Any]:
    key, value = encode(from_json(row))
    return {"key_hex": key.hex(), "value_hex": None if value is None else value.hex()}
