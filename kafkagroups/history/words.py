"""The words of sentences about a log: counts, names, times, durations, places, and the topic's partition count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from kafkagroups.loading.topic_partitions import TopicPartitions
from kafkagroups.log.batch import NO_TIMESTAMP

LISTED_NAMES = 3
LISTED_GROUPS = 20
"""More names than in other sentences: a group that is not named can lose records unnoticed."""
_UNITS = ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))
"""The units of a duration: ms and name. A duration of less than two units is given in the next smaller unit."""


def time_or_none(timestamp: int) -> int | None:
    return None if timestamp == NO_TIMESTAMP else timestamp


def list_names(names: Sequence[object], limit: int = LISTED_NAMES) -> str:
    """Return names for a sentence, for example "a, b, c and 2 more"."""
    listed = ", ".join(str(name) for name in names[:limit])
    more = len(names) - limit
    return f"{listed} and {more} more" if more > 0 else listed


def list_groups(group_ids: Iterable[str]) -> str:
    return list_names(sorted(group_ids), LISTED_GROUPS)


def count_of(count: int, noun: str) -> str:
    """Return a number with its noun, for example "1 record" or "2 records"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def describe_time(ms: int) -> str:
    """A time (ms since 1970) for a sentence, to the second. A record can contain any number."""
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms since 1970"


def describe_duration(duration_ms: int) -> str:
    """Return a duration for a sentence, for example "61 s" or "7 days"."""
    for unit_ms, name in _UNITS:
        if duration_ms >= 2 * unit_ms:
            return f"{duration_ms // unit_ms} {name}"
    return f"{duration_ms} ms"


def name_record(partition: int | None, offset: int) -> str:
    """The place of a record, for example 9:43. The partition is left out if it has no number."""
    return f"{offset}" if partition is None else f"{partition}:{offset}"


def describe_topic(topic: TopicPartitions, coordinator: str, group: str | None = None) -> Iterator[str]:
    """Yield what was assumed about the partition count, what does not fit to it, and which partitions are missing.

    Something was assumed if the caller did not give the count, and if this can change the answers for groups (or for
    `group`). The classic coordinator has one cache, so there the count changes no answer.
    """
    affected = {*topic.shared_groups, *topic.misplaced_groups} if coordinator == "new" else set()
    names = list_names(sorted(affected if group is None else affected & {group}))
    if names and topic.origin == "folder":
        yield (
            f"The topic has {topic.count} partitions, as this folder (--partitions N sets another count). "
            f"Only the home partition answers for: {names}."
        )
    elif names and topic.origin != "option":
        yield (
            "The topic's partition count is unknown: set it with --partitions N. Until then, the first partition with "
            f"records of a group answers. The count can change the answers for: {names}."
        )
    if topic.beyond:
        noun = "partition" if len(topic.beyond) == 1 else "partitions"
        yield (
            f"--partitions says that the topic has {topic.count} partitions, but the path has {noun} "
            f"{list_names(topic.beyond)}. A wrong count gives wrong answers: look up offsets.topic.num.partitions."
        )
    if topic.missing and group is None:
        ranges = [str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in topic.missing]
        noun = "partition" if sum(map(len, topic.missing)) == 1 else "partitions"
        names = f"{noun} {', '.join(ranges)}"
        names = f"at least {names}" if topic.count is None else f"{names} of {topic.count}"
        yield f"Missing in this folder: {names}. The groups stored there are not shown."
