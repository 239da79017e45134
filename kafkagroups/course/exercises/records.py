"""The exercises of lessons 00 and 01: the next record, texts, commits, groups."""

from __future__ import annotations

from typing import Any

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.log.partitioning import partition_for
from kafkagroups.records.fields import NEWEST
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import decode
from kafkagroups.records.varint import read_uvarint
from kafkagroups.records.wire import STRING, At

_string = STRING.reader(At(0, False, NEWEST), True)
_compact = STRING.reader(At(0, True, NEWEST), True)


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


def _read_compact(data: bytes, position: int) -> Any:
    return _compact(data, position)


def _not_minus_one(data: bytes, position: int) -> Any:
    length, position = read_uvarint(data, position)
    return (
        (data[position : position + length].decode(errors="replace"), position + length) if length else (None, position)
    )


def _one_byte_only(data: bytes, position: int) -> Any:
    length = data[position] - 1
    end = position + 1 + max(length, 0)
    return (None if length < 0 else data[position + 1 : end].decode(errors="replace")), end


def _high_bits_first(data: bytes, position: int) -> Any:
    number = 0
    while True:
        byte, position = data[position], position + 1
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            break
    if not number:
        return None, position
    return data[position : position + number - 1].decode(errors="replace"), position + number - 1


def _null_is_empty(data: bytes, position: int) -> Any:
    text, end = _compact(data, position)
    return text or "", end


READ_COMPACT = """\
def read_compact(data, position):
    number = shift = 0
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

EXERCISES = (
    Exercise(
        "next_record",
        17,
        "next_record = 17",
        ("Kafka stores the place of the *next* record to read.",),
        known_mistakes={
            "16 is the last record that was read; a committed offset is the next one": 16,
            "18 would leave record 17 unread": 18,
        },
    ),
    Exercise(
        "home_of_promo",
        37,
        'home_of_promo = kg.partition_for("promo")',
        ('kg.partition_for("billing") gave 9. Ask the same for "promo".',),
        known_mistakes={
            "that is where billing lives": 9,
            "the group's name is promo, in small letters": partition_for("Promo"),
        },
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
        known_mistakes={
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
        known_mistakes={
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
        known_mistakes={
            "32 are its hex digits; as a number they are 3 * 16 + 2": 32,
            "that is the version; the offset comes after it": 3,
        },
    ),
    Exercise(
        "read_compact",
        _read_compact,
        READ_COMPACT,
        (
            "First the varint: add (byte & 0x7f) << shift, shift 7 more for each byte, until one is below 0x80.",
            "The varint is the length plus one; 0 means null: return None and the position after it.",
        ),
        cases=(
            (bytes.fromhex("066372c3a86d"), 0),
            (bytes.fromhex("ffff0a") + b"billing-0" + b"rest", 2),
            (b"\x01x", 0),
            (b"\x00x", 0),
            (b"\xac\x02" + b"a" * 299 + b"rest", 0),
        ),
        known_mistakes={
            "the varint is the length plus one": _not_minus_one,
            "a byte of 0x80 and more says that another one follows": _one_byte_only,
            "a varint has its low seven bits first": _high_bits_first,
            "0 says null, and 1 the empty text": _null_is_empty,
        },
    ),
)
