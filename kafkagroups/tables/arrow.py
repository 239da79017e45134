"""The tables of loaded groups as Arrow record batches (`read_table`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kafkagroups.loading.groups import Groups, LoadedPartition
from kafkagroups.tables import rows
from kafkagroups.tables.columns import Column, arrow_schema, columns_of, record_batches

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
        known = [groups[group_id] for group_id in sorted(groups)]
        if table == "offsets" and (kept := [group for group in known if hasattr(group.offsets, "fold")]):
            from kafkagroups.kernels.columns import offset_batches

            yield from offset_batches(kept, columns)
            known = [group for group in known if not hasattr(group.offsets, "fold")]
        yield from record_batches(table, columns, rows.OF_GROUPS[table](known))
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
