"""Three loaders as a Python user would write them: with struct, with kafka-python, and with aiokafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct

from benchmarks.topics import Topic
from benchmarks.ways.decoding import (
    apply_record,
    decode_group_value,
    decode_offset_key,
    decode_offset_value,
    read_string,
)

HEADER = Struct(
    ">qiibIhiqqqhii"
)  # The header of a batch: base offset, length, leader epoch, magic, crc, attributes, …, count


@contextmanager
def naive(topic: Topic) -> Iterator[tuple[Callable, Callable]]:
    """The way `naive`: struct and dictionaries."""
    from crc32c import crc32c

    def load() -> tuple[dict, dict]:
        state: tuple[dict, dict] = {}, {}
        for path in topic.segments():
            data = path.read_bytes()
            view = memoryview(data)
            at = 0
            while at + HEADER.size <= len(data):
                header = HEADER.unpack_from(data, at)
                end = at + 12 + header[1]
                if crc32c(view[at + 21 : end]) != header[4]:
                    raise ValueError(f"{path}: wrong checksum at byte {at}")
                if not header[5] & 0x20:  # Control batches contain transaction markers.
                    read_records(data, at + HEADER.size, header[12], state)
                at = end
        return state

    yield load, lambda state: len(state[0])


def read_records(data: bytes, at: int, count: int, state: tuple[dict, dict]) -> None:
    for _ in range(count):
        _, at = read_varint(data, at)  # The record's size.
        _, at = read_varint(data, at + 1)  # The timestamp, after the attributes.
        _, at = read_varint(data, at)  # The offset delta.
        size, at = read_varint(data, at)
        key = data[at : at + size]
        size, at = read_varint(data, at + size)
        value = None
        if size >= 0:
            value = data[at : at + size]
            at += size
        headers, at = read_varint(data, at)
        if headers:
            raise ValueError("records with headers are not supported")
        apply_record(state, key, value)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    if value < 0x80:
        return (value >> 1) ^ -(value & 1), at + 1
    value &= 0x7F
    shift = 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7


@contextmanager
def kafka_python(topic: Topic) -> Iterator[tuple[Callable, Callable]]:
    from kafka.record import MemoryRecords

    def load() -> tuple[dict, dict]:
        state: tuple[dict, dict] = {}, {}
        for path in topic.segments():
            for batch in MemoryRecords(path.read_bytes()):
                if not batch.validate_crc():
                    raise ValueError(f"{path}: wrong checksum at offset {batch.base_offset}")
                if not batch.is_control_batch:
                    for record in batch:
                        apply_record(state, record.key, record.value)
        return state

    yield load, lambda state: len(state[0])


@contextmanager
def aiokafka(topic: Topic) -> Iterator[tuple[Callable, Callable]]:
    from aiokafka.record.memory_records import MemoryRecords, _MemoryRecordsPy

    if MemoryRecords is _MemoryRecordsPy:
        raise ImportError("aiokafka runs without its C extension")

    def load() -> tuple[dict, dict]:
        last: dict[bytes, bytes | None] = {}
        for path in topic.segments():
            records = MemoryRecords(path.read_bytes())
            while records.has_next():
                batch = records.next_batch()
                if not batch.validate_crc():
                    raise ValueError(f"{path}: wrong checksum at offset {batch.base_offset}")
                if not batch.is_control_batch:
                    for record in batch:
                        last[record.key] = record.value
        offsets = {}
        groups = {}
        for key, value in last.items():
            if value is None:
                continue
            if key[1] <= 1:
                offsets[decode_offset_key(key)] = decode_offset_value(value)
            elif key[1] == 2:
                group, _ = read_string(key, 2)
                groups[group] = decode_group_value(value)
        return offsets, groups

    yield load, lambda state: len(state[0])
