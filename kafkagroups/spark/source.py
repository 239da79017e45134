"""The Spark data source `consumer_offsets`: a log's tables as DataFrames, and a growing folder as a stream.

    spark.read.format("consumer_offsets").option("table", "offsets").load(path)
    spark.readStream.format("consumer_offsets").option("table", "batches").load(folder)

docs/spark.md has the options and their defaults. Paths are those of `log/folders.py`. A stream reads a local or mounted
file system that is the same on the driver and on every executor, and its table `batches` has Kafka's batches unchanged
in `bytes`, for jobs that decode them themselves.

Filters select no tasks: Spark 4.3 stores the filters that a Python data source accepts in the DataFrame, so a later
query on the same DataFrame would read too little. `groups` and `log_partitions` are part of the DataFrame, and so are
`columns`: Spark asks a Python data source for all of them, and `json` is most of the work of the table `records`.

Each log partition is loaded alone, so a group that moved because the partition count of the topic was changed has rows
from both partitions, and a line in Spark's log says so. `kafkagroups.spark.load` returns only the rows that a broker
would answer. If a broker's load would fail, no exception is raised: the tables have what such a broker would answer,
and the table `partitions` has the reason.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafkagroups.errors import UsageError
from kafkagroups.loading.columns import arrow_schema, partition_number, schema_ddl
from kafkagroups.loading.partition_count import has_wildcard, match_groups
from kafkagroups.loading.rows import GROUP_TABLES
from kafkagroups.log.batches import NAMED_GROUPS
from kafkagroups.log.folders import find_all_logs
from kafkagroups.log.segment_file import partition_for
from kafkagroups.log.segments import Log
from kafkagroups.spark.options import FORMAT, Options, check_schema, select_columns
from kafkagroups.spark.tasks import damage_error, distribute
from kafkagroups.topic import read_topic_table

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkagroups.spark.stream import OffsetsStream


class ConsumerOffsets(DataSource):
    """The data source. The options are checked when Spark requests the schema or a reader."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return schema_ddl(Options.parse(self.options).selected_columns)

    def reader(self, schema: StructType) -> ConsumerOffsetsReader:
        options = Options.parse(self.options)
        if options.table == "batches":
            raise UsageError("only streams have table batches: use spark.readStream")
        if options.starting_offsets != {}:
            raise UsageError("only streams have startingOffsets: use spark.readStream, or filter the column offset")
        check_schema(options, schema)
        return ConsumerOffsetsReader(options, schema)

    def streamReader(self, schema: StructType) -> OffsetsStream:
        try:
            from kafkagroups.spark.stream import OffsetsStream
        except ImportError:
            raise UsageError("a stream needs PySpark 4.2 or newer, which limits what a micro-batch reads") from None
        options = Options.parse(self.options)
        if options.topic.past_damage:
            raise UsageError("option past_damage: a stream ends with an error at damaged bytes")
        if options.groups:
            raise UsageError("option groups: a stream has the rows of all groups; filter the column group")
        check_schema(options, schema)
        places = {"path", "cluster"} & set(schema.names)
        if places:
            raise UsageError(f"a stream has no column {min(places)}")
        return OffsetsStream(options, schema)


@dataclass
class Task(InputPartition):
    """The logs that one task loads, and how many partitions the topic has; None if it is not known.

    Without the option, a folder with the partitions 0 to n-1 counts as a topic of n partitions.
    """

    logs: list[Log]
    partitions: int | None


class ConsumerOffsetsReader(DataSourceReader):
    """The reader of DataFrames that are not streams, which Spark pickles."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.groups and "group" not in {column.name for column in options.all_columns}:
            raise UsageError(f"option groups: the table {options.table} has no column group")
        self.options = options
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return the tasks: at most as many as the option `tasks` says, with about the same number of bytes each."""
        paths = self.options.find_paths()
        logs = find_all_logs(paths, self.options.cwd)
        numbers = {partition_number(log.partition) for log in logs}
        is_whole = len(paths) == 1 and numbers == set(range(len(logs)))
        count = self.options.topic.partitions or (len(logs) if is_whole else None)
        selected = self._select_partitions(numbers)
        sized_logs = [(log.size, log) for log in logs if partition_number(log.partition) in selected]
        return [Task(task_logs, count) for task_logs in distribute(sized_logs, self.options.tasks)]

    def _select_partitions(self, numbers: set[int]) -> set[int]:
        options = self.options
        selected = set(filter(options.selects, numbers))
        count = options.topic.partitions
        # The classic coordinator uses the records of a group from all partitions.
        uses_home_partitions = options.topic.dialect.coordinator == "new" and options.table in GROUP_TABLES
        if count is None or not options.groups or not uses_home_partitions or any(map(has_wildcard, options.groups)):
            return selected
        # A log without a partition number can contain any group, so this log is always selected.
        return selected & {partition_number(None), *(partition_for(group, count) for group in options.groups)}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's logs as Arrow record batches.

        Raises a UsageError if a file cannot be read, and an InvalidLog at damage with the option `failOnDamage`.
        """
        assert isinstance(partition, Task)
        for log in partition.logs:
            yield from self._read_log(log, partition.partitions)

    def _read_log(self, log: Log, partitions: int | None) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        options = self.options
        schema = arrow_schema(select_columns(options, self.schema))
        place = {"path": pa.scalar(log.path, pa.string()), "cluster": pa.scalar(options.cluster, pa.string())}
        names = [name for name in schema.names if name not in place]
        if not names or (options.groups and "group" not in names):
            names.append("group" if options.groups else "partition")
        topic = options.topic.open(find_logs=lambda path: [log])
        moved: set[str] = set()
        for batch in read_topic_table(topic, options.table, names):
            if options.groups:
                batch = batch.filter(self._find_wanted(batch["group"]))
            if partitions and options.table != "records" and "group" in names:
                groups = pc.unique(batch["group"]).drop_null().to_pylist()
                moved.update(name for name in groups if partition_for(name, partitions) != log.partition)
            columns = [pa.repeat(place[name], len(batch)) if name in place else batch[name] for name in schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
        damage = topic.logs[0].damage
        if damage is not None and options.fail_on_damage:
            raise damage_error(damage)
        if damage is not None:
            print(damage, file=sys.stderr)
        if moved:
            print(_describe_moved(log, moved, partitions), file=sys.stderr)

    def _find_wanted(self, groups: pa.Array) -> pa.Array:
        import pyarrow as pa

        names = groups.unique().drop_null().to_pylist()
        wanted = {name for pattern in self.options.groups or () for name in match_groups(names, pattern)}
        return pa.compute.is_in(groups, value_set=pa.array(sorted(wanted), pa.string()))


def _describe_moved(log: Log, groups: set[str], partitions: int | None) -> str:
    names = ", ".join(sorted(groups)[:NAMED_GROUPS])
    return (
        f"{log.path}: with {partitions} partitions, these groups belong elsewhere: {len(groups)}, such as {names}. If "
        "the partition count of the topic was changed, rows of these groups can stand in this table twice, once for "
        "each partition. kafkagroups.spark.load returns them once"
    )
