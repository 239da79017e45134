"""The tables of a log as Parquet files, for the command `load --engine spark --to parquet:DIR`.

Spark's tasks write the files, so the tables need not fit into the memory of one process.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkagroups.errors import UsageError
from kafkagroups.loading.groups import describe_failure
from kafkagroups.log.locations import local_path
from kafkagroups.records.dialects import Dialect
from kafkagroups.spark.session import session, task_errors
from kafkagroups.spark.tables import load
from kafkagroups.tables.parquet import TABLES, WrittenTables

if TYPE_CHECKING:
    from pyspark.sql import Row

    from kafkagroups.spark.tables import Tables


TIMESTAMP_SETTING = "spark.sql.parquet.outputTimestampType"


def load_and_write(
    path: str,
    dialect: Dialect,
    partitions: int | None,
    master: str | None,
    folder: str,
    max_batch_bytes: int,
    *,
    past_damage: bool,
) -> WrittenTables:
    """Load the log at `path` with Spark, and write its tables as Parquet files into `folder`.

    `partitions` is the topic's partition count, or None if the count is not known. `master` is the URL of Spark's
    master; None means all cores of this machine. `max_batch_bytes` is the largest size of a decompressed batch.
    `past_damage` goes on at the next readable batch after damaged bytes.
    """
    tables = load(
        path,
        dialect.coordinator,
        dialect.kafka,
        partitions=partitions,
        session=session(master),
        max_batch_bytes=max_batch_bytes,
        past_damage=past_damage,
    )
    rows = write_parquet(tables, TABLES, folder)
    problems = []
    for row in find_bad_partitions(tables, folder):
        number = None if row["partition"] == -1 else row["partition"]
        if row["damage"]:
            problems.append(row["damage"])
        if row["error"]:
            problems.append(describe_failure(path, number, dialect.kafka, row["error"]))
    return WrittenTables(rows, problems)


def write_parquet(tables: Tables, names: Sequence[str], folder: str) -> dict[str, int]:
    """Write the tables with these names as Parquet files, and return the number of rows of each table.

    The files of a table are in `folder`/<table>. `folder` is a path, or a URI that Spark's Hadoop can open. Each table
    needs one pass over the log. Raises a UsageError if Spark cannot write to the folder.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import Observation, functions

    rows = {}
    conf = tables.session.conf
    previous_type = conf.get(TIMESTAMP_SETTING)
    # Spark's default type for timestamps is INT96. Other programs interpret the time zone of INT96 in different ways.
    conf.set(TIMESTAMP_SETTING, "TIMESTAMP_MICROS")
    try:
        for table in names:
            observation = Observation()
            frame = getattr(tables, table).observe(observation, functions.count("*").alias("rows"))
            with task_errors():
                frame.write.parquet(f"{_spark_path(folder)}/{table}")
            rows[table] = observation.get["rows"]
    except PySparkException as error:
        raise UsageError(f"{folder}: Spark cannot write to this folder: {str(error).splitlines()[0]}") from error
    finally:
        conf.set(TIMESTAMP_SETTING, str(previous_type))
    return rows


def find_bad_partitions(tables: Tables, folder: str) -> list[Row]:
    """Return the rows of the written table `partitions` for partitions that are damaged or whose load would fail."""
    partitions = tables.session.read.parquet(f"{_spark_path(folder)}/partitions")
    return partitions.where("error is not null or damage is not null").orderBy("partition").collect()


def _spark_path(folder: str) -> str:
    """Return the URI of a folder. `folder` is a path or a URI."""
    path = local_path(folder)
    return folder if path is None else f"file://{os.path.abspath(path)}"
