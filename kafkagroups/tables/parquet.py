"""The tables of loaded groups as Parquet files: `kafkagroups load --to parquet:DIR`.

The files are DIR/<table>/part-0.parquet. `DIR` is a folder of this machine or a URI that pyarrow can open, for example
s3://bucket/folder. With `--engine spark`, Spark's tasks write the files (spark/parquet.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.log.locations import file_system, local_path, public_uri, remote_errors
from kafkagroups.log.writer import create_folder
from kafkagroups.tables.arrow import read_table
from kafkagroups.tables.loaded_groups import LoadedGroups

TABLES = ("offsets", "pending", "groups", "members", "partitions")


@dataclass(frozen=True)
class WrittenTables:
    """The number of rows in each table that was written, and the problems of the load, one line for each problem."""

    rows: dict[str, int]
    problems: list[str]


def check_empty(folder: str) -> None:
    """Raise UsageError if the folder is not empty or cannot be created. Create it if it is on this machine."""
    path_here = local_path(folder)
    if path_here is not None:
        create_folder(Path(path_here))
        return
    from pyarrow.fs import FileSelector

    system, path = file_system(folder)
    with remote_errors(folder):
        if system.get_file_info(FileSelector(path, allow_not_found=True)):
            raise UsageError(f"{public_uri(folder)}: expected a new or empty folder, found files in it")


def write_tables(groups: LoadedGroups, folder: str) -> WrittenTables:
    """Write the tables of loaded groups into a folder, one file per table."""
    from pyarrow.fs import LocalFileSystem
    from pyarrow.parquet import ParquetWriter

    path_here = local_path(folder)
    system, path = (LocalFileSystem(), path_here) if path_here is not None else file_system(folder)
    rows = {}
    with remote_errors(folder):
        for table in TABLES:
            system.create_dir(f"{path}/{table}")
            batches = read_table(groups, table)
            with ParquetWriter(f"{path}/{table}/part-0.parquet", batches.schema, filesystem=system) as file:
                rows[table] = sum(_write_batch(file, batch) for batch in batches)
    return WrittenTables(rows, groups.problems)


def _write_batch(file: Any, batch: Any) -> int:
    """Write an Arrow record batch and return the number of its rows."""
    file.write_batch(batch)
    return int(batch.num_rows)
