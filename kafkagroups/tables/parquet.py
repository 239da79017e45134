"""`kafkagroups load --to parquet:DIR`: the tables of a log as Parquet, DIR/<table>/….parquet.

With Spark its tasks write them, and nothing but counts comes back; with any other engine they are written from the
groups in memory. DIR may be a URI: one that pyarrow knows, with Spark one that its Hadoop knows as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkagroups.api import loaded_columns
from kafkagroups.errors import UsageError
from kafkagroups.loading.groups import Groups, failure
from kafkagroups.log.writer import new_folder
from kafkagroups.records.dialect import Dialect
from kafkagroups.spark.paths import file_system, here, name_of, told

TABLES = ("offsets", "pending", "groups", "members", "partitions")


@dataclass(frozen=True)
class Written:
    """How many rows each table has, and the problems of the load, a line each."""

    rows: dict[str, int]
    problems: list[str]


def check_empty(folder: str) -> None:
    """UsageError when something is in DIR, or it cannot be made."""
    if (name := here(folder)) is not None:
        new_folder(Path(name))
        return
    from pyarrow.fs import FileSelector

    system, path = file_system(folder)
    with told(folder):
        if system.get_file_info(FileSelector(path, allow_not_found=True)):
            raise UsageError(f"{name_of(folder)}: a new or an empty folder was expected")


def write(groups: Groups, folder: str) -> Written:
    """Writes the tables of groups that were loaded, a file each."""
    from pyarrow.fs import LocalFileSystem
    from pyarrow.parquet import ParquetWriter

    name = here(folder)
    system, path = (LocalFileSystem(), name) if name is not None else file_system(folder)
    rows = {}
    with told(folder):
        for table in TABLES:
            system.create_dir(f"{path}/{table}")
            batches = loaded_columns(groups, table)
            with ParquetWriter(f"{path}/{table}/part-0.parquet", batches.schema, filesystem=system) as file:
                rows[table] = sum(_put(file, batch) for batch in batches)
    return Written(rows, groups.problems)


def _put(file: Any, batch: Any) -> int:
    file.write_batch(batch)
    return int(batch.num_rows)


def write_by_spark(path: str, rules: Dialect, partitions: int | None, master: str | None, folder: str) -> Written:
    """Spark loads the log and writes the tables."""
    from kafkagroups import spark
    from kafkagroups.spark.parquet import bad_partitions, write_parquet

    tables = spark.load(path, rules.coordinator, rules.kafka, partitions=partitions, session=spark.session(master))
    rows = write_parquet(tables, TABLES, folder)
    problems = []
    for row in bad_partitions(tables, folder):
        problems += [row["damage"]] if row["damage"] else []
        number = None if row["partition"] == -1 else row["partition"]
        problems += [failure(path, number, rules.kafka, row["error"])] if row["error"] else []
    return Written(rows, problems)
