"""The rows of the tables: what a record, and what a group that was loaded, puts into each column (`columns.py`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kafkagroups.errors import BadBytes, InvalidLog
from kafkagroups.groups.loading import OFFSET_KEYS, group_of
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch, LogRecord
from kafkagroups.log.segments import Log
from kafkagroups.records.control import ControlType, decode_control_key
from kafkagroups.records.serde import decode, to_json
from kafkagroups.records.versions import Dialect
from kafkagroups.tables.answers import described_json, subscribed_and_assigned

Row = tuple[Any, ...]


def number(partition: int | None) -> int:
    """The column `partition`: -1 for a log whose folder does not tell its number."""
    return -1 if partition is None else partition


def offset_rows(groups: Iterable[AnyGroup]) -> Iterator[Row]:
    """The table `offsets`: what the groups have committed."""
    for group in groups:
        for partition in sorted(group.offsets):
            yield _offset_row(group, partition, group.offsets[partition])


def pending_rows(groups: Iterable[AnyGroup]) -> Iterator[Row]:
    """The table `pending`: what waits for the end of its transaction, a row for each producer."""
    for group in groups:
        waiting = [(tp, producer, offset) for producer, those in group.pending.items() for tp, offset in those.items()]
        for partition, producer, offset in sorted(waiting, key=lambda entry: entry[:2]):
            yield (*_offset_row(group, partition, offset), producer)


def _offset_row(group: AnyGroup, partition: TopicPartition, offset: OffsetAndMetadata) -> Row:
    return (
        number(group.partition),
        group.group_id,
        partition.topic,
        partition.partition,
        offset.offset,
        offset.leader_epoch,
        offset.metadata,
        offset.commit_timestamp,
        offset.expire_timestamp,
        offset.topic_id,
        offset.record_offset,
    )


def group_rows(groups: Iterable[AnyGroup]) -> Iterator[Row]:
    """The table `groups`: as `load --json` shows them, members, offsets and pending topic-partitions counted."""
    for group in groups:
        shown = described_json(group)
        named = ("type", "state", "protocol_type", "protocol", "generation", "leader", "group_epoch")
        waiting = {partition for those in group.pending.values() for partition in those}
        counts = (len(shown["members"]), len(group.offsets), len(waiting))
        yield (number(group.partition), group.group_id, *map(shown.get, named), *counts)


def member_rows(groups: Iterable[AnyGroup]) -> Iterator[Row]:
    """The table `members`: as `load --json` shows them; lists are null where the member's bytes cannot be read."""
    named = ("member_id", "group_instance_id", "client_id", "client_host", "session_timeout_ms", "rebalance_timeout_ms")
    for group in groups:
        for shown in described_json(group)["members"]:
            topics, partitions = subscribed_and_assigned(group, shown)
            yield (
                number(group.partition),
                group.group_id,
                *map(shown.get, named),
                topics,
                partitions,
                shown.get("member_epoch"),
            )


OF_GROUPS: dict[str, Callable[[Iterable[AnyGroup]], Iterator[Row]]] = {
    "offsets": offset_rows,
    "pending": pending_rows,
    "groups": group_rows,
    "members": member_rows,
}


def record_rows(log: Log, rules: Dialect, *, with_json: bool = True) -> Iterator[Row]:
    """The table `records`: every record of a log, what cannot be decoded with its `error`.

    A batch whose records cannot be told apart is one row, at its first offset.
    """
    for batch in log:
        try:
            records = batch.records
        except InvalidLog as error:
            unread = LogRecord(batch.base_offset, batch.max_timestamp, None, None, magic=batch.magic)
            yield _record_row(log, batch, unread, (None,) * 8, str(error))
            continue
        for record in records:
            try:
                yield _record_row(log, batch, record, _meaning(batch, record, rules, with_json), None)
            except BadBytes as error:
                yield _record_row(log, batch, record, (None,) * 8, str(error))


def _meaning(batch: Batch, log_record: LogRecord, rules: Dialect, with_json: bool) -> Row:
    """control, type, name, group, topic, topic_partition, value_version, json."""
    if batch.is_control:
        kind = decode_control_key(log_record.key)
        known = kind in (ControlType.COMMIT, ControlType.ABORT)
        return (kind.name.lower() if known else kind.name, *(None,) * 7)
    record = decode(log_record.key, log_record.value, rules)
    key = record.key
    place = (key.topic, key.partition) if isinstance(key, OFFSET_KEYS) else (None, None)
    text = json.dumps(to_json(record, rules)) if with_json else None
    return (None, record.type, record.name, group_of(record), *place, record.value_version, text)


def _record_row(log: Log, batch: Batch, record: LogRecord, meaning: Row, error: str | None) -> Row:
    control, kind, name, group, topic, topic_partition, value_version, text = meaning
    produced = batch.producer_id != NO_PRODUCER_ID
    return (
        number(log.partition),
        record.offset,
        record.timestamp if record.magic else None,
        batch.base_offset,
        batch.producer_id if produced else None,
        batch.producer_epoch if produced else None,
        batch.is_transactional,
        control,
        kind,
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
