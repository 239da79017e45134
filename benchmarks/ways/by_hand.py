"""A loader as a Python user would write it, with struct and dictionaries. It ignores transactions."""

from __future__ import annotations

from pathlib import Path
from struct import Struct

from benchmarks.measure import Runs, time_calls
from benchmarks.topics import Topic

HEADER = Struct(">qiibIhiqqqhii")
"""The header of a batch: base offset, length, leader epoch, magic, CRC, attributes, …, record count."""
SHORT = Struct(">h")
INT = Struct(">i")
OFFSET_OF = {0: Struct(">q"), 1: Struct(">q"), 2: Struct(">q"), 3: Struct(">qi")}
TIMES_OF = {0: Struct(">q"), 1: Struct(">qq"), 2: Struct(">q"), 3: Struct(">q")}


def load(topic: Topic, scratch: Path) -> Runs:
    from crc32c import crc32c

    def read_segments() -> tuple[dict, dict]:
        state: tuple[dict, dict] = {}, {}
        for path in topic.list_segments():
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

    return time_calls(read_segments, lambda state: ("live", len(state[0])))


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


def read_string(data: bytes, at: int) -> tuple[str | None, int]:
    (size,) = SHORT.unpack_from(data, at)
    if size < 0:
        return None, at + 2
    return data[at + 2 : at + 2 + size].decode(), at + 2 + size


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    (size,) = INT.unpack_from(data, at)
    return data[at + 4 : at + 4 + size], at + 4 + size


def decode_offset_key(key: bytes) -> tuple[str | None, str | None, int]:
    group, at = read_string(key, 2)
    topic, at = read_string(key, at)
    return group, topic, INT.unpack_from(key, at)[0]


def decode_offset_value(value: bytes) -> tuple:
    """Return offset, (version 3: leader epoch,) metadata, commit time and (version 1:) expire time."""
    (version,) = SHORT.unpack_from(value)
    first = OFFSET_OF[version]
    metadata, at = read_string(value, 2 + first.size)
    return (*first.unpack_from(value, 2), metadata, *TIMES_OF[version].unpack_from(value, at))


def decode_group_value(value: bytes) -> tuple:
    """Return protocol type, generation, protocol, leader and members of a value of version 0 to 3."""
    (version,) = SHORT.unpack_from(value)
    protocol_type, at = read_string(value, 2)
    (generation,) = INT.unpack_from(value, at)
    protocol, at = read_string(value, at + 4)
    leader, at = read_string(value, at)
    at += 8 if version >= 2 else 0
    (count,) = INT.unpack_from(value, at)
    at += 4
    members = []
    for _ in range(count):
        member, at = read_string(value, at)
        instance, at = read_string(value, at) if version >= 3 else (None, at)
        client, at = read_string(value, at)
        host, at = read_string(value, at)
        at += 4 if version == 0 else 8
        subscription, at = read_bytes(value, at)
        assignment, at = read_bytes(value, at)
        members.append((member, instance, client, host, subscription, assignment))
    return protocol_type, generation, protocol, leader, members


def apply_record(state: tuple[dict, dict], key: bytes, value: bytes | None) -> None:
    """Apply a record to (offsets, groups). Types other than 0, 1 and 2 change nothing."""
    (kind,) = SHORT.unpack_from(key)
    if kind <= 1:
        name = decode_offset_key(key)
        if value is None:
            state[0].pop(name, None)
        else:
            state[0][name] = decode_offset_value(value)
    elif kind == 2:
        group, _ = read_string(key, 2)
        if value is None:
            state[1].pop(group, None)
        else:
            state[1][group] = decode_group_value(value)
