"""A log told line by line, as lesson 09 replays it: what a loader needs of each record, and no bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafkagroups.api import compact
from kafkagroups.errors import BadBytes
from kafkagroups.groups.loading import OFFSET_KEYS, control_type, group_of
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.segments import open_log, open_logs, segment_name
from kafkagroups.records.control import ControlType
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.serde import decode


class Line(NamedTuple):
    """One record: `at` is its offset in the log.

    `about` is "offset" (`value`: the committed offset), "group" (`value`: the generation), "commit" or "abort" (a
    marker), else what cannot be told here. `value` None is a tombstone. `producer` is a transaction's.
    """

    at: int
    about: str
    group: str | None = None
    partition: str | None = None
    value: int | None = None
    producer: int | None = None

    def __str__(self) -> str:
        said = "deleted" if self.value is None else f"= {self.value}"
        if self.about == "offset":
            by = "" if self.producer is None else f", producer {self.producer}"
            return f"{self.at:>2}: {self.group} {self.partition} {said}{by}"
        if self.about == "group":
            return f"{self.at:>2}: {self.group}, " + (said if self.value is None else f"generation {self.value}")
        if self.about in ("commit", "abort"):
            return f"{self.at:>2}: producer {self.producer} {self.about}s"
        return f"{self.at:>2}: {self.about}"


class Lines(list[Line]):
    """Lines of a log, shown short."""

    def __repr__(self) -> str:
        return " | ".join(str(line).strip() for line in self)


def lines(path: str | Path) -> Lines:
    """The lines of a partition, or of all partitions in a folder one behind the other. UsageError as `kg.load`."""
    return Lines(line for log in open_logs(path) for batch in log for line in lines_of(batch))


def lines_of(batch: Batch) -> Iterator[Line]:
    for record in batch.records:
        yield _marker(batch, record) if batch.is_control else _line(batch, record)


def _marker(batch: Batch, record: LogRecord) -> Line:
    kind = control_type(record)
    if kind in (ControlType.COMMIT, ControlType.ABORT):
        return Line(record.offset, kind.name.lower(), producer=batch.producer_id)
    return Line(record.offset, "a control record of Kafka's own")


def _line(batch: Batch, log_record: LogRecord) -> Line:
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
    return Line(log_record.offset, f"a record of type {record.type} of {group_of(record)}")


def lines_after_cleaning(path: str | Path, active: int) -> Lines:
    """The lines that one pass of the cleaner leaves of a partition whose active segment begins at offset `active`."""
    segments: dict[int, list[bytes]] = {}
    with tempfile.TemporaryDirectory() as folder:
        log = open_log(path)
        for batch in log:
            data = Path(batch.file or "").read_bytes()[batch.position : batch.position + batch.size]
            segments.setdefault(active if batch.base_offset >= active else log.start_offset, []).append(data)
        before = Path(folder, "before", Path(path).name)
        before.mkdir(parents=True)
        for base_offset, batches in segments.items():
            Path(before, segment_name(base_offset)).write_bytes(b"".join(batches))
        after = Path(folder, "after", before.name)
        compact(before, after)
        return lines(after)
