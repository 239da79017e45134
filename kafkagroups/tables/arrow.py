"""The tables of loaded groups as Arrow record batches (`read_table`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kafkagroups.groups.shard import LoadedPartition
from kafkagroups.loading.groups import Groups
from kafkagroups.tables import rows
from kafkagroups.tables.columns import Column, arrow_schema, columns_of, record_batches
from kafkagroups.tables.folded_offsets import folded_batches, split_folded

if TYPE_CHECKING:
    import pyarrow as pa


def read_table(groups: Groups, table: str, columns: Iterable[str] | None = None) -> pa.RecordBatchReader:
    """Return one table of loaded groups; every table but `records` is possible. UsageError: no such table or column."""
    import pyarrow as pa

    chosen = columns_of(table, columns)
    return pa.RecordBatchReader.from_batches(arrow_schema(chosen), _batches(groups, table, chosen))


def _batches(groups: Groups, table: str, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """Yield the table's rows. Offsets that the compiled engine keeps become columns directly."""
    if table in rows.OF_GROUPS:
        parts = list(groups.parts())
        if table == "offsets":
            folded, parts = split_folded(parts)
            yield from folded_batches(folded, columns)
        yield from record_batches(table, columns, rows.OF_GROUPS[table](parts))
    else:
        yield from record_batches(table, columns, _rows(groups, table))


def _rows(groups: Groups, table: str) -> Iterable[rows.Row]:
    if table == "ids":
        return [(rows.number(partition), group) for group, where in groups.named.items() for partition in where]
    return [
        (rows.number(partition), p.segments, p.batches, p.records, p.start_offset, p.next_offset, p.error, _text(p))
        for partition, p in groups.partitions.items()
    ]


def _text(loaded: LoadedPartition) -> str | None:
    return None if loaded.damage is None else str(loaded.damage)
