"""What the texts of Kafka's tools owe to the JVM: Jackson's JSON and Scala's Option."""

from __future__ import annotations

import json
import re
from typing import Any

Version = tuple[int, ...]


class ToolDied(Exception):
    """Kafka's tool ends here, with all that it had still to do."""


def jackson(value: Any) -> str:
    """JSON as Jackson prints it: without spaces, other characters than ASCII as they are, \\u escapes in capitals."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"(?<!\\)((?:\\\\)*\\u)([0-9a-f]{4})", lambda m: m[1] + m[2].upper(), text)


def option(value: object) -> str:
    """Scala's text of an Option: `Some(…)`, or `None`."""
    return "None" if value is None else f"Some({value})"


def string(value: object) -> str:
    """Java's text of a reference: `null` for none."""
    return "null" if value is None else str(value)


def hexadecimal(data: bytes) -> str:
    """Bytes as one unsigned number in capitals: leading zeros are lost, no bytes are no digits."""
    return f"{int.from_bytes(data, 'big'):X}" if data else ""
