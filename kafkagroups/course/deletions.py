"""Lesson 09: deletions of an offset while a newer commit for the same topic-partition is pending."""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.api import load
from kafkagroups.coordinator import DiskLogs, GroupCoordinator, HeldLogs, OffsetCommit, TopicPartition
from kafkagroups.course.broker import read_partition_lines, restart_after_crash, start_broker
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.course.log_lines import Lines

_GROUP = "fraud-check"
_ORDERS_0 = TopicPartition("orders", 0)
_PRODUCER = 1


class DeletionResult(NamedTuple):
    """The lines of the group's partition, the error of the commit, and the offset of orders-0 (None: there is none).

    `live_offset` is the coordinator's at the end, `loaded_offset` after a restart, and `new_coordinator_offset` what
    the new coordinator of Kafka 4.x loads from this log.
    """

    log: Lines
    commit_error: str
    live_offset: int | None
    loaded_offset: int | None
    new_coordinator_offset: int | None


def delete_while_pending(cause: str, *, transactional: bool = True, commits_first: bool = True) -> DeletionResult:
    """Delete the offset of orders-0 while a commit of offset 41 is pending, then complete the commit.

    The cause is the request "OffsetDelete" or "DeleteGroups", or the deletion of the "topic". A `transactional` commit
    waits for the end of its transaction, another one for the replicas. With `commits_first`, offset 1 is committed
    before.
    """
    disk_logs = DiskLogs(make_scratch_folder())
    logs = HeldLogs(disk_logs, holds_answers=False)
    broker = start_broker(logs)
    if commits_first:
        broker.offset_commit(_GROUP, {_ORDERS_0: OffsetCommit(1)})
    # Held answers stand for replicas that have not confirmed the commit.
    logs.holds_answers = not transactional
    pending_commit = {_ORDERS_0: OffsetCommit(41)}
    if transactional:
        response = broker.txn_offset_commit(
            _GROUP, pending_commit, transactional_id="t", producer_id=_PRODUCER, producer_epoch=0
        )
    else:
        response = broker.offset_commit(_GROUP, pending_commit)
    _delete_offset(broker, cause)
    if transactional:
        partition = broker.manager.partition_for(_GROUP)
        disk_logs.append_marker(partition, _PRODUCER, 0, commits=True, timestamp=broker.clock.now_ms)
        broker.transaction_completed(_PRODUCER, [partition], commits=True)
    else:
        logs.release()
    return DeletionResult(
        log=read_partition_lines(broker, _GROUP),
        commit_error=response.value[_ORDERS_0].name,
        live_offset=_fetch_offset(broker),
        loaded_offset=_fetch_offset(restart_after_crash(broker)),
        new_coordinator_offset=_load_with_new_coordinator(disk_logs),
    )


def _delete_offset(broker: GroupCoordinator, cause: str) -> None:
    if cause == "OffsetDelete":
        broker.offset_delete(_GROUP, [_ORDERS_0])
    elif cause == "DeleteGroups":
        broker.delete_groups([_GROUP])
    else:
        broker.partitions_deleted([_ORDERS_0])


def _fetch_offset(broker: GroupCoordinator) -> int | None:
    fetched_offset = broker.offset_fetch(_GROUP).offsets.get(_ORDERS_0)
    return None if fetched_offset is None else fetched_offset.offset


def _load_with_new_coordinator(disk_logs: DiskLogs) -> int | None:
    group = load(disk_logs.folder, "new").get(_GROUP)
    committed_offset = None if group is None else group.offsets.get(_ORDERS_0)
    return None if committed_offset is None else committed_offset.offset
