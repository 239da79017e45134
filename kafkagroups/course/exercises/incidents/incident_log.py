"""The log of an incident, to which batches are appended, and the consumers of its groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kafkagroups.coordinator import Consumer, DiskLogs, GroupCoordinator, NewBatch, OffsetCommit
from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.log.batch import NO_PRODUCER_ID, TRANSACTIONAL
from kafkagroups.log.segment_file import SEGMENT_BYTES, partition_for
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode

_OFFSET = 1
KeyAndValue = tuple[bytes, bytes | None]


class IncidentLog:
    """The partitions of an offsets topic in `folder`, to which batches are appended."""

    def __init__(self, folder: Path, partitions: int = 50, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.partitions = partitions
        self.logs = DiskLogs(folder, segment_bytes=segment_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.logs.close()

    def append(self, partition: int, batch: NewBatch) -> int:
        answers: list[tuple[Errors, int]] = []
        self.logs.append(partition, batch, lambda error, offset: answers.append((error, offset)))
        [(error, offset)] = answers
        if error is not Errors.NONE:
            raise UsageError(f"the log refused the batch: {error.name}")
        return offset

    def commit(
        self,
        group: str,
        offsets: Mapping[str, int | None],
        time_ms: int,
        *,
        version: int = 3,
        expire_ms: int = -1,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = 0,
    ) -> int:
        """Append one batch with a commit or a tombstone (None) for each topic-partition, and return its first offset.

        `version` is the version of the values, and `expire_ms` is for version 1.
        """
        pairs = []
        for name, offset in offsets.items():
            key = OffsetCommitKey(group, *TopicPartition.parse(name))
            value = None if offset is None else OffsetCommitValue(offset, -1, "", time_ms, expire_ms)
            pairs.append(_encode(Record(_OFFSET, key, value, None if value is None else version)))
        is_transactional = producer_id != NO_PRODUCER_ID
        batch = NewBatch(
            pairs,
            time_ms,
            base_sequence=0 if is_transactional else -1,
            producer_id=producer_id,
            producer_epoch=producer_epoch if is_transactional else -1,
            attributes=TRANSACTIONAL if is_transactional else 0,
        )
        return self.append(partition_for(group, self.partitions), batch)

    def append_records(self, group: str, pairs: Sequence[KeyAndValue], time_ms: int) -> int:
        return self.append(partition_for(group, self.partitions), NewBatch(pairs, time_ms))

    def end_transaction(
        self, partition: int, producer_id: int, time_ms: int, *, commits: bool, producer_epoch: int = 0
    ) -> int:
        return self.logs.append_marker(partition, producer_id, producer_epoch, commits=commits, timestamp=time_ms)


def name_partition(group: str, partitions: int = 50) -> str:
    return f"__consumer_offsets-{partition_for(group, partitions)}"


def _encode(record: Record) -> KeyAndValue:
    key, value = encode(record)
    assert key is not None
    return key, value


_SESSION_TIMEOUT_MS = 30 * 60_000
"""Longer than usual, because the logs of the incidents have a heartbeat only every few minutes."""


def make_consumer(broker: GroupCoordinator, group: str, number: int, partitions: Mapping[str, int]) -> Consumer:
    """Return a consumer that has not joined yet. The group "oven-sync" reads the topic "oven"."""
    topic = group.split("-")[0]
    return Consumer(
        broker,
        group,
        f"{group}-{number}",
        (topic,),
        partitions,
        session_timeout_ms=_SESSION_TIMEOUT_MS,
        protocol_version=1,
    )


def join(broker: GroupCoordinator, *consumers: Consumer, records: int = 0) -> None:
    """Let consumers poll until each has an assignment. A second passes after each round."""
    while not all(consumer.assignment for consumer in consumers):
        for consumer in consumers:
            consumer.poll(records)
        broker.clock.advance(1000)


def commit_offsets(broker: GroupCoordinator, group: str, offsets: Mapping[str, int], retention_ms: int = -1) -> None:
    commits = {TopicPartition.parse(name): OffsetCommit(offset) for name, offset in offsets.items()}
    broker.offset_commit(group, commits, retention_ms=retention_ms)
