"""The text that `kafka-console-consumer` prints with its formatters, one line per record.

The first column is the first version with the format. CommitTime and ExpirationTime are in ms since 1970:

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

from collections.abc import Iterator
from typing import Any

from kafkagroups.errors import BadBytes
from kafkagroups.groups.map_orders import FIRST_WITH_SCALA_2_13
from kafkagroups.kafka_tools.dump_text import (
    ToolCrashed,
    Version,
    drop_unknown_tags,
    format_json,
    format_nullable,
    format_option,
    order_members_as_tool,
)
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.segments import WHOLE_LOG, Log, Notes, RecordRange, batches_until
from kafkagroups.records.dialects import Dialect, build_dialect
from kafkagroups.records.group_metadata import GroupMetadataValue
from kafkagroups.records.record_json import key_to_json, value_to_json
from kafkagroups.records.serde import UnknownContent, decode


def format_lines(
    log: Log, kafka: Version, record_range: RecordRange = WHOLE_LOG, notes: Notes | None = None
) -> Iterator[str]:
    """Yield the lines that the console consumer of the Kafka version `kafka` prints for the records in the range.

    `notes` says what else was found. Raises ToolCrashed where the consumer crashes.
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
                    yield line
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
        value = drop_unknown_tags(value_to_json(record, dialect))
        if value is not None:
            value["version"] = record.value_version
        return format_json({"key": key, "value": value})
    key_fields: Any = record.key
    if isinstance(record.value, GroupMetadataValue):
        return f"{key_fields.group}::{_format_group(key_fields.group, record.value, record.value_version, kafka)}"
    is_group_record = record.type == 2
    key_text = key_fields.group
    if not is_group_record:
        key_text = f"[{key_fields.group},{key_fields.topic},{key_fields.partition}]"
    value_text = "NULL" if record.value is None else _format_offset(record.value, kafka)
    return f"{key_text}::{value_text}"


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


def _format_group(group: str, value: GroupMetadataValue, value_version: int | None, kafka: Version) -> str:
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
