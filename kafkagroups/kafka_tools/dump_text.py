"""A record's key and value as the dump tool printed them before 3.8, in three formats.

The dump tool is kafka-dump-log.sh (dump_log.py). The first column is the first version with the format. All brackets
and braces are part of the text:

    0.10.2   key: offset::GROUP:TOPIC:PARTITION   payload: OFFSET:METADATA
             key: metadata::GROUP                 payload: TYPE:PROTOCOL:GENERATION:{MEMBER=[TOPIC-0, …]:USERDATA,…}
    1.0      key: offset::GROUP:TOPIC:PARTITION   payload: OFFSET:METADATA
             key: {"metadata":GROUP}              payload: the fields of 0.10.2 as JSON
    2.4.1    key: offset_commit::group=GROUP,partition=TOPIC-PARTITION   payload: offset=OFFSET,metadata=METADATA
             key: group_metadata::group=GROUP                            payload: the JSON of 1.0

- If METADATA or USERDATA is empty, the tool also leaves out the text before it (`:` or `,metadata=`).
- A record that the tool cannot read: the tool crashes.
- A tombstone: since 2.4.1, the payload is `<DELETE>`. Before 2.4.1, neither the key nor the payload is printed.
- Members: in the order of a Scala HashMap.
- USERDATA, the bytes that an assignor adds to an assignment: one hexadecimal number.
- An assignment, if the group's protocol type is not "consumer": one hexadecimal number.

Source: DumpLogSegments.OffsetsMessageParser (0.10.2.2, 1.0.1, 2.4.0); GroupMetadataManager.parseOffsets (2.8.2);
GroupMetadataManager.parseGroupMetadata (2.8.2).
"""

from __future__ import annotations

from typing import Any

from kafkagroups.groups.group import find_unreadable_subscription
from kafkagroups.groups.map_orders import hash_map_order
from kafkagroups.kafka_tools.jvm import ToolCrashed, Version, format_hex, format_json, format_nullable
from kafkagroups.log.batch import LogRecord
from kafkagroups.records.consumer_protocol import decode_assignment
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.group_metadata import GroupMetadataValue, MemberMetadata
from kafkagroups.records.serde import UnknownContent, decode


def format_key_and_value(log_record: LogRecord, kafka: Version, dialect: Dialect) -> str:
    """Return the last part of a record's line, such as ` key: … payload: …`.

    Before 2.4.1, return "" for a tombstone, because the tool does not print its key and value.

    Raises InvalidRecord or ToolCrashed if the tool crashes at this record.
    """
    if log_record.value is None and kafka < (2, 4, 1):
        return ""
    record = decode(log_record.key, log_record.value, dialect)
    key: Any = record.key
    value: Any = record.value
    if isinstance(key, UnknownContent):
        raise ToolCrashed(f"the record at offset {log_record.offset} has the unknown type {record.type}")
    if record.type == 2:
        return _format_group_record(key.group, value, kafka)
    return _format_offset_record(key, value, kafka)


def _format_offset_record(key: Any, value: Any, kafka: Version) -> str:
    if kafka < (2, 4, 1):
        metadata = f":{value.metadata}" if value.metadata else ""
        return f" key: offset::{key.group}:{key.topic}:{key.partition} payload: {value.offset}{metadata}"
    payload = "<DELETE>"
    if value is not None:
        metadata = f",metadata={value.metadata}" if value.metadata else ""
        payload = f"offset={value.offset}{metadata}"
    return f" key: offset_commit::group={key.group},partition={key.topic}-{key.partition} payload: {payload}"


def _format_group_record(group: str, value: GroupMetadataValue | None, kafka: Version) -> str:
    payload = "<DELETE>" if value is None else _format_group(group, value, kafka)
    if kafka >= (2, 4, 1):
        return f" key: group_metadata::group={group} payload: {payload}"
    key = format_json({"metadata": group}) if kafka >= (1,) else f"metadata::{group}"
    return f" key: {key} payload: {payload}"


def _format_group(group: str, value: GroupMetadataValue, kafka: Version) -> str:
    members = order_members_as_tool(group, value, kafka)
    assignments = [_format_assignment(member, value.protocol_type, kafka) for member in members]
    assignment = "{" + ",".join(assignments) + "}"
    # Before 1.0.1, Kafka sets the protocol type only when it adds a member, so a group without members has none.
    has_protocol_type = bool(value.members) or kafka >= (1, 0, 1)
    protocol_type = value.protocol_type if has_protocol_type else ""
    if kafka < (1,):
        return f"{protocol_type}:{format_nullable(value.protocol)}:{value.generation}:{assignment}"
    return format_json(
        {
            "protocolType": protocol_type,
            "protocol": value.protocol,
            "generationId": value.generation,
            "assignment": assignment,
        }
    )


def _format_assignment(member: MemberMetadata, protocol_type: str, kafka: Version) -> str:
    """Return a member's id and assignment. Raises ToolCrashed if the tool cannot print the assignment."""
    if protocol_type != "consumer":
        return f"{member.member_id}={format_hex(member.assignment)}"
    assignment = decode_assignment(member.assignment).message
    partitions = [f"{entry.topic}-{number}" for entry in assignment.assigned_partitions for number in entry.partitions]
    # Before 2.4.1, the tool crashes if the user data is null.
    if assignment.user_data is None and kafka < (2, 4, 1):
        raise ToolCrashed(f"the assignment of {member.member_id} has no user data")
    user_data = format_hex(assignment.user_data or b"")
    suffix = f":{user_data}" if user_data else ""
    return f"{member.member_id}=[{', '.join(partitions)}]{suffix}"


def order_members_as_tool(group: str, value: GroupMetadataValue, kafka: Version) -> list[MemberMetadata]:
    """Return the group's members in the order in which Kafka's Scala tools print them, that of a hash map.

    `group` is the group's id, `value` is the value of its record, and `kafka` is the version of the tool. If two
    members have the same id, only the later member is returned. Raises ToolCrashed if the tool cannot load the group.
    Source: GroupMetadata.loadGroup and GroupMetadata.add (tags 1.0.1 to 3.7.0); what the tool of 2.8.2 prints.
    """
    by_id: dict[str, MemberMetadata] = {}
    for vote_count, member in enumerate(value.members):
        # Since 2.1, the tool checks before it adds a member that the group has as many votes as members. Two members
        # with the same id are one member with two votes. So the tool crashes at the next member after these two.
        if vote_count > len(by_id) and kafka >= (2, 1):
            raise ToolCrashed(f"group {group}: two members have the same id, and another member comes after them")
        by_id[member.member_id] = member
    members = [by_id[member_id] for member_id in hash_map_order(by_id, kafka)]
    if value.protocol_type == "consumer" and value.protocol is not None and kafka >= (2, 7):
        problem = find_unreadable_subscription((member.member_id, member.subscription) for member in members)
        if problem is not None:
            raise ToolCrashed(problem)
    return members
