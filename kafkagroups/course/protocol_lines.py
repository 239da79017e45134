"""Lesson 13: the records of consumer, share and streams groups as short lines.

The records contain ids, so the names are collected from the log first: of clients from the records of members, and of
topics from those of commits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import OFFSET_KEYS, find_group_id
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.folders import open_logs
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.serde import Record, decode

_MEMBER_TYPES = (5, 10, 19)
_GROUP_EPOCH_TYPES = (3, 11, 17)
_TARGET_TYPES = (7, 13, 21)
_ASSIGNMENT_EPOCH_TYPES = (6, 12, 20)
_CURRENT_TYPES = (8, 14, 22)
_TEXT_BY_TYPE = {
    4: "topics and partitions",
    15: "share partitions",
    16: "regular expression",
    23: "topology",
}


class Names(NamedTuple):
    clients: dict[str, str]
    topics: dict[str, str]


class ProtocolLine(NamedTuple):
    """One record of a group, without its bytes.

    `bracket` is a part of the bracket around the group's records in one batch, or a blank for a single record.
    """

    record_offset: int
    record_type: int
    text: str
    bracket: str

    def __str__(self) -> str:
        return f"{self.bracket} {self.record_offset:>2}: type {self.record_type:>2}, {self.text}"


def print_protocol_lines(path: str | Path, group: str, first_offset: int = 0, last_offset: int | None = None) -> None:
    print(*read_protocol_lines(path, group, first_offset, last_offset), sep="\n")


def read_protocol_lines(
    path: str | Path, group: str, first_offset: int = 0, last_offset: int | None = None
) -> list[ProtocolLine]:
    """Return one line for each record of a group in a partition folder, up to `last_offset` or the end of the log."""
    batches = [batch for log in open_logs(path) for batch in log]
    names = collect_batch_names(batches)
    end = math.inf if last_offset is None else last_offset
    records_by_batch: dict[int, list[tuple[int, Record]]] = {}
    for batch, log_record, record in _read_records(batches):
        if find_group_id(record) == group:
            records_by_batch.setdefault(batch.base_offset, []).append((log_record.offset, record))
    return [
        ProtocolLine(offset, record.type, describe_record(record, names), bracket)
        for records in records_by_batch.values()
        for (offset, record), bracket in zip(records, _draw_bracket(len(records)), strict=True)
        if first_offset <= offset <= end
    ]


def collect_names(path: str | Path) -> Names:
    return collect_batch_names(batch for log in open_logs(path) for batch in log)


def collect_batch_names(batches: Iterable[Batch]) -> Names:
    names = Names({}, {})
    for _, _, record in _read_records(batches):
        if record.type in _MEMBER_TYPES and record.value is not None:
            names.clients[_get(record.key, "member_id")] = _get(record.value, "client_id")
        topic_id = getattr(record.value, "topic_id", None)
        if isinstance(record.key, OFFSET_KEYS) and topic_id is not None:
            names.topics[topic_id] = record.key.topic
        for topics in ("initializing_topics", "initialized_topics"):
            names.topics.update({topic.topic_id: topic.topic_name for topic in getattr(record.value, topics, ())})
    return names


def describe_record(record: Record, names: Names) -> str:
    text = name_record(record, names)
    if record.value is None:
        return text
    if record.type in _TARGET_TYPES:
        return f"{text}: {_list_assignment(record.value, names)}"
    if record.type in _CURRENT_TYPES:
        return f"{text}: {', '.join(describe_current(record.value, names))}"
    return text


def name_record(record: Record, names: Names) -> str:
    """Return the text of `describe_record` without the partitions and tasks of a member."""
    value: Any = record.value
    if isinstance(record.key, OFFSET_KEYS):
        text = f"offset of {record.key.topic}-{record.key.partition}"
        return f"{text} deleted" if value is None else f"{text} = {value.offset}"
    if isinstance(record.key, GroupMetadataKey):
        return "classic group deleted" if value is None else f"classic group, generation {value.generation}"
    if record.type in _GROUP_EPOCH_TYPES:
        return "group epoch deleted" if value is None else f"group epoch {value.epoch}"
    if record.type in _ASSIGNMENT_EPOCH_TYPES:
        return "assignment epoch deleted" if value is None else f"assignment epoch {value.assignment_epoch}"
    if record.type in _MEMBER_TYPES:
        text = f"member {_name_member(record, names)}"
    elif record.type in _TARGET_TYPES:
        text = f"target of {_name_member(record, names)}"
    elif record.type in _CURRENT_TYPES:
        text = f"current assignment of {_name_member(record, names)}"
    elif record.type in _TEXT_BY_TYPE:
        text = _TEXT_BY_TYPE[record.type] + _describe_group_value(record)
    else:
        text = f"a record of type {record.type}"
    return f"{text} deleted" if value is None else text


def describe_current(value: Any, names: Names) -> list[str]:
    """Return what a member's current assignment (types 8, 14, 22) says: epoch and state, partitions, revocations."""
    texts = [f"epoch {value.member_epoch}, state {value.state}", _list_assignment(value, names)]
    # Only consumer groups have this list. Streams groups have three lists of tasks, which the lesson does not need.
    revoked = _list_partitions(getattr(value, "partitions_pending_revocation", ()), names)
    return [*texts, f"must revoke {revoked}"] if revoked else texts


def _name_member(record: Record, names: Names) -> str:
    member_id: str = _get(record.key, "member_id")
    return names.clients.get(member_id, member_id)


def _describe_group_value(record: Record) -> str:
    value: Any = record.value
    if record.type == 16:
        return f" {_get(record.key, 'regular_expression')}"
    if value is None:
        return ""
    if record.type == 15:
        topics = {
            "initializing": value.initializing_topics,
            "initialized": value.initialized_topics,
            "deleting": value.deleting_topics,
        }
        return ": " + ", ".join(f"{label} {topic.topic_name}" for label, listed in topics.items() for topic in listed)
    if record.type == 23:
        return f", epoch {value.epoch}, {len(value.subtopologies)} subtopologies"
    return ""


def _list_assignment(value: Any, names: Names) -> str:
    if hasattr(value, "active_tasks"):
        tasks = [f"{task.subtopology_id}_{partition}" for task in value.active_tasks for partition in task.partitions]
        return f"tasks {' '.join(tasks)}" if tasks else "no tasks"
    topics = getattr(value, "topic_partitions", None)
    if topics is None:
        topics = value.assigned_partitions
    return _list_partitions(topics, names) or "nothing"


def _list_partitions(topics: Sequence[Any], names: Names) -> str:
    partitions = [
        f"{names.topics.get(topic.topic_id, topic.topic_id)}-{partition}"
        for topic in topics
        for partition in topic.partitions
    ]
    return " ".join(partitions)


def _draw_bracket(record_count: int) -> str:
    return " " if record_count == 1 else "┌" + "│" * (record_count - 2) + "└"


def _get(message: Any, field: str) -> Any:
    return getattr(message, field)


def _read_records(batches: Iterable[Batch]) -> Iterator[tuple[Batch, LogRecord, Record]]:
    for batch in batches:
        if batch.is_control:
            continue
        for log_record in batch.records:
            try:
                record = decode(log_record.key, log_record.value)
            except BadBytes:
                continue
            yield batch, log_record, record
