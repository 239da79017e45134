"""What several commands share: options and how their values are read."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime

from kafkagroups.errors import UsageError
from kafkagroups.records.dialect import DEFAULT_KAFKA, Dialect, dialect


def add_coordinator(parser: argparse.ArgumentParser, default: str = "new") -> None:
    defaults = ", ".join(f"{kafka} for {name}" for name, kafka in DEFAULT_KAFKA.items())
    parser.add_argument("--coordinator", choices=("classic", "new"), default=default, help=f"whose rules ({default})")
    parser.add_argument("--kafka", metavar="VERSION", help=f"of which Kafka version ({defaults})")


def rules(args: argparse.Namespace) -> Dialect:
    return dialect(args.coordinator, args.kafka)


def unhex(text: object, name: str) -> bytes | None:
    """The bytes of hex digits, None for None. UsageError otherwise."""
    if text is None:
        return None
    try:
        if isinstance(text, str):
            return bytes.fromhex(text)
    except ValueError:
        pass
    raise UsageError(f"{name}: hex digits were expected, not {text!r}")


def milliseconds(text: str) -> int:
    """A time as ms since the epoch: the number itself, or ISO 8601 (UTC unless it says otherwise)."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"ms since the epoch or ISO 8601 was expected, not {text!r}") from None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
