"""Templates: for each batch type and width, one batch as a coordinator writes it, and the positions of its variables.

A variable is a value that differs between batches with the same template, such as the base offset. The template
contains placeholders for the variables: numbers and names that occur nowhere else in the template. So a search finds
the positions of the variables. The width of a batch is its number of offset records. It is 1 for group records, and 0
for a marker.

Each variable takes its values from a column of files.py, for example "offset". If a batch contains several offsets,
offset n is in slot n of the column.
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
    TopicAndPartitions,
    VersionedMessage,
    encode_versioned,
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

# The placeholders of numbers. If a column has several slots, the placeholder of slot n is the number below plus n.
_BASE_OFFSET = 0x71A5_0000_0000_0001
_TIME = 0x72A5_0000_0000_0002
_PRODUCER = 0x73A5_0000_0000_0003
_OFFSET = 0x74A5 << 48
_GENERATION = 0x75A5_0001
_PARTITION = 0x76A5_0000
_UUID_START = "5e0f3b9a-7c41-4d2e-9b8a-facade"
"""The first part of the UUIDs in member ids. The last part is the six digits in the group's name."""
_DIGITS = "000000"
"""The placeholder of the six digits in the group's name."""


class Variable(NamedTuple):
    """A value in a template: its column and slot, and its position in bytes.

    `dtype` is numpy's type of the value, such as ">i8" for a big-endian number of 8 bytes. If a value occurs at several
    positions, each position has its own Variable.
    """

    column: str
    slot: int
    position: int
    dtype: str


class Template(NamedTuple):
    """The bytes of a batch, and the positions of its variables."""

    data: Array
    variables: tuple[Variable, ...]


@lru_cache(256)
def build_template(batch_type: int, width: int, settings: Settings) -> Template:
    """Return the template of a batch type (a constant of requests.py) and a width."""
    attributes = 0
    producer = NO_PRODUCER_ID
    # In a batch without a producer, both fields are -1.
    producer_epoch = -1
    sequence = -1
    if batch_type in (COMMIT_MARKER, ABORT_MARKER):
        attributes = TRANSACTIONAL | CONTROL
        producer = _PRODUCER
        producer_epoch = 0
        marker_type = ControlType.COMMIT if batch_type == COMMIT_MARKER else ControlType.ABORT
        pairs: list[tuple[bytes, bytes | None]] = [(encode_control_key(marker_type), encode_end_transaction_marker(0))]
    else:
        is_commit = batch_type < TOMBSTONES
        if is_commit and batch_type & TXN_BIT:
            attributes = TRANSACTIONAL
            producer = _PRODUCER
            producer_epoch = 0
            sequence = 0
        pairs = [encode(record) for record in _build_records(batch_type, width, settings)]
    records = [LogRecord(_BASE_OFFSET + index, _TIME, key, value) for index, (key, value) in enumerate(pairs)]
    data = encode_batch(
        records, attributes=attributes, producer_id=producer, producer_epoch=producer_epoch, base_sequence=sequence
    )
    return Template(np.frombuffer(data, "u1"), tuple(_find_variables(data, width, settings)))


def _build_records(batch_type: int, width: int, settings: Settings) -> list[Record]:
    group = settings.prefix + GROUP + _DIGITS
    if batch_type == NEW_EPOCH:
        return _build_epoch(group, settings)
    if batch_type in (GENERATION, EMPTY_GENERATION):
        # Record type 2 is a generation of a classic group, and record type 1 is an offset.
        generation = _build_generation(batch_type, settings)
        return [Record(type=2, key=GroupMetadataKey(group), value=generation, value_version=3)]
    records = []
    for slot in range(width):
        key = OffsetCommitKey(group, _topic_name(slot, settings), _PARTITION + slot)
        if batch_type == TOMBSTONES:
            records.append(Record(type=1, key=key, value=None, value_version=None))
            continue
        metadata = f"committed by {group}" if batch_type & METADATA_BIT else ""
        value = OffsetCommitValue(offset=_OFFSET + slot, leader_epoch=0, metadata=metadata, commit_timestamp=_TIME)
        records.append(Record(type=1, key=key, value=value, value_version=3))
    return records


def _topic_name(slot: int, settings: Settings) -> str:
    """Return the placeholder of the topic's name in a slot."""
    return f"{settings.prefix}{TOPIC}{slot:04}"


def _assign_partitions(settings: Settings, member: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the slot of each topic, and the partitions of this topic that are assigned to a member.

    `member` is the member's number, from 0. The members take turns: with 3 members, member 1 has the partitions 1,
    4, 7, …
    """
    for slot in range(settings.topics_of_group):
        partition_count = min(TOPIC_PARTITIONS, settings.keys - slot * TOPIC_PARTITIONS)
        yield slot, tuple(range(member, partition_count, settings.members))


def _build_generation(batch_type: int, settings: Settings) -> GroupMetadataValue:
    """Return the value of a group record of a classic group: a generation with or without members."""
    if batch_type == EMPTY_GENERATION:
        return GroupMetadataValue(
            protocol_type="consumer",
            generation=_GENERATION,
            protocol=None,
            leader=None,
            current_state_timestamp=_TIME,
            members=(),
        )
    members = []
    for number in range(settings.members):
        topics = [
            (_topic_name(slot, settings), partitions) for slot, partitions in _assign_partitions(settings, number)
        ]
        subscription = ConsumerProtocolSubscription(
            topics=tuple(topic for topic, _ in topics),
            user_data=None,
            owned_partitions=(),
            generation_id=-1,
            rack_id=None,
        )
        assigned = tuple(TopicAndPartitions(topic, partitions) for topic, partitions in topics if partitions)
        assignment = ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=None)
        members.append(
            MemberMetadata(
                member_id=_member_id(number),
                group_instance_id=None,
                client_id=f"consumer-{number}",
                client_host="/127.0.0.1",
                rebalance_timeout=300_000,
                session_timeout=1_800_000,
                subscription=encode_versioned(VersionedMessage(version=3, message=subscription)),
                assignment=encode_versioned(VersionedMessage(version=3, message=assignment)),
            )
        )
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=_GENERATION,
        protocol="range",
        leader=members[0].member_id,
        current_state_timestamp=_TIME,
        members=tuple(members),
    )


def _build_epoch(group: str, settings: Settings) -> list[Record]:
    """Return the records of a new epoch of a modern group.

    Every member has a new subscription and a new target assignment, and already has all partitions of the target.
    """
    topics = tuple(_topic_name(slot, settings) for slot, _ in _assign_partitions(settings, 0))
    members = []
    targets = []
    assignments = []
    for number in range(settings.members):
        member_id = _member_id(number)
        assigned = [
            (_topic_id(slot), partitions) for slot, partitions in _assign_partitions(settings, number) if partitions
        ]
        metadata = consumer_group.ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id=f"consumer-{number}",
            client_host="/127.0.0.1",
            subscribed_topic_names=topics,
            subscribed_topic_regex="",
            rebalance_timeout_ms=300_000,
            server_assignor=None,
            classic_member_metadata=None,
        )
        target = consumer_group.ConsumerGroupTargetAssignmentMemberValue(
            tuple(consumer_group.TopicPartition(topic_id, partitions) for topic_id, partitions in assigned)
        )
        assignment = consumer_group.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=_GENERATION,
            previous_member_epoch=_GENERATION,
            state=0,  # The state "stable".
            assigned_partitions=tuple(
                consumer_group.TopicPartitions(topic_id, partitions, assignment_epochs=None)
                for topic_id, partitions in assigned
            ),
            partitions_pending_revocation=(),
        )
        # The record types are 3: epoch of the group, 5: member, 6: epoch of the target assignment, 7: target assignment
        # of a member, 8: current assignment of a member. All values have version 0.
        members.append(Record(5, consumer_group.ConsumerGroupMemberMetadataKey(group, member_id), metadata, 0))
        targets.append(Record(7, consumer_group.ConsumerGroupTargetAssignmentMemberKey(group, member_id), target, 0))
        assignments.append(
            Record(8, consumer_group.ConsumerGroupCurrentMemberAssignmentKey(group, member_id), assignment, 0)
        )
    epoch_key = consumer_group.ConsumerGroupMetadataKey(group)
    epoch = consumer_group.ConsumerGroupMetadataValue(_GENERATION)
    target_key = consumer_group.ConsumerGroupTargetAssignmentMetadataKey(group)
    target_epoch = consumer_group.ConsumerGroupTargetAssignmentMetadataValue(_GENERATION, _TIME)
    return [
        *members,
        Record(3, epoch_key, epoch, 0),
        *targets,
        Record(6, target_key, target_epoch, 0),
        *assignments,
    ]


def _member_id(number: int) -> str:
    return f"consumer-{number}-{_UUID_START}{_DIGITS}"


def _topic_id(slot: int) -> str:
    """Return the placeholder of the topic's id in a slot."""
    return uuid_text(f"id-of-topic-{slot:04}".encode())


def _find_variables(data: bytes, width: int, settings: Settings) -> Iterator[Variable]:
    """Search a template for all placeholders, and yield their positions."""
    # Each tuple contains the column, the slot, the placeholder, and numpy's type of the value.
    placeholders = [
        ("base_offset", 0, struct.pack(">q", _BASE_OFFSET), ">i8"),
        ("time", 0, struct.pack(">q", _TIME), ">i8"),
        ("producer", 0, struct.pack(">q", _PRODUCER), ">i8"),
        ("generation", 0, struct.pack(">i", _GENERATION), ">i4"),
        ("group", 0, f"{settings.prefix}{GROUP}{_DIGITS}".encode(), "S6"),
        ("group", 0, f"{_UUID_START}{_DIGITS}".encode(), "S6"),
    ]
    for slot in range(max(width, settings.topics_of_group)):
        placeholders += [
            ("topic", slot, _topic_name(slot, settings).encode(), "S4"),
            ("topic", slot, f"id-of-topic-{slot:04}".encode(), "S4"),
            ("partition", slot, struct.pack(">i", _PARTITION + slot), ">i4"),
            ("offset", slot, struct.pack(">q", _OFFSET + slot), ">i8"),
        ]
    for column, slot, placeholder, dtype in placeholders:
        for match in re.finditer(re.escape(placeholder), data):
            # In a name, only the digits at the end are variable.
            yield Variable(column, slot, match.end() - np.dtype(dtype).itemsize, dtype)
