"""The tables of loaded groups as Parquet files, for the command `kafkagroups load --to parquet:DIR`.

Each table is in one file, DIR/<table>/part-0.parquet. DIR is a folder on this machine, or a URI that pyarrow can open,
for example s3://bucket/folder. With `--engine spark`, Spark's tasks write the files (spark/tables.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.rows import read_table
from kafkagroups.log.locations import file_system, local_path, public_uri, remote_errors
from kafkagroups.log.outputs import new_folder

TABLES = ("offsets", "pending", "groups", "members", "partitions")


@dataclass(frozen=True)
class WrittenTables:
    """The result of writing tables: the row count of each table, and the problems of the load (`Groups.problems`)."""

    rows: dict[str, int]
    problems: list[str]


@contextmanager
def new_tables(folder: str) -> Iterator[str]:
    """Yield the folder in which the tables are written. `folder` is a path or a URI, and must be new or empty.

    The tables of a path appear in `folder` at the end of the `with` statement (log/outputs.py). In a remote file
    system, a file appears when it is whole. Raises UsageError if the folder is not empty or cannot be created.
    """
    local_folder = local_path(folder)
    if local_folder is not None:
        with new_folder(Path(local_folder)) as work:
            yield str(work)
        return
    from pyarrow.fs import FileSelector

    system, path = file_system(folder)
    with remote_errors(folder):
        if system.get_file_info(FileSelector(path, allow_not_found=True)):
            raise UsageError(f"{public_uri(folder)}: expected a new or empty folder, found files in it")
    yield folder


def write_tables(groups: Groups, folder: str) -> WrittenTables:
    """Write the tables of loaded groups into a folder, one file per table. `folder` is a path or a URI."""
    from pyarrow.fs import LocalFileSystem
    from pyarrow.parquet import ParquetWriter

    local_folder = local_path(folder)
    system, path = (LocalFileSystem(), local_folder) if local_folder is not None else file_system(folder)
    rows = {}
    with remote_errors(folder):
        for table in TABLES:
            system.create_dir(f"{path}/{table}")
            batches = read_table(groups, table)
            with ParquetWriter(f"{path}/{table}/part-0.parquet", batches.schema, filesystem=system) as file:
                rows[table] = sum(_write_batch(file, batch) for batch in batches)
    return WrittenTables(rows, groups.problems)


def _write_batch(file: Any, batch: Any) -> int:
    file.write_batch(batch)
    return int(batch.num_rows)
