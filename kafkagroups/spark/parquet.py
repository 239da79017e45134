"""The tables of a log as folders of Parquet files, written by Spark's tasks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkagroups.errors import UsageError
from kafkagroups.loading.groups import failure
from kafkagroups.log.places import local_path
from kafkagroups.records.versions import Dialect
from kafkagroups.spark.session import jobs, session
from kafkagroups.spark.tables import load
from kafkagroups.tables.parquet import TABLES, WrittenTables

if TYPE_CHECKING:
    from pyspark.sql import Row

    from kafkagroups.spark.tables import Tables


TIMES = "spark.sql.parquet.outputTimestampType"


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
            problems.append(failure(path, number, rules.kafka, row["error"]))
    return WrittenTables(rows, problems)


def write_parquet(tables: Tables, names: Sequence[str], folder: str) -> dict[str, int]:
    """Writes `folder`/<table>/…parquet for the tables of these names, each in a pass of its own; gives their rows.

    `folder` is a path, or a URI that Spark's Hadoop knows. UsageError when it cannot be written.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import Observation, functions

    rows = {}
    conf, before = tables.session.conf, tables.session.conf.get(TIMES)
    conf.set(TIMES, "TIMESTAMP_MICROS")  # not Spark's old INT96, whose zone others do not know
    try:
        for table in names:
            counted = Observation()
            frame = getattr(tables, table).observe(counted, functions.count("*").alias("rows"))
            with jobs():
                frame.write.parquet(f"{_place(folder)}/{table}")
            rows[table] = counted.get["rows"]
    except PySparkException as error:
        raise UsageError(f"{folder}: Spark cannot write there: {str(error).splitlines()[0]}") from error
    finally:
        conf.set(TIMES, str(before))
    return rows


def bad_partitions(tables: Tables, folder: str) -> list[Row]:
    """Of the partitions that were written, those whose bytes are damaged or whose load fails, in order."""
    written = tables.session.read.parquet(f"{_place(folder)}/partitions")
    return written.where("error is not null or damage is not null").orderBy("partition").collect()


def _place(folder: str) -> str:
    name = local_path(folder)
    return folder if name is None else f"file://{os.path.abspath(name)}"
