"""The data source `consumer_offsets`: `spark.read.format("consumer_offsets").option("table", "offsets").load(path)`.

    table            one of columns.TABLES (offsets); of a stream (stream.py) records or batches
    coordinator      classic or new (new), and `kafka` its version (3.9.2 or 4.3.1)
    path, paths      partition directories, .log files, or folders of partition directories: what `.load(…)` is given,
                     on this machine or elsewhere (log/places.py)
    cwd              where relative paths begin (the folder in which Spark's Java was started)
    partitions       the topic's partition count: then the new coordinator answers a group from its home only
    engine           auto, python or compiled, as in `kafkagroups.load` (auto: by the bytes of all logs)
    tasks            how many tasks at most (2 for each core)
    pushdown         true: filters on `partition` (and, with `partitions`, on `group`) select tasks. For a frame that is
                     asked once: Spark 4.3 keeps what it pushed down with the frame, and a second query on it, without
                     filters or a union with itself, would read no more than the first. So it is false by default

Each log partition is loaded by itself, by one task. So a group whose records lie in two partitions has rows of both;
`kafkagroups.spark.load` answers such a group as a broker would. A log whose bytes are damaged, or whose load fails as
that broker's would, is no exception: it has what came before, and table `partitions` says why.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, In, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kafkagroups.api import load_columns
from kafkagroups.errors import UsageError
from kafkagroups.loading.engines import ENGINES, engine_of
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.places import find_all_logs
from kafkagroups.log.segments import Log
from kafkagroups.records.versions import dialect
from kafkagroups.tables.columns import Column, arrow_schema, columns_of
from kafkagroups.tables.rows import OF_GROUPS, number

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkagroups.spark.stream import OffsetsStream

T = TypeVar("T")
FORMAT = "consumer_offsets"
OPTIONS = ("table", "coordinator", "kafka", "path", "paths", "cwd", "partitions", "engine", "tasks", "pushdown")


BATCHES = (
    Column("partition", "int", False),
    Column("base_offset", "long", False),
    Column("next_offset", "long", False),
    Column("bytes", "binary", False),
)
"""The table `batches` of streams."""


class ConsumerOffsets(DataSource):
    """The format; its options are judged when the schema or a reader is asked for."""

    tasks = 2 * (os.cpu_count() or 1)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ddl(Options.of(self.options, self.tasks).columns)

    def reader(self, schema: StructType) -> ConsumerOffsetsReader:
        options = Options.of(self.options, self.tasks)
        if options.table == "batches":
            raise UsageError("table batches is one of streams: spark.readStream")
        check_schema(options, schema)
        return (PushdownReader if options.pushdown else ConsumerOffsetsReader)(options, schema)

    def streamReader(self, schema: StructType) -> OffsetsStream:
        from kafkagroups.spark.stream import OffsetsStream

        options = Options.of(self.options, self.tasks)
        check_schema(options, schema)
        return OffsetsStream(options, schema)


def ddl(columns: Iterable[Column]) -> str:
    """The columns as Spark's DDL, whose words for types are theirs."""
    return ", ".join(f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in columns)


@dataclass(frozen=True)
class Options:
    """The options, judged. UsageError when one is unknown or wrong."""

    table: str
    coordinator: str
    kafka: str | None
    paths: tuple[str, ...]
    cwd: str
    partitions: int | None
    engine: str
    tasks: int
    pushdown: bool

    @property
    def columns(self) -> tuple[Column, ...]:
        return BATCHES if self.table == "batches" else columns_of(self.table)

    @classmethod
    def of(cls, given: Mapping[str, str], tasks: int) -> Options:
        if unknown := sorted(set(map(str.lower, given)) - set(OPTIONS)):
            raise UsageError(f"{FORMAT} has no option {unknown[0]!r}, but {', '.join(OPTIONS)}")
        paths = json.loads(given.get("paths", "[]")) + ([given["path"]] if "path" in given else [])
        if not paths:
            raise UsageError(f"{FORMAT} needs a path: .load(path)")
        count = given.get("partitions")
        options = cls(
            given.get("table", "offsets"),
            given.get("coordinator", "new"),
            given.get("kafka"),
            tuple(paths),
            given.get("cwd") or os.getcwd(),
            None if count is None else _at_least_1("partitions", count),
            given.get("engine", "auto"),
            _at_least_1("tasks", given.get("tasks", str(tasks))),
            given.get("pushdown", "false").lower() == "true",
        )
        if given.get("pushdown", "false").lower() not in ("true", "false"):
            raise UsageError(f"option pushdown: true or false was expected, not {given['pushdown']!r}")
        if options.engine not in ENGINES:
            raise UsageError(f"option engine: one of {', '.join(ENGINES)} was expected, not {options.engine!r}")
        assert options.columns
        dialect(options.coordinator, options.kafka)
        return options


def check_schema(options: Options, schema: StructType) -> None:
    """UsageError when a user's own schema has other columns or types than the table."""
    mine = arrow_schema(options.columns)
    for field in to_arrow_schema(schema, timezone="UTC"):
        if field.name not in mine.names:
            raise UsageError(f"the table {options.table} has no column {field.name!r}, but {', '.join(mine.names)}")
        if not mine.field(field.name).type.equals(field.type):
            kind = mine.field(field.name).type
            raise UsageError(f"column {field.name} of table {options.table} is {kind}, not {field.type}")


def _at_least_1(option: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"option {option}: a number above 0 was expected, not {text!r}")
    return int(text)


@dataclass
class Task(InputPartition):
    """What one task loads; `size` is that of all tasks together, in bytes."""

    logs: list[Log]
    size: int


class ConsumerOffsetsReader(DataSourceReader):
    """Reads the columns of the schema that Spark asks for; it goes to the tasks pickled."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self.only_partitions: set[int] | None = None
        self.only_groups: set[str] | None = None

    def partitions(self) -> list[InputPartition]:
        """The log partitions in at most `tasks` tasks of about the same number of bytes."""
        wanted = self._wanted_partitions()
        found = find_all_logs(self.options.paths, self.options.cwd)
        chosen = [log for log in found if wanted is None or number(log.partition) in wanted]
        whole = sum(log.size for log in chosen)
        return [Task(logs, whole) for logs in bins(((log.size, log) for log in chosen), self.options.tasks)]

    def _wanted_partitions(self) -> set[int] | None:
        """The log partitions that the filters leave; None: all."""
        options = self.options
        # Only the new coordinator, and only its answers, keep a group to its home
        at_home = options.coordinator == "new" and options.table in OF_GROUPS
        if self.only_groups is None or not options.partitions or not at_home:
            return self.only_partitions
        homes = {partition_for(group, options.partitions) for group in self.only_groups}
        return _both(self.only_partitions, homes | {number(None)})

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task's logs, batch by batch. UsageError when a file cannot be read."""
        import pyarrow as pa
        import pyarrow.compute as pc

        assert isinstance(partition, Task)
        schema = to_arrow_schema(self.schema, timezone="UTC")
        groups = None if self.only_groups is None else pa.array(sorted(self.only_groups), pa.string())
        for log in partition.logs:
            batches = load_columns(
                log,
                table=self.options.table,
                coordinator=self.options.coordinator,
                kafka=self.options.kafka,
                partitions=self.options.partitions,
                columns=schema.names,
                engine="compiled" if engine_of(self.options.engine, partition.size) else "python",
            )
            for batch in batches:
                if groups is not None:
                    batch = batch.filter(pc.is_in(batch["group"], value_set=groups))
                # Spark compares schemas, and a schema that a user gave says that all may be null
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        freeze()


class PushdownReader(ConsumerOffsetsReader):
    """The same, and it takes filters (option `pushdown`)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes `partition` and `group`, equal to a value or in a list; Spark applies the others."""
        for each in filters:
            if not isinstance(each, EqualTo | In) or each.attribute not in (("partition",), ("group",)):
                yield each
                continue
            values = ({each.value} if isinstance(each, EqualTo) else set(each.value)) - {None}
            if each.attribute == ("partition",):
                self.only_partitions = _both(self.only_partitions, values)
            else:
                self.only_groups = _both(self.only_groups, values)


def _both(before: set[Any] | None, values: set[Any]) -> set[Any]:
    return values if before is None else before & values


def bins(sized: Iterable[tuple[int, T]], most: int) -> list[list[T]]:
    """Things in at most so many bins, but one: each, largest first, goes to the bin that is least full."""
    ordered = sorted(sized, key=lambda entry: -entry[0])
    out: list[list[T]] = [[] for _ in range(max(1, min(most, len(ordered))))]
    filled = [(0, number) for number in range(len(out))]
    for length, thing in ordered:
        least, number = heappop(filled)
        out[number].append(thing)
        heappush(filled, (least + length + 1, number))
    return out


@cache
def freeze() -> None:
    """Once a worker: PySpark collects garbage after every task, and need not look at what is imported and compiled."""
    gc.collect()
    gc.freeze()
