"""The segments of a partition: batches are copied from templates and compressed.

A template is one batch of a type and a width, as a coordinator writes it. A variable is a value that differs between
its batches, such as the base offset. It has placeholders for the variables: numbers and names that occur nowhere else
in it, so a search finds their positions. A column has the values of one variable, one for each batch. Some columns have
several slots: the n-th offset that a batch commits is in slot n of the column "offset".
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from crc32c import crc32c

from kafkagroups.log.batch import (
    ATTRIBUTES_POSITION,
    CONTROL,
    CRC_FROM,
    CRC_POSITION,
    HEADER_SIZE,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    LogRecord,
    encode_batch,
)
from kafkagroups.log.compression import CompressionType, compress
from kafkagroups.log.segment_file import LENGTH_POSITION, LOG_OVERHEAD
from kafkagroups.log.writer import LogWriter
from kafkagroups.records import consumer_group, consumer_protocol, serde
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode
from kafkagroups.records.wire import uuid_text
from kafkagroups.synth import request_batches as requests
from kafkagroups.synth.request_batches import GROUP, TOPIC, TOPIC_PARTITIONS, TOPICS, Array, Settings, format_digits

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


class Variable(NamedTuple):
    """A value in a template: its column and slot, its position in bytes, and numpy's type of it.

    A value that occurs at several positions has a Variable for each.
    """

    column: str
    slot: int
    position: int
    dtype: str


class Template(NamedTuple):
    data: Array
    variables: tuple[Variable, ...]


@lru_cache(256)
def build_template(batch_type: int, width: int, settings: Settings) -> Template:
    is_marker = batch_type in (requests.COMMIT_MARKER, requests.ABORT_MARKER)
    is_in_transaction = is_marker or (batch_type < requests.TOMBSTONES and batch_type & requests.TXN_BIT != 0)
    if is_marker:
        marker_type = serde.ControlType.COMMIT if batch_type == requests.COMMIT_MARKER else serde.ControlType.ABORT
        pairs: list[tuple[bytes, bytes | None]] = [
            (serde.encode_control_key(marker_type), serde.encode_end_transaction_marker(0))
        ]
    else:
        pairs = [encode(record) for record in _build_records(batch_type, width, settings)]
    records = [LogRecord(_BASE_OFFSET + index, _TIME, key, value) for index, (key, value) in enumerate(pairs)]
    data = encode_batch(
        records,
        attributes=(TRANSACTIONAL if is_in_transaction else 0) | (CONTROL if is_marker else 0),
        producer_id=_PRODUCER if is_in_transaction else NO_PRODUCER_ID,
        producer_epoch=0 if is_in_transaction else -1,
        base_sequence=0 if is_in_transaction and not is_marker else -1,
    )
    return Template(np.frombuffer(data, "u1"), tuple(_find_variables(data, width, settings)))


def _build_records(batch_type: int, width: int, settings: Settings) -> list[Record]:
    group = settings.prefix + GROUP + _DIGITS
    if batch_type == requests.NEW_EPOCH:
        return _build_epoch(group, settings)
    if batch_type in (requests.GENERATION, requests.EMPTY_GENERATION):
        # Record type 2 is a generation of a classic group, and record type 1 is an offset.
        generation = _build_generation(batch_type, settings)
        return [Record(type=2, key=GroupMetadataKey(group), value=generation, value_version=3)]
    records = []
    for slot in range(width):
        key = OffsetCommitKey(group, _topic_name(slot, settings), _PARTITION + slot)
        if batch_type == requests.TOMBSTONES:
            records.append(Record(type=1, key=key, value=None, value_version=None))
            continue
        metadata = f"committed by {group}" if batch_type & requests.METADATA_BIT else ""
        value = OffsetCommitValue(offset=_OFFSET + slot, leader_epoch=0, metadata=metadata, commit_timestamp=_TIME)
        records.append(Record(type=1, key=key, value=value, value_version=3))
    return records


def _topic_name(slot: int, settings: Settings) -> str:
    return f"{settings.prefix}{TOPIC}{slot:04}"


def _assign_partitions(settings: Settings, member: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The members take turns: with 3 members, member 1 has the partitions 1, 4, 7, …"""
    for slot in range(settings.topics_of_group):
        partition_count = min(TOPIC_PARTITIONS, settings.keys - slot * TOPIC_PARTITIONS)
        yield slot, tuple(range(member, partition_count, settings.members))


def _build_generation(batch_type: int, settings: Settings) -> GroupMetadataValue:
    members = []
    for number in range(settings.members if batch_type == requests.GENERATION else 0):
        assigned = [(_topic_name(slot, settings), numbers) for slot, numbers in _assign_partitions(settings, number)]
        topics = tuple(topic for topic, _ in assigned)
        partitions = tuple(
            consumer_protocol.TopicAndPartitions(topic, numbers) for topic, numbers in assigned if numbers
        )
        subscription = consumer_protocol.ConsumerProtocolSubscription(topics)
        assignment = consumer_protocol.ConsumerProtocolAssignment(partitions)
        member = MemberMetadata(
            member_id=_member_id(number),
            group_instance_id=None,
            client_id=f"consumer-{number}",
            client_host="/127.0.0.1",
            rebalance_timeout=300_000,
            session_timeout=1_800_000,
            subscription=consumer_protocol.encode_versioned(consumer_protocol.VersionedMessage(3, subscription)),
            assignment=consumer_protocol.encode_versioned(consumer_protocol.VersionedMessage(3, assignment)),
        )
        members.append(member)
    leader, protocol = (members[0].member_id, "range") if members else (None, None)
    return GroupMetadataValue("consumer", _GENERATION, protocol, leader, _TIME, tuple(members))


def _build_epoch(group: str, settings: Settings) -> list[Record]:
    """Every member has a new subscription and a new target assignment, and already has all partitions of the target."""
    topics = tuple(_topic_name(slot, settings) for slot in range(settings.topics_of_group))
    subscriptions = []
    targets = []
    assignments = []
    for number in range(settings.members):
        metadata = consumer_group.ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id=f"consumer-{number}",
            client_host="/127.0.0.1",
            subscribed_topic_names=topics,
            rebalance_timeout_ms=300_000,
            server_assignor=None,
            classic_member_metadata=None,
        )
        assigned = [(_topic_id(slot), numbers) for slot, numbers in _assign_partitions(settings, number) if numbers]
        target = tuple(consumer_group.TopicPartition(topic_id, numbers) for topic_id, numbers in assigned)
        current = tuple(consumer_group.TopicPartitions(topic_id, numbers, None) for topic_id, numbers in assigned)
        assignment = consumer_group.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=_GENERATION,
            previous_member_epoch=_GENERATION,
            state=0,  # The state "stable".
            assigned_partitions=current,
        )
        key = consumer_group.MemberIdKey(group, _member_id(number))
        subscriptions.append(Record(5, key, metadata, 0))
        targets.append(Record(7, key, consumer_group.ConsumerGroupTargetAssignmentMemberValue(target), 0))
        assignments.append(Record(8, key, assignment, 0))
    group_key = consumer_group.GroupIdKey(group)
    epoch = Record(3, group_key, consumer_group.ConsumerGroupMetadataValue(_GENERATION), 0)
    target_epoch = consumer_group.ConsumerGroupTargetAssignmentMetadataValue(_GENERATION, _TIME)
    return [*subscriptions, epoch, *targets, Record(6, group_key, target_epoch, 0), *assignments]


def _member_id(number: int) -> str:
    return f"consumer-{number}-{_UUID_START}{_DIGITS}"


def _topic_id(slot: int) -> str:
    return uuid_text(f"id-of-topic-{slot:04}".encode())


def _find_variables(data: bytes, width: int, settings: Settings) -> Iterator[Variable]:
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


FIRST_TIMESTAMP_MS = 1_700_000_000_000
"""The timestamp (ms) of the first request."""
_PART_BYTES = 64 * 1024 * 1024
_WIDTH_LIMIT = 64
"""All widths are below this limit. The id of a template is `batch_type * _WIDTH_LIMIT + width`."""
_TOPIC_DIGITS = format_digits(np.arange(TOPICS), 4)
"""The digits in the name of each topic."""


def write_partition(
    folder: Path, settings: Settings, events: Array, group_digits: Array, report: Callable[[int], None]
) -> dict[str, int]:
    counts = requests.count_batch_records(settings, events)
    events["base_offset"] = np.cumsum(counts) - counts
    template_ids = events["batch_type"].astype(np.int16) * _WIDTH_LIMIT + events["width"]
    ids, numbers = np.unique(template_ids, return_inverse=True)
    templates = [build_template(*divmod(template_id, _WIDTH_LIMIT), settings) for template_id in ids.tolist()]
    sizes = np.array([len(template.data) for template in templates], np.int64)[numbers]
    part_starts = np.flatnonzero(np.diff(np.cumsum(sizes) // _PART_BYTES)) + 1
    byte_count = 0
    with LogWriter(folder, settings.segment_bytes) as log:
        for part in np.split(np.arange(len(events)), part_starts):
            for batch in _build_batches(settings, events[part], templates, numbers[part], group_digits):
                log.append(bytes(batch))
                byte_count += len(batch)
            report(int(counts[part].sum()))
    segments = len(list(folder.iterdir()))
    return {"segments": segments, "batches": len(events), "records": int(counts.sum()), "bytes": byte_count}


def _build_batches(
    settings: Settings, events: Array, templates: Sequence[Template], numbers: Array, group_digits: Array
) -> Iterator[memoryview]:
    ends = np.cumsum(np.array([len(template.data) for template in templates])[numbers])
    starts = np.concatenate([[0], ends[:-1]])
    out = np.empty(ends[-1], "u1")
    for number, template in enumerate(templates):
        chosen = np.flatnonzero(numbers == number)
        if not len(chosen):
            continue
        copies = _fill_template(template, _build_columns(settings, events[chosen], group_digits))
        copy_type = f"V{len(template.data)}"  # numpy then treats the bytes of a copy as one value.
        # Element n of this view is the value that begins at byte n.
        places = np.ndarray((len(out) - len(template.data) + 1,), copy_type, out, strides=(1,))
        places[starts[chosen]] = copies.view(copy_type)
    codec = CompressionType[settings.codec.upper()]
    is_marker = events["batch_type"] >= requests.COMMIT_MARKER
    for start, end, is_uncompressed in zip(starts.tolist(), ends.tolist(), is_marker.tolist(), strict=True):
        batch = out.data[start:end]
        if codec and not is_uncompressed:  # As in Kafka, markers are not compressed.
            batch = _compress_batch(codec, batch)
        batch[CRC_POSITION : CRC_POSITION + 4] = crc32c(batch[CRC_FROM:]).to_bytes(4, "big")
        yield batch


def _build_columns(settings: Settings, events: Array, group_digits: Array) -> dict[str, list[Array]]:
    """A column is a list with one array for each slot, which has one value for each event."""
    group = events["group"]
    time = events["time"]
    columns = {
        "base_offset": [events["base_offset"]],
        "time": [FIRST_TIMESTAMP_MS + time],
        "producer": [events["producer"]],
        "generation": [events["generation"]],
        "group": [group_digits[group]],
    }
    # Group n consumes topic n and the following topics.
    if events["batch_type"][0] <= requests.TOMBSTONES:
        width = int(events["width"][0])
        keys = [(events["first_key"] + slot) % settings.keys for slot in range(width)]
        columns["topic"] = [_TOPIC_DIGITS[(group + key // TOPIC_PARTITIONS) % TOPICS] for key in keys]
        columns["partition"] = [key % TOPIC_PARTITIONS for key in keys]
        columns["offset"] = [10 * time + slot % 10 for slot in range(width)]  # Later commits have larger offsets.
    else:
        columns["topic"] = [_TOPIC_DIGITS[(group + slot) % TOPICS] for slot in range(settings.topics_of_group)]
    return columns


def _fill_template(template: Template, columns: dict[str, list[Array]]) -> Array:
    batch_count = len(columns["time"][0])
    size = len(template.data)
    copies = np.tile(template.data, batch_count)
    for column, slot, position, dtype in template.variables:
        # This array contains the value at `position` of each copy.
        placeholders = np.ndarray(batch_count, dtype, buffer=copies, offset=position, strides=(size,))
        placeholders[:] = columns[column][slot]
    return copies


def _compress_batch(codec: CompressionType, batch: memoryview) -> memoryview:
    body = compress(codec, bytes(batch[HEADER_SIZE:]))
    header = bytearray(batch[:HEADER_SIZE])
    # The field `length` counts the bytes of the batch after the fields `offset` and `length` (LOG_OVERHEAD).
    header[LENGTH_POSITION : LENGTH_POSITION + 4] = (HEADER_SIZE - LOG_OVERHEAD + len(body)).to_bytes(4, "big")
    header[ATTRIBUTES_POSITION + 1] |= codec  # The attributes are two bytes. The codec is in the second byte.
    return memoryview(header + body)
