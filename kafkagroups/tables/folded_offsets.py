"""The table `offsets` as Arrow record batches, copied directly from the arrays of the compiled engine.

The compiled engine stores the committed offsets of a log partition in arrays (kernels/layout.py). Copying these arrays
is faster than making one Python object per offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kafkagroups.groups.group_parts import GroupParts
from kafkagroups.kernels.folded_offsets import FoldedOffsets, OffsetArrays
from kafkagroups.records.text import decode_utf8
from kafkagroups.tables.arrow_values import make_numbers, make_strings, make_timestamps
from kafkagroups.tables.columns import (
    BATCH_BYTES,
    BATCH_ROWS,
    Column,
    arrow_schema,
    to_arrow_array,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkagroups.kernels.columns import OffsetColumns

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

        return make_numbers("int32", np.full(len(self._offsets), self._partition))

    def group(self) -> pa.Array:
        return make_strings(self._offsets.group())

    def topic(self) -> pa.Array:
        return make_strings(self._offsets.topic())

    def topic_partition(self) -> pa.Array:
        return make_numbers("int32", self._offsets.topic_partition())

    def committed_offset(self) -> pa.Array:
        return make_numbers("int64", self._offsets.committed_offset())

    def leader_epoch(self) -> pa.Array:
        return make_numbers("int32", self._offsets.leader_epoch())

    def metadata(self) -> pa.Array:
        import pyarrow as pa

        texts = self._offsets.metadata()
        if texts is not None:
            return make_strings(texts)
        return to_arrow_array(pa.string(), [decode_utf8(text) for text in self._offsets.metadata_bytes()])

    def commit_timestamp_ms(self) -> pa.Array:
        return make_numbers("int64", self._offsets.commit_timestamp())

    def commit_timestamp(self) -> pa.Array:
        return make_timestamps(self._offsets.commit_timestamp())

    def expire_timestamp_ms(self) -> pa.Array:
        return make_numbers("int64", self._offsets.expire_timestamp(), self._offsets.has_expire_timestamp())

    def expire_timestamp(self) -> pa.Array:
        return make_timestamps(self._offsets.expire_timestamp(), self._offsets.has_expire_timestamp())

    def topic_id(self) -> pa.Array:
        return make_strings(self._offsets.topic_id(), self._offsets.has_topic_id())

    def record_offset(self) -> pa.Array:
        return make_numbers("int64", self._offsets.record_offset())
