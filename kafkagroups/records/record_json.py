"""Conversion of a record to JSON and back. The key and the value have the JSON that Kafka's dump tool prints."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.records.releases import DEFAULT_DIALECT, Dialect
from kafkagroups.records.serde import RECORD_TYPES, Record, UnknownContent, newest_value_version
from kafkagroups.records.structs import Message, from_json as fields_from_json, to_json as fields_to_json


def to_json(record: Record, dialect: Dialect | None = None) -> dict[str, Any]:
    """Return the JSON of a record, with the key and the value as Kafka's dump tool prints them.

    The dict has the keys "type", "name", "key" and "value"; types and versions inside "key" and "value" are strings, as
    in Kafka's JSON, and unknown tagged fields are in `_unknownTaggedFields`. `dialect` is that of the coordinator that
    read the record, and decides which fields the JSON has: for example, records of share groups have other fields in
    4.0. None means the new coordinator of Kafka 4.3.1.
    Source: the JsonConverter classes of Kafka 4.3.1.

    >>> from kafkagroups.records.group_metadata import GroupMetadataKey
    >>> to_json(Record(2, GroupMetadataKey("billing"), None, None))
    {'type': 2, 'name': 'GroupMetadata', 'key': {'type': '2', 'data': {'group': 'billing'}}, 'value': None}
    """
    return {
        "type": record.type,
        "name": record.name,
        "key": key_to_json(record),
        "value": value_to_json(record, dialect),
    }


def key_to_json(record: Record) -> dict[str, Any]:
    """Return the JSON of a key: `{"type": "1", "data": {…}}`.

    If the record type is unknown, return `{"type": "24", "hex": …}` with all bytes of the key.
    """
    if isinstance(record.key, UnknownContent):
        return {"type": str(record.type), "hex": record.key.data.hex()}
    return {"type": str(record.type), "data": fields_to_json(record.key, 0)}


def value_to_json(record: Record, dialect: Dialect | None = None) -> dict[str, Any] | None:
    """Return the JSON of a value: `{"version": "3", "data": {…}}`; None for a tombstone.

    If the record type is unknown, return `{"hex": …}` with all bytes of the value.
    """
    if record.value is None:
        return None
    if isinstance(record.value, UnknownContent):
        return {"hex": record.value.data.hex()}
    version = record.value_version or 0
    dialect = dialect or DEFAULT_DIALECT
    return {"version": str(version), "data": fields_to_json(record.value, version, dialect.version)}


def from_json(value: Any, dialect: Dialect | None = None) -> Record:
    """Return the record that is described by the JSON of `to_json`, of which only "key" and "value" are used.

    `dialect` is the one with which `to_json` wrote the JSON; None means the new coordinator of Kafka 4.3.1. Raises
    UsageError if the JSON does not describe a record; its `field` is the path of the wrong field.

    >>> from_json({"key": {"type": "2", "data": {"group": "billing"}}, "value": None}).key
    GroupMetadataKey(group='billing')
    """
    dialect = dialect or DEFAULT_DIALECT
    if not isinstance(value, dict) or not isinstance(value.get("key"), dict):
        raise UsageError('expected {"key": {"type": …, "data": {…}}, "value": …}', field="key")
    key = value["key"]
    content = value.get("value")
    if "value" not in value or not (content is None or isinstance(content, dict)):
        raise UsageError('expected {"version": …, "data": {…}}, {"hex": …} or null', field="value")
    # Kafka's tools before 4.0 print the type as the version of the key.
    type_id = _parse_int16(key.get("type", key.get("version")), "key.type")
    if "hex" in key:
        return _make_unknown_record(type_id, key, content)
    record_type = RECORD_TYPES.get(type_id)
    if record_type is None:
        raise UsageError(f"record type {type_id} is unknown", field="key.type")
    record_key = _parse_fields(record_type.key, key.get("data"), dialect, version=0, newest_version=0, path="key.data")
    if content is None:
        return Record(type_id, record_key, None, None)
    version = _parse_int16(content.get("version"), "value.version")
    # Up to Kafka 4.0, a record of type 0 could have the value of type 1. The value of type 0 has only version 0. So a
    # version above 0 shows that the record has the value of type 1.
    has_value_of_type_1 = type_id == 0 and (version > 0 or dialect.max_type0_value_version > 0)
    value_type = RECORD_TYPES[1] if has_value_of_type_1 else record_type
    if not 0 <= version <= value_type.highest_version:
        reason = f"a value of {record_type.name} has version 0 to {value_type.highest_version}, not {version}"
        raise UsageError(reason, field="value.version")
    record_value = _parse_fields(
        value_type.value,
        content.get("data"),
        dialect,
        version=version,
        newest_version=newest_value_version(dialect, type_id),
        path="value.data",
    )
    return Record(type_id, record_key, record_value, version)


def _make_unknown_record(type_id: int, key: dict[str, Any], content: dict[str, Any] | None) -> Record:
    key_bytes = parse_hex(key["hex"], "key.hex")
    if key_bytes[:2] != type_id.to_bytes(2, "big", signed=True):
        raise UsageError(f"the first two bytes of the key are not type {type_id}", field="key.hex")
    value = None if content is None else UnknownContent(parse_hex(content.get("hex"), "value.hex"))
    return Record(type_id, UnknownContent(key_bytes), value, None)


def _parse_fields(
    cls: type[Message], fields: Any, dialect: Dialect, *, version: int, newest_version: int, path: str
) -> Message:
    try:
        return fields_from_json(cls, fields, version, dialect.version, newest_version)
    except UsageError as error:
        raise error.prefix_field(path) from None


def _parse_int16(value: Any, field: str) -> int:
    if type(value) is int and -(2**15) <= value < 2**15:
        return value
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,5}", value):
        return _parse_int16(int(value), field)
    raise UsageError(f"expected an int16, found {value!r}", field=field)


def parse_hex(value: Any, field: str) -> bytes:
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError):
        raise UsageError(f"expected an even number of hex digits, found {value!r}", field=field) from None


def remove_fields(value: Any, names: Collection[str]) -> Any:
    """Return JSON without the fields of these names, in any depth."""
    if isinstance(value, dict):
        return {name: remove_fields(content, names) for name, content in value.items() if name not in names}
    if isinstance(value, list | tuple):
        return [remove_fields(element, names) for element in value]
    return value
