"""Exercises of lesson 01: read strings, commits and compact strings from bytes.

A string begins with its length in two bytes. A compact string begins with its length plus one, as a varint: a number in
one or more bytes, with seven bits of the number in each byte.

Each key of `known_mistakes` is the correction that the learner sees. Its value is the wrong answer.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import decode
from kafkagroups.records.varint import read_uvarint
from kafkagroups.records.versions import AFTER_ALL_VERSIONS
from kafkagroups.records.wire import STRING
from kafkagroups.records.wire_base import MessageFormat

# A flexible message contains compact strings.
_read_kafka_string = STRING.reader(MessageFormat(0, flexible=False, kafka=AFTER_ALL_VERSIONS), nullable=True)
_read_compact_string = STRING.reader(MessageFormat(0, flexible=True, kafka=AFTER_ALL_VERSIONS), nullable=True)


# Exercise `read_string`: which string begins at `position`? The functions return the string and the position after the
# string.
# `_read_string` is correct. The functions after it contain mistakes of learners.


def _read_string(data: bytes, position: int) -> Any:
    return _read_kafka_string(data, position)


def _read_unsigned_length(data: bytes, position: int) -> Any:
    start = position + 2
    end = start + int.from_bytes(data[position:start], "big")
    return data[start:end].decode(), end


def _forget_length_bytes(data: bytes, position: int) -> Any:
    text, end = _read_kafka_string(data, position)
    return text, end - 2


def _read_little_endian(data: bytes, position: int) -> Any:
    start = position + 2
    length = int.from_bytes(data[position:start], "little", signed=True)
    if length < 0:
        return None, start
    end = start + length
    return data[start:end].decode(), end


def _read_null_as_empty(data: bytes, position: int) -> Any:
    text, end = _read_kafka_string(data, position)
    return text or "", end


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


# Exercise `read_compact`: which compact string begins at `position`? The functions return the string and the
# position after the string.
# `_read_compact` is correct. The functions after it contain mistakes of learners.


def _read_compact(data: bytes, position: int) -> Any:
    return _read_compact_string(data, position)


def _forget_minus_one(data: bytes, position: int) -> Any:
    length, start = read_uvarint(data, position)
    if length == 0:
        return None, start
    end = start + length
    return data[start:end].decode(errors="replace"), end


def _read_length_as_one_byte(data: bytes, position: int) -> Any:
    length = data[position] - 1
    start = position + 1
    if length < 0:
        return None, start
    end = start + length
    return data[start:end].decode(errors="replace"), end


def _read_high_bits_first(data: bytes, position: int) -> Any:
    varint = 0
    while True:
        byte = data[position]
        position += 1
        varint = varint << 7 | byte & 0x7F
        if byte < 0x80:
            break
    if varint == 0:
        return None, position
    end = position + varint - 1
    return data[position:end].decode(errors="replace"), end


def _read_compact_null_as_empty(data: bytes, position: int) -> Any:
    text, end = _read_compact_string(data, position)
    return text or "", end


# The bytes for the cases.


def _make_string_data(length_hex: str, *texts: str) -> bytes:
    """Return the bytes of the length (`length_hex`), followed by the bytes of the texts."""
    return bytes.fromhex(length_hex) + b"".join(text.encode() for text in texts)


_COMMIT_KEY = bytes.fromhex("0001000762696c6c696e6700066f726465727300000002")
_CAFE_KEY = bytes.fromhex("0001000963") + b"af\xc3\xa9-\xe2\x98\x95" + bytes.fromhex("000573746f636b00000000")
_VALUE_VERSION_3 = bytes.fromhex("0003000000000000002affffffff000674696c6c20320000019500000000")
_VALUE_VERSION_1 = bytes.fromhex("00010000000000000010000674696c6c20310000019500000000ffffffffffffffff")

_READ_COMPACT_SOLUTION = """\
def read_compact(data, position):
    number = 0
    shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if number == 0:
        return None, position
    return data[position:position + number - 1].decode(), position + number - 1"""

_READ_STRING_SOLUTION = """\
def read_string(data, position):
    length = int.from_bytes(data[position:position + 2], "big", signed=True)
    position += 2
    if length < 0:
        return None, position
    return data[position:position + length].decode(), position + length"""

_DECODE_COMMIT_SOLUTION = """\
def decode_commit(key, value):
    group, position = read_string(key, 2)          # after the record type
    topic, position = read_string(key, position)
    partition = int.from_bytes(key[position:position + 4], "big", signed=True)
    if value is None:
        return group, topic, partition, None
    return group, topic, partition, int.from_bytes(value[2:10], "big", signed=True)"""

EXERCISES = (
    Exercise(
        name="read_string",
        correct=_read_string,
        solution=_READ_STRING_SOLUTION,
        hints=(
            'Two bytes of length come first: int.from_bytes(…, "big", signed=True).',
            "A negative length means null: return None and the position after the length.",
            "Otherwise the next `length` bytes are the text. Return the text and the position after the text.",
        ),
        cases=(
            (_make_string_data("0007", "billing", "rest"), 0),
            (_COMMIT_KEY, 2),
            (_COMMIT_KEY, 11),
            (_CAFE_KEY, 2),
            (_make_string_data("0000", "x"), 0),
            (_make_string_data("ffff", "x"), 0),
        ),
        known_mistakes={
            "the length is signed: ffff is -1, which means null": _read_unsigned_length,
            "the position after the text must include the two bytes of the length": _forget_length_bytes,
            "Kafka's numbers are big-endian: the high byte comes first": _read_little_endian,
            "null and the empty text are different: return None for a negative length": _read_null_as_empty,
        },
    ),
    Exercise(
        name="decode_commit",
        correct=_decode_commit,
        solution=_DECODE_COMMIT_SOLUTION,
        hints=(
            "The key: 2 bytes of record type, then group and topic (use read_string), then 4 bytes of partition.",
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
    # Exercise `on_paper`: which offset do the bytes of a commit's value contain?
    Exercise(
        name="on_paper",
        correct=50,
        solution="on_paper = 0x32    # = 50",
        hints=("The first two bytes are the version. The next eight bytes are the offset.", "0x32 is 3 * 16 + 2."),
        known_mistakes={
            "0x32 is a hex number; its value is 3 * 16 + 2": 32,
            "3 is the version; the offset comes after the version": 3,
        },
    ),
    Exercise(
        name="read_compact",
        correct=_read_compact,
        solution=_READ_COMPACT_SOLUTION,
        hints=(
            "First read the varint: for each byte, add (byte & 0x7f) << shift, and increase shift by 7. The last byte "
            "is below 0x80.",
            "The varint is the length plus one. If the varint is 0, return None and the position after the varint.",
        ),
        cases=(
            (bytes.fromhex("066372c3a86d"), 0),
            (bytes.fromhex("ffff0a") + b"billing-0" + b"rest", 2),
            (b"\x01x", 0),
            (b"\x00x", 0),
            (b"\xac\x02" + b"a" * 299 + b"rest", 0),
        ),
        known_mistakes={
            "the varint is the length plus one": _forget_minus_one,
            "if a byte of the varint is 0x80 or more, another byte follows": _read_length_as_one_byte,
            "the first byte of a varint contains the lowest seven bits": _read_high_bits_first,
            "the varint 0 means null, and the varint 1 means the empty text": _read_compact_null_as_empty,
        },
    ),
)
