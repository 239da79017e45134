"""The exercises of lesson 03: varints, checksums, and finding one's way in a hexdump."""

from __future__ import annotations

from typing import Any

from crc32c import crc32c

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.log.record_batch import read_varint


def _varint(data: bytes, position: int) -> Any:
    return read_varint(data, position)


def _no_zigzag(data: bytes, position: int) -> Any:
    value, end = read_varint(data, position)
    return value * 2 if value >= 0 else -2 * value - 1, end


def _high_bits_first(data: bytes, position: int) -> Any:
    number = 0
    for end in range(position, len(data)):
        number = number << 7 | data[end] & 0x7F
        if data[end] < 0x80:
            return (number // 2 if number % 2 == 0 else -(number + 1) // 2), end + 1
    return None, len(data)


def _crc_is_right(batch: bytes) -> bool:
    return int.from_bytes(batch[17:21], "big") == crc32c(batch[21:])


def _sealed(count: int, spoil: int | None = None) -> bytes:
    """A batch header with a right checksum, or with one byte changed afterwards."""
    body = b"\x00\x00" + bytes(range(count, count + 38)) + b"\x00\x00\x00\x00"
    batch = bytearray(bytes(8) + (len(body) + 9).to_bytes(4, "big") + bytes(4) + b"\x02")
    batch += crc32c(body).to_bytes(4, "big") + body
    if spoil is not None:
        batch[spoil] ^= 1
    return bytes(batch)


_BATCHES = [(_sealed(1),), (_sealed(7),), (_sealed(1, 40),), (_sealed(7, 18),), (_sealed(3, 5),), (_sealed(3, 14),)]

READ_VARINT = """\
def read_varint(data, position):
    number, shift = 0, 0
    while True:
        byte = data[position]
        position += 1
        number += (byte & 0x7F) << shift           # seven bits a byte, the lowest first
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
        _varint,
        READ_VARINT,
        (
            "Take bytes until one is below 0x80. Each gives its low seven bits, the first byte the lowest.",
            "36 is 0x36 = 54, and 54 is even: half of it, 27. 01 is 1, and odd: minus (1 + 1) // 2, so -1.",
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
            "zigzag is still to undo: an even number n is n // 2, an odd one -(n + 1) // 2": _no_zigzag,
            "the first byte holds the lowest seven bits, not the highest": _high_bits_first,
            "the position after it is wanted, counted from the start of data": lambda data, position: (
                (
                    _varint(data, position)[0],
                    _varint(data, position)[1] - position,
                )
                if position
                else (_varint(data, position)[0], 1)
            ),
        },
    ),
    Exercise(
        "crc_is_right",
        _crc_is_right,
        CRC_IS_RIGHT,
        (
            "Bytes 17 to 20 hold the checksum, big-endian.",
            "It covers everything after itself: crc32c(batch[21:]).",
        ),
        cases=_BATCHES,
        known_mistakes={
            "then no batch is ever right. Look at three things: which four bytes hold the checksum, which bytes it "
            "covers, and that bytes must become a number, without sign, before they are compared": lambda batch: False,
            "something must be compared: not every batch is right": lambda batch: True,
        },
    ),
    Exercise(
        "commit_marker",
        2914,
        "commit_marker = 2914",
        (
            "A marker's batch is short: 78 bytes. Byte 22 of it, the attributes, is 30: transactional and control.",
            "Its record has the key 00 00 00 01: version 0, type 1. Type 0 is an abort.",
        ),
        known_mistakes={
            "that marker's key ends in 00: an abort": 3203,
            "there its record begins; the batch begins 61 bytes before": 2975,
            "that is its offset in the partition; the byte where the batch begins is wanted": 24,
            "that batch is transactional, but no control batch: it holds the offsets": 2713,
        },
    ),
    Exercise(
        "tombstone",
        4,
        "tombstone = 4",
        (
            "A tombstone has a key and no value: its value's length is -1, and a varint writes that as 01.",
            "The first one deletes an offset: its key begins with 00 01. The other deletes the group.",
        ),
        known_mistakes={
            "that one deletes the group: its key begins with 00 02": 5,
            "that is a byte of the file; the record's offset is wanted": 719,
            "there the batch begins; the record's offset is wanted": 658,
            "that record has a value: promo's last words, an empty generation": 3,
        },
    ),
)
