"""Incident 6: lag alarms for a deleted group. A group of generation 0 has no group record, so it gets no tombstone."""

from __future__ import annotations

from pathlib import Path
from random import Random

from kafkagroups.coordinator import Consumer, GroupCoordinator, TopicPartition
from kafkagroups.course.broker import start_broker
from kafkagroups.course.exercises.incidents.incident_log import IncidentLog, commit_offsets, make_consumer
from kafkagroups.course.small_logs import MINUTE_MS

KAFKA = "3.9.2"
START_MS = 1_772_434_800_000  # 2026-03-02 07:00 UTC
STEP = 20
"""The minutes between two steps. All times below are in minutes since the start, Monday at 07:00."""
DAY = 24 * 60
END = 9 * DAY + 120

DEAD_GROUP = "counter-copy"
"""A consumer group that was deleted on Tuesday. On Thursday, a script without members used its name again."""
FIRST_DELETION = DAY + 10 * 60
SCRIPT = range(3 * DAY + 120, 7 * DAY + 9 * 60)
DELETION = 8 * DAY + 10 * 60 + 40
DELETED_GROUPS = ("recipe-audit", "door-count")
"""Consumer groups. Their members left two days before the clean-up."""
LAST_DAY_OF_MEMBERS = 6 * DAY + 11 * 60 + 20
RETURNED_GROUP = "payment-view"
"""A consumer group that was deleted on Wednesday and came back an hour later."""
RETURNED_DELETION = 2 * DAY + 5 * 60
OFFSETS_DELETED_GROUP = "night-stats"
"""A group without members. The clean-up deletes its offsets of one of two topics."""
CONSUMER_GROUPS = ("order-alerts", "receipt-sync", "delivery-watch")
SIMPLE_GROUPS = ("stock-view", "supplier-sync", "kitchen-alerts")
PARTITIONS = {
    "counter": 3,
    "recipe": 2,
    "door": 4,
    "payment": 3,
    "order": 3,
    "receipt": 2,
    "delivery": 2,
    "stock": 3,
    "supplier": 1,
    "kitchen": 2,
    "night": 2,
    "light": 2,
}


def write(folder: Path, seed: int) -> None:
    with IncidentLog(folder) as log:
        broker = start_broker(log, KAFKA, now_ms=START_MS, topics=None, group_initial_rebalance_delay_ms=0)
        shop = _Shop(broker, Random(seed))
        for minute in range(STEP, END, STEP):
            broker.clock.advance_to(START_MS + minute * MINUTE_MS)
            shop.run_step(minute)


class _Shop:
    def __init__(self, broker: GroupCoordinator, random: Random) -> None:
        self.broker = broker
        self.random = random
        self.members = {
            group: make_consumer(self.broker, group, 1, PARTITIONS)
            for group in (*CONSUMER_GROUPS, RETURNED_GROUP, *DELETED_GROUPS, DEAD_GROUP)
        }
        self._join(*self.members.values())

    def run_step(self, minute: int) -> None:
        self._use_first_life(minute)
        if minute == RETURNED_DELETION:
            self._leave_and_delete(RETURNED_GROUP)
        if minute == RETURNED_DELETION + 60:
            self.members[RETURNED_GROUP].start()
            self._join(self.members[RETURNED_GROUP])
        if minute == LAST_DAY_OF_MEMBERS:
            for group in DELETED_GROUPS:
                self.members[group].leave()
        for number, consumer in enumerate(self.members.values()):
            consumer.poll(self.random.randint(1, 40))
            if minute // STEP % 12 == number:
                consumer.commit()
        for number, group in enumerate(SIMPLE_GROUPS):
            if minute // STEP % 12 == number + 2:
                self._commit(group, group.split("-")[0], minute)
        if minute // STEP % 12 == 7:
            self._commit(OFFSETS_DELETED_GROUP, "night", minute)
            if minute < DELETION:
                self._commit(OFFSETS_DELETED_GROUP, "light", minute)
        if minute in SCRIPT and minute // STEP % 6 == 0:
            self._commit(DEAD_GROUP, "counter", minute)
        if minute == DELETION:
            self.broker.delete_groups([DELETED_GROUPS[0], DEAD_GROUP, DELETED_GROUPS[1]])
            lights = [TopicPartition("light", number) for number in range(PARTITIONS["light"])]
            self.broker.offset_delete(OFFSETS_DELETED_GROUP, lights)

    def _use_first_life(self, minute: int) -> None:
        if minute == 6 * 60:
            second = make_consumer(self.broker, DEAD_GROUP, 2, PARTITIONS)
            self._join(second, self.members[DEAD_GROUP])
            second.leave()
            self._join(self.members[DEAD_GROUP])
        if minute == FIRST_DELETION:
            self._leave_and_delete(DEAD_GROUP)

    def _leave_and_delete(self, group: str) -> None:
        self.members[group].leave()
        self.broker.delete_groups([group])

    def _join(self, *consumers: Consumer) -> None:
        for _ in range(4):
            for consumer in consumers:
                consumer.poll(0)
            self.broker.clock.advance(1000)

    def _commit(self, group: str, topic: str, minute: int) -> None:
        position = minute * 2 + self.random.randrange(STEP)
        commit_offsets(self.broker, group, {f"{topic}-{number}": position for number in range(PARTITIONS[topic])})
