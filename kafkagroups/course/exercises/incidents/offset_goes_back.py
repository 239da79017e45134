"""Incident 9: offsets go back after a failover. One lost a race, and one was deleted during a transaction."""

from __future__ import annotations

from pathlib import Path
from random import Random

from kafkagroups.coordinator import DiskLogs, GroupCoordinator, OffsetCommit
from kafkagroups.course.broker import start_broker
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.incidents.incident import Incident, Question, Step
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.log.segment_file import partition_for

KAFKA = "3.9.2"
GROUP = "loyalty-ledger"
PLAIN_GROUPS = {"stock-totals": ("stock", 3), "oven-sync": ("ovens", 2), "milk-check": ("milk", 2)}
"""The topic of each group without transactions, and the number of its partitions."""
PARTITION = partition_for(GROUP, 50)
SEGMENT_BYTES = 64 * 1024
MINUTE_MS = 60_000
OPEN_MS = 1_778_227_200_000  # 2026-05-08 08:00 UTC, a Friday
PROCESSES = 4
"""The number of processes. Process N reads `receipts-N` and has producer FIRST_PRODUCER + N."""
FIRST_PRODUCER = 6001
STEP_MINUTES = 2
STUCK_STEP = 270  # 17:00
CLOSED_STEP = 390  # 21:00
END_STEP = 465  # 23:30
RECEIPTS = 5
STUCK_AT = 4_870
READ_AT_CLOSING = 3_930
SET_BACK_TO = 3_600
CHOSEN_BY_CONSUMER = 5_210
"""The end of `receipts-2`, where the consumer began without an offset. Nobody committed it."""
NO_OFFSET = -1


def write(folder: Path, seed: int) -> None:
    """Write the log of the broker that led partition 30 on Friday."""
    logs = DiskLogs(folder, segment_bytes=SEGMENT_BYTES)
    run_broker(logs, seed)
    logs.close()


def run_broker(logs: DiskLogs, seed: int) -> GroupCoordinator:
    """Let a coordinator write the log of the Friday, and return it as it was before the failover."""
    return _Friday(logs, Random(seed)).run()


class _Friday:
    """The clients of one coordinator, from 08:00 until the failover."""

    def __init__(self, logs: DiskLogs, random: Random) -> None:
        self.logs = logs
        self.random = random
        self.broker = start_broker(logs, KAFKA, now_ms=OPEN_MS, topics=None)
        self.positions = [2_715, READ_AT_CLOSING - CLOSED_STEP * RECEIPTS, STUCK_AT - STUCK_STEP * RECEIPTS, 3_240]

    def run(self) -> GroupCoordinator:
        for step in range(END_STEP):
            step_ms = OPEN_MS + step * STEP_MINUTES * MINUTE_MS
            if step < CLOSED_STEP:
                for process in range(PROCESSES):
                    self._read_receipts(process, step, step_ms + 1_000 + 10_000 * process)
            if step == CLOSED_STEP + 2:
                self._set_back(step_ms)
            if step == CLOSED_STEP + 5:
                self._skip_receipts(step_ms)
            for number, (group, (topic, partitions)) in enumerate(PLAIN_GROUPS.items()):
                offsets = {f"{topic}-{n}": 30 * step + self.random.randrange(30) for n in range(partitions)}
                self._wait(step_ms + MINUTE_MS + 10_000 * number)
                self._commit(group, offsets)
        return self.broker

    def _read_receipts(self, process: int, step: int, time_ms: int) -> None:
        """Run a transaction. Process 2 always fails at one receipt, and aborts."""
        self._wait(time_ms)
        fails = process == 2 and step >= STUCK_STEP
        self._commit_in_transaction(process, self.positions[process] + RECEIPTS)
        self.broker.clock.advance(self.random.randrange(100, 900))
        self._end_transaction(process, commits=not fails)
        if not fails:
            self.positions[process] += RECEIPTS

    def _set_back(self, time_ms: int) -> None:
        self._wait(time_ms + 2_000)
        self._commit_in_transaction(1, self.positions[1])
        self._wait(time_ms + 2_700)
        self._commit(GROUP, {"receipts-1": SET_BACK_TO})
        self._wait(time_ms + 3_400)
        self._end_transaction(1, commits=True)

    def _skip_receipts(self, time_ms: int) -> None:
        self._wait(time_ms + 4_000)
        self._commit_in_transaction(2, self.positions[2])
        self._wait(time_ms + 4_600)
        self.broker.offset_delete(GROUP, [TopicPartition.parse("receipts-2")])
        self._wait(time_ms + 5_100)
        self._end_transaction(2, commits=True)

    def _wait(self, time_ms: int) -> None:
        self.broker.clock.advance_to(time_ms)

    def _commit(self, group: str, offsets: dict[str, int]) -> None:
        self.broker.offset_commit(group, {TopicPartition.parse(name): OffsetCommit(n) for name, n in offsets.items()})

    def _commit_in_transaction(self, process: int, offset: int) -> None:
        self.broker.txn_offset_commit(
            GROUP,
            {TopicPartition.parse(f"receipts-{process}"): OffsetCommit(offset)},
            transactional_id=f"loyalty-ledger-{process}",
            producer_id=FIRST_PRODUCER + process,
            producer_epoch=0,
        )

    def _end_transaction(self, process: int, *, commits: bool) -> None:
        producer_id = FIRST_PRODUCER + process
        self.logs.append_marker(PARTITION, producer_id, 0, commits=commits, timestamp=self.broker.clock.now_ms)
        self.broker.transaction_completed(producer_id, [PARTITION], commits=commits)


_HINTS = (
    "The two offsets have different causes. For each of them, look for the last records that wrote it, and for the "
    "markers after these records.",
    "`kafkagroups explain . --group loyalty-ledger --kafka 3.9.2` shows the fate of each record. `kafkagroups diff . "
    "--coordinators` compares two coordinators. `kafkagroups edit` runs the cleaner on a copy, with `--roll` and "
    "`--clean`.",
    "Look at the records from 21:04 and from 21:10 in the output of `explain`. What does a coordinator that runs do "
    "with a pending offset when the offset is deleted? Lesson 09 compares it with a load.",
)
_RETURNED_RECORD = 5888
_FIRST_RECORD_WITH_IT = 4039
CLEANED_MS = OPEN_MS + 16 * 60 * MINUTE_MS  # Saturday 00:00

INCIDENT = Incident(
    number=9,
    name="offset_goes_back",
    level=3,
    title="Two offsets go back after a failover",
    kafka=KAFKA,
    complaint="""\
At 23:30, broker 2 failed, and broker 3 became the leader of partition 30 of `__consumer_offsets`. At 23:41, we
restarted the four processes of `loyalty-ledger`. Two of them began at old offsets: `receipts-1` at 3,600 instead of
3,930, and `receipts-2` at 4,870 instead of 5,210. 670 customers got their points twice.

The shop had closed at 21:00, and there were no new receipts. Both replicas were in sync, and no record is missing. We
moved the leadership to broker 2 and back. The offsets stayed the same.

Each process uses `assign` and commits in transactions. From 17:00 on, process 2 failed at one receipt. At 21:10, we
stopped it, skipped its receipts as the runbook says, and started it again.

The folder has the log of broker 3 from 23:31.
""",
    server_log=(
        "[2026-05-08 21:04:03,402] INFO [loyalty-ledger-1] transaction committed, receipts-1=3930 (shop.Ledger)",
        "[2026-05-08 21:12:40,655] INFO [Consumer clientId=loyalty-ledger-2, groupId=loyalty-ledger] Resetting offset "
        "for partition receipts-2 to position FetchPosition{offset=5210, offsetEpoch=Optional.empty, "
        "currentLeader=LeaderAndEpoch{leader=Optional[broker-1:9092 (id: 1 rack: null)], epoch=4}}. "
        "(org.apache.kafka.clients.consumer.internals.SubscriptionState)",
        "[2026-05-08 23:41:02,118] INFO [Consumer clientId=loyalty-ledger-1, groupId=loyalty-ledger] Setting offset "
        "for partition receipts-1 to the committed offset FetchPosition{offset=3600, offsetEpoch=Optional.empty, "
        "currentLeader=LeaderAndEpoch{leader=Optional[broker-3:9092 (id: 3 rack: null)], epoch=6}} "
        "(org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)",
        "[2026-05-08 23:41:02,240] INFO [Consumer clientId=loyalty-ledger-2, groupId=loyalty-ledger] Setting offset "
        "for partition receipts-2 to the committed offset FetchPosition{offset=4870, offsetEpoch=Optional.empty, "
        "currentLeader=LeaderAndEpoch{leader=Optional[broker-1:9092 (id: 1 rack: null)], epoch=4}} "
        "(org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)",
    ),
    chart=None,
    questions=(
        Question(
            "Which offset of `receipts-1` did broker 2 have at 23:00, before the failover?",
            Exercise(
                "back_race",
                SET_BACK_TO,
                f"back_race = {SET_BACK_TO}",
                _HINTS,
                known_mistakes={
                    "The transaction was committed, but another commit is later in the log than the record of the "
                    "transaction. The position of the marker does not matter.": READ_AT_CLOSING,
                    "This is the offset of the record in the log. The committed offset is in the record's value.": (
                        _RETURNED_RECORD - 23
                    ),
                },
            ),
        ),
        Question(
            "Which offset of `receipts-2` did broker 2 answer at 23:00? As in a broker's answer, -1 means: no offset.",
            Exercise(
                "back_before",
                NO_OFFSET,
                f"back_before = {NO_OFFSET}",
                _HINTS,
                known_mistakes={
                    "No record contains this offset. The consumer chose it itself, because of `auto.offset.reset`.": (
                        CHOSEN_BY_CONSUMER
                    ),
                    "A broker that loads this log has this offset. Broker 2 did not load these records. It was the "
                    "leader when they were written.": STUCK_AT,
                },
            ),
        ),
        Question(
            "Broker 3 answers 4,870 for `receipts-2`. From which record? More than one record contains this number. "
            "Write the record's offset in the log.",
            Exercise(
                "back_record",
                _RETURNED_RECORD,
                f"back_record = {_RETURNED_RECORD}",
                _HINTS,
                known_mistakes={
                    "This record has the same offset, but it was deleted at 21:10.": _FIRST_RECORD_WITH_IT,
                    "This is a tombstone. It has no offset.": _RETURNED_RECORD + 1,
                    "This is the marker. It decides whether the offset counts, but it does not contain the offset.": (
                        _RETURNED_RECORD + 2
                    ),
                },
            ),
        ),
        Question(
            "Broker 3 closes the active segment, and the cleaner makes a pass over all closed segments. Then broker 3 "
            "restarts. Which offset of `receipts-2` does it answer?",
            Exercise(
                "back_cleaned",
                NO_OFFSET,
                f"back_cleaned = {NO_OFFSET}",
                _HINTS,
                known_mistakes={
                    "The tombstone has the same key as the record with this offset, and it is later in the log. So the "
                    "pass removes the record, and the marker has nothing to commit.": STUCK_AT,
                    "No record contains this offset. So no broker can answer it.": CHOSEN_BY_CONSUMER,
                },
            ),
        ),
    ),
    write=write,
    worked_solution=(
        Step(
            "`receipts-1`: somebody committed 3,600 while a transaction was open. Record 5865 is later in the log than "
            "5864, so it wins. Broker 2 had the same offset. `receipts-2`: somebody deleted the offset while a "
            "transaction was open.",
            "kafkagroups explain . --group loyalty-ledger --kafka 3.9.2",
            shows="30:5864",
            lines=10,
        ),
        Step(
            "Broker 2 was running at 21:10. It deleted the pending offset, too, so it had no offset. A classic load "
            "keeps the pending offset, and the marker commits it. The new coordinator has no offset.",
            "kafkagroups diff . --coordinators",
            lines=6,
        ),
        Step(
            "Run a pass of the cleaner on a copy. Records 5888 and 5889 have the same key, so it removes record 5888.",
            f"kafkagroups edit __consumer_offsets-30 --out cleaned --roll --clean {CLEANED_MS}",
        ),
        Step(
            "Now `receipts-2` has no offset.",
            "kafkagroups load cleaned --kafka 3.9.2 --group loyalty-ledger",
            shows=" group          committed",
            lines=5,
        ),
    ),
    cause="Only `receipts-2` went back at the failover. Somebody deleted its offset half a second before the end of a "
    "transaction. The running coordinator of Kafka 3.9 also deleted the pending offset, but a load brings it back. "
    "`receipts-1` was at 3,600 since 21:04, because a plain commit came between an offset and its marker. A process "
    "fetches its offset only at its start.",
    prevention=(
        "Before you change an offset, stop the program, and wait until no transaction of it is `Ongoing` in "
        "`kafka-transactions.sh list`. A program that uses `assign` is no member, so no broker refuses the change.",
        "To skip records, do not delete the offset. Set it with `kafka-consumer-groups.sh --reset-offsets`. This "
        "commit is later in the log, so it also wins after a failover.",
        "While a program runs, never commit for its group with another program.",
        "Upgrade to 4.x. Its coordinator deletes pending offsets in a load, too.",
    ),
)
