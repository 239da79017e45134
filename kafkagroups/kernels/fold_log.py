"""The compiled engine: folds one log into a shard, or hands the log to the readable engine.

A shard is the state of one partition (groups/shard.py). To fold a log means to apply its records, one after another, to
a shard. The readable engine is written in plain Python (groups/fold.py). The compiled engine hands over a log that has
an unusual layout, damage, batches of magic 0 or 1, or a record that the coordinator refuses. The compiled engine also
hands over every log if the rules are those of Kafka before 0.10.1, because these versions store offsets separately from
groups. Tests compare the two engines on all captured, crafted and random logs.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups import fold as readable_engine
from kafkagroups.groups.classic_shard import has_separate_offset_cache
from kafkagroups.groups.fold import create_shard, resume_shard
from kafkagroups.groups.shard import CountBytes, Shard, ignore_bytes
from kafkagroups.kernels import layout
from kafkagroups.kernels.followed_fates import FollowedFates
from kafkagroups.kernels.followed_log import FollowedLog
from kafkagroups.kernels.follower import RecordFollower
from kafkagroups.kernels.read_events import EventReader
from kafkagroups.kernels.shards import FindCommits, FoldedShardOffsets, fill_shard
from kafkagroups.kernels.state import FoldState
from kafkagroups.kernels.unpack import as_array
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.records.dialects import Dialect


def fold(
    log: Log,
    dialect: Dialect,
    stop: Stop = NO_STOP,
    base: Shard | None = None,
    count_bytes: CountBytes = ignore_bytes,
) -> Shard:
    """Fold a log into a shard. `stop` says where reading ends (log/stop.py).

    `base` is the shard of the earlier part of the log, or None. If there is a `base`, the log is folded onto a copy of
    `base`. The log must then begin at the next offset of `base` or later. `count_bytes` is called with the number of
    bytes that were read since its last call.
    """
    shard = fold_if_possible(log, dialect, stop, base, count_bytes)
    if shard is None:
        return readable_engine.fold(log, dialect, stop, base, count_bytes)
    return shard


def fold_if_possible(
    log: Log,
    dialect: Dialect,
    stop: Stop = NO_STOP,
    base: Shard | None = None,
    count_bytes: CountBytes = ignore_bytes,
) -> Shard | None:
    """Return the shard of a log as `fold` does, or None if the readable engine must load the log."""
    if has_separate_offset_cache(dialect):
        return None
    state = _start_state(log, dialect, stop, base)
    if state is None:
        return None
    result = _fold_onto(state, log, dialect, base, count_bytes)
    return None if result is None else result.shard


class _Folded(NamedTuple):
    """The shard of a log, and the function that finds the commits of groups in this log."""

    shard: Shard
    find_commits: FindCommits


def follow_if_possible(
    log: Log, dialect: Dialect, stop: Stop = NO_STOP, count_bytes: CountBytes = ignore_bytes
) -> tuple[Shard, FollowedLog] | None:
    """Fold a log and follow its records. Return None if the readable engine must load the log."""
    if has_separate_offset_cache(dialect):
        return None
    follower = RecordFollower(dialect)
    state = FoldState(dialect, stop, log.size, follower=follower, segment_count=len(log.segments))
    # Offsets before the start of the log are not missing.
    state.counts[layout.NEXT_OFFSET] = log.start_offset
    folded = _fold_onto(state, log, dialect, None, count_bytes)
    return None if folded is None else (folded.shard, FollowedLog.finish(log, dialect, state, follower))


def follow_fates_if_possible(log: Log, dialect: Dialect, stop: Stop = NO_STOP) -> tuple[Shard, FollowedFates] | None:
    """Fold a log and follow the fate of each record. Return None if the readable engine must load the log."""
    if has_separate_offset_cache(dialect):
        return None
    follower = RecordFollower(dialect)
    segment_count = len(log.segments)
    state = FoldState(dialect, stop, log.size, keeps_each_fate=True, follower=follower, segment_count=segment_count)
    folded = _fold_onto(state, log, dialect, None, ignore_bytes)
    if folded is None:
        return None
    return folded.shard, FollowedFates.finish(log.partition, state, follower, folded.find_commits)


def _fold_onto(
    state: FoldState, log: Log, dialect: Dialect, base: Shard | None, count_bytes: CountBytes
) -> _Folded | None:
    """Fold a log onto a state. Return None if the readable engine must load the log."""
    state.limit_batches(log.max_batch_bytes)
    if not _read_segments(log, state, count_bytes):
        return None
    offsets = FoldedShardOffsets(state)
    shard = create_shard(log, dialect, offsets) if base is None else resume_shard(base, log, offsets)
    shard.loaded.zeros = log.zeros
    shard.loaded.gaps = [] if log.skips_damage else None  # A log with damage is handed over.
    counts = state.counts.tolist()
    shard.loaded.batches = counts[layout.BATCHES]
    shard.loaded.records = counts[layout.RECORDS]
    if counts[layout.BATCHES]:
        shard.loaded.next_offset = counts[layout.NEXT_OFFSET]
    first_offset = 0 if base is None else base.loaded.next_offset
    find_commits = partial(_find_commits, log, counts[layout.BATCHES])
    try:
        fill_shard(shard, offsets, list(state.other_records), find_commits, first_offset)
    except (LoadFailed, BadBytes):
        # The readable engine must load the log again: only its shard has the exact content at the failure.
        return None
    state.release_other_records()
    return _Folded(shard, find_commits)


def _start_state(log: Log, dialect: Dialect, stop: Stop, base: Shard | None) -> FoldState | None:
    """Return the fold state to start with: a copy of the state of `base`, or an empty state if there is no `base`.

    Return None if the readable engine made `base`, because a shard from this engine has no arrays.
    """
    if base is None:
        return FoldState(dialect, stop, log.size)
    if not isinstance(base.offsets, FoldedShardOffsets):
        return None
    copied_arrays = {name: array.copy() for name, array in base.offsets.state.arrays_to_save().items()}
    return FoldState.restore(dialect, copied_arrays)


def _find_commits(log: Log, batch_count: int, group_ids: Collection[str]) -> list[tuple[int, str]]:
    """Return the Kafka offset and the group id of each commit that may create one of these groups (events.py).

    The commits are in the order of the log. The compiled engine must have folded `batch_count` batches of the log.
    """
    return list(EventReader(log, group_ids, batch_count).read())


def _read_segments(log: Log, state: FoldState, count_bytes: CountBytes) -> bool:
    """Fold the segments of a log in order. Return False if the readable engine must load the log."""
    log.zeros = None
    for segment_number, segment in enumerate(log.segments):
        state.counts[layout.SEGMENT] = segment_number
        reported_position = 0

        def report(position: int) -> None:
            """Report the progress. `position` is the number of bytes of this segment that were read so far."""
            nonlocal reported_position
            count_bytes(position - reported_position)
            reported_position = position

        if log.content:  # The segments are buffers, not files of this machine.
            if not state.fold_segment(as_array(log.read(segment)), report):
                return False
        else:
            with log.open(segment) as file:
                if not state.fold_file(file, report):
                    return False
        # The bytes after a stop and zeros are not reported yet, but the progress must reach 100 %.
        report(log.segment_size(segment))
        if state.zeros_bytes:
            log.note_zeros(segment, log.segment_start(segment) + state.zeros_start, state.zeros_bytes)
    return True
