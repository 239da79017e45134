"""A growing folder as a Spark stream: new batches or records of a topic that a broker still writes.

    spark.readStream.format("consumer_offsets").option("table", "batches").load(folder)

    table                           records: the columns of tables.columns.TABLES
                                    batches: partition int, base_offset long, next_offset long, bytes binary;
                                    an unchanged batch of the log, with its header, for jobs that fold batches
    path, paths                     as in source.py, but only files of this machine, which every executor must see;
                                    the folder may still be empty
    coordinator, kafka, cwd, tasks  as in source.py

The offset of the stream is {log partition: next Kafka offset}. growth.py finds the new batches: in segments that have
grown, in new segments, in new partitions. An incomplete batch waits until it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kafkagroups.errors import UsageError
from kafkagroups.log.batch import Batch
from kafkagroups.log.locations import find_logs, local_path
from kafkagroups.log.position import Position
from kafkagroups.log.segments import Log
from kafkagroups.records.versions import dialect
from kafkagroups.spark.growth import NewBatch, files_of, find_end, read_until, size_of
from kafkagroups.spark.options import Options
from kafkagroups.spark.tasks import distribute, freeze_objects
from kafkagroups.tables.columns import record_batches
from kafkagroups.tables.rows import partition_number, record_rows

if TYPE_CHECKING:
    import pyarrow as pa

    Offset = dict[str, int]

MOST_ROWS = 8192
MOST_BYTES = 16 * 1024 * 1024
"""The limits of one Arrow record batch of raw batches."""


@dataclass
class StreamTask(InputPartition):
    """What one task reads: (log, mark, end offset). It reads each log after its mark, up to the end offset."""

    logs: list[tuple[Log, Position, int]]


class OffsetsStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader. It lives in its own process until its query ends; only `read` runs in tasks."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.table not in ("records", "batches"):
            raise UsageError(f"a stream has table records or batches, not {options.table}")
        if remote := [path for path in options.paths if local_path(path) is None]:
            raise UsageError(f"a stream reads files of this machine, not {remote[0]}")
        self.options = options
        self.schema = schema
        self.marks: dict[int, dict[int, Position]] = {}
        """Marks by partition and next offset: those that were returned to Spark and may be requested again."""
        self.sizes: dict[str, int] | None = None
        """The file sizes at the start of a query with the trigger AvailableNow; None for other queries."""

    def initialOffset(self) -> Offset:
        """Return the offset before any batch."""
        return {}

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the file sizes, because the query reads nothing that is written later."""
        self.sizes = {path: size_of(path) for log in self._logs().values() for path in files_of(log)}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return where the whole batches end now."""
        ends = {int(partition): offset for partition, offset in start.items()}
        for partition, log in self._logs().items():
            mark = find_end(log, self._mark(partition, ends.get(partition, 0)), self.sizes)
            if mark.next_offset > ends.get(partition, 0):
                ends[partition] = mark.next_offset
                self.marks.setdefault(partition, {})[mark.next_offset] = mark
        return {str(partition): ends[partition] for partition in sorted(ends)}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return at most `tasks` tasks for the log partitions that have batches between two offsets."""
        logs = self._logs()
        sized = []
        for partition, until in end.items():
            begin = start.get(partition, 0)
            if until > begin:
                if (log := logs.get(int(partition))) is None:
                    raise UsageError(
                        f"partition {partition} was deleted; the query needs its offsets {begin} to {until}"
                    )
                mark = self._mark(int(partition), begin)
                rest = sum(size_of(path) for path in files_of(log)[log.first_segment(mark) :]) - mark.byte
                sized.append((rest, (log, mark, until)))
        return [StreamTask(some) for some in distribute(sized, self.options.tasks)] if sized else []

    def commit(self, end: Offset) -> None:
        """Forget the marks before `end`, because Spark will not request earlier offsets again."""
        for partition, offset in end.items():
            marks = self.marks.get(int(partition), {})
            self.marks[int(partition)] = {at: mark for at, mark in marks.items() if at >= offset}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a task, or their records. InvalidLog if a batch has been damaged since it was found."""
        import pyarrow as pa

        assert isinstance(partition, StreamTask)
        schema = to_arrow_schema(self.schema, timezone="UTC")
        rules = dialect(self.options.coordinator, self.options.kafka)
        for log, mark, until in partition.logs:
            if self.options.table == "batches":
                batches = _raw_batches(log, mark, until)
            else:
                columns = [column for name in schema.names for column in self.options.columns if column.name == name]
                with_json = "json" in schema.names
                records = record_rows(LogSection(log, mark, until), rules, with_json=with_json)
                batches = record_batches("records", columns, records)
            for batch in batches:
                yield pa.RecordBatch.from_arrays([batch[name] for name in schema.names], schema=schema)
        freeze_objects()

    def _mark(self, partition: int, offset: int) -> Position:
        return self.marks.get(partition, {}).get(offset) or Position(offset)

    def _logs(self) -> dict[int, Log]:
        logs: dict[int, Log] = {}
        for path in self.options.paths:
            for log in _find_logs_so_far(path, self.options.cwd):
                if partition_number(log.partition) in logs:
                    raise UsageError(f"{path}: partition {partition_number(log.partition)} is in another folder, too")
                logs[partition_number(log.partition)] = log
        return logs


class LogSection(Log):
    """Part of a log: the batches after a mark, up to an offset."""

    def __init__(self, log: Log, mark: Position, until: int) -> None:
        super().__init__(log.path, log.segments, log.partition, folder=log.folder)
        self.mark = mark
        self.until = until

    def __iter__(self) -> Iterator[Batch]:
        for new in read_until(self, self.mark, self.until):
            yield new.batch


def _find_logs_so_far(path: str, folder: str) -> list[Log]:
    """Return the logs at a path; none if the folder is still empty."""
    try:
        return find_logs(path, folder)
    except UsageError:
        if os.path.isdir(os.path.join(folder, local_path(path) or "")):
            return []
        raise


def _raw_batches(log: Log, mark: Position, until: int) -> Iterator[pa.RecordBatch]:
    rows: list[NewBatch] = []
    size = 0
    for found in read_until(log, mark, until):
        rows.append(found)
        size += len(found.data)
        if len(rows) == MOST_ROWS or size > MOST_BYTES:
            yield _raw_batch(log, rows)
            rows = []
            size = 0
    if rows:
        yield _raw_batch(log, rows)


def _raw_batch(log: Log, rows: Iterable[NewBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    content = [
        (partition_number(log.partition), found.batch.base_offset, found.batch.next_offset, found.data)
        for found in rows
    ]
    types = (pa.int32(), pa.int64(), pa.int64(), pa.binary())
    arrays = [pa.array(values, kind) for values, kind in zip(zip(*content, strict=True), types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, ["partition", "base_offset", "next_offset", "bytes"])
