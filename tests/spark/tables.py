"""Reading tables in tests: the data source's reader without Java, Spark's frames, and the package's own tables."""

import json
from datetime import UTC

from pyspark.sql.pandas.types import from_arrow_schema

import kafkagroups as kg
from kafkagroups.loading.columns import TABLES as TABLES, arrow_schema as arrow_schema
from kafkagroups.loading.rows import read_table, write_tables as write_tables
from kafkagroups.spark.options import Options
from kafkagroups.spark.source import ConsumerOffsets
from tests.handmade import load_table as load_table

LOADED = ("offsets", "pending", "groups", "members", "partitions")
"""Every table but `records` and `fates`."""


def make_reader(path=None, **options):
    """Return the data source's reader, made as Spark makes it."""
    given = options if path is None else {**options, "path": str(path)}
    schema = from_arrow_schema(arrow_schema(Options.parse(given).selected_columns))
    return ConsumerOffsets(given).reader(schema)


def read(path=None, **options):
    """Return all rows, read as Spark reads them: tasks, batches."""
    one = make_reader(path, **options)
    return [row for task in one.partitions() for batch in one.read(task) for row in batch.to_pylist()]


def partitions_of(reader):
    """Return the numbers of the log partitions that a reader's tasks read, in order."""
    return sorted(log.partition for task in reader.partitions() for log in task.logs)


def loaded_rows(groups, table):
    """Return the rows of a table as the package itself gives them; test_answers.py compares these with brokers."""
    return in_order(read_table(groups, table).read_all().to_pylist())


def fate_rows(path, coordinator, partitions=None):
    """Return the rows of the table `fates` as the readable engine gives them; tests/history compares both engines."""
    reader = kg.record_table(path, "fates", coordinator=coordinator, partitions=partitions, engine="python")
    return in_order(reader.read_all().to_pylist())


def check_tables(tables, path, coordinator="new", partitions=None):
    """Check that Spark's tables of a path are those of one process, and return its groups."""
    groups = kg.load(path, coordinator, partitions=partitions)
    for table in LOADED:
        assert collected(getattr(tables, table)) == loaded_rows(groups, table), table
    assert collected(tables.fates) == fate_rows(path, coordinator, partitions)
    assert tables.records.count() == sum(partition.records for partition in groups.partitions.values())
    return groups


def collected(frame):
    """Return the rows of a Spark frame. Spark's times have no zone; they are in the machine's zone."""
    out = []
    for row in frame.collect():
        fields = row.asDict()
        for name, value in fields.items():
            if hasattr(value, "astimezone"):
                fields[name] = value.astimezone(UTC)
            elif isinstance(value, bytearray):
                fields[name] = bytes(value)
        out.append(fields)
    return in_order(out)


def in_order(rows):
    """Return rows sorted by their content, because the rows of a table have no order."""
    return sorted(rows, key=lambda row: json.dumps(row, default=str, sort_keys=True))
