"""Incident 2: some failovers are slow. The log cleaner of one broker has stopped, and only its replica is long."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from kafkagroups import CleanerConfig, compact
from kafkagroups.coordinator import GroupCoordinator
from kafkagroups.course.broker import start_broker
from kafkagroups.course.exercises.incidents.incident_log import (
    IncidentLog,
    commit_offsets,
    join,
    make_consumer,
    name_partition,
)
from kafkagroups.course.small_logs import DAY_MS, MINUTE_MS
from kafkagroups.log.folders import open_log

KAFKA = "4.3.1"
BUSY_GROUP = "order-sync"
BUSY_PARTITIONS = 6
VIEW_GROUPS = {"kitchen-view": 3, "counter-view": 2}
"""Consumer groups with one member each, and the number of topic-partitions of their topics."""
COPY_GROUPS = {"stock-copy": 4, "price-export": 3, "fridge-export": 2}
"""Groups without a member that commit every two hours, and their numbers of topic-partitions."""
DELETED_GROUPS = {2: "oven-print", 6: "table-sync", 30: "refund-count"}
"""Groups without a member that commit once a day. The key is the day on which an operator deletes the group."""
PARTITIONS = {BUSY_GROUP: BUSY_PARTITIONS} | VIEW_GROUPS | COPY_GROUPS | dict.fromkeys(DELETED_GROUPS.values(), 1)
STEP_MS = 20 * MINUTE_MS
STEPS_PER_DAY = 72
DELETION_STEP = 30
START_MS = 1_772_409_600_000  # 2026-03-02 00:00 UTC
DAYS = 34
SEGMENT_BYTES = 32 * 1024
PASSES = {"broker-1": (4, 9, 21, 33), "broker-2": (4, 9)}
"""The days on which the log cleaner of each broker cleaned the partition, at 10:00. The first day is 0."""
PASS_TIME_MS = 10 * 60 * MINUTE_MS


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
        topics = {group.split("-")[0]: count for group, count in PARTITIONS.items()}
        broker = start_broker(log, KAFKA, now_ms=START_MS, topics=topics, group_initial_rebalance_delay_ms=0)
        views = [make_consumer(broker, group, 1, topics) for group in VIEW_GROUPS]
        join(broker, *views, records=1)
        position = 0
        for step in range(DAYS * STEPS_PER_DAY):
            broker.clock.advance_to(START_MS + (step + 1) * STEP_MS)
            position += random.randint(20, 90)
            _commit(broker, BUSY_GROUP, BUSY_PARTITIONS, position)
            for view in views:
                view.poll(random.randint(1, 9))
                if step % 6 == 1:
                    view.commit()
            if step % 6 == 2:
                for group, partitions in COPY_GROUPS.items():
                    _commit(broker, group, partitions, position // 5)
            day, step_of_day = divmod(step, STEPS_PER_DAY)
            if step_of_day == DELETION_STEP:
                _commit_or_delete(broker, day, position // 7)


def _commit(broker: GroupCoordinator, group: str, partitions: int, position: int) -> None:
    topic = group.split("-")[0]
    commit_offsets(broker, group, {f"{topic}-{number}": position + number for number in range(partitions)})


def _commit_or_delete(broker: GroupCoordinator, day: int, position: int) -> None:
    for last_day, group in DELETED_GROUPS.items():
        if day < last_day:
            commit_offsets(broker, group, {f"{group.split('-')[0]}-0": position})
        elif day == last_day:
            broker.delete_groups([group])
