"""What several commands share: options, parsers of values, JSON lines from stdin, errors on stderr."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kafkagroups.cli.output import escape, print_error_line, print_line, wrap
from kafkagroups.errors import InvalidRecord, UsageError
from kafkagroups.helpers import parse_whole_number, read_lines
from kafkagroups.history.event import count_of
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.partitioning import partition_for
from kafkagroups.records.dialects import DEFAULT_KAFKA, Dialect, dialect
from kafkagroups.records.versions import parse_release

if TYPE_CHECKING:
    from kafkagroups.loading.topic_partitions import TopicPartitions
    from kafkagroups.log.damage import Gap

PATH_HELP = "a partition directory, a .log file, or a folder of partition directories"
DEFAULT_PARTITIONS = 50
"""The default partition count of the offsets topic."""
_UNIT_MS = {"": 60_000, "d": 86_400_000, "h": 3_600_000, "min": 60_000, "m": 60_000, "s": 1_000, "ms": 1}
"""The units of a duration in ms. A number without a unit is a number of minutes."""
UNTIL_HELP = "read whole batches, and only those whose base offset is below N; the log must have one partition"


def add_paths(parser: argparse.ArgumentParser, help_suffix: str = "") -> None:
    """Add the argument PATH, which can be given several times."""
    parser.add_argument("paths", metavar="PATH", nargs="+", help=PATH_HELP + help_suffix)


def add_coordinator(parser: argparse.ArgumentParser) -> None:
    """Add --coordinator and --kafka."""
    parser.add_argument(
        "--coordinator",
        choices=("classic", "new"),
        help="the coordinator whose rules apply (default: new, or classic if --kafka is below 4)",
    )
    defaults = ", ".join(f"{kafka} for {name}" for name, kafka in DEFAULT_KAFKA.items())
    parser.add_argument("--kafka", metavar="VERSION", help=f"the coordinator's Kafka version (default: {defaults})")


def add_partitions(parser: argparse.ArgumentParser) -> None:
    """Add --partitions."""
    parser.add_argument(
        "--partitions", type=parse_number, metavar="N", help="the partition count of __consumer_offsets"
    )


def add_max_batch_bytes(parser: argparse.ArgumentParser) -> None:
    """Add --max-batch-bytes."""
    parser.add_argument(
        "--max-batch-bytes",
        type=parse_number,
        metavar="N",
        default=MAX_BATCH_BYTES,
        help=f"the largest size of a decompressed batch in bytes (default: {MAX_BATCH_BYTES}); the log ends "
        "before a larger batch, as if the batch were damaged",
    )


def print_gaps(gaps_by_partition: Mapping[int | None, list[Gap] | None]) -> None:
    """Print a line for each place with damaged bytes that the reader has skipped."""
    for partition, gaps in gaps_by_partition.items():
        name = "the log" if partition is None else f"partition {partition}"
        for gap in gaps or []:
            for line in wrap(escape(f"Gap in {name}: {gap}.")):
                print_line(line)


def add_past_damage(parser: argparse.ArgumentParser) -> None:
    """Add --past-damage."""
    parser.add_argument(
        "--past-damage",
        action="store_true",
        help="go on at the next readable batch after damaged bytes; a broker would cut the log at the damage",
    )


def add_local_engine(parser: argparse.ArgumentParser, *other_engines: str, verb: str = "loads") -> None:
    """Add --engine, with the engines of this process and `other_engines`. `verb` says what the engine does."""
    # Imported here, because commands without an engine start faster without the engines.
    from kafkagroups.loading.engines import ENGINES

    parser.add_argument(
        "--engine",
        choices=(*ENGINES, *other_engines),
        default="auto",
        help=f"the engine that {verb} the log: python is the readable engine, compiled is the native engine "
        "(default: auto, the native engine if it is installed)",
    )


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add --engine and --master. Use `check_master` and `check_engine_of_path` to check their values."""
    add_local_engine(parser, "spark")
    parser.add_argument(
        "--master", metavar="URL", help="the Spark master, for --engine spark (default: all cores of this machine)"
    )


def check_master(args: argparse.Namespace) -> None:
    """Raise UsageError if --master is given without --engine spark."""
    if args.master and args.engine != "spark":
        raise UsageError("--master needs --engine spark")


def check_engine_of_path(path: str, engine: str) -> None:
    """Raise UsageError if `path` is a URI, and the engine is not Spark. Only Spark reads URIs."""
    if engine != "spark" and "://" in path and not os.path.exists(path):
        scheme = path.partition("://")[0]
        raise UsageError(f"{scheme}:// needs --engine spark")


def add_until_time(parser: argparse.ArgumentParser) -> None:
    """Add --until-time."""
    parser.add_argument(
        "--until-time",
        type=parse_time,
        metavar="T",
        help="stop before the first batch with a record whose timestamp is after T; T is in ms since 1970, or in "
        "ISO 8601 (UTC, if it has no time zone)",
    )


def choose_dialect(coordinator: str | None, kafka: str | None) -> Dialect:
    """Return the dialect for --coordinator and --kafka: the rules by which this coordinator reads records.

    Without --coordinator, the Kafka version decides which coordinator it is. If this package was never compared with a
    broker of this version, print a warning on stderr.
    """
    if coordinator is None:
        coordinator = "classic" if kafka is not None and parse_release(kafka) < (4,) else "new"
    rules = dialect(coordinator, kafka)
    # `rules_of` is None: this package was compared with a broker of the version `rules.kafka`.
    # `rules_of` is another version: the rules of the other version apply.
    # `rules_of` is the version `rules.kafka`: the rules were read in Kafka's source.
    if rules.rules_of is not None:
        uses_other_version = parse_release(rules.rules_of) != rules.version
        origin = f"are those of {rules.rules_of}" if uses_other_version else "were read in Kafka's source"
        print_error(
            f"Kafka {rules.kafka}: this package was not compared with a broker of this version; the rules {origin}"
        )
    return rules


def rules_to_json(rules_of: str | None) -> dict[str, str]:
    """Return the field `kafka_rules` of the JSON output.

    `rules_of` is the version whose rules apply. None: return no field, because this package was compared with a broker
    of the version in --kafka.
    """
    return {} if rules_of is None else {"kafka_rules": rules_of}


def read_json_lines() -> Iterator[tuple[Any, str | None]]:
    """For each line of stdin, yield its JSON value and None, or None and an error message.

    The lines are read as UTF-8 in every locale. Raises UsageError if a line is too long (helpers.py).
    """
    for line in read_lines(sys.stdin.buffer):
        try:
            yield json.loads(line.decode()), None
        except (ValueError, RecursionError) as error:
            yield None, f"expected JSON in UTF-8: {error}"


def convert_lines(convert: Callable[[Any], dict[str, Any]]) -> int:
    """Print one line of JSON for each line of stdin and return the exit code.

    For a line that cannot be converted, print `{"error": …}`. The first error is also printed on stderr.
    """
    first_error = None
    for number, (row, json_error) in enumerate(read_json_lines(), 1):
        try:
            if json_error:
                raise UsageError(json_error)
            result = convert(row)
        except (UsageError, InvalidRecord) as error:
            result = {"error": "; ".join(error_lines(error))}
            if first_error is None:
                first_error = f"line {number}: {error}"
        print(json.dumps(result), flush=True)
    if first_error:
        print_error(first_error)
    return int(first_error is not None)


def error_lines(error: UsageError | InvalidRecord) -> list[str]:
    """Return one line for each deviation in the error, or the error's message if there are no deviations.

    A deviation is an encoding that Kafka reads but never writes. Only --strict refuses deviations.
    """
    deviations = error.deviations if isinstance(error, InvalidRecord) else ()
    return [str(deviation) for deviation in deviations] or [str(error)]


def print_error(message: object) -> None:
    """Print a message on stderr in one line."""
    print_error_line(f"kafkagroups: {message}")


def describe_unknown_group(subject: str, group: str, path: str, topic: TopicPartitions) -> str:
    """Return a sentence: the log at `path` has no record of the subject, and which partition stores the group.

    `subject` is the group or one of its offsets. `topic` has the partition count, if it is known.
    """
    partition = partition_for(group, topic.count or DEFAULT_PARTITIONS)
    location = f"group {group} is stored in partition {partition}"
    condition = {
        "option": "",
        "folder": f", because the topic has {count_of(topic.count or 0, 'partition')}, as this folder",
        "unknown": f" if the topic has {DEFAULT_PARTITIONS} partitions (see --partitions)",
    }[topic.origin]
    return f"No record of {subject} in {path}; {location}{condition}."


def print_cut(next_offsets: Mapping[int | None, int]) -> None:
    """Print where --until or --until-time has cut the log.

    `next_offsets` contains, for each partition, the first offset that was not read. The partition is None if the log's
    folder is not named like a partition.
    """
    offsets = (
        f"{offset}" if partition is None else f"{offset} in partition {partition}"
        for partition, offset in next_offsets.items()
    )
    for line in wrap(f"The first offset after the cut is {', '.join(offsets)}."):
        print_line(line)


def parse_hex(text: object, name: str) -> bytes | None:
    """Return the bytes that are written as hex digits, or None for None. `name` is the argument's name for the error.

    Raises UsageError if the text is not an even number of hex digits.
    """
    if text is None:
        return None
    try:
        if isinstance(text, str):
            return bytes.fromhex(text)
    except ValueError:
        pass
    raise UsageError(f"{name}: expected an even number of hex digits, found {text!r}")


def parse_number(text: str) -> int:
    """Return the whole number that the text of an option contains."""
    try:
        return parse_whole_number(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_time(text: str) -> int:
    """Return a time in ms since 1970. The text is ms since 1970, or ISO 8601 (UTC, if it has no time zone)."""
    if re.fullmatch(r"[-+]?[0-9]+", text):
        return parse_number(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected ms since 1970 or ISO 8601, found {text!r}") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)


def parse_retention(text: str) -> int:
    """Return a duration in ms. The text is a number of minutes, or a number and one of the units of `_UNIT_MS`."""
    match = re.fullmatch(r"([0-9]+) *([a-z]*)", text.strip())
    if match is None or match[2] not in _UNIT_MS:
        units = ", ".join(unit for unit in _UNIT_MS if unit)
        raise argparse.ArgumentTypeError(f"expected minutes, or a number with a unit ({units}), found {text!r}")
    return parse_number(match[1]) * _UNIT_MS[match[2]]


@lru_cache(maxsize=1024)
def format_time(ms: int) -> str:
    """Return a time in UTC without the milliseconds. `ms` is the time in ms since 1970.

    Return "" for a negative number, which means that there is no time. Return the number itself if it is too large for
    datetime.
    """
    if ms < 0:
        return ""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(ms)


@lru_cache(maxsize=1024)
def format_time_ms(ms: int) -> str:
    """Return a time in UTC with the milliseconds. `ms` is the time in ms since 1970.

    Return "no time" for a negative number. Return the number itself if it is too large for datetime.
    """
    if ms < 0:
        return "no time"
    try:
        time = datetime(1970, 1, 1) + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms"
    return time.isoformat(sep=" ", timespec="milliseconds")
