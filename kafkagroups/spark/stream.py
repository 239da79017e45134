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
    failOnDamage                    true: the query fails at damage, with the file and the offset (default: true)
                                    false: the log partition is read up to the damage until its file is repaired, and
                                    Spark's log has a line

A log partition is a partition of the topic `__consumer_offsets`. Spark calls a position in the stream an offset. In
this module, a position in the stream (`StreamOffset`) contains the Kafka offset of the next record of each log
partition.

growth.py finds the new batches: in segments that have grown, in new segments, and in new partitions. An incomplete
batch is read when it is complete. It counts as damage if nobody is writing it any more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kafkagroups.errors import UsageError
from kafkagroups.log.batch import Batch
from kafkagroups.log.batches import Position
from kafkagroups.log.damage import Damage
from kafkagroups.log.locations import find_logs, local_path
from kafkagroups.log.segments import Log
from kafkagroups.spark.growth import file_paths, file_size, find_end, limit_sizes, read_until
from kafkagroups.spark.logs import damage_error, distribute, exclude_objects_from_gc
from kafkagroups.spark.options import Options
from kafkagroups.tables.columns import record_batches
from kafkagroups.tables.rows import Row, partition_number, record_rows

if TYPE_CHECKING:
    import pyarrow as pa

    StreamOffset = dict[str, int]
    """A position in the stream. For each log partition (its number as text): the Kafka offset of the next record.

    A log partition with damage has a second entry (DAMAGED). So Spark sees that something is new, and runs the tasks.
    """

DAMAGED = "damaged "
"""The start of the second entry's name. It has the same Kafka offset, at which the damage is."""


@dataclass
class StreamTask(InputPartition):
    """The logs that one task reads.

    Each log has the position where reading begins, the Kafka offset where reading ends, and the new damage there.
    """

    logs: list[tuple[Log, Position, int, Damage | None]]


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
        self.reported: set[Damage] = set()
        """The damage that Spark's log has a line about."""
        self.file_sizes_at_start: dict[str, int] | None = None
        """By path: the size of each file in bytes when a query with the trigger AvailableNow started. None for queries
        with other triggers."""

    def initialOffset(self) -> StreamOffset:
        """Return the position in the stream before the first batch."""
        return {}

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the file sizes, because a query with this trigger reads only what exists at its start."""
        logs = self._find_logs().values()
        self.file_sizes_at_start = {path: file_size(path) for log in logs for path in file_paths(log)}

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        """Return the position in the stream after the last complete batch of each log partition."""
        ends = {int(partition): offset for partition, offset in start.items() if not partition.startswith(DAMAGED)}
        damaged = {}
        for partition, log in self._find_logs().items():
            if self.file_sizes_at_start is not None:
                log = limit_sizes(log, self.file_sizes_at_start)
            position, damage, is_damaged = find_end(log, self._position_at(partition, ends.get(partition, 0)))
            if position.next_offset > ends.get(partition, 0):
                ends[partition] = position.next_offset
                self.positions.setdefault(partition, {})[position.next_offset] = position
            if damage is None:
                continue
            if is_damaged and self.options.fail_on_damage:
                raise damage_error(damage)
            # A query that ends now reads fewer batches because of a batch that is being written.
            if damage not in self.reported and (is_damaged or self.file_sizes_at_start is not None):
                print(damage, file=sys.stderr)
                self.reported.add(damage)
            if is_damaged:
                damaged[f"{DAMAGED}{partition}"] = damage.offset
        return {str(partition): ends[partition] for partition in sorted(ends)} | damaged

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        """Return the tasks for the log partitions that have batches between two positions in the stream.

        The option `tasks` is the largest number of tasks.
        """
        found_logs = self._find_logs()
        sized_logs = []
        for name in {name.removeprefix(DAMAGED): None for name in end}:
            start_offset = start.get(name, 0)
            end_offset = end.get(name, 0)
            has_new_damage = DAMAGED + name in end and start.get(DAMAGED + name) != end[DAMAGED + name]
            if end_offset <= start_offset and not has_new_damage:
                continue
            log = found_logs.get(int(name))
            if log is None:
                raise UsageError(
                    f"partition {name} was deleted; the query needs its offsets {start_offset} to {end_offset}"
                )
            position = self._position_at(int(name), start_offset)
            damage = None
            if has_new_damage:  # It is found again, because a restarted query has not called `latestOffset`.
                _, damage, _ = find_end(log, self._position_at(int(name), end_offset))
            unread_files = file_paths(log)[log.find_segment(position) :]
            unread_bytes = sum(file_size(path) for path in unread_files) - position.byte
            sized_logs.append((unread_bytes, (log, position, end_offset, damage)))
        return [StreamTask(logs) for logs in distribute(sized_logs, self.options.tasks)] if sized_logs else []

    def commit(self, end: StreamOffset) -> None:
        """Drop the positions before `end`, because Spark will not request them again."""
        for partition, positions in self.positions.items():
            done = end.get(str(partition), 0)
            self.positions[partition] = {offset: position for offset, position in positions.items() if offset >= done}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield Arrow record batches. Their rows are the Kafka batches of a task, or the records in these batches.

        Raises InvalidLog if a Kafka batch is damaged: the file has changed since `latestOffset` read the batch.
        """
        import pyarrow as pa

        assert isinstance(partition, StreamTask)
        options = self.options
        schema = to_arrow_schema(self.schema, timezone="UTC")
        columns_by_name = {column.name: column for column in options.all_columns}
        columns = [columns_by_name[name] for name in schema.names]
        for log, position, end_offset, damage in partition.logs:
            if options.table == "batches":
                rows = _batch_rows(log, position, end_offset, damage if "damage" in schema.names else None)
            else:
                section = LogSection(log, position, end_offset)
                rows = record_rows(section, options.dialect, with_json="json" in schema.names)
            for arrow_batch in record_batches(options.all_columns, columns, rows):
                yield pa.RecordBatch.from_arrays(arrow_batch.columns, schema=schema)
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
                logs[partition_number(log.partition)] = log.limit_batches(self.options.topic.max_batch_bytes)
        return logs


class LogSection(Log):
    """A part of a log: the batches after a position, if their base offset is below `end_offset`."""

    def __init__(self, log: Log, position: Position, end_offset: int) -> None:
        super().__init__(log.path, log.segments, log.partition, folder=log.folder)
        self.max_batch_bytes = log.max_batch_bytes
        self.position = position
        self.end_offset = end_offset

    def __iter__(self) -> Iterator[Batch]:
        for batch, _ in read_until(self, self.position, self.end_offset):
            yield batch


def _find_logs_so_far(path: str, folder: str) -> list[Log]:
    """Return the logs at a path; an empty list if the path is a folder that contains no log yet."""
    try:
        return find_logs(path, folder)
    except UsageError:
        if os.path.isdir(os.path.join(folder, local_path(path) or "")):
            return []
        raise


def _batch_rows(log: Log, position: Position, end_offset: int, damage: Damage | None) -> Iterator[Row]:
    """Yield the rows of the table `batches`: the Kafka batches of a part of a log, and the damage after them."""
    number = partition_number(log.partition)
    for batch, data in read_until(log, position, end_offset):
        yield number, batch.base_offset, batch.next_offset, data, batch.file, batch.position, None
    if damage is not None:
        yield number, damage.offset, damage.offset, b"", damage.file, damage.position, damage.reason
