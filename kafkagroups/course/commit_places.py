"""The places of one partition's offsets: pending, in the log, in the cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkagroups.coordinator import GroupCoordinator, ResponseFuture, TopicPartition
from kafkagroups.coordinator.results import CommitErrors
from kafkagroups.course.log_lines import read_batch_lines

Commits = Mapping[int, ResponseFuture[CommitErrors]]
"""The responses to commits, by committed offset."""


class Places(NamedTuple):
    """The places of one partition's offsets, as text; "–" if a place is empty.

    Attributes
    ----------
    pending
        Unfinished commits. A question mark: the commit waits for a transaction marker.
    log
        The offsets and markers in the log.
    cache
        The offset that a fetch returns.
    stable
        The answer to a fetch with requireStable.
    responses
        The error of each commit, or "waits".
    """

    pending: str
    log: str
    cache: str
    stable: str
    responses: str


def read_places(
    broker: GroupCoordinator, group: str, partition: TopicPartition, commits: Commits | None = None
) -> Places:
    """Return the places of the group's offsets for this partition, with the responses to `commits`."""
    found = broker.manager.get_group(group)
    pending = []
    if found is not None and partition in found.offsets.pending:
        pending.append(str(found.offsets.pending[partition].offset))
    pending += list_transactional(broker, group, partition)
    stable = broker.offset_fetch(group, [partition], require_stable=True).offsets[partition]
    responses = [
        f"{offset}: {response.value[partition].name if response.done else 'waits'}"
        for offset, response in (commits or {}).items()
    ]
    return Places(
        ", ".join(pending) or "–",
        " ".join(_list_log(broker, group, partition)) or "–",
        read_cached_offset(broker, group, partition),
        stable.error.name if stable.error else _format_offset(stable.offset),
        ", ".join(responses) or "–",
    )


def print_places(broker: GroupCoordinator, group: str, partition: TopicPartition) -> None:
    """Print the places of the group's offsets for this partition.

    Parameters
    ----------
    broker
        The coordinator, as `start_broker` returns it.
    group
        The group id.
    partition
        The partition whose offsets are printed.
    """
    places = read_places(broker, group, partition)
    print(f"pending {places.pending}   log {places.log}   cache {places.cache}   stable fetch {places.stable}")


def read_cached_offset(broker: GroupCoordinator, group: str, partition: TopicPartition) -> str:
    """Return the offset that a fetch answers, or "–"."""
    return _format_offset(broker.offset_fetch(group, [partition]).offsets[partition].offset)


def list_transactional(broker: GroupCoordinator, group: str, partition: TopicPartition) -> list[str]:
    """Return the offsets that wait for a transaction marker, each with a question mark."""
    found = broker.manager.get_group(group)
    transactions = found.offsets.transactions.values() if found is not None else ()
    return [f"{pending[partition].offset}?" for pending in transactions if partition in pending]


def _list_log(broker: GroupCoordinator, group: str, partition: TopicPartition) -> list[str]:
    entries = []
    for batch in broker.manager.logs.read(broker.manager.partition_for(group)):
        for line in read_batch_lines(batch):
            if line.about in ("commit", "abort"):
                entries.append(f"{line.about}!")
            elif line.group == group and line.partition == str(partition):
                entries.append(f"{line.value}" + ("" if line.producer is None else "?"))
    return entries


def _format_offset(offset: int) -> str:
    return "–" if offset == -1 else str(offset)
