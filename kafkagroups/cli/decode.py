"""The command `decode`: decode a record, and explain its bytes field by field or print Kafka's JSON."""

from __future__ import annotations

import argparse
from typing import Any

from kafkagroups.cli.options import choose_dialect, convert_lines, list_errors, parse_hex, rules_to_json
from kafkagroups.cli.output import print_error, print_json, print_line, print_table
from kafkagroups.errors import InvalidRecord, UsageError
from kafkagroups.records.annotate import annotate, decode
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.record_json import to_json
from kafkagroups.records.serde import Record

ARGUMENTS = """
[KEYHEX]  the bytes of the key in hex
[VALUEHEX]  the bytes of the value in hex; leave it out for a tombstone
--jsonl  decode each line {"key_hex":…,"value_hex":…} of stdin, and print it as a line of JSON
--json  print the record as one line of JSON, as --jsonl does
--strict  refuse every encoding that Kafka reads but never writes
--coordinator --kafka
"""
EXAMPLES = """\
examples:
  kafkagroups decode 0001000762696c6c696e6700066f726465727300000002       (no value: a tombstone)
  kafkagroups decode 0001000762696c6c696e6700066f726465727300000002 00030000000000000005ffffffff0000000001a1fd61df48
  echo '{"key_hex":"000200076d61696c65722d","value_hex":null}' | kafkagroups decode --jsonl"""


def run(args: argparse.Namespace) -> int:
    dialect = choose_dialect(args)
    if args.jsonl == (args.keyhex is not None):  # Both are given, or neither.
        raise UsageError("expected either KEYHEX or --jsonl")
    if args.jsonl:
        return convert_lines(lambda row: _decode_row(row, dialect, args.strict))
    key = parse_hex(args.keyhex, "KEYHEX")
    value = parse_hex(args.valuehex, "VALUEHEX")
    try:
        record = decode(key, value, dialect, strict=args.strict)
    except InvalidRecord as error:
        if args.json:
            print_json({"error": str(error)})
        for line in list_errors(error):
            print_error(line)
        return 1
    if args.json:
        print_json(_record_to_json(record, dialect))
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
    key = parse_hex(row["key_hex"], "key_hex")
    value = parse_hex(row.get("value_hex"), "value_hex")
    return _record_to_json(decode(key, value, dialect, strict=strict), dialect)


def _record_to_json(record: Record, dialect: Dialect) -> dict[str, Any]:
    return {**to_json(record, dialect), **rules_to_json(dialect.rules_of)}
