"""One batch of each kind, encoded as a coordinator writes it, and the places in it that differ from batch to batch.

A template is made with numbers and names that stand nowhere else in it, so its places are found by looking for them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from kafkagroups.log.batch import CONTROL, NO_PRODUCER_ID, TRANSACTIONAL, LogRecord
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.records import consumer_group as modern
from kafkagroups.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    Embedded,
    TopicPartitions,
    encode_embedded,
)
from kafkagroups.records.control import ControlType, encode_control_key, encode_end_transaction_marker
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode
from kafkagroups.records.text import uuid_text
from kafkagroups.synth.names import GROUP, TOPIC, Array
from kafkagroups.synth.requests import ABORTED, COMMITTED, EMPTY, GENERATION, MODERN, NOTED, TOMBSTONES, TXN
from kafkagroups.synth.settings import TOPIC_PARTITIONS, Settings

_BASE, _TIME, _PRODUCER, _OFFSET = 0x71A5_0000_0000_0001, 0x72A5_0000_0000_0002, 0x73A5_0000_0000_0003, 0x74A5 << 48
_GENERATION, _PARTITION = 0x75A5_0001, 0x76A5_0000
_UUID = "5e0f3b9a-7c41-4d2e-9b8a-facade"
"""Of members; a group's six digits are its end."""


class Place(NamedTuple):
    """Where a value of `column` stands; `slot` is which one, where a batch has several."""

    column: str
    slot: int
    at: int
    dtype: str


class Template(NamedTuple):
    data: Array
    records: int
    places: tuple[Place, ...]


@lru_cache(256)
def template(what: int, width: int, settings: Settings) -> Template:
    """A batch of that kind; `width` counts the records of a batch of offsets."""
    attributes, producer, epoch, sequence = 0, NO_PRODUCER_ID, -1, -1
    if what in (COMMITTED, ABORTED):
        attributes, producer, epoch = TRANSACTIONAL | CONTROL, _PRODUCER, 0
        kind = ControlType.COMMIT if what == COMMITTED else ControlType.ABORT
        pairs: list[tuple[bytes, bytes | None]] = [(encode_control_key(kind), encode_end_transaction_marker(0))]
    else:
        if what < TOMBSTONES and what & TXN:
            attributes, producer, epoch, sequence = TRANSACTIONAL, _PRODUCER, 0, 0
        pairs = [encode(record) for record in _records(what, width, settings)]
    records = [LogRecord(_BASE + number, _TIME, key, value) for number, (key, value) in enumerate(pairs)]
    data = encode_batch(
        records, attributes=attributes, producer_id=producer, producer_epoch=epoch, base_sequence=sequence
    )
    return Template(np.frombuffer(data, "u1"), len(records), tuple(_places(data, width, settings)))


def _records(what: int, width: int, settings: Settings) -> list[Record]:
    group = settings.prefix + GROUP + "000000"
    if what == MODERN:
        return _epoch(group, settings)
    if what in (GENERATION, EMPTY):
        return [Record(2, GroupMetadataKey(group), _generation(what, settings), 3)]
    value = None
    records = []
    for lane in range(width):
        if what != TOMBSTONES:
            note = f"committed by {group}" if what & NOTED else ""
            value = OffsetCommitValue(_OFFSET + lane, 0, note, _TIME)
        key = OffsetCommitKey(group, _topic(lane, settings), _PARTITION + lane)
        records.append(Record(1, key, value, None if value is None else 3))
    return records


def _topic(slot: int, settings: Settings) -> str:
    return f"{settings.prefix}{TOPIC}{slot:04}"


def _shares(settings: Settings, member: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The topics by slot and those of their partitions that a member has."""
    for slot, first in enumerate(range(0, settings.keys, TOPIC_PARTITIONS)):
        many = min(TOPIC_PARTITIONS, settings.keys - first)
        yield slot, tuple(range(member, many, settings.members))


def _generation(what: int, settings: Settings) -> GroupMetadataValue:
    if what == EMPTY:
        return GroupMetadataValue("consumer", _GENERATION, None, None, _TIME, ())
    members = []
    for number in range(settings.members):
        shares = [(_topic(slot, settings), mine) for slot, mine in _shares(settings, number)]
        subscription = ConsumerProtocolSubscription(tuple(topic for topic, _ in shares), None, (), -1, None)
        assigned = tuple(TopicPartitions(topic, mine) for topic, mine in shares if mine)
        members.append(
            MemberMetadata(
                f"consumer-{number}-{_UUID}000000",
                None,
                f"consumer-{number}",
                "/127.0.0.1",
                300_000,
                1_800_000,
                encode_embedded(Embedded(3, subscription)),
                encode_embedded(Embedded(3, ConsumerProtocolAssignment(assigned, None))),
            )
        )
    return GroupMetadataValue("consumer", _GENERATION, "range", members[0].member_id, _TIME, tuple(members))


def _epoch(group: str, settings: Settings) -> list[Record]:
    """A new epoch of a consumer group, all of whose members say something new and are where they should be."""
    topics = tuple(_topic(slot, settings) for slot, _ in _shares(settings, 0))
    members, targets, assignments = [], [], []
    for number in range(settings.members):
        member = f"consumer-{number}-{_UUID}000000"
        mine = [(_topic_id(slot), parts) for slot, parts in _shares(settings, number) if parts]
        about = modern.ConsumerGroupMemberMetadataValue(
            None, None, f"consumer-{number}", "/127.0.0.1", topics, "", 300_000, None, None
        )
        target = modern.ConsumerGroupTargetAssignmentMemberValue(
            tuple(modern.TopicPartition(topic, parts) for topic, parts in mine)
        )
        assignment = modern.ConsumerGroupCurrentMemberAssignmentValue(
            _GENERATION, _GENERATION, 0, tuple(modern.TopicPartitions(topic, parts, None) for topic, parts in mine), ()
        )
        members.append(Record(5, modern.ConsumerGroupMemberMetadataKey(group, member), about, 0))
        targets.append(Record(7, modern.ConsumerGroupTargetAssignmentMemberKey(group, member), target, 0))
        assignments.append(Record(8, modern.ConsumerGroupCurrentMemberAssignmentKey(group, member), assignment, 0))
    changed = Record(3, modern.ConsumerGroupMetadataKey(group), modern.ConsumerGroupMetadataValue(_GENERATION), 0)
    computed = modern.ConsumerGroupTargetAssignmentMetadataValue(_GENERATION, _TIME)
    key = modern.ConsumerGroupTargetAssignmentMetadataKey(group)
    return [*members, changed, *targets, Record(6, key, computed, 0), *assignments]


def _topic_id(slot: int) -> str:
    return uuid_text(f"id-of-topic-{slot:04}".encode())


def _places(data: bytes, width: int, settings: Settings) -> Iterator[Place]:
    slots = max(width, -(-settings.keys // TOPIC_PARTITIONS))
    sought = [
        ("base_offset", 0, struct.pack(">q", _BASE), ">i8"),
        ("time", 0, struct.pack(">q", _TIME), ">i8"),
        ("producer", 0, struct.pack(">q", _PRODUCER), ">i8"),
        ("generation", 0, struct.pack(">i", _GENERATION), ">i4"),
        ("group", 0, f"{settings.prefix}{GROUP}000000".encode(), "S6"),
        ("group", 0, f"{_UUID}000000".encode(), "S6"),
    ]
    for slot in range(slots):
        sought += [
            ("topic", slot, _topic(slot, settings).encode(), "S4"),
            ("topic", slot, f"id-of-topic-{slot:04}".encode(), "S4"),
            ("partition", slot, struct.pack(">i", _PARTITION + slot), ">i4"),
            ("offset", slot, struct.pack(">q", _OFFSET + slot), ">i8"),
        ]
    for column, slot, text, dtype in sought:
        for found in re.finditer(re.escape(text), data):
            yield Place(column, slot, found.end() - int(dtype[2:] if dtype[0] == ">" else dtype[1:]), dtype)
