"""The table `offsets` as Arrow record batches, copied directly from the arrays of the compiled engine.

The compiled engine stores the committed offsets of a log partition in arrays (kernels/layout.py). Copying these arrays
is faster than making one Python object per offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kafkagroups.groups.group_parts import GroupParts
from kafkagroups.kernels.folded_offsets import FoldedOffsets, OffsetArrays
from kafkagroups.records.text import decode_utf8
from kafkagroups.tables.columns import (
    BATCH_BYTES,
    BATCH_ROWS,
    MIN_TIMESTAMP_MS,
    TIMESTAMP_END_MS,
    Column,
    arrow_schema,
    to_arrow_array,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkagroups.kernels.columns import OffsetColumns, Texts

OffsetsInArrays = dict[int, list[tuple[int | None, FoldedOffsets]]]
"""The offsets of all groups, by log partition. The key is Python's `id` of the partition's arrays. The value is a list
of pairs, one for each group: the number of the log partition, and the group's offsets."""


def split_by_storage(
    groups: Iterable[tuple[str, GroupParts]],
) -> tuple[OffsetsInArrays, list[tuple[str, GroupParts]]]:
    """Return the offsets that are in arrays of the compiled engine, and the groups whose offsets are not in arrays."""
    offsets_in_arrays: OffsetsInArrays = {}
    other_groups = []
    for group_id, parts in groups:
        if isinstance(parts.offsets, FoldedOffsets):
            groups_of_arrays = offsets_in_arrays.setdefault(id(parts.offsets.arrays), [])
            groups_of_arrays.append((parts.group.partition, parts.offsets))
        else:
            other_groups.append((group_id, parts))
    return offsets_in_arrays, other_groups


def copy_offsets(offsets_in_arrays: OffsetsInArrays, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """Yield Arrow record batches of the committed offsets. `columns` are the columns of the result."""
    for groups in offsets_in_arrays.values():
        partition, first_offsets = groups[0]
        offsets_of_groups = [offsets for _, offsets in groups]
        yield from _copy_partition(partition, first_offsets.arrays, offsets_of_groups, columns)


def _copy_partition(
    partition: int | None, arrays: OffsetArrays, offsets_of_groups: Sequence[FoldedOffsets], columns: Sequence[Column]
) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of one log partition."""
    import numpy as np
    import pyarrow as pa

    from kafkagroups.kernels.columns import OffsetColumns

    all_rows = OffsetColumns(arrays, np.concatenate([offsets.entry_numbers for offsets in offsets_of_groups]))
    cumulative_sizes = np.cumsum(all_rows.max_text_sizes())
    start = 0
    while start < len(all_rows):
        size_before = cumulative_sizes[start - 1] if start else 0
        end = min(start + BATCH_ROWS, int(np.searchsorted(cumulative_sizes, size_before + BATCH_BYTES)) + 1)
        rows = _ArrowColumns(all_rows.slice_rows(start, end), -1 if partition is None else partition)
        content = [getattr(rows, column.name)() for column in columns]
        yield pa.RecordBatch.from_arrays(content, schema=arrow_schema(columns))
        start = end


class _ArrowColumns:
    """Rows of the table `offsets`. Each method returns the Arrow column that has the method's name.

    `partition` is the number of the log partition.
    """

    def __init__(self, offsets: OffsetColumns, partition: int) -> None:
        self._offsets = offsets
        self._partition = partition

    def partition(self) -> pa.Array:
        import numpy as np

        return _numbers("int32", np.full(len(self._offsets), self._partition))

    def group(self) -> pa.Array:
        return _strings(self._offsets.group())

    def topic(self) -> pa.Array:
        return _strings(self._offsets.topic())

    def topic_partition(self) -> pa.Array:
        return _numbers("int32", self._offsets.topic_partition())

    def committed_offset(self) -> pa.Array:
        return _numbers("int64", self._offsets.committed_offset())

    def leader_epoch(self) -> pa.Array:
        return _numbers("int32", self._offsets.leader_epoch())

    def metadata(self) -> pa.Array:
        import pyarrow as pa

        texts = self._offsets.metadata()
        if texts is not None:
            return _strings(texts)
        return to_arrow_array(pa.string(), [decode_utf8(text) for text in self._offsets.metadata_bytes()])

    def commit_timestamp_ms(self) -> pa.Array:
        return _numbers("int64", self._offsets.commit_timestamp())

    def commit_timestamp(self) -> pa.Array:
        return _timestamps(self._offsets.commit_timestamp())

    def expire_timestamp_ms(self) -> pa.Array:
        return _numbers("int64", self._offsets.expire_timestamp(), self._offsets.has_expire_timestamp())

    def expire_timestamp(self) -> pa.Array:
        return _timestamps(self._offsets.expire_timestamp(), self._offsets.has_expire_timestamp())

    def topic_id(self) -> pa.Array:
        return _strings(self._offsets.topic_id(), self._offsets.has_topic_id())

    def record_offset(self) -> pa.Array:
        return _numbers("int64", self._offsets.record_offset())


def _strings(texts: Texts, is_present: Any = True) -> pa.Array:
    """Return texts as an Arrow array.

    `is_present` is a bool array that is False for each null; True means that no text is null.
    """
    import pyarrow as pa

    buffers = [_null_buffer(is_present), pa.py_buffer(texts.ends), pa.py_buffer(texts.content)]
    return pa.Array.from_buffers(pa.string(), len(texts.ends) - 1, buffers)


def _numbers(type_name: str, values: Any, is_present: Any = True) -> pa.Array:
    """Return numbers as an Arrow array of this type. `is_present` says which numbers are not null (see `_strings`)."""
    import pyarrow as pa

    return pa.Array.from_buffers(
        pa.type_for_alias(type_name), len(values), [_null_buffer(is_present), pa.py_buffer(values.astype(type_name))]
    )


def _timestamps(times_ms: Any, is_present: Any = True) -> pa.Array:
    """Return times (ms since the epoch) as Arrow timestamps. A timestamp is null if its year is outside pandas' range.

    `is_present` says which times are not null (see `_strings`).
    """
    import numpy as np
    import pyarrow as pa

    is_present = is_present & (times_ms >= MIN_TIMESTAMP_MS) & (times_ms < TIMESTAMP_END_MS)
    microseconds = np.where(is_present, times_ms, 0) * 1000
    buffers = [_null_buffer(is_present), pa.py_buffer(microseconds.astype("int64"))]
    return pa.Array.from_buffers(pa.timestamp("us", "UTC"), len(times_ms), buffers)


def _null_buffer(is_present: Any) -> pa.Buffer | None:
    """Return the Arrow buffer whose bits say which rows are not null, or None if no row is null."""
    import numpy as np
    import pyarrow as pa

    return None if np.all(is_present) else pa.py_buffer(np.packbits(is_present, bitorder="little"))
