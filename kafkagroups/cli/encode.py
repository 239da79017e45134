"""The command `encode`: the bytes of records that are given as Kafka's JSON."""

from __future__ import annotations

import argparse
import functools
from dataclasses import replace
from typing import Any

from kafkagroups.anatomy.written_by import writers_of
from kafkagroups.cli import options
from kafkagroups.errors import UsageError
from kafkagroups.records.record_json import from_json
from kafkagroups.records.serde import Record, encode
from kafkagroups.records.versions import (
    FIRST_WITHOUT_CLASSIC_COORDINATOR,
    Dialect,
    build_dialect,
    parse_writer,
    value_version,
)

NAME = "encode"
HELP = "encode records from the JSON that `decode --jsonl` prints"
EXAMPLES = """\
examples:
  kafkagroups decode --jsonl < records.jsonl | kafkagroups encode --jsonl
  kafkagroups encode --jsonl --kafka 2.8.2 < records.jsonl      the bytes that a 2.8.2 broker would write
  echo '{"key":{"type":"2","data":{"group":"billing"}},"value":null}' | kafkagroups encode --jsonl"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jsonl",
        action="store_true",
        help="read one record per line from stdin; print one line with key_hex and value_hex for each",
    )
    parser.add_argument("--kafka", metavar="VERSION", help="use the value versions that this Kafka version writes")


def run(args: argparse.Namespace) -> int:
    if not args.jsonl:
        raise UsageError("encode reads records from stdin: add --jsonl")
    if args.kafka is not None:
        parse_writer(args.kafka)
    return options.convert_lines(functools.partial(_encode_row, kafka=args.kafka))


def _encode_row(row: Any, kafka: str | None) -> dict[str, Any]:
    if kafka is None:
        key, value = encode(from_json(row))
    else:
        key, value = encode(*_record_written_by(row, kafka))
    return {"key_hex": key.hex(), "value_hex": None if value is None else value.hex()}


def _record_written_by(row: Any, kafka: str) -> tuple[Record, Dialect]:
    """Return a row's record in the value version that this Kafka version writes, and the dialect of that broker.

    The dialect says which coordinator and which Kafka version. The row does not need a version of its value.
    """
    version = parse_writer(kafka)
    dialect = build_dialect("classic" if version < FIRST_WITHOUT_CLASSIC_COORDINATOR else "new", version, kafka)
    try:
        data = row["value"]["data"]
        expires = data.get("expireTimestamp", -1) != -1
        written_version = value_version(int(row["key"]["type"]), kafka, expires=expires)
        row = {**row, "value": {"version": written_version, **row["value"]}}
    except (TypeError, KeyError, AttributeError, ValueError):
        # The row is a tombstone, its value is hex text, or from_json will refuse the row.
        written_version = None
    record = from_json(row, dialect)
    if written_version is not None:
        record = replace(record, value_version=written_version)
    elif version not in writers_of(record):
        raise UsageError(f"Kafka {kafka} writes no record of type {record.type}")
    return record, dialect
