"""Sentences about the topic's partition count: what was assumed, and which partitions are missing or too many."""

from __future__ import annotations

from kafkagroups.history.event import list_names
from kafkagroups.loading.topic_partitions import TopicPartitions


def describe_assumption(topic: TopicPartitions, coordinator: str, group: str | None = None) -> str | None:
    """Return what was assumed about the partition count, and the groups whose answers this can change.

    Return None if nothing was assumed, or if the count changes no answer. If `group` is not None, only this group
    counts. The classic coordinator has one cache, so there the count changes no answer.
    """
    if coordinator != "new" or topic.origin == "option":
        return None
    affected = {*topic.shared_groups, *topic.misplaced_groups}
    if group is not None:
        affected &= {group}
    if not affected:
        return None
    names = list_names(sorted(affected))
    if topic.origin == "folder":
        return (
            f"The topic has {topic.count} partitions, as this folder (--partitions N sets another count). "
            f"Only the home partition answers for: {names}."
        )
    return (
        "The topic's partition count is unknown: set it with --partitions N. Until then, the first partition with "
        f"records of a group answers. The count can change the answers for: {names}."
    )


def describe_missing(topic: TopicPartitions) -> str | None:
    """Return which partitions of the topic a folder does not contain; None if it lacks none, as far as is known."""
    if not topic.missing:
        return None
    ranges = [str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in topic.missing]
    noun = "partition" if len(topic.missing) == 1 and len(topic.missing[0]) == 1 else "partitions"
    of_count = "" if topic.count is None else f" of {topic.count}"
    at_least = "" if topic.count is not None else "at least "
    names = f"{noun} {', '.join(ranges)}{of_count}"
    return f"Missing in this folder: {at_least}{names}. The groups stored there are not shown."


def describe_beyond(topic: TopicPartitions) -> str | None:
    """Return which partitions cannot exist if the count that the caller gave is right; None if there are none."""
    if not topic.beyond:
        return None
    noun = "partition" if len(topic.beyond) == 1 else "partitions"
    return (
        f"--partitions says that the topic has {topic.count} partitions, but the path has {noun} "
        f"{list_names(topic.beyond)}. A wrong count gives wrong answers: look up offsets.topic.num.partitions."
    )
