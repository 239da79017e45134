"""A record's contents as the dump tool printed them before 3.8.

    0.10.2   key: offset::GROUP:TOPIC:PARTITION   payload: OFFSET[:METADATA]
             key: metadata::GROUP                 payload: TYPE:PROTOCOL:GENERATION:{MEMBER=[TOPIC-0, …][:USERDATA],…}
    1.0      key: {"metadata":GROUP}              payload: the same as JSON
    2.4.1    key: offset_commit::group=GROUP,partition=TOPIC-PARTITION   payload: offset=OFFSET[,metadata=METADATA]
             key: group_metadata::group=GROUP                            payload: JSON as before

The tool ends at a record that it cannot read. A tombstone is printed as nothing before 2.4.1, then as `<DELETE>`.
Members are in the order of a Scala HashMap. User data is one hexadecimal number. So is an assignment if the protocol
type is not "consumer".
Source: DumpLogSegments.OffsetsMessageParser (0.10.2.2, 1.0.1, 2.4.0), GroupMetadataManager.parseOffsets and
parseGroupMetadata (2.8.2), and the sources of old_groups.py.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.kafka_tools.jvm import ToolDied, Version, format_hex, format_json, format_reference
from kafkagroups.kafka_tools.old_groups import loaded_members
from kafkagroups.log.batch import LogRecord
from kafkagroups.records.consumer_protocol import decode_assignment
from kafkagroups.records.group_metadata import GroupMetadataValue, MemberMetadata
from kafkagroups.records.serde import UnknownContent, decode
from kafkagroups.records.versions import Dialect

SINCE_2_4 = (2, 4, 1)
"""2.4.0 still prints the text before 2.4.1."""


def format_contents(log_record: LogRecord, kafka: Version, rules: Dialect) -> str:
    """Return the text after a record's sizes: ` key: … payload: …`. InvalidRecord or ToolDied: the tool ends here."""
    newer = kafka >= SINCE_2_4
    if log_record.value is None and not newer:
        return ""
    record = decode(log_record.key, log_record.value, rules)
    key: Any = record.key
    value: Any = record.value
    if isinstance(key, UnknownContent):
        raise ToolDied(f"the record at offset {log_record.offset} is of type {record.type}")
    if record.type == 2:
        return _group_contents(key.group, value, kafka)
    return _offset_contents(key, value, newer)


def _offset_contents(key: Any, value: Any, newer: bool) -> str:
    if not newer:
        metadata = f":{value.metadata}" if value.metadata else ""
        return f" key: offset::{key.group}:{key.topic}:{key.partition} payload: {value.offset}{metadata}"
    shown = "<DELETE>"
    if value is not None:
        shown = f"offset={value.offset}" + (f",metadata={value.metadata}" if value.metadata else "")
    return f" key: offset_commit::group={key.group},partition={key.topic}-{key.partition} payload: {shown}"


def _group_contents(group: str, value: GroupMetadataValue | None, kafka: Version) -> str:
    shown = "<DELETE>" if value is None else _group(group, value, kafka)
    if kafka >= SINCE_2_4:
        return f" key: group_metadata::group={group} payload: {shown}"
    name = format_json({"metadata": group}) if kafka >= (1,) else f"metadata::{group}"
    return f" key: {name} payload: {shown}"


def _group(group: str, value: GroupMetadataValue, kafka: Version) -> str:
    members = [_assignment(member, value.protocol_type, kafka) for member in loaded_members(group, value, kafka)]
    assignment = "{" + ",".join(members) + "}"
    if kafka < (1,):
        # An empty group has no protocol type in these versions, because loadGroup came later.
        kind = value.protocol_type if value.members else ""
        return f"{kind}:{format_reference(value.protocol)}:{value.generation}:{assignment}"
    kind = value.protocol_type if value.members or kafka >= (1, 0, 1) else ""
    return format_json(
        {"protocolType": kind, "protocol": value.protocol, "generationId": value.generation, "assignment": assignment}
    )


def _assignment(member: MemberMetadata, protocol_type: str, kafka: Version) -> str:
    if protocol_type != "consumer":
        return f"{member.member_id}={format_hex(member.assignment)}"
    assignment = decode_assignment(member.assignment).message
    partitions = [f"{topic.topic}-{number}" for topic in assignment.assigned_partitions for number in topic.partitions]
    if assignment.user_data is None and kafka < SINCE_2_4:
        raise ToolDied(f"the assignment of {member.member_id} has no user data")
    user_data = format_hex(assignment.user_data or b"")
    return f"{member.member_id}=[{', '.join(partitions)}]" + (f":{user_data}" if user_data else "")
