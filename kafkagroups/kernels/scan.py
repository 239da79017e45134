"""Kernels that read numbers, texts and records from bytes, and kernels that compare and hash bytes.

A kernel that reads a record accepts only the layout that Kafka normally writes. For any other layout the kernel returns
-1, and the readable engine then loads the log. The docstring of each kernel says what it accepts.

`data` is always an array of bytes. `start`, `position` and `end` are positions in `data`, and `size` is a number of
bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.intrinsics import load8, load64, load_big_endian, xor_product_halves


@inlined
def load_int16(data: Any, position: int) -> int:
    return load_big_endian(data, position, 16)


@inlined
def load_int32(data: Any, position: int) -> int:
    return load_big_endian(data, position, 32)


@inlined
def load_int64(data: Any, position: int) -> int:
    return load_big_endian(data, position, 64)


@kernel
def _read_varint_of_many_bytes(data: Any, start: int, end: int, max_bytes: int) -> tuple[int, int]:
    """Return a zigzag varint and the position after the varint.

    Return (0, -1) if the varint does not end before `end`, or if it has more than `max_bytes` bytes. `max_bytes` is 5
    for a varint (32 bits) and 10 for a varlong (64 bits).
    """
    value = np.uint64(0)
    shift = 0
    for step in range(max_bytes):
        if start + step >= end:
            return 0, -1
        byte = np.uint64(data[start + step])
        value |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        if byte < 0x80:
            if max_bytes == 5:
                value &= np.uint64(0xFFFFFFFF)
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), start + step + 1
        shift += 7
    return 0, -1


@inlined
def read_varint(data: Any, start: int, end: int, max_bytes: int) -> tuple[int, int]:
    """Return the same as `_read_varint_of_many_bytes`, but faster for a varint of one byte, the usual case."""
    if start < end and load8(data, start) < 0x80:
        byte: int = load8(data, start)
        return (byte >> 1) ^ -(byte & 1), start + 1
    return _read_varint_of_many_bytes(data, start, end, max_bytes)


@kernel
def read_uvarint(data: Any, start: int, end: int) -> tuple[int, int]:
    """Return an unsigned varint and the position after the varint.

    Return (0, -1) if the varint does not end before `end`, or if it has more than 3 bytes.
    """
    value = np.int64(0)
    for step in range(3):
        if start + step >= end:
            return 0, -1
        byte = np.int64(data[start + step])
        value |= (byte & 0x7F) << 7 * step
        if byte < 0x80:
            return value, start + step + 1
    return 0, -1


@inlined
def hash_long_bytes(data: Any, start: int, size: int, secret: Any) -> int:
    """Return a 64-bit hash of bytes. `size` must be at least 8. `secret` is the secret of the process (secret.py).

    The hash is a sum of products, one for each 16 bytes, so that the CPU computes several products in parallel. The
    last product always includes the last 8 bytes, so some bytes can be used twice. The constants are odd numbers with
    well-mixed bits; their values have no other meaning.
    """
    hashed = np.uint64(size)
    salt = secret[0]
    other_salt = secret[1]
    position = start
    last_position = start + size - 8
    while position + 8 < last_position:
        hashed += xor_product_halves(load64(data, position) ^ salt, load64(data, position + 8) ^ other_salt)
        salt += np.uint64(0x9E3779B97F4A7C15)
        position += 16
    hashed += xor_product_halves(
        load64(data, min(position, last_position)) ^ salt, load64(data, last_position) ^ other_salt
    )
    hashed ^= hashed >> np.uint64(32)
    hashed *= np.uint64(0xD6E8FEB86659FD93)
    return np.int64(hashed ^ hashed >> np.uint64(29))


@inlined
def same_long_bytes(data: Any, start: int, other_data: Any, other_start: int, size: int) -> bool:
    """Return whether two byte sequences are equal. `size` must be at least 8.

    Some of the last 8 bytes may be compared twice.
    """
    step = 0
    last_step = size - 8
    while step < last_step:
        if load64(data, start + step) != load64(other_data, other_start + step):
            return False
        step += 8
    return load64(data, start + last_step) == load64(other_data, other_start + last_step)


@inlined
def hash_bytes(data: Any, start: int, size: int, secret: Any) -> int:
    """Return a 64-bit hash of any number of bytes. `secret` is the secret of the process (secret.py)."""
    return hash_long_bytes(data, start, size, secret) if size >= 8 else _hash_few_bytes(data, start, size, secret)


@kernel
def _hash_few_bytes(data: Any, start: int, size: int, secret: Any) -> int:
    """Return a hash of fewer than 8 bytes."""
    number = np.uint64(0)
    for position in range(start, start + size):
        number = number << np.uint64(8) | np.uint64(data[position])
    # Without the size, the bytes 00 41 and the byte 41 would have the same hash.
    return hash_number(number | np.uint64(size) << np.uint64(56), secret)


@inlined
def hash_number(number: int, secret: Any) -> int:
    """Return a 64-bit hash of a uint64. `secret` is the secret of the process (secret.py)."""
    return np.int64(xor_product_halves(number ^ secret[0], secret[1]))


@inlined
def same_bytes(data: Any, start: int, other_data: Any, other_start: int, size: int) -> bool:
    """Return whether two byte sequences of any size are equal."""
    return (
        same_long_bytes(data, start, other_data, other_start, size)
        if size >= 8
        else _same_few_bytes(data, start, other_data, other_start, size)
    )


@kernel
def _same_few_bytes(data: Any, start: int, other_data: Any, other_start: int, size: int) -> bool:
    for step in range(size):
        if data[start + step] != other_data[other_start + step]:
            return False
    return True


@inlined
def find_record_parts(data: Any, position: int, end: int) -> tuple[int, int, int, int, int, int]:
    """Return where the parts of the record at a position are.

    The result is (position after the record, offset delta, key position, key size, value position, value size). A size
    of -1 means null. The position after the record is -1 if the record has headers, ends after `end`, or has parts
    whose sizes do not add up to the record's size.
    """
    size, position = read_varint(data, position, end, 5)
    record_end = position + size
    offset_delta = np.int64(0)
    key_start = np.int64(0)
    key_size = np.int64(-1)
    value_start = np.int64(0)
    value_size = np.int64(-1)
    if position < 0 or size < 1 or record_end > end:
        record_end = np.int64(-1)
    else:
        # Skip the attributes (one byte) and the timestamp.
        _, position = read_varint(data, position + 1, record_end, 10)
        if position >= 0:
            offset_delta, position = read_varint(data, position, record_end, 5)
        if position >= 0:
            key_size, key_start = read_varint(data, position, record_end, 5)
            position = key_start + max(key_size, 0) if key_start >= 0 else key_start
        if 0 <= position <= record_end:
            value_size, value_start = read_varint(data, position, record_end, 5)
            position = value_start + max(value_size, 0) if value_start >= 0 else value_start
        header_count = np.int64(-1)
        if 0 <= position <= record_end:
            header_count, position = read_varint(data, position, record_end, 5)
        if position != record_end or header_count != 0:  # Kafka writes no headers into this topic.
            record_end = np.int64(-1)
    return record_end, offset_delta, key_start, max(key_size, -1), value_start, max(value_size, -1)


@inlined
def group_and_topic_size(data: Any, key_start: int, key_size: int) -> int:
    """Return the size of the group and the topic in the key of an offset record; -1 if the key is invalid.

    The result includes the fields with the size of the group and of the topic (int16 each). After the topic, the key
    must have a partition (int32).
    """
    end = key_start + key_size
    position = key_start + 2
    for _ in range(2):
        if position + 2 > end:
            return -1
        size = load_int16(data, position)
        position += 2 + size
        if size < 0 or position > end:
            return -1
    return position - (key_start + 2) if position + 4 <= end else -1


@kernel
def is_valid_utf8(data: Any, start: int, size: int) -> bool:
    """Return whether the bytes are valid UTF-8.

    Kafka compares texts as Java Strings. A kernel may compare bytes instead only if they are valid UTF-8. Different
    bytes that are not valid can be the same Java String.
    """
    position = start
    end = start + size
    while position < end:
        # Skip 8 bytes at a time while all of them are ASCII.
        while position + 8 <= end and load64(data, position) & np.uint64(0x8080808080808080) == 0:
            position += 8
        if position == end:
            break
        first_byte = data[position]
        if first_byte < 0x80:
            position += 1
            continue
        continuation_bytes = 0
        if 0xC2 <= first_byte < 0xE0:
            continuation_bytes = 1
        elif 0xE0 <= first_byte < 0xF0:
            continuation_bytes = 2
        elif 0xF0 <= first_byte < 0xF5:
            continuation_bytes = 3
        if continuation_bytes == 0 or position + continuation_bytes >= end:
            return False
        for step in range(1, continuation_bytes + 1):
            if data[position + step] & 0xC0 != 0x80:
                return False
        # UTF-8 forbids these pairs of bytes: a character in too many bytes (after E0 and F0), half of a surrogate pair
        # (after ED), or a number above the last character (after F4).
        second_byte = data[position + 1]
        if (first_byte == 0xE0 and second_byte < 0xA0) or (first_byte == 0xED and second_byte > 0x9F):
            return False
        if (first_byte == 0xF0 and second_byte < 0x90) or (first_byte == 0xF4 and second_byte > 0x8F):
            return False
        position += continuation_bytes + 1
    return True
