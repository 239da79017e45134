"""Functions of bytes and texts that the learner writes in the lessons 01, 02 and 03: the answers and mistakes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkagroups.course.exercises.exercise import ExerciseFunction
from kafkagroups.course.log_lines import read_string
from kafkagroups.log.batch import read_varint
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import decode
from kafkagroups.records.wire import java_hash

# Lesson 01: `decode_commit`.


def _decode_commit(key: bytes, value: bytes | None) -> Any:
    record = decode(key, value)
    assert isinstance(record.key, OffsetCommitKey)
    offset = record.value.offset if isinstance(record.value, OffsetCommitValue) else None
    return record.key.group, record.key.topic, record.key.partition, offset


def _decode_commit_wrongly(mistake: str, key: bytes, value: bytes | None) -> Any:
    group, topic, partition, offset = _decode_commit(key, value)
    if mistake == "forgets the record type":
        group, position = read_string(key, 0)
        topic, position = read_string(key, position)
        partition = int.from_bytes(key[position : position + 4], "big", signed=True)
    elif mistake == "reads the partition as int16":
        partition = int.from_bytes(key[-4:-2], "big", signed=True)
    elif mistake == "reads a tombstone as 0":
        offset = offset or 0
    elif value is not None:
        start, end = {"reads the offset as int32": (2, 6), "forgets the version": (0, 8)}[mistake]
        offset = int.from_bytes(value[start:end], "big", signed=True)
    return group, topic, partition, offset


# Lesson 02: `hash_of`.


def _hash_units(units: Iterable[int]) -> int:
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def forget_overflow(text: str) -> int:
    value = 0
    for character in text:
        value = 31 * value + ord(character)
    return value


def forget_sign(text: str) -> int:
    return java_hash(text) & 0xFFFFFFFF


def hash_characters(text: str) -> int:
    return _hash_units(map(ord, text))


def hash_utf8_bytes(text: str) -> int:
    return _hash_units(text.encode())


# Lesson 03: `read_varint`.


def forget_zigzag(data: bytes, position: int) -> Any:
    value, end = read_varint(data, position)
    zigzag_value = value * 2 if value >= 0 else -2 * value - 1
    return zigzag_value, end


def read_high_bits_first(data: bytes, position: int) -> Any:
    zigzag_value = 0
    for index in range(position, len(data)):
        zigzag_value = zigzag_value << 7 | data[index] & 0x7F
        is_last_byte = data[index] < 0x80
        if is_last_byte:
            value = zigzag_value // 2 if zigzag_value % 2 == 0 else -(zigzag_value + 1) // 2
            return value, index + 1
    return None, len(data)


def return_byte_count(data: bytes, position: int) -> Any:
    value, end = read_varint(data, position)
    return value, end - position if position > 0 else 1


FUNCTIONS = {
    "decode_commit": ExerciseFunction(_decode_commit, _decode_commit_wrongly),
    "hash_of": ExerciseFunction(java_hash),
    "read_varint": ExerciseFunction(read_varint),
}
