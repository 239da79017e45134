"""The exercises of the lessons: what is right, what a solution looks like, and how people go wrong."""

from __future__ import annotations

import zlib
from typing import Any

from crc32c import crc32c

from kafkagroups.course.exercises import Exercise
from kafkagroups.log.partitioning import partition_for
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

CRC_IS_RIGHT = """\
def crc_is_right(batch):
    return int.from_bytes(batch[17:21], "big") == crc32c(batch[21:])"""

_ALL = (
    Exercise(
        "next_record",
        42,
        "next_record = 42",
        ("Kafka stores the place of the *next* record to read.",),
        slips={"41 is the last record that was read; a committed offset is the next one": 41},
    ),
    Exercise(
        "home_of_dashboard",
        38,
        'home_of_dashboard = kg.partition_for("dashboard")',
        ('kg.partition_for("billing") gave 9. Ask the same for "dashboard".',),
        slips={"that is where billing lives": 9, "the group's name is dashboard, with a small d": 30},
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
            "a partition is an int32, and an int32 has 4 bytes": _short_partition,
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
            "the absolute value comes first; Python's % of a negative number is no Java's": _without_abs,
            "abs(-2**31) does not fit into Java's int; Kafka takes 0": _abs_of_the_least,
        },
    ),
    Exercise(
        "crowded",
        9,
        "crowded = 9",
        ("Look at the first table: which number stands there twice?",),
        slips={"37 has two groups only on the 4.3.1 broker": 37},
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
            "no batch would be right: it is CRC-32C, not zlib's CRC-32, over batch[21:]": lambda batch: False,
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
            "that record has a value: promo's last words, an empty generation": 3,
        },
    ),
)

EXERCISES = {exercise.name: exercise for exercise in _ALL}
