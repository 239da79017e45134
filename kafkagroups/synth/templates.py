"""Templates: one batch of each kind as a coordinator writes it, and the places that differ from batch to batch.

A template contains numbers and names that occur nowhere else in it. So a search finds its places.
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
from kafkagroups.records import consumer_group
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

_BASE = 0x71A5_0000_0000_0001
_TIME = 0x72A5_0000_0000_0002
_PRODUCER = 0x73A5_0000_0000_0003
_OFFSET = 0x74A5 << 48
_GENERATION = 0x75A5_0001
_PARTITION = 0x76A5_0000
_UUID = "5e0f3b9a-7c41-4d2e-9b8a-facade"
"""The start of the UUIDs in member ids; the six digits of the group follow."""


class Place(NamedTuple):
    """Where a value of a column is in the bytes. `slot` is its number if a batch has several of them."""

    column: str
    slot: int
    at: int
    dtype: str


class Template(NamedTuple):
    """The bytes of a batch, the number of its records, and its places."""

    data: Array
    records: int
    places: tuple[Place, ...]


@lru_cache(256)
def build_template(what: int, width: int, settings: Settings) -> Template:
    """Return the template of a kind of batch; `width` is the number of records in a batch of offsets."""
    attributes = 0
    producer = NO_PRODUCER_ID
    epoch = -1
    sequence = -1
    if what in (COMMITTED, ABORTED):
        attributes = TRANSACTIONAL | CONTROL
        producer = _PRODUCER
        epoch = 0
        kind = ControlType.COMMIT if what == COMMITTED else ControlType.ABORT
        pairs: list[tuple[bytes, bytes | None]] = [(encode_control_key(kind), encode_end_transaction_marker(0))]
    else:
        if what < TOMBSTONES and what & TXN:
            attributes = TRANSACTIONAL
            producer = _PRODUCER
            epoch = 0
            sequence = 0
        pairs = [encode(record) for record in _build_records(what, width, settings)]
    records = [LogRecord(_BASE + number, _TIME, key, value) for number, (key, value) in enumerate(pairs)]
    data = encode_batch(
        records, attributes=attributes, producer_id=producer, producer_epoch=epoch, base_sequence=sequence
    )
    return Template(np.frombuffer(data, "u1"), len(records), tuple(_find_places(data, width, settings)))


def _build_records(what: int, width: int, settings: Settings) -> list[Record]:
    group = settings.prefix + GROUP + "000000"
    if what == MODERN:
        return _build_epoch(group, settings)
    if what in (GENERATION, EMPTY):
        return [Record(2, GroupMetadataKey(group), _build_generation(what, settings), 3)]
    value = None
    records = []
    for lane in range(width):
        if what != TOMBSTONES:
            note = f"committed by {group}" if what & NOTED else ""
            value = OffsetCommitValue(_OFFSET + lane, 0, note, _TIME)
        key = OffsetCommitKey(group, _topic_name(lane, settings), _PARTITION + lane)
        records.append(Record(1, key, value, None if value is None else 3))
    return records


def _topic_name(slot: int, settings: Settings) -> str:
    return f"{settings.prefix}{TOPIC}{slot:04}"


def _assign_partitions(settings: Settings, member: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield each topic's slot and the partitions of this topic that are assigned to a member."""
    for slot, first in enumerate(range(0, settings.keys, TOPIC_PARTITIONS)):
        partition_count = min(TOPIC_PARTITIONS, settings.keys - first)
        yield slot, tuple(range(member, partition_count, settings.members))


def _build_generation(what: int, settings: Settings) -> GroupMetadataValue:
    if what == EMPTY:
        return GroupMetadataValue("consumer", _GENERATION, None, None, _TIME, ())
    members = []
    for number in range(settings.members):
        topics = [(_topic_name(slot, settings), own) for slot, own in _assign_partitions(settings, number)]
        subscription = ConsumerProtocolSubscription(tuple(topic for topic, _ in topics), None, (), -1, None)
        assigned = tuple(TopicPartitions(topic, own) for topic, own in topics if own)
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


def _build_epoch(group: str, settings: Settings) -> list[Record]:
    """Return the records of a new epoch: every member changes its subscription and reaches its target assignment."""
    topics = tuple(_topic_name(slot, settings) for slot, _ in _assign_partitions(settings, 0))
    members = []
    targets = []
    assignments = []
    for number in range(settings.members):
        member = f"consumer-{number}-{_UUID}000000"
        own = [(_topic_id(slot), parts) for slot, parts in _assign_partitions(settings, number) if parts]
        metadata = consumer_group.ConsumerGroupMemberMetadataValue(
            None, None, f"consumer-{number}", "/127.0.0.1", topics, "", 300_000, None, None
        )
        target = consumer_group.ConsumerGroupTargetAssignmentMemberValue(
            tuple(consumer_group.TopicPartition(topic, parts) for topic, parts in own)
        )
        assignment = consumer_group.ConsumerGroupCurrentMemberAssignmentValue(
            _GENERATION,
            _GENERATION,
            0,
            tuple(consumer_group.TopicPartitions(topic, parts, None) for topic, parts in own),
            (),
        )
        members.append(Record(5, consumer_group.ConsumerGroupMemberMetadataKey(group, member), metadata, 0))
        targets.append(Record(7, consumer_group.ConsumerGroupTargetAssignmentMemberKey(group, member), target, 0))
        assignments.append(
            Record(8, consumer_group.ConsumerGroupCurrentMemberAssignmentKey(group, member), assignment, 0)
        )
    changed = Record(
        3, consumer_group.ConsumerGroupMetadataKey(group), consumer_group.ConsumerGroupMetadataValue(_GENERATION), 0
    )
    computed = consumer_group.ConsumerGroupTargetAssignmentMetadataValue(_GENERATION, _TIME)
    key = consumer_group.ConsumerGroupTargetAssignmentMetadataKey(group)
    return [*members, changed, *targets, Record(6, key, computed, 0), *assignments]


def _topic_id(slot: int) -> str:
    return uuid_text(f"id-of-topic-{slot:04}".encode())


def _find_places(data: bytes, width: int, settings: Settings) -> Iterator[Place]:
    slots = max(width, -(-settings.keys // TOPIC_PARTITIONS))
    patterns = [
        ("base_offset", 0, struct.pack(">q", _BASE), ">i8"),
        ("time", 0, struct.pack(">q", _TIME), ">i8"),
        ("producer", 0, struct.pack(">q", _PRODUCER), ">i8"),
        ("generation", 0, struct.pack(">i", _GENERATION), ">i4"),
        ("group", 0, f"{settings.prefix}{GROUP}000000".encode(), "S6"),
        ("group", 0, f"{_UUID}000000".encode(), "S6"),
    ]
    for slot in range(slots):
        patterns += [
            ("topic", slot, _topic_name(slot, settings).encode(), "S4"),
            ("topic", slot, f"id-of-topic-{slot:04}".encode(), "S4"),
            ("partition", slot, struct.pack(">i", _PARTITION + slot), ">i4"),
            ("offset", slot, struct.pack(">q", _OFFSET + slot), ">i8"),
        ]
    for column, slot, text, dtype in patterns:
        for found in re.finditer(re.escape(text), data):
            yield Place(column, slot, found.end() - np.dtype(dtype).itemsize, dtype)
