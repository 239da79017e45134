"""The text of `kafka-console-consumer` with its two formatters, one line for each record.

    0.8.2   [GROUP,TOPIC,PARTITION]::OffsetAndMetadata[OFFSET,METADATA,TIMESTAMP]
    0.9     [GROUP,TOPIC,PARTITION]::[OffsetMetadata[OFFSET,METADATA],CommitTime T,ExpirationTime T]
            GROUP::[GROUP,TYPE,STATE,Map(MEMBER -> […], …)]
    0.11    GROUP::GroupMetadata(groupId=…, …, members=Map(MEMBER -> MemberMetadata(…), …))
    2.1     [GROUP,TOPIC,PARTITION]::OffsetAndMetadata(offset=…, leaderEpoch=…, metadata=…, …)
    3.9     {"key":{"version":1,"data":…},"value":{"version":3,"data":…}}
    4.1     {"key":{"type":1,"data":…},"value":{"version":4,"data":…}}

One formatter prints offsets, the other one prints groups; other record types have none. A tombstone is `NULL`, in JSON
null. A consumer never prints control records. The consumer ends at a record that it cannot read. Kafka prints no line
break after JSON. Here each record has its own line.
Source: OffsetsMessageFormatter, GroupMetadataMessageFormatter and their output (tags 0.8.2.2 to 3.9.0, class files of
4.0.2 to 4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkagroups.errors import BadBytes
from kafkagroups.groups.map_orders import SCALA_2_13
from kafkagroups.kafka_tools.dump_json import known_json
from kafkagroups.kafka_tools.jvm import ToolDied, Version, format_json, format_option, format_reference
from kafkagroups.kafka_tools.old_groups import loaded_members
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.segments import Log
from kafkagroups.records.group_metadata import GroupMetadataValue
from kafkagroups.records.record_json import key_to_json, value_to_json
from kafkagroups.records.serde import UnknownContent, decode
from kafkagroups.records.versions import Dialect, build_dialect


def format_lines(log: Log, kafka: Version) -> Iterator[str]:
    """Yield the lines that the console consumer prints for a log, in its order. ToolDied: the consumer ends here."""
    rules = build_dialect("new" if kafka >= (3, 9) else "classic", kafka, ".".join(map(str, kafka)))
    for batch in log:
        try:
            for record in () if batch.is_control else batch.records:
                line = _line(record, kafka, rules)
                if line is not None:
                    yield line
        except BadBytes as error:
            raise ToolDied(f"{batch.file}: {error}") from None


def _line(log_record: LogRecord, kafka: Version, rules: Dialect) -> str | None:
    if log_record.key is None:
        return None
    record = decode(log_record.key, log_record.value, rules)
    if isinstance(record.key, UnknownContent) or record.type > 2:
        return None
    if kafka >= (3, 9):
        value = known_json(value_to_json(record, rules))
        key = {"version" if kafka < (4, 1) else "type": record.type, "data": key_to_json(record)["data"]}
        return format_json({"key": key, "value": value and value | {"version": record.value_version}})
    named: Any = record.key
    if isinstance(record.value, GroupMetadataValue):
        return f"{named.group}::{_group(named.group, record.value, record.value_version, kafka)}"
    name = named.group if record.type == 2 else f"[{named.group},{named.topic},{named.partition}]"
    return f"{name}::{'NULL' if record.value is None else _offset(record.value, kafka)}"


def _offset(value: Any, kafka: Version) -> str:
    expires = getattr(value, "expire_timestamp", -1)
    if kafka >= (2, 1):
        epoch = getattr(value, "leader_epoch", -1)
        shown_epoch = "Optional.empty" if epoch == -1 else f"Optional[{epoch}]"
        shown_expiry = format_option(None if expires == -1 else expires)
        return (
            f"OffsetAndMetadata(offset={value.offset}, "
            f"leaderEpoch={shown_epoch}, metadata={value.metadata}, "
            f"commitTimestamp={value.commit_timestamp}, expireTimestamp={shown_expiry})"
        )
    metadata = value.metadata or "NO_METADATA"
    if kafka >= (0, 9):
        times = f"CommitTime {value.commit_timestamp},ExpirationTime {expires}"
        return f"[OffsetMetadata[{value.offset},{metadata}],{times}]"
    time = "" if value.commit_timestamp == -1 else f",{value.commit_timestamp}"
    return f"OffsetAndMetadata[{value.offset},{metadata}{time}]"


def _group(group: str, value: GroupMetadataValue, version: int | None, kafka: Version) -> str:
    kind = format_option(value.protocol_type if value.members or (value.protocol_type and kafka >= (1, 0, 1)) else None)
    state = "Stable" if value.members or kafka < (0, 10, 1) else "Empty"
    members = []
    for member in loaded_members(group, value, kafka):
        if kafka < (0, 11):
            fields = f"{member.member_id},{member.client_id},{member.client_host},{member.session_timeout}"
            members.append(f"{member.member_id} -> [{fields}]")
            continue
        instance = f"groupInstanceId={format_option(member.group_instance_id)}, " if kafka >= (2, 3) else ""
        timeout = member.rebalance_timeout if version else member.session_timeout
        members.append(
            f"{member.member_id} -> MemberMetadata(memberId={member.member_id}, {instance}"
            f"clientId={member.client_id}, clientHost={member.client_host}, "
            f"sessionTimeoutMs={member.session_timeout}, rebalanceTimeoutMs={timeout}, "
            f"supportedProtocols=List({format_reference(value.protocol)}){'' if kafka >= (3,) else ', '})"
        )
    shown = f"{'HashMap' if kafka >= SCALA_2_13 else 'Map'}({', '.join(members)})"
    if kafka < (0, 11):
        return f"[{group},{kind if kafka >= (0, 10, 1) else value.protocol_type},{state},{shown}]"
    return (
        f"GroupMetadata(groupId={group}, generation={value.generation}, protocolType={kind}, "
        f"currentState={state}, members={shown})"
    )
