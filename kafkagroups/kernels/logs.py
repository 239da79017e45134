"""Whole logs through the fold, some at once; None for one that the readable loader is to load."""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import numpy as np

from kafkagroups.groups.offsets import Offsets
from kafkagroups.kernels import events, layout
from kafkagroups.kernels.caches import Scanned
from kafkagroups.kernels.scan import short_hash
from kafkagroups.kernels.state import Fold
from kafkagroups.kernels.unpack import as_array, decompress_segment
from kafkagroups.log.segments import Log
from kafkagroups.records.versions import Dialect


def fold_log(
    log: Log,
    rules: Dialect,
    until: int | None = None,
    until_time: int | None = None,
    passed: Callable[[int], None] = lambda more: None,
    onto: Fold | None = None,
) -> Fold | None:
    """Folds a partition's segments, in order, `onto` what was folded of it before. `passed` hears of bytes.

    None when the readable loader is to load it.
    """
    state = onto or Fold(rules, until, until_time, log.size)
    for segment in log.segments:
        before = 0

        def so_far(at: int) -> None:
            nonlocal before
            passed(at - before)
            before = at

        if log.content:
            if not state.segment(as_array(log.read(segment)), so_far):
                return None
            continue
        with log.open(segment) as file:
            if not state.file(file, so_far):
                return None
            so_far(log.segment_size(segment))  # Nothing is read after a cut.
    return state


def scan(
    logs: Sequence[Log],
    rules: Dialect,
    until: int | None = None,
    until_time: int | None = None,
    threads: int = 0,
    passed: Callable[[int], None] = lambda more: None,
) -> Generator[Scanned | None, None, None]:
    """Each log folded, in order; some at once in `threads` (0: as many as there are CPUs). None: as fold_log.

    `passed` hears of bytes that were read, from any thread.
    """
    workers = min(threads or os.cpu_count() or 1, len(logs))
    with _uncollected():
        if workers <= 1:
            yield from (_scan(log, rules, until, until_time, passed) for log in logs)
            return
        with ThreadPoolExecutor(workers) as pool:
            waiting: deque[Future[Scanned | None]] = deque()
            for log in logs:
                waiting.append(pool.submit(_scan, log, rules, until, until_time, passed))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the collector of cycles: what a load makes stays, and going through it again and again takes time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _scan(
    log: Log, rules: Dialect, until: int | None, until_time: int | None, passed: Callable[[int], None]
) -> Scanned | None:
    state = fold_log(log, rules, until, until_time, passed)
    return None if state is None else scanned(log, state)


def offsets_of(state: Fold) -> tuple[Offsets, dict[str, int]]:
    """A fold's offsets as the loaders hold them, and of each group the newest record with a value."""
    offsets = Offsets()
    kept, newest = state.committed()
    offsets.committed = cast(Any, kept)  # nothing is put into it any more
    offsets.pending = state.pending()
    for producer, groups in offsets.pending.items():
        for group_id in groups:
            offsets.producers.setdefault(group_id, set()).add(producer)
    return offsets, newest


def scanned(log: Log, state: Fold) -> Scanned:
    """What a fold says that has read this log."""
    offsets, newest = offsets_of(state)
    counts = state.counts.tolist()
    next_offset = counts[layout.NEXT_OFFSET] if counts[layout.BATCHES] else log.start_offset
    return Scanned(
        offsets,
        newest,
        list(state.others),
        counts[layout.BATCHES],
        counts[layout.RECORDS],
        next_offset,
        state,
        partial(commit_events, log),
    )


def commit_events(log: Log, names: Collection[str]) -> list[tuple[int, str]]:
    """Record offsets at which commits may have made these groups: see events.py. The log was folded before."""
    slots = np.full((1 << (2 * len(names) + 1).bit_length(), 2), -1, np.int64)
    groups = bytearray()
    by_slot = {}
    for name in names:
        text = np.frombuffer(name.encode() or b"\0", np.uint8)
        size = len(name.encode())
        slot = int(short_hash(text, 0, size)) & len(slots) - 1
        while slots[slot, 1] >= 0:
            slot = slot + 1 & len(slots) - 1
        slots[slot] = len(groups), size
        by_slot[slot] = name
        groups += name.encode()
    has_made = np.zeros(len(slots), np.int64)
    out = []
    for segment in log.segments:
        for data in decompress_segment(as_array(log.read(segment))):
            times = np.empty((len(data) // 20 + 1, 2), np.int64)
            count = events.commit_events(data, as_array(groups), slots, has_made, times)
            out += [(offset, by_slot[slot]) for offset, slot in times[:count].tolist()]
    return out
