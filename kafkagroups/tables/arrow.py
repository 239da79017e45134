"""The tables of loaded groups as Arrow record batches (`read_table`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kafkagroups.groups.shard import LoadedPartition
from kafkagroups.tables import rows
from kafkagroups.tables.columns import Column, arrow_schema, columns_of, record_batches
from kafkagroups.tables.engine_columns import copy_offsets, split_by_storage
from kafkagroups.tables.loaded_groups import LoadedGroups

if TYPE_CHECKING:
    import pyarrow as pa


def read_table(groups: LoadedGroups, table: str, columns: Iterable[str] | None = None) -> pa.RecordBatchReader:
    """Return one table of loaded groups. `table` is any table except `records`, which is not made from groups.

    `columns` are the names of the columns to return, in this order; None means all columns. Raises UsageError if there
    is no such table or column.
    """
    import pyarrow as pa

    chosen_columns = columns_of(table, columns)
    batches = _arrow_batches(groups, table, chosen_columns)
    return pa.RecordBatchReader.from_batches(arrow_schema(chosen_columns), batches)


def _arrow_batches(groups: LoadedGroups, table: str, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table as Arrow record batches.

    Offsets that are still in the columns of the native engine are copied directly, because this is much faster.
    """
    if table in rows.GROUP_TABLES:
        # The parts from which `Groups` builds its groups (groups/group_parts.py).
        group_parts = list(groups.parts())
        if table == "offsets":
            # Afterwards `group_parts` contains only the groups whose offsets are not in columns.
            in_columns, group_parts = split_by_storage(group_parts)
            yield from copy_offsets(in_columns, columns)
        yield from record_batches(columns_of(table), columns, rows.GROUP_TABLES[table](group_parts))
    else:
        partitions = (_partition_row(partition, loaded) for partition, loaded in groups.partitions.items())
        yield from record_batches(columns_of(table), columns, partitions)


def _partition_row(partition: int | None, loaded: LoadedPartition) -> rows.Row:
    """Return the row of the table `partitions` for one partition."""
    return (
        rows.partition_number(partition),
        loaded.segments,
        loaded.batches,
        loaded.records,
        loaded.start_offset,
        loaded.next_offset,
        loaded.error,
        "; ".join(loaded.describe_damage()) or None,
    )
