"""Incident 8: UNSTABLE_OFFSET_COMMIT for ever. A late commit began a transaction days ago, and no marker follows."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

from kafkagroups import CleanerConfig, compact
from kafkagroups.course.exercises.incidents.incident_log import OldIncidentLog, name_partition
from kafkagroups.course.small_logs import MINUTE_MS
from kafkagroups.log.segment_file import partition_for

GROUP = "receipt-totals"
IMPORT = "price-export"
PLAIN_GROUPS = {"order-sync": ("orders", 4), "till-board": ("tills", 3), "stock-copy": ("stock", 2)}
"""The topic of each group without transactions, and the number of its partitions."""
SEGMENT_BYTES = 64 * 1024
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

    def __init__(self, log: OldIncidentLog) -> None:
        self.log = log
        self.producers = [FIRST_PRODUCER, FIRST_PRODUCER + 1, FIRST_PRODUCER + 2]
        self.positions = [2_400 + 60 * number for number in range(6)]

    def run_transaction(self, process: int, time_ms: int, *, commits: bool) -> None:
        self.append_offsets(process, self.producers[process], time_ms)
        self.end_transaction(process, time_ms + 300, commits=commits)

    def abort_before_late_offsets(self, process: int, time_ms: int, *, repeats: bool) -> None:
        producer_id = self.producers[process]
        if repeats:
            self.append_offsets(process, producer_id, time_ms - 30_000)
        self.end_transaction(process, time_ms - LATE_MS, commits=False)
        self.append_offsets(process, producer_id, time_ms)

    def append_offsets(self, process: int, producer_id: int, time_ms: int) -> None:
        offsets = {f"receipts-{number}": self.positions[number] + RECEIPTS for number in (2 * process, 2 * process + 1)}
        self.log.commit(GROUP, offsets, time_ms, producer_id=producer_id)

    def end_transaction(self, process: int, time_ms: int, *, commits: bool, producer_epoch: int = 0) -> None:
        """After an abort, the process goes back to its positions and uses a new producer."""
        producer_id = self.producers[process]
        self.log.append_marker(PARTITION, producer_id, producer_epoch, commits=commits, timestamp=time_ms)
        if commits:
            self.positions[2 * process] += RECEIPTS
            self.positions[2 * process + 1] += RECEIPTS
        else:
            self.use_new_producer(process)

    def use_new_producer(self, process: int) -> None:
        self.producers[process] = max(self.producers) + 1


def write(folder: Path, seed: int) -> None:
    random = Random(seed)
    name = name_partition(GROUP)
    uncleaned = folder / "uncleaned"
    with OldIncidentLog(uncleaned, segment_bytes=SEGMENT_BYTES) as log:
        processes = _Processes(log)
        for step in range(CLEANED_STEP):
            _write_step(log, processes, step, random)
    compact(uncleaned / name, folder / name, CleanerConfig(_find_time(CLEANED_STEP), segment_bytes=SEGMENT_BYTES))
    shutil.rmtree(uncleaned)
    with OldIncidentLog(folder, segment_bytes=SEGMENT_BYTES) as log:
        processes.log = log
        for step in range(CLEANED_STEP, STEPS):
            _write_step(log, processes, step, random)


def _write_step(log: OldIncidentLog, processes: _Processes, step: int, random: Random) -> None:
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
        offsets = {f"{topic}-{n}": 40 * step + random.randrange(40) for n in range(partitions)}
        log.commit(group, offsets, time_ms + 4 * MINUTE_MS + random.randrange(20_000))
    _write_import(log, step, time_ms)


def _write_import(log: OldIncidentLog, step: int, time_ms: int) -> None:
    number, part = divmod(step + FIRST_IMPORT_PART, STEPS_OF_IMPORT)
    epoch = IMPORT_EPOCH if number <= RESTARTED_IMPORT else IMPORT_EPOCH + 2
    if part == 0:
        for chunk in range(3):
            offsets = {"prices-0": 900 * number + 300 * (chunk + 1)}
            chunk_ms = time_ms + 5 * MINUTE_MS + chunk * 2_000
            log.commit(IMPORT, offsets, chunk_ms, producer_id=IMPORT_PRODUCER, producer_epoch=epoch)
    elif part == 1 and step < STEPS - 1:
        # The new process of the restarted import has a higher epoch. So the marker has one, too.
        is_restarted = number == RESTARTED_IMPORT
        marker_ms = time_ms + 7 * MINUTE_MS
        log.append_marker(
            PARTITION, IMPORT_PRODUCER, epoch + is_restarted, commits=not is_restarted, timestamp=marker_ms
        )


def _find_time(step: int) -> int:
    return START_MS + step * STEP_MINUTES * MINUTE_MS
