"""The Spark data source `consumer_offsets`: a log's tables as DataFrames.

    spark.read.format("consumer_offsets").option("table", "offsets").load(path)

    table            one of loading.columns.TABLES (default: offsets); a stream has records or batches
    coordinator      classic or new (default: new)
    kafka            the coordinator's Kafka version (default: 3.9.2 for classic, 4.3.1 for new)
    path, paths      partition directories, .log files or folders of them: the arguments of `.load(…)`,
                     on this machine or on another file system (log/folders.py)
    cwd              the folder of relative paths (default: the folder in which Spark's Java was started)
    partitions       the topic's partition count; the new coordinator then uses the records of a group only from the
                     group's home partition, which is the partition that the hash of the group id selects
    engine           auto, python or compiled, as in `kafkagroups.load` (default: auto, which is the native engine
                     on each machine where it is installed)
    tasks            the largest number of tasks (default: 2 per core of the machine that plans the query, and more
                     if a task would read more than 64 MiB)
    columns          only these columns of the table, such as group,topic,committed_offset: Spark asks a Python data
                     source for all columns, and `json` is most of the work of the table `records`. Every table has two
                     more columns that can be named: `path` of the log, and `cluster`
    groups           only these groups, such as billing,app-*; if `partitions` is given, the new coordinator reads only
                     the home partitions of groups without * and ?
    log_partitions   only these partitions of __consumer_offsets, such as 0,3,7-9
    cluster          what the column `cluster` says, to tell the rows of several clusters apart
    max_batch_bytes  the largest size of one decompressed batch; the log ends before a larger batch
                     (default: 268435456, 256 MiB)
    past_damage      true: go on at the next readable batch after damaged bytes (default: false); not for a stream
    failOnDamage     true: damaged bytes are an error that names the file and the offset (default: true), because rows
                     after them would be missing. false: the log is read up to its damage, as a broker's recovery cuts
                     it there. The table `partitions` has the reason, and Spark's log a line

Filters select no tasks: Spark 4.3 stores the filters that a Python data source accepts in the DataFrame, so a later
query on the same DataFrame would read too little. `groups` and `log_partitions` are part of the DataFrame.

Each log partition is loaded alone, so a group that moved because the partition count of the topic was changed has rows
from both partitions, and a line in Spark's log says so. `kafkagroups.spark.load` returns only the rows that a broker
would answer. If a broker's load would fail, no exception is raised: the tables have what such a broker would answer,
and the table `partitions` has the reason.

A growing folder as a Spark stream: the new batches or records of a topic.

    spark.readStream.format("consumer_offsets").option("table", "batches").load(folder)

    table                           records: each row is a record (columns: loading.columns.TABLES)
                                    batches: each row is a Kafka batch (columns: options.BATCHES), unchanged in `bytes`,
                                    for jobs that decode it themselves; a schema can name those of LOCATED_BATCHES, too
    path, paths                     as above, but only of a local or mounted file system, and the same on the
                                    driver and on every executor; the folder may be empty when the stream starts
    coordinator, kafka, cwd, tasks  as above
    failOnDamage                    true: the query fails at damage, with the file and the offset (default: true)
                                    false: the log partition is read up to the damage until its file is repaired, and
                                    Spark's log has a line
    failOnDataLoss                  true: the query fails if a log partition disappears, is truncated below what was
                                    read, or has other bytes there, with the folder and the offset (default: true)
                                    false: Spark's log has a line, and the stream goes on with what is there now
    startingOffsets                 where a new query starts: earliest, latest, or the Kafka offsets of log partitions
                                    as JSON, such as {"0": 23, "9": -1}, where -2 is earliest and -1 is latest (default:
                                    earliest, also for a partition that JSON does not name or that comes later)
    maxBytesPerTrigger              the largest number of bytes of the log in a micro-batch
    maxRowsPerTrigger               the largest number of rows in a micro-batch. A micro-batch has at least one Kafka
                                    batch. At most one of the two options can be set (default: neither)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafkagroups.errors import UsageError
from kafkagroups.loading.columns import arrow_schema, schema_ddl
from kafkagroups.loading.partition_count import has_wildcard, match_groups
from kafkagroups.loading.rows import GROUP_TABLES, partition_number
from kafkagroups.log.damage import NAMED_GROUPS
from kafkagroups.log.folders import find_all_logs
from kafkagroups.log.segment_file import partition_for
from kafkagroups.log.segments import Log
from kafkagroups.spark.options import FORMAT, Options, check_schema, select_columns
from kafkagroups.spark.tasks import damage_error, distribute, exclude_objects_from_gc
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
        return schema_ddl(Options.parse(self.options).columns)

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
        uses_home_partitions = options.topic.coordinator == "new" and options.table in GROUP_TABLES
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
        exclude_objects_from_gc()

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
        wanted = {name for pattern in self.options.groups for name in match_groups(names, pattern)}
        return pa.compute.is_in(groups, value_set=pa.array(sorted(wanted), pa.string()))


def _describe_moved(log: Log, groups: set[str], partitions: int | None) -> str:
    names = ", ".join(sorted(groups)[:NAMED_GROUPS])
    return (
        f"{log.path}: with {partitions} partitions, these groups belong elsewhere: {len(groups)}, such as {names}. If "
        "the partition count of the topic was changed, rows of these groups can stand in this table twice, once for "
        "each partition. kafkagroups.spark.load returns them once"
    )
