"""Lesson 08: the end of a transaction, and the deletion of an offset while a transaction is open."""

from __future__ import annotations

from collections.abc import Iterator

from kafkagroups.coordinator import DiskLogs, GroupCoordinator, OffsetCommit, TopicPartition
from kafkagroups.course.broker import restart_after_crash
from kafkagroups.course.compared_brokers import Step

_GROUP = "fraud-check"
_PAYMENTS_0 = TopicPartition("payments", 0)


def end_transaction(broker: GroupCoordinator, group: str, producer_id: int, *, commits: bool) -> str:
    """Do what a transaction coordinator does at the end of a transaction: append its marker and tell the coordinator.

    The marker is appended to the partition that stores `group`, with producer epoch 0. Returns "COMMIT" or "ABORT". The
    broker's logs must be on disk.
    """
    logs = broker.manager.logs
    assert isinstance(logs, DiskLogs)
    partition = broker.manager.partition_for(group)
    logs.append_marker(partition, producer_id, 0, commits=commits, timestamp=broker.clock.now_ms)
    broker.transaction_completed(producer_id, [partition], commits=commits)
    return "COMMIT" if commits else "ABORT"


def delete_while_pending(broker: GroupCoordinator, request: str = "OffsetDelete") -> Iterator[Step]:
    """Delete the committed offset 20 of a partition while offset 41 is pending, then commit the transaction.

    `request` is "OffsetDelete" or "DeleteGroups", or "the topic is deleted". This is a script for `compare_brokers`.
    """
    yield "a plain commit of 20", broker.offset_commit(_GROUP, {_PAYMENTS_0: OffsetCommit(20)})
    yield (
        "a commit of 41 in a transaction",
        broker.txn_offset_commit(
            _GROUP, {_PAYMENTS_0: OffsetCommit(41)}, transactional_id="fraud-check", producer_id=1, producer_epoch=0
        ),
    )
    if request == "OffsetDelete":
        yield request, broker.offset_delete(_GROUP, [_PAYMENTS_0])
    elif request == "DeleteGroups":
        yield request, broker.delete_groups([_GROUP])
    else:
        broker.partitions_deleted([_PAYMENTS_0])
        yield request, ""
    yield "the transaction ends", end_transaction(broker, _GROUP, 1, commits=True)
    yield "a fetch", broker.offset_fetch(_GROUP)
    yield "a fetch after a failover", restart_after_crash(broker).offset_fetch(_GROUP)
