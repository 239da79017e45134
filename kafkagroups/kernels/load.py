"""One partition's log through the compiled fold: what the readable loader would find, or None, and then that one is asked.

It takes buffers. Room grows as it is needed, twice as much each time; nothing of a segment is kept but its keys, the
metadata of its offsets and the records of other types.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from crc32c import crc32c

from kafkagroups.errors import InvalidLog
from kafkagroups.groups.loading import Scanned
from kafkagroups.groups.offsets import OffsetAndMetadata, Offsets, PartitionOffsets, TopicPartition
from kafkagroups.kernels import fold
from kafkagroups.kernels.scan import BLOCK, CUT, FULL, HEADER, ODD, PACKED, int32
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.compression import decompress
from kafkagroups.log.record_batch import parse_batch
from kafkagroups.log.segments import Log
from kafkagroups.records.dialect import Dialect
from kafkagroups.records.text import decode_utf8, uuid_text

Array = np.ndarray[Any, Any]
FIRST_KEYS, FIRST_ARENA, ROWS = 4096, 1 << 20, 4096
UNPACKED = 4 * 1024 * 1024
"""About how many bytes are decompressed at once."""


class Fold:
    """The state of one partition's fold. `segment` takes the segments in order and says whether it understood them."""

    def __init__(self, rules: Dialect, until: int | None = None, until_time: int | None = None) -> None:
        classic = rules.coordinator == "classic"
        self.rules = np.array(
            [
                classic,
                rules.offset_values,
                rules.type0_values,
                not classic and rules.version >= (4, 1),
                -1 if until is None else until,
                -1 if until_time is None else until_time,
                True,
                classic and not rules.since(2, 0, 1),
            ],
            np.int64,
        )
        self.counts = np.zeros(11, np.int64)
        self.counts[fold.FREE] = -1
        self.entries = np.empty((FIRST_KEYS, 8), np.int64)
        self.more = np.zeros((FIRST_KEYS, 4), np.int64)
        self.tombs = np.empty(FIRST_KEYS, np.int64)
        self.slots = np.full(4 * FIRST_KEYS, -1, np.int64)
        self.arena = np.empty(FIRST_ARENA, np.uint8)
        self.nodes = np.empty((2048, 8), np.int64)
        self.node_more = np.zeros((2048, 4), np.int64)
        self.producers = np.zeros((64, 3), np.int64)
        self.row_places = np.empty((ROWS, 5), np.int64)
        self.block = np.empty((BLOCK, 8), np.int64)
        self.found = np.empty(5, np.int64)
        self.others: list[LogRecord] = []
        self.is_cut = False

    def segment(self, data: Array) -> bool:
        """Takes the next segment's bytes (uint8, read-only). False: the readable loader is to load the partition."""
        at, status = 0, FULL
        while status in (FULL, PACKED) and not self.is_cut:
            status, at = fold.fold_segment(
                data, at, self.rules, self.counts, self.slots, self.entries, self.more, self.tombs, self.arena,
                self.nodes, self.node_more, self.producers, self.row_places, self.block, self.found,
            )  # fmt: skip
            for offset, key, key_size, value, value_size in self.row_places[: self.counts[fold.ROWS]].tolist():
                content = None if value_size < 0 else data[value : value + value_size].tobytes()
                self.others.append(LogRecord(offset, -1, data[key : key + key_size].tobytes(), content))
            self.counts[fold.ROWS] = 0
            if status == FULL:
                self._grow(data, at)
            elif status == PACKED:
                plain, at = unpacked(data, at)
                if plain is None or not self.segment(plain):
                    return False
        self.is_cut = self.is_cut or status == CUT
        return status != ODD

    def _grow(self, data: Array, at: int) -> None:
        """Makes room for the batch at a position, and for as much again as there is."""
        size = int.from_bytes(data[at + 8 : at + 12].tobytes(), "big") + 12
        count = int.from_bytes(data[at + 57 : at + 61].tobytes(), "big")
        keys = self.counts[fold.ENTRIES] + count + BLOCK
        if keys > len(self.entries) or 2 * keys > len(self.slots):
            room = 2 * max(len(self.entries), int(keys))
            self.entries = _longer(self.entries, room)
            self.more, self.tombs = _longer(self.more, room), _longer(self.tombs, room)
            self.slots = np.full(1 << (2 * room - 1).bit_length(), -1, np.int64)
            fold.rehash(self.entries, self.counts[fold.ENTRIES], self.arena, self.slots)
        if self.counts[fold.ARENA] + size > len(self.arena):
            self._compact(size)
        if self.counts[fold.NODES] + count + BLOCK > len(self.nodes):
            room = 2 * max(len(self.nodes), int(self.counts[fold.NODES]) + count + BLOCK)
            self.nodes, self.node_more = _longer(self.nodes, room), _longer(self.node_more, room)
        if 2 * (self.counts[fold.PRODUCERS] + 2) > len(self.producers):
            self._more_producers()
        if count > len(self.row_places):
            self.row_places = np.empty((count, 5), np.int64)

    def _compact(self, size: int) -> None:
        self.arena = _longer(self.arena, 2 * max(len(self.arena), int(self.counts[fold.ARENA]) + size))

    def _more_producers(self) -> None:
        old = self.producers
        self.producers = np.zeros((4 * len(old), 3), np.int64)
        self.counts[fold.PRODUCERS] = 0
        for producer, node, used in old.tolist():
            if used and node >= 0:  # one without anything pending need not be known
                place = fold._producer(producer, self.counts, self.producers)
                self.producers[place, 1] = node

    def committed(self) -> dict[str, PartitionOffsets]:
        """By group, what is committed."""
        out: dict[str, PartitionOffsets] = {}
        count = int(self.counts[fold.ENTRIES])
        live = np.flatnonzero(self.entries[:count, fold.RECORD] >= 0)
        for entry, row, more in zip(live.tolist(), self.entries[live].tolist(), self.more[live].tolist(), strict=True):
            group, partition = self._name(entry)
            out.setdefault(group, {})[partition] = self._offset(row, more)
        return out

    def pending(self) -> dict[int, dict[str, PartitionOffsets]]:
        """By producer, then group, what waits for a marker."""
        out: dict[int, dict[str, PartitionOffsets]] = {}
        classic = bool(self.rules[fold.CLASSIC])
        for producer, node, used in self.producers.tolist():
            decided = set()
            while used and node >= 0:
                row = self.nodes[node].tolist()
                entry = row[fold.ENTRY] if row[fold.ENTRY] >= 0 else ~row[fold.ENTRY]
                is_dead = row[fold.ENTRY] < 0 or (not classic and row[fold.P_RECORD] < self.tombs[entry])
                if entry not in decided:
                    decided.add(entry)
                    if not is_dead:
                        group, partition = self._name(entry)
                        offset = self._offset(row, self.node_more[node].tolist())
                        out.setdefault(producer, {}).setdefault(group, {})[partition] = offset
                node = row[fold.NEXT]
        return out

    def last_values(self) -> dict[str, int]:
        """By group, the newest record that committed something, whatever became of it; -1: only tombstones name it."""
        out: dict[str, int] = {}
        for entry in range(int(self.counts[fold.ENTRIES])):
            group, _ = self._name(entry)
            out[group] = max(out.get(group, -1), int(self.entries[entry, fold.SEEN]))
        return out

    def _name(self, entry: int) -> tuple[str, TopicPartition]:
        place = int(self.entries[entry, fold.NAME])
        key = self.arena[place >> 20 : (place >> 20) + (place & fold.SIZE)].tobytes()
        group = 2 + int.from_bytes(key[:2], "big")
        topic = group + 2 + int.from_bytes(key[group : group + 2], "big")
        partition = int.from_bytes(key[topic : topic + 4], "big", signed=True)
        return decode_utf8(key[2:group]), TopicPartition(decode_utf8(key[group + 2 : topic]), partition)

    def _offset(self, row: list[int], more: list[int]) -> OffsetAndMetadata:
        place, flags = row[fold.NOTE], row[fold.EPOCH]
        note = self.arena[place >> 20 : (place >> 20) + (place & fold.SIZE)].tobytes()
        epoch = flags & 0xFFFFFFFF
        topic_id = b"".join((each & (1 << 64) - 1).to_bytes(8, "little") for each in more[1:3])
        return OffsetAndMetadata(
            row[fold.COMMITTED],
            decode_utf8(note),
            row[fold.TIME],
            epoch - (1 << 32) if epoch >> 31 else epoch,
            more[0] if flags & fold.HAS_EXPIRE else None,
            uuid_text(topic_id) if flags & fold.HAS_TOPIC else None,
            row[fold.RECORD],
            row[fold.BATCH] if self.rules[fold.CLASSIC] else row[fold.RECORD],
        )


def unpacked(data: Array, at: int) -> tuple[Array | None, int]:
    """The compressed batches from a position on, as many as stand together, uncompressed; and the position behind them.

    None when one has a wrong checksum or cannot be decompressed. Checksums are made anew.
    """
    out, end = bytearray(), len(data)
    while end - at >= HEADER and len(out) < UNPACKED:
        size = int32(data, at + 8) + 12
        if not HEADER <= size <= end - at or not data[at + 22] & 7:
            break
        raw = data[at : at + size].tobytes()
        batch = parse_batch(raw, 0, size)
        try:
            payload = decompress(batch.compression, batch.payload) if batch.is_valid else None
        except InvalidLog:
            payload = None
        if payload is None or batch.magic != 2:
            return None, at
        head = bytearray(raw[:HEADER])
        head[8:12] = (HEADER - 12 + len(payload)).to_bytes(4, "big")
        head[22] &= ~7
        head[17:21] = crc32c(payload, crc32c(bytes(head[21:]))).to_bytes(4, "big")
        out += head + payload
        at += size
    return _readable(out), at


def _readable(buffer: Any) -> Array:
    data = np.frombuffer(buffer, np.uint8)
    data.flags.writeable = False
    return data


def _longer(array: Array, length: int) -> Array:
    out = np.empty((length, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out


def fold_log(log: Log, rules: Dialect, until: int | None = None, until_time: int | None = None) -> Fold | None:
    """Folds a partition's segments, in order. None when the readable loader is to load it."""
    state = Fold(rules, until, until_time)
    for buffer in log.buffers():
        if not state.segment(_readable(buffer)):
            return None
    return state


def commit_events(log: Log, names: Collection[str]) -> list[tuple[int, str]]:
    """Record offsets at which commits may have made these groups: see fold.commit_events. The log was folded before."""
    table = np.full((1 << (2 * len(names) + 1).bit_length(), 2), -1, np.int64)
    groups = bytearray()
    by_slot = {}
    for name in names:
        text = np.frombuffer(name.encode() or b"\0", np.uint8)
        size = len(name.encode())
        slot = int(fold.short_hash(text, 0, size)) & len(table) - 1
        while table[slot, 1] >= 0:
            slot = slot + 1 & len(table) - 1
        table[slot] = len(groups), size
        by_slot[slot] = name
        groups += name.encode()
    has_made, found = np.zeros(len(table), np.int64), np.empty(5, np.int64)
    out = []
    for buffer in log.buffers():
        for data in _plain_runs(_readable(buffer)):
            events = np.empty((len(data) // 20 + 1, 2), np.int64)
            count = fold.commit_events(data, _readable(groups + bytes(8)), table, has_made, events, found)
            out += [(offset, by_slot[slot]) for offset, slot in events[:count].tolist()]
    return out


def _plain_runs(data: Array) -> Iterator[Array]:
    """The batches of a segment, runs of compressed ones uncompressed."""
    at, start, end = 0, 0, len(data)
    while end - at >= HEADER:
        size = int32(data, at + 8) + 12
        if not HEADER <= size <= end - at:
            break
        if data[at + 22] & 7:
            yield data[start:at]
            plain, at = unpacked(data, at)
            start = at
            if plain is not None:
                yield plain
        else:
            at += size
    yield data[start:at]


def scan(
    logs: Sequence[Log], rules: Dialect, until: int | None = None, until_time: int | None = None, threads: int = 0
) -> Iterator[Scanned | None]:
    """Each log folded, in order; some at once in `threads` (0: as many as there are CPUs). None: as fold_log."""
    workers = threads or os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[tuple[Log, Future[Fold | None]]] = deque()
        for log in logs:
            waiting.append((log, pool.submit(fold_log, log, rules, until, until_time)))
            if len(waiting) > workers:
                yield _scanned(*waiting.popleft())
        while waiting:
            yield _scanned(*waiting.popleft())


def _scanned(log: Log, future: Future[Fold | None]) -> Scanned | None:
    state = future.result()
    if state is None:
        return None
    offsets = Offsets()
    offsets.committed, offsets.pending = state.committed(), state.pending()
    for producer, groups in offsets.pending.items():
        for group_id in groups:
            offsets.producers.setdefault(group_id, set()).add(producer)
    counts = state.counts.tolist()
    next_offset = counts[fold.NEXT_OFFSET] if counts[fold.BATCHES] else log.start_offset
    last = state.last_values()
    return Scanned(
        offsets,
        last,
        state.others,
        counts[fold.BATCHES],
        counts[fold.RECORDS],
        next_offset,
        partial(commit_events, log),
    )
