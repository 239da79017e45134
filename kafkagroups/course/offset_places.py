"""Lesson 04: where the offsets of one partition are: pending, in the log, in the cache.

A pending commit waits for the replicas or for the end of its transaction. The cache is the memory of the coordinator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkagroups.coordinator import GroupCoordinator, ResponseFuture, TopicPartition
from kafkagroups.coordinator.messages import CommitErrors
from kafkagroups.course.log_lines import read_batch_lines

ResponseByOffset = Mapping[int, ResponseFuture[CommitErrors]]
"""The responses to commits of one partition, by the offset that the client committed."""


class OffsetPlaces(NamedTuple):
    """The offsets of one partition in each place, as text, or "–" for a place without one.

    Attributes
    ----------
    pending
        For example "6", or "6?" for a commit that waits for the end of its transaction.
    log
        For example "5 6? commit!". Here, a question mark means that the offset belongs to a transaction.
    cache
        The offset that an OffsetFetch returns.
    stable_fetch
        The answer to an OffsetFetch with requireStable: UNSTABLE_OFFSET_COMMIT while a commit is pending.
    responses
        The error in the response to each commit, or "waits" without a response: "5: NONE, 6: waits".
    """

    pending: str
    log: str
    cache: str
    stable_fetch: str
    responses: str


def read_offset_places(
    broker: GroupCoordinator, group: str, partition: TopicPartition, response_by_offset: ResponseByOffset | None = None
) -> OffsetPlaces:
    cached_group = broker.manager.get_group(group)
    pending_offsets = []
    if cached_group is not None and partition in cached_group.offsets.pending:
        pending_offsets.append(str(cached_group.offsets.pending[partition].offset))
    pending_offsets += list_transactional_offsets(broker, group, partition)
    stable_answer = broker.offset_fetch(group, [partition], require_stable=True).offsets[partition]
    responses = [
        f"{offset}: {response.value[partition].name if response.done else 'waits'}"
        for offset, response in (response_by_offset or {}).items()
    ]
    return OffsetPlaces(
        pending=", ".join(pending_offsets) or "–",
        log=" ".join(_list_log_entries(broker, group, partition)) or "–",
        cache=read_cached_offset(broker, group, partition),
        stable_fetch=stable_answer.error.name if stable_answer.error else _format_offset(stable_answer.offset),
        responses=", ".join(responses) or "–",
    )


def read_cached_offset(broker: GroupCoordinator, group: str, partition: TopicPartition) -> str:
    return _format_offset(broker.offset_fetch(group, [partition]).offsets[partition].offset)


def list_transactional_offsets(broker: GroupCoordinator, group: str, partition: TopicPartition) -> list[str]:
    """Return the offsets that wait for the end of their transaction, for example "6?"."""
    cached_group = broker.manager.get_group(group)
    transactions = cached_group.offsets.transactions.values() if cached_group is not None else ()
    return [f"{offsets[partition].offset}?" for offsets in transactions if partition in offsets]


def _list_log_entries(broker: GroupCoordinator, group: str, partition: TopicPartition) -> list[str]:
    entries = []
    for batch in broker.manager.logs.read(broker.manager.partition_for(group)):
        for line in read_batch_lines(batch):
            if line.record_type in ("commit", "abort"):
                entries.append(f"{line.record_type}!")
            elif line.group == group and line.partition == str(partition):
                is_transactional = line.producer is not None
                entries.append(f"{line.value}?" if is_transactional else f"{line.value}")
    return entries


def _format_offset(offset: int) -> str:
    # The response to an OffsetFetch contains -1 for a partition without an offset.
    return "–" if offset == -1 else str(offset)
