"""`kafkagroups encode`: Kafka's JSON of a record, as bytes."""

from __future__ import annotations

import argparse
import functools
from dataclasses import replace
from typing import Any

from kafkagroups.anatomy.written_by import writers_of
from kafkagroups.cli import options
from kafkagroups.errors import UsageError
from kafkagroups.records.dialect import Dialect
from kafkagroups.records.fields import kafka_version
from kafkagroups.records.serde import Record, encode, from_json
from kafkagroups.records.writers import value_version

NAME = "encode"
HELP = "encode records, as `decode --jsonl` prints them, to bytes"
EXAMPLES = """\
examples:
  kafkagroups decode --jsonl < records.jsonl | kafkagroups encode --jsonl
  kafkagroups encode --jsonl --kafka 2.8.2 < records.jsonl      the bytes that a 2.8.2 broker would write
  echo '{"key":{"type":"2","data":{"group":"billing"}},"value":null}' | kafkagroups encode --jsonl"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jsonl", action="store_true", help="a record a line on stdin, key_hex and value_hex a line out"
    )
    parser.add_argument("--kafka", metavar="VERSION", help="in the value versions that this Kafka writes")


def run(args: argparse.Namespace) -> int:
    if not args.jsonl:
        raise UsageError("encode reads records on stdin and wants --jsonl")
    if args.kafka:
        options.rules(None, args.kafka)
    return options.answer_lines(functools.partial(_encode_row, kafka=args.kafka))


def _encode_row(row: Any, kafka: str | None) -> dict[str, Any]:
    if kafka is None:
        key, value = encode(from_json(row))
    else:
        key, value = encode(*_as_written_by(row, kafka))
    return {"key_hex": key.hex(), "value_hex": None if value is None else value.hex()}


def _as_written_by(row: Any, kafka: str) -> tuple[Record, Dialect]:
    """The record in the value version that this Kafka writes; the row need not name a version then."""
    rules = options.rules(None, kafka)
    try:
        data = row["value"]["data"]
        expires = data.get("expireTimestamp", -1) != -1
        chosen = value_version(int(row["key"]["type"]), kafka, expires=expires)
        row = {**row, "value": {"version": chosen, **row["value"]}}
    except (TypeError, KeyError, AttributeError, ValueError):
        chosen = None  # a tombstone, an unread value, or something that from_json refuses
    record = from_json(row, rules)
    if chosen is not None:
        record = replace(record, value_version=chosen)
    elif kafka_version(kafka) not in writers_of(record):
        raise UsageError(f"Kafka {kafka} writes no record of type {record.type}")
    return record, rules
