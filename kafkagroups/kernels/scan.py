"""Kernels that read numbers, texts and records from bytes, and compare and hash them.

They read only plain layouts. For anything else they return -1, and the readable engine decides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.intrinsics import big_endian, folded_product, load8, load64


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
    """Return a zigzag varint of up to `most` bytes and the position after it; (0, -1) if the bytes are no varint."""
    value = np.uint64(0)
    shift = 0
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
    """Return the same as `long_varint`; most varints have one byte."""
    if at < end and load8(data, at) < 0x80:
        byte: int = load8(data, at)
        return (byte >> 1) ^ -(byte & 1), at + 1
    return long_varint(data, at, end, most)


@kernel
def uvarint(data: Any, at: int, end: int) -> tuple[int, int]:
    """Return an unsigned varint of up to 3 bytes and the position after it; (0, -1) if it is longer."""
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
    """Return a hash of 64 bits of at least 8 bytes.

    It sums one product for each pair of words; no product needs another one. The last two pairs may overlap.
    """
    mixed = np.uint64(size)
    salt = np.uint64(0x9E3779B97F4A7C15)
    at = start
    last = start + size - 8
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
    """Return whether two runs of at least 8 bytes are equal."""
    at = 0
    last = size - 8
    while at < last:
        if load64(data, start + at) != load64(other, place + at):
            return False
        at += 8
    return load64(data, start + last) == load64(other, place + last)


@inlined
def short_hash(data: Any, start: int, size: int) -> int:
    """Return a hash of any number of bytes."""
    return hash_bytes(data, start, size) if size >= 8 else _hash_few(data, start, size)


@kernel
def _hash_few(data: Any, start: int, size: int) -> int:
    mixed = np.uint64(14695981039346656037)
    for at in range(start, start + size):
        mixed = (mixed ^ np.uint64(data[at])) * np.uint64(1099511628211)
    return np.int64(mixed ^ mixed >> np.uint64(32))


@inlined
def same_text(data: Any, start: int, other: Any, place: int, size: int) -> bool:
    """Return whether two runs of bytes are equal."""
    return same_bytes(data, start, other, place, size) if size >= 8 else _same_few(data, start, other, place, size)


@kernel
def _same_few(data: Any, start: int, other: Any, place: int, size: int) -> bool:
    for at in range(size):
        if data[start + at] != other[place + at]:
            return False
    return True


@inlined
def record_at(data: Any, at: int, end: int) -> tuple[int, int, int, int, int, int]:
    """Find the parts of one record.

    Return the position after it (-1 if it is not plain), its offset delta, the position of its key and the key's size
    (-1: null), the position of its value and the value's size (-1: null).
    """
    size, at = varint(data, at, end, 5)
    stop = at + size
    delta = np.int64(0)
    key = np.int64(0)
    key_size = np.int64(-1)
    value = np.int64(0)
    value_size = np.int64(-1)
    if at < 0 or size < 1 or stop > end:
        stop = np.int64(-1)
    else:
        _, at = varint(data, at + 1, stop, 10)  # the timestamp, after one byte of attributes
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
        if at != stop or headers != 0:  # Kafka writes no headers into this topic
            stop = np.int64(-1)
    return stop, delta, key, max(key_size, -1), value, max(value_size, -1)


@inlined
def name_size(data: Any, key: int, size: int) -> int:
    """Return the size of group and topic in an offset's key, or -1 if it is not plain. The partition follows them."""
    end = key + size
    at = key + 2
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
    """Return whether the bytes are UTF-8 that a Java String preserves. Other bytes could be two names of one text."""
    at = start
    end = start + size
    while at < end:
        while at + 8 <= end and load64(data, at) & np.uint64(0x8080808080808080) == 0:
            at += 8
        if at == end:
            break
        byte = data[at]
        if byte < 0x80:
            at += 1
            continue
        following = 0
        if 0xC2 <= byte < 0xE0:
            following = 1
        elif 0xE0 <= byte < 0xF0:
            following = 2
        elif 0xF0 <= byte < 0xF5:
            following = 3
        if following == 0 or at + following >= end:
            return False
        for step in range(1, following + 1):
            if data[at + step] & 0xC0 != 0x80:
                return False
        second = data[at + 1]
        if (byte == 0xE0 and second < 0xA0) or (byte == 0xED and second > 0x9F):
            return False
        if (byte == 0xF0 and second < 0x90) or (byte == 0xF4 and second > 0x8F):
            return False
        at += following + 1
    return True
