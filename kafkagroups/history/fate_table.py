"""The tables `records` and `fates` of logs.

The readable engine makes a row for each record. The native engine loads a log, and then reads it a second time into
columns, because a load keeps no records.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kafkagroups.errors import InvalidLog
from kafkagroups.groups.observer import Fate
from kafkagroups.groups.replay import Shard
from kafkagroups.history.fates import Fates, RecordFate
from kafkagroups.history.passes import ObservedLoad
from kafkagroups.loading import native
from kafkagroups.loading.columns import Column, Row, record_batches
from kafkagroups.loading.engines import Engine
from kafkagroups.loading.groups import Answers
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.rows import partition_number, record_rows
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import Dialect

if TYPE_CHECKING:
    import pyarrow as pa


RECORD_TABLES = ("fates", "records")
_UNREADABLE = RecordFate(None, 0)
"""Stands for the records of a batch that cannot be split into records."""


def read_record_table(
    log: Log, dialect: Dialect, columns: Sequence[Column], engine: Engine
) -> Iterator[pa.RecordBatch]:
    if engine.name == "compiled":
        shard = native.fold_if_possible(log, dialect, follow=native.COUNTS)
        if shard is not None:
            return _copy(log, dialect, shard, columns)
    with_json = any(column.name == "json" for column in columns)
    return record_batches(columns, record_rows(log, log.partition, dialect, with_json=with_json))


def read_fate_table(topic: OpenTopic, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """Load a topic as one coordinator does, and yield the table `fates` as Arrow record batches."""
    load = ObservedLoad(topic, lambda log, notes: Fates(topic.dialect), follow=native.COUNTS)
    groups = load.groups
    answers = Answers(groups.groups.unbuilt(), groups.orphans.unbuilt())
    for log in topic.logs:
        fates = load.observers.pop(log.partition, None)
        if fates is None:
            yield from _read_followed(log, topic.dialect, columns, answers)
        else:
            fates.settle(groups)
            yield from record_batches(columns, _fate_rows(log, topic.dialect, fates))


def _read_followed(log: Log, dialect: Dialect, columns: Sequence[Column], answers: Answers) -> Iterator[pa.RecordBatch]:
    shard = native.fold_if_possible(log, dialect, follow=native.KEEPS_FATES)
    if shard is None:
        raise InvalidLog(f"{log.path}: the log has changed while it was read: read it again")
    reading = native.reading_of(shard)
    found = [answers.find(group_id, log.partition) for group_id in reading.totals(False)["group_ids"]]
    numbers = {fate: number for number, fate in enumerate(Fate, start=1)}
    fates = reading.settle([(*map(numbers.__getitem__, each[:3]), each.has_read) for each in found])
    yield from _copy(log, dialect, shard, columns, fates)


def _copy(
    log: Log, dialect: Dialect, shard: Shard, columns: Sequence[Column], fates: tuple[bytes, bytes] | None = None
) -> Iterator[pa.RecordBatch]:
    from kafkagroups.loading.engine_columns import copy_records

    with_content = any(column.name in ("key", "value", "json") for column in columns)
    parts = native.read_records(log, dialect, shard.loaded.batches, with_content=with_content)
    return copy_records(parts, partition_number(log.partition), dialect, columns, fates)


def _fate_rows(log: Log, dialect: Dialect, fates: Fates) -> Iterator[Row]:
    """Yield the rows of the table `fates` of a log, whose fates are settled.

    A batch that cannot be split into records has one row, as in the table `records`; its fate is "ignored".
    """
    entries: defaultdict[object, deque[RecordFate]] = defaultdict(deque)
    for entry in fates:
        entries[entry.offset].append(entry)
    for row in record_rows(log, log.partition, dialect, with_json=False):
        # Several records of an odd log can have the same offset, and so can a batch that cannot be split into records.
        same_offset = entries.get(row["offset"])
        is_other_record = row["key"] is None and same_offset and same_offset[0].type is not None
        entry = same_offset.popleft() if same_offset and not is_other_record else _UNREADABLE
        yield row | {
            "member_id": entry.member_id,
            "committed_offset": entry.committed,
            "key_bytes": len(row["key"] or b""),
            "value_bytes": None if row["value"] is None else len(row["value"]),
            "fate": (entry.fate or Fate.IGNORED).value,
            "by": entry.by,
        }
