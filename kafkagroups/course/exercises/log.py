"""Exercises of lesson 03: a varint, a checksum, a marker and a tombstone in a hexdump.

A varint is a number in one or more bytes, with seven bits of the number in each byte. Zigzag maps negative and positive
numbers to numbers from 0: 0, -1, 1, -2 become 0, 1, 2, 3.
"""

from __future__ import annotations

from typing import Any

from crc32c import crc32c

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.log.record_batch import read_varint

# Exercise `read_varint`: first the correct function, then wrong functions that learners write. They return the number,
# and the position after the varint that begins at `position`.


def _read_varint(data: bytes, position: int) -> Any:
    return read_varint(data, position)


def _forget_zigzag(data: bytes, position: int) -> Any:
    value, end = read_varint(data, position)
    return value * 2 if value >= 0 else -2 * value - 1, end


def _read_high_bits_first(data: bytes, position: int) -> Any:
    number = 0
    for end in range(position, len(data)):
        number = number << 7 | data[end] & 0x7F
        if data[end] < 0x80:
            return (number // 2 if number % 2 == 0 else -(number + 1) // 2), end + 1
    return None, len(data)


def _count_read_bytes(data: bytes, position: int) -> Any:
    """Return how many bytes were read, instead of the position after these bytes.

    At position 0, both are the same number, so return 1 there. This is the mistake of always counting one byte.
    """
    value, end = read_varint(data, position)
    return value, end - position if position else 1


# Exercise `crc_is_right`: the correct function and its cases.


def _crc_is_right(batch: bytes) -> bool:
    return int.from_bytes(batch[17:21], "big") == crc32c(batch[21:])


def _make_header_case(seed: int, changed_byte: int | None = None) -> tuple[bytes]:
    """Return the arguments of a case: a batch header whose checksum is correct before one byte is changed.

    `seed` is the first of 38 consecutive byte values in the header, so headers with different seeds differ.
    `changed_byte` is the position of the changed byte. If it is None, no byte is changed.
    """
    body = b"\x00\x00" + bytes(range(seed, seed + 38)) + b"\x00\x00\x00\x00"
    batch = bytearray(bytes(8) + (len(body) + 9).to_bytes(4, "big") + bytes(4) + b"\x02")
    batch += crc32c(body).to_bytes(4, "big") + body
    if changed_byte is not None:
        batch[changed_byte] ^= 1
    return (bytes(batch),)


READ_VARINT = """\
def read_varint(data, position):
    number = 0
    shift = 0
    while True:
        byte = data[position]
        position += 1
        number += (byte & 0x7F) << shift           # each byte has seven bits, the lowest first
        shift += 7
        if byte < 0x80:
            break
    value = number // 2 if number % 2 == 0 else -(number + 1) // 2
    return value, position"""

CRC_IS_RIGHT = """\
def crc_is_right(batch):
    return int.from_bytes(batch[17:21], "big") == crc32c(batch[21:])"""

EXERCISES = (
    Exercise(
        "read_varint",
        _read_varint,
        READ_VARINT,
        (
            "Read bytes until a byte is below 0x80. Each byte has seven bits of the number, the lowest bits first.",
            "0x36 is 54, an even number: the value is 54 // 2 = 27. 0x01 is odd: the value is -(1 + 1) // 2 = -1.",
        ),
        cases=(
            (b"\x36", 0),
            (b"\x00\x36", 1),
            (b"\x92\x01", 0),
            (b"\x01", 0),
            (b"\x00", 0),
            (b"\xf3\xc4\x15", 0),
        ),
        known_mistakes={
            "undo zigzag at the end: an even n becomes n // 2, an odd n becomes -(n + 1) // 2": _forget_zigzag,
            "the first byte has the lowest seven bits, not the highest bits": _read_high_bits_first,
            "return the position after the varint, counted from the start of data": _count_read_bytes,
        },
    ),
    Exercise(
        "crc_is_right",
        _crc_is_right,
        CRC_IS_RIGHT,
        (
            "Bytes 17 to 20 are the checksum, big-endian.",
            "The checksum covers all bytes after it: crc32c(batch[21:]).",
        ),
        cases=(
            _make_header_case(1),
            _make_header_case(7),
            _make_header_case(1, changed_byte=40),
            _make_header_case(7, changed_byte=18),
            _make_header_case(3, changed_byte=5),
            _make_header_case(3, changed_byte=14),
        ),
        known_mistakes={
            "this function never returns True. Check three things: which four bytes are the checksum, which bytes it "
            "covers, and whether you convert the four bytes to an unsigned number": lambda batch: False,
            "compare the two numbers: some of these batches are damaged": lambda batch: True,
        },
    ),
    Exercise(
        "commit_marker",
        2914,
        "commit_marker = 2914",
        (
            "The batch of a marker has only 78 bytes. Its byte 22 (attributes) is 0x30: transactional and control.",
            "The key of its record is 00 00 00 01: version 0, type 1 (commit). Type 0 is an abort.",
        ),
        known_mistakes={
            "that marker is an abort: its key ends with 00": 3203,
            "the record begins there; the batch begins 61 bytes earlier": 2975,
            "that is the marker's offset in the partition; the answer is the position where the batch begins": 24,
            "that batch is transactional, but it is not a control batch: it contains the offsets": 2713,
        },
    ),
    Exercise(
        "tombstone",
        4,
        "tombstone = 4",
        (
            "A tombstone has a key and no value. The length of its value is -1, which is the varint 01.",
            "The first tombstone deletes an offset: its key begins with 00 01. The second tombstone deletes the group.",
        ),
        known_mistakes={
            "that tombstone deletes the group: its key begins with 00 02": 5,
            "that is a position in the file; the answer is the record's offset": 719,
            "the batch begins there; the answer is the record's offset": 658,
            "that record has a value: it is the last group record of promo, without members": 3,
        },
    ),
)
