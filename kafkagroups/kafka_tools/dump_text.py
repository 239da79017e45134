"""A record's contents as the dump tool printed them before 3.8. A record that cannot be read kills it.

    0.10.2   key: offset::GROUP:TOPIC:PARTITION   payload: OFFSET[:METADATA]
             key: metadata::GROUP                 payload: TYPE:PROTOCOL:GENERATION:{MEMBER=[TOPIC-0, …][:USERDATA],…}
    1.0      key: {"metadata":GROUP}              payload: the same as JSON
    2.4.1    key: offset_commit::group=GROUP,partition=TOPIC-PARTITION   payload: offset=OFFSET[,metadata=METADATA]
             key: group_metadata::group=GROUP                            payload: JSON as before

Tombstones print nothing before 2.4.1, then `<DELETE>`. Members stand in the order of a Scala HashMap. User data, and
assignments of other protocol types than "consumer", are one number in hexadecimal.
Source: DumpLogSegments.OffsetsMessageParser (0.10.2.2, 1.0.1, 2.4.0), GroupMetadataManager.parseOffsets and
parseGroupMetadata (2.8.2), and what groups.py says.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.kafka_tools.jvm import ToolDied, Version, hexadecimal, jackson, string
from kafkagroups.kafka_tools.old_groups import loaded_members
from kafkagroups.log.batch import LogRecord
from kafkagroups.records.consumer_protocol import decode_assignment
from kafkagroups.records.group_metadata import GroupMetadataValue, MemberMetadata
from kafkagroups.records.serde import UnknownContent, decode
from kafkagroups.records.versions import Dialect

SINCE_2_4 = (2, 4, 1)
"""2.4.0 still has the text before."""


def contents(log_record: LogRecord, kafka: Version, rules: Dialect) -> str:
    """What follows a record's sizes: ` key: … payload: …`. InvalidRecord or ToolDied where the tool dies."""
    newer = kafka >= SINCE_2_4
    if log_record.value is None and not newer:
        return ""
    record = decode(log_record.key, log_record.value, rules)
    key: Any = record.key
    value: Any = record.value
    if isinstance(key, UnknownContent):
        raise ToolDied(f"the record at offset {log_record.offset} is of type {record.type}")
    if record.type == 2:
        shown = "<DELETE>" if value is None else _group(key.group, value, kafka)
        if newer:
            return f" key: group_metadata::group={key.group} payload: {shown}"
        name = jackson({"metadata": key.group}) if kafka >= (1,) else f"metadata::{key.group}"
        return f" key: {name} payload: {shown}"
    if not newer:
        metadata = f":{value.metadata}" if value.metadata else ""
        return f" key: offset::{key.group}:{key.topic}:{key.partition} payload: {value.offset}{metadata}"
    shown = "<DELETE>"
    if value is not None:
        shown = f"offset={value.offset}" + (f",metadata={value.metadata}" if value.metadata else "")
    return f" key: offset_commit::group={key.group},partition={key.topic}-{key.partition} payload: {shown}"


def _group(group: str, value: GroupMetadataValue, kafka: Version) -> str:
    members = [_assignment(member, value.protocol_type, kafka) for member in loaded_members(group, value, kafka)]
    assignment = "{" + ",".join(members) + "}"
    if kafka < (1,):
        # An empty group has no protocol type yet: loadGroup came later.
        kind = value.protocol_type if value.members else ""
        return f"{kind}:{string(value.protocol)}:{value.generation}:{assignment}"
    kind = value.protocol_type if value.members or kafka >= (1, 0, 1) else ""
    return jackson(
        {"protocolType": kind, "protocol": value.protocol, "generationId": value.generation, "assignment": assignment}
    )


def _assignment(member: MemberMetadata, protocol_type: str, kafka: Version) -> str:
    if protocol_type != "consumer":
        return f"{member.member_id}={hexadecimal(member.assignment)}"
    assignment = decode_assignment(member.assignment).message
    partitions = [f"{topic.topic}-{number}" for topic in assignment.assigned_partitions for number in topic.partitions]
    if assignment.user_data is None and kafka < SINCE_2_4:
        raise ToolDied(f"the assignment of {member.member_id} has no user data")
    user_data = hexadecimal(assignment.user_data or b"")
    return f"{member.member_id}=[{', '.join(partitions)}]" + (f":{user_data}" if user_data else "")
