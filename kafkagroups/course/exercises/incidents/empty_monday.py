"""Incident 3: Friday's offsets are gone on Monday. The group was Empty for longer than the retention of offsets."""

from __future__ import annotations

from pathlib import Path
from random import Random

from kafkagroups.coordinator import Consumer, GroupCoordinator
from kafkagroups.course.broker import start_broker
from kafkagroups.course.exercises.incidents.incident_log import IncidentLog, commit_offsets, join, make_consumer
from kafkagroups.course.small_logs import HOUR_MS, MINUTE_MS

KAFKA = "4.3.1"
RETENTION_HOURS = 48
THURSDAY_MS = 1_772_668_800_000  # 2026-03-05 00:00 UTC
STEP = 10
"""The minutes between two heartbeats of a member. All times below are in minutes since Thursday at 00:00."""
BROKER_START = 6 * 60 + 4
"""The minute of this time decides when the broker looks for expired offsets: every ten minutes."""
FIRST_STEP = 6 * 60 + 10
BAKING = range(20 * 60, 30 * 60)
"""Bread is baked from Thursday at 20:00 to Friday at 06:00, and then no more until Monday."""
FRIDGES_OFF = 24 * 60 + 11 * 60
CLOSING = 24 * 60 + 18 * 60
OPENING = 4 * 24 * 60 + 7 * 60
END = OPENING + 60

CLOSED_GROUP = "bread-print"
"""Its members leave on Friday at 18:00, and come back on Monday at 07:00."""
OPEN_GROUP = "oven-sync"
"""Its member stays during the weekend, and commits nothing."""
WEEKEND_GROUP = "invoice-cache"
"""Its member stays, and commits every hour."""
NIGHTLY_GROUP = "label-view"
"""Its member joins at 02:00, commits, and leaves at 03:00."""
SIMPLE_GROUP = "receipt-stats"
"""It has no members, and commits every hour."""
PARTLY_IDLE_GROUP = "fridge-report"
"""It has no members, and commits every hour. Two of its four fridges are switched off on Friday at 11:00."""
PARTITIONS = {"bread": 4, "oven": 3, "invoice": 2, "label": 2, "receipt": 3, "fridge": 4}


def write(folder: Path, seed: int) -> None:
    with IncidentLog(folder) as log:
        broker = start_broker(
            log,
            KAFKA,
            now_ms=THURSDAY_MS + BROKER_START * MINUTE_MS + 11_000,
            topics=PARTITIONS,
            offsets_retention_ms=RETENTION_HOURS * HOUR_MS,
            group_initial_rebalance_delay_ms=0,
        )
        broker.start_expiration(STEP * MINUTE_MS)
        shop = _Shop(broker, Random(seed))
        for minute in range(FIRST_STEP, END, STEP):
            broker.clock.advance_to(THURSDAY_MS + minute * MINUTE_MS)
            shop.run_step(minute)


class _Shop:
    def __init__(self, broker: GroupCoordinator, random: Random) -> None:
        self.broker = broker
        self.random = random
        self.bread = [make_consumer(self.broker, CLOSED_GROUP, number, PARTITIONS) for number in (1, 2)]
        self.oven = make_consumer(self.broker, OPEN_GROUP, 1, PARTITIONS)
        self.invoice = make_consumer(self.broker, WEEKEND_GROUP, 1, PARTITIONS)
        self.label = make_consumer(self.broker, NIGHTLY_GROUP, 1, PARTITIONS)
        self.label.leave()
        join(self.broker, *self.bread, self.oven, self.invoice)

    def run_step(self, minute: int) -> None:
        minute_of_day = minute % (24 * 60)
        if minute == CLOSING:
            for consumer in self.bread:
                consumer.leave()
        if minute == OPENING:
            for consumer in self.bread:
                consumer.start()
            join(self.broker, *self.bread)
        if minute_of_day == 2 * 60:
            self.label.start()
            join(self.broker, self.label)
        if minute_of_day == 3 * 60:
            self.label.leave()
        baked_records = 5 if minute in BAKING else 0
        for consumer in self.bread:
            self._poll(consumer, 30 if minute >= OPENING else baked_records)
        self._poll(self.oven, baked_records)
        self._poll(self.invoice, 5 if minute % 60 == 20 else 0)
        self._poll(self.label, 5 if minute_of_day == 2 * 60 + 40 else 0)
        if minute % 60 == 30:
            self._commit(SIMPLE_GROUP, range(3), minute)
            self._commit(PARTLY_IDLE_GROUP, range(4 if minute < FRIDGES_OFF else 2), minute)

    def _poll(self, consumer: Consumer, least_records: int) -> None:
        consumer.poll(self.random.randint(least_records, 2 * least_records))
        if least_records > 0:
            consumer.commit()

    def _commit(self, group: str, partitions: range, minute: int) -> None:
        topic = group.split("-")[0]
        commit_offsets(self.broker, group, {f"{topic}-{number}": minute * 3 + number for number in partitions})
