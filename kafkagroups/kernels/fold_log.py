"""The compiled engine: fold one log into a shard. What it cannot do exactly it hands to the readable engine.

That is: odd layouts, refused records, damage, batches before magic 2, and Kafka before 0.10.1. Tests hold both engines
equal on every captured, crafted and random log.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import numpy as np

from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups import fold as readable_engine
from kafkagroups.groups.classic_shard import keeps_offsets_apart
from kafkagroups.groups.fold import create_shard, resume_shard
from kafkagroups.groups.shard import CountBytes, Shard, ignore_bytes
from kafkagroups.kernels import events, layout
from kafkagroups.kernels.scan import short_hash
from kafkagroups.kernels.shards import FoldedShardOffsets, replay_fold
from kafkagroups.kernels.state import FoldState
from kafkagroups.kernels.unpack import as_array, decompress_segment
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.records.versions import Dialect


def fold(
    log: Log,
    dialect: Dialect,
    stop: Stop = NO_STOP,
    base: Shard | None = None,
    count_bytes: CountBytes = ignore_bytes,
) -> Shard:
    """Fold a log, up to a stop, into a shard.

    With a `base`, the log must begin behind it: its records are folded onto a copy of the base.
    """
    shard = fold_if_plain(log, dialect, stop, base, count_bytes)
    if shard is None:
        return readable_engine.fold(log, dialect, stop, base, count_bytes)
    return shard


def fold_if_plain(
    log: Log,
    dialect: Dialect,
    stop: Stop = NO_STOP,
    base: Shard | None = None,
    count_bytes: CountBytes = ignore_bytes,
) -> Shard | None:
    """Fold a log as `fold` does. Return None if the readable engine must do it."""
    if keeps_offsets_apart(dialect):
        return None
    state = _start_state(log, dialect, stop, base)
    if state is None or not _read_segments(log, state, count_bytes):
        return None
    offsets = FoldedShardOffsets(state)
    shard = create_shard(log, dialect, offsets) if base is None else resume_shard(base, log, offsets)
    counts = state.counts.tolist()
    shard.loaded.batches = counts[layout.BATCHES]
    shard.loaded.records = counts[layout.RECORDS]
    if counts[layout.BATCHES]:
        shard.loaded.next_offset = counts[layout.NEXT_OFFSET]
    since = 0 if base is None else base.loaded.next_offset
    try:
        replay_fold(shard, offsets, list(state.others), partial(find_commits, log), since)
    except (LoadFailed, BadBytes):
        return None
    state.forget_records()
    return shard


def _start_state(log: Log, dialect: Dialect, stop: Stop, base: Shard | None) -> FoldState | None:
    """Return the state to fold onto: an empty one, or a copy of the base's. None if the base is not compiled."""
    if base is None:
        return FoldState(dialect, stop, log.size)
    if not isinstance(base.offsets, FoldedShardOffsets):
        return None
    return FoldState.restore(dialect, {name: array.copy() for name, array in base.offsets.state.saved().items()})


def _read_segments(log: Log, state: FoldState, count_bytes: CountBytes) -> bool:
    """Fold the segments in order. Return False if the readable engine must load the log."""
    for segment in log.segments:
        position = 0

        def report(at: int) -> None:
            nonlocal position
            count_bytes(at - position)
            position = at

        if log.content:
            if not state.fold_segment(as_array(log.read(segment)), report):
                return False
            continue
        with log.open(segment) as file:
            if not state.fold_file(file, report):
                return False
            # Behind a stop nothing is read, but the progress must reach its end.
            report(log.segment_size(segment))
    return True


def find_commits(log: Log, names: Collection[str]) -> list[tuple[int, str]]:
    """Return the records at which commits may have made these groups (events.py). The log was folded before."""
    slots = np.full((1 << (2 * len(names) + 1).bit_length(), 2), -1, np.int64)
    groups = bytearray()
    by_slot = {}
    for name in names:
        content = name.encode()
        text = np.frombuffer(content or b"\0", np.uint8)
        slot = int(short_hash(text, 0, len(content))) & len(slots) - 1
        while slots[slot, 1] >= 0:
            slot = slot + 1 & len(slots) - 1
        slots[slot] = (len(groups), len(content))
        by_slot[slot] = name
        groups += content
    has_made = np.zeros(len(slots), np.int64)
    found = []
    for segment in log.segments:
        for data in decompress_segment(as_array(log.read(segment))):
            times = np.empty((len(data) // 20 + 1, 2), np.int64)
            count = events.commit_events(data, as_array(groups), slots, has_made, times)
            found += [(offset, by_slot[slot]) for offset, slot in times[:count].tolist()]
    return found
