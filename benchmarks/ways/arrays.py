"""A loader in NumPy: it reads record r of every batch in one array operation.

Only the steps from batch to batch and the checksums are a Python loop. Everything else uses arrays with one entry for
each batch that has an r-th record. Sorting 64-bit hashes of the keys finds the last record of each key. So the result
is not exact: two keys with the same hash count as one key. Transactions are not supported.
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

LENGTH = Struct(">i")
CRC = Struct(">I")
MIX = np.uint64(0xD6E8FEB86659FD93)
SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Records(NamedTuple):
    """The positions of a segment's records, in the order of the log. A size of -1 is null."""

    offset: np.ndarray
    key: np.ndarray
    key_size: np.ndarray
    value: np.ndarray
    value_size: np.ndarray


@contextmanager
def last_writers(topic: Topic) -> Iterator[tuple[Callable, Callable]]:
    """The way `numpy`."""

    def load() -> list[pa.Table]:
        return [find_live_offsets(partition) for partition in topic.partitions()]

    yield load, lambda tables: sum(table.num_rows for table in tables)


def find_live_offsets(segments: list) -> pa.Table:
    """Return the live offsets of one partition: key bytes, committed offset, record offset."""
    hashes = []
    is_live = []
    tables = []
    for path in segments:
        data = np.fromfile(path, np.uint8)
        found = find_records(data)
        found = Records(*(column[read_numbers(data, found.key, ">i2") <= 1] for column in found))
        hashed = hash_keys(data, found)
        last = find_last(hashed)
        found = Records(*(column[last] for column in found))
        hashes.append(hashed[last])
        is_live.append(found.value_size >= 0)
        committed = read_numbers(data, np.where(is_live[-1], found.value, 0) + 2, ">i8")
        columns = {
            "key": gather(data, found.key, found.key_size),
            "committed": pa.Array.from_buffers(pa.int64(), len(committed), [None, pa.py_buffer(committed)]),
            "offset": pa.Array.from_buffers(pa.int64(), len(committed), [None, pa.py_buffer(found.offset)]),
        }
        tables.append(pa.table(columns))
    last = find_last(np.concatenate(hashes))
    last = last[np.concatenate(is_live)[last]]
    return pa.concat_tables(tables).take(pa.Array.from_buffers(pa.int64(), len(last), [None, pa.py_buffer(last)]))


def find_records(data: np.ndarray) -> Records:
    """Return the positions of all records that are not transaction markers."""
    batches = find_batches(data)
    is_data = read_numbers(data, batches + 21, ">i2") & 0x20 == 0
    batches = batches[is_data]
    base = read_numbers(data, batches, ">i8")
    count = read_numbers(data, batches + 57, ">i4")
    at = batches + 61
    found = []
    for number in range(int(count.max(initial=0))):
        has_record = count > number
        base = base[has_record]
        count = count[has_record]
        at = at[has_record]
        size, start = read_varints(data, at)
        at = start + size
        _, start = read_varints(data, start + 1)
        delta, start = read_varints(data, start)
        key_size, key = read_varints(data, start)
        value_size, value = read_varints(data, key + key_size)
        found.append(Records(base + delta, key, key_size, value, value_size))
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    order = np.argsort(columns[1], kind="stable")
    return Records(*(column[order] for column in columns))


def find_batches(data: np.ndarray) -> np.ndarray:
    """Return where each batch begins. ValueError if a checksum is wrong."""
    view = memoryview(data)
    starts = []
    at = 0
    while at + 61 <= len(view):
        end = at + 12 + LENGTH.unpack_from(view, at + 8)[0]
        if crc32c(view[at + 21 : end]) != CRC.unpack_from(view, at + 17)[0]:
            raise ValueError(f"wrong checksum at byte {at}")
        starts.append(at)
        at = end
    return np.array(starts, np.int64)


def read_numbers(data: np.ndarray, at: np.ndarray, kind: str) -> np.ndarray:
    """Return the number at each position: the bytes are viewed as overlapping numbers of this type."""
    width = np.dtype(kind).itemsize
    overlapping = np.ndarray((len(data) - width + 1,), kind, data, strides=(1,))
    return overlapping[np.minimum(at, len(overlapping) - 1)].astype(np.dtype(kind).newbyteorder("="))


def read_varints(data: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the varint at each position, and the position after it."""
    byte = data[at].astype(np.int64)
    value = byte & 0x7F
    after = at + 1
    longer = np.flatnonzero(byte & 0x80)
    shift = 7
    while len(longer):
        byte = data[after[longer]].astype(np.int64)
        value[longer] |= (byte & 0x7F) << shift
        after[longer] += 1
        longer = longer[byte & 0x80 != 0]
        shift += 7
    return (value >> 1) ^ -(value & 1), after


def hash_keys(data: np.ndarray, found: Records) -> np.ndarray:
    """Return a hash of each key, from eight bytes at a time.

    The last eight bytes may overlap the ones before. The key of an offset has at least ten bytes.
    """
    mixed = found.key_size.astype(np.uint64) * SPREAD
    for step in range(0, int(found.key_size.max(initial=0)), 8):
        mixed = (mixed ^ read_numbers(data, found.key + np.minimum(step, found.key_size - 8), "<u8")) * MIX
        mixed ^= mixed >> np.uint64(32)
    return mixed


def find_last(hashes: np.ndarray) -> np.ndarray:
    """Return the last position of each hash, in order."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    is_last = np.append(ordered[1:] != ordered[:-1], True) if len(order) else np.zeros(0, bool)
    return np.sort(order[is_last])


def gather(data: np.ndarray, start: np.ndarray, size: np.ndarray) -> pa.Array:
    """Return pieces of the bytes as an Arrow array; a size of -1 is null."""
    is_value = size >= 0
    length = np.where(is_value, size, 0)
    ends = np.append(0, np.cumsum(length)).astype(np.int32)
    place = np.repeat(start - ends[:-1], length) + np.arange(ends[-1])
    nulls = None if is_value.all() else pa.py_buffer(np.packbits(is_value, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(start), [nulls, pa.py_buffer(ends), pa.py_buffer(data[place])])
