"""Parquet files of a log's tables, written by Spark's tasks (`load --engine spark --to parquet:DIR`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkagroups.errors import UsageError
from kafkagroups.loading.groups import describe_failure
from kafkagroups.log.locations import local_path
from kafkagroups.records.versions import Dialect
from kafkagroups.spark.session import session, task_errors
from kafkagroups.spark.tables import load
from kafkagroups.tables.parquet import TABLES, WrittenTables

if TYPE_CHECKING:
    from pyspark.sql import Row

    from kafkagroups.spark.tables import Tables


TIMESTAMP_TYPE = "spark.sql.parquet.outputTimestampType"


def load_and_write(path: str, rules: Dialect, partitions: int | None, master: str | None, folder: str) -> WrittenTables:
    """Load a log with Spark and write its tables as Parquet. Only counts come back to this process."""
    tables = load(path, rules.coordinator, rules.kafka, partitions=partitions, session=session(master))
    rows = write_parquet(tables, TABLES, folder)
    problems = []
    for row in bad_partitions(tables, folder):
        number = None if row["partition"] == -1 else row["partition"]
        if row["damage"]:
            problems.append(row["damage"])
        if row["error"]:
            problems.append(describe_failure(path, number, rules.kafka, row["error"]))
    return WrittenTables(rows, problems)


def write_parquet(tables: Tables, names: Sequence[str], folder: str) -> dict[str, int]:
    """Write `folder`/<table>/…parquet for the named tables, one pass over the log each; return their row counts.

    `folder` is a path, or a URI that Spark's Hadoop opens. A UsageError if it cannot be written.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import Observation, functions

    rows = {}
    conf = tables.session.conf
    before = conf.get(TIMESTAMP_TYPE)
    # Spark's default, INT96, has no time zone that other readers agree on.
    conf.set(TIMESTAMP_TYPE, "TIMESTAMP_MICROS")
    try:
        for table in names:
            observation = Observation()
            frame = getattr(tables, table).observe(observation, functions.count("*").alias("rows"))
            with task_errors():
                frame.write.parquet(f"{_spark_path(folder)}/{table}")
            rows[table] = observation.get["rows"]
    except PySparkException as error:
        raise UsageError(f"{folder}: Spark cannot write to it: {str(error).splitlines()[0]}") from error
    finally:
        conf.set(TIMESTAMP_TYPE, str(before))
    return rows


def bad_partitions(tables: Tables, folder: str) -> list[Row]:
    """Return the written partitions that are damaged or fail to load, in order."""
    written = tables.session.read.parquet(f"{_spark_path(folder)}/partitions")
    return written.where("error is not null or damage is not null").orderBy("partition").collect()


def _spark_path(folder: str) -> str:
    name = local_path(folder)
    return folder if name is None else f"file://{os.path.abspath(name)}"
