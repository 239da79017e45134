"""Shared parts of the commands: options, values, JSON lines on stdin, errors on stderr."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from kafkagroups.cli.tables import escape
from kafkagroups.errors import InvalidRecord, UsageError
from kafkagroups.records.versions import DEFAULT_KAFKA, Dialect, dialect, parse_release

PATH_HELP = "a partition directory, a .log file, or a folder of partition directories"
UNTIL_HELP = "only batches whose base offset is below N, each as a whole; the log must have one partition"


def add_paths(parser: argparse.ArgumentParser, help_suffix: str = "") -> None:
    """Add the argument PATH, which can be given several times."""
    parser.add_argument("paths", metavar="PATH", nargs="+", help=PATH_HELP + help_suffix)


def add_coordinator(parser: argparse.ArgumentParser) -> None:
    """Add --coordinator and --kafka."""
    parser.add_argument(
        "--coordinator",
        choices=("classic", "new"),
        help="the coordinator whose rules apply (new; classic if --kafka is below 4)",
    )
    defaults = ", ".join(f"{kafka} for {name}" for name, kafka in DEFAULT_KAFKA.items())
    parser.add_argument("--kafka", metavar="VERSION", help=f"the coordinator's Kafka version ({defaults})")


def add_partitions(parser: argparse.ArgumentParser) -> None:
    """Add --partitions."""
    parser.add_argument("--partitions", type=int, metavar="N", help="the partition count of the offsets topic")


def add_until_time(parser: argparse.ArgumentParser) -> None:
    """Add --until-time."""
    parser.add_argument(
        "--until-time",
        type=parse_time,
        metavar="T",
        help="only batches before the first batch with a record after T: ms since 1970, or ISO 8601 in UTC",
    )


def choose_dialect(coordinator: str | None, kafka: str | None) -> Dialect:
    """Return the dialect for --coordinator and --kafka: the coordinator and the Kafka version whose rules apply.

    Without --coordinator, the version decides the coordinator.

    A line on stderr says so if the rules of this version were not compared with its own broker.
    """
    if coordinator is None:
        coordinator = "classic" if kafka is not None and parse_release(kafka) < (4,) else "new"
    rules = dialect(coordinator, kafka)
    if rules.rules_of is not None:
        is_nearest = parse_release(rules.rules_of) != rules.version
        origin = f"are those of {rules.rules_of}" if is_nearest else "were read in Kafka's source"
        print_error(f"Kafka {rules.kafka} was not compared with a broker: its rules {origin}")
    return rules


def read_json_lines() -> Iterator[tuple[Any, str | None]]:
    """For each line of stdin, yield (value, None) or (None, error). The lines are UTF-8 in every locale."""
    for line in sys.stdin.buffer:
        try:
            yield json.loads(line.decode()), None
        except (ValueError, RecursionError) as error:
            yield None, f"expected JSON in UTF-8: {error}"


def convert_lines(convert: Callable[[Any], dict[str, Any]]) -> int:
    """Print one line of JSON for each line of stdin and return the exit code.

    A line that cannot be converted gives `{"error": …}`. The first error is repeated on stderr.
    """
    first_error = None
    for number, (row, json_error) in enumerate(read_json_lines(), 1):
        try:
            if json_error:
                raise UsageError(json_error)
            result = convert(row)
        except (UsageError, InvalidRecord) as error:
            result = {"error": "; ".join(error_lines(error))}
            first_error = first_error or f"line {number}: {error}"
        print(json.dumps(result), flush=True)
    if first_error:
        print_error(first_error)
    return int(first_error is not None)


def error_lines(error: UsageError | InvalidRecord) -> list[str]:
    """Return one line for each deviation that a strict reader found, or the error's text if it has no deviations.

    A deviation is an encoding that Kafka's own writer would not produce.
    """
    deviations = error.deviations if isinstance(error, InvalidRecord) else ()
    return [str(deviation) for deviation in deviations] or [str(error)]


def print_error(message: object) -> None:
    """Print one line on stderr; control characters are escaped."""
    print(escape(f"kafkagroups: {message}"), file=sys.stderr)


def print_cut(next_offsets: Mapping[int | None, int]) -> None:
    """For each partition, print the first offset that was not read because of --until or --until-time."""
    offsets = (
        f"{offset}" if partition is None else f"{offset} in partition {partition}"
        for partition, offset in next_offsets.items()
    )
    print(f"The first offset after the cut is {', '.join(offsets)}.")


def parse_hex(text: object, name: str) -> bytes | None:
    """Return the bytes of hex digits, or None for None. The error's message calls the text `name`."""
    if text is None:
        return None
    try:
        if isinstance(text, str):
            return bytes.fromhex(text)
    except ValueError:
        pass
    raise UsageError(f"{name}: expected an even number of hex digits, found {text!r}")


def parse_time(text: str) -> int:
    """Return a time in ms since 1970. The text is this number, or ISO 8601 (in UTC if it has no time zone)."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected ms since 1970 or ISO 8601, found {text!r}") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)


def format_time(ms: int) -> str:
    """Return a time in UTC, to the second; "" for a negative time; the number itself if datetime has no such year."""
    if ms < 0:
        return ""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(ms)
