"""A record's contents as the dump tool prints them since 3.8: key and value as Kafka's JSON.

The subscriptions and assignments of a consumer group's members are shown as JSON if they can be read. Unknown tagged
fields are left out. For a record that cannot be read, the tool prints an error and skips the record.
Source: DumpLogSegments.OffsetsMessageParser (3.8.0, 3.9.0), CoordinatorRecordMessageParser (4.3.1), and the output of
that tool for crafted logs.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.errors import InvalidRecord
from kafkagroups.kafka_tools.jvm import ToolDied, format_json
from kafkagroups.kafka_tools.words import kafka_message
from kafkagroups.log.batch import LogRecord
from kafkagroups.records.consumer_protocol import (
    HIGHEST_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafkagroups.records.group_metadata import GroupMetadataValue
from kafkagroups.records.record_json import key_to_json, value_to_json
from kafkagroups.records.serde import Record, UnknownContent, decode
from kafkagroups.records.structs import reader, to_json
from kafkagroups.records.versions import Dialect


def format_contents(log_record: LogRecord, rules: Dialect) -> str:
    """Return the text after a record's sizes: ` key: … payload: …`. ToolDied: the record has no key."""
    key = log_record.key
    offset = log_record.offset
    if key is None:
        raise ToolDied(f"the record at offset {offset} has no key")
    try:
        record = decode(key, log_record.value, rules)
    except InvalidRecord as error:
        return f" key: Error at offset {offset}, skipping. {kafka_message(error, key, log_record.value)}"
    if isinstance(record.key, UnknownContent):
        return f" key: Unknown record type {record.type} at offset {offset}, skipping."
    value = "<DELETE>" if record.value is None else format_json(_value(record, rules))
    return f" key: {format_json(known_json(key_to_json(record)))} payload: {value}"


def _value(record: Record, rules: Dialect) -> Any:
    """Return the JSON of a value, with the bytes inside its members decoded."""
    shown = known_json(value_to_json(record, rules))
    if isinstance(record.value, GroupMetadataValue) and record.value.protocol_type == "consumer":
        for member, json_member in zip(record.value.members, shown["data"]["members"], strict=True):
            subscription = _embedded(ConsumerProtocolSubscription, member.subscription, "owned_partitions")
            assignment = _embedded(ConsumerProtocolAssignment, member.assignment, "assigned_partitions")
            if subscription is not None:
                json_member["subscription"] = subscription
            if assignment is not None:
                json_member["assignment"] = assignment
    return shown


def _embedded(
    cls: type[ConsumerProtocolSubscription | ConsumerProtocolAssignment], data: bytes, structs: str
) -> dict[str, Any] | None:
    """Return the JSON of a subscription or an assignment; None if the tool prints the bytes unchanged.

    The tool reads a version above the highest as the highest, but it cannot read partitions (`structs`) in it. It reads
    a negative version as 0.
    """
    if len(data) < 2:
        return None
    version = int.from_bytes(data[:2], "big", signed=True)
    layout = min(max(version, 0), HIGHEST_VERSION)
    try:
        message = reader(cls, layout)(data, 2)[0]
    except InvalidRecord:
        return None
    if version > HIGHEST_VERSION and getattr(message, structs):
        return None
    return to_json(message, layout)


def known_json(value: Any) -> Any:
    """Return our JSON without the unknown tagged fields, which Kafka's JSON does not have."""
    if isinstance(value, dict):
        return {name: known_json(content) for name, content in value.items() if name != "_unknownTaggedFields"}
    return [known_json(element) for element in value] if isinstance(value, list) else value
