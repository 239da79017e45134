"""Hand-written decoders for offset and group records, as a user would write them with struct."""

from __future__ import annotations

from struct import Struct

SHORT = Struct(">h")
INT = Struct(">i")
OFFSET_OF = {0: Struct(">q"), 1: Struct(">q"), 2: Struct(">q"), 3: Struct(">qi")}
TIMES_OF = {0: Struct(">q"), 1: Struct(">qq"), 2: Struct(">q"), 3: Struct(">q")}


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
