"""The exercises of lesson 01."""

from __future__ import annotations

from typing import Any

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import decode

# Exercise `decode_commit`: which offset does a record commit? The functions return the group id, the topic, the
# partition and the offset. A tombstone is a record whose value is None. Its offset is None.
# `_decode_commit` is correct. The functions after it contain mistakes of learners.


def _decode_commit(key: bytes, value: bytes | None) -> Any:
    record = decode(key, value)
    assert isinstance(record.key, OffsetCommitKey)
    offset = record.value.offset if isinstance(record.value, OffsetCommitValue) else None
    return record.key.group, record.key.topic, record.key.partition, offset


def _forget_record_type(key: bytes, value: bytes | None) -> Any:
    def read_text(position: int) -> tuple[str, int]:
        start = position + 2
        end = start + int.from_bytes(key[position:start], "big", signed=True)
        return key[start:end].decode(), end

    group, position = read_text(0)
    topic, position = read_text(position)
    partition = int.from_bytes(key[position : position + 4], "big", signed=True)
    _, _, _, offset = _decode_commit(key, value)
    return group, topic, partition, offset


def _read_partition_as_int16(key: bytes, value: bytes | None) -> Any:
    group, topic, _, offset = _decode_commit(key, value)
    return group, topic, int.from_bytes(key[-4:-2], "big", signed=True), offset


def _read_offset_as_int32(key: bytes, value: bytes | None) -> Any:
    group, topic, partition, _ = _decode_commit(key, value)
    return group, topic, partition, None if value is None else int.from_bytes(value[2:6], "big", signed=True)


def _forget_version(key: bytes, value: bytes | None) -> Any:
    group, topic, partition, _ = _decode_commit(key, value)
    return group, topic, partition, None if value is None else int.from_bytes(value[:8], "big", signed=True)


def _read_tombstone_as_zero(key: bytes, value: bytes | None) -> Any:
    group, topic, partition, offset = _decode_commit(key, value)
    return group, topic, partition, offset or 0


# The bytes for the cases.


_COMMIT_KEY = bytes.fromhex("0001000762696c6c696e6700066f726465727300000002")
_CAFE_KEY = bytes.fromhex("0001000963") + b"af\xc3\xa9-\xe2\x98\x95" + bytes.fromhex("000573746f636b00000000")
_VALUE_VERSION_3 = bytes.fromhex("0003000000000000002affffffff000674696c6c20320000019500000000")
_VALUE_VERSION_1 = bytes.fromhex("00010000000000000010000674696c6c20310000019500000000ffffffffffffffff")

_DECODE_COMMIT_SOLUTION = """\
def decode_commit(key, value):
    group, position = course.read_string(key, 2)          # after the record type
    topic, position = course.read_string(key, position)
    partition = int.from_bytes(key[position:position + 4], "big", signed=True)
    if value is None:
        return group, topic, partition, None
    return group, topic, partition, int.from_bytes(value[2:10], "big", signed=True)"""

EXERCISES = (
    # Exercise `on_paper`: which offset does a commit's value contain, and how long is its metadata?
    Exercise(
        name="on_paper",
        correct=(41, 12),
        solution="on_paper = (0x29, 0x0d - 1)    # = (41, 12)",
        hints=(
            "The first two bytes are the version. The next eight bytes are the offset. 0x29 is 2 * 16 + 9.",
            "After the offset come four bytes of leader epoch. ff ff ff ff is -1. Then comes the length, plus one.",
        ),
        known_mistakes={
            "29 is a hex number; its value is 2 * 16 + 9": (29, 12),
            "In version 4, the length byte is the length plus one": (41, 13),
            "29 is a hex number, and the length byte is the length plus one": (29, 13),
            "4 is the version; the offset comes after the version": (4, 12),
            "the offset comes first in the pair, and then the number of bytes": (12, 41),
        },
    ),
    Exercise(
        name="decode_commit",
        correct=_decode_commit,
        solution=_DECODE_COMMIT_SOLUTION,
        hints=(
            "The key: 2 bytes of record type, then group and topic (course.read_string), then 4 bytes of partition.",
            "The value: 2 bytes for the version, then 8 bytes for the offset. All versions begin with these fields.",
            "If the value is None, the record is a tombstone without an offset: return None for the offset.",
        ),
        cases=(
            (_COMMIT_KEY, _VALUE_VERSION_3),
            (_COMMIT_KEY, _VALUE_VERSION_1),
            (_CAFE_KEY, _VALUE_VERSION_3),
            (_COMMIT_KEY, None),
        ),
        known_mistakes={
            "a key begins with 2 bytes of record type; the group comes after these bytes": _forget_record_type,
            "a partition is an int32, and an int32 has 4 bytes": _read_partition_as_int16,
            "an offset is an int64, and an int64 has 8 bytes": _read_offset_as_int32,
            "a value begins with 2 bytes of version; the offset comes after these bytes": _forget_version,
            "a tombstone does not mean offset 0: return None": _read_tombstone_as_zero,
        },
    ),
    Exercise(
        name="stops_the_load",
        correct="C",
        solution='stops_the_load = "C"   # no release of today knows version 5',
        hints=(
            "A broker skips what it does not know, if it can find the next record without reading this one.",
            "It skips a record by its type. It cannot read a value of a type that it knows, if the version is unknown.",
        ),
        known_mistakes={
            "Kafka 0.8.2 wrote key type 0 with version 0, and every release still reads it": "A",
            "A broker of Kafka 3.4.1 or newer skips a record of an unknown type": "B",
            "the letter is right; write a capital letter, as in the list": "c",
        },
    ),
)
