"""Bytes to blocks: batches are checked and hopped over, their records' keys and values found and told apart.

A block holds up to BLOCK records of offsets (types 0 and 1), a row each; it is folded when it is full, and before a
marker. Whatever is not plain, an odd layout, a refusal, damage, is ODD, and the readable loader decides: this one only
ever says what it is sure of.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.intrinsics import load64

OK, FULL, ODD, CUT, PACKED, PAUSED = range(6)
"""All was read; more room is needed first; the readable loader is to look at it; nothing further is to be read; a
compressed batch comes, whose checksum is right; the caller's stride is done."""
BLOCK = 512
HEADER = 61

# The columns of a block's row.
HASH, KEY, KEY_SIZE, VALUE, VALUE_SIZE, OFFSET, FIRST, PRODUCER = range(8)


@inlined
def int16(data: Any, at: int) -> int:
    return np.int64(np.int16(np.uint16(data[at]) << np.uint16(8) | np.uint16(data[at + 1])))


@inlined
def _swapped(word: Any) -> Any:
    """Big-endian: LLVM makes one instruction of it."""
    word = (word & np.uint64(0x00FF00FF00FF00FF)) << np.uint64(8) | (word >> np.uint64(8)) & np.uint64(
        0x00FF00FF00FF00FF
    )
    word = (word & np.uint64(0x0000FFFF0000FFFF)) << np.uint64(16) | (word >> np.uint64(16)) & np.uint64(
        0x0000FFFF0000FFFF
    )
    return word << np.uint64(32) | word >> np.uint64(32)


@inlined
def int64(data: Any, at: int) -> int:
    return np.int64(_swapped(load64(data, at)))


@inlined
def int32(data: Any, at: int) -> int:
    value = (
        np.uint32(data[at]) << np.uint32(24)
        | np.uint32(data[at + 1]) << np.uint32(16)
        | np.uint32(data[at + 2]) << np.uint32(8)
        | np.uint32(data[at + 3])
    )
    return np.int64(np.int32(value))


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
def varint(data: Any, at: int, end: int) -> tuple[int, int]:
    if at < end and data[at] < 0x80:
        byte = np.int64(data[at])
        return (byte >> 1) ^ -(byte & 1), at + 1
    return long_varint(data, at, end, 5)


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
    """64 bits of at least 8 bytes; the last word may overlap the one before."""
    mixed = np.uint64(size) * np.uint64(0x9E3779B97F4A7C15)
    at, last = start, start + size - 8
    while at < last:
        mixed = (mixed ^ load64(data, at)) * np.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> np.uint64(32)
        at += 8
    mixed = (mixed ^ load64(data, last)) * np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    return np.int64(mixed ^ mixed >> np.uint64(29))


@inlined
def record_at(data: Any, at: int, end: int, found: Any) -> int:
    """One record: where its key and value lie, into `found`; the position after it, -1 when it is not plain.

    `found` gets offset delta, key, its size (-1: null), value, its size (-1: null).
    """
    size, at = varint(data, at, end)
    if at < 0 or size < 0 or at + size > end or size < 1:
        return -1
    stop = at + size
    _, at = long_varint(data, at + 1, stop, 10)  # after the attributes: the time
    if at < 0:
        return -1
    found[0], at = varint(data, at, stop)
    if at < 0:
        return -1
    for which in (1, 3):
        length, at = varint(data, at, stop)
        if at < 0 or at + length > stop:
            return -1
        found[which], found[which + 1] = at, max(length, -1)
        at += max(length, 0)
    headers, at = varint(data, at, stop)
    if at < 0 or headers != 0:  # nobody writes headers here
        return -1
    return stop if at == stop else -1


@inlined
def offset_key_size(data: Any, key: int, size: int) -> int:
    """How many bytes of an offset's key count, without its type: group, topic, partition. -1: it is not plain."""
    end, at = key + size, key + 2
    for _ in range(2):
        if at + 2 > end:
            return -1
        length = int16(data, at)
        at += 2 + length
        if length < 0 or at > end:
            return -1
    return at + 4 - (key + 2) if at + 4 <= end else -1


@kernel
def is_plain_text(data: Any, start: int, size: int) -> bool:
    """Whether the bytes are UTF-8 that a Java String gives back: what is not could be two names for one text."""
    at, end = start, start + size
    while at < end:
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
