"""Templates: a batch of each type as a coordinator writes it, with its variables.

A template contains placeholders for the variables: numbers and names that occur nowhere else in the template. So a
search finds the positions of the variables. The values of a variable come from a column of files.py, for example
"offset". A template can need several values of a column, such as several offsets. They are numbered: value n is slot n.
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
from kafkagroups.synth.requests import (
    ABORT_MARKER,
    COMMIT_MARKER,
    EMPTY_GENERATION,
    GENERATION,
    METADATA_BIT,
    NEW_EPOCH,
    TOMBSTONES,
    TXN_BIT,
)
from kafkagroups.synth.settings import TOPIC_PARTITIONS, Settings

# The placeholders in templates. For a column with several slots, the placeholder of slot n is the number below plus n.
_BASE_OFFSET = 0x71A5_0000_0000_0001
_TIME = 0x72A5_0000_0000_0002
_PRODUCER = 0x73A5_0000_0000_0003
_OFFSET = 0x74A5 << 48
_GENERATION = 0x75A5_0001
_PARTITION = 0x76A5_0000
_UUID = "5e0f3b9a-7c41-4d2e-9b8a-facade"
"""The first part of the UUIDs in member ids. The last part is the six digits in the group's name."""


class Variable(NamedTuple):
    """The position of a value in a template. The value comes from slot number `slot` of `column`.

    `dtype` is numpy's type of the value. The same value can be at several positions, each with its own Variable.
    """

    column: str
    slot: int
    position: int
    dtype: str


class Template(NamedTuple):
    """The bytes of a batch, and the positions of its variable values."""

    data: Array
    variables: tuple[Variable, ...]


@lru_cache(256)
def build_template(batch_type: int, width: int, settings: Settings) -> Template:
    """Return the template of a type of batch (requests.py). `width` is the number of records in a batch of offsets."""
    attributes = 0
    producer = NO_PRODUCER_ID
    epoch = -1
    sequence = -1
    if batch_type in (COMMIT_MARKER, ABORT_MARKER):
        attributes = TRANSACTIONAL | CONTROL
        producer = _PRODUCER
        epoch = 0
        marker_type = ControlType.COMMIT if batch_type == COMMIT_MARKER else ControlType.ABORT
        pairs: list[tuple[bytes, bytes | None]] = [(encode_control_key(marker_type), encode_end_transaction_marker(0))]
    else:
        if batch_type < TOMBSTONES and batch_type & TXN_BIT:
            attributes = TRANSACTIONAL
            producer = _PRODUCER
            epoch = 0
            sequence = 0
        pairs = [encode(record) for record in _build_records(batch_type, width, settings)]
    records = [LogRecord(_BASE_OFFSET + number, _TIME, key, value) for number, (key, value) in enumerate(pairs)]
    data = encode_batch(
        records, attributes=attributes, producer_id=producer, producer_epoch=epoch, base_sequence=sequence
    )
    return Template(np.frombuffer(data, "u1"), tuple(_find_variables(data, width, settings)))


def _build_records(batch_type: int, width: int, settings: Settings) -> list[Record]:
    group = settings.prefix + GROUP + "000000"
    if batch_type == NEW_EPOCH:
        return _build_epoch(group, settings)
    if batch_type in (GENERATION, EMPTY_GENERATION):
        return [Record(2, GroupMetadataKey(group), _build_generation(batch_type, settings), 3)]
    value = None
    records = []
    for slot in range(width):
        if batch_type != TOMBSTONES:
            metadata = f"committed by {group}" if batch_type & METADATA_BIT else ""
            value = OffsetCommitValue(_OFFSET + slot, 0, metadata, _TIME)
        key = OffsetCommitKey(group, _topic_name(slot, settings), _PARTITION + slot)
        records.append(Record(1, key, value, None if value is None else 3))
    return records


def _topic_name(slot: int, settings: Settings) -> str:
    return f"{settings.prefix}{TOPIC}{slot:04}"


def _assign_partitions(settings: Settings, member: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the slot of each topic, and the partitions of this topic that are assigned to a member.

    `member` is the member's number, from 0.
    """
    for slot, first in enumerate(range(0, settings.keys, TOPIC_PARTITIONS)):
        partition_count = min(TOPIC_PARTITIONS, settings.keys - first)
        yield slot, tuple(range(member, partition_count, settings.members))


def _build_generation(batch_type: int, settings: Settings) -> GroupMetadataValue:
    if batch_type == EMPTY_GENERATION:
        return GroupMetadataValue("consumer", _GENERATION, None, None, _TIME, ())
    members = []
    for number in range(settings.members):
        topics = [
            (_topic_name(slot, settings), partitions) for slot, partitions in _assign_partitions(settings, number)
        ]
        subscription = ConsumerProtocolSubscription(tuple(topic for topic, _ in topics), None, (), -1, None)
        assigned = tuple(TopicPartitions(topic, partitions) for topic, partitions in topics if partitions)
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
    """Return the records of a new epoch of a modern group.

    Every member changes its subscription, and then has all partitions of its new target assignment.
    """
    topics = tuple(_topic_name(slot, settings) for slot, _ in _assign_partitions(settings, 0))
    members = []
    targets = []
    assignments = []
    for number in range(settings.members):
        member = f"consumer-{number}-{_UUID}000000"
        assigned = [(_topic_id(slot), parts) for slot, parts in _assign_partitions(settings, number) if parts]
        metadata = consumer_group.ConsumerGroupMemberMetadataValue(
            None, None, f"consumer-{number}", "/127.0.0.1", topics, "", 300_000, None, None
        )
        target = consumer_group.ConsumerGroupTargetAssignmentMemberValue(
            tuple(consumer_group.TopicPartition(topic, parts) for topic, parts in assigned)
        )
        assignment = consumer_group.ConsumerGroupCurrentMemberAssignmentValue(
            _GENERATION,
            _GENERATION,
            0,
            tuple(consumer_group.TopicPartitions(topic, parts, None) for topic, parts in assigned),
            (),
        )
        members.append(Record(5, consumer_group.ConsumerGroupMemberMetadataKey(group, member), metadata, 0))
        targets.append(Record(7, consumer_group.ConsumerGroupTargetAssignmentMemberKey(group, member), target, 0))
        assignments.append(
            Record(8, consumer_group.ConsumerGroupCurrentMemberAssignmentKey(group, member), assignment, 0)
        )
    new_epoch = Record(
        3, consumer_group.ConsumerGroupMetadataKey(group), consumer_group.ConsumerGroupMetadataValue(_GENERATION), 0
    )
    target_key = consumer_group.ConsumerGroupTargetAssignmentMetadataKey(group)
    target_epoch = consumer_group.ConsumerGroupTargetAssignmentMetadataValue(_GENERATION, _TIME)
    return [*members, new_epoch, *targets, Record(6, target_key, target_epoch, 0), *assignments]


def _topic_id(slot: int) -> str:
    return uuid_text(f"id-of-topic-{slot:04}".encode())


def _find_variables(data: bytes, width: int, settings: Settings) -> Iterator[Variable]:
    """Search a template for all placeholders, and yield their positions."""
    topic_count = -(-settings.keys // TOPIC_PARTITIONS)
    patterns = [
        ("base_offset", 0, struct.pack(">q", _BASE_OFFSET), ">i8"),
        ("time", 0, struct.pack(">q", _TIME), ">i8"),
        ("producer", 0, struct.pack(">q", _PRODUCER), ">i8"),
        ("generation", 0, struct.pack(">i", _GENERATION), ">i4"),
        ("group", 0, f"{settings.prefix}{GROUP}000000".encode(), "S6"),
        ("group", 0, f"{_UUID}000000".encode(), "S6"),
    ]
    for slot in range(max(width, topic_count)):
        patterns += [
            ("topic", slot, _topic_name(slot, settings).encode(), "S4"),
            ("topic", slot, f"id-of-topic-{slot:04}".encode(), "S4"),
            ("partition", slot, struct.pack(">i", _PARTITION + slot), ">i4"),
            ("offset", slot, struct.pack(">q", _OFFSET + slot), ">i8"),
        ]
    for column, slot, placeholder, dtype in patterns:
        for match in re.finditer(re.escape(placeholder), data):
            # The placeholder of a name begins with constant text. Only its last characters, the digits, are variable.
            yield Variable(column, slot, match.end() - np.dtype(dtype).itemsize, dtype)
