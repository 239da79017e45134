"""The log without a compiler: record r of every batch at once, in NumPy.

Hopping from batch to batch, and their checksums, are a Python loop; all else are arrays with an entry for each batch
that has an r-th record. The last writer of a key is found by sorting a hash of 64 bits. So it is not exact: two keys of
one hash would be one; and whoever has transactions needs another way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from benchmarks.topics import Topic

LENGTH, CRC = Struct(">i"), Struct(">I")
MIX, SPREAD = np.uint64(0xD6E8FEB86659FD93), np.uint64(0x9E3779B97F4A7C15)


class Records(NamedTuple):
    """Where the records of a segment are, in the log's order: an entry each. A size of -1 is null."""

    offset: np.ndarray
    key: np.ndarray
    key_size: np.ndarray
    value: np.ndarray
    value_size: np.ndarray


@contextmanager
def last_writers(topic: Topic) -> Iterator[tuple[Callable, Callable]]:
    def load() -> list[pa.Table]:
        return [live_offsets(partition) for partition in topic.partitions()]

    yield load, lambda tables: sum(table.num_rows for table in tables)


def live_offsets(segments: list) -> pa.Table:
    """The live offsets of one partition: key bytes, committed offset, record offset."""
    hashes, lives, tables = [], [], []
    for path in segments:
        data = np.fromfile(path, np.uint8)
        found = records_of(data)
        found = Records(*(column[view_at(data, found.key, ">i2") <= 1] for column in found))
        hashed = key_hashes(data, found)
        last = last_of(hashed)
        found = Records(*(column[last] for column in found))
        hashes.append(hashed[last])
        lives.append(found.value_size >= 0)
        committed = view_at(data, np.where(lives[-1], found.value, 0) + 2, ">i8")
        tables.append(
            pa.table({
                "key": gathered(data, found.key, found.key_size),
                "committed": pa.Array.from_buffers(pa.int64(), len(committed), [None, pa.py_buffer(committed)]),
                "offset": pa.Array.from_buffers(pa.int64(), len(committed), [None, pa.py_buffer(found.offset)]),
            })
        )  # fmt: skip
    last = last_of(np.concatenate(hashes))
    last = last[np.concatenate(lives)[last]]
    return pa.concat_tables(tables).take(pa.Array.from_buffers(pa.int64(), len(last), [None, pa.py_buffer(last)]))


def records_of(data: np.ndarray) -> Records:
    batches = batches_of(data)
    base, count = view_at(data, batches, ">i8"), view_at(data, batches + 57, ">i4")
    is_data = view_at(data, batches + 21, ">i2") & 0x20 == 0  # no marker
    base, count, at = base[is_data], count[is_data], batches[is_data] + 61
    found = []
    for number in range(int(count.max(initial=0))):
        there = count > number
        base, count, at = base[there], count[there], at[there]
        size, start = varints(data, at)
        at = start + size
        _, start = varints(data, start + 1)
        delta, start = varints(data, start)
        key_size, key = varints(data, start)
        value_size, value = varints(data, key + key_size)
        found.append(Records(base + delta, key, key_size, value, value_size))
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    order = np.argsort(columns[1], kind="stable")
    return Records(*(column[order] for column in columns))


def batches_of(data: np.ndarray) -> np.ndarray:
    """Where each batch begins; their checksums are right."""
    view = memoryview(data)
    starts, at = [], 0
    while at + 61 <= len(view):
        end = at + 12 + LENGTH.unpack_from(view, at + 8)[0]
        if crc32c(view[at + 21 : end]) != CRC.unpack_from(view, at + 17)[0]:
            raise ValueError(f"bad checksum at {at}")
        starts.append(at)
        at = end
    return np.array(starts, np.int64)


def view_at(data: np.ndarray, at: np.ndarray, kind: str) -> np.ndarray:
    """A number of this kind at each place, as the machine has it: the bytes seen as overlapping numbers."""
    width = np.dtype(kind).itemsize
    overlapping = np.ndarray((len(data) - width + 1,), kind, data, strides=(1,))
    return overlapping[np.minimum(at, len(overlapping) - 1)].astype(np.dtype(kind).newbyteorder("="))


def varints(data: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    byte = data[at].astype(np.int64)
    value, after = byte & 0x7F, at + 1
    longer, shift = np.flatnonzero(byte & 0x80), 7
    while len(longer):
        byte = data[after[longer]].astype(np.int64)
        value[longer] |= (byte & 0x7F) << shift
        after[longer] += 1
        longer, shift = longer[byte & 0x80 != 0], shift + 7
    return (value >> 1) ^ -(value & 1), after


def key_hashes(data: np.ndarray, found: Records) -> np.ndarray:
    """Of eight bytes at a time; the last eight may overlap those before (a key of an offset has at least ten)."""
    mixed = found.key_size.astype(np.uint64) * SPREAD
    for step in range(0, int(found.key_size.max(initial=0)), 8):
        mixed = (mixed ^ view_at(data, found.key + np.minimum(step, found.key_size - 8), "<u8")) * MIX
        mixed ^= mixed >> np.uint64(32)
    return mixed


def last_of(hashes: np.ndarray) -> np.ndarray:
    """The last place of each value, in order."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    is_last = np.append(ordered[1:] != ordered[:-1], True) if len(order) else np.zeros(0, bool)
    return np.sort(order[is_last])


def gathered(data: np.ndarray, start: np.ndarray, size: np.ndarray) -> pa.Array:
    """Pieces of the bytes as an Arrow array; a size of -1 is null."""
    there = size >= 0
    length = np.where(there, size, 0)
    ends = np.append(0, np.cumsum(length)).astype(np.int32)
    place = np.repeat(start - ends[:-1], length) + np.arange(ends[-1])
    nulls = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(start), [nulls, pa.py_buffer(ends), pa.py_buffer(data[place])])
