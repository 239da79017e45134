"""The exercises of lesson 03."""

from __future__ import annotations

from typing import Any

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.log.batch import read_varint

# Exercise `read_varint`: which number is stored at `position`? The functions return the number, and the position after
# the varint.
# `_read_varint` is correct. The functions after it contain mistakes of learners.


def _read_varint(data: bytes, position: int) -> Any:
    return read_varint(data, position)


def _forget_zigzag(data: bytes, position: int) -> Any:
    value, end = read_varint(data, position)
    zigzag_value = value * 2 if value >= 0 else -2 * value - 1
    return zigzag_value, end


def _read_high_bits_first(data: bytes, position: int) -> Any:
    zigzag_value = 0
    for index in range(position, len(data)):
        zigzag_value = zigzag_value << 7 | data[index] & 0x7F
        is_last_byte = data[index] < 0x80
        if is_last_byte:
            value = zigzag_value // 2 if zigzag_value % 2 == 0 else -(zigzag_value + 1) // 2
            return value, index + 1
    return None, len(data)


def _return_byte_count(data: bytes, position: int) -> Any:
    value, end = read_varint(data, position)
    return value, end - position if position > 0 else 1


_READ_VARINT_SOLUTION = """\
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

EXERCISES = (
    Exercise(
        name="read_varint",
        correct=_read_varint,
        solution=_READ_VARINT_SOLUTION,
        hints=(
            "Read bytes until a byte is below 0x80. Each byte has seven bits of the number, the lowest bits first.",
            "0x36 is 54, an even number: the value is 54 // 2 = 27. 0x01 is odd: the value is -(1 + 1) // 2 = -1.",
        ),
        # Each case is the bytes, and the position of the varint.
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
            "the first byte contains the lowest seven bits, not the highest seven bits": _read_high_bits_first,
            "return the position after the varint, counted from the start of `data`": _return_byte_count,
        },
    ),
    # Exercise `commit_marker`: at which byte does the batch with the commit marker begin, and which producer epoch does
    # it have? The hex dump shows two markers of partition 9 in data/harbour/4.3.1.
    Exercise(
        name="commit_marker",
        correct=(3352, 1),
        solution="commit_marker = (3352, 1)    # the key from byte 3418 is 00 00 00 01",
        hints=(
            "The key of the commit marker is 00 00 00 01: version 0, type 1. The abort marker has type 0.",
            "The key begins at byte 66 of a batch. For the first marker, this is position 3352 + 66 = 3418.",
            "The epoch begins at position 3352 + 51 = 3403, or at position 3633 + 51 = 3684.",
        ),
        known_mistakes={
            "This marker is an abort marker: its key ends with 00": (3633, 2),
            "The record begins at this position. The batch begins 61 bytes earlier": (3413, 1),
            "25 is the offset of the marker. The answer is the position of its batch in the file": (25, 1),
            "The position is right. The epoch is in the bytes 51 and 52 of the batch": (3352, 0),
        },
    ),
    Exercise(
        name="unnoticed_change",
        correct="B",
        solution='unnoticed_change = "B"   # the leader epoch is before the checksum',
        hints=(
            "The checksum covers all bytes after itself. Which of the three bytes is before it?",
            "With a wrong length, the broker computes the checksum over too many or too few bytes.",
        ),
        known_mistakes={
            "The length is before the checksum, but a wrong length changes which bytes are checked": "A",
            "A record is after the checksum, so the checksum covers it": "C",
        },
    ),
)
