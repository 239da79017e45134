"""The text of a record as Kafka's dump tool prints it, and as the console consumer prints it with its formatters.

The dump tool (dump_log.py) prints keys and values before 3.8 in three formats, and since 3.8 as Kafka's JSON.

The first column is the first version with the format. All brackets and braces are part of the text:

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

Since 3.8, the tool prints the subscriptions and assignments of a classic consumer group's members as JSON, too. If it
cannot read one of them, it prints the bytes instead. If it cannot read a record, it prints an error and goes on.
Source: DumpLogSegments.OffsetsMessageParser (0.10.2.2, 1.0.1, 2.4.0, 3.8.0, 3.9.0); GroupMetadataManager.parseOffsets
and parseGroupMetadata (2.8.2); CoordinatorRecordMessageParser (4.3.1); the dump tool's output for crafted logs. For the
errors: captured messages of GroupCoordinatorRecordSerde (errors.jsonl of 4.3.1, limits.jsonl of 4.4.0, in tests);
ByteBufferAccessor.java and ByteUtils.java (4.3.1).

The console consumer prints one line per record. CommitTime and ExpirationTime are in ms since 1970:

    0.8.2   [GROUP,TOPIC,PARTITION]::OffsetAndMetadata[OFFSET,METADATA,TIMESTAMP]
    0.9     [GROUP,TOPIC,PARTITION]::[OffsetMetadata[OFFSET,METADATA],CommitTime …,ExpirationTime …]
            GROUP::[GROUP,TYPE,STATE,Map(MEMBER -> […], …)]
    0.11    GROUP::GroupMetadata(groupId=…, …, members=Map(MEMBER -> MemberMetadata(…), …))
    2.1     [GROUP,TOPIC,PARTITION]::OffsetAndMetadata(offset=…, leaderEpoch=…, metadata=…, …)
    3.9     {"key":{"version":1,"data":…},"value":{"version":3,"data":…}}
    4.1     {"key":{"type":1,"data":…},"value":{"version":4,"data":…}}

Kafka has one formatter for offset records and one for group records, and prints no others. The value of a tombstone is
printed as `NULL`, or as null in JSON. The console consumer crashes at a record that it cannot read. Kafka prints no
line break after JSON, but here each record has its own line.
Source: OffsetsMessageFormatter and GroupMetadataMessageFormatter (tags 0.8.2.2 to 3.9.0, class files of 4.0.2 to
4.3.1); the output of both formatters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from kafkagroups.errors import BadBytes, InvalidRecord
from kafkagroups.groups.group import find_unreadable_subscription
from kafkagroups.groups.map_orders import FIRST_WITH_SCALA_2_13, hash_map_order
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.segments import WHOLE_LOG, Log, Notes, RecordRange, batches_until
from kafkagroups.records import consumer_protocol
from kafkagroups.records.group_metadata import GroupMetadataValue, MemberMetadata
from kafkagroups.records.record_json import key_to_json, remove_fields, value_to_json
from kafkagroups.records.releases import Dialect, Version, build_dialect
from kafkagroups.records.serde import DecodedKey, Record, UnknownContent, decode, decode_key, decode_with_key
from kafkagroups.records.structs import Message, read_message, to_json

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class ToolCrashed(Exception):
    """Kafka's own tool crashes at this place of the log and prints nothing more."""


def format_json(value: Any) -> str:
    """JSON as Jackson prints it: no spaces, non-ASCII characters unchanged, upper-case digits in \\u escapes."""
    # json.dumps prints the digits in lower case. In JSON, two backslashes are one backslash of the text. So the pattern
    # finds a `u` only after an odd number of backslashes; after an even number, the `u` does not begin an escape.
    text = _ENCODER.encode(value)
    if "\\u" not in text:
        return text
    return re.sub(r"(?<!\\)((?:\\\\)*\\u)([0-9a-f]{4})", lambda match: match[1] + match[2].upper(), text)


def format_option(value: object) -> str:
    """Scala's text of an Option: `Some(…)`, or `None` if the value is None."""
    return "None" if value is None else f"Some({value})"


def format_nullable(value: object) -> str:
    """Java's text of an object: `null` if the value is None."""
    return "null" if value is None else str(value)


def format_hex(data: bytes) -> str:
    """Bytes as one unsigned number, in upper-case hexadecimal without leading zeros; "" for empty bytes."""
    return f"{int.from_bytes(data, 'big'):X}" if data else ""


def format_text_pair(log_record: LogRecord, kafka: Version, dialect: Dialect) -> str:
    """Return the last part of a record's line, such as ` key: … payload: …`.

    Before 2.4.1, it is "" for a tombstone, because the tool does not print its key and value. Raises InvalidRecord or
    ToolCrashed if the tool crashes at this record.
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
    if protocol_type != "consumer":
        return f"{member.member_id}={format_hex(member.assignment)}"
    assignment = consumer_protocol.decode_assignment(member.assignment).message
    partitions = [f"{entry.topic}-{number}" for entry in assignment.assigned_partitions for number in entry.partitions]
    # Before 2.4.1, the tool crashes if the user data is null.
    if assignment.user_data is None and kafka < (2, 4, 1):
        raise ToolCrashed(f"the assignment of {member.member_id} has no user data")
    user_data = format_hex(assignment.user_data or b"")
    suffix = f":{user_data}" if user_data else ""
    return f"{member.member_id}=[{', '.join(partitions)}]{suffix}"


def order_members_as_tool(group: str, value: GroupMetadataValue, kafka: Version) -> list[MemberMetadata]:
    """Return the group's members in the order in which Kafka's Scala tools print them, that of a hash map.

    Of two members with the same id, only the later one is returned. Raises ToolCrashed if the tool cannot load the
    group.
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


_EMBEDDED: dict[str, tuple[type[Message], str]] = {
    "subscription": (consumer_protocol.ConsumerProtocolSubscription, "owned_partitions"),
    "assignment": (consumer_protocol.ConsumerProtocolAssignment, "assigned_partitions"),
}
_UNKNOWN_TAGS = ("_unknownTaggedFields",)
"""The fields that Kafka's JSON does not contain."""
_MAX_CACHED_BYTES = 512
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


def format_json_pair(log_record: LogRecord, dialect: Dialect) -> str:
    """Return the last part of a record's line.

    Raises ToolCrashed if the record has no key, as the tool crashes there.
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
    """Many records have the same key, so the result for few bytes is kept."""
    decoded = decode_key(key, dialect)
    return decoded, _format_message(key_to_json(Record(decoded.type, decoded.content, None, None)))


_read_key_cached = lru_cache(maxsize=2**15)(_read_key)


def _format_message(message: dict[str, Any]) -> str:
    text = format_json(message)
    return text if _UNKNOWN_TAGS[0] not in text else format_json(remove_fields(message, _UNKNOWN_TAGS))


def _value_json(record: Record, dialect: Dialect) -> Any:
    value_json: Any = value_to_json(record, dialect)
    if isinstance(record.value, GroupMetadataValue) and record.value.protocol_type == "consumer":
        for member, json_member in zip(record.value.members, value_json["data"]["members"], strict=True):
            for name in _EMBEDDED:
                data = getattr(member, name)
                # Many records have the same bytes, so the result for few bytes is kept: nobody changes it.
                decode_embedded = _decode_cached if len(data) <= _MAX_CACHED_BYTES else _decode_embedded
                embedded = decode_embedded(data, name)
                if embedded is not None:
                    json_member[name] = embedded
    return value_json


def _decode_embedded(data: bytes, name: str) -> dict[str, Any] | None:
    """Return the JSON of a subscription or an assignment; None if the tool prints the bytes unchanged."""
    """- Version below 0: the tool reads version 0.
    - Version above HIGHEST_VERSION: the tool reads HIGHEST_VERSION. It prints the bytes if the list of
      partitions is not empty.
    """
    cls, partitions_field = _EMBEDDED[name]
    if len(data) < 2:
        return None
    version = int.from_bytes(data[:2], "big", signed=True)
    layout_version = min(max(version, 0), consumer_protocol.HIGHEST_VERSION)
    try:
        message, _ = read_message(cls, data, 2, layout_version)
    except InvalidRecord:
        return None
    if version > consumer_protocol.HIGHEST_VERSION and getattr(message, partitions_field):
        return None
    return to_json(message, layout_version)


_decode_cached = lru_cache(maxsize=4096)(_decode_embedded)


def format_kafka_error(error: InvalidRecord, key: bytes, value: bytes | None) -> str:
    """Return the message of Kafka's exception for a record that `decode` (serde.py) refused with the error `error`.

    Kafka's reader of a field throws an exception that describes the problem, and a second one contains its message, the
    part of the record (key or value) and the part's version. If the bytes end too early, the first exception is a
    BufferUnderflowException, whose message is null.
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


def format_lines(
    log: Log, kafka: Version, record_range: RecordRange = WHOLE_LOG, notes: Notes | None = None
) -> Iterator[str]:
    """Yield the lines that the console consumer of the Kafka version `kafka` prints for the records in the range.

    Raises ToolCrashed where the consumer crashes.
    """
    # Since 3.9, the formatters read records with the new coordinator's rules and print JSON.
    dialect = build_dialect("new" if kafka >= (3, 9) else "classic", kafka, ".".join(map(str, kafka)))
    for batch in batches_until(log, record_range.stop, notes):
        if batch.is_control:
            continue
        try:
            for record in record_range.select_records(batch):
                line = _format_record(record, kafka, dialect)
                if line is not None:
                    yield f"{line}\n"
        except BadBytes as error:
            raise ToolCrashed(f"{batch.file}: {error}") from None


def _format_record(log_record: LogRecord, kafka: Version, dialect: Dialect) -> str | None:
    if log_record.key is None:
        return None
    record = decode(log_record.key, log_record.value, dialect)
    if isinstance(record.key, UnknownContent) or record.type > 2:
        return None
    if kafka >= (3, 9):
        type_name = "version" if kafka < (4, 1) else "type"
        key = {type_name: record.type, "data": key_to_json(record)["data"]}
        value = remove_fields(value_to_json(record, dialect), _UNKNOWN_TAGS)
        if value is not None:
            value["version"] = record.value_version
        return format_json({"key": key, "value": value})
    fields: Any = record.key
    key_text = fields.group if record.type == 2 else f"[{fields.group},{fields.topic},{fields.partition}]"
    if isinstance(record.value, GroupMetadataValue):
        return f"{key_text}::{_format_group_metadata(fields.group, record.value, record.value_version, kafka)}"
    return f"{key_text}::{'NULL' if record.value is None else _format_offset(record.value, kafka)}"


def _format_offset(value: Any, kafka: Version) -> str:
    expire_timestamp = getattr(value, "expire_timestamp", -1)
    if kafka >= (2, 1):
        leader_epoch = getattr(value, "leader_epoch", -1)
        epoch_text = "Optional.empty" if leader_epoch == -1 else f"Optional[{leader_epoch}]"
        expiry_text = format_option(None if expire_timestamp == -1 else expire_timestamp)
        return (
            f"OffsetAndMetadata(offset={value.offset}, "
            f"leaderEpoch={epoch_text}, metadata={value.metadata}, "
            f"commitTimestamp={value.commit_timestamp}, expireTimestamp={expiry_text})"
        )
    metadata = value.metadata or "NO_METADATA"
    if kafka >= (0, 9):
        times = f"CommitTime {value.commit_timestamp},ExpirationTime {expire_timestamp}"
        return f"[OffsetMetadata[{value.offset},{metadata}],{times}]"
    time = "" if value.commit_timestamp == -1 else f",{value.commit_timestamp}"
    return f"OffsetAndMetadata[{value.offset},{metadata}{time}]"


def _format_group_metadata(group: str, value: GroupMetadataValue, value_version: int | None, kafka: Version) -> str:
    # Before 1.0.1, Kafka sets the protocol type only when it adds a member, so a group without members has none.
    keeps_protocol_type = value.protocol_type != "" and kafka >= (1, 0, 1)
    has_protocol_type = bool(value.members) or keeps_protocol_type
    protocol_type = format_option(value.protocol_type if has_protocol_type else None)
    # Before 0.10.1, there is no state Empty.
    state = "Stable" if value.members or kafka < (0, 10, 1) else "Empty"
    members = []
    for member in order_members_as_tool(group, value, kafka):
        if kafka < (0, 11):
            fields = f"{member.member_id},{member.client_id},{member.client_host},{member.session_timeout}"
            members.append(f"{member.member_id} -> [{fields}]")
            continue
        instance = f"groupInstanceId={format_option(member.group_instance_id)}, " if kafka >= (2, 3) else ""
        # A value of version 0 has no rebalance timeout, so Kafka uses the session timeout.
        rebalance_timeout = member.rebalance_timeout if value_version else member.session_timeout
        suffix = ", " if kafka < (3,) else ""  # Before 3.0, a comma follows the last field, too.
        members.append(
            f"{member.member_id} -> MemberMetadata(memberId={member.member_id}, {instance}"
            f"clientId={member.client_id}, clientHost={member.client_host}, "
            f"sessionTimeoutMs={member.session_timeout}, rebalanceTimeoutMs={rebalance_timeout}, "
            f"supportedProtocols=List({format_nullable(value.protocol)}){suffix})"
        )
    map_name = "HashMap" if kafka >= FIRST_WITH_SCALA_2_13 else "Map"
    member_map = f"{map_name}({', '.join(members)})"
    if kafka < (0, 11):
        type_text = protocol_type if kafka >= (0, 10, 1) else value.protocol_type
        return f"[{group},{type_text},{state},{member_map}]"
    return (
        f"GroupMetadata(groupId={group}, generation={value.generation}, protocolType={protocol_type}, "
        f"currentState={state}, members={member_map})"
    )
