"""Reads bytes in the forms in which people have them: from a hex dump, a program's output, or another tool's JSON."""

from __future__ import annotations

import ast
import base64
import json
import re

from kafkagroups.errors import UsageError

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
    """Return the bytes that a text means; None if it stands for null.

    The forms are tried in this order: a dump, numbers, a quoted text of Python, hex with any separators, and base64.
    Raises UsageError, with the name of the text, if it has none of these forms.
    """
    if text.strip() in TOMBSTONES:
        return None
    for read in (_read_dump, _read_numbers, _read_quoted, _read_hex, _read_base64):
        found = read(text.strip())
        if found is not None:
            return found
    raise UsageError(
        f"{name}: expected hex, numbers such as [0, 1, -1], base64, or lines of xxd, hexdump -C or tcpdump, found "
        f"{text[:40]!r}"
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
    try:
        return bytes(ast.literal_eval(text))
    except (SyntaxError, ValueError, TypeError):
        return None


def _read_hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(_SEPARATORS.sub("", text))
    except ValueError:
        return None


def _read_base64(text: str) -> bytes | None:
    plain = text.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError:
        return None
