"""Incident 2: some failovers take hours. The log cleaner of one broker has stopped, and only its replica is long."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from kafkagroups import CleanerConfig, compact
from kafkagroups.coordinator import Consumer, GroupCoordinator, OffsetCommit, TopicPartition
from kafkagroups.course.broker import start_broker
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.incidents.chart import Chart
from kafkagroups.course.exercises.incidents.incident import Incident, Question, Step
from kafkagroups.course.exercises.incidents.incident_log import IncidentLog, name_partition
from kafkagroups.log.folders import open_log

KAFKA = "3.9.2"
BUSY_GROUP = "order-sync"
BUSY_PARTITIONS = 6
VIEW_GROUPS = {"kitchen-view": 3, "counter-view": 2}
"""Consumer groups with one member each, and the number of topic-partitions of their topics."""
COPY_GROUPS = {"stock-copy": 4, "price-export": 3, "fridge-export": 2}
"""Groups without a member that commit every two hours, and their numbers of topic-partitions."""
DELETED_GROUPS = {2: "oven-print", 6: "table-sync", 30: "refund-count"}
"""Groups without a member that commit once a day. The key is the day on which an operator deletes the group."""
MINUTE_MS = 60_000
STEP_MS = 20 * MINUTE_MS
STEPS_PER_DAY = 72
DELETION_STEP = 30
DAY_MS = STEPS_PER_DAY * STEP_MS
START_MS = 1_772_409_600_000  # 2026-03-02 00:00 UTC
DAYS = 34
SEGMENT_BYTES = 32 * 1024
PASSES = {"broker-1": (4, 9, 21, 33), "broker-2": (4, 9)}
"""The days on which the log cleaner of each broker cleaned the partition, at 03:00. The first day is 0."""
PASS_TIME_MS = 3 * 60 * MINUTE_MS


def write(folder: Path, seed: int) -> None:
    name = name_partition(BUSY_GROUP)
    with TemporaryDirectory(prefix="kafkagroups-") as scratch:
        _write_log(Path(scratch) / "uncleaned", Random(seed))
        segments = sorted((Path(scratch) / "uncleaned" / name).glob("*.log"))
        begins_ms = {segment: next(iter(open_log(segment))).max_timestamp for segment in segments}
        for broker, days in PASSES.items():
            _clean_replica(begins_ms, days, Path(scratch) / broker)
            shutil.copytree(Path(scratch) / broker / str(len(days)), folder / broker / name)


def _clean_replica(begins_ms: dict[Path, int], days: tuple[int, ...], folder: Path) -> None:
    """Clean a copy of the segments on some days. The result of pass 1 is in the folder "1", and so on.

    `begins_ms` has the time of each segment. A pass cleans the segments of its time, except for the active one.
    """
    copied: set[Path] = set()
    first_dirty = 0
    for number, day in enumerate(days):
        now_ms = START_MS + day * DAY_MS + PASS_TIME_MS
        before = folder / str(number)
        present = {segment for segment, begin_ms in begins_ms.items() if begin_ms <= now_ms}
        _copy_segments(present - copied, before)
        copied |= present
        result = compact(before, folder / str(number + 1), CleanerConfig(now_ms=now_ms, first_dirty=first_dirty))
        first_dirty = result.next_dirty_offset
    _copy_segments(set(begins_ms) - copied, folder / str(len(days)))


def _copy_segments(segments: set[Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for segment in segments:
        shutil.copy(segment, folder)


def _write_log(folder: Path, random: Random) -> None:
    """The number of records does not depend on the random numbers."""
    with IncidentLog(folder, segment_bytes=SEGMENT_BYTES) as log:
        broker = start_broker(log.logs, KAFKA, now_ms=START_MS, topics=None, group_initial_rebalance_delay_ms=0)
        views = [_start_view(broker, group, count) for group, count in VIEW_GROUPS.items()]
        position = 0
        for step in range(DAYS * STEPS_PER_DAY):
            time_ms = START_MS + (step + 1) * STEP_MS
            broker.clock.advance_to(time_ms)
            position += random.randint(20, 90)
            _commit(log, BUSY_GROUP, BUSY_PARTITIONS, position, time_ms)
            for view in views:
                view.poll(random.randint(1, 9))
                if step % 6 == 1:
                    view.commit()
            if step % 6 == 2:
                for group, partitions in COPY_GROUPS.items():
                    _commit(log, group, partitions, position // 5, time_ms)
            day, step_of_day = divmod(step, STEPS_PER_DAY)
            if step_of_day == DELETION_STEP:
                _commit_or_delete(broker, day, position // 7)


def _commit(log: IncidentLog, group: str, partitions: int, position: int, time_ms: int) -> None:
    topic = group.split("-")[0]
    log.commit(group, {f"{topic}-{number}": position + number for number in range(partitions)}, time_ms)


def _start_view(broker: GroupCoordinator, group: str, partitions: int) -> Consumer:
    topic = group.split("-")[0]
    view = Consumer(
        broker,
        group,
        f"{group}-1",
        (topic,),
        {topic: partitions},
        session_timeout_ms=30 * MINUTE_MS,
        protocol_version=1,
    )
    while not view.assignment:
        view.poll()
        broker.clock.advance(1000)
    return view


def _commit_or_delete(broker: GroupCoordinator, day: int, position: int) -> None:
    for last_day, group in DELETED_GROUPS.items():
        if day < last_day:
            broker.offset_commit(group, {TopicPartition(group.split("-")[0], 0): OffsetCommit(position)})
        elif day == last_day:
            broker.delete_groups([group])


_HINTS = (
    "Every replica has the same end offset. That does not mean that it has the same number of records. Ask what a new "
    "leader has to read.",
    "Run `kafkagroups stats broker-1 broker-2`. `kafkagroups diff` compares what two logs say.",
    'Compare the columns `records` and `cleaned (UTC)`. "cleaned" is the time of the last pass that left a trace.',
)
_RECORDS = 15_366
_RECORDS_OF_THE_OTHER = 950
_END_OFFSET = 20_443

INCIDENT = Incident(
    number=2,
    name="slow_failover",
    level=1,
    title="Some failovers take hours",
    kafka=KAFKA,
    complaint="""\
On Sunday at 00:10 we restarted the leader of partition 44. The consumers of this partition could not commit and not
join a group until 03:48. A week before, the same restart took four seconds. Two weeks before, it took 96 minutes.

The partition has two replicas, on broker 1 and on broker 2. Both were in sync all the time. The brokers have the same
machines and the same settings, and `offsets.load.buffer.size` made no difference. Nobody wrote down which broker became
the leader on which Sunday.

The folder has both replicas of the same partition in our small test cluster. There, a slow failover takes seconds and
not hours.
""",
    server_log=(
        "[2026-04-05 00:10:41,207] WARN [Consumer clientId=kitchen-view-1, groupId=kitchen-view] Offset commit failed "
        "on partition kitchen-2 at offset 12133: The coordinator is loading and hence can't process requests. "
        "(org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)",
    ),
    chart=Chart(
        "Longest load of partition 44 after the restart on Sunday, in minutes",
        ("1 Mar", "8 Mar", "15 Mar", "22 Mar", "29 Mar", "5 Apr"),
        (0.1, 0.1, 35, 96, 0.1, 218),
    ),
    questions=(
        Question(
            "After a failover to one of the two brokers, the load takes much longer. How many records does this "
            "broker read?",
            Exercise(
                "slow_records",
                _RECORDS,
                f"slow_records = {_RECORDS}",
                _HINTS,
                known_mistakes={
                    "This broker has the short replica. Compare it with the other one.": _RECORDS_OF_THE_OTHER,
                    "This is the end offset, which is the same on both brokers. Removed records are not read.": (
                        _END_OFFSET
                    ),
                },
            ),
        ),
        Question(
            "On which day did that broker clean the partition for the last time? Answer with a text such as "
            '`"2026-03-25"`.',
            Exercise(
                "slow_last_cleaning",
                "2026-03-11",
                'slow_last_cleaning = "2026-03-11"',
                _HINTS,
                known_mistakes={
                    "On this day the other broker cleaned its replica.": "2026-04-04",
                    "This is the day of the last record. It is still there, so it was not cleaned.": "2026-04-05",
                },
            ),
        ),
        Question(
            "How many committed offsets differ between the two brokers after the load?",
            Exercise(
                "slow_differences",
                0,
                "slow_differences = 0",
                _HINTS,
                known_mistakes={
                    "So many records differ. But a removed record was replaced by a newer one, or deleted. "
                    "Compare what both brokers answer.": _RECORDS - _RECORDS_OF_THE_OTHER,
                    "One replica still has a tombstone that the other one no longer has. Both answer the same.": 1,
                },
            ),
        ),
    ),
    write=write,
    worked_solution=(
        Step(
            "Count the records of each replica. The replica of broker 1 is small, and its cleaner works.",
            "kafkagroups stats broker-1",
            lines=5,
        ),
        Step(
            "Broker 2 has to read sixteen times as many records. The finding also says when its cleaner stopped.",
            "kafkagroups stats broker-2",
            lines=12,
        ),
        Step(
            "The time of the last pass is in the bytes: the pass writes into the batch of a tombstone when the "
            "tombstone may be removed.",
            "kafkagroups stats broker-2",
            shows=" part. stops at",
            lines=3,
        ),
        Step(
            "Both brokers answer the same. So no one notices the difference before a failover.",
            "kafkagroups diff broker-1 broker-2 --kafka 3.9.2",
            lines=3,
        ),
    ),
    cause="The log cleaner of broker 2 stopped on 11 March. Each replica is cleaned by its own broker, so only the "
    "replica of broker 2 keeps growing. A new leader reads its whole replica before it answers. The file "
    "`log-cleaner.log` of the broker tells whether the cleaner thread died or whether the partition is uncleanable.",
    prevention=(
        "Alert on the metric `kafka.log:type=LogCleaner,name=DeadThreadCount`. It must be 0 on every broker.",
        "Alert on `kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count` and "
        "`time-since-last-run-ms` of every broker.",
        "Compare the size of the replicas of each partition. A replica that is ten times as large as another one is a "
        "warning.",
        "Restart a broker whose cleaner thread has died, before this broker becomes a leader.",
    ),
    replicas=("broker-1", "broker-2"),
)
