"""The cost of the declared codec, compared with hand-written struct code that builds the same dataclasses.

Run `.venv/bin/python benchmarks/codec_speed.py`. It decodes and encodes the same captured records in both ways, in
turn, and prints the ratio of the medians. The goal is a ratio of at most 2.5. Compare ratios, not times.
"""

from __future__ import annotations

import statistics
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import kafkagroups as kg
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.text import encode_utf8
from kafkagroups.records.wire import UUID
from tests.captured import rows

ROUNDS = 15
SHORT = struct.Struct(">h")
INT = struct.Struct(">i")
LONG = struct.Struct(">q")
OFFSET_AND_EPOCH = struct.Struct(">qi")
Pair = tuple[bytes, bytes]


def read_string(data: bytes, at: int, nullable: bool = False) -> tuple[str | None, int]:
    (length,) = SHORT.unpack_from(data, at)
    at += 2
    if length < 0:
        if nullable:
            return None, at
        raise kg.InvalidRecord("null")
    end = at + length
    if end > len(data):
        raise kg.InvalidRecord("too long")
    return data[at:end].decode("utf-8", "kafkagroups.java"), end


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    (length,) = INT.unpack_from(data, at)
    at += 4
    end = at + length
    if length < 0 or end > len(data):
        raise kg.InvalidRecord("too long")
    return data[at:end], end


def decode_by_hand(key: bytes, value: bytes) -> kg.Record:
    """Decode offset and group values of version 3."""
    try:
        (kind,) = SHORT.unpack_from(key, 0)
        (version,) = SHORT.unpack_from(value, 0)
        if version != 3:
            raise kg.InvalidRecord("version")
        group, at = read_string(key, 2)
        if kind == 1:
            topic, at = read_string(key, at)
            (partition,) = INT.unpack_from(key, at)
            offset, epoch = OFFSET_AND_EPOCH.unpack_from(value, 2)
            metadata, at = read_string(value, 14)
            (committed,) = LONG.unpack_from(value, at)
            body = OffsetCommitValue(offset, epoch, metadata, committed, -1, UUID.default)
            return kg.Record(1, OffsetCommitKey(group, topic, partition), body, 3)
        protocol_type, at = read_string(value, 2)
        (generation,) = INT.unpack_from(value, at)
        protocol, at = read_string(value, at + 4, True)
        leader, at = read_string(value, at, True)
        (since,) = LONG.unpack_from(value, at)
        (count,) = INT.unpack_from(value, at + 8)
        at += 12
        if not 0 <= count <= len(value) - at:
            raise kg.InvalidRecord("count")
        members = []
        for _ in range(count):
            member_id, at = read_string(value, at)
            instance, at = read_string(value, at, True)
            client, at = read_string(value, at)
            host, at = read_string(value, at)
            (rebalance,) = INT.unpack_from(value, at)
            (session,) = INT.unpack_from(value, at + 4)
            subscription, at = read_bytes(value, at + 8)
            assignment, at = read_bytes(value, at)
            members.append(
                MemberMetadata(member_id, instance, client, host, rebalance, session, subscription, assignment)
            )
        body = GroupMetadataValue(protocol_type, generation, protocol, leader, since, tuple(members))
        return kg.Record(2, GroupMetadataKey(group), body, 3)
    except struct.error:
        raise kg.InvalidRecord("the end") from None


def write_string(out: bytearray, value: str | None, nullable: bool = False) -> None:
    if value is None and nullable:
        out += SHORT.pack(-1)
        return
    if not isinstance(value, str):
        raise kg.UsageError("no string")
    try:
        data = value.encode()
    except UnicodeEncodeError:
        data = encode_utf8(value)
    if len(data) > 0x7FFF:
        raise kg.UsageError("too long")
    out += SHORT.pack(len(data))
    out += data


def encode_by_hand(record: kg.Record) -> Pair:
    try:
        return _encode_by_hand(record)
    except struct.error:
        raise kg.UsageError("out of range") from None


def _encode_by_hand(record: kg.Record) -> Pair:
    if record.type not in (1, 2) or record.value_version != 3:
        raise kg.UsageError("another type or version")
    key = bytearray(SHORT.pack(record.type))
    value = bytearray(SHORT.pack(3))
    body = record.value
    if not isinstance(record.key, OffsetCommitKey | GroupMetadataKey):
        raise kg.UsageError("another key")
    if not isinstance(body, OffsetCommitValue | GroupMetadataValue) or body.unknown_tagged_fields:
        raise kg.UsageError("another value")
    write_string(key, record.key.group)
    if record.type == 1:
        write_string(key, record.key.topic)
        key += INT.pack(record.key.partition)
        value += OFFSET_AND_EPOCH.pack(body.offset, body.leader_epoch)
        write_string(value, body.metadata)
        value += LONG.pack(body.commit_timestamp)
        return bytes(key), bytes(value)
    write_string(value, body.protocol_type)
    value += INT.pack(body.generation)
    write_string(value, body.protocol, True)
    write_string(value, body.leader, True)
    value += LONG.pack(body.current_state_timestamp)
    value += INT.pack(len(body.members))
    for member in body.members:
        if not isinstance(member, MemberMetadata) or member.unknown_tagged_fields:
            raise kg.UsageError("no member")
        write_string(value, member.member_id)
        write_string(value, member.group_instance_id, True)
        write_string(value, member.client_id)
        write_string(value, member.client_host)
        value += INT.pack(member.rebalance_timeout)
        value += INT.pack(member.session_timeout)
        for data in (member.subscription, member.assignment):
            if not isinstance(data, bytes):
                raise kg.UsageError("no bytes")
            value += INT.pack(len(data))
            value += data
    return bytes(key), bytes(value)


def measure(ours: Callable[..., object], by_hand: Callable[..., object], inputs: list[tuple]) -> tuple[float, float]:
    """Return the median time per record in µs of both functions, measured in turn."""
    times: dict[Callable[..., object], list[float]] = {ours: [], by_hand: []}
    repeat = max(1, 4000 // len(inputs))
    for _ in range(ROUNDS):
        for function in (ours, by_hand):
            begin = time.perf_counter()
            for _ in range(repeat):
                for arguments in inputs:
                    function(*arguments)
            times[function].append((time.perf_counter() - begin) / repeat / len(inputs) * 1e6)
    return statistics.median(times[ours]), statistics.median(times[by_hand])


def main() -> None:
    print(f"{'':34}{'declared':>10}{'by hand':>10}{'ratio':>8}")
    for name in ("01_OffsetCommit_v3", "02_GroupMetadata_v3"):
        vectors = [row for row in rows("vectors", f"vectors/{name}.jsonl") if len(row["value_hex"]) < 2000]
        pairs = [(bytes.fromhex(row["key_hex"]), bytes.fromhex(row["value_hex"])) for row in vectors]
        records = [(kg.decode(*pair),) for pair in pairs]
        assert records == [(decode_by_hand(*pair),) for pair in pairs]
        assert [encode_by_hand(*record) for record in records] == pairs
        for verb, ours, by_hand, inputs in (
            ("decode", kg.decode, decode_by_hand, pairs),
            ("encode", kg.encode, encode_by_hand, records),
        ):
            our_time, hand_time = measure(ours, by_hand, inputs)
            print(f"{verb} {name:<27}{our_time:>7.2f} µs{hand_time:>7.2f} µs{our_time / hand_time:>8.2f}")


if __name__ == "__main__":
    main()
