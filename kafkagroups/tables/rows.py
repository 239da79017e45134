"""The rows of the tables: functions that yield a tuple for each record, group, member or offset.

A tuple has a value for each column of `TABLES` in columns.py, except for the timestamps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kafkagroups.errors import BadBytes, InvalidLog
from kafkagroups.groups.group_parts import GroupParts
from kafkagroups.groups.log_records import OFFSET_KEYS, find_group_id
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch, LogRecord
from kafkagroups.log.segments import Log
from kafkagroups.records.control import ControlType, decode_control_key
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.record_json import to_json
from kafkagroups.records.serde import decode
from kafkagroups.tables.group_json import description_json, sorted_pending, subscribed_and_assigned
from kafkagroups.tables.offset_fields import offset_values

Row = tuple[Any, ...]

_GROUP_FIELDS = ("type", "state", "protocol_type", "protocol", "generation", "leader", "group_epoch")
_MEMBER_FIELDS = (
    "member_id",
    "group_instance_id",
    "client_id",
    "client_host",
    "session_timeout_ms",
    "rebalance_timeout_ms",
)
_NOT_DECODED = (None,) * 8
"""The values of the columns that `_decode_columns` returns, for a record that cannot be decoded."""


def partition_number(partition: int | None) -> int:
    """Return the value of the column `partition`: the number of the partition, or -1 for None.

    None means that the name of the log's folder has no number.
    """
    return -1 if partition is None else partition


PartsOfGroups = Iterable[tuple[str, GroupParts]]
"""The id and the parts of each group (groups/group_parts.py), as `Groups.parts` yields them."""


def offset_rows(groups: PartsOfGroups) -> Iterator[Row]:
    """Yield the rows of the table `offsets`: the committed offsets of groups."""
    for group_id, parts in groups:
        offsets = dict(parts.offsets)
        for partition in sorted(offsets):
            yield _offset_row(parts.group.partition, group_id, partition, offsets[partition])


def pending_rows(groups: PartsOfGroups) -> Iterator[Row]:
    """Yield the rows of the table `pending`: the commits whose transaction is open.

    If several producers have a pending commit for the same topic-partition, each producer has a row.
    """
    for group_id, parts in groups:
        for partition, producer_id, offset in sorted_pending(parts.pending):
            yield (*_offset_row(parts.group.partition, group_id, partition, offset), producer_id)


def _offset_row(log_partition: int | None, group_id: str, partition: TopicPartition, offset: OffsetAndMetadata) -> Row:
    return (partition_number(log_partition), group_id, partition.topic, partition.partition, *offset_values(offset))


def group_rows(groups: PartsOfGroups) -> Iterator[Row]:
    """Yield the rows of the table `groups`: fields of `load --json`, and three counts.

    The counts are the numbers of members, of committed offsets, and of topic-partitions with pending commits.
    """
    for group_id, parts in groups:
        group = parts.decode_group()
        description = description_json(group)
        pending_partitions = {partition for offsets in parts.pending.values() for partition in offsets}
        counts = (len(description["members"]), len(parts.offsets), len(pending_partitions))
        yield (partition_number(group.partition), group_id, *map(description.get, _GROUP_FIELDS), *counts)


def member_rows(groups: PartsOfGroups) -> Iterator[Row]:
    """Yield the rows of the table `members`: fields of `load --json`, and two lists.

    The lists are the subscribed topics and the assigned partitions. A list is None if the member's subscription or
    assignment cannot be read.
    """
    for group_id, parts in groups:
        group = parts.decode_group()
        for member in description_json(group)["members"]:
            lists = subscribed_and_assigned(group, member)
            fields = map(member.get, _MEMBER_FIELDS)
            yield (partition_number(group.partition), group_id, *fields, *lists, member.get("member_epoch"))


GROUP_TABLES: dict[str, Callable[[PartsOfGroups], Iterator[Row]]] = {
    "offsets": offset_rows,
    "pending": pending_rows,
    "groups": group_rows,
    "members": member_rows,
}
"""The tables whose rows come from loaded groups."""


def record_rows(log: Log, dialect: Dialect, *, with_json: bool = True) -> Iterator[Row]:
    """Yield the rows of the table `records`: every record of a log.

    A record that cannot be decoded: its row has the reason in the column `error`.
    A batch that cannot be split into records: one row with the batch's first offset and the reason.
    `with_json` is false: the column `json` is None, and the function is faster.
    """
    for batch in log:
        try:
            records = batch.records
        except InvalidLog as error:
            unreadable = LogRecord(batch.base_offset, batch.max_timestamp, None, None, magic=batch.magic)
            yield _record_row(log, batch, unreadable, _NOT_DECODED, str(error))
            continue
        for record in records:
            try:
                yield _record_row(log, batch, record, _decode_columns(batch, record, dialect, with_json), None)
            except BadBytes as error:
                yield _record_row(log, batch, record, _NOT_DECODED, str(error))


def _decode_columns(batch: Batch, log_record: LogRecord, dialect: Dialect, with_json: bool) -> Row:
    """Return a record's control, type, name, group, topic, topic_partition, value_version and json.

    Raises BadBytes if the record cannot be decoded.
    """
    if batch.is_control:
        control_type = decode_control_key(log_record.key)
        is_marker = control_type in (ControlType.COMMIT, ControlType.ABORT)
        # Other control records keep their names in upper case.
        control = control_type.name.lower() if is_marker else control_type.name
        return (control, *_NOT_DECODED[1:])
    record = decode(log_record.key, log_record.value, dialect)
    key = record.key
    topic_partition = (key.topic, key.partition) if isinstance(key, OFFSET_KEYS) else (None, None)
    text = json.dumps(to_json(record, dialect)) if with_json else None
    return (None, record.type, record.name, find_group_id(record), *topic_partition, record.value_version, text)


def _record_row(log: Log, batch: Batch, record: LogRecord, decoded: Row, error: str | None) -> Row:
    """Return the row of a record. `decoded` is the result of `_decode_columns`."""
    control, record_type, name, group, topic, topic_partition, value_version, text = decoded
    has_producer = batch.producer_id != NO_PRODUCER_ID
    return (
        partition_number(log.partition),
        record.offset,
        record.timestamp if record.magic else None,
        batch.base_offset,
        batch.producer_id if has_producer else None,
        batch.producer_epoch if has_producer else None,
        batch.is_transactional,
        control,
        record_type,
        name,
        group,
        topic,
        topic_partition,
        record.key,
        record.value,
        value_version,
        text,
        error,
    )
