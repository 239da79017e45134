"""Text about the topic's partition count: what was assumed, whether it was changed, which partitions are missing.

A line is printed only if the partition count can change an answer.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.cli import options
from kafkagroups.cli.output import escape, print_line, wrap
from kafkagroups.history.event import list_names
from kafkagroups.history.partition_count_text import describe_assumption, describe_beyond, describe_missing
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
    assumption = describe_assumption(topic, coordinator, group)
    missing = describe_missing(topic) if group is None else None
    lines += [line for line in (assumption, describe_beyond(topic), missing) if line is not None]
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
