"""The table `offsets` straight from a fold to Arrow: no row is made, whatever the log's size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.kernels import layout
from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.grouped import KeptOffsets
from kafkagroups.kernels.intrinsics import copy
from kafkagroups.kernels.scan import int16, is_plain_text
from kafkagroups.kernels.state import Fold
from kafkagroups.records.text import decode_utf8
from kafkagroups.tables.columns import BATCH_BYTES, BATCH_ROWS, END_MS, FIRST_MS, Column, array_of, arrow_schema

Array = np.ndarray[Any, Any]
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
_ID_TEXT = 22
_GROUP, _TOPIC, _PARTITION, _NOTE = 0, 2, 4, 5
"""Columns of places: where a text begins and its size, of a group, a topic and metadata; the topic's partition."""


def offset_batches(groups: Sequence[AnyGroup], columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """What the groups have committed, in these columns; the offsets of all are KeptOffsets."""
    schema = arrow_schema(columns)
    by_log: dict[int, list[tuple[int | None, KeptOffsets]]] = {}
    for group in groups:
        assert isinstance(group.offsets, KeptOffsets)
        by_log.setdefault(id(group.offsets.fold), []).append((group.partition, group.offsets))
    for some in by_log.values():
        partition, fold = some[0][0], some[0][1].fold
        kept = [offsets for _, offsets in some]
        entries = np.concatenate([each.entries for each in kept])
        places = np.empty((len(entries), 7), np.int64)
        _places(fold.entries, entries, fold.names, fold.arena, places)
        size = np.cumsum(places[:, [1, 3, 6]].sum(1) + _ID_TEXT)
        start = 0
        while start < len(entries):
            before = size[start - 1] if start else 0
            end = min(start + BATCH_ROWS, int(np.searchsorted(size, before + BATCH_BYTES)) + 1)
            made = _Batch(fold, -1 if partition is None else partition, entries[start:end], places[start:end])
            arrays = [getattr(made, column.name)() for column in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            start = end


class _Batch:
    """Some rows: a method for each column."""

    def __init__(self, fold: Fold, partition: int, entries: Array, places: Array) -> None:
        self._arena, self._number, self._places = fold.arena, partition, places
        self._rows, self._more = fold.entries[entries], fold.more[entries]
        self._flags = self._rows[:, layout.EPOCH]

    def partition(self) -> pa.Array:
        return _numbers(pa.int32(), np.full(len(self._rows), self._number))

    def group(self) -> pa.Array:
        return self._text(_GROUP)

    def topic(self) -> pa.Array:
        return self._text(_TOPIC)

    def topic_partition(self) -> pa.Array:
        return _numbers(pa.int32(), self._places[:, _PARTITION])

    def committed_offset(self) -> pa.Array:
        return _numbers(pa.int64(), self._rows[:, layout.COMMITTED])

    def leader_epoch(self) -> pa.Array:
        return _numbers(pa.int32(), self._flags)  # its lower half

    def metadata(self) -> pa.Array:
        places = self._places
        if _all_plain(self._arena, places):
            return self._text(_NOTE)
        notes = [self._arena[place : place + size].tobytes() for place, size in places[:, _NOTE:].tolist()]
        return array_of(pa.string(), [decode_utf8(note) for note in notes])

    def commit_timestamp_ms(self) -> pa.Array:
        return _numbers(pa.int64(), self._rows[:, layout.TIME])

    def commit_timestamp(self) -> pa.Array:
        return _times(self._rows[:, layout.TIME], True)

    def expire_timestamp_ms(self) -> pa.Array:
        return _numbers(pa.int64(), self._more[:, 0], self._flags & layout.HAS_EXPIRE != 0)

    def expire_timestamp(self) -> pa.Array:
        return _times(self._more[:, 0], self._flags & layout.HAS_EXPIRE != 0)

    def topic_id(self) -> pa.Array:
        there = self._flags & layout.HAS_TOPIC != 0
        ids = np.ascontiguousarray(self._more[there, 1:3]).view(np.uint8)
        text = np.empty((len(ids), _ID_TEXT), np.uint8)
        _id_texts(ids, _BASE64, text)
        ends = np.zeros(len(there) + 1, np.int32)
        np.cumsum(there * np.int32(_ID_TEXT), out=ends[1:])
        return pa.Array.from_buffers(pa.string(), len(there), [_nulls(there), pa.py_buffer(ends), pa.py_buffer(text)])

    def record_offset(self) -> pa.Array:
        return _numbers(pa.int64(), self._rows[:, layout.RECORD])

    def _text(self, column: int) -> pa.Array:
        ends = np.zeros(len(self._places) + 1, np.int32)
        np.cumsum(self._places[:, column + 1], out=ends[1:])
        text = np.empty(ends[-1], np.uint8)
        _copy(self._arena, self._places, column, text)
        return pa.Array.from_buffers(pa.string(), len(self._places), [None, pa.py_buffer(ends), pa.py_buffer(text)])


def _numbers(kind: pa.DataType, values: Array, there: Any = True) -> pa.Array:
    content = values.astype(f"i{kind.bit_width // 8}")
    return pa.Array.from_buffers(kind, len(values), [_nulls(there), pa.py_buffer(content)])


def _times(ms: Array, there: Any) -> pa.Array:
    there = there & (ms >= FIRST_MS) & (ms < END_MS)
    return _numbers(pa.timestamp("us", "UTC"), np.where(there, ms, 0) * 1000, there)


def _nulls(there: Any) -> pa.Buffer | None:
    return None if np.all(there) else pa.py_buffer(np.packbits(there, bitorder="little"))


@kernel
def _places(table: Any, entries: Any, names: Any, arena: Any, places: Any) -> None:
    for row in range(len(entries)):
        key = table[entries[row], layout.NAME]
        places[row, 4] = np.int32(key & layout.PARTITION)
        key = names[key >> 32, layout.PLACE] >> 20
        note = table[entries[row], layout.NOTE]
        for column in (0, 2):
            size = int16(arena, key)
            places[row, column], places[row, column + 1] = key + 2, size
            key += 2 + size
        places[row, 5], places[row, 6] = note >> 20, note & layout.SIZE


@kernel
def _copy(arena: Any, places: Any, column: int, text: Any) -> None:
    end = 0
    for row in range(len(places)):
        size = places[row, column + 1]
        copy(arena, places[row, column], text, end, size)
        end += size


@kernel
def _all_plain(arena: Any, places: Any) -> bool:
    """Whether all metadata is text that comes out of Java as it went in."""
    for row in range(len(places)):
        if not is_plain_text(arena, places[row, 5], places[row, 6]):
            return False
    return True


@kernel
def _id_texts(ids: Any, alphabet: Any, text: Any) -> None:
    """Kafka's text for uuids of 16 bytes: base64 for URLs, without padding."""
    for row in range(len(ids)):
        for place in range(22):
            bit = 6 * place
            byte = bit >> 3
            word = np.int64(ids[row, byte]) << 8 | (np.int64(ids[row, byte + 1]) if byte < 15 else 0)
            text[row, place] = alphabet[word >> (10 - (bit & 7)) & 63]
