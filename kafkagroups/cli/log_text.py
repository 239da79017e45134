"""What the texts of several commands say about a log: cuts, gaps, and the topic's partition count."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from kafkagroups.cli.options import DEFAULT_PARTITIONS
from kafkagroups.cli.output import format_time, print_text
from kafkagroups.history.words import count_of, describe_topic, list_names
from kafkagroups.loading.topic_partitions import PartitionCountChange, TopicPartitions
from kafkagroups.log.damage import Gap
from kafkagroups.log.partitioning import partition_for

MOVES_SHOWN = 20
"""A text names at most this number of groups that have moved to another partition."""


def name_partition(partition: int | None) -> str:
    """Return the name of a partition for a sentence. None is a log whose folder has no number."""
    return "The log" if partition is None else f"Partition {partition}"


def print_gaps(gaps_by_partition: Mapping[int | None, list[Gap] | None]) -> None:
    """Print a line for each place with damaged bytes that the reader has skipped."""
    for partition, gaps in gaps_by_partition.items():
        for gap in gaps or []:
            print_text(f"{name_partition(partition)} has a gap: {gap}.")


def print_cut(args: argparse.Namespace, next_offsets: Mapping[int | None, int]) -> None:
    """Print where --until or --until-time has cut the log: the first offset of each partition that was not read."""
    if args.until is None and args.until_time is None:
        return
    offsets = (
        f"{offset}" if partition is None else f"{offset} in partition {partition}"
        for partition, offset in next_offsets.items()
    )
    print_text(f"The first offset after the cut is {', '.join(offsets)}.")


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


def print_topic_partitions(topic: TopicPartitions, coordinator: str, group: str | None = None) -> None:
    """Print what was assumed about the partition count, whether it was changed, and which partitions are missing.

    A line is printed only if the count can change an answer. If `group` is not None, it must concern this group.
    """
    for line in describe_topic_partitions(topic, coordinator, group):
        print_text(line)


def describe_topic_partitions(topic: TopicPartitions, coordinator: str, group: str | None = None) -> list[str]:
    """Return the lines that `print_topic_partitions` prints."""
    lines: list[str] = []
    change = topic.changed
    if change is not None and (group is None or group in change.groups):
        lines.append(_describe_change(change, [group] if group is not None else change.groups))
    shared = sorted(name for name in topic.shared_groups if group in (None, name))
    if coordinator == "classic" and shared:
        lines.append(
            "A classic broker answers from the partition that it loads first, and brokers load partitions in any "
            "order. Here the lowest partition is first. Another order can change the answers for: "
            f"{list_names(shared)}."
        )
    return [*lines, *describe_topic(topic, coordinator, group)]


def _describe_change(change: PartitionCountChange, groups: list[str]) -> str:
    moves = [
        f"{group} ({partition_for(group, change.from_count)} → {partition_for(group, change.to_count)})"
        for group in groups
    ]
    more = f" and {len(moves) - MOVES_SHOWN} more" if len(moves) > MOVES_SHOWN else ""
    return (
        f"The topic's partition count was changed from {change.describe_old_counts()} to {change.to_count}, at the "
        f"latest at {format_time(change.since_ms)} UTC. These groups have moved to another partition: "
        f"{', '.join(moves[:MOVES_SHOWN])}{more}."
    )
