"""The records of a log as short lines, to print and to replay, and as bytes.

Lesson 13 shows the records of consumer, share and streams groups. They contain ids, so the names are collected from the
log first: of clients from the records of members, and of topics from those of commits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.groups.replay import find_group_id, read_control_type
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.folders import open_log, open_logs
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.offset_commit import OffsetCommitKey
from kafkagroups.records.serde import ControlType, Record, decode


class Line(NamedTuple):
    """One record of a log, without its bytes. A field that the record does not have is None.

    `record_type` is "offset" for a committed offset, "group" for the state of a group, "commit" or "abort" for a
    transaction marker, or a short description of any other record. `partition` is, for example, "orders-0". `value` is
    the committed offset or the generation, and None in a tombstone. `producer` is the producer id of a marker, or of a
    record in a transaction.
    """

    record_offset: int
    record_type: str
    group: str | None = None
    partition: str | None = None
    value: int | None = None
    producer: int | None = None

    def __str__(self) -> str:
        return f"{self.record_offset:>2}: {self._describe()}"

    def _describe(self) -> str:
        producer = "" if self.producer is None else f", producer {self.producer}"
        if self.record_type == "offset":
            value = "deleted" if self.value is None else f"= {self.value}"
            return f"{self.group} {self.partition} {value}{producer}"
        if self.record_type == "group":
            generation = "deleted" if self.value is None else f"generation {self.value}"
            return f"{self.group}, {generation}{producer}"
        if self.record_type in ("commit", "abort"):
            return f"producer {self.producer} {self.record_type}s"
        return self.record_type


class Lines(list[Line]):
    """A list of lines. In the printed form, " | " separates the lines."""

    def __repr__(self) -> str:
        return " | ".join(str(line).strip() for line in self)


def read_lines(path: str | Path) -> Lines:
    """Return one line for each record of a partition folder, a segment file, or a folder of partition folders.

    Raises UsageError if there is no log at this path.
    """
    return Lines(line for log in open_logs(path) for batch in log for line in read_batch_lines(batch))


def read_batch_lines(batch: Batch) -> Iterator[Line]:
    for record in batch.records:
        yield _make_control_line(batch, record) if batch.is_control else _make_record_line(batch, record)


def _make_control_line(batch: Batch, record: LogRecord) -> Line:
    control_type = read_control_type(record)
    if control_type in (ControlType.COMMIT, ControlType.ABORT):
        return Line(record.offset, control_type.name.lower(), producer=batch.producer_id)
    return Line(record.offset, "a control record that is not a transaction marker")


def _make_record_line(batch: Batch, log_record: LogRecord) -> Line:
    try:
        record = decode(log_record.key, log_record.value)
    except BadBytes:
        return Line(log_record.offset, "a record that cannot be read")
    producer = batch.producer_id if batch.is_transactional else None
    if isinstance(record.key, OffsetCommitKey):
        partition = f"{record.key.topic}-{record.key.partition}"
        # The value of a tombstone is None, so it has no offset (or generation, in a group record).
        offset = getattr(record.value, "offset", None)
        return Line(log_record.offset, "offset", record.key.group, partition, offset, producer)
    if isinstance(record.key, GroupMetadataKey):
        generation = getattr(record.value, "generation", None)
        return Line(log_record.offset, "group", record.key.group, value=generation, producer=producer)
    group = find_group_id(record)
    return Line(log_record.offset, f"a record of type {record.type}" + (f" of {group}" if group is not None else ""))


def read_record(path: str, offset: int) -> tuple[bytes | None, bytes | None]:
    """Return the key and the value of the record at an offset of a partition folder or a segment file.

    Raises UsageError if the log has no record at this offset.
    """
    record = find_record(open_log(path), offset, path)
    return record.key, record.value


def find_record(batches: Iterable[Batch], offset: int, log: str) -> LogRecord:
    for batch in batches:
        for record in batch.records:
            if record.offset == offset:
                return record
    raise UsageError(f"{log} has no record at offset {offset}")


def read_string(data: bytes, position: int) -> tuple[str | None, int]:
    """Return the text at a position of a key or of a value that is not flexible, and the position after the text.

    At the position is the text's length, which has two bytes. A negative length means null.
    """
    length = int.from_bytes(data[position : position + 2], "big", signed=True)
    start = position + 2
    if length < 0:
        return None, start
    return data[start : start + length].decode(), start + length


def hexdump(data: bytes, first_position: int = 0) -> None:
    """Print bytes, 16 per line: the position, the bytes in hex, and the characters, with a dot for unprintable ones."""
    for start in range(0, len(data), 16):
        line = data[start : start + 16]
        left_hex = line[:8].hex(" ")
        right_hex = line[8:].hex(" ")
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in line)
        print(f"{first_position + start:>6}  {left_hex:<23}  {right_hex:<23}  {text}")


_MEMBER_TYPES = (5, 10, 19)
_GROUP_EPOCH_TYPES = (3, 11, 17)
_TARGET_TYPES = (7, 13, 21)
_ASSIGNMENT_EPOCH_TYPES = (6, 12, 20)
_CURRENT_TYPES = (8, 14, 22)
_TEXT_BY_TYPE = {4: "topics and partitions", 15: "share partitions", 16: "regular expression", 23: "topology"}
_TEXT_BY_TYPE |= dict.fromkeys(_MEMBER_TYPES, "member") | dict.fromkeys(_TARGET_TYPES, "target of")
_TEXT_BY_TYPE |= dict.fromkeys(_CURRENT_TYPES, "current assignment of")


class Names(NamedTuple):
    clients: dict[str, str]
    topics: dict[str, str]


def print_protocol_lines(path: str | Path, group: str, first_offset: int = 0, last_offset: int | None = None) -> None:
    """Print one line for each record of a group in a partition folder, up to `last_offset` or the end of the log.

    A bracket stands around the group's records in one batch, if there are several.
    """
    batches = [batch for log in open_logs(path) for batch in log]
    names = collect_batch_names(batches)
    end = math.inf if last_offset is None else last_offset
    for batch in batches:
        found = [(at, record) for at, record in read_records([batch]) if find_group_id(record) == group]
        bracket = "┌" + "│" * (len(found) - 2) + "└" if len(found) > 1 else " "
        for side, (log_record, record) in zip(bracket, found, strict=False):
            if first_offset <= log_record.offset <= end:
                print(f"{side} {log_record.offset:>2}: type {record.type:>2}, {describe_record(record, names)}")


def collect_names(path: str | Path) -> Names:
    return collect_batch_names(batch for log in open_logs(path) for batch in log)


def collect_batch_names(batches: Iterable[Batch]) -> Names:
    names = Names({}, {})
    for _, record in read_records(batches):
        if record.type in _MEMBER_TYPES and record.value is not None:
            member: Any = record.value
            key: Any = record.key
            names.clients[key.member_id] = member.client_id
        topic_id = getattr(record.value, "topic_id", None)
        if isinstance(record.key, OffsetCommitKey) and topic_id is not None:
            names.topics[topic_id] = record.key.topic
        for topics in ("initializing_topics", "initialized_topics"):
            names.topics.update({topic.topic_id: topic.topic_name for topic in getattr(record.value, topics, ())})
    return names


def describe_record(record: Record, names: Names) -> str:
    value: Any = record.value
    key: Any = record.key
    if isinstance(key, OffsetCommitKey):
        text = f"offset of {key.topic}-{key.partition}"
        return f"{text} deleted" if value is None else f"{text} = {value.offset}"
    if isinstance(key, GroupMetadataKey):
        return "classic group deleted" if value is None else f"classic group, generation {value.generation}"
    if record.type in _GROUP_EPOCH_TYPES:
        return "group epoch deleted" if value is None else f"group epoch {value.epoch}"
    if record.type in _ASSIGNMENT_EPOCH_TYPES:
        return "assignment epoch deleted" if value is None else f"assignment epoch {value.assignment_epoch}"
    text = _TEXT_BY_TYPE.get(record.type, f"a record of type {record.type}")
    if hasattr(key, "member_id"):
        text += f" {names.clients.get(key.member_id, key.member_id)}"
    if record.type == 16:
        text += f" {key.regular_expression}"
    if value is None:
        return f"{text} deleted"
    if record.type == 15:
        states = ("initializing", "initialized", "deleting")
        listed = [f"{state} {topic.topic_name}" for state in states for topic in getattr(value, f"{state}_topics")]
        return f"{text}: {', '.join(listed)}"
    if record.type == 23:
        return f"{text}, epoch {value.epoch}, {len(value.subtopologies)} subtopologies"
    if record.type in _TARGET_TYPES:
        return f"{text}: {_list_assignment(value, names)}"
    if record.type in _CURRENT_TYPES:
        text += f": epoch {value.member_epoch}, state {value.state}, {_list_assignment(value, names)}"
        # Only consumer groups have this list. Streams groups have three lists of tasks, which the lesson does not need.
        revoked = _list_partitions(getattr(value, "partitions_pending_revocation", ()), names)
        return f"{text}, must revoke {revoked}" if revoked else text
    return text


def _list_assignment(value: Any, names: Names) -> str:
    if hasattr(value, "active_tasks"):
        tasks = [f"{task.subtopology_id}_{partition}" for task in value.active_tasks for partition in task.partitions]
        return f"tasks {' '.join(tasks)}" if tasks else "no tasks"
    topics = value.topic_partitions if hasattr(value, "topic_partitions") else value.assigned_partitions
    return _list_partitions(topics, names) or "nothing"


def _list_partitions(topics: Sequence[Any], names: Names) -> str:
    pairs = [(topic.topic_id, partition) for topic in topics for partition in topic.partitions]
    return " ".join(f"{names.topics.get(topic_id, topic_id)}-{partition}" for topic_id, partition in pairs)


def read_records(batches: Iterable[Batch]) -> Iterator[tuple[LogRecord, Record]]:
    for batch in batches:
        if batch.is_control:
            continue
        for log_record in batch.records:
            with suppress(BadBytes):
                yield log_record, decode(log_record.key, log_record.value)
