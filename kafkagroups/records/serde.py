"""Decoding and encoding of one record: from the bytes of its key and value to a `Record`, and back.

The first two bytes of a key are the record type. The first two bytes of a value are the version of the value. A record
whose value is null is a tombstone: it deletes the item that the key names. A dialect is the reading rules of one
coordinator and one Kafka version (dialects.py).
Source: GroupCoordinatorRecordSerde.java and CoordinatorRecordSerde.java (4.3.1); GroupMetadataManager.scala (3.9.2).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from kafkagroups.errors import InvalidRecord, UsageError, join_path
from kafkagroups.records.consumer_group import TopicPartitions
from kafkagroups.records.dialects import DEFAULT_DIALECT, Dialect
from kafkagroups.records.fields import Message
from kafkagroups.records.group_metadata import MemberMetadata
from kafkagroups.records.offset_commit import OffsetCommitValue
from kafkagroups.records.record_types import RECORD_TYPES, has_type, newest_value_version
from kafkagroups.records.structs import has_structs, plain_values_reader, reader, writer
from kafkagroups.records.wire import Reader, Writer

_INT16 = struct.Struct(">h")
VERSION_BYTES = 2
"""The size, in bytes, of the version at the start of each value."""
_STRUCTS_OF_ANY_VERSION = (MemberMetadata, TopicPartitions)
"""The preview of the new coordinator (Kafka 3.7 to 3.9) reads a value of an unknown version like a value of the nearest
version. But it refuses a version above all known versions if the value contains a struct of another class than these
two. Kafka's schemas declare these two as `commonStructs`, and the generated code of common structs checks no version.
"""


@dataclass(frozen=True, slots=True)
class UnknownContent:
    """The undecoded bytes of a key or value, because the dialect does not read this record type."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Record:
    """One record. The `key` names an item, such as a group, and the `value` is the new state of the item.

    Attributes
    ----------
    type
        The record type, a number: the first two bytes of the key.
    key
        The decoded key; UnknownContent if the dialect does not read the record type.
    value
        The decoded value; UnknownContent if the dialect does not read the record type; None for a tombstone.
    value_version
        The version of the value; None for a tombstone and for an unknown record type. If the dialect reads the value
        like a value of the nearest known version: the known version.
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
    """Return the record of a key and a value.

    `dialect` is the dialect that reads the bytes; None means the new coordinator of Kafka 4.3.1. Bytes after the end
    of a key or a value are ignored. Raises InvalidRecord if a coordinator with this dialect refuses the bytes.
    """
    return decode_with_key(decode_key(key, dialect or DEFAULT_DIALECT), value)


class DecodedKey(NamedTuple):
    """A decoded key, with everything that is needed to decode the values of this key.

    `type` is the record type. `content` is the key of the record. `readers` is None if `dialect` does not read the
    record type.
    """

    type: int
    content: Message | UnknownContent
    readers: TypeReaders | None
    dialect: Dialect


class TypeReaders(NamedTuple):
    """The readers of a record type. `values` has one reader for each version of the value.

    `read_offset_fields` has the fast readers of offset records (types 0 and 1), by the first two bytes of the value,
    which are the version. Such a reader returns a list of the fields of the value instead of a message; or None, if the
    value is unusual and must be read as a message (`plain_values_reader` in structs.py).
    """

    read_key: Reader
    values: list[Reader]
    read_offset_fields: dict[bytes, Reader]


def decode_key(key: bytes | None, dialect: Dialect) -> DecodedKey:
    """Return the decoded key of a record. Raises InvalidRecord if a coordinator with this dialect refuses the key."""
    if key is None or len(key) < 2:
        raise _make_type_error(key)
    type_id = _INT16.unpack_from(key)[0]
    readers = _make_readers(type_id, dialect)
    if readers is None:
        if dialect.skips_unknown_types:
            return DecodedKey(type_id, UnknownContent(key), None, dialect)
        raise InvalidRecord(f"Kafka {dialect.kafka} refuses record type {type_id}", field="key.type", position=0)
    try:
        return DecodedKey(type_id, readers.read_key(key, 2)[0], readers, dialect)
    except InvalidRecord as error:
        error.field = join_path("key", error.field)
        raise


def decode_with_key(key: DecodedKey, value: bytes | None) -> Record:
    """Return the record of a decoded key and a value. Raises InvalidRecord if the coordinator refuses the value."""
    if value is None:
        return Record(key.type, key.content, None, None)
    if key.readers is None:
        return Record(key.type, key.content, UnknownContent(value), None)
    readers = key.readers.values
    try:
        if len(value) < 2:
            raise _make_version_error(value)
        version = _INT16.unpack_from(value)[0]
        if 0 <= version < len(readers):
            return Record(key.type, key.content, readers[version](value, 2)[0], version)
        newest_version = len(readers) - 1
        if not key.dialect.reads_unknown_versions:
            raise _make_unknown_version_error(version, key.type, newest_version)
        nearest_version = 0 if version < 0 else newest_version
        record_value = readers[nearest_version](value, 2)[0]
        if version > nearest_version and has_structs(record_value, _STRUCTS_OF_ANY_VERSION):
            raise _make_unknown_version_error(version, key.type, nearest_version)
        return Record(key.type, key.content, record_value, nearest_version)
    except InvalidRecord as error:
        error.field = join_path("value", error.field)
        raise


def _make_type_error(key: bytes | None) -> InvalidRecord:
    found = "null" if key is None else f"{len(key)} bytes"
    error = InvalidRecord(f"expected a record type of 2 bytes, found {found}", field="key", position=0)
    return error.with_cause("no version")  # Kafka's message calls the record type a version.


def _make_version_error(value: bytes) -> InvalidRecord:
    error = InvalidRecord(f"expected a version of 2 bytes, found {len(value)} bytes", position=0)
    return error.with_cause("no version")


def _make_unknown_version_error(version: int, type_id: int, newest_version: int) -> InvalidRecord:
    message = f"expected a version from 0 to {newest_version}, found {version}"
    return InvalidRecord(message, field="version", position=0).with_cause("version", version, type_id)


@cache
def _make_readers(type_id: int, dialect: Dialect) -> TypeReaders | None:
    """Return the readers of a record type; None if the dialect does not read the record type."""
    if not has_type(dialect, type_id):
        return None
    record_type = RECORD_TYPES[type_id]
    value_class = record_type.value
    newest_version = newest_value_version(dialect, type_id)
    if type_id == 0 and newest_version > 0:
        # Up to Kafka 4.0, a record of type 0 could have the value of type 1.
        value_class = OffsetCommitValue
    versions = range(newest_version + 1)
    read_offset_fields = {}
    if type_id in (0, 1):
        for version in versions:
            read_offset_fields[_INT16.pack(version)] = plain_values_reader(value_class, version, dialect.version)
    return TypeReaders(
        reader(record_type.key, 0),
        [reader(value_class, version, dialect.version) for version in versions],
        read_offset_fields,
    )


def encode(record: Record, dialect: Dialect | None = None) -> tuple[bytes, bytes | None]:
    """Return the bytes of a record's key and value, exactly as Kafka's serializers write them.

    Parameters
    ----------
    record
        A record that `decode` or `from_json` returned, or that you created.
    dialect
        The dialect of the Kafka version whose fields are written; None means Kafka 4.3.1.

    Returns
    -------
    tuple of bytes and (bytes or None)
        The key and the value. The value of a tombstone is None.

    Raises
    ------
    UsageError
        Kafka's serializers refuse the record. The error's `field` is the path of the wrong field.

    Notes
    -----
    Source: GroupCoordinatorRecordSerde.java and CoordinatorRecordSerde.java (4.3.1).

    Examples
    --------
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
    write_key, value_writers = _make_writers(record.type, isinstance(record.value, OffsetCommitValue), dialect)
    key = bytearray(_INT16.pack(record.type))
    part = "key"
    try:
        write_key(key, record.key)
        if record.value is None:
            return bytes(key), None
        part = "value"
        version = record.value_version
        if version is None or not 0 <= version < len(value_writers):
            raise UsageError(f"expected a version from 0 to {len(value_writers) - 1}, found {version}", field="version")
        value = bytearray(_INT16.pack(version))
        value_writers[version](value, record.value)
    except UsageError as error:
        raise error.prefix_field(part) from None
    return bytes(key), bytes(value)


@cache
def _make_writers(type_id: int, has_offset_commit_value: bool, dialect: Dialect) -> tuple[Writer, list[Writer]]:
    """Return the writer of a record type's key, and a list with one writer for each version of the value.

    `has_offset_commit_value`: the value is an OffsetCommitValue, which a record of type 0 could have up to Kafka 4.0.
    """
    value_type = RECORD_TYPES[1 if type_id == 0 and has_offset_commit_value else type_id]
    newest_version = newest_value_version(dialect, value_type.id)
    versions = range(value_type.highest_version + 1)
    value_writers = [writer(value_type.value, version, dialect.version, newest_version) for version in versions]
    return writer(RECORD_TYPES[type_id].key, 0), value_writers
