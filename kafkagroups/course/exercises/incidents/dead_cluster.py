"""Incident 10, the boss: after one night, a cluster does not come up. Its groups are rescued into a new broker.

Four things went wrong with the offsets topic of this cluster:

- At 02:00, the topic was widened from 25 to 50 partitions. Since the restart at 02:10, the groups of `MOVED` look for
  their offsets in another partition. Somebody set them by hand, except those of `OVERLOOKED`, which begins again.
- At 02:20, a program wrote two records into partition 20 that no broker of this version can read.
- At 02:25, the producer of `PAYMENTS` was killed in a transaction.
- At 02:31, the power failed, and a batch of partition 23 was damaged on the disk.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from kafkagroups.course.exercises.incidents.incident_log import IncidentLog
from kafkagroups.course.small_logs import MINUTE_MS, encode_pair
from kafkagroups.log.folders import open_log
from kafkagroups.log.segment_file import partition_for, segment_name
from kafkagroups.records.consumer_group import (
    ConsumerGroupMetadataValue,
    GroupIdKey,
    MemberIdKey,
)
from kafkagroups.records.serde import Record

OLD_COUNT = 25
PARTITIONS = 50
UNREADABLE_PARTITION = 20
DAMAGED_PARTITION = 23
STAYS = (
    *("till-sync", "stock-count", "milk-orders", "receipt-mail", "tips-report", "queue-screen", "delivery-route"),
    *("tax-export", "night-audit", "table-plan", "water-filter", "shop-hours", "sugar-orders", "window-display"),
    *("tray-count", "newsletter", "door-counter", "cash-count"),
)
"""Groups that are in the same partition with 25 and with 50 partitions."""
MOVED = ("bean-orders", "oven-view", "gift-cards", "menu-board", "bread-plan", "coupon-check")
OVERLOOKED = "bean-orders"
PAYMENTS = "card-payments"
"""A group of an application that commits in transactions. It stays in its partition."""
START_MS = 1_778_716_800_000  # 2026-05-14 00:00 UTC
RESTART_MINUTE = 130
FOREIGN_MINUTE = 140
KILLED_MINUTE = 145
END_MINUTE = 151
HAND_MINUTE = 136
"""The minute in which somebody set the offsets of the groups in `MOVED`, except `OVERLOOKED`."""
DAMAGE_MINUTE = 143
FOREIGN_GROUPS = ("trial-7", "trial-65", "trial-144", "trial-225", "trial-270")
"""Groups of a test cluster, whose records a program wrote into `UNREADABLE_PARTITION`."""
LAST_ANSWERED = "receipt-mail"
"""The group with the last commit in this partition. At this write, the coordinator loads the partition again."""
PRODUCER_ID = 4001
ABORTED_PRODUCER_ID = 4002


def write(folder: Path, seed: int) -> None:
    for partition in range(PARTITIONS):
        path = folder / f"__consumer_offsets-{partition}" / segment_name(0)
        path.parent.mkdir(parents=True)
        path.touch()
    with IncidentLog(folder, partitions=OLD_COUNT, value_version=3) as log:
        night = _Night(log, Random(seed))
        for minute in range(END_MINUTE):
            if minute == RESTART_MINUTE:
                log.partitions = PARTITIONS
            night.write_minute(minute)
    _damage_batch(folder / f"__consumer_offsets-{DAMAGED_PARTITION}" / segment_name(0))


class _Night:
    def __init__(self, log: IncidentLog, random: Random) -> None:
        self.log = log
        self.random = random
        self.positions: dict[str, dict[str, int]] = {}
        for group in (*STAYS, *MOVED):
            topic = group.split("-")[0]
            partitions = 1 + len(group) % 3
            self.positions[group] = {f"{topic}-{number}": random.randrange(100, 400) for number in range(partitions)}
        self.positions[OVERLOOKED] = {"bean-0": 400, "bean-1": 420, "bean-2": 440}
        self.before_restart: dict[str, dict[str, int]] = {}

    def write_minute(self, minute: int) -> None:
        time_ms = START_MS + minute * MINUTE_MS
        if minute == RESTART_MINUTE:
            self.before_restart = {group: dict(self.positions[group]) for group in MOVED}
            for group in MOVED:
                self.positions[group] = dict.fromkeys(self.positions[group], 0)
        if minute == HAND_MINUTE:
            for group in MOVED:
                if group != OVERLOOKED:
                    self.positions[group] = self.before_restart[group]
                    self.log.commit(group, self.positions[group], time_ms + 500)
        if minute == FOREIGN_MINUTE:
            self._write_foreign_records(time_ms)
        self._write_payments(minute, time_ms)
        for number, group in enumerate((*STAYS, *MOVED)):
            interval = self._find_interval(group, number)
            is_down = (
                minute >= FOREIGN_MINUTE
                and partition_for(group, self.log.partitions) == UNREADABLE_PARTITION
                and (minute, group) != (FOREIGN_MINUTE, LAST_ANSWERED)
            )
            phase = 0 if group == "newsletter" else number % interval
            if minute % interval == phase and not is_down:
                self._commit(group, minute, interval, time_ms + 1000 + number * 1500)

    def _find_interval(self, group: str, number: int) -> int:
        if group in ("milk-orders", "receipt-mail", OVERLOOKED):
            return 1
        if group == "newsletter":
            return 50
        return (1, 2, 5)[number % 3]

    def _commit(self, group: str, minute: int, interval: int, time_ms: int) -> None:
        positions = self.positions[group]
        for name in positions:
            if group == "newsletter":
                positions[name] += 240
            elif group == OVERLOOKED:
                positions[name] += 4 if minute < RESTART_MINUTE else 25
            elif group == "milk-orders":
                positions[name] += 3
            else:
                positions[name] += interval * self.random.randint(1, 4)
        self.log.commit(group, positions, time_ms)

    def _write_foreign_records(self, time_ms: int) -> None:
        value = ConsumerGroupMetadataValue(3)
        pairs = [encode_pair(Record(3, GroupIdKey(group), value, 0)) for group in FOREIGN_GROUPS]
        pairs[1] = (pairs[1][0], b"")
        member_key, _ = encode_pair(Record(5, MemberIdKey(FOREIGN_GROUPS[4], "member-1"), None, None))
        pairs[4] = (member_key, b"\x00\x09" + bytes(12))
        self.log.append_pairs(UNREADABLE_PARTITION, pairs, time_ms)

    def _write_payments(self, minute: int, time_ms: int) -> None:
        partition = partition_for(PAYMENTS, PARTITIONS)
        position = 200 + 3 * minute
        if minute == 60:
            offsets = {"refunds-0": 31}
            self.log.commit(PAYMENTS, offsets, time_ms, (ABORTED_PRODUCER_ID, 0))
            self.log.append_marker(partition, ABORTED_PRODUCER_ID, 0, commits=False, timestamp=time_ms + 400)
        if minute % 5 == 0 and minute <= KILLED_MINUTE:
            offsets = {f"payments-{number}": position + number for number in range(4)}
            if minute == KILLED_MINUTE:
                offsets["refunds-1"] = 18
            self.log.commit(PAYMENTS, offsets, time_ms, (PRODUCER_ID, 0))
            if minute != KILLED_MINUTE:
                self.log.append_marker(partition, PRODUCER_ID, 0, commits=True, timestamp=time_ms + 400)


def _damage_batch(segment: Path) -> None:
    time_ms = START_MS + DAMAGE_MINUTE * MINUTE_MS
    damaged = next(batch for batch in open_log(segment) if batch.max_timestamp >= time_ms)
    data = bytearray(segment.read_bytes())
    data[damaged.position + damaged.size - 10] ^= 0x40
    segment.write_bytes(data)
