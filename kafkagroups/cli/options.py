"""What several commands share: options and how their values are read."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from kafkagroups.cli.tables import printable
from kafkagroups.errors import InvalidRecord, UsageError
from kafkagroups.records.dialect import DEFAULT_KAFKA, Dialect, dialect
from kafkagroups.records.fields import kafka_version


def add_coordinator(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--coordinator",
        choices=("classic", "new"),
        help="whose rules: new, or classic where --kafka is below 4",
    )
    defaults = ", ".join(f"{kafka} for {name}" for name, kafka in DEFAULT_KAFKA.items())
    parser.add_argument("--kafka", metavar="VERSION", help=f"of which Kafka version ({defaults})")


def add_until_time(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--until-time",
        type=milliseconds,
        metavar="T",
        help="only batches up to this time: ms since 1970, or ISO 8601 in UTC",
    )


def rules(coordinator: str | None, kafka: str | None) -> Dialect:
    """The rules that were asked for. Without a coordinator, the version's own: below 4 that is the classic one."""
    if coordinator is None:
        coordinator = "classic" if kafka is not None and kafka_version(kafka) < (4,) else "new"
    return dialect(coordinator, kafka)


def jsonl() -> Iterator[tuple[Any, str | None]]:
    """The lines of stdin as (JSON value, None) or (None, what is wrong with the line). UTF-8, whatever the locale."""
    for line in sys.stdin.buffer:
        try:
            yield json.loads(line.decode()), None
        except (ValueError, RecursionError) as error:
            yield None, f"no JSON in UTF-8: {error}"


def answer_lines(answer: Callable[[Any], dict[str, Any]]) -> int:
    """Prints a line of JSON for each line of stdin, errors too; the first error is told on stderr, then it is 1."""
    first = None
    for number, (row, wrong) in enumerate(jsonl(), 1):
        try:
            if wrong:
                raise UsageError(wrong)
            out = answer(row)
        except (UsageError, InvalidRecord) as error:
            out = {"error": "; ".join(told(error))}
            first = first or f"line {number}: {error}"
        print(json.dumps(out), flush=True)
    if first:
        complain(first)
    return int(first is not None)


def told(error: UsageError | InvalidRecord) -> list[str]:
    """What is wrong, a line each: all that a strict reader found, else the one error."""
    deviations = error.deviations if isinstance(error, InvalidRecord) else ()
    return [str(deviation) for deviation in deviations] or [str(error)]


def complain(what: object) -> None:
    """One line on stderr, whatever the text holds."""
    print(printable(f"kafkagroups: {what}"), file=sys.stderr)


def unhex(text: object, name: str) -> bytes | None:
    """The bytes of hex digits, None for None. UsageError otherwise."""
    if text is None:
        return None
    try:
        if isinstance(text, str):
            return bytes.fromhex(text)
    except ValueError:
        pass
    raise UsageError(f"{name}: an even number of hex digits was expected, not {text!r}")


def milliseconds(text: str) -> int:
    """A time as ms since the epoch: the number itself, or ISO 8601 (UTC unless it says otherwise)."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"ms since the epoch or ISO 8601 was expected, not {text!r}") from None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def calendar(ms: int) -> str:
    """A time in ms for people: UTC, to the second; "" for none and for what no calendar holds."""
    try:
        return "" if ms < 0 else datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(ms)
