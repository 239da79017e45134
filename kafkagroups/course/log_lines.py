"""Lessons 06 to 10: a log as short lines, one line per record, to print and to replay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from kafkagroups.api import compact
from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import OFFSET_KEYS, find_group_id, read_control_type
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.segment_file import segment_name
from kafkagroups.log.segments import open_log, open_logs
from kafkagroups.records.control import ControlType
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.serde import decode


class Line(NamedTuple):
    """One record of a log, without its bytes.

    Attributes
    ----------
    record_offset
        The record's offset in the log.
    record_type
        "offset" for a committed offset, "group" for a group's record, "commit" or "abort" for a transaction marker.
        For any other record, this is a short description.
    group
        The id of the group that the record belongs to.
    partition
        The partition of a committed offset, for example "orders-0".
    value
        The committed offset, or the group's generation. None if the record is a tombstone (a record that deletes).
    producer
        The producer id of the record's transaction, or None if the record is not in a transaction.
    """

    record_offset: int
    record_type: str
    group: str | None = None
    partition: str | None = None
    value: int | None = None
    producer: int | None = None

    def __str__(self) -> str:
        value = "deleted" if self.value is None else f"= {self.value}"
        if self.record_type == "offset":
            producer = "" if self.producer is None else f", producer {self.producer}"
            return f"{self.record_offset:>2}: {self.group} {self.partition} {value}{producer}"
        if self.record_type == "group":
            return f"{self.record_offset:>2}: {self.group}, " + (
                value if self.value is None else f"generation {self.value}"
            )
        if self.record_type in ("commit", "abort"):
            return f"{self.record_offset:>2}: producer {self.producer} {self.record_type}s"
        return f"{self.record_offset:>2}: {self.record_type}"


class Lines(list[Line]):
    """A list of lines. Its printed form is one line of text."""

    def __repr__(self) -> str:
        return " | ".join(str(line).strip() for line in self)


def read_lines(path: str | Path) -> Lines:
    """Return one line for each record of a log.

    Parameters
    ----------
    path
        A partition folder, one `.log` file, or a folder of partition folders.

    Raises
    ------
    UsageError
        If there is no log at this path, as for `kafkagroups.load`.
    """
    return Lines(line for log in open_logs(path) for batch in log for line in read_batch_lines(batch))


def read_batch_lines(batch: Batch) -> Iterator[Line]:
    """Yield one line for each record of a batch."""
    for record in batch.records:
        yield _make_marker_line(batch, record) if batch.is_control else _make_record_line(batch, record)


def parse_partition(name: str) -> TopicPartition:
    """Return the partition with a name such as "orders-0"."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def _make_marker_line(batch: Batch, record: LogRecord) -> Line:
    control_type = read_control_type(record)
    if control_type in (ControlType.COMMIT, ControlType.ABORT):
        return Line(record.offset, control_type.name.lower(), producer=batch.producer_id)
    return Line(record.offset, "a control record that is not a transaction marker")


def _make_record_line(batch: Batch, log_record: LogRecord) -> Line:
    try:
        record = decode(log_record.key, log_record.value)
    except BadBytes:
        return Line(log_record.offset, "a record that cannot be read")
    if isinstance(record.key, OFFSET_KEYS):
        partition = f"{record.key.topic}-{record.key.partition}"
        producer = batch.producer_id if batch.is_transactional else None
        value = getattr(record.value, "offset", None)
        return Line(log_record.offset, "offset", record.key.group, partition, value, producer)
    if isinstance(record.key, GroupMetadataKey):
        value = getattr(record.value, "generation", None)
        return Line(log_record.offset, "group", record.key.group, value=value)
    return Line(log_record.offset, f"a record of type {record.type} of {find_group_id(record)}")


def read_cleaned_lines(path: str | Path, active_offset: int) -> Lines:
    """Return the lines of the records that remain after one pass of the log cleaner.

    The pass runs on a temporary copy with at most two segments (files of a log), so the log itself does not change.

    Parameters
    ----------
    path
        A partition folder.
    active_offset
        The offset at which the second segment of the copy begins. The second segment is the active segment, which the
        cleaner does not change.
    """
    segments: dict[int, list[bytes]] = {}
    with TemporaryDirectory() as folder:
        log = open_log(path)
        for batch in log:
            data = Path(batch.file or "").read_bytes()[batch.position : batch.position + batch.size]
            base_offset = active_offset if batch.base_offset >= active_offset else log.start_offset
            segments.setdefault(base_offset, []).append(data)
        log_before = Path(folder, "before", Path(path).name)
        log_before.mkdir(parents=True)
        for base_offset, batches in segments.items():
            Path(log_before, segment_name(base_offset)).write_bytes(b"".join(batches))
        log_after = Path(folder, "after", log_before.name)
        compact(log_before, log_after)
        return read_lines(log_after)
