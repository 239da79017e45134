"""The command `decode`: decode a record, and explain its bytes field by field or print Kafka's JSON."""

from __future__ import annotations

import argparse
import json
from typing import Any

from kafkagroups.anatomy.annotate import annotate, decode
from kafkagroups.cli import options
from kafkagroups.cli.output import print_line
from kafkagroups.cli.tables import print_table
from kafkagroups.errors import InvalidRecord, UsageError
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.record_json import to_json
from kafkagroups.records.serde import Record

NAME = "decode"
HELP = "decode a record from the hex digits of its key and value, and explain every byte"
EXAMPLES = """\
examples:
  kafkagroups decode 0001000762696c6c696e6700066f726465727300000002 00030000000000000005ffffffff0000000001a1fd61df48
  kafkagroups decode 0001000762696c6c696e6700066f726465727300000000       (no value: a tombstone)
  echo '{"key_hex":"000200076d61696c65722d","value_hex":null}' | kafkagroups decode --jsonl"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEYHEX", nargs="?", help="the bytes of the key in hex")
    parser.add_argument(
        "value", metavar="VALUEHEX", nargs="?", help="the bytes of the value in hex; leave it out for a tombstone"
    )
    parser.add_argument(
        "--jsonl",
        action="store_true",
        help='decode each line {"key_hex":…,"value_hex":…} of stdin, and print it as a line of JSON',
    )
    parser.add_argument("--json", action="store_true", help="print the record as one line of JSON, as --jsonl does")
    parser.add_argument("--strict", action="store_true", help="refuse every encoding that Kafka reads but never writes")
    options.add_coordinator(parser)


def run(args: argparse.Namespace) -> int:
    dialect = options.choose_dialect(args.coordinator, args.kafka)
    if args.jsonl == (args.key is not None):  # Both are given, or neither.
        raise UsageError("expected either KEYHEX or --jsonl")
    if args.jsonl:
        return options.convert_lines(lambda row: _decode_row(row, dialect, args.strict))
    key = options.parse_hex(args.key, "KEYHEX")
    value = options.parse_hex(args.value, "VALUEHEX")
    try:
        record = decode(key, value, dialect, strict=args.strict)
    except InvalidRecord as error:
        if args.json:
            print(json.dumps({"error": str(error)}))
        for line in options.error_lines(error):
            options.print_error(line)
        return 1
    if args.json:
        print(json.dumps(_record_to_json(record, dialect)))
        return 0
    tombstone = ", a tombstone: the value is null" if value is None else ""
    print_line(f"{record.name}, record type {record.type}{tombstone}")
    _print_bytes(key, value, dialect)
    return 0


def _print_bytes(key: bytes | None, value: bytes | None, dialect: Dialect) -> None:
    """Print a table with one row for each span: a field of the key or the value, or the length of a field."""
    annotation = annotate(key, value, dialect)
    rows = [
        (
            span.part if span.start == 0 else "",  # "key" or "value", only in the first row of each part.
            span.start,
            annotation.bytes_by_part[span.part][span.start : span.end].hex(" "),
            span.field,
            span.type,
            "null" if span.value is None else span.value,
            "; ".join((span.meaning, *span.odd)),  # `odd`: what Kafka reads but never writes.
        )
        for span in annotation
    ]
    print_table(("", "byte", "bytes", "field", "type", "value", "meaning"), rows)


def _decode_row(row: Any, dialect: Dialect, strict: bool) -> dict[str, Any]:
    if not isinstance(row, dict) or "key_hex" not in row:
        raise UsageError('expected {"key_hex": …, "value_hex": …}')
    key = options.parse_hex(row["key_hex"], "key_hex")
    value = options.parse_hex(row.get("value_hex"), "value_hex")
    return _record_to_json(decode(key, value, dialect, strict=strict), dialect)


def _record_to_json(record: Record, dialect: Dialect) -> dict[str, Any]:
    return {**to_json(record, dialect), **options.rules_to_json(dialect.rules_of)}
