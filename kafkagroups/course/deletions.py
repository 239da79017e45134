"""What lesson 07 runs: three groups over a weekend, and deletions while a transaction is open."""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.api import load
from kafkagroups.coordinator import DiskLogs, HeldLogs, OffsetCommit, TopicPartition
from kafkagroups.course.broker import coordinator, crashed, written
from kafkagroups.course.life import Life
from kafkagroups.course.lines import Lines
from kafkagroups.course.small_logs import HOUR, scratch


def over_the_weekend(kafka: str) -> dict[str, dict[str, int]]:
    """What three groups have left on Monday at 8, of a retention of a day; the last letters went on Friday at 18."""
    broker = coordinator(
        kafka=kafka, offsets_retention_ms=24 * HOUR, topics=None,
        group_max_session_timeout_ms=2**31 - 1, group_initial_rebalance_delay_ms=0,
    )  # fmt: skip
    broker.start_sweeps()
    mailer, dashboard, nightly = (Life(name, tells=False, broker=broker) for name in ("mailer", "dashboard", "nightly"))
    _comes(mailer, 100 * HOUR)
    mailer.commit("mailer", {"orders-0": 900})
    dashboard.commit("", {"orders-0": 910})
    for night in range(3):  # 18:00 plus 8 hours is 2 in the morning
        broker.clock.advance_to(mailer.start_ms + (8 + 24 * night) * HOUR)
        _comes(nightly, 10 * HOUR)
        nightly.commit("nightly", {"orders-0": 920 + night})
        nightly.wait(3600)
        nightly.leave("nightly")
    broker.clock.advance_to(mailer.start_ms + 62 * HOUR)
    return {
        life.group_id: {str(each): there.offset for each, there in broker.offset_fetch(life.group_id).offsets.items()}
        for life in (mailer, dashboard, nightly)
    }


class Outcome(NamedTuple):
    """The log, what the client of 41 heard, and what is answered for orders-0: by the living coordinator, after a load
    by it, and by 4.x."""

    log: Lines
    heard: str
    live: int | None
    loaded: int | None
    loaded_by_the_new: int | None


def deleted_while_pending(how: str, *, plain: bool = False, before: bool = True) -> Outcome:
    """1 is committed (`before`), 41 is on its way; somebody deletes; then 41 comes through.

    41 is in a transaction, which is committed at last; or it is a `plain` commit, which the replicas have at last.
    `how` is "OffsetDelete", "DeleteGroups" or "topic".
    """
    orders, name = TopicPartition("orders", 0), "fraud-check"
    disk = DiskLogs(scratch())
    logs = HeldLogs(disk, holds=False)
    broker = coordinator(logs)
    if before:
        broker.offset_commit(name, {orders: OffsetCommit(1)})
    logs.holds = plain
    late = {orders: OffsetCommit(41)}
    if plain:
        answer = broker.offset_commit(name, late)
    else:
        answer = broker.txn_offset_commit(name, late, transactional_id="t", producer_id=1, producer_epoch=0)
    if how == "OffsetDelete":
        broker.offset_delete(name, [orders])
    elif how == "DeleteGroups":
        broker.delete_groups([name])
    else:
        broker.partitions_deleted([orders])
    if plain:
        logs.release()
    else:
        home = broker.manager.partition_for(name)
        disk.append_marker(home, 1, 0, commits=True, timestamp=broker.clock.now_ms)
        broker.transaction_completed(1, [home], commits=True)
    lines = written(broker, name)
    live = broker.offset_fetch(name).offsets.get(orders)
    heir = crashed(broker).offset_fetch(name).offsets.get(orders)
    new = load(disk.folder, "new").get(name)
    there = None if new is None else new.offsets.get(orders)
    found = (None if each is None else each.offset for each in (live, heir, there))
    return Outcome(lines, answer.value[orders].name, *found)


def _comes(life: Life, session_ms: int) -> None:
    while life.settled()[0] in ("Dead", "Empty"):
        life.join(life.group_id, session=session_ms / 1000)
    life.sync(life.group_id)
