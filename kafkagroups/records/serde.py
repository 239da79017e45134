"""Decoding and encoding of one record: from the bytes of its key and value to a `Record`, and back. Control records,
the markers of transactions, have other bytes (`ControlType`).

The first two bytes of a key are the record type (`RECORD_TYPES`). The first two bytes of a value are the version of the
value.
Source: GroupCoordinatorRecordSerde.java and CoordinatorRecordSerde.java (4.3.1); GroupMetadataManager.scala (3.9.2).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import NamedTuple

import msgspec

from kafkagroups.errors import InvalidRecord, UsageError, join_path
from kafkagroups.records import consumer_group as consumer, share_group as share, streams_group as streams
from kafkagroups.records.consumer_group import GroupIdKey, MemberIdKey, TopicPartitions
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkagroups.records.offset_commit import LegacyOffsetCommitValue, OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.releases import DEFAULT_DIALECT, EVERY_VERSION, READ_TYPES, Dialect, VersionRange
from kafkagroups.records.structs import Message, has_structs, make_format, read_message, read_struct, write_message
from kafkagroups.records.wire import INT16, INT32, MessageFormat


class ControlType(Enum):
    """The types of control records, the markers that commit or abort a transaction, as in Kafka's ControlRecordType.

    A control record is alone in its batch, a control batch. Kafka has more types of control records, but
    `__consumer_offsets` has only ABORT and COMMIT:

        key      int16 version, int16 type (0 abort, 1 commit)
        value    int16 version, int32 epoch of the transaction coordinator (counts the coordinator's leader changes)

    Versions above 0 are read like version 0.
    Source (4.3.1): ControlRecordType.java; EndTransactionMarker.java; EndTxnMarker.json.
    """

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1

    @property
    def text(self) -> str:
        """Like Kafka's name, but the types that end a transaction are `commit` and `abort`."""
        return self.name.lower() if self in (ControlType.ABORT, ControlType.COMMIT) else self.name


_TYPE_BY_NUMBER = {control_type.value: control_type for control_type in ControlType}


def decode_control_key(key: bytes | None) -> ControlType:
    """Return the type in the key of a control record; UNKNOWN if Kafka has no type with this number.

    Raises InvalidRecord if the key is null, is too short, or has a negative version.
    """
    _, number = _unpack(">hh", key, "control key")
    return _TYPE_BY_NUMBER.get(number, ControlType.UNKNOWN)


def encode_control_key(control_type: ControlType) -> bytes:
    if control_type is ControlType.UNKNOWN:
        raise ValueError("expected a known type of control record, found UNKNOWN")
    return struct.pack(">hh", 0, control_type.value)


def decode_end_transaction_marker(value: bytes | None) -> int:
    """Return the epoch of the transaction coordinator, which is in the value of a commit or abort marker.

    Raises InvalidRecord if the value is null, is too short, or has a negative version.
    """
    _, epoch = _unpack(">hi", value, "marker value")
    return epoch


def encode_end_transaction_marker(coordinator_epoch: int) -> bytes:
    return struct.pack(">hi", 0, INT32.check(coordinator_epoch))


def _unpack(struct_format: str, data: bytes | None, field: str) -> tuple[int, int]:
    needed_bytes = struct.calcsize(struct_format)
    if data is None or len(data) < needed_bytes:
        found = "null" if data is None else f"{len(data)} bytes"
        raise InvalidRecord(f"expected at least {needed_bytes} bytes, found {found}", field=field)
    version, number = struct.unpack_from(struct_format, data)
    if version < 0:
        raise InvalidRecord(f"expected a version of 0 or above, found {version}", field=field)
    return version, number


class RecordType(NamedTuple):
    """A record type.

    `highest_version` is the highest value version in any Kafka version.
    """

    id: int
    name: str
    key: type[Message]
    value: type[Message]
    highest_version: int

    @property
    def read_by(self) -> VersionRange:
        return READ_TYPES.get(self.id, EVERY_VERSION)


def _declare(number: int, key: type[Message], value: type[Message], highest_version: int = 0) -> RecordType:
    return RecordType(number, value.__name__.removesuffix("Value"), key, value, highest_version)


_TYPES = (
    _declare(0, OffsetCommitKey, LegacyOffsetCommitValue),
    _declare(1, OffsetCommitKey, OffsetCommitValue, 4),
    _declare(2, GroupMetadataKey, GroupMetadataValue, 4),
    _declare(3, GroupIdKey, consumer.ConsumerGroupMetadataValue),
    _declare(4, GroupIdKey, consumer.ConsumerGroupPartitionMetadataValue),
    _declare(5, MemberIdKey, consumer.ConsumerGroupMemberMetadataValue),
    _declare(6, GroupIdKey, consumer.ConsumerGroupTargetAssignmentMetadataValue),
    _declare(7, MemberIdKey, consumer.ConsumerGroupTargetAssignmentMemberValue),
    _declare(8, MemberIdKey, consumer.ConsumerGroupCurrentMemberAssignmentValue),
    _declare(9, GroupIdKey, share.ShareGroupPartitionMetadataValue),
    _declare(10, MemberIdKey, share.ShareGroupMemberMetadataValue),
    _declare(11, GroupIdKey, share.ShareGroupMetadataValue),
    _declare(12, GroupIdKey, share.ShareGroupTargetAssignmentMetadataValue),
    _declare(13, MemberIdKey, share.ShareGroupTargetAssignmentMemberValue),
    _declare(14, MemberIdKey, share.ShareGroupCurrentMemberAssignmentValue),
    _declare(15, GroupIdKey, share.ShareGroupStatePartitionMetadataValue),
    _declare(16, consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue),
    _declare(17, GroupIdKey, streams.StreamsGroupMetadataValue),
    _declare(19, MemberIdKey, streams.StreamsGroupMemberMetadataValue),
    _declare(20, GroupIdKey, streams.StreamsGroupTargetAssignmentMetadataValue),
    _declare(21, MemberIdKey, streams.StreamsGroupTargetAssignmentMemberValue),
    _declare(22, MemberIdKey, streams.StreamsGroupCurrentMemberAssignmentValue),
    _declare(23, GroupIdKey, streams.StreamsGroupTopologyValue),
)

RECORD_TYPES = {record_type.id: record_type for record_type in _TYPES}
"""All record types by their number, in ascending order. Only Kafka 4.0 has type 9. There is no type 18."""


def has_type(dialect: Dialect, type_id: int) -> bool:
    if type_id not in RECORD_TYPES:
        return False
    if type_id == 1:
        return dialect.since(0, 9)
    if type_id == 2:
        return dialect.max_group_value_version >= 0
    if type_id > 2:
        read_by = RECORD_TYPES[type_id].read_by
        return dialect.coordinator == "new" and dialect.version in read_by
    return True


def newest_value_version(dialect: Dialect, type_id: int) -> int:
    version_by_classic_type = {
        0: dialect.max_type0_value_version,
        1: dialect.max_offset_value_version,
        2: dialect.max_group_value_version,
    }
    return version_by_classic_type.get(type_id, RECORD_TYPES[type_id].highest_version)


VERSION_BYTES = 2
_STRUCTS_OF_ANY_VERSION = (MemberMetadata, TopicPartitions)
"""The preview of the new coordinator (Kafka 3.7 to 3.9) reads a value of an unknown version like a value of the nearest
version. But it refuses a version above all known versions if the value contains a struct of another class than these
two. Kafka's schemas declare these two as `commonStructs`, and the generated code of common structs checks no version.
"""


@dataclass(frozen=True, slots=True)
class UnknownContent:
    data: bytes


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record. The `key` names an item, such as a group, and the `value` is the new state of the item.

    Both are decoded, or UnknownContent if the dialect does not read the record type; the value of a tombstone is None.
    `type` is the number in the first two bytes of the key. `value_version` is None for a tombstone and for an unknown
    record type. If the dialect reads the value like a value of the nearest known version, it is the known version.
    """

    type: int
    key: Message | UnknownContent
    value: Message | UnknownContent | None
    value_version: int | None

    @property
    def name(self) -> str:
        """Kafka's name of the record type, or "Unknown"."""
        return "Unknown" if isinstance(self.key, UnknownContent) else RECORD_TYPES[self.type].name


def decode(key: bytes | None, value: bytes | None, dialect: Dialect | None = None) -> Record:
    """Raises InvalidRecord if a coordinator with this dialect refuses the bytes."""
    return decode_with_key(decode_key(key, dialect or DEFAULT_DIALECT), value)


class DecodedKey(msgspec.Struct, frozen=True, gc=False):
    """`values` are the class and the formats of its values, by version; None if `dialect` does not read the record
    type.
    """

    type: int
    content: Message | UnknownContent
    values: ValueFormats | None
    dialect: Dialect


class ValueFormats(NamedTuple):
    cls: type[Message]
    formats: list[MessageFormat]


@cache
def _find_value_formats(type_id: int, dialect: Dialect) -> ValueFormats:
    newest_version = newest_value_version(dialect, type_id)
    # Up to Kafka 4.0, a record of type 0 could have the value of type 1.
    cls = RECORD_TYPES[1 if type_id == 0 and newest_version > 0 else type_id].value
    return ValueFormats(cls, [make_format(cls, version, dialect.version) for version in range(newest_version + 1)])


def decode_key(key: bytes | None, dialect: Dialect) -> DecodedKey:
    if key is None or len(key) < VERSION_BYTES:
        found = "null" if key is None else f"{len(key)} bytes"
        error = InvalidRecord(f"expected a record type of 2 bytes, found {found}", field="key", position=0)
        raise error.with_cause("no version")  # Kafka's message calls the record type a version.
    type_id = INT16.struct.unpack_from(key)[0]
    if not has_type(dialect, type_id):
        if dialect.skips_unknown_types:
            return DecodedKey(type_id, UnknownContent(key), None, dialect)
        raise InvalidRecord(f"Kafka {dialect.kafka} refuses record type {type_id}", field="key.type", position=0)
    try:
        content, _ = read_message(RECORD_TYPES[type_id].key, key, VERSION_BYTES, 0)
    except InvalidRecord as error:
        error.field = join_path("key", error.field)
        raise
    return DecodedKey(type_id, content, _find_value_formats(type_id, dialect), dialect)


def decode_with_key(key: DecodedKey, value: bytes | None) -> Record:
    if value is None:
        return Record(key.type, key.content, None, None)
    if key.values is None:
        return Record(key.type, key.content, UnknownContent(value), None)
    cls, formats = key.values
    try:
        if len(value) < VERSION_BYTES:
            error = InvalidRecord(f"expected a version of 2 bytes, found {len(value)} bytes", position=0)
            raise error.with_cause("no version")
        version = INT16.struct.unpack_from(value)[0]
        if 0 <= version < len(formats):
            return Record(key.type, key.content, read_struct(cls, value, VERSION_BYTES, formats[version])[0], version)
        if not key.dialect.reads_unknown_versions:
            raise _make_unknown_version_error(version, key.type, len(formats) - 1)
        nearest_version = 0 if version < 0 else len(formats) - 1
        content, _ = read_struct(cls, value, VERSION_BYTES, formats[nearest_version])
        if version > nearest_version and has_structs(content, _STRUCTS_OF_ANY_VERSION):
            raise _make_unknown_version_error(version, key.type, nearest_version)
        return Record(key.type, key.content, content, nearest_version)
    except InvalidRecord as error:
        error.field = join_path("value", error.field)
        raise


def _make_unknown_version_error(version: int, type_id: int, newest_version: int) -> InvalidRecord:
    message = f"expected a version from 0 to {newest_version}, found {version}"
    return InvalidRecord(message, field="version", position=0).with_cause("version", version, type_id)


def encode(record: Record, dialect: Dialect | None = None) -> tuple[bytes, bytes | None]:
    """Return the bytes of a record's key and value, exactly as Kafka's serializers write them.

    `dialect` is that of the Kafka version whose fields are written; None means Kafka 4.3.1. Raises UsageError if
    Kafka's serializers refuse the record; its `field` is the path of the wrong field. Source:
    GroupCoordinatorRecordSerde.java and CoordinatorRecordSerde.java (4.3.1).

    >>> from kafkagroups.records.group_metadata import GroupMetadataKey
    >>> encode(Record(2, GroupMetadataKey("billing"), None, None))
    (b'\\x00\\x02\\x00\\x07billing', None)
    """
    dialect = dialect or DEFAULT_DIALECT
    if isinstance(record.key, UnknownContent):
        if record.value is not None and not isinstance(record.value, UnknownContent):
            raise UsageError("a record of an unknown type must have UnknownContent as its value", field="value")
        return record.key.data, None if record.value is None else record.value.data
    if record.type not in RECORD_TYPES:
        raise UsageError(f"record type {record.type} is unknown", field="type")
    # A record of type 0 could have the value of type 1 up to Kafka 4.0.
    value_type = RECORD_TYPES[1 if record.type == 0 and isinstance(record.value, OffsetCommitValue) else record.type]
    newest_version = newest_value_version(dialect, value_type.id)
    key = bytearray(INT16.struct.pack(record.type))
    part = "key"
    try:
        write_message(key, record.key, RECORD_TYPES[record.type].key, 0)
        if record.value is None:
            return bytes(key), None
        part = "value"
        version = record.value_version
        if version is None or not 0 <= version <= value_type.highest_version:
            reason = f"expected a version from 0 to {value_type.highest_version}, found {version}"
            raise UsageError(reason, field="version")
        value = bytearray(INT16.struct.pack(version))
        write_message(value, record.value, value_type.value, version, dialect.version, newest_version)
    except UsageError as error:
        raise error.prefix_field(part) from None
    return bytes(key), bytes(value)
