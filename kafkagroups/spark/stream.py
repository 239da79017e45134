"""A growing folder as a stream: `spark.readStream.format("consumer_offsets").option("table", "batches").load(folder)`.

    table            records, the columns of `columns.TABLES`, or
                     batches: partition int, base_offset long, next_offset long, bytes binary; each a whole batch as
                     it stands in the log, with its header, for whoever folds on
    path, paths      as in source.py, but files of this machine (each executor's too); the folder may be empty yet
    coordinator, kafka, cwd, tasks            as in source.py

The stream's offset is {log partition: next Kafka offset}. What it is up to, and where the next batches stand, says
growth.py: segments that have grown, new ones, new partitions. A batch that is not whole yet waits.
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
from kafkagroups.log.places import find_logs, local_path
from kafkagroups.log.segments import Log, Position
from kafkagroups.records.versions import dialect
from kafkagroups.spark.growth import NewBatch, files_of, find_end, read_until, size_of
from kafkagroups.spark.source import Options, bins, freeze
from kafkagroups.tables.columns import record_batches
from kafkagroups.tables.rows import number, record_rows

if TYPE_CHECKING:
    import pyarrow as pa

    Offset = dict[str, int]

ROWS, BYTES = 8192, 16 * 1024 * 1024
"""Where a record batch of raw batches ends."""


@dataclass
class Part(InputPartition):
    """What one task reads: of each log what stands behind its mark, up to an offset."""

    logs: list[tuple[Log, Position, int]]


class OffsetsStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives as long as its query, in a process of its own; `read` runs in tasks, from what a Part says."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.table not in ("records", "batches"):
            raise UsageError(f"a stream has table records or batches, not {options.table}")
        if elsewhere := [path for path in options.paths if local_path(path) is None]:
            raise UsageError(f"a stream reads files of this machine, not {elsewhere[0]}")
        self.options = options
        self.schema = schema
        self.marks: dict[int, dict[int, Position]] = {}
        """By partition, then next offset: what was told to Spark and may be asked for."""
        self.sizes: dict[str, int] | None = None
        """What there was when a query began that ends with it."""

    def initialOffset(self) -> Offset:
        return {}

    def prepareForTriggerAvailableNow(self) -> None:
        self.sizes = {path: size_of(path) for log in self._logs().values() for path in files_of(log)}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Where the whole batches end now."""
        ends = {int(partition): offset for partition, offset in start.items()}
        for partition, log in self._logs().items():
            mark = find_end(log, self._mark(partition, ends.get(partition, 0)), self.sizes)
            if mark.next_offset > ends.get(partition, 0):
                ends[partition] = mark.next_offset
                self.marks.setdefault(partition, {})[mark.next_offset] = mark
        return {str(partition): ends[partition] for partition in sorted(ends)}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The log partitions with something between two offsets, in at most `tasks` tasks."""
        logs, sized = self._logs(), []
        for partition, until in end.items():
            begin = start.get(partition, 0)
            if until > begin:
                if (log := logs.get(int(partition))) is None:
                    raise UsageError(f"partition {partition} has gone, from which offsets {begin} to {until} were read")
                mark = self._mark(int(partition), begin)
                rest = sum(size_of(path) for path in files_of(log)[log.first_segment(mark) :]) - mark.byte
                sized.append((rest, (log, mark, until)))
        return [Part(some) for some in bins(sized, self.options.tasks)] if sized else []

    def commit(self, end: Offset) -> None:
        """Spark does not ask for less again."""
        for partition, offset in end.items():
            told = self.marks.get(int(partition), {})
            self.marks[int(partition)] = {at: mark for at, mark in told.items() if at >= offset}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of a part, or their records. InvalidLog when one has been damaged meanwhile."""
        import pyarrow as pa

        assert isinstance(partition, Part)
        schema = to_arrow_schema(self.schema, timezone="UTC")
        rules = dialect(self.options.coordinator, self.options.kafka)
        for log, mark, until in partition.logs:
            if self.options.table == "batches":
                batches = _raw_batches(log, mark, until)
            else:
                columns = [column for name in schema.names for column in self.options.columns if column.name == name]
                with_json = "json" in schema.names
                records = record_rows(Stretch(log, mark, until), rules, with_json=with_json)
                batches = record_batches("records", columns, records)
            for batch in batches:
                yield pa.RecordBatch.from_arrays([batch[name] for name in schema.names], schema=schema)
        freeze()

    def _mark(self, partition: int, offset: int) -> Position:
        return self.marks.get(partition, {}).get(offset) or Position(offset)

    def _logs(self) -> dict[int, Log]:
        logs: dict[int, Log] = {}
        for path in self.options.paths:
            for log in _found(path, self.options.cwd):
                if number(log.partition) in logs:
                    raise UsageError(f"{path}: partition {number(log.partition)} stands in another folder as well")
                logs[number(log.partition)] = log
        return logs


class Stretch(Log):
    """Part of a log: the batches behind a mark, up to an offset."""

    def __init__(self, log: Log, mark: Position, until: int) -> None:
        super().__init__(log.path, log.segments, log.partition, folder=log.folder)
        self.mark, self.until = mark, until

    def __iter__(self) -> Iterator[Batch]:
        for new in read_until(self, self.mark, self.until):
            yield new.batch


def _found(path: str, folder: str) -> list[Log]:
    """The logs at a path; none yet in a folder that is there."""
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
        if len(rows) == ROWS or size > BYTES:
            yield _raw_batch(log, rows)
            rows, size = [], 0
    if rows:
        yield _raw_batch(log, rows)


def _raw_batch(log: Log, rows: Iterable[NewBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    content = [(number(log.partition), found.batch.base_offset, found.batch.next_offset, found.data) for found in rows]
    types = (pa.int32(), pa.int64(), pa.int64(), pa.binary())
    arrays = [pa.array(values, kind) for values, kind in zip(zip(*content, strict=True), types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, ["partition", "base_offset", "next_offset", "bytes"])
