"""The log of an incident, to which batches are appended, and the consumers of its groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from kafkagroups.coordinator import Consumer, DiskLogs, GroupCoordinator, NewBatch, OffsetCommit
from kafkagroups.coordinator.conversation import make_topic_id
from kafkagroups.coordinator.messages import Errors
from kafkagroups.course.small_logs import KeyAndValue, encode_pair
from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.log.segment_file import partition_for
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record
from kafkagroups.records.wire import UUID

Producer = tuple[int, int]
"""The id and the epoch of a producer that commits in transactions."""


@dataclass(eq=False, kw_only=True)
class IncidentLog(DiskLogs):
    """The partitions of an offsets topic in `folder`. At the end of a `with` block, the files are closed.

    `value_version` is that of the commits: since 4.1, it is 4, and a plain commit has the id of its topic.
    """

    partitions: int = 50
    value_version: int = 4

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def commit(self, group: str, offsets: Mapping[str, int], time_ms: int, producer: Producer | None = None) -> None:
        """Append one batch with a commit for each topic-partition."""
        pairs = []
        for name, offset in offsets.items():
            key = OffsetCommitKey(group, *TopicPartition.parse(name))
            has_topic_id = self.value_version >= 4 and producer is None
            topic_id = make_topic_id(key.topic) if has_topic_id else UUID.default
            value = OffsetCommitValue(offset, -1, "", time_ms, topic_id=topic_id)
            pairs.append(encode_pair(Record(1, key, value, self.value_version)))
        self.append_pairs(partition_for(group, self.partitions), pairs, time_ms, producer)

    def append_pairs(
        self, partition: int, pairs: Sequence[KeyAndValue], time_ms: int, producer: Producer | None = None
    ) -> None:
        batch = NewBatch.of_coordinator(pairs, time_ms, *producer) if producer else NewBatch(pairs, time_ms)
        error, _ = self._append(partition, batch)
        if error is not Errors.NONE:
            raise UsageError(f"the log refused the batch: {error.name}")


def name_partition(group: str) -> str:
    return f"__consumer_offsets-{partition_for(group, 50)}"


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
