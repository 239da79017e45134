"""Lesson 07: what happens to a pending commit while its offset is deleted."""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.api import load
from kafkagroups.coordinator import DiskLogs, GroupCoordinator, HeldLogs, OffsetCommit, TopicPartition
from kafkagroups.course.broker import read_partition_lines, restart_after_crash, start_broker
from kafkagroups.course.folders import make_scratch_folder
from kafkagroups.course.log_lines import Lines

_GROUP = "fraud-check"
_ORDERS_0 = TopicPartition("orders", 0)
_PRODUCER = 1


class Outcome(NamedTuple):
    """The result of a deletion that overtook a commit of offset 41.

    Attributes
    ----------
    log
        The lines of the group's partition.
    commit_error
        The error that the client of the commit received.
    live
        The offset of orders-0 that the living coordinator answers, None if it has none.
    loaded
        The same after a restart of this coordinator.
    loaded_by_the_new
        The same after a load by the new coordinator (4.x).
    """

    log: Lines
    commit_error: str
    live: int | None
    loaded: int | None
    loaded_by_the_new: int | None


def delete_while_pending(how: str, *, plain: bool = False, before: bool = True) -> Outcome:
    """Delete an offset while a newer commit for the same partition is pending, and return the outcome.

    Offset 1 is committed first. Then a commit of 41 is pending, the deletion happens, and finally 41 is completed.

    Parameters
    ----------
    how
        What deletes the offset: the request "OffsetDelete", the request "DeleteGroups", or the deletion of the "topic".
    plain
        If true, 41 is a plain commit, and finally the replicas confirm it. If false, 41 is in a transaction, and
        finally the transaction is committed.
    before
        Whether offset 1 is committed first.
    """
    disk = DiskLogs(make_scratch_folder())
    logs = HeldLogs(disk, holds_answers=False)
    broker = start_broker(logs)
    if before:
        broker.offset_commit(_GROUP, {_ORDERS_0: OffsetCommit(1)})
    logs.holds_answers = plain
    late_commit = {_ORDERS_0: OffsetCommit(41)}
    if plain:
        answer = broker.offset_commit(_GROUP, late_commit)
    else:
        answer = broker.txn_offset_commit(
            _GROUP, late_commit, transactional_id="t", producer_id=_PRODUCER, producer_epoch=0
        )
    _delete(broker, how)
    if plain:
        logs.release()
    else:
        partition = broker.manager.partition_for(_GROUP)
        disk.append_marker(partition, _PRODUCER, 0, commits=True, timestamp=broker.clock.now_ms)
        broker.transaction_completed(_PRODUCER, [partition], commits=True)
    return Outcome(
        log=read_partition_lines(broker, _GROUP),
        commit_error=answer.value[_ORDERS_0].name,
        live=_fetch_offset(broker),
        loaded=_fetch_offset(restart_after_crash(broker)),
        loaded_by_the_new=_load_offset(disk),
    )


def _delete(broker: GroupCoordinator, how: str) -> None:
    if how == "OffsetDelete":
        broker.offset_delete(_GROUP, [_ORDERS_0])
    elif how == "DeleteGroups":
        broker.delete_groups([_GROUP])
    else:
        broker.partitions_deleted([_ORDERS_0])


def _fetch_offset(broker: GroupCoordinator) -> int | None:
    offset = broker.offset_fetch(_GROUP).offsets.get(_ORDERS_0)
    return None if offset is None else offset.offset


def _load_offset(disk: DiskLogs) -> int | None:
    group = load(disk.folder, "new").get(_GROUP)
    offset = None if group is None else group.offsets.get(_ORDERS_0)
    return None if offset is None else offset.offset
