"""Incident 9: offsets go back after a failover. One lost a race, and one was deleted during a transaction."""

from __future__ import annotations

from pathlib import Path
from random import Random

from kafkagroups.course.broker import commit_in_transaction, end_transaction, start_broker
from kafkagroups.course.exercises.incidents.incident_log import IncidentLog, commit_offsets
from kafkagroups.course.small_logs import MINUTE_MS
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.log.segment_file import partition_for

KAFKA = "3.9.2"
GROUP = "loyalty-ledger"
PLAIN_GROUPS = {"stock-totals": ("stock", 3), "oven-sync": ("ovens", 2), "milk-check": ("milk", 2)}
"""The topic of each group without transactions, and the number of its partitions."""
PARTITION = partition_for(GROUP, 50)
SEGMENT_BYTES = 64 * 1024
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


def write(folder: Path, seed: int) -> None:
    with IncidentLog(folder, segment_bytes=SEGMENT_BYTES) as log:
        _Friday(log, Random(seed)).run()


class _Friday:
    def __init__(self, log: IncidentLog, random: Random) -> None:
        self.random = random
        self.broker = start_broker(log, KAFKA, now_ms=OPEN_MS, topics=None)
        self.positions = [2_715, READ_AT_CLOSING - CLOSED_STEP * RECEIPTS, STUCK_AT - STUCK_STEP * RECEIPTS, 3_240]

    def run(self) -> None:
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
                commit_offsets(self.broker, group, offsets)

    def _read_receipts(self, process: int, step: int, time_ms: int) -> None:
        """Process 2 always fails at one receipt, and aborts."""
        fails = process == 2 and step >= STUCK_STEP
        self._commit_in_transaction(time_ms, process, self.positions[process] + RECEIPTS)
        self._end_transaction(time_ms + self.random.randrange(100, 900), process, commits=not fails)
        if not fails:
            self.positions[process] += RECEIPTS

    def _set_back(self, time_ms: int) -> None:
        self._commit_in_transaction(time_ms + 2_000, 1, self.positions[1])
        self._wait(time_ms + 2_700)
        commit_offsets(self.broker, GROUP, {"receipts-1": SET_BACK_TO})
        self._end_transaction(time_ms + 3_400, 1, commits=True)

    def _skip_receipts(self, time_ms: int) -> None:
        self._commit_in_transaction(time_ms + 4_000, 2, self.positions[2])
        self._wait(time_ms + 4_600)
        self.broker.offset_delete(GROUP, [TopicPartition.parse("receipts-2")])
        self._end_transaction(time_ms + 5_100, 2, commits=True)

    def _wait(self, time_ms: int) -> None:
        self.broker.clock.advance_to(time_ms)

    def _commit_in_transaction(self, time_ms: int, process: int, offset: int) -> None:
        self._wait(time_ms)
        commit_in_transaction(self.broker, GROUP, FIRST_PRODUCER + process, {f"receipts-{process}": offset})

    def _end_transaction(self, time_ms: int, process: int, *, commits: bool) -> None:
        self._wait(time_ms)
        end_transaction(self.broker, GROUP, FIRST_PRODUCER + process, commits=commits)


CLEANED_MS = OPEN_MS + 16 * 60 * MINUTE_MS  # Saturday 00:00
