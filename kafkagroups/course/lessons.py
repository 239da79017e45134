"""The exercises of the lessons: what is right, what a solution looks like, and how people go wrong."""

from __future__ import annotations

import zlib
from typing import Any

from crc32c import crc32c

from kafkagroups.course.exercises import Exercise
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.record_batch import read_varint
from kafkagroups.records.fields import NEWEST
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import decode
from kafkagroups.records.text import java_hash
from kafkagroups.records.wire import STRING, At

_string = STRING.reader(At(0, False, NEWEST), True)


def _text(number: str, *rest: str) -> bytes:
    return bytes.fromhex(number) + b"".join(part.encode() for part in rest)


def _read_string(data: bytes, position: int) -> Any:
    return _string(data, position)


def _unsigned_length(data: bytes, position: int) -> Any:
    length = int.from_bytes(data[position : position + 2], "big")
    return data[position + 2 : position + 2 + length].decode(), position + 2 + length


def _forgot_the_length(data: bytes, position: int) -> Any:
    text, end = _string(data, position)
    return text, end - 2


def _little_endian(data: bytes, position: int) -> Any:
    length = int.from_bytes(data[position : position + 2], "little", signed=True)
    if length < 0:
        return None, position + 2
    return data[position + 2 : position + 2 + length].decode(), position + 2 + length


def _empty_for_null(data: bytes, position: int) -> Any:
    text, end = _string(data, position)
    return text or "", end


_COMMIT = bytes.fromhex("0001000762696c6c696e6700066f726465727300000002")
_CAFE = bytes.fromhex("0001000963") + b"af\xc3\xa9-\xe2\x98\x95" + bytes.fromhex("000573746f636b00000000")
_V3 = bytes.fromhex("0003000000000000002affffffff000674696c6c20320000019500000000")
_V1 = bytes.fromhex("00010000000000000010000674696c6c20310000019500000000ffffffffffffffff")


def _decode_commit(key: bytes, value: bytes | None) -> Any:
    record = decode(key, value)
    assert isinstance(record.key, OffsetCommitKey)
    offset = record.value.offset if isinstance(record.value, OffsetCommitValue) else None
    return record.key.group, record.key.topic, record.key.partition, offset


def _commit_without_type(key: bytes, value: bytes | None) -> Any:
    def read(position: int) -> tuple[str, int]:
        length = int.from_bytes(key[position : position + 2], "big", signed=True)
        return key[position + 2 : position + 2 + length].decode(), position + 2 + length

    group, position = read(0)
    topic, position = read(position)
    partition = int.from_bytes(key[position : position + 4], "big", signed=True)
    return group, topic, partition, _decode_commit(key, value)[3]


def _half_an_offset(key: bytes, value: bytes | None) -> Any:
    group, topic, partition, _ = _decode_commit(key, value)
    return group, topic, partition, None if value is None else int.from_bytes(value[2:6], "big", signed=True)


def _short_partition(key: bytes, value: bytes | None) -> Any:
    group, topic, _, offset = _decode_commit(key, value)
    return group, topic, int.from_bytes(key[-4:-2], "big", signed=True), offset


def _commit_without_version(key: bytes, value: bytes | None) -> Any:
    group, topic, partition, _ = _decode_commit(key, value)
    return group, topic, partition, None if value is None else int.from_bytes(value[:8], "big", signed=True)


def _tombstone_is_zero(key: bytes, value: bytes | None) -> Any:
    group, topic, partition, offset = _decode_commit(key, value)
    return group, topic, partition, offset or 0


def _hash_of(units: Any) -> int:
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def _no_overflow(text: str) -> int:
    value = 0
    for character in text:
        value = 31 * value + ord(character)
    return value


def _unsigned_hash(text: str) -> int:
    return java_hash(text) & 0xFFFFFFFF


def _without_abs(group: str, partitions: int) -> int:
    return java_hash(group) % partitions


def _abs_of_the_least(group: str, partitions: int) -> int:
    return abs(java_hash(group)) % partitions


def _python_hash(group: str, partitions: int) -> int:
    return int.from_bytes(zlib.crc32(group.encode()).to_bytes(4, "big"), "big") % partitions


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

READ_STRING = """\
def read_string(data, position):
    length = int.from_bytes(data[position:position + 2], "big", signed=True)
    position += 2
    if length < 0:
        return None, position
    return data[position:position + length].decode(), position + length"""

DECODE_COMMIT = """\
def decode_commit(key, value):
    group, position = read_string(key, 2)          # after the record type
    topic, position = read_string(key, position)
    partition = int.from_bytes(key[position:position + 4], "big", signed=True)
    if value is None:
        return group, topic, partition, None
    return group, topic, partition, int.from_bytes(value[2:10], "big", signed=True)"""

JAVA_HASH = """\
def hash_of(text):
    data = text.encode("utf-16-be")
    value = 0
    for i in range(0, len(data), 2):
        unit = int.from_bytes(data[i:i + 2], "big")
        value = (31 * value + unit) & 0xFFFFFFFF   # only 32 bits stay
    return value - 2**32 if value >= 2**31 else value"""

PARTITION_OF = """\
def partition_of(group, partitions):
    value = hash_of(group)
    if value == -2**31:
        return 0                                   # its absolute value is no int in Java
    return abs(value) % partitions"""

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

_ALL = (
    Exercise(
        "next_record",
        42,
        "next_record = 42",
        ("Kafka stores the place of the *next* record to read.",),
        slips={
            "41 is the last record that was read; a committed offset is the next one": 41,
            "43 would leave record 42 unread": 43,
        },
    ),
    Exercise(
        "home_of_promo",
        37,
        'home_of_promo = kg.partition_for("promo")',
        ('kg.partition_for("billing") gave 9. Ask the same for "promo".',),
        slips={"that is where billing lives": 9, "the group's name is promo, in small letters": partition_for("Promo")},
    ),
    Exercise(
        "read_string",
        _read_string,
        READ_STRING,
        (
            'Two bytes of length come first: int.from_bytes(…, "big", signed=True).',
            "A negative length means null: return None and the position after the length.",
            "Else the text is the next `length` bytes; return it with the position after it.",
        ),
        cases=(
            (_text("0007", "billing", "rest"), 0),
            (_COMMIT, 2),
            (_COMMIT, 11),
            (_CAFE, 2),
            (_text("0000", "x"), 0),
            (_text("ffff", "x"), 0),
        ),
        slips={
            "the length is signed: ffff is -1, and that says null": _unsigned_length,
            "the position after it counts the two bytes of the length too": _forgot_the_length,
            "Kafka's numbers are big-endian: the high byte comes first": _little_endian,
            "null and the empty text are two things: give None for a negative length": _empty_for_null,
        },
    ),
    Exercise(
        "decode_commit",
        _decode_commit,
        DECODE_COMMIT,
        (
            "The key: 2 bytes of record type, then group, topic (read_string twice), then 4 bytes of partition.",
            "The value: 2 bytes of version, then the offset in 8 bytes. It stands there in every version.",
            "No value (None) is a tombstone: there is no offset, return None for it.",
        ),
        cases=((_COMMIT, _V3), (_COMMIT, _V1), (_CAFE, _V3), (_COMMIT, None)),
        slips={
            "a key begins with 2 bytes of record type; the group comes after them": _commit_without_type,
            "a partition is an int32, and an int32 has 4 bytes": _short_partition,
            "an offset is an int64, and an int64 has 8 bytes": _half_an_offset,
            "a value begins with 2 bytes of version; the offset comes after them": _commit_without_version,
            "a tombstone is no offset 0: give None": _tombstone_is_zero,
        },
    ),
    Exercise(
        "on_paper",
        50,
        "on_paper = 0x32    # = 50",
        ("The first two bytes are the version. The eight after them are the offset.", "0x32 is 3 * 16 + 2."),
        slips={
            "32 are its hex digits; as a number they are 3 * 16 + 2": 32,
            "that is the version; the offset comes after it": 3,
        },
    ),
    Exercise(
        "generation_of_promo",
        2,
        "generation_of_promo = 2",
        (
            "00 01 is the version. 00 08 is the length of the protocol type, and eight bytes are it.",
            "The generation is the int32 right behind the protocol type.",
        ),
        slips={
            "that is the version; the protocol type and then the generation come after it": 1,
            "that is the number of members, the last four bytes": 0,
            "that is the length of the protocol type": 8,
        },
    ),
    Exercise(
        "hash_of",
        java_hash,
        JAVA_HASH,
        (
            "value = 31 * value + unit, for each unit of the text, beginning with 0.",
            "Java's int has 32 bits: keep them with & 0xFFFFFFFF, and from 2**31 on it is negative.",
            'Units are UTF-16, not characters: ☕ is one, 🥐 two. text.encode("utf-16-be") gives 2 bytes a unit.',
        ),
        cases=(("billing",), ("",), ("dashboard",), ("fraud-check",), ("café-☕",), ("🥐",), ("polygenelubricants",)),
        slips={
            "Java's numbers overflow: keep 32 bits after each step": _no_overflow,
            "an int of Java is signed: from 2**31 on, take 2**32 away": _unsigned_hash,
            "🥐 is one character and two UTF-16 units": lambda text: _hash_of(map(ord, text)),
            "Java counts UTF-16 units, not UTF-8 bytes": lambda text: _hash_of(text.encode()),
        },
    ),
    Exercise(
        "partition_of",
        partition_for,
        PARTITION_OF,
        (
            "Take the hash's absolute value, then the remainder by the number of partitions.",
            "One int of Java has no absolute value: -2**31. Kafka takes 0 for it.",
        ),
        cases=(("billing", 50), ("dashboard", 50), ("café-☕", 50), ("mailer", 7), ("polygenelubricants", 50)),
        slips={
            "use `partitions`, not 50": lambda group, partitions: partition_for(group, 50),
            "& 0x7FFFFFFF is another way to lose the sign, not the absolute value": lambda group, partitions: (
                (java_hash(group) & 0x7FFFFFFF) % partitions
            ),
            "the absolute value comes first; Python's % of a negative number is no Java's": _without_abs,
            "abs(-2**31) does not fit into Java's int; Kafka takes 0": _abs_of_the_least,
        },
    ),
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
        slips={
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
        slips={
            "then no batch is ever right. Look at three things: which four bytes hold the checksum, which bytes it "
            "covers, and that bytes must become a number before they are compared": lambda batch: False,
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
        slips={
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
        slips={
            "that one deletes the group: its key begins with 00 02": 5,
            "that is a byte of the file; the record's offset is wanted": 719,
            "there the batch begins; the record's offset is wanted": 658,
            "that record has a value: promo's last words, an empty generation": 3,
        },
    ),
)

EXERCISES = {exercise.name: exercise for exercise in _ALL}
