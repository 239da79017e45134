"""Brokers for lessons: each is a `GroupCoordinator` on a simulated clock, so its answers are the same in every run."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafkagroups import coordinator
from kafkagroups.api import load
from kafkagroups.coordinator import DiskLogs, GroupCoordinator, HeldLogs, OffsetCommit, OffsetsLogs, TopicPartition
from kafkagroups.coordinator.conversation import make_topic_id
from kafkagroups.coordinator.logs import AppendCallback
from kafkagroups.coordinator.messages import CommitErrors
from kafkagroups.coordinator.request_validation import Authorizer, allow_all
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.course.log_lines import Lines, collect_names, read_batch_lines
from kafkagroups.course.small_logs import START_MS
from kafkagroups.errors import UsageError
from kafkagroups.log.batch import Batch
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import decode
from kafkagroups.repair.edit import cut

SHOP_TOPICS = {"orders": 3, "payments": 2, "stock": 1, "promo-spring": 1}
"""The partition count of each topic of Harbour Coffee, the coffee shop of the lessons."""

# Without a handler, Python prints the coordinator's warnings into the notebook.
logging.getLogger("kafkagroups.coordinator").addHandler(logging.NullHandler())


def start_broker(
    logs: OffsetsLogs | str | Path | None = None,
    kafka: str = "3.9.2",
    *,
    now_ms: int = START_MS,
    topics: Mapping[str, int] | None = SHOP_TOPICS,
    authorize: Authorizer = allow_all,
    holds_answers: bool = False,
    **settings_changes: Any,
) -> GroupCoordinator:
    """Start a broker that is the coordinator for all partitions of the offsets topic, and let it load them.

    `logs` are the logs of the offsets topic, or a folder of partition folders, which are copied so that the lesson's
    data does not change; None: the topic is empty. `topics` has the partition count of each topic, whose id is made
    from its name; None: every topic exists. `authorize` says whether the client may do an operation on a resource, from
    the operation and the resource's type and name. With `holds_answers`, the replicas confirm an append only when
    `broker.manager.logs.release` is called (`HeldLogs`). `settings_changes` are the settings
    (`kafkagroups.coordinator.Settings`) that differ from the version's defaults.

    Raises UsageError if no coordinator of this package has the rules of the version `kafka`.
    """
    settings = replace(coordinator.read_settings(kafka, {}), **settings_changes)
    if logs is None or isinstance(logs, str | Path):
        folder = make_scratch_folder()
        partition_folders = [] if logs is None else Path(logs).glob("__consumer_offsets-*")
        for partition_folder in partition_folders:
            shutil.copytree(partition_folder, folder / partition_folder.name)
        logs = coordinator.open_logs(folder, settings)
    if holds_answers:
        logs = HeldLogs(logs)
    topic_ids = {name: make_topic_id(name) for name in topics or ()}
    return coordinator.start_broker(
        logs, coordinator.Clock(now_ms), settings, topics=topics, topic_ids=topic_ids, authorize=authorize
    )


def restart_after_crash(broker: GroupCoordinator) -> GroupCoordinator:
    """Start a new broker on the logs of a broker that crashed, with the same time and settings.

    The memory is lost, and requests without a response never get one. If the crashed broker held back answers
    (`HeldLogs`), the new one does not.
    """
    broker.clock.clear_timers()
    logs = broker.manager.logs
    return _start_next_broker(broker, logs.logs if isinstance(logs, HeldLogs) else logs)


def _start_next_broker(broker: GroupCoordinator, logs: OffsetsLogs) -> GroupCoordinator:
    return coordinator.start_broker(
        logs,
        coordinator.Clock(broker.clock.now_ms),
        broker.settings,
        topics=broker.validator.topics,
        topic_ids=broker.validator.topic_ids,
        authorize=broker.validator.authorize,
        zookeeper=broker.validator.zookeeper,
    )


class Replica:
    """A follower's read-only copy of a partition's log: the batches that begin below `end_offset`, or all of them."""

    def __init__(self, logs: OffsetsLogs, partition: int, end_offset: int | None = None) -> None:
        self.partition = partition
        self.batches = [batch for batch in logs.read(partition) if end_offset is None or batch.base_offset < end_offset]

    def magic(self, partition: int) -> int | None:
        return 2

    def append(self, partition: int, batch: coordinator.NewBatch, callback: AppendCallback) -> None:
        raise UsageError("the log of a follower cannot be appended to; append to the leader's log")

    def read(self, partition: int) -> Iterable[Batch]:
        return self.batches if partition == self.partition else ()


def start_follower(broker: GroupCoordinator, group: str, end_offset: int | None = None) -> GroupCoordinator:
    """Start the broker that would become the group's coordinator if `broker` crashed now.

    The new broker has a `Replica` of the partition that stores the group, up to `end_offset`.
    """
    manager = broker.manager
    return _start_next_broker(broker, Replica(manager.logs, manager.partition_for(group), end_offset))


def continue_consumer_group(log: str | Path, group_id: str, end_offset: int) -> Path:
    """Return a copy of a partition up to `end_offset`, which a 4.3.1 broker has loaded and continued.

    Each member of the group sends it one heartbeat, with the partitions that it may read.
    """
    copy = make_scratch_folder() / Path(log).name
    cut(log, copy, end_offset)
    logs = DiskLogs(copy.parent)
    ids = {name: topic_id for topic_id, name in collect_names(log).topics.items()}
    rules = coordinator.Settings("4.3.1")
    broker = coordinator.start_broker(logs, coordinator.Clock(START_MS), rules, topics=SHOP_TOPICS, topic_ids=ids)
    members: dict[str, Any] = load(copy, "new")[group_id].members
    for member_id, member in members.items():
        owned = {topic.topic_id: topic.partitions for topic in member.assignment.assigned_partitions}
        client = {"client_id": member.metadata.client_id}
        broker.consumer_group_heartbeat(group_id, member_id, member.member_epoch, topic_partitions=owned, **client)
    logs.close()
    return copy


def read_partition_lines(broker: GroupCoordinator, group: str) -> Lines:
    log = broker.manager.logs.read(broker.manager.partition_for(group))
    return Lines(line for batch in log for line in read_batch_lines(batch))


def commit_again(broker: GroupCoordinator, batch: Batch) -> coordinator.ResponseFuture[CommitErrors]:
    """Send the commit that is stored in a batch again, at the time of the batch's first record.

    All records of the batch must belong to one group. Raises UsageError if a record is not a committed offset.
    """
    offsets: dict[TopicPartition, OffsetCommit] = {}
    groups: set[str] = set()
    for log_record in batch.records:
        record = decode(log_record.key, log_record.value)
        if not isinstance(record.key, OffsetCommitKey) or not isinstance(record.value, OffsetCommitValue):
            raise UsageError(f"batch {batch.base_offset}: expected committed offsets, found {record.name}")
        value = record.value
        partition = TopicPartition(record.key.topic, record.key.partition)
        offsets[partition] = OffsetCommit(value.offset, value.metadata, value.leader_epoch)
        groups.add(record.key.group)
    broker.clock.advance_to(batch.records[0].timestamp)
    return broker.offset_commit(groups.pop(), offsets)


def commit_in_transaction(
    broker: GroupCoordinator, group: str, producer_id: int, offsets: Mapping[str, int]
) -> coordinator.ResponseFuture[CommitErrors]:
    """Send a TxnOffsetCommit with an offset for each partition, such as "orders-0"."""
    commits = {TopicPartition.parse(partition): OffsetCommit(offset) for partition, offset in offsets.items()}
    return broker.txn_offset_commit(group, commits, transactional_id=group, producer_id=producer_id, producer_epoch=0)


def end_transaction(broker: GroupCoordinator, group: str, producer_id: int, *, commits: bool) -> str:
    """Do what a transaction coordinator does at the end of a transaction: append its marker and tell the coordinator.

    The marker goes into the partition that stores `group`, with producer epoch 0. Returns "COMMIT" or "ABORT".
    """
    logs = broker.manager.logs
    disk_logs = logs.logs if isinstance(logs, HeldLogs) else logs
    assert isinstance(disk_logs, DiskLogs)
    partition = broker.manager.partition_for(group)
    disk_logs.append_marker(partition, producer_id, 0, commits=commits, timestamp=broker.clock.now_ms)
    broker.transaction_completed(producer_id, [partition], commits=commits)
    return "COMMIT" if commits else "ABORT"


class ReadCountingLogs(DiskLogs):
    """The logs in a folder of partition folders, which count in `records_read` the records that were read so far."""

    records_read = 0

    def read(self, partition: int) -> Iterator[Batch]:
        for batch in super().read(partition):
            self.records_read += batch.count
            yield batch
