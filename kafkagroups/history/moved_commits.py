"""First commits in a new partition of the offsets topic that are lower than the group's offset in the old partition.

If the partition count of the offsets topic grows, groups move to other partitions. There, a group has no offsets at
first, and its first commits can be far behind its offsets in the old partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.event import Event


def describe_lower_commits(events: Sequence[Event]) -> list[Event]:
    """Return the events of all partitions. Those of first commits that are lower than in another partition say so.

    `events` must contain each commit, also those that only move forward. Their order stays.
    """
    if len({event.partition for event in events}) < 2:
        return list(events)
    described = list(events)
    newest: dict[TopicPartition, dict[int | None, Event]] = {}
    """The newest commit of each topic partition, by the partition of the offsets topic."""
    for number in order_by_time(events):
        event = events[number]
        if event.event == "deleted":
            for commits in newest.values():
                commits.pop(event.partition, None)
        key = event.topic_partition
        if key is None:
            continue
        commits = newest.setdefault(key, {})
        if event.event in ("expired", "offset_deleted"):
            commits.pop(event.partition, None)
        elif event.event in ("commit", "transaction_committed") and event.to_offset is not None:
            if event.from_offset is None:
                described[number] = _describe_lower(event, list(commits.values()))
            commits.pop(event.partition, None)
            commits[event.partition] = event
    return described


def _describe_lower(event: Event, others: list[Event]) -> Event:
    """Return the event of a first commit. The last one of `others` is the newest commit in another partition."""
    if not others or event.to_offset is None or (others[-1].to_offset or 0) <= event.to_offset:
        return event
    other = others[-1]
    lower = (
        f"lower than {other.to_offset} ({other.partition}:{other.offset}), its offset in partition {other.partition}"
    )
    return replace(event, what=f"{event.what.removesuffix('.')}; {lower} of __consumer_offsets.")


def order_by_time(events: Sequence[Event]) -> list[int]:
    """Return the numbers of the events in the order of their times. Each partition keeps its order."""
    latest_ms: dict[int | None, int] = {}
    keys = []
    for event in events:
        time_ms = -1 if event.timestamp_ms is None else event.timestamp_ms
        latest_ms[event.partition] = max(time_ms, latest_ms.get(event.partition, -1))
        keys.append(latest_ms[event.partition])
    return sorted(range(len(events)), key=keys.__getitem__)
