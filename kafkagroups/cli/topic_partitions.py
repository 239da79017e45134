"""Text about the topic's partition count: what was assumed, whether it was changed, which partitions are missing.

A line is printed only if the partition count can change an answer.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.cli import options
from kafkagroups.cli.output import escape, print_line, wrap
from kafkagroups.history.event import list_names
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.topic_partitions import PartitionCountChange, TopicPartitions
from kafkagroups.log.partitioning import partition_for

MOVES_SHOWN = 20
"""A text names at most this number of groups that have moved to another partition."""


def print_topic_partitions(topic: TopicPartitions, coordinator: str, group: str | None = None) -> None:
    """Print the lines about a topic. If `group` is not None, print only the lines that concern this group."""
    for line in describe_topic_partitions(topic, coordinator, group):
        for part in wrap(escape(line)):
            print_line(part)


def describe_topic_partitions(topic: TopicPartitions, coordinator: str, group: str | None = None) -> list[str]:
    """Return the lines that `print_topic_partitions` prints."""
    lines = []
    change = topic.changed
    if change is not None and (group is None or group in change.groups):
        lines.append(_describe_change(change, [group] if group is not None else change.groups))
    if coordinator == "classic":
        shared = sorted(name for name in topic.shared_groups if group in (None, name))
        if shared:
            lines.append(
                "A classic broker answers from the partition that it loads first, and brokers load partitions in any "
                f"order. Here the lowest partition is first. Another order can change the answers for: "
                f"{list_names(shared)}."
            )
    # The classic coordinator has one cache, so the partition count changes no answer.
    if coordinator == "new" and topic.origin != "option":
        affected = {*topic.shared_groups, *topic.misplaced_groups}
        if group is not None:
            affected &= {group}
        if affected:
            lines.append(_describe_assumption(topic, sorted(affected)))
    if topic.missing and group is None:
        at_least = "" if topic.count is not None else "at least "
        missing = f"Missing in this folder: {at_least}{_describe_missing(topic)}."
        lines.append(f"{missing} The groups stored there are not shown.")
    return lines


def _describe_change(change: PartitionCountChange, groups: list[str]) -> str:
    moves = [
        f"{group} ({partition_for(group, change.from_count)} → {partition_for(group, change.to_count)})"
        for group in groups
    ]
    more = f" and {len(moves) - MOVES_SHOWN} more" if len(moves) > MOVES_SHOWN else ""
    return (
        f"The topic's partition count was changed from {change.describe_old_counts()} to {change.to_count}, at the "
        f"latest at {options.format_time(change.since_ms)} UTC. These groups have moved to another partition: "
        f"{', '.join(moves[:MOVES_SHOWN])}{more}."
    )


def _describe_assumption(topic: TopicPartitions, groups: list[str]) -> str:
    """Return what was assumed about the partition count, and which groups this can change."""
    names = list_names(groups)
    if topic.origin == "folder":
        return (
            f"The topic has {topic.count} partitions, as this folder (--partitions N sets another count). "
            f"Only the home partition answers for: {names}."
        )
    return (
        "The topic's partition count is unknown: set it with --partitions N. Until then, the first partition with "
        f"records of a group answers. The count can change the answers for: {names}."
    )


def _describe_missing(topic: TopicPartitions) -> str:
    ranges = [str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in topic.missing]
    noun = "partition" if len(topic.missing) == 1 and len(topic.missing[0]) == 1 else "partitions"
    of_count = "" if topic.count is None else f" of {topic.count}"
    return f"{noun} {', '.join(ranges)}{of_count}"


def topic_partitions_of_sides(a: TopicPartitions, b: TopicPartitions) -> dict[str, Any]:
    """Return the fields of `diff --json` about the partition count: the one of side b, and of a if it differs."""
    fields = {"topic_partitions": b.to_json()}
    if a.to_json() != b.to_json():
        fields["topic_partitions_a"] = a.to_json()
    return fields


def print_topic_partitions_of_sides(a: Groups, b: Groups) -> None:
    """Print the lines about the topics of both sides of a comparison; only once if they are the same."""
    lines_a = describe_topic_partitions(a.topic_partitions, a.coordinator)
    lines_b = describe_topic_partitions(b.topic_partitions, b.coordinator)
    for line in lines_a:
        for part in wrap(escape(line if line in lines_b else f"a: {line}")):
            print_line(part)
    for line in lines_b:
        if line not in lines_a:
            for part in wrap(escape(f"b: {line}")):
                print_line(part)
