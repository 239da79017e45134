"""Texts of the JVM in Kafka's tools: Jackson's JSON, Scala's Option, Java's null.

Jackson is the JSON library of Kafka. A Scala Option is a value that can be missing. This module also contains the
exception `ToolCrashed` for the crash of a tool.
"""

from __future__ import annotations

import json
import re
from typing import Any

Version = tuple[int, ...]
"""A Kafka version as numbers: (3, 9, 2)."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class ToolCrashed(Exception):
    """Kafka's own tool crashes at this place of the log and prints nothing more."""


def format_json(value: Any) -> str:
    """Return JSON as Jackson prints it: no spaces, non-ASCII characters unchanged, upper-case digits in \\u escapes."""
    # json.dumps prints the digits in lower case. In JSON, two backslashes are one backslash of the text. So the pattern
    # finds a `u` only after an odd number of backslashes; after an even number, the `u` does not begin an escape.
    text = _ENCODER.encode(value)
    if "\\u" not in text:
        return text
    return re.sub(r"(?<!\\)((?:\\\\)*\\u)([0-9a-f]{4})", lambda match: match[1] + match[2].upper(), text)


def format_option(value: object) -> str:
    """Return Scala's text of an Option: `Some(…)`, or `None` if the value is None."""
    return "None" if value is None else f"Some({value})"


def format_nullable(value: object) -> str:
    """Return Java's text of an object: `null` if the value is None."""
    return "null" if value is None else str(value)


def format_hex(data: bytes) -> str:
    """Return bytes as one unsigned number, in upper-case hexadecimal without leading zeros; "" for empty bytes."""
    return f"{int.from_bytes(data, 'big'):X}" if data else ""
