"""Incident 10, the boss: after one night, a cluster does not come up. Its groups are rescued into a new broker.

Four things went wrong with the offsets topic of this cluster:

- At 02:00, the topic was widened from 25 to 50 partitions. After the restart at 02:10, the groups of `MOVED` look for
  their offsets in another partition. Somebody set them by hand, except those of `OVERLOOKED`, which begins again.
- At 02:20, a program wrote two records into partition 20 that no broker of this version can read.
- At 02:25, the producer of `PAYMENTS` was killed in a transaction.
- At 02:31, the power failed, and a batch of partition 23 was damaged on the disk.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from kafkagroups.coordinator import NewBatch
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.incidents.chart import Chart
from kafkagroups.course.exercises.incidents.incident import Incident, Question, Step
from kafkagroups.course.exercises.incidents.incident_log import IncidentLog
from kafkagroups.log.batches import parse_batch_at
from kafkagroups.log.segment_file import partition_for, segment_name
from kafkagroups.records.consumer_group import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from kafkagroups.records.serde import Record, encode

KAFKA = "4.0.1"
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
MINUTE_MS = 60_000
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
    """Write all 50 partitions of the offsets topic, as they are on the disk after the power failure."""
    for partition in range(PARTITIONS):
        path = folder / f"__consumer_offsets-{partition}" / segment_name(0)
        path.parent.mkdir(parents=True)
        path.touch()
    with IncidentLog(folder, OLD_COUNT) as log:
        night = _Night(log, Random(seed))
        for minute in range(END_MINUTE):
            if minute == RESTART_MINUTE:
                log.partitions = PARTITIONS
            night.write_minute(minute)
    _damage_batch(folder / f"__consumer_offsets-{DAMAGED_PARTITION}" / segment_name(0))


class _Night:
    """The commits of all groups, minute by minute.

    The random numbers decide how far the other groups are. The times of commits, and the offsets of the groups in the
    questions, are the same for every seed.
    """

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
        pairs = [encode(Record(3, ConsumerGroupMetadataKey(group), value, 0)) for group in FOREIGN_GROUPS]
        key, _ = pairs[1]
        pairs[1] = (key, b"")
        member_key, _ = encode(Record(5, ConsumerGroupMemberMetadataKey(FOREIGN_GROUPS[4], "member-1"), None, None))
        pairs[4] = (member_key, b"\x00\x09" + bytes(12))
        self.log.append(UNREADABLE_PARTITION, NewBatch([(k, v) for k, v in pairs if k is not None], time_ms))

    def _write_payments(self, minute: int, time_ms: int) -> None:
        partition = partition_for(PAYMENTS, PARTITIONS)
        position = 200 + 3 * minute
        if minute == 60:
            offsets = {"refunds-0": 31}
            self.log.commit(PAYMENTS, offsets, time_ms, producer_id=ABORTED_PRODUCER_ID)
            self.log.end_transaction(partition, ABORTED_PRODUCER_ID, time_ms + 400, commits=False)
        if minute % 5 == 0 and minute <= KILLED_MINUTE:
            offsets = {f"payments-{number}": position + number for number in range(4)}
            if minute == KILLED_MINUTE:
                offsets["refunds-1"] = 18
            self.log.commit(PAYMENTS, offsets, time_ms, producer_id=PRODUCER_ID)
            if minute != KILLED_MINUTE:
                self.log.end_transaction(partition, PRODUCER_ID, time_ms + 400, commits=True)


def _damage_batch(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    position = 0
    while position < len(data):
        batch = parse_batch_at(data, position)
        if batch.max_timestamp >= START_MS + DAMAGE_MINUTE * MINUTE_MS:
            break
        position += batch.size
    data[position + batch.size - 10] ^= 0x40
    segment.write_bytes(data)


_HINTS = (
    "Four different things are wrong. Ask for each partition whether it loads and where its bytes are damaged. Ask for "
    "each group in which partitions its records are, and whether its transactions have ended.",
    "`kafkagroups check . --kafka 4.0.1` names every record that stops a load, and the damage. `kafkagroups rescue "
    "plan .` shows what is left out, and why. `--past-damage` reads what follows the damage.",
    "Read all findings of `check`, not only the first one. In the last table of `rescue plan`, compare the columns "
    "`offset` and `planned`. Load partition 23 with and without `--past-damage`, and compare each offset.",
)
_SECOND_RECORD = 298
_RIGHT_OFFSET = 920
_PENDING = 5

INCIDENT = Incident(
    number=10,
    name="dead_cluster",
    level=3,
    title="The cluster does not come up",
    kafka=KAFKA,
    complaint="""\
At 02:31 the power failed. Two of three brokers have lost their disks. The third one starts, but it serves only some of
our groups, and some of these at wrong positions. This folder is a copy of its offsets topic. All other topics are safe:
a new cluster has them, with the same offsets.

It was a busy night. At 02:00 a colleague worked through a checklist, and at 02:10 we restarted all brokers. Then some
consumers read records that they had already processed. At 02:16 we set the offsets of the groups that we had noticed.
At 02:20 a program from our test cluster ran here for a second. At 02:25 we killed the card payments, because they hung.

We restarted the broker twice and gave it more memory. The shops open at 07:00. **Each group must continue behind the
last record that it has processed.**
""",
    server_log=(
        "[2026-05-14 02:20:05,583] ERROR [GroupCoordinator id=3] Failed to load metadata from __consumer_offsets-20 "
        "with epoch 12 due to java.lang.RuntimeException: Deserializing record DefaultRecord(offset=295, "
        "timestamp=1778725200000, key=12 bytes, value=0 bytes) from __consumer_offsets-20 failed due to: Could not "
        "read version from value's buffer... (org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime)",
    ),
    chart=Chart(
        "Groups with a commit in the last five minutes",
        ("01:50", "01:55", "02:00", "02:05", "02:10", "02:15", "02:20", "02:25", "02:30"),
        (24, 24, 24, 24, 24, 24, 24, 22, 21),
    ),
    questions=(
        Question(
            "One partition does not load, and the broker's log names the record at offset 295. At which offset is the "
            "other record that stops this load?",
            Exercise(
                "cluster_second_record",
                _SECOND_RECORD,
                f"cluster_second_record = {_SECOND_RECORD}",
                _HINTS,
                known_mistakes={
                    "A broker names only the first record. Without it, the next load fails again.": 295,
                    "This record is a commit that can be read. It is behind both records that stop the load.": 299,
                },
            ),
        ),
        Question(
            "Since the restart, one group reads its topics again from the start. At which offset must it continue in "
            "its topic-partition with the number 0?",
            Exercise(
                "cluster_right_offset",
                _RIGHT_OFFSET,
                f"cluster_right_offset = {_RIGHT_OFFSET}",
                _HINTS,
                known_mistakes={
                    "This is the newest commit. The group had already processed these records before the restart. Its "
                    "older commits are in another partition.": 525,
                    "This is the offset of the record in `__consumer_offsets`. Give the offset that it commits.": 517,
                },
            ),
        ),
        Question(
            "How many offsets must not be rescued, because their transaction never ended?",
            Exercise(
                "cluster_pending",
                _PENDING,
                f"cluster_pending = {_PENDING}",
                _HINTS,
                known_mistakes={
                    "One of these offsets belongs to a transaction that was aborted. That transaction has ended.": 6,
                    "A pending commit also counts if there is no committed offset before it.": 4,
                },
            ),
        ),
        Question(
            "A recovery cuts one partition at a damaged batch. Which group would go back furthest?",
            Exercise(
                "cluster_cut_group",
                "newsletter",
                'cluster_cut_group = "newsletter"',
                _HINTS,
                known_mistakes={
                    "This group loses the most commits, but each of them is a small step.": "milk-orders",
                    "This group goes back, too. Another one goes back further.": "cash-count",
                },
            ),
        ),
    ),
    write=write,
    worked_solution=(
        Step(
            "Ask whether the log loads. Two records stop partition 20. The broker would name the second one only "
            "after the first one is gone.",
            f"kafkagroups check . --kafka {KAFKA}",
            shows="Finding 2. Partition 20",
            lines=20,
        ),
        Step(
            "Ask what a rescue leaves out. The groups with the reason `other partition` have records in two "
            "partitions. The offsets of `bean-orders` went back: 920 was reached before the restart. `card-payments` "
            "has five pending commits.",
            "kafkagroups rescue plan .",
            shows=" group         left-out",
            lines=24,
        ),
        Step(
            "Partition 23 is damaged. This is what a broker answers after its recovery.",
            f"kafkagroups load __consumer_offsets-{DAMAGED_PARTITION}",
            shows=" group       committed",
            lines=12,
        ),
        Step(
            "This is what the batches behind the damage say. `newsletter` would go back by 240 records.",
            f"kafkagroups load __consumer_offsets-{DAMAGED_PARTITION} --past-damage",
            shows=" group       committed",
            lines=12,
        ),
    ),
    cause="The topic was widened from 25 to 50 partitions, so six groups were looked up in another partition, and only "
    "five were set by hand. A program wrote two records into the offsets topic that no 4.0.1 broker can read. A killed "
    "producer left an open transaction. The power failure damaged a batch.",
    prevention=(
        "Never change the partition count of `__consumer_offsets` of a cluster with groups.",
        "Deny all clients the operation `Write` on `__consumer_offsets`. Copy offsets with "
        "`kafka-consumer-groups.sh --reset-offsets`.",
        "Keep three replicas of `__consumer_offsets` in different racks or power zones.",
        "Run `kafkagroups check` on a copy of the topic after each change, and before a broker restarts.",
    ),
)
