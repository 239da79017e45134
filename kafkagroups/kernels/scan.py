"""Bytes to blocks: batches are checked and hopped over, their records' keys and values found and told apart.

A block holds up to BLOCK records of offsets (types 0 and 1), a row each; it is folded when it is full, and before a
marker. Whatever is not plain, an odd layout, a refusal, damage, is ODD, and the readable loader decides: this one only
ever says what it is sure of.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.intrinsics import big_endian, folded_product, load8, load64

OK, FULL, ODD, CUT, PACKED, PAUSED, SHORT = range(7)
"""All was read; more room is needed first; the readable loader is to look at it; nothing further is to be read; a
compressed batch comes, whose checksum is right; the caller's stride is done; a batch begins that does not end here."""
BLOCK = 512
HEADER = 61

# The columns of a block's row.
HASH, NAME_AT, NAME_SIZE, VALUE, VALUE_SIZE, OFFSET, FIRST, PRODUCER = range(8)
"""The size of a name is negative where the row before has the same."""


@inlined
def int16(data: Any, at: int) -> int:
    return big_endian(data, at, 16)


@inlined
def int32(data: Any, at: int) -> int:
    return big_endian(data, at, 32)


@inlined
def int64(data: Any, at: int) -> int:
    return big_endian(data, at, 64)


@kernel
def long_varint(data: Any, at: int, end: int, most: int) -> tuple[int, int]:
    """A zigzag varint of up to `most` bytes and the position after it; (0, -1) when it is none."""
    value, shift = np.uint64(0), 0
    for step in range(most):
        if at + step >= end:
            return 0, -1
        byte = np.uint64(data[at + step])
        value |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        if byte < 0x80:
            if most == 5:
                value &= np.uint64(0xFFFFFFFF)
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at + step + 1
        shift += 7
    return 0, -1


@inlined
def varint(data: Any, at: int, end: int, most: int) -> tuple[int, int]:
    """The same; most have one byte."""
    if at < end and load8(data, at) < 0x80:
        byte: int = load8(data, at)
        return (byte >> 1) ^ -(byte & 1), at + 1
    return long_varint(data, at, end, most)


@kernel
def uvarint(data: Any, at: int, end: int) -> tuple[int, int]:
    """An unsigned varint of up to 3 bytes and the position after it; (0, -1) when it is longer."""
    value = np.int64(0)
    for step in range(3):
        if at + step >= end:
            return 0, -1
        byte = np.int64(data[at + step])
        value |= (byte & 0x7F) << 7 * step
        if byte < 0x80:
            return value, at + step + 1
    return 0, -1


@inlined
def hash_bytes(data: Any, start: int, size: int) -> int:
    """64 bits of at least 8 bytes: a product for each pair of words, none of which waits for another.

    The last pair may overlap the one before.
    """
    mixed, salt = np.uint64(size), np.uint64(0x9E3779B97F4A7C15)
    at, last = start, start + size - 8
    while at + 8 < last:
        mixed += folded_product(load64(data, at) ^ salt, load64(data, at + 8) ^ np.uint64(0xD6E8FEB86659FD93))
        salt += np.uint64(0x9E3779B97F4A7C15)
        at += 16
    mixed += folded_product(load64(data, min(at, last)) ^ salt, load64(data, last) ^ np.uint64(0xD6E8FEB86659FD93))
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    return np.int64(mixed ^ mixed >> np.uint64(29))


@inlined
def same_bytes(data: Any, start: int, other: Any, place: int, size: int) -> bool:
    """Whether two runs of at least 8 bytes are equal."""
    at, last = 0, size - 8
    while at < last:
        if load64(data, start + at) != load64(other, place + at):
            return False
        at += 8
    return load64(data, start + last) == load64(other, place + last)


@inlined
def short_hash(data: Any, start: int, size: int) -> int:
    """A hash of bytes, however few."""
    return hash_bytes(data, start, size) if size >= 8 else _hash_few(data, start, size)


@kernel
def _hash_few(data: Any, start: int, size: int) -> int:
    mixed = np.uint64(14695981039346656037)
    for at in range(start, start + size):
        mixed = (mixed ^ np.uint64(data[at])) * np.uint64(1099511628211)
    return np.int64(mixed ^ mixed >> np.uint64(32))


@inlined
def same_text(data: Any, start: int, other: Any, place: int, size: int) -> bool:
    """Whether two runs of bytes are equal."""
    return same_bytes(data, start, other, place, size) if size >= 8 else _same_few(data, start, other, place, size)


@kernel
def _same_few(data: Any, start: int, other: Any, place: int, size: int) -> bool:
    for at in range(size):
        if data[start + at] != other[place + at]:
            return False
    return True


@inlined
def record_at(data: Any, at: int, end: int) -> tuple[int, int, int, int, int, int]:
    """One record: the position after it, -1 when it is not plain; and where its key and value lie.

    That is: offset delta, key, its size (-1: null), value, its size (-1: null).
    """
    size, at = varint(data, at, end, 5)
    stop = at + size
    delta, key, key_size, value, value_size = np.int64(0), np.int64(0), np.int64(-1), np.int64(0), np.int64(-1)
    if at < 0 or size < 1 or stop > end:
        stop = np.int64(-1)
    else:
        _, at = varint(data, at + 1, stop, 10)  # after the attributes: the time
        if at >= 0:
            delta, at = varint(data, at, stop, 5)
        if at >= 0:
            key_size, key = varint(data, at, stop, 5)
            at = key + max(key_size, 0) if key >= 0 else key
        if 0 <= at <= stop:
            value_size, value = varint(data, at, stop, 5)
            at = value + max(value_size, 0) if value >= 0 else value
        headers = np.int64(-1)
        if 0 <= at <= stop:
            headers, at = varint(data, at, stop, 5)
        if at != stop or headers != 0:  # nobody writes headers here
            stop = np.int64(-1)
    return stop, delta, key, max(key_size, -1), value, max(value_size, -1)


@inlined
def name_size(data: Any, key: int, size: int) -> int:
    """How many bytes of an offset's key are its group and topic; its partition follows. -1: it is not plain."""
    end, at = key + size, key + 2
    for _ in range(2):
        if at + 2 > end:
            return -1
        length = int16(data, at)
        at += 2 + length
        if length < 0 or at > end:
            return -1
    return at - (key + 2) if at + 4 <= end else -1


@kernel
def is_plain_text(data: Any, start: int, size: int) -> bool:
    """Whether the bytes are UTF-8 that a Java String gives back: what is not could be two names for one text."""
    at, end = start, start + size
    while at < end:
        while at + 8 <= end and load64(data, at) & np.uint64(0x8080808080808080) == 0:
            at += 8
        if at == end:
            break
        byte = data[at]
        if byte < 0x80:
            at += 1
            continue
        more = 1 if 0xC2 <= byte < 0xE0 else 2 if 0xE0 <= byte < 0xF0 else 3 if 0xF0 <= byte < 0xF5 else 0
        if more == 0 or at + more >= end:
            return False
        for step in range(1, more + 1):
            if data[at + step] & 0xC0 != 0x80:
                return False
        second = data[at + 1]
        if (byte == 0xE0 and second < 0xA0) or (byte == 0xED and second > 0x9F):
            return False
        if (byte == 0xF0 and second < 0x90) or (byte == 0xF4 and second > 0x8F):
            return False
        at += more + 1
    return True
