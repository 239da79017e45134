"""One record of the topic: key and value bytes to a Record and back, and Kafka's JSON of it.

The first two bytes of a key are the record's type, those of a value its version. A null value is a tombstone.
Source: GroupCoordinatorRecordSerde.java and CoordinatorRecordSerde.java (4.3.1), GroupMetadataManager.scala (3.9.2).
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from kafkagroups.errors import InvalidRecord, UsageError, nested
from kafkagroups.records import consumer_group as consumer, share_group as share, streams_group as streams
from kafkagroups.records.fields import Message
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkagroups.records.offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkagroups.records.structs import from_json as fields_from_json, reader, to_json as fields_to_json, writer
from kafkagroups.records.versions import NEWEST, Dialect, Version, dialect
from kafkagroups.records.wire import Writer


class RecordType(NamedTuple):
    """A record type: its number in the key, its name in Kafka, the classes of key and value, the highest version.

    `since` and `until` are the first Kafka whose new coordinator knows the type and the first that no longer does.
    """

    id: int
    name: str
    key: type[Message]
    value: type[Message]
    highest_version: int = 0
    since: Version = ()
    until: Version = NEWEST


_NEWER_TYPES: dict[int, tuple[type[Message], type[Message], tuple[int, ...]]] = {
    3: (consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue, (3, 7)),
    4: (consumer.ConsumerGroupPartitionMetadataKey, consumer.ConsumerGroupPartitionMetadataValue, (3, 7)),
    5: (consumer.ConsumerGroupMemberMetadataKey, consumer.ConsumerGroupMemberMetadataValue, (3, 7)),
    6: (consumer.ConsumerGroupTargetAssignmentMetadataKey, consumer.ConsumerGroupTargetAssignmentMetadataValue, (3, 7)),
    7: (consumer.ConsumerGroupTargetAssignmentMemberKey, consumer.ConsumerGroupTargetAssignmentMemberValue, (3, 7)),
    8: (consumer.ConsumerGroupCurrentMemberAssignmentKey, consumer.ConsumerGroupCurrentMemberAssignmentValue, (3, 7)),
    9: (share.ShareGroupPartitionMetadataKey, share.ShareGroupPartitionMetadataValue, (4, 0)),
    10: (share.ShareGroupMemberMetadataKey, share.ShareGroupMemberMetadataValue, (4, 0)),
    11: (share.ShareGroupMetadataKey, share.ShareGroupMetadataValue, (4, 0)),
    12: (share.ShareGroupTargetAssignmentMetadataKey, share.ShareGroupTargetAssignmentMetadataValue, (4, 0)),
    13: (share.ShareGroupTargetAssignmentMemberKey, share.ShareGroupTargetAssignmentMemberValue, (4, 0)),
    14: (share.ShareGroupCurrentMemberAssignmentKey, share.ShareGroupCurrentMemberAssignmentValue, (4, 0)),
    15: (share.ShareGroupStatePartitionMetadataKey, share.ShareGroupStatePartitionMetadataValue, (4, 0)),
    16: (consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue, (4, 0)),
    17: (streams.StreamsGroupMetadataKey, streams.StreamsGroupMetadataValue, (4, 1)),
    19: (streams.StreamsGroupMemberMetadataKey, streams.StreamsGroupMemberMetadataValue, (4, 1)),
    20: (streams.StreamsGroupTargetAssignmentMetadataKey, streams.StreamsGroupTargetAssignmentMetadataValue, (4, 1)),
    21: (streams.StreamsGroupTargetAssignmentMemberKey, streams.StreamsGroupTargetAssignmentMemberValue, (4, 1)),
    22: (streams.StreamsGroupCurrentMemberAssignmentKey, streams.StreamsGroupCurrentMemberAssignmentValue, (4, 1)),
    23: (streams.StreamsGroupTopologyKey, streams.StreamsGroupTopologyValue, (4, 1)),
}

RECORD_TYPES = {
    0: RecordType(0, "LegacyOffsetCommit", LegacyOffsetCommitKey, LegacyOffsetCommitValue, 0),
    1: RecordType(1, "OffsetCommit", OffsetCommitKey, OffsetCommitValue, 4),
    2: RecordType(2, "GroupMetadata", GroupMetadataKey, GroupMetadataValue, 4),
} | {
    number: RecordType(
        number, key.__name__.removesuffix("Key"), key, value, 0, since, (4, 1) if number == 9 else NEWEST
    )
    for number, (key, value, since) in _NEWER_TYPES.items()
}
"""Every type that a Kafka has written; 9 is 4.0's only, 18 never was one."""

_version = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class UnknownContent:
    """A key or a value of a record type that this reader does not know: the whole bytes, as they came."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Record:
    """One record: who it is about (`key`) and what is true of it now (`value`; None = a tombstone).

    `type` is the number in the key. Of an unknown type, key and value are UnknownContent and `value_version` is None.
    """

    type: int
    key: Message | UnknownContent
    value: Message | UnknownContent | None
    value_version: int | None

    @property
    def name(self) -> str:
        return "Unknown" if isinstance(self.key, UnknownContent) else RECORD_TYPES[self.type].name


def decode(key: bytes | None, value: bytes | None, reader_of: Dialect | None = None) -> Record:
    """Reads a record as Kafka 4.3.1's coordinator does, or as `reader_of` says.

    InvalidRecord when that reader would refuse the bytes. What it does not mind is decoded: bytes after the end of a
    key or a value are ignored.
    """
    rules = reader_of or _newest
    if key is None or len(key) < 2:
        found = "null" if key is None else f"{len(key)}"
        error = InvalidRecord(f"a record type of 2 bytes was expected, found {found}", field="key", position=0)
        raise error.because("no version")
    type_id = _version.unpack_from(key)[0]
    readers = _readers(type_id, rules)
    if readers is None:
        if rules.skips_unknown_types:
            return Record(type_id, UnknownContent(key), None if value is None else UnknownContent(value), None)
        raise InvalidRecord(f"Kafka {rules.kafka} refuses record type {type_id}", field="key.type", position=0)
    read_key, read_value = readers
    part, data = "key", key
    try:
        record_key = read_key(data, 2)[0]
        if value is None:
            record = Record(type_id, record_key, None, None)
        else:
            part, data = "value", value
            if len(value) < 2:
                error = InvalidRecord(f"a version of 2 bytes was expected, found {len(value)}", position=0)
                raise error.because("no version")
            version = _version.unpack_from(value)[0]
            if not 0 <= version < len(read_value):
                most = len(read_value) - 1
                error = InvalidRecord(f"0 to {most} was expected, found {version}", field="version", position=0)
                raise error.because("version", version, type_id)
            record = Record(type_id, record_key, read_value[version](value, 2)[0], version)
    except InvalidRecord as error:
        error.field = nested(part, error.field)
        raise
    return record


@cache
def _readers(type_id: int, rules: Dialect) -> tuple[Any, list[Any]] | None:
    """The readers of a type's key and of each version of its value; None for a type this dialect does not know."""
    kind = RECORD_TYPES.get(type_id)
    if kind is None or (type_id == 2 and rules.group_values < 0) or (type_id == 1 and not rules.since(0, 9)):
        return None
    if type_id > 2 and (rules.coordinator == "classic" or not kind.since <= rules.version < kind.until):
        return None
    value, highest = kind.value, kind.highest_version
    if type_id == 0:
        highest = rules.type0_values
        value = OffsetCommitValue if highest else value
    elif type_id == 1:
        highest = rules.offset_values
    elif type_id == 2:
        highest = rules.group_values
    return reader(kind.key, 0), [reader(value, version, rules.version) for version in range(highest + 1)]


_newest = dialect("new")


def encode(record: Record, writer_of: Dialect | None = None) -> tuple[bytes, bytes | None]:
    """The bytes of key and value as Kafka's serialisers write them. UsageError for what they refuse to write."""
    rules = writer_of or _newest
    if isinstance(record.key, UnknownContent):
        if record.value is not None and not isinstance(record.value, UnknownContent):
            raise UsageError("a record of an unknown type has an unread value", field="value")
        return record.key.data, None if record.value is None else record.value.data
    if record.type not in RECORD_TYPES:
        raise UsageError(f"record type {record.type} is not known", field="type")
    write_key, write_values, write_wider = _writers(record.type, rules)
    key, out, part = bytearray(_version.pack(record.type)), None, "key"
    try:
        write_key(key, record.key)
        if record.value is not None:
            part, version = "value", record.value_version
            if write_wider and isinstance(record.value, OffsetCommitValue):
                write_values = write_wider
            if version is None or not 0 <= version < len(write_values):
                raise UsageError(f"0 to {len(write_values) - 1} was expected, not {version}", field="version")
            out = bytearray(_version.pack(version))
            write_values[version](out, record.value)
    except UsageError as error:
        raise error.inside(part) from None
    return bytes(key), None if out is None else bytes(out)


@cache
def _writers(type_id: int, rules: Dialect) -> tuple[Writer, list[Writer], list[Writer]]:
    """The writers of a type's key, of each version of its value, and of the wider value that type 0 had up to 4.0."""
    kind = RECORD_TYPES[type_id]
    values = [writer(kind.value, version, rules.version) for version in range(kind.highest_version + 1)]
    wider = [writer(OffsetCommitValue, version, rules.version) for version in range(5)] if type_id == 0 else []
    return writer(kind.key, 0), values, wider


def to_json(record: Record, reader_of: Dialect | None = None) -> dict[str, Any]:
    """`{"type", "name", "key", "value"}`: key and value as Kafka's dump tool prints them."""
    return {
        "type": record.type,
        "name": record.name,
        "key": key_to_json(record),
        "value": value_to_json(record, reader_of),
    }


def key_to_json(record: Record) -> dict[str, Any]:
    """`{"type": "1", "data": {…}}`, or `{"type": "24", "hex": …}` with the whole key of an unknown type."""
    if isinstance(record.key, UnknownContent):
        return {"type": str(record.type), "hex": record.key.data.hex()}
    return {"type": str(record.type), "data": fields_to_json(record.key, 0)}


def value_to_json(record: Record, reader_of: Dialect | None = None) -> dict[str, Any] | None:
    """`{"version": "3", "data": {…}}`, `{"hex": …}` of an unknown type, None for a tombstone."""
    if record.value is None:
        return None
    if isinstance(record.value, UnknownContent):
        return {"hex": record.value.data.hex()}
    version = record.value_version or 0
    data = fields_to_json(record.value, version, (reader_of or _newest).version)
    return {"version": str(version), "data": data}


def from_json(value: Any, reader_of: Dialect | None = None) -> Record:
    """The record whose JSON this is (`to_json`, without needing `type` and `name`). UsageError when it is none.

    `reader_of` is whose JSON it is, as for `to_json`: share groups of 4.0 have other fields.
    """
    rules = reader_of or _newest
    if not isinstance(value, dict) or not isinstance(value.get("key"), dict):
        raise UsageError('{"key": {"type": …, "data": {…}}, "value": …} was expected', field="key")
    type_id = _number(value["key"].get("type"), "key.type")
    content = value.get("value")
    if "value" not in value or not (content is None or isinstance(content, dict)):
        raise UsageError('{"version": …, "data": {…}}, {"hex": …} or null was expected', field="value")
    if "hex" in value["key"]:
        key = _unhex(value["key"]["hex"], "key.hex")
        if key[:2] != type_id.to_bytes(2, "big", signed=True):
            raise UsageError(f"the key's bytes are not of type {type_id}", field="key.hex")
        value_bytes = None if content is None else UnknownContent(_unhex(content.get("hex"), "value.hex"))
        return Record(type_id, UnknownContent(key), value_bytes, None)
    kind = RECORD_TYPES.get(type_id)
    if kind is None:
        raise UsageError(f"record type {type_id} is not known", field="key.type")
    try:
        record_key = fields_from_json(kind.key, value["key"].get("data"), 0)
    except UsageError as error:
        raise error.inside("key.data") from None
    if content is None:
        return Record(type_id, record_key, None, None)
    version = _number(content.get("version"), "value.version")
    cls = OffsetCommitValue if type_id == 0 and (version > 0 or rules.type0_values) else kind.value
    highest = 4 if cls is OffsetCommitValue else kind.highest_version
    if not 0 <= version <= highest:
        raise UsageError(f"a value of {kind.name} has version 0 to {highest}, not {version}", field="value.version")
    try:
        record_value = fields_from_json(cls, content.get("data"), version, rules.version)
    except UsageError as error:
        raise error.inside("value.data") from None
    return Record(type_id, record_key, record_value, version)


def _number(value: Any, field: str) -> int:
    if type(value) is int and -(2**15) <= value < 2**15:
        return value
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,5}", value):
        return _number(int(value), field)
    raise UsageError(f"an int16 was expected, not {value!r}", field=field)


def _unhex(value: Any, field: str) -> bytes:
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError):
        raise UsageError(f"hex digits were expected, not {value!r}", field=field) from None
