"""The Spark data source `consumer_offsets`: a log's tables as DataFrames.

    spark.read.format("consumer_offsets").option("table", "offsets").load(path)

    table            one of loading.columns.TABLES (default: offsets); a stream (stream.py) has records or batches
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
    failOnDamage     true: damaged bytes are an error that names the file and the offset (default: true), because rows
                     after them would be missing. false: the log is read up to its damage, as a broker's recovery cuts
                     it there. The table `partitions` has the reason, and Spark's log a line

Use `pushdown` only for a DataFrame that runs one query. Spark 4.3 stores the filters in the DataFrame, so a second
query would run only the tasks of the first query.

A log partition is a partition of the topic `__consumer_offsets`. Each log partition is loaded alone. So a group with
records in two log partitions has rows from both partitions. In contrast, `kafkagroups.spark.load` returns only the rows
that a broker would answer. If the partition count of the topic was changed, rows of the groups that have moved stand in
both partitions, and a line in Spark's log says so. If a broker's load would fail, no exception is raised: the tables
have what such a broker would answer, and the table `partitions` has the reason.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, In, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kafkagroups.errors import UsageError
from kafkagroups.loading.rows import GROUP_TABLES, partition_number
from kafkagroups.log.damage import NAMED_GROUPS
from kafkagroups.log.locations import find_all_logs
from kafkagroups.log.segment_file import partition_for
from kafkagroups.log.segments import Log
from kafkagroups.spark.options import FORMAT, Options, check_schema, schema_ddl
from kafkagroups.spark.stream import OffsetsStream
from kafkagroups.spark.tasks import damage_error, distribute, exclude_objects_from_gc
from kafkagroups.topic import read_topic_table

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
        if options.topic.past_damage:
            raise UsageError("option past_damage: a stream ends with an error at damaged bytes")
        check_schema(options, schema)
        return OffsetsStream(options, schema)


@dataclass
class Task(InputPartition):
    """The logs that one task loads, and how many partitions the topic has; None if it is not known.

    Without the option, a folder with the partitions 0 to n-1 counts as a topic of n partitions.
    """

    logs: list[Log]
    partitions: int | None


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
        logs = find_all_logs(self.options.paths, self.options.cwd)
        numbers = {partition_number(log.partition) for log in logs}
        is_whole = len(self.options.paths) == 1 and numbers == set(range(len(logs)))
        count = self.options.topic.partitions or (len(logs) if is_whole else None)
        if selected is not None:
            logs = [log for log in logs if partition_number(log.partition) in selected]
        lists = distribute([(log.size, log) for log in logs], self.options.tasks)
        return [Task(task_logs, count) for task_logs in lists]

    def _selected_partitions(self) -> set[int] | None:
        options = self.options
        # The classic coordinator uses the records of a group from all partitions.
        uses_home_partitions = options.topic.coordinator == "new" and options.table in GROUP_TABLES
        if self.only_groups is None or not options.topic.partitions or not uses_home_partitions:
            return self.only_partitions
        # A log without a partition number can contain any group, so this log is always selected.
        homes = {partition_for(group, options.topic.partitions) for group in self.only_groups}
        return _intersect(self.only_partitions, homes | {partition_number(None)})

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's logs as Arrow record batches.

        Raises a UsageError if a file cannot be read, and an InvalidLog at damage with the option `failOnDamage`.
        """
        assert isinstance(partition, Task)
        for log in partition.logs:
            yield from self._read_log(log, partition.partitions)
        exclude_objects_from_gc()

    def _read_log(self, log: Log, partitions: int | None) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        options = self.options
        schema = to_arrow_schema(self.schema, timezone="UTC")
        groups = None if self.only_groups is None else pa.array(sorted(self.only_groups), pa.string())
        topic = options.topic.open(find_logs=lambda path: [log])
        moved: set[str] = set()
        for batch in read_topic_table(topic, options.table, schema.names):
            if groups is not None:
                batch = batch.filter(pc.is_in(batch["group"], value_set=groups))
            if partitions and options.table != "records" and "group" in schema.names:
                names = pc.unique(batch["group"]).drop_null().to_pylist()
                moved.update(name for name in names if partition_for(name, partitions) != log.partition)
            # The batch must have Spark's schema. In a schema that the user has set, every column can be null.
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        damage = topic.logs[0].damage
        if damage is not None and options.fail_on_damage:
            raise damage_error(damage)
        if damage is not None:
            print(damage, file=sys.stderr)
        if moved:
            print(_describe_moved(log, moved, partitions), file=sys.stderr)


def _describe_moved(log: Log, groups: set[str], partitions: int | None) -> str:
    names = ", ".join(sorted(groups)[:NAMED_GROUPS])
    return (
        f"{log.path}: with {partitions} partitions, these groups belong elsewhere: {len(groups)}, such as {names}. If "
        "the partition count of the topic was changed, rows of these groups can stand in this table twice, once for "
        "each partition. kafkagroups.spark.load returns them once"
    )


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
