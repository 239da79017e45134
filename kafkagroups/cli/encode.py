"""The command `encode`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kafkagroups.cli.options import Options, convert_lines, print_newer
from kafkagroups.errors import UsageError
from kafkagroups.records.record_json import from_json
from kafkagroups.records.releases import FIRST_WITHOUT_CLASSIC_COORDINATOR, Dialect, build_dialect
from kafkagroups.records.serde import Record, encode
from kafkagroups.records.written_versions import parse_writer, value_version, writers_of

ARGUMENTS = """
--jsonl  read one record per line from stdin, and print one line with key_hex and value_hex for each record
--kafka VERSION  use the value versions that this Kafka version writes
"""
EXAMPLES = """\
  kafkagroups decode --jsonl < records.jsonl | kafkagroups encode --jsonl
  kafkagroups encode --jsonl --kafka 2.8.2 < records.jsonl      the bytes that a 2.8.2 broker would write"""


def run(args: Options) -> int:
    if not args.jsonl:
        raise UsageError("encode reads records from stdin: add --jsonl")
    if args.kafka is not None:
        parse_writer(args.kafka)  # Raises UsageError for a wrong version, before the first line is read.
        print_newer(args.kafka)
    return convert_lines(lambda row: _encode_row(row, args.kafka))


def _encode_row(row: Any, kafka: str | None) -> dict[str, Any]:
    key, value = encode(from_json(row)) if kafka is None else encode(*_parse_record_for(row, kafka))
    return {"key_hex": key.hex(), "value_hex": None if value is None else value.hex()}


def _parse_record_for(row: Any, kafka: str) -> tuple[Record, Dialect]:
    version = parse_writer(kafka)
    dialect = build_dialect("classic" if version < FIRST_WITHOUT_CLASSIC_COORDINATOR else "new", version, kafka)
    written_version = None
    # It is a tombstone, a value in hex, or a wrong row if this fails. For a wrong row, from_json raises an error.
    with suppress(TypeError, KeyError, AttributeError, ValueError):
        # The value version of a committed offset depends on whether it has an expire timestamp.
        expires = row["value"]["data"].get("expireTimestamp", -1) != -1
        written_version = value_version(int(row["key"]["type"]), kafka, expires=expires)
        # from_json needs a value version, so add one if the row has none.
        row = {**row, "value": {"version": written_version, **row["value"]}}
    record = from_json(row, dialect)
    if written_version is not None:
        record = Record(record.type, record.key, record.value, written_version)
    elif version not in writers_of(record):
        raise UsageError(f"Kafka {kafka} writes no record of type {record.type}")
    return record, dialect
