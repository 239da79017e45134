"""A growing folder as a Spark stream: the new batches or records of a topic.

    spark.readStream.format("consumer_offsets").option("table", "batches").load(folder)

    table                           records: each row is a record (columns: tables.columns.TABLES)
                                    batches: each row is a Kafka batch (columns: options.BATCHES); the column `bytes`
                                    has the batch and its header unchanged, for jobs that decode batches themselves; if
                                    you set a schema, the columns of options.LOCATED_BATCHES are possible, too
    path, paths                     as in source.py, but only paths of a local or mounted file system (no s3://,
                                    hdfs://, …); the same path must exist on the driver and on every executor; the
                                    folder may be empty when the stream starts
    coordinator, kafka, cwd, tasks  as in source.py

A log partition is a partition of the topic `__consumer_offsets`. Spark calls a position in the stream an offset. In
this module, a position in the stream (`StreamOffset`) contains the Kafka offset of the next record of each log
partition.

growth.py finds the new batches: in segments that have grown, in new segments, and in new partitions. An incomplete
batch is read when it is complete.
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
from kafkagroups.spark.growth import NewBatch, file_paths, file_size, find_end, read_until
from kafkagroups.spark.options import LOCATED_BATCHES, Options
from kafkagroups.spark.tasks import distribute, exclude_objects_from_gc
from kafkagroups.tables.columns import arrow_schema, record_batches
from kafkagroups.tables.rows import partition_number, record_rows

if TYPE_CHECKING:
    import pyarrow as pa

    StreamOffset = dict[str, int]
    """A position in the stream. For each log partition (its number as text): the Kafka offset of the next record."""

ARROW_BATCH_ROWS = 8192
ARROW_BATCH_BYTES = 16 * 1024 * 1024
"""An Arrow record batch of table `batches` ends when it has this number of rows or more than this number of bytes."""


@dataclass
class StreamTask(InputPartition):
    """The logs that one task reads.

    Each log has the position where reading begins, and the Kafka offset where reading ends.
    """

    logs: list[tuple[Log, Position, int]]


class OffsetsStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream. Spark keeps the reader in a separate process until the query ends.

    Only the method `read` runs in tasks.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.table not in ("records", "batches"):
            raise UsageError(f"a stream has table records or batches, not {options.table}")
        remote_paths = [path for path in options.paths if local_path(path) is None]
        if remote_paths:
            raise UsageError(f"a stream reads files of this machine, not {remote_paths[0]}")
        self.options = options
        self.schema = schema
        self.positions: dict[int, dict[int, Position]] = {}
        """By log partition, and then by Kafka offset: the position (file and byte) of this Kafka offset in the log.

        The mapping contains all Kafka offsets that `latestOffset` has returned and that Spark can still request.
        """
        self.file_sizes_at_start: dict[str, int] | None = None
        """By path: the size of each file in bytes when a query with the trigger AvailableNow started. None for queries
        with other triggers."""

    def initialOffset(self) -> StreamOffset:
        """Return the position in the stream before the first batch."""
        return {}

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the file sizes, because a query with this trigger reads only what exists at its start."""
        paths = [path for log in self._find_logs().values() for path in file_paths(log)]
        self.file_sizes_at_start = {path: file_size(path) for path in paths}

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        """Return the position in the stream after the last complete batch of each log partition."""
        ends = {int(partition): offset for partition, offset in start.items()}
        for partition, log in self._find_logs().items():
            position = find_end(log, self._position_at(partition, ends.get(partition, 0)), self.file_sizes_at_start)
            if position.next_offset > ends.get(partition, 0):
                ends[partition] = position.next_offset
                self.positions.setdefault(partition, {})[position.next_offset] = position
        return {str(partition): ends[partition] for partition in sorted(ends)}

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        """Return the tasks for the log partitions that have batches between two positions in the stream.

        The option `tasks` is the largest number of tasks.
        """
        found_logs = self._find_logs()
        sized_logs = []
        for partition, end_offset in end.items():
            start_offset = start.get(partition, 0)
            if end_offset <= start_offset:
                continue
            log = found_logs.get(int(partition))
            if log is None:
                raise UsageError(
                    f"partition {partition} was deleted; the query needs its offsets {start_offset} to {end_offset}"
                )
            position = self._position_at(int(partition), start_offset)
            unread_files = file_paths(log)[log.find_segment(position) :]
            unread_bytes = sum(file_size(path) for path in unread_files) - position.byte
            sized_logs.append((unread_bytes, (log, position, end_offset)))
        return [StreamTask(logs) for logs in distribute(sized_logs, self.options.tasks)] if sized_logs else []

    def commit(self, end: StreamOffset) -> None:
        """Drop the positions before `end`, because Spark will not request them again."""
        for partition, offset in end.items():
            positions = self.positions.get(int(partition), {})
            self.positions[int(partition)] = {
                next_offset: position for next_offset, position in positions.items() if next_offset >= offset
            }

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield Arrow record batches. Their rows are the Kafka batches of a task, or the records in these batches.

        Raises InvalidLog if a Kafka batch is damaged: the file has changed since `latestOffset` read the batch.
        """
        import pyarrow as pa

        assert isinstance(partition, StreamTask)
        schema = to_arrow_schema(self.schema, timezone="UTC")
        dialect = dialects.dialect(self.options.coordinator, self.options.kafka)
        for log, position, end_offset in partition.logs:
            if self.options.table == "batches":
                arrow_batches = _kafka_batches_as_rows(log, position, end_offset)
            else:
                columns_by_name = {column.name: column for column in self.options.columns}
                columns = [columns_by_name[name] for name in schema.names]
                with_json = "json" in schema.names
                rows = record_rows(LogSection(log, position, end_offset), dialect, with_json=with_json)
                arrow_batches = record_batches("records", columns, rows)
            for arrow_batch in arrow_batches:
                yield pa.RecordBatch.from_arrays([arrow_batch[name] for name in schema.names], schema=schema)
        exclude_objects_from_gc()

    def _position_at(self, partition: int, offset: int) -> Position:
        """Return the position of a Kafka offset in a log partition. It has a file and a byte only if they are known."""
        return self.positions.get(partition, {}).get(offset) or Position(offset)

    def _find_logs(self) -> dict[int, Log]:
        """Return the log of each log partition that exists now."""
        logs: dict[int, Log] = {}
        for path in self.options.paths:
            for log in _find_logs_so_far(path, self.options.cwd):
                if partition_number(log.partition) in logs:
                    raise UsageError(f"{path}: partition {partition_number(log.partition)} is in two folders")
                logs[partition_number(log.partition)] = log.limit_batches(self.options.max_batch_bytes)
        return logs


class LogSection(Log):
    """A part of a log: the batches after a position, if their base offset is below `end_offset`."""

    def __init__(self, log: Log, position: Position, end_offset: int) -> None:
        super().__init__(log.path, log.segments, log.partition, folder=log.folder)
        self.max_batch_bytes = log.max_batch_bytes
        self.position = position
        self.end_offset = end_offset

    def __iter__(self) -> Iterator[Batch]:
        for new_batch in read_until(self, self.position, self.end_offset):
            yield new_batch.batch


def _find_logs_so_far(path: str, folder: str) -> list[Log]:
    """Return the logs at a path; an empty list if the path is a folder that contains no log yet."""
    try:
        return find_logs(path, folder)
    except UsageError:
        if os.path.isdir(os.path.join(folder, local_path(path) or "")):
            return []
        raise


def _kafka_batches_as_rows(log: Log, position: Position, end_offset: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the table `batches` as Arrow record batches. Each row is a Kafka batch."""
    kafka_batches: list[NewBatch] = []
    size = 0
    for kafka_batch in read_until(log, position, end_offset):
        kafka_batches.append(kafka_batch)
        size += len(kafka_batch.data)
        if len(kafka_batches) == ARROW_BATCH_ROWS or size > ARROW_BATCH_BYTES:
            yield _to_arrow_batch(log, kafka_batches)
            kafka_batches = []
            size = 0
    if kafka_batches:
        yield _to_arrow_batch(log, kafka_batches)


def _to_arrow_batch(log: Log, kafka_batches: Iterable[NewBatch]) -> pa.RecordBatch:
    """Return Kafka batches as the rows of one Arrow record batch."""
    import pyarrow as pa

    content = [
        (
            partition_number(log.partition),
            new.batch.base_offset,
            new.batch.next_offset,
            new.data,
            new.batch.file,
            new.batch.position,
        )
        for new in kafka_batches
    ]
    values_by_column = zip(*content, strict=True)
    schema = arrow_schema(LOCATED_BATCHES)
    arrays = [pa.array(values, field.type) for values, field in zip(values_by_column, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
