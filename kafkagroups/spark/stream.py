"""A growing folder as a Spark stream: the new batches or records of a topic.

    spark.readStream.format("consumer_offsets").option("table", "batches").load(folder)

    table                           records: the columns of tables.columns.TABLES
                                    batches: partition int, base_offset long, next_offset long, bytes binary; each row
                                    is an unchanged Kafka batch of the log, with its header, for jobs that compute a
                                    state from Kafka batches with their own code. With your own schema also: file
                                    string, position long, which say where the batch begins
    path, paths                     as in source.py, but only paths of a local or mounted file system (no s3://,
                                    hdfs://, …); the same path must exist on the driver and on every executor; the
                                    folder may be empty when the stream starts
    coordinator, kafka, cwd, tasks  as in source.py

What Spark calls the offset of a stream is a dict {log partition: next Kafka offset} here. growth.py finds the new
batches: in segments that have grown, in new segments, and in new partitions. An incomplete batch is read when it is
complete.
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
from kafkagroups.records import dialects
from kafkagroups.spark.growth import NewBatch, files_of, find_end, read_until, size_of
from kafkagroups.spark.options import LOCATED_BATCHES, Options
from kafkagroups.spark.tasks import distribute, freeze_objects
from kafkagroups.tables.columns import arrow_schema, record_batches
from kafkagroups.tables.rows import partition_number, record_rows

if TYPE_CHECKING:
    import pyarrow as pa

    Offset = dict[str, int]

MAX_BATCH_ROWS = 8192
MAX_BATCH_BYTES = 16 * 1024 * 1024
"""The largest numbers of rows and bytes in one Arrow record batch of table `batches`."""


@dataclass
class StreamTask(InputPartition):
    """The logs that one task reads, each with the position at which reading begins, and the end offset."""

    logs: list[tuple[Log, Position, int]]


class OffsetsStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader. Spark keeps it in a separate process until the query ends; only `read` runs in tasks."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.table not in ("records", "batches"):
            raise UsageError(f"a stream has table records or batches, not {options.table}")
        if remote := [path for path in options.paths if local_path(path) is None]:
            raise UsageError(f"a stream reads files of this machine, not {remote[0]}")
        self.options = options
        self.schema = schema
        self.positions: dict[int, dict[int, Position]] = {}
        """By log partition, then by next offset: the position (file and byte) of this offset in the log.

        It contains all offsets that `latestOffset` has returned to Spark and that Spark can still request.
        """
        self.sizes: dict[str, int] | None = None
        """The size of each file (by path) at the start of a query with the trigger AvailableNow; otherwise None."""

    def initialOffset(self) -> Offset:
        """Return the offset before any batch."""
        return {}

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the file sizes, because a query with this trigger reads only what exists at its start."""
        self.sizes = {path: size_of(path) for log in self._logs().values() for path in files_of(log)}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the offset after the last complete batch of each log partition."""
        ends = {int(partition): offset for partition, offset in start.items()}
        for partition, log in self._logs().items():
            position = find_end(log, self._position_at(partition, ends.get(partition, 0)), self.sizes)
            if position.next_offset > ends.get(partition, 0):
                ends[partition] = position.next_offset
                self.positions.setdefault(partition, {})[position.next_offset] = position
        return {str(partition): ends[partition] for partition in sorted(ends)}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return at most `tasks` tasks for the log partitions that have batches between two offsets."""
        found_logs = self._logs()
        sized_logs = []
        for partition, end_offset in end.items():
            start_offset = start.get(partition, 0)
            if end_offset > start_offset:
                if (log := found_logs.get(int(partition))) is None:
                    raise UsageError(
                        f"partition {partition} was deleted; the query needs its offsets {start_offset} to {end_offset}"
                    )
                position = self._position_at(int(partition), start_offset)
                unread_files = files_of(log)[log.find_segment(position) :]
                unread_bytes = sum(size_of(path) for path in unread_files) - position.byte
                sized_logs.append((unread_bytes, (log, position, end_offset)))
        return [StreamTask(logs) for logs in distribute(sized_logs, self.options.tasks)] if sized_logs else []

    def commit(self, end: Offset) -> None:
        """Drop the positions before `end`, because Spark will not request earlier offsets again."""
        for partition, offset in end.items():
            positions = self.positions.get(int(partition), {})
            self.positions[int(partition)] = {
                next_offset: position for next_offset, position in positions.items() if next_offset >= offset
            }

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield Arrow record batches whose rows are the Kafka batches of a task, or the records in them.

        Raises InvalidLog if a Kafka batch is damaged now, although it was undamaged when `latestOffset` found it.
        """
        import pyarrow as pa

        assert isinstance(partition, StreamTask)
        schema = to_arrow_schema(self.schema, timezone="UTC")
        dialect = dialects.dialect(self.options.coordinator, self.options.kafka)
        for log, position, end_offset in partition.logs:
            if self.options.table == "batches":
                batches = _raw_batches(log, position, end_offset)
            else:
                columns = [column for name in schema.names for column in self.options.columns if column.name == name]
                with_json = "json" in schema.names
                records = record_rows(LogSection(log, position, end_offset), dialect, with_json=with_json)
                batches = record_batches("records", columns, records)
            for batch in batches:
                yield pa.RecordBatch.from_arrays([batch[name] for name in schema.names], schema=schema)
        # The garbage collections after later tasks then skip the objects that this worker has imported.
        freeze_objects()

    def _position_at(self, partition: int, offset: int) -> Position:
        return self.positions.get(partition, {}).get(offset) or Position(offset)

    def _logs(self) -> dict[int, Log]:
        logs: dict[int, Log] = {}
        for path in self.options.paths:
            for log in _find_logs_so_far(path, self.options.cwd):
                if partition_number(log.partition) in logs:
                    raise UsageError(f"{path}: partition {partition_number(log.partition)} is in two folders")
                logs[partition_number(log.partition)] = log.limit_batches(self.options.max_batch_bytes)
        return logs


class LogSection(Log):
    """Part of a log: the batches after a position, up to an offset."""

    def __init__(self, log: Log, position: Position, end_offset: int) -> None:
        super().__init__(log.path, log.segments, log.partition, folder=log.folder)
        self.max_batch_bytes = log.max_batch_bytes
        self.position = position
        self.end_offset = end_offset

    def __iter__(self) -> Iterator[Batch]:
        for new_batch in read_until(self, self.position, self.end_offset):
            yield new_batch.batch


def _find_logs_so_far(path: str, folder: str) -> list[Log]:
    """Return the logs at a path; an empty list if the folder is still empty."""
    try:
        return find_logs(path, folder)
    except UsageError:
        if os.path.isdir(os.path.join(folder, local_path(path) or "")):
            return []
        raise


def _raw_batches(log: Log, position: Position, end_offset: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of table `batches` as Arrow record batches. Each row is a Kafka batch with its unchanged bytes."""
    rows: list[NewBatch] = []
    size = 0
    for new_batch in read_until(log, position, end_offset):
        rows.append(new_batch)
        size += len(new_batch.data)
        if len(rows) == MAX_BATCH_ROWS or size > MAX_BATCH_BYTES:
            yield _raw_batch(log, rows)
            rows = []
            size = 0
    if rows:
        yield _raw_batch(log, rows)


def _raw_batch(log: Log, rows: Iterable[NewBatch]) -> pa.RecordBatch:
    """Return Kafka batches as the rows of one Arrow record batch."""
    import pyarrow as pa

    content = [
        (
            partition_number(log.partition),
            row.batch.base_offset,
            row.batch.next_offset,
            row.data,
            row.batch.file,
            row.batch.position,
        )
        for row in rows
    ]
    schema = arrow_schema(LOCATED_BATCHES)
    arrays = [pa.array(values, field.type) for values, field in zip(zip(*content, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
