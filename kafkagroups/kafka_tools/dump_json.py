"""A record's key and value as the dump tool prints them since 3.8: as Kafka's JSON.

The dump tool is kafka-dump-log.sh (dump_log.py). In the record of a classic consumer group, the tool prints the
subscriptions and assignments of the members as JSON. If the tool cannot read a subscription or assignment, it prints
the bytes instead. If it cannot read a record, it prints an error and continues with the next record.
Source: DumpLogSegments.OffsetsMessageParser (3.8.0, 3.9.0); CoordinatorRecordMessageParser (4.3.1); the dump tool's
output for crafted logs. For the errors: captured messages of GroupCoordinatorRecordSerde (errors.jsonl of 4.3.1,
limits.jsonl of 4.4.0, in tests); ByteBufferAccessor.java and ByteUtils.java (4.3.1).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from kafkagroups.errors import InvalidRecord
from kafkagroups.kafka_tools.jvm import ToolCrashed, format_json
from kafkagroups.log.batch import LogRecord
from kafkagroups.records.consumer_protocol import (
    HIGHEST_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.group_metadata import GroupMetadataValue
from kafkagroups.records.record_json import key_to_json, value_to_json
from kafkagroups.records.serde import DecodedKey, Record, UnknownContent, decode_key, decode_with_key
from kafkagroups.records.structs import read_message, to_json

_CLASS_BY_PARTITIONS_FIELD: dict[str, type[ConsumerProtocolSubscription | ConsumerProtocolAssignment]] = {
    "owned_partitions": ConsumerProtocolSubscription,
    "assigned_partitions": ConsumerProtocolAssignment,
}
"""The classes of a subscription and an assignment, each by its field with a list of partitions."""
_UNKNOWN_TAGS = "_unknownTaggedFields"
"""The field of a message's JSON that Kafka's own JSON does not have."""
_MAX_CACHED_BYTES = 512
"""The results for at most this number of bytes are kept."""
# InvalidRecord.cause (errors.py) is a tuple: the kind of problem, then numbers. This dict has the message of the first
# exception by the kind. {0} is the first number, {1} is the second. {field} is the name of the field.
_MESSAGE_BY_KIND = {
    "null": "non-nullable field {field} was serialized as null",
    "length": "string field {field} had invalid length {0}",
    "bytes": "Error reading byte array of {0} byte(s): only {1} byte(s) available",
    "count": "Tried to allocate a collection of size {0}, but there are only {1} bytes remaining.",
    # The next four messages are Kafka 4.4.0's. Older releases have no such limits.
    "elements": "Tried to read a collection of size {0}, which exceeds the maximum allowed size of {1}.",
    "tags": "Tried to read {0} tagged fields, but there are only {1} bytes remaining.",
    "too many tags": "Tried to read {0} tagged fields, which exceeds the maximum allowed count of {1}.",
    "negative tags": "Invalid negative number of tagged fields {0}",
    "varint": "Varint is too long, the most significant bit in the 5th byte is set, converted value: {0:x}",
    "negative": "{0}",  # The size of an unknown tag is negative. Java's message is only this size.
}


def format_key_and_value(log_record: LogRecord, dialect: Dialect) -> str:
    """Return the last part of a record's line, such as ` key: … payload: …`.

    Raises ToolCrashed if the record has no key, because the tool crashes at this record.
    """
    key = log_record.key
    offset = log_record.offset
    if key is None:
        raise ToolCrashed(f"the record at offset {offset} has no key")
    read_key = _read_key_cached if len(key) <= _MAX_CACHED_BYTES else _read_key
    try:
        decoded_key, key_text = read_key(key, dialect)
        record = decode_with_key(decoded_key, log_record.value)
    except InvalidRecord as error:
        return f" key: Error at offset {offset}, skipping. {format_kafka_error(error, key, log_record.value)}"
    if isinstance(record.key, UnknownContent):
        return f" key: Unknown record type {record.type} at offset {offset}, skipping."
    value = "<DELETE>" if record.value is None else _format_message(_value_json(record, dialect))
    return f" key: {key_text} payload: {value}"


def _read_key(key: bytes, dialect: Dialect) -> tuple[DecodedKey, str]:
    """Return a decoded key and its JSON. The same keys are in many records, so the result for few bytes is kept."""
    decoded = decode_key(key, dialect)
    return decoded, _format_message(key_to_json(Record(decoded.type, decoded.content, None, None)))


_read_key_cached = lru_cache(maxsize=2**15)(_read_key)


def _format_message(message: dict[str, Any]) -> str:
    text = format_json(message)
    return text if _UNKNOWN_TAGS not in text else format_json(drop_unknown_tags(message))


def _value_json(record: Record, dialect: Dialect) -> Any:
    """Return the JSON of a value. The JSON of a group contains the decoded subscriptions and assignments."""
    value_json: Any = value_to_json(record, dialect)
    if isinstance(record.value, GroupMetadataValue) and record.value.protocol_type == "consumer":
        for member, json_member in zip(record.value.members, value_json["data"]["members"], strict=True):
            subscription = _embedded_json(member.subscription, "owned_partitions")
            assignment = _embedded_json(member.assignment, "assigned_partitions")
            if subscription is not None:
                json_member["subscription"] = subscription
            if assignment is not None:
                json_member["assignment"] = assignment
    return value_json


def _embedded_json(data: bytes, partitions_field: str) -> dict[str, Any] | None:
    """Return the JSON of a subscription or an assignment; None if the tool prints the bytes unchanged.

    `partitions_field` is a key of `_CLASS_BY_PARTITIONS_FIELD`. The same bytes are in many records, so the result for
    few bytes is kept: the caller must not change it.
    """
    decode_embedded = _decode_cached if len(data) <= _MAX_CACHED_BYTES else _decode_embedded
    return decode_embedded(data, partitions_field)


def _decode_embedded(data: bytes, partitions_field: str) -> dict[str, Any] | None:
    """Return the result of `_embedded_json`.

    - Version below 0: the tool reads version 0.
    - Version above HIGHEST_VERSION: the tool reads HIGHEST_VERSION. It prints the bytes if the list `partitions_field`
      is not empty.
    """
    cls = _CLASS_BY_PARTITIONS_FIELD[partitions_field]
    if len(data) < 2:
        return None
    version = int.from_bytes(data[:2], "big", signed=True)
    layout_version = min(max(version, 0), HIGHEST_VERSION)
    try:
        message, _ = read_message(cls, data, 2, layout_version)
    except InvalidRecord:
        return None
    if version > HIGHEST_VERSION and getattr(message, partitions_field):
        return None
    return to_json(message, layout_version)


_decode_cached = lru_cache(maxsize=4096)(_decode_embedded)


def drop_unknown_tags(value: Any) -> Any:
    """Return JSON without the unknown tagged fields, which Kafka's JSON does not contain."""
    if isinstance(value, dict):
        return {name: drop_unknown_tags(content) for name, content in value.items() if name != _UNKNOWN_TAGS}
    if isinstance(value, list):
        return [drop_unknown_tags(element) for element in value]
    return value


def format_kafka_error(error: InvalidRecord, key: bytes, value: bytes | None) -> str:
    """Return the message of Kafka's exception for a record that `decode` (serde.py) refused with the error `error`.

    Kafka's reader of a field throws an exception that describes the problem. A second exception contains the message of
    the first one, the part of the record (key or value) and the part's version. If the bytes end too early, the first
    exception is a BufferUnderflowException, whose message is null. `key` and `value` are the bytes of the record.
    """
    path = (error.field or "key").split(".")
    part = path[0]
    field = path[-1]
    kind = str(error.cause[0]) if error.cause else ""
    numbers = error.cause[1:]
    if kind == "no version":
        return f"Could not read version from {part}'s buffer."
    if kind == "version":
        return "Found an unknown record version {} for {} type".format(*numbers)
    field = re.sub(r"\[[0-9]+\]$", " element", field)  # Kafka's name of an array's element: "members element".
    reason = _MESSAGE_BY_KIND[kind].format(*numbers, field=field) if kind else "null"
    part_bytes = value if part == "value" and value else key
    version = int.from_bytes(part_bytes[:2], "big", signed=True)
    return f"Could not read record with version {version} from {part}'s buffer due to: {reason}."
