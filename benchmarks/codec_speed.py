"""How much the declared codec costs beside hand-written struct code that builds the same dataclasses.

Run: `.venv/bin/python benchmarks/codec_speed.py`. It decodes (and encodes) the same captured records both ways, in
turn, and prints the ratio of the medians; at most 2.5 is the aim. Times of one machine mean nothing, ratios do.
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
h, i, q = (struct.Struct(">" + code) for code in "hiq")
epoch_layout = struct.Struct(">qi")
Pair = tuple[bytes, bytes]


def string(data: bytes, at: int, nullable: bool = False) -> tuple[str | None, int]:
    (length,) = h.unpack_from(data, at)
    at += 2
    if length < 0:
        if nullable:
            return None, at
        raise kg.InvalidRecord("null")
    end = at + length
    if end > len(data):
        raise kg.InvalidRecord("too long")
    return data[at:end].decode("utf-8", "kafkagroups.java"), end


def blob(data: bytes, at: int) -> tuple[bytes, int]:
    (length,) = i.unpack_from(data, at)
    at += 4
    end = at + length
    if length < 0 or end > len(data):
        raise kg.InvalidRecord("too long")
    return data[at:end], end


def decode_by_hand(key: bytes, value: bytes) -> kg.Record:
    """Offset values of version 3 and group values of version 3, nothing else."""
    try:
        (kind,) = h.unpack_from(key, 0)
        (version,) = h.unpack_from(value, 0)
        if version != 3:
            raise kg.InvalidRecord("version")
        group, at = string(key, 2)
        if kind == 1:
            topic, at = string(key, at)
            (partition,) = i.unpack_from(key, at)
            offset, epoch = epoch_layout.unpack_from(value, 2)
            metadata, at = string(value, 14)
            (committed,) = q.unpack_from(value, at)
            body = OffsetCommitValue(offset, epoch, metadata, committed, -1, UUID.default)
            return kg.Record(1, OffsetCommitKey(group, topic, partition), body, 3)
        protocol_type, at = string(value, 2)
        (generation,) = i.unpack_from(value, at)
        protocol, at = string(value, at + 4, True)
        leader, at = string(value, at, True)
        (since,) = q.unpack_from(value, at)
        (count,) = i.unpack_from(value, at + 8)
        at += 12
        if not 0 <= count <= len(value) - at:
            raise kg.InvalidRecord("count")
        members = []
        for _ in range(count):
            member_id, at = string(value, at)
            instance, at = string(value, at, True)
            client, at = string(value, at)
            host, at = string(value, at)
            (rebalance,) = i.unpack_from(value, at)
            (session,) = i.unpack_from(value, at + 4)
            subscription, at = blob(value, at + 8)
            assignment, at = blob(value, at)
            members.append(
                MemberMetadata(member_id, instance, client, host, rebalance, session, subscription, assignment)
            )
        body = GroupMetadataValue(protocol_type, generation, protocol, leader, since, tuple(members))
        return kg.Record(2, GroupMetadataKey(group), body, 3)
    except struct.error:
        raise kg.InvalidRecord("the end") from None


def text(out: bytearray, value: str | None, nullable: bool = False) -> None:
    if value is None and nullable:
        out += h.pack(-1)
        return
    if not isinstance(value, str):
        raise kg.UsageError("no string")
    try:
        data = value.encode()
    except UnicodeEncodeError:
        data = encode_utf8(value)
    if len(data) > 0x7FFF:
        raise kg.UsageError("too long")
    out += h.pack(len(data))
    out += data


def encode_by_hand(record: kg.Record) -> Pair:
    try:
        return _encode_by_hand(record)
    except struct.error:
        raise kg.UsageError("out of range") from None


def _encode_by_hand(record: kg.Record) -> Pair:
    if record.type not in (1, 2) or record.value_version != 3:
        raise kg.UsageError("another type or version")
    key, value = bytearray(h.pack(record.type)), bytearray(h.pack(3))
    body = record.value
    if not isinstance(record.key, OffsetCommitKey | GroupMetadataKey):
        raise kg.UsageError("another key")
    if not isinstance(body, OffsetCommitValue | GroupMetadataValue) or body.unknown_tagged_fields:
        raise kg.UsageError("another value")
    text(key, record.key.group)
    if record.type == 1:
        text(key, record.key.topic)
        key += i.pack(record.key.partition)
        value += epoch_layout.pack(body.offset, body.leader_epoch)
        text(value, body.metadata)
        value += q.pack(body.commit_timestamp)
        return bytes(key), bytes(value)
    text(value, body.protocol_type)
    value += i.pack(body.generation)
    text(value, body.protocol, True)
    text(value, body.leader, True)
    value += q.pack(body.current_state_timestamp)
    value += i.pack(len(body.members))
    for member in body.members:
        if not isinstance(member, MemberMetadata) or member.unknown_tagged_fields:
            raise kg.UsageError("no member")
        text(value, member.member_id)
        text(value, member.group_instance_id, True)
        text(value, member.client_id)
        text(value, member.client_host)
        value += i.pack(member.rebalance_timeout)
        value += i.pack(member.session_timeout)
        for data in (member.subscription, member.assignment):
            if not isinstance(data, bytes):
                raise kg.UsageError("no bytes")
            value += i.pack(len(data))
            value += data
    return bytes(key), bytes(value)


def measure(ours: Callable[..., object], by_hand: Callable[..., object], inputs: list[tuple]) -> tuple[float, float]:
    """Median µs a record of both, measured in turn."""
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
            mine, hand = measure(ours, by_hand, inputs)
            print(f"{verb} {name:<27}{mine:>7.2f} µs{hand:>7.2f} µs{mine / hand:>8.2f}")


if __name__ == "__main__":
    main()
