"""A record as a user would decode it by hand, with struct."""

from __future__ import annotations

from struct import Struct

SHORT, INT = Struct(">h"), Struct(">i")
OFFSET_OF = {0: Struct(">q"), 1: Struct(">q"), 2: Struct(">q"), 3: Struct(">qi")}
TIMES_OF = {0: Struct(">q"), 1: Struct(">qq"), 2: Struct(">q"), 3: Struct(">q")}


def text(data: bytes, at: int) -> tuple[str | None, int]:
    (size,) = SHORT.unpack_from(data, at)
    if size < 0:
        return None, at + 2
    return data[at + 2 : at + 2 + size].decode(), at + 2 + size


def sized(data: bytes, at: int) -> tuple[bytes, int]:
    (size,) = INT.unpack_from(data, at)
    return data[at + 4 : at + 4 + size], at + 4 + size


def offset_key(key: bytes) -> tuple[str | None, str | None, int]:
    group, at = text(key, 2)
    topic, at = text(key, at)
    return group, topic, INT.unpack_from(key, at)[0]


def offset_value(value: bytes) -> tuple:
    """Versions 0 to 3: offset (3: and leader epoch), metadata, commit time (1: and expire time)."""
    (version,) = SHORT.unpack_from(value)
    first = OFFSET_OF[version]
    metadata, at = text(value, 2 + first.size)
    return (*first.unpack_from(value, 2), metadata, *TIMES_OF[version].unpack_from(value, at))


def group_value(value: bytes) -> tuple:
    """Versions 0 to 3: protocol type, generation, protocol, leader, (2:) time, members."""
    (version,) = SHORT.unpack_from(value)
    protocol_type, at = text(value, 2)
    (generation,) = INT.unpack_from(value, at)
    protocol, at = text(value, at + 4)
    leader, at = text(value, at)
    at += 8 if version >= 2 else 0
    (count,) = INT.unpack_from(value, at)
    at += 4
    members = []
    for _ in range(count):
        member, at = text(value, at)
        instance, at = text(value, at) if version >= 3 else (None, at)
        client, at = text(value, at)
        host, at = text(value, at)
        at += 4 if version == 0 else 8
        subscription, at = sized(value, at)
        assignment, at = sized(value, at)
        members.append((member, instance, client, host, subscription, assignment))
    return protocol_type, generation, protocol, leader, members


def put(state: tuple[dict, dict], key: bytes, value: bytes | None) -> None:
    """What a record does to (offsets, groups); other types than 0, 1 and 2 do nothing."""
    (kind,) = SHORT.unpack_from(key)
    if kind <= 1:
        name = offset_key(key)
        if value is None:
            state[0].pop(name, None)
        else:
            state[0][name] = offset_value(value)
    elif kind == 2:
        group, _ = text(key, 2)
        if value is None:
            state[1].pop(group, None)
        else:
            state[1][group] = group_value(value)
