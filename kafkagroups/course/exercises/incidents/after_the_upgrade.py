"""Incident 7: offsets are gone after an upgrade. Old commits have an expire timestamp, and the brokers were off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from kafkagroups.coordinator import Consumer, GroupCoordinator, OffsetCommit
from kafkagroups.course.broker import start_broker
from kafkagroups.course.exercises.incidents.incident_log import IncidentLog, commit_offsets, join
from kafkagroups.course.small_logs import DAY_MS, HOUR_MS, MINUTE_MS
from kafkagroups.groups.offsets import TopicPartition

KAFKA = "2.8.2"
OLD_KAFKA = "1.0.1"
MAIL_GROUP = "loyalty-mail"
KEPT_GROUP = "order-sync"
LONG_GROUP = "voucher-print"
DELETED_GROUP = "till-board"
LOST_GROUPS = (MAIL_GROUP, "stock-copy", "waste-print")

START_MS = 1_772_604_000_000  # Wednesday, 2026-03-04 06:00 UTC
STOP_MS = START_MS + 62 * HOUR_MS  # Friday 20:00
UPGRADED_MS = START_MS + 120 * HOUR_MS  # Monday 06:00
END_MS = UPGRADED_MS + 3 * HOUR_MS
TEN_YEARS_MS = 3650 * DAY_MS
MAILS = (412, 388, 406, 396, 420, 402, 31_244)
"""The mails of each run of `loyalty-mail`, one for each record. Each of the two partitions has half of them."""
QUIET_MS = STOP_MS - 5 * HOUR_MS
_SESSION_MS = 5 * MINUTE_MS
_HEARTBEAT_MS = 2 * MINUTE_MS
_STEP_MS = 10 * MINUTE_MS


def write(folder: Path, seed: int) -> None:
    """Write partition 44: three days on Kafka 1.0.1, a weekend without brokers, and a morning on Kafka 2.8.2."""
    random = Random(seed)
    with IncidentLog(folder) as log:
        old = start_broker(log, OLD_KAFKA, now_ms=START_MS, topics=None, offsets_retention_ms=DAY_MS)
        shop = _Shop(old, random)
        shop.run(START_MS, STOP_MS).leave()
        new = start_broker(log, KAFKA, now_ms=UPGRADED_MS, topics=None)
        new.start_expiration(_STEP_MS)
        shop.broker = new
        shop.positions |= dict.fromkeys(LOST_GROUPS, 0)
        shop.run(UPGRADED_MS, END_MS)


class _Shop:
    def __init__(self, broker: GroupCoordinator, random: Random) -> None:
        self.broker = broker
        self.random = random
        self.positions = {MAIL_GROUP: 18_866}
        self.mails = iter(MAILS)

    def run(self, start_ms: int, end_ms: int) -> Consumer:
        clock = self.broker.clock
        member = self._start(KEPT_GROUP, {"orders": 3, "refunds": 1})
        for now_ms in range(start_ms + _STEP_MS // 2, end_ms, _STEP_MS):
            clock.advance_to(now_ms)
            for work in self._plan(now_ms):
                name, *topics = work
                if not topics:
                    self.broker.delete_groups([name])
                elif name in (MAIL_GROUP, "waste-print", "milk-map"):
                    self._run_job(name, topics)
                else:
                    self._commit(name, topics, member if name == KEPT_GROUP else None)
                clock.advance(self.random.randrange(200, 2000))
            while clock.now_ms < now_ms + _STEP_MS:
                clock.advance_to(min(clock.now_ms + _HEARTBEAT_MS, now_ms + _STEP_MS))
                member.poll(0)
        return member

    def _plan(self, now_ms: int) -> Iterator[tuple[str, ...]]:
        """Yield the groups that commit, each with its topic-partitions. A group without them is deleted."""
        hour, minute = divmod(now_ms % DAY_MS // MINUTE_MS, 60)
        is_old = now_ms < STOP_MS
        yield KEPT_GROUP, "orders-0", "orders-1", "orders-2"
        if 0 <= now_ms - QUIET_MS < _STEP_MS:
            yield KEPT_GROUP, "refunds-0"
        if minute == 5:
            yield "cake-view", "cakes-0", "cakes-1"
        if minute == 5 and (is_old or hour < 8):
            yield DELETED_GROUP, "receipts-0"
        if minute == 35 and (is_old or hour >= 8):
            yield "stock-copy", "stock-0", "stock-1"
        if minute == 25 and hour in (7, 19):
            yield MAIL_GROUP, "members-0", "members-1"
        if minute == 15 and hour in (8, 18):
            yield "waste-print", "waste-0"
        if minute == 5 and hour in (6, 14):
            yield "milk-map", "milk-0"
        if minute == 45 and hour == 12 and is_old:
            yield LONG_GROUP, "vouchers-0"
        if (hour, minute) == (7, 55) and not is_old:
            yield (DELETED_GROUP,)

    def _start(self, group: str, topics: dict[str, int]) -> Consumer:
        consumer = Consumer(
            self.broker, group, f"{group}-1", tuple(topics), topics, session_timeout_ms=_SESSION_MS, protocol_version=0
        )
        join(self.broker, consumer)
        return consumer

    def _run_job(self, group: str, partitions: list[str]) -> None:
        member = self._start(group, {TopicPartition.parse(partitions[0]).topic: len(partitions)})
        self.broker.clock.advance(20_000)
        self._commit(group, partitions, member)
        member.leave()

    def _commit(self, group: str, partitions: list[str], member: Consumer | None = None) -> None:
        count = self.random.randint(1, 40)
        if group == MAIL_GROUP:
            count = next(self.mails) // len(partitions)
        position = self.positions.get(group, 20_000) + count
        self.positions[group] = position
        if member is not None:
            member.request_commit({TopicPartition.parse(name): OffsetCommit(position) for name in partitions})
        else:
            retention_ms = TEN_YEARS_MS if group == LONG_GROUP else -1
            commit_offsets(self.broker, group, dict.fromkeys(partitions, position), retention_ms)
