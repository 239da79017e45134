"""The command `decode`."""

from __future__ import annotations

import ast
import base64
import json
import re
from contextlib import suppress
from typing import Any

from kafkagroups.cli.options import Options, choose_dialect, convert_lines, list_errors, parse_json
from kafkagroups.cli.output import print_error, print_json, print_line, print_table
from kafkagroups.errors import InvalidRecord, UsageError
from kafkagroups.records.record_json import from_json, parse_hex, to_json
from kafkagroups.records.releases import Dialect, rules_to_json
from kafkagroups.records.serde import encode
from kafkagroups.records.spans import Span, annotate, decode, split_before_error

TOMBSTONES = ("", "null", "<DELETE>")
"""Texts for a value of null; the last one is that of Kafka's own formatter."""
_NUMBERS = re.compile(r"\[\s*(-?\d+\s*(,\s*-?\d+\s*)*)?\]")
_QUOTED = re.compile(r"""[bB]?("|')(.*)\1""", re.DOTALL)
_DUMP_LINE = re.compile(
    r"\s*(?:0x)?[0-9a-f]{4,}:\s+(?P<bytes>(?:(?:[0-9a-f]{2})+ ?)+)(?: .*)?"
    r"|[0-9a-f]{8}  (?P<columns>(?:[0-9a-f]{2} +)+)\|.*\|"
    r"|[0-9a-f]{8}:?",
    re.IGNORECASE,
)
"""A line of xxd or tcpdump -X (an offset, the bytes, and after two spaces their text) or of hexdump -C."""
_SEPARATORS = re.compile(r"[\s:,]|0[xX](?=[0-9a-fA-F]{2})|\\x")


def read_bytes(text: str, name: str) -> bytes | None:
    """The forms are tried in this order: a dump, numbers, a quoted text of Python, hex with any separators, and base64.
    Raises UsageError, with the `name` of the text, if it has none of these forms.
    """
    if text.strip() in TOMBSTONES:
        return None
    for read in (_read_dump, _read_numbers, _read_quoted, _read_hex, _read_base64):
        with suppress(SyntaxError, TypeError, ValueError):  # The text has another form.
            found = read(text.strip())
            if found is not None:
                return found
    raise UsageError(
        f"{name}: expected hex, numbers ([0, 1, -1]), base64, or xxd, hexdump -C or tcpdump, found {text[:40]!r}"
    )


def _read_dump(text: str) -> bytes | None:
    rows = [_DUMP_LINE.fullmatch(line) for line in text.splitlines() if line.strip()]
    if not all(rows):
        return None
    parts = [row["bytes"] or row["columns"] or "" for row in rows if row]
    return bytes.fromhex("".join(parts)) if any(parts) else None


def _read_numbers(text: str) -> bytes | None:
    """Read a list of Java (signed) or of JSON (signed or unsigned)."""
    if not _NUMBERS.fullmatch(text):
        return None
    numbers = json.loads(text)
    if not all(-128 <= number <= 255 for number in numbers):
        return None
    return bytes(number % 256 for number in numbers)


def _read_quoted(text: str) -> bytes | None:
    """Read a literal such as b'\\x00\\x01orders', or a quoted form that has only hex inside."""
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        return None
    if text[0] not in "bB":
        return read_bytes(quoted[2], "the text in quotes")
    return bytes(ast.literal_eval(text))


def _read_hex(text: str) -> bytes:
    return bytes.fromhex(_SEPARATORS.sub("", text))


def _read_base64(text: str) -> bytes:
    plain = text.replace("-", "+").replace("_", "/")
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)


ARGUMENTS = """
[KEYHEX]  the bytes of the key: hex in any form, numbers, base64, lines of a hex dump; or a record as Kafka's JSON
[VALUEHEX]  the bytes of the value, in the same forms; null, or nothing, for a tombstone
--jsonl  decode each line {"key_hex":…,"value_hex":…} of stdin, and print it as a line of JSON
--json
--strict  refuse every encoding that Kafka reads but never writes
--coordinator --kafka
"""
EXAMPLES = """\
  kafkagroups decode 0001000762696c6c696e6700066f726465727300000002       (no value: a tombstone)
  kafkagroups decode 0001000762696c6c696e6700066f726465727300000002 00030000000000000005ffffffff0000000001a1fd61df48
  kafkagroups decode '[0, 2, 0, 7, 109, 97, 105, 108, 101, 114, 45]' null
  echo '{"key_hex":"000200076d61696c65722d","value_hex":null}' | kafkagroups decode --jsonl"""


def run(args: Options) -> int:
    dialect = choose_dialect(args)

    def decode_row(row: Any) -> dict[str, Any]:
        if not isinstance(row, dict) or "key_hex" not in row:
            raise UsageError('expected {"key_hex": …, "value_hex": …}')
        names = ("key_hex", "value_hex")
        key, value = (None if row.get(name) is None else parse_hex(row[name], name) for name in names)
        record = decode(key, value, dialect, strict=args.strict)
        return {**to_json(record, dialect), **rules_to_json(dialect.rules_of)}

    if args.jsonl == (args.keyhex is not None):  # Both are given, or neither.
        raise UsageError("expected either KEYHEX or --jsonl")
    if args.jsonl:
        return convert_lines(decode_row)
    key, value = _read_arguments(args.keyhex, args.valuehex, dialect)
    try:
        record = decode(key, value, dialect, strict=args.strict)
    except InvalidRecord as error:
        if args.json:
            print_json({"error": str(error)})
        for line in list_errors(error):
            print_error(line)
        if not args.json and not error.deviations:
            _print_spans(split_before_error(error, key, value, dialect), key, value)
        return 1
    if args.json:
        print_json({**to_json(record, dialect), **rules_to_json(dialect.rules_of)})
        return 0
    tombstone = ", a tombstone: the value is null" if value is None else ""
    print_line(f"{record.name}, record type {record.type}{tombstone}")
    _print_spans(annotate(key, value, dialect), key, value)
    return 0


def _print_spans(spans: list[Span], key: bytes | None, value: bytes | None) -> None:
    bytes_by_part = {"key": key or b"", "value": value or b""}
    rows = [
        (
            span.part if span.start == 0 else "",  # "key" or "value", only in the first row of each part.
            span.start,
            bytes_by_part[span.part][span.start : span.end].hex(" "),
            span.field,
            span.type,
            "null" if span.value is None else span.value,
            "; ".join((span.meaning, *span.odd)),  # `odd`: what Kafka reads but never writes.
        )
        for span in spans
    ]
    print_table(("", "byte", "bytes", "field", "type", "value", "meaning"), rows)


def _read_arguments(key: str, value: str | None, dialect: Dialect) -> tuple[bytes | None, bytes | None]:
    if key.lstrip().startswith("{"):
        if value is not None:
            raise UsageError("KEYHEX: a record as JSON contains the value, too")
        return encode(from_json(parse_json(key, "KEYHEX: expected a record as JSON"), dialect), dialect)
    return read_bytes(key, "KEYHEX"), read_bytes(value or "", "VALUEHEX")
