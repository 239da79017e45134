"""The Spark data source `consumer_offsets`: a log's tables as DataFrames.

    spark.read.format("consumer_offsets").option("table", "offsets").load(path)

    table            one of tables.columns.TABLES (default: offsets); a stream (stream.py) has records or batches
    coordinator      classic or new (default: new)
    kafka            the coordinator's Kafka version (default: 3.9.2 for classic, 4.3.1 for new)
    path, paths      partition directories, .log files or folders of them: the arguments of `.load(…)`,
                     on this machine or on another file system (log/locations.py)
    cwd              the folder of relative paths (default: the folder in which Spark's Java was started)
    partitions       the topic's partition count; the new coordinator then uses the records of a group only from the
                     group's home partition, which is the partition that the hash of the group id selects
    engine           auto, python or compiled, as in `kafkagroups.load` (default: auto, which is the native engine
                     on each machine where it is installed)
    tasks            the largest number of tasks (default: 2 per core)
    pushdown         true: filters on `partition` select the tasks to run; if `partitions` is given, filters on `group`
                     select tasks, too (default: false)
    max_batch_bytes  the largest size of one decompressed batch; the log ends before a larger batch
                     (default: 268435456, 256 MiB)
    past_damage      true: go on at the next readable batch after damaged bytes (default: false); not for a stream

Use `pushdown` only for a DataFrame that runs one query. Spark 4.3 stores the filters in the DataFrame, so a second
query would run only the tasks of the first query.

A log partition is a partition of the topic `__consumer_offsets`. Each log partition is loaded alone. So a group with
records in two log partitions has rows from both partitions. In contrast, `kafkagroups.spark.load` returns only the rows
that a broker would answer. If bytes are damaged, or if a broker's load would fail, no exception is raised. The tables
then have the rows before the damage, and the table `partitions` has the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, In, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kafkagroups.api import load_table
from kafkagroups.errors import UsageError
from kafkagroups.log.locations import find_all_logs
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.segments import Log
from kafkagroups.spark.options import FORMAT, Options, check_schema, schema_ddl
from kafkagroups.spark.stream import OffsetsStream
from kafkagroups.spark.tasks import distribute, exclude_objects_from_gc
from kafkagroups.tables.rows import GROUP_TABLES, partition_number

if TYPE_CHECKING:
    import pyarrow as pa


class ConsumerOffsets(DataSource):
    """The data source. The options are checked when Spark requests the schema or a reader.

    `tasks` is the default of the option `tasks`: two tasks per core.
    """

    tasks = 2 * (os.cpu_count() or 1)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return schema_ddl(Options.parse(self.options, self.tasks).columns)

    def reader(self, schema: StructType) -> ConsumerOffsetsReader:
        options = Options.parse(self.options, self.tasks)
        if options.table == "batches":
            raise UsageError("only streams have table batches: use spark.readStream")
        check_schema(options, schema)
        return PushdownReader(options, schema) if options.pushdown else ConsumerOffsetsReader(options, schema)

    def streamReader(self, schema: StructType) -> OffsetsStream:
        options = Options.parse(self.options, self.tasks)
        if options.past_damage:
            raise UsageError("option past_damage: a stream ends with an error at damaged bytes")
        check_schema(options, schema)
        return OffsetsStream(options, schema)


@dataclass
class Task(InputPartition):
    """The logs that one task loads."""

    logs: list[Log]


class ConsumerOffsetsReader(DataSourceReader):
    """The reader of DataFrames that are not streams. Spark pickles the reader and sends the pickle to the tasks.

    `only_partitions` contains the log partitions that filters select, or None for all partitions. `only_groups`
    contains the group ids that filters select, or None for all groups.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self.only_partitions: set[int] | None = None
        self.only_groups: set[str] | None = None

    def partitions(self) -> list[InputPartition]:
        """Return the tasks: at most as many as the option `tasks` says, with about the same number of bytes each."""
        selected = self._selected_partitions()
        found_logs = find_all_logs(self.options.paths, self.options.cwd)
        logs = [log.limit_batches(self.options.max_batch_bytes) for log in found_logs]
        if self.options.past_damage:
            logs = [log.skip_damage() for log in logs]
        if selected is not None:
            logs = [log for log in logs if partition_number(log.partition) in selected]
        sized_logs = [(log.size, log) for log in logs]
        return [Task(task_logs) for task_logs in distribute(sized_logs, self.options.tasks)]

    def _selected_partitions(self) -> set[int] | None:
        """Return the log partitions that the filters select; None means all."""
        options = self.options
        # The classic coordinator uses the records of a group from all partitions.
        uses_home_partitions = options.coordinator == "new" and options.table in GROUP_TABLES
        if self.only_groups is None or not options.partitions or not uses_home_partitions:
            return self.only_partitions
        # A log without a partition number can contain any group, so this log is always selected.
        homes = {partition_for(group, options.partitions) for group in self.only_groups}
        return _intersect(self.only_partitions, homes | {partition_number(None)})

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's logs as Arrow record batches. Raises a UsageError if a file cannot be read."""
        import pyarrow as pa
        import pyarrow.compute as pc

        assert isinstance(partition, Task)
        schema = to_arrow_schema(self.schema, timezone="UTC")
        groups = None if self.only_groups is None else pa.array(sorted(self.only_groups), pa.string())
        for log in partition.logs:
            batches = load_table(
                log,
                table=self.options.table,
                coordinator=self.options.coordinator,
                kafka=self.options.kafka,
                partitions=self.options.partitions,
                columns=schema.names,
                engine=self.options.engine,
            )
            for batch in batches:
                if groups is not None:
                    batch = batch.filter(pc.is_in(batch["group"], value_set=groups))
                # The batch must have Spark's schema. In a schema that the user has set, every column can be null.
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        exclude_objects_from_gc()


_ACCEPTED_COLUMNS = (("partition",), ("group",))
"""The columns of the filters that `PushdownReader` accepts."""


class PushdownReader(ConsumerOffsetsReader):
    """The reader for the option `pushdown`. It accepts filters from Spark."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Accept filters that compare `partition` or `group` with values. Return all other filters to Spark."""
        for condition in filters:
            if not isinstance(condition, EqualTo | In) or condition.attribute not in _ACCEPTED_COLUMNS:
                yield condition
                continue
            values = {condition.value} if isinstance(condition, EqualTo) else set(condition.value)
            values.discard(None)
            if condition.attribute == ("partition",):
                self.only_partitions = _intersect(self.only_partitions, values)
            else:
                self.only_groups = _intersect(self.only_groups, values)


def _intersect(selected: set[Any] | None, values: set[Any]) -> set[Any]:
    """Return the values that are in both sets. None is the set of all values."""
    return values if selected is None else selected & values
