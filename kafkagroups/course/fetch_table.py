"""Lesson 05: a table that compares cached offsets with the answers to OffsetFetch requests."""

from __future__ import annotations

from kafkagroups.coordinator import FetchedOffset, GroupCoordinator, TopicPartition
from kafkagroups.groups.classic_group import ClassicGroup

_COLUMN_TITLES = ("partition", "cached", "pending", "all", "by name", "all, stable", "by name, stable")
_NO_OFFSET = "–"


def print_fetches(broker: GroupCoordinator, group_id: str) -> None:
    """Print for each topic-partition of a group its cached offset, its pending commits, and four answers to an
    OffsetFetch.

    - "all": the request asks for all offsets of the group;
    - "by name": the request names the partitions;
    - "stable": the request has requireStable, so the answer for a partition with a pending commit is an error.
    """
    group = broker.manager.get_group(group_id)
    pending = {} if group is None else _list_pending(group)
    committed = {} if group is None else group.offsets.committed
    partitions = _list_row_partitions(broker, {*committed, *pending})
    answers = [
        broker.offset_fetch(group_id, requested_partitions, require_stable=require_stable).offsets
        for require_stable in (False, True)
        for requested_partitions in (None, partitions)
    ]
    rows: list[tuple[str, ...]] = [_COLUMN_TITLES]
    for partition in partitions:
        cached_offset = str(committed[partition].offset) if partition in committed else _NO_OFFSET
        pending_offsets = ", ".join(map(str, pending.get(partition, ()))) or _NO_OFFSET
        answer_texts = (_format_answer(answer.get(partition)) for answer in answers)
        rows.append((str(partition), cached_offset, pending_offsets, *answer_texts))
    print("\n".join(_format_table(rows)))
    print("· means that the answer does not contain the partition")


def _list_row_partitions(broker: GroupCoordinator, used_partitions: set[TopicPartition]) -> list[TopicPartition]:
    """Return `used_partitions`, and one that the group does not use."""
    topics = broker.validator.topics or {}
    all_partitions = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
    unused_partitions = [partition for partition in all_partitions if partition not in used_partitions]
    return [*sorted(used_partitions), *unused_partitions[:1]]


def _list_pending(group: ClassicGroup) -> dict[TopicPartition, list[int]]:
    pending: dict[TopicPartition, list[int]] = {}
    # Commits without a transaction, and the commits of each open transaction.
    for commits in (group.offsets.pending, *group.offsets.transactions.values()):
        for partition, commit in commits.items():
            pending.setdefault(partition, []).append(commit.offset)
    return pending


def _format_table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(_COLUMN_TITLES))]
    return ["".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _format_answer(answer: FetchedOffset | None) -> str:
    if answer is None:
        return "·"
    if answer.error:
        return answer.error.name.removesuffix("_OFFSET_COMMIT")  # UNSTABLE_OFFSET_COMMIT is too long for the column.
    return str(answer.offset)
