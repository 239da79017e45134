"""The records of a log as short lines, to print and to replay, and as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.groups.log_records import OFFSET_KEYS, find_group_id, read_control_type
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.folders import open_log, open_logs
from kafkagroups.records.control import ControlType
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.serde import decode


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


def keep_first_records(batch: Batch, count: int) -> Batch:
    records = batch.records[:count]
    return replace(batch, parse_records=lambda _: records)


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
    if isinstance(record.key, OFFSET_KEYS):
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
    for batch in open_log(path):
        for record in batch.records:
            if record.offset == offset:
                return record.key, record.value
    raise UsageError(f"{path} has no record at offset {offset}")


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
