"""Reading tables in tests: the data source's reader without Java, Spark's frames, and the package's own tables."""

import json
from datetime import UTC

from pyspark.sql.pandas.types import from_arrow_schema

from kafkagroups import record_table
from kafkagroups.api import load_table as load_table
from kafkagroups.loading.columns import TABLES as TABLES, arrow_schema, columns_of
from kafkagroups.loading.rows import read_table, write_tables as write_tables
from kafkagroups.spark.source import ConsumerOffsets, Task as Task

LOADED = ("offsets", "pending", "groups", "members", "partitions")
"""Every table but `records` and `fates`."""


def make_reader(path, columns=None, **options):
    """Return the data source's reader, made as Spark makes it."""
    table = options.setdefault("table", "offsets")
    schema = from_arrow_schema(arrow_schema(columns_of(table, columns)))
    return ConsumerOffsets({**options, "path": str(path)}).reader(schema)


def read(path, columns=None, **options):
    """Return all rows, read as Spark reads them: tasks, batches."""
    one = make_reader(path, columns, **options)
    return [row for task in one.partitions() for batch in one.read(task) for row in batch.to_pylist()]


def loaded_rows(groups, table):
    """Return the rows of a table as the package itself gives them; test_answers.py compares these with brokers."""
    return in_order(read_table(groups, table).read_all().to_pylist())


def fate_rows(path, coordinator, partitions=None):
    """Return the rows of the table `fates` as the readable engine gives them; tests/history compares both engines."""
    reader = record_table(path, "fates", coordinator=coordinator, partitions=partitions, engine="python")
    return in_order(reader.read_all().to_pylist())


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
