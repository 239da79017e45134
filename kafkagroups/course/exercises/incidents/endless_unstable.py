"""Incident 8: UNSTABLE_OFFSET_COMMIT for ever. A late commit began a transaction days ago, and no marker follows."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

from kafkagroups import CleanerConfig, compact
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.incidents.chart import Chart
from kafkagroups.course.exercises.incidents.incident import Incident, Question, Step
from kafkagroups.course.exercises.incidents.incident_log import IncidentLog, name_partition
from kafkagroups.log.segment_file import partition_for

KAFKA = "3.9.2"
GROUP = "receipt-totals"
IMPORT = "price-export"
PLAIN_GROUPS = {"order-sync": ("orders", 4), "till-board": ("tills", 3), "stock-copy": ("stock", 2)}
"""The topic of each group without transactions, and the number of its partitions."""
SEGMENT_BYTES = 64 * 1024
MINUTE_MS = 60_000
START_MS = 1_775_865_600_000  # 2026-04-11 00:00 UTC, a Saturday
STEP_MINUTES = 10
STEPS = 779
"""The number of steps of ten minutes. The last one begins on Thursday at 09:40."""
CLEANED_STEP = 276  # Sunday 22:00
HANGING_STEPS = (301, 598)  # Monday 02:10 and Wednesday 03:40
DEPLOYED_STEP = 776  # Thursday 09:20
ABORTED = {(238, 2), (475, 0), (498, 1), (642, 2)}
"""Each step and process whose transaction is aborted. The process then uses a new producer."""
LATE_MS = 1_900
"""How long after the marker the late offsets arrive."""
STEPS_OF_IMPORT = 36
FIRST_IMPORT_PART = 15
RESTARTED_IMPORT = 16
FIRST_PRODUCER = 4017
IMPORT_PRODUCER = 3107
IMPORT_EPOCH = 3
RECEIPTS = 12
"""The receipts that each transaction reads from a topic-partition."""
PARTITION = partition_for(GROUP, 50)


class _Processes:
    """The three processes of `receipt-totals`. Each one reads two fixed topic-partitions and has its own producer."""

    def __init__(self, log: IncidentLog) -> None:
        self.log = log
        self.producers = [FIRST_PRODUCER, FIRST_PRODUCER + 1, FIRST_PRODUCER + 2]
        self.positions = [2_400 + 60 * number for number in range(6)]

    def run_transaction(self, process: int, time_ms: int, *, commits: bool) -> None:
        self.append_offsets(process, self.producers[process], time_ms)
        self.end_transaction(process, time_ms + 300, commits=commits)

    def abort_before_late_offsets(self, process: int, time_ms: int, *, repeats: bool) -> None:
        """Append an abort marker, and then a request of the transaction, which may repeat one that arrived in time."""
        producer_id = self.producers[process]
        if repeats:
            self.append_offsets(process, producer_id, time_ms - 30_000)
        self.end_transaction(process, time_ms - LATE_MS, commits=False)
        self.append_offsets(process, producer_id, time_ms)

    def append_offsets(self, process: int, producer_id: int, time_ms: int) -> None:
        offsets: dict[str, int | None] = {
            f"receipts-{number}": self.positions[number] + RECEIPTS for number in (2 * process, 2 * process + 1)
        }
        self.log.commit(GROUP, offsets, time_ms, producer_id=producer_id)

    def end_transaction(self, process: int, time_ms: int, *, commits: bool, producer_epoch: int = 0) -> None:
        """Append a marker. After an abort, the process goes back to its positions and uses a new producer."""
        producer_id = self.producers[process]
        self.log.end_transaction(PARTITION, producer_id, time_ms, commits=commits, producer_epoch=producer_epoch)
        if commits:
            self.positions[2 * process] += RECEIPTS
            self.positions[2 * process + 1] += RECEIPTS
        else:
            self.use_new_producer(process)

    def use_new_producer(self, process: int) -> None:
        self.producers[process] = max(self.producers) + 1


def write(folder: Path, seed: int) -> None:
    """Write the partition of `receipt-totals` from Saturday to Thursday. The cleaner runs on Sunday evening."""
    random = Random(seed)
    name = name_partition(GROUP)
    uncleaned = folder / "uncleaned"
    with IncidentLog(uncleaned, segment_bytes=SEGMENT_BYTES) as log:
        processes = _Processes(log)
        for step in range(CLEANED_STEP):
            _write_step(log, processes, step, random)
    compact(uncleaned / name, folder / name, CleanerConfig(_find_time(CLEANED_STEP), segment_bytes=SEGMENT_BYTES))
    shutil.rmtree(uncleaned)
    with IncidentLog(folder, segment_bytes=SEGMENT_BYTES) as log:
        processes.log = log
        for step in range(CLEANED_STEP, STEPS):
            _write_step(log, processes, step, random)


def _write_step(log: IncidentLog, processes: _Processes, step: int, random: Random) -> None:
    time_ms = _find_time(step)
    for process in range(3):
        begin_ms = time_ms + process * MINUTE_MS + random.randrange(20_000)
        if process == 1 and step in HANGING_STEPS:
            late_ms = time_ms + MINUTE_MS + 15_000
            processes.abort_before_late_offsets(process, late_ms, repeats=step == HANGING_STEPS[1])
        elif process == 1 and step == DEPLOYED_STEP:
            # The process is killed. The transaction coordinator aborts its transaction after a minute.
            killed_ms = time_ms + 55_000
            processes.append_offsets(process, processes.producers[process], killed_ms)
            processes.end_transaction(process, killed_ms + MINUTE_MS, commits=False, producer_epoch=1)
        elif process != 1 or step < DEPLOYED_STEP:
            processes.run_transaction(process, begin_ms, commits=(step, process) not in ABORTED)
            if step == DEPLOYED_STEP:
                processes.use_new_producer(process)
    for group, (topic, partitions) in PLAIN_GROUPS.items():
        offsets: dict[str, int | None] = {f"{topic}-{n}": 40 * step + random.randrange(40) for n in range(partitions)}
        log.commit(group, offsets, time_ms + 4 * MINUTE_MS + random.randrange(20_000))
    _write_import(log, step, time_ms)


def _write_import(log: IncidentLog, step: int, time_ms: int) -> None:
    number, part = divmod(step + FIRST_IMPORT_PART, STEPS_OF_IMPORT)
    epoch = IMPORT_EPOCH if number <= RESTARTED_IMPORT else IMPORT_EPOCH + 2
    if part == 0:
        for chunk in range(3):
            offsets: dict[str, int | None] = {"prices-0": 900 * number + 300 * (chunk + 1)}
            chunk_ms = time_ms + 5 * MINUTE_MS + chunk * 2_000
            log.commit(IMPORT, offsets, chunk_ms, producer_id=IMPORT_PRODUCER, producer_epoch=epoch)
    elif part == 1 and step < STEPS - 1:
        # The new process of the restarted import has a higher epoch. So the marker has one, too.
        is_restarted = number == RESTARTED_IMPORT
        marker_ms = time_ms + 7 * MINUTE_MS
        marker_epoch = epoch + is_restarted
        log.end_transaction(
            PARTITION, IMPORT_PRODUCER, marker_ms, commits=not is_restarted, producer_epoch=marker_epoch
        )


def _find_time(step: int) -> int:
    return START_MS + step * STEP_MINUTES * MINUTE_MS


_HINTS = (
    "An open transaction has offsets, and no marker of its producer after them. Ask which transactions are open, and "
    "which of them will still get a marker.",
    "`kafkagroups stats . --kafka 3.9.2` lists the open transactions, and where the cleaner stops. `kafkagroups "
    "explain` has the fate of each offset of a group. `kafkagroups edit --marker` ends a transaction in a copy.",
    "Search the producers of the findings in the list of transactions: what is their state? Then look for `pending` in "
    "the output of `explain`. The name of a segment file is its first offset: count the files from `stops at` on.",
)
_OFFSET_AFTER = 11_856
_PENDING = (6_204, 9_744)
_HANGING_PRODUCER = FIRST_PRODUCER + 1
_KILLED_PRODUCER = FIRST_PRODUCER + 7
_CLOSED_SEGMENTS = 11

INCIDENT = Incident(
    number=8,
    name="endless_unstable",
    level=3,
    title="Process B waits for stable offsets",
    kafka=KAFKA,
    complaint="""\
On Thursday at 09:20, we deployed `receipt-totals`. Each of its three processes reads two fixed topic-partitions and
commits in transactions. The new processes A and C work. The new process B waits for its offsets.

We killed the old process B during the deployment, so its transaction was open. We waited until its timeout of one
minute was over. Then we restarted B four times, and broker 1 once. Before Thursday, B had worked for a week.

`price-export` also writes its offsets in transactions, which take up to twelve minutes. It works. The chart shows
partition 44 of `__consumer_offsets`, which stores both groups. The storage team says that this is another problem.

The brokers have default settings, except for `transaction.partition.verification.enable=false`.
""",
    server_log=(
        "[2026-04-16 09:21:55,007] INFO [TransactionCoordinator id=1] Completed rollback of ongoing transaction for "
        "transactionalId receipt-totals-9d30 due to timeout (kafka.coordinator.transaction.TransactionCoordinator)",
        "[2026-04-16 09:24:02,318] INFO [Consumer clientId=b, groupId=receipt-totals] The following partitions still "
        "have unstable offsets which are not cleared on the broker side: [receipts-2, receipts-3], this could be "
        "either transactional offsets waiting for completion, or normal offsets waiting for replication after "
        "appending to local log (org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)",
        "",
        "09:44 $ kafka-transactions.sh --bootstrap-server localhost:9092 list | grep -v Empty",
        "TransactionalId      Coordinator  ProducerId  TransactionState",
        "price-export         2            3107        Ongoing",
        "receipt-totals-07c1  1            4017        CompleteAbort",
        "receipt-totals-e44b  3            4018        CompleteAbort",
        "receipt-totals-a1f6  2            4019        CompleteAbort",
        "receipt-totals-30d8  1            4020        CompleteAbort",
        "receipt-totals-b95e  3            4021        CompleteAbort",
        "receipt-totals-c418  3            4022        CompleteCommit",
        "receipt-totals-52e9  2            4023        CompleteAbort",
        "receipt-totals-9d30  1            4024        CompleteAbort",
        "receipt-totals-6f07  2            4025        CompleteCommit",
        "receipt-totals-d2ab  1            4026        CompleteCommit",
        "receipt-totals-18c3  2            4028        CompleteCommit",
    ),
    chart=Chart(
        "Size of partition 44 at the end of the day, in kB",
        ("Sat", "Sun", "Mon", "Tue", "Wed", "Thu 09:44"),
        (216, 102, 318, 533, 749, 837),
    ),
    questions=(
        Question(
            "At the transaction of which producer does the log cleaner stop? Write the producer id.",
            Exercise(
                "unstable_producer",
                _HANGING_PRODUCER,
                f"unstable_producer = {_HANGING_PRODUCER}",
                _HINTS,
                known_mistakes={
                    "A marker ended the transaction of the killed process. The marker's epoch is higher, because the "
                    "transaction coordinator aborted the transaction. Every epoch ends it.": _KILLED_PRODUCER,
                    "This transaction is open, too, but another one began before it.": FIRST_PRODUCER + 6,
                    "This is the import. It began a few minutes before the copy was made.": IMPORT_PRODUCER,
                },
            ),
        ),
        Question(
            "How many transactions must be aborted before `receipts-3` has a stable offset?",
            Exercise(
                "unstable_aborts",
                len(HANGING_STEPS),
                f"unstable_aborts = {len(HANGING_STEPS)}",
                _HINTS,
                known_mistakes={
                    "After this abort, `receipts-3` has another pending offset.": 1,
                    "One of the open transactions has no offset of `receipts-3`, and its state is `Ongoing`. Never "
                    "abort a transaction that somebody will end.": 3,
                },
            ),
        ),
        Question(
            "How many closed segments can the cleaner not clean now?",
            Exercise(
                "unstable_segments",
                _CLOSED_SEGMENTS,
                f"unstable_segments = {_CLOSED_SEGMENTS}",
                _HINTS,
                known_mistakes={
                    "The segment in which the transaction begins is not cleaned, either.": _CLOSED_SEGMENTS - 1,
                    "The last segment is the active one. It is not closed.": _CLOSED_SEGMENTS + 1,
                    "The segments before the transaction can be cleaned.": 17,
                },
            ),
        ),
        Question(
            "Which offset does `receipts-3` have after these aborts?",
            Exercise(
                "unstable_offset_after",
                _OFFSET_AFTER,
                f"unstable_offset_after = {_OFFSET_AFTER}",
                _HINTS,
                known_mistakes={
                    "This offset is pending in the first transaction. After an abort, it never counts.": _PENDING[0],
                    "This offset is pending in the second transaction. After an abort, it never counts.": _PENDING[1],
                    "This offset was in the transaction of the killed process, which was aborted.": (
                        _OFFSET_AFTER + RECEIPTS
                    ),
                    "This is the offset before the first of these transactions. Later transactions were committed.": (
                        _PENDING[0] - RECEIPTS
                    ),
                },
            ),
        ),
    ),
    write=write,
    worked_solution=(
        Step(
            "Three transactions are open. The list shows only producer 3107 as `Ongoing`. So nobody will end the two "
            "others. Finding 2 says how such a transaction begins.",
            "kafkagroups stats . --kafka 3.9.2",
            lines=29,
        ),
        Step(
            "Both transactions have offsets of `receipts-2` and `receipts-3`. The marker at 14059 has ended the "
            "transaction of the killed process, producer 4024.",
            "kafkagroups explain . --group receipt-totals --kafka 3.9.2",
            lines=12,
        ),
        Step(
            "The first transaction begins at offset 5454, in the segment that begins at 4749. The cleaner stops there. "
            "The files 4749 to 12658 are eleven closed segments.",
            "kafkagroups stats . --kafka 3.9.2",
            shows=" part. stops at",
            lines=3,
        ),
        Step(
            "Abort both transactions in a copy.",
            "kafkagroups edit __consumer_offsets-44 --out ended --marker abort:4018 --marker abort:4023",
        ),
        Step(
            "Nothing of this group is pending in the copy. Its offsets are those before the deployment.",
            "kafkagroups load ended --kafka 3.9.2 --group receipt-totals",
            shows=" group          committed",
            lines=10,
        ),
    ),
    cause="On Monday and on Wednesday, a request with offsets arrived two seconds after the abort of its transaction. "
    "Each request began a new transaction. The program no longer used its producer, so no marker follows. A process "
    "fetches its offsets only at its start, so B worked until the deployment. The cleaner has stopped since Monday.",
    prevention=(
        "Keep the default `transaction.partition.verification.enable=true`. Then brokers refuse a request with offsets "
        "that arrives after the end of its transaction.",
        "With brokers and clients of 4.0 or newer, each transaction has a new producer epoch, so late requests are "
        "refused.",
        "Use a fixed `transactional.id` for each process, and no new one after an abort. Then the producer id stays. "
        "The marker of the next transaction also ends the late one.",
        "Run `kafka-transactions.sh find-hanging` every day. Alert if a partition of `__consumer_offsets` grows for "
        "more than a day.",
    ),
)
