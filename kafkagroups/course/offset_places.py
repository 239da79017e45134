"""Lesson 04: where the offsets of one partition are: pending, in the log, in the cache.

A pending commit waits until the replicas have its record, or until its transaction ends. The cache is the coordinator's
memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkagroups.coordinator import GroupCoordinator, ResponseFuture, TopicPartition
from kafkagroups.coordinator.results import CommitErrors
from kafkagroups.course.log_lines import read_batch_lines

Commits = Mapping[int, ResponseFuture[CommitErrors]]
"""The keys are committed offsets. The value of an offset is the response to the commit of this offset."""


class OffsetPlaces(NamedTuple):
    """The offsets of one partition in each place, as text. The text is "–" if a place contains no offset.

    Attributes
    ----------
    pending
        The offsets of pending commits. A question mark means that the commit waits for the end of its transaction.
    log
        The offsets and transaction markers in the log. An offset of a transaction has a question mark, and a marker is
        "commit!" or "abort!".
    cache
        The offset in the coordinator's cache. An OffsetFetch returns this offset.
    stable_fetch
        The offset or error that an OffsetFetch with requireStable returns.
    responses
        The error in the response to each commit, or "waits" if there is no response yet.
    """

    pending: str
    log: str
    cache: str
    stable_fetch: str
    responses: str


def read_offset_places(
    broker: GroupCoordinator, group: str, partition: TopicPartition, commits: Commits | None = None
) -> OffsetPlaces:
    """Return where the group's offsets for this partition are.

    `commits` contains the responses to the commits that clients sent. Without `commits`, the result contains no
    responses.
    """
    cached_group = broker.manager.get_group(group)
    pending_offsets = []
    if cached_group is not None and partition in cached_group.offsets.pending:
        pending_offsets.append(str(cached_group.offsets.pending[partition].offset))
    pending_offsets += list_transactional_offsets(broker, group, partition)
    stable_answer = broker.offset_fetch(group, [partition], require_stable=True).offsets[partition]
    responses = [
        f"{offset}: {response.value[partition].name if response.done else 'waits'}"
        for offset, response in (commits or {}).items()
    ]
    return OffsetPlaces(
        ", ".join(pending_offsets) or "–",
        " ".join(_list_log_entries(broker, group, partition)) or "–",
        read_cached_offset(broker, group, partition),
        stable_answer.error.name if stable_answer.error else _format_offset(stable_answer.offset),
        ", ".join(responses) or "–",
    )


def print_offset_places(broker: GroupCoordinator, group: str, partition: TopicPartition) -> None:
    """Print where the group's offsets for this partition are.

    Parameters
    ----------
    broker
        The coordinator, as `start_broker` returns it.
    group
        The group id.
    partition
        The partition whose offsets are printed.
    """
    places = read_offset_places(broker, group, partition)
    print(f"pending {places.pending}   log {places.log}   cache {places.cache}   stable fetch {places.stable_fetch}")


def read_cached_offset(broker: GroupCoordinator, group: str, partition: TopicPartition) -> str:
    """Return the offset that an OffsetFetch returns, or "–" if there is no offset."""
    return _format_offset(broker.offset_fetch(group, [partition]).offsets[partition].offset)


def list_transactional_offsets(broker: GroupCoordinator, group: str, partition: TopicPartition) -> list[str]:
    """Return the offsets that wait for the end of their transaction. Each text is an offset and a question mark."""
    cached_group = broker.manager.get_group(group)
    transactions = cached_group.offsets.transactions.values() if cached_group is not None else ()
    return [f"{offsets[partition].offset}?" for offsets in transactions if partition in offsets]


def _list_log_entries(broker: GroupCoordinator, group: str, partition: TopicPartition) -> list[str]:
    """Return the group's offsets for the partition, and all transaction markers, in the order of the log."""
    entries = []
    for batch in broker.manager.logs.read(broker.manager.partition_for(group)):
        for line in read_batch_lines(batch):
            if line.record_type in ("commit", "abort"):
                entries.append(f"{line.record_type}!")
            elif line.group == group and line.partition == str(partition):
                entries.append(f"{line.value}" + ("" if line.producer is None else "?"))
    return entries


def _format_offset(offset: int) -> str:
    return "–" if offset == -1 else str(offset)
