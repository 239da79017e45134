"""The rows of all tables, the tables of loaded groups (`read_table`), and their Parquet files.

Committed offsets that are still in the columns of the native engine are copied without a row for each
(engine_columns.py), which is much faster.

Each table is in one file, DIR/<table>/part-0.parquet, where DIR is a local folder, or a URI that pyarrow can open.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkagroups.errors import BadBytes, InvalidLog, UsageError
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.groups.replay import find_group_id
from kafkagroups.loading.columns import Column, Row, arrow_schema, columns_of, partition_number, record_batches
from kafkagroups.loading.groups import GroupParts, Groups, description_json, member_rows, offset_json, sorted_pending
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch, LogRecord
from kafkagroups.log.folders import file_system, local_path, new_folder, public_uri, remote_errors
from kafkagroups.records.offset_commit import OffsetCommitKey
from kafkagroups.records.record_json import to_json
from kafkagroups.records.releases import Dialect
from kafkagroups.records.serde import decode, decode_control_key

if TYPE_CHECKING:
    import pyarrow as pa

PartsOfGroups = Iterable[tuple[str, GroupParts]]


def read_table(groups: Groups, table: str, names: Iterable[str] | None = None) -> pa.RecordBatchReader:
    """Return a table of loaded groups: any except `records` and `fates`.

    Raises UsageError if there is no such table or column.
    """
    import pyarrow as pa

    columns = columns_of(table, names)
    return pa.RecordBatchReader.from_batches(arrow_schema(columns), _read_batches(groups, table, columns))


def _read_batches(groups: Groups, table: str, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    if table not in GROUP_TABLES:
        yield from record_batches(columns, _partition_rows(groups))
        return
    parts = list(groups.parts())
    if table == "offsets":
        from kafkagroups.loading.engine_columns import copy_offsets, split_by_storage

        in_columns, parts = split_by_storage(parts)
        for groups_of_reading in in_columns:
            yield from copy_offsets(groups_of_reading, columns)
    yield from record_batches(columns, GROUP_TABLES[table](parts))


def _partition_rows(groups: Groups) -> Iterator[Row]:
    for partition, loaded in groups.partitions.items():
        damage = "; ".join(loaded.describe_damage()) or None
        yield vars(loaded) | {"partition": partition_number(partition), "damage": damage}


def _offset_rows(groups: PartsOfGroups) -> Iterator[Row]:
    for group_id, parts in groups:
        offsets = dict(parts.offsets)
        for partition in sorted(offsets):
            yield _offset_row(parts.group.partition, group_id, partition, offsets[partition])


def _pending_rows(groups: PartsOfGroups) -> Iterator[Row]:
    for group_id, parts in groups:
        for partition, producer_id, offset in sorted_pending(parts.pending):
            yield _offset_row(parts.group.partition, group_id, partition, offset) | {"producer_id": producer_id}


def _offset_row(log_partition: int | None, group_id: str, partition: TopicPartition, offset: OffsetAndMetadata) -> Row:
    return offset_json(offset) | {
        "partition": partition_number(log_partition),
        "group": group_id,
        "topic": partition.topic,
        "topic_partition": partition.partition,
        "committed_offset": offset.offset,
        "commit_timestamp_ms": offset.commit_timestamp,
        "expire_timestamp_ms": offset.expire_timestamp,
    }


def _group_rows(groups: PartsOfGroups) -> Iterator[Row]:
    for group_id, parts in groups:
        group = parts.decode_group()
        description = description_json(group)
        yield description | {
            "partition": partition_number(group.partition),
            "group": group_id,
            "members": len(description["members"]),
            "offsets": len(parts.offsets),
            "pending": len({partition for offsets in parts.pending.values() for partition in offsets}),
        }


def _member_rows(groups: PartsOfGroups) -> Iterator[Row]:
    for _, parts in groups:
        group = parts.decode_group()
        for row in member_rows(group):
            yield row | {"partition": partition_number(group.partition)}


GROUP_TABLES: dict[str, Callable[[PartsOfGroups], Iterator[Row]]] = {
    "offsets": _offset_rows,
    "pending": _pending_rows,
    "groups": _group_rows,
    "members": _member_rows,
}
"""The tables whose rows come from loaded groups."""


def record_rows(
    batches: Iterable[Batch], partition: int | None, dialect: Dialect, *, with_json: bool = True
) -> Iterator[Row]:
    """Yield the rows of the table `records`.

    A record that cannot be decoded has the reason in the column `error`. A batch that cannot be split into records is
    one row, with its first offset.
    """
    for batch in batches:
        try:
            records = batch.records
        except InvalidLog as error:
            unreadable = LogRecord(batch.base_offset, batch.max_timestamp, None, None, magic=batch.magic)
            yield _record_row(partition, batch, unreadable) | {"error": str(error)}
            continue
        for record in records:
            row = _record_row(partition, batch, record)
            try:
                if batch.is_control:
                    yield row | {"control": decode_control_key(record.key).text}
                else:
                    yield row | decode_columns(record.key, record.value, dialect, with_json)
            except BadBytes as error:
                yield row | {"error": str(error)}


def _record_row(partition: int | None, batch: Batch, record: LogRecord) -> Row:
    has_producer = batch.producer_id != NO_PRODUCER_ID
    return {
        "partition": partition_number(partition),
        "offset": record.offset,
        "timestamp_ms": record.timestamp if record.magic else None,
        "batch_offset": batch.base_offset,
        "producer_id": batch.producer_id if has_producer else None,
        "producer_epoch": batch.producer_epoch if has_producer else None,
        "transactional": batch.is_transactional,
        "key": record.key,
        "value": record.value,
    }


def decode_columns(key: bytes | None, value: bytes | None, dialect: Dialect, with_json: bool = True) -> Row:
    """Return what a record says: type, name, group, topic, topic_partition, value_version and json.

    Raises BadBytes if the dialect cannot read the key or the value.
    """
    record = decode(key, value, dialect)
    row = {
        "type": record.type,
        "name": record.name,
        "group": find_group_id(record),
        "value_version": record.value_version,
        "json": json.dumps(to_json(record, dialect)) if with_json else None,
    }
    if isinstance(record.key, OffsetCommitKey):
        row |= {"topic": record.key.topic, "topic_partition": record.key.partition}
    return row


TABLES = ("offsets", "pending", "groups", "members", "partitions")


@dataclass(frozen=True)
class WrittenTables:
    rows: dict[str, int]
    problems: list[str]


@contextmanager
def new_tables(folder: str) -> Iterator[str]:
    """Yield the folder in which the tables are written.

    The tables of a path appear at the end of the `with` statement. In a remote file system, a file appears when it is
    whole. Raises UsageError if the folder, a path or a URI, is not empty or cannot be created.
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
                rows[table] = 0
                for batch in batches:
                    file.write_batch(batch)
                    rows[table] += batch.num_rows
    return WrittenTables(rows, groups.problems)
