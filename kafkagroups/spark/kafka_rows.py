"""The topic as rows of a DataFrame, as Spark's Kafka source, a Connect sink or a table holds it, loaded like segments.

    rows = spark.read.format("kafka").option("subscribe", "__consumer_offsets")
    rows = rows.option("kafka.isolation.level", "read_committed").load()
    kgs.load(rows).offsets

The rows need the columns `key`, `value`, `partition`, `offset` and `timestamp`. A Spark task writes the rows of a
partition as segments into a folder of its own machine, and loads this folder like any other.

Rows are records without batches and markers, so they say less than segments:

- A `read_committed` consumer stops at the first open transaction of a partition. Its commits and everything behind it
  are missing, and the table `pending` is empty. The table `partitions` says up to which offset there are rows.
- With `read_uncommitted`, the commits of open and of aborted transactions look like others, and the answers are wrong.
- The answers of the new coordinator do not depend on the place of a marker. Those of the classic coordinator can: if a
  tombstone follows a transactional commit, the commit survives where its marker follows the tombstone. Rows do not show
  either which commits are transactional, so `RowTables.uncertain` has each key whose newest record is a tombstone and
  that has a commit before it.
- A group that only an aborted transaction mentions is missing.

Each table reads the rows again, so cache them if their source is slow.

A stream of rows has the current offsets (`_current_offsets`). Spark's own state keeps the newest record of each key of
a group, as Kafka's log cleaner does, and each micro-batch loads the groups of which it has records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.loading.columns import arrow_schema, columns_of, schema_ddl, split_by_size
from kafkagroups.loading.load import OpenTopic, WholeTopic
from kafkagroups.loading.partition_count import FoundPartitions
from kafkagroups.loading.rows import decode_columns, read_table
from kafkagroups.log.batch import LogRecord, encode_batch
from kafkagroups.log.folders import open_log
from kafkagroups.log.segment_file import MAX_RELATIVE_OFFSET
from kafkagroups.log.segments import Log, log_of_buffers
from kafkagroups.log.writer import LogWriter
from kafkagroups.records.releases import DEFAULT_DIALECT
from kafkagroups.spark.tasks import RESULTS, collect_results, pack_result
from kafkagroups.topic import Topic

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROW_COLUMNS = ("partition", "offset", "timestamp", "key", "value")
_KEY = ("partition", "group", "topic", "topic_partition")
_DECODED = columns_of(
    "records", ("type", "name", "group", "topic", "topic_partition", "value_version", "json", "error")
)
_DECODE = "consumer_offsets_decode"
_LOAD = "consumer_offsets_load"
_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "RocksDBStateStoreProvider"
_STREAMING_STATE = "org.apache.spark.sql.execution.streaming.state"
_STATE = "offset long, timestamp_ms long, value binary"
_RECORDS_OF_BATCH = 1000
_BYTES_OF_BATCH = 1024 * 1024


def decode(rows: DataFrame) -> DataFrame:
    """Return the rows with what their keys and values say.

    The new columns are ``type``, ``name``, ``group``, ``topic``, ``topic_partition``, ``value_version``, ``json``
    (Kafka's JSON) and ``error``, as in the table ``records``. A column of the same name is replaced, such as the
    ``topic`` of Spark's Kafka source, which always is ``__consumer_offsets``. After :func:`register`, the SQL function
    ``consumer_offsets_decode(key, value)`` returns them as a struct.

    Parameters
    ----------
    rows : DataFrame
        Rows with the columns ``key`` and ``value`` (binary), of a batch or of a stream.

    Raises
    ------
    UsageError
        A column is missing.
    """
    return _decode_rows(rows, with_json=True)


def _decode_rows(rows: DataFrame, *, with_json: bool) -> DataFrame:
    """Return what `decode` returns. Without `with_json`, `json` is null, which is much faster."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    _check_columns(rows, ("key", "value"))
    added = from_arrow_schema(arrow_schema(_DECODED))
    kept = rows.select(*(F.col(name) for name in rows.columns if name not in added.names))

    def decode_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = arrow_schema(_DECODED)
        for batch in batches:
            pairs = zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
            decoded = pa.RecordBatch.from_pylist([_decode(key, value, with_json) for key, value in pairs], schema)
            names = [*batch.schema.names, *schema.names]
            yield pa.RecordBatch.from_arrays([*batch.columns, *decoded.columns], names)

    return kept.mapInArrow(decode_batches, StructType([*kept.schema.fields, *added.fields]))


def _decode(key: bytes | None, value: bytes | None, with_json: bool = True) -> dict[str, Any]:
    try:
        return decode_columns(key, value, DEFAULT_DIALECT, with_json)
    except BadBytes as error:
        return {"error": str(error)}


def register_functions(session: SparkSession) -> None:
    """Add the SQL functions: `consumer_offsets_decode(key, value)`, and the table function `consumer_offsets_load`.

    The second one gets rows, `consumer_offsets_load(TABLE(rows))`, and returns the table offsets of the new
    coordinator, each partition loaded alone.
    """
    from pyspark.sql.functions import udf, udtf
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.udtf import AnalyzeResult, OrderingColumn, PartitioningColumn

    class Load:
        """Spark creates one for each partition of the rows, and gives it the rows in the order of their offsets."""

        @staticmethod
        def analyze(rows: Any) -> AnalyzeResult:
            schema = from_arrow_schema(arrow_schema(columns_of("offsets")))
            return AnalyzeResult(schema, False, [PartitioningColumn("partition")], [OrderingColumn("offset")])

        def __init__(self) -> None:
            self.rows: list[tuple[Any, ...]] = []

        def eval(self, row: Any) -> None:
            time = row["timestamp"]
            time_ms = None if time is None else int(time.timestamp() * 1000)
            self.rows.append((row["partition"], row["partition"], row["offset"], time_ms, row["key"], row["value"]))

        def terminate(self) -> Iterator[tuple[Any, ...]]:
            records = [row.record for row in _check_rows(self.rows)]
            for row in _load_offsets(records, self.rows[0][0] if self.rows else None, Topic("")):
                yield tuple(row.values())

    load: Any = udtf(Load)
    session.udf.register(_DECODE, udf(_decode, schema_ddl(_DECODED), useArrow=False))
    session.udtf.register(_LOAD, load)


def _check_columns(rows: DataFrame, names: Iterable[str]) -> None:
    missing = [name for name in names if name not in rows.columns]
    if missing:
        raise UsageError(
            f"the DataFrame has no column {missing[0]}; the rows of the topic have {', '.join(ROW_COLUMNS)}, as "
            'spark.read.format("kafka") returns them'
        )


def _select(rows: DataFrame) -> DataFrame:
    """Return the rows with only their columns, and the timestamp as ms since the epoch."""
    from pyspark.sql import functions as F

    _check_columns(rows, ROW_COLUMNS)
    types = dict(rows.dtypes)
    for name in ("key", "value"):
        if types[name] != "binary":
            raise UsageError(f"the column {name} of the rows has the type {types[name]}; expected binary")
    is_number = types["timestamp"] == "bigint"
    timestamp = F.col("timestamp") if is_number else F.unix_millis("timestamp")
    return rows.select(
        F.col("partition").cast("int"), F.col("offset").cast("long"), timestamp.alias("timestamp"), "key", "value"
    )


class LoadedTables:
    """The tables that a load has, as DataFrames."""

    offsets = cached_property(lambda self: self._table("offsets"))
    pending = cached_property(lambda self: self._table("pending"))
    groups = cached_property(lambda self: self._table("groups"))
    members = cached_property(lambda self: self._table("members"))
    partitions = cached_property(lambda self: self._table("partitions"))


class RowTables(LoadedTables):
    """The tables of a topic that is given as rows.

    Attributes
    ----------
    offsets, pending, groups, members, partitions, records : DataFrame
        The tables, as of :class:`Tables`. ``records`` are the rows with the columns of :func:`decode`. ``pending`` is
        empty, because rows do not show open transactions. There is no table ``fates``, because rows show no batches and
        no markers. Of a stream, there are only ``offsets`` and ``records``.
    uncertain : DataFrame
        The keys whose answer depends on where the marker of a transaction stands, which rows do not show:
        ``partition``, ``group``, ``topic``, ``topic_partition``. For the new coordinator there are none.
    notes : list of str
        What the rows cannot say, one sentence each.
    """

    def __init__(self, rows: DataFrame, topic: Topic, *, is_one_group: bool = False) -> None:
        if not hasattr(rows, "mapInArrow"):
            raise UsageError(f"expected a path or a DataFrame, found {type(rows).__name__}")
        assert topic.dialect  # This property raises a UsageError for an unknown coordinator or Kafka version.
        self.notes = [
            "Rows that a read_committed consumer has read end at the first open transaction of each partition. So the "
            "table pending is empty, and what follows is missing."
        ]
        if topic.dialect.coordinator == "classic":
            self.notes.append("The table uncertain has the keys whose answer depends on the place of a marker.")
        self._topic = topic
        self._rows = _select(rows)
        self._given_rows = rows.select(*ROW_COLUMNS)
        self._is_stream = rows.isStreaming
        self._is_one_group = is_one_group

    records = cached_property(lambda self: decode(self._given_rows))
    _named = cached_property(lambda self: _decode_rows(self._rows, with_json=False))

    @cached_property
    def offsets(self) -> DataFrame:
        return _current_offsets(self._rows, self._topic) if self._is_stream else self._table("offsets")

    @cached_property
    def uncertain(self) -> DataFrame:
        from pyspark.sql import functions as F

        newest_is_tombstone = F.max_by(F.col("value").isNull(), F.col("offset"))
        changes = self._named.where("type in (0, 1)").groupBy(*_KEY)
        ends = changes.agg(newest_is_tombstone.alias("is_deleted"), F.count("value").alias("commits"))
        depends_on_markers = F.lit(self._topic.dialect.coordinator == "classic")
        return ends.where("is_deleted and commits > 0").where(depends_on_markers).select(*_KEY)

    def _table(self, table: str) -> DataFrame:
        def read(topic: OpenTopic) -> Iterator[pa.RecordBatch]:
            return iter(read_table(topic.load(whole=whole), table))

        whole = self.whole
        return self._map_logs(read, schema_ddl(columns_of(table)))

    def of_group(self, group: str) -> RowTables:
        """Return the tables of only those rows whose key names a group, and of all partitions that have such rows."""
        from pyspark.sql import functions as F

        rows = self._named.where(F.col("group") == group).select(*ROW_COLUMNS)
        return RowTables(rows, self._topic, is_one_group=True)

    def compute(self, function: Any) -> list[Any]:
        """Return what a function yields for the logs of each task: of one partition, or of all that share groups."""

        def run(topic: OpenTopic) -> Iterator[pa.RecordBatch]:
            yield from map(pack_result, function(topic))

        return collect_results(self._map_logs(run, RESULTS))

    @cached_property
    def whole(self) -> WholeTopic:
        """What a task that loads shared groups must know about the topic: the partitions that share them."""
        option = self._topic.partitions
        if self._is_stream:
            raise UsageError("a stream of rows has the tables offsets and records")
        if self._topic.dialect.coordinator == "new" and option is not None and not self._is_one_group:
            return WholeTopic(FoundPartitions(option=option), {})
        from pyspark.sql import functions as F

        groups = self._named.select("partition", "group").distinct().groupBy("group")
        numbers = groups.agg(F.sort_array(F.collect_list("partition")).alias("partitions"))
        rows = numbers.where("group is not null and size(partitions) > 1").collect()
        partitions_of: dict[str, list[int | None]] = {row["group"]: list(row["partitions"]) for row in rows}
        return WholeTopic(FoundPartitions(sorted(_shared(partitions_of)), False, option), partitions_of)

    def _map_logs(self, function: Any, schema: str) -> DataFrame:
        """Apply a function to the logs of each task, opened as a topic. It yields Arrow record batches."""
        from pyspark.sql import functions as F

        topic = self._topic
        load = F.when(F.col("partition").isin(sorted(_shared(self.whole.partitions_of))), -1)
        rows = self._rows.withColumn("load", load.otherwise(F.col("partition"))).repartition("load")
        rows = rows.sortWithinPartitions("load", "partition", "offset")

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            columns = ([batch[name].to_pylist() for name in ("load", *ROW_COLUMNS)] for batch in batches)
            given = chain.from_iterable(zip(*each, strict=True) for each in columns)
            for _, rows_of_load in groupby(_check_rows(given), itemgetter(0)):
                with TemporaryDirectory() as folder:
                    logs = _write_logs(rows_of_load, folder)
                    yield from function(_open_logs(topic, logs))

        return rows.mapInArrow(run, schema)


def _open_logs(topic: Topic, logs: list[Log]) -> OpenTopic:
    return topic.open(find_logs=lambda path: logs)


def _shared(partitions_of: dict[str, list[int | None]] | Any) -> set[Any]:
    return {number for numbers in partitions_of.values() for number in numbers}


class _Row(NamedTuple):
    load: int
    partition: int
    record: LogRecord


def _check_rows(rows: Iterable[tuple[Any, ...]]) -> Iterator[_Row]:
    """Yield sorted rows of load, partition, offset, time in ms, key and value, each once: a sink can have written a row
    again.

    Raises UsageError if rows of one partition have the same offset and are not equal, so they are of two topics.
    """
    previous = None
    for load, partition, offset, time_ms, key, value in rows:
        if partition is None or offset is None:
            raise UsageError("a row of the topic has no partition or no offset")
        row = _Row(load, partition, LogRecord(offset, -1 if time_ms is None else time_ms, key, value))
        if previous is None or (partition, offset) != (previous.partition, previous.record.offset):
            yield row
        elif (key, value) != (previous.record.key, previous.record.value):
            raise UsageError(
                f"partition {partition} has two different records with offset {offset}; give the rows of one topic"
            )
        previous = row


def _write_logs(rows: Iterable[_Row], folder: str) -> list[Log]:
    """Write sorted rows as a log for each partition into a folder."""
    logs = []
    for partition, rows_of_partition in groupby(rows, itemgetter(1)):
        path = Path(folder) / f"__consumer_offsets-{partition}"
        with LogWriter(path) as writer:
            for records in _split(row.record for row in rows_of_partition):
                writer.append(encode_batch(records))
        logs.append(open_log(path))
    return logs


def _split(records: Iterable[LogRecord]) -> Iterator[list[LogRecord]]:
    """Yield the records in lists that make batches: of about a megabyte, and of offsets that are near each other."""
    for _, near in groupby(records, lambda record: record.offset // MAX_RELATIVE_OFFSET):
        yield from split_by_size(near, _count_bytes, _RECORDS_OF_BATCH, _BYTES_OF_BATCH)


def _count_bytes(record: LogRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _load_offsets(records: list[LogRecord], partition: int | None, topic: Topic) -> list[dict[str, Any]]:
    """Load the records of one partition, and return the rows of the table `offsets`."""
    segment = b"".join(map(encode_batch, _split(records)))
    log = log_of_buffers({"rows.log": segment}, partition)
    groups = _open_logs(topic, [log]).load()
    rows: list[dict[str, Any]] = read_table(groups, "offsets").read_all().to_pylist()
    return rows


def _current_offsets(rows: DataFrame, topic: Topic) -> DataFrame:
    """Return a stream of the committed offsets that a micro-batch changes: the newest row of a key is its answer.

    The columns are those of the table `offsets`, and `deleted`: true if a broker has no offset for the key any more.
    Tombstones stay in the state, so that an older row that comes again revives nothing.
    """
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    names = [column.name for column in columns_of("offsets")]

    class CurrentOffsets(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.records = handle.getMapState("records", "key binary", _STATE)

        def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
            import pandas as pd

            before = self._answer(key[0])
            for frame in rows:
                for row in frame.itertuples(index=False):
                    record_key = (bytes(row.key),)
                    known = self.records.getValue(record_key)
                    if known is None or row.offset > known[0]:
                        value = None if row.value is None else bytes(row.value)
                        self.records.updateValue(record_key, (row.offset, row.timestamp, value))
            after = self._answer(key[0])
            changed = [row | {"deleted": False} for place, row in after.items() if before.get(place) != row]
            changed += [row | {"deleted": True} for place, row in before.items() if place not in after]
            yield pd.DataFrame(changed, columns=[*names, "deleted"], dtype=object)

        def _answer(self, partition: int) -> dict[tuple[Any, ...], dict[str, Any]]:
            kept = sorted((*value, key) for (key,), value in self.records.iterator())
            records = [LogRecord(offset, time_ms, key, value) for offset, time_ms, value, key in kept]
            found = _load_offsets(records, partition, topic)
            return {(row["topic"], row["topic_partition"]): row for row in found}

        def close(self) -> None: ...

    settings = rows.sparkSession.conf
    # Spark's default has no maps.
    if not str(settings.get(_STATE_STORE, "")).endswith(_ROCKSDB):
        settings.set(_STATE_STORE, f"{_STREAMING_STATE}.{_ROCKSDB}")
    keyed = (
        _decode_rows(rows, with_json=False)
        .where("group is not null")
        .select("group", *ROW_COLUMNS)
        .groupBy("partition", "group")
    )
    schema = f"{schema_ddl(columns_of('offsets'))}, deleted boolean"
    return keyed.transformWithStateInPandas(CurrentOffsets(), schema, "Update", "None")
