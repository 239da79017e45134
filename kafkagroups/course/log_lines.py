"""A log as short lines, one per record, as lessons 06 to 10 print and replay it."""

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
    at
        The record's offset in the log.
    about
        "offset" for a committed offset, "group" for a group's record, "commit" or "abort" for a transaction marker.
        For any other record it is a short description.
    group
        The group that the record belongs to.
    partition
        The partition of a committed offset, for example "orders-0".
    value
        The committed offset, or the group's generation. None if the record is a tombstone.
    producer
        The producer id of a transaction, else None.
    """

    at: int
    about: str
    group: str | None = None
    partition: str | None = None
    value: int | None = None
    producer: int | None = None

    def __str__(self) -> str:
        value = "deleted" if self.value is None else f"= {self.value}"
        if self.about == "offset":
            producer = "" if self.producer is None else f", producer {self.producer}"
            return f"{self.at:>2}: {self.group} {self.partition} {value}{producer}"
        if self.about == "group":
            return f"{self.at:>2}: {self.group}, " + (value if self.value is None else f"generation {self.value}")
        if self.about in ("commit", "abort"):
            return f"{self.at:>2}: producer {self.producer} {self.about}s"
        return f"{self.at:>2}: {self.about}"


class Lines(list[Line]):
    """A list of lines that prints itself on one line."""

    def __repr__(self) -> str:
        return " | ".join(str(line).strip() for line in self)


def read_lines(path: str | Path) -> Lines:
    """Return one line for each record of a log.

    Parameters
    ----------
    path
        A partition folder, one `.log` file, or a folder of partition folders. The lines of several partitions follow
        each other.

    Raises
    ------
    UsageError
        If there is no log at this path, as for `kafkagroups.load`.
    """
    return Lines(line for log in open_logs(path) for batch in log for line in read_batch_lines(batch))


def read_batch_lines(batch: Batch) -> Iterator[Line]:
    """Yield one line for each record of a batch."""
    for record in batch.records:
        yield _marker_line(batch, record) if batch.is_control else _record_line(batch, record)


def parse_partition(name: str) -> TopicPartition:
    """Return the partition that a name such as "orders-0" means."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def _marker_line(batch: Batch, record: LogRecord) -> Line:
    kind = read_control_type(record)
    if kind in (ControlType.COMMIT, ControlType.ABORT):
        return Line(record.offset, kind.name.lower(), producer=batch.producer_id)
    return Line(record.offset, "a control record that is not a transaction marker")


def _record_line(batch: Batch, log_record: LogRecord) -> Line:
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


def read_cleaned_lines(path: str | Path, active: int) -> Lines:
    """Return the lines that remain after one pass of the log cleaner.

    The pass runs on a temporary copy, so the log itself does not change.

    Parameters
    ----------
    path
        A partition folder.
    active
        The offset at which the active segment begins. The cleaner does not touch the active segment.
    """
    segments: dict[int, list[bytes]] = {}
    with TemporaryDirectory() as folder:
        log = open_log(path)
        for batch in log:
            data = Path(batch.file or "").read_bytes()[batch.position : batch.position + batch.size]
            base_offset = active if batch.base_offset >= active else log.start_offset
            segments.setdefault(base_offset, []).append(data)
        before = Path(folder, "before", Path(path).name)
        before.mkdir(parents=True)
        for base_offset, batches in segments.items():
            Path(before, segment_name(base_offset)).write_bytes(b"".join(batches))
        after = Path(folder, "after", before.name)
        compact(before, after)
        return read_lines(after)
