"""Incident 8: UNSTABLE_OFFSET_COMMIT for ever. A late commit began a transaction days ago, and no marker follows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

from kafkagroups import CleanerConfig, compact
from kafkagroups.course.exercises.incidents.incident_log import IncidentLog, name_partition
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


class _Process:
    """A process of `receipt-totals`. It reads two topic-partitions, and has a producer from `producers`."""

    def __init__(self, log: IncidentLog, number: int, producers: Iterator[int]) -> None:
        self.log = log
        self.producers = producers
        self.producer_id = next(producers)
        self.positions = {f"receipts-{each}": 2_400 + 60 * each for each in (2 * number, 2 * number + 1)}

    def run_transaction(self, time_ms: int, *, commits: bool) -> None:
        self.append_offsets(time_ms)
        self.end_transaction(time_ms + 300, commits=commits)

    def abort_before_late_offsets(self, time_ms: int, *, repeats: bool) -> None:
        if repeats:
            self.append_offsets(time_ms - 30_000)
        late_producer = self.producer_id
        self.end_transaction(time_ms - LATE_MS, commits=False)
        self.append_offsets(time_ms, late_producer)

    def append_offsets(self, time_ms: int, producer_id: int | None = None) -> None:
        offsets = {name: position + RECEIPTS for name, position in self.positions.items()}
        self.log.commit(GROUP, offsets, time_ms, (producer_id or self.producer_id, 0))

    def end_transaction(self, time_ms: int, *, commits: bool, producer_epoch: int = 0) -> None:
        """After an abort, the process goes back to its positions and uses a new producer."""
        self.log.append_marker(PARTITION, self.producer_id, producer_epoch, commits=commits, timestamp=time_ms)
        if commits:
            self.positions = {name: position + RECEIPTS for name, position in self.positions.items()}
        else:
            self.producer_id = next(self.producers)


def write(folder: Path, seed: int) -> None:
    random = Random(seed)
    name = name_partition(GROUP)
    uncleaned = folder / "uncleaned"
    with IncidentLog(uncleaned, value_version=3, segment_bytes=SEGMENT_BYTES) as log:
        producers = count(FIRST_PRODUCER)
        processes = [_Process(log, number, producers) for number in range(3)]
        for step in range(CLEANED_STEP):
            _write_step(log, processes, step, random)
    compact(uncleaned / name, folder / name, CleanerConfig(_find_time(CLEANED_STEP), segment_bytes=SEGMENT_BYTES))
    shutil.rmtree(uncleaned)
    with IncidentLog(folder, value_version=3, segment_bytes=SEGMENT_BYTES) as log:
        for process in processes:
            process.log = log
        for step in range(CLEANED_STEP, STEPS):
            _write_step(log, processes, step, random)


def _write_step(log: IncidentLog, processes: list[_Process], step: int, random: Random) -> None:
    time_ms = _find_time(step)
    for number, process in enumerate(processes):
        begin_ms = time_ms + number * MINUTE_MS + random.randrange(20_000)
        if number == 1 and step in HANGING_STEPS:
            process.abort_before_late_offsets(time_ms + MINUTE_MS + 15_000, repeats=step == HANGING_STEPS[1])
        elif number == 1 and step == DEPLOYED_STEP:
            # The process is killed. The transaction coordinator aborts its transaction after a minute.
            process.append_offsets(time_ms + 55_000)
            process.end_transaction(time_ms + 55_000 + MINUTE_MS, commits=False, producer_epoch=1)
        elif number != 1 or step < DEPLOYED_STEP:
            process.run_transaction(begin_ms, commits=(step, number) not in ABORTED)
            if step == DEPLOYED_STEP:
                process.producer_id = next(process.producers)
    for group, (topic, partitions) in PLAIN_GROUPS.items():
        offsets = {f"{topic}-{n}": 40 * step + random.randrange(40) for n in range(partitions)}
        log.commit(group, offsets, time_ms + 4 * MINUTE_MS + random.randrange(20_000))
    _write_import(log, step, time_ms)


def _write_import(log: IncidentLog, step: int, time_ms: int) -> None:
    number, part = divmod(step + FIRST_IMPORT_PART, STEPS_OF_IMPORT)
    epoch = IMPORT_EPOCH if number <= RESTARTED_IMPORT else IMPORT_EPOCH + 2
    if part == 0:
        for chunk in range(3):
            offsets = {"prices-0": 900 * number + 300 * (chunk + 1)}
            log.commit(IMPORT, offsets, time_ms + 5 * MINUTE_MS + chunk * 2_000, (IMPORT_PRODUCER, epoch))
    elif part == 1 and step < STEPS - 1:
        # The new process of the restarted import has a higher epoch. So the marker has one, too.
        is_restarted = number == RESTARTED_IMPORT
        marker_ms = time_ms + 7 * MINUTE_MS
        log.append_marker(
            PARTITION, IMPORT_PRODUCER, epoch + is_restarted, commits=not is_restarted, timestamp=marker_ms
        )


def _find_time(step: int) -> int:
    return START_MS + step * STEP_MINUTES * MINUTE_MS
