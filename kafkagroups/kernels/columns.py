"""Committed offsets as numpy columns, made from the arrays of a fold state without a Python object per offset.

A fold state is the state of one log partition after the compiled engine has read some batches. layout.py describes its
arrays. An entry is the row of a key (group, topic and partition). The arena contains the bytes of names and metadata.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kafkagroups.kernels import layout
from kafkagroups.kernels.arrays import Array
from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.folded_offsets import OffsetArrays
from kafkagroups.kernels.intrinsics import copy_bytes
from kafkagroups.kernels.scan import is_valid_utf8, load_int16

_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
TOPIC_ID_TEXT_SIZE = 22
"""The number of characters in the text of a topic id (a UUID in base64)."""
_GROUP, _GROUP_SIZE, _TOPIC, _TOPIC_SIZE, _PARTITION, _METADATA, _METADATA_SIZE = range(7)
"""The columns of `positions`, an array with a row for each committed offset.

_GROUP, _TOPIC and _METADATA are positions in the arena, where the bytes of the text begin. The column after each of
them is the size of the text in bytes. _PARTITION is the partition of the topic.
"""


class Texts(NamedTuple):
    """Texts in Arrow's layout.

    `content` contains the UTF-8 bytes of all texts, one after another. The first element of `ends` is 0. The other
    elements are the positions in `content` where the texts end.
    """

    ends: Array
    content: Array


class OffsetColumns:
    """Committed offsets as columns. Most methods return the column that has the method's name.

    `entry_numbers` contains numbers of rows in `arrays.entries`. A column has one row for each number, in this order.
    `positions` is the array with the columns _GROUP to _METADATA_SIZE; None means that it must be computed.
    """

    def __init__(self, arrays: OffsetArrays, entry_numbers: Array, positions: Array | None = None) -> None:
        if positions is None:
            positions = np.empty((len(entry_numbers), 7), np.int64)
            _fill_positions(arrays.entries, entry_numbers, arrays.names, arrays.arena, positions)
        self._arrays = arrays
        self._entry_numbers = entry_numbers
        self._positions = positions
        self._rows = arrays.entries[entry_numbers]
        self._extras = arrays.extras[entry_numbers]
        self._epochs_and_flags = self._rows[:, layout.EPOCH_AND_FLAGS]

    def __len__(self) -> int:
        return len(self._entry_numbers)

    def slice_rows(self, start: int, end: int) -> OffsetColumns:
        """Return the rows from `start` up to `end`."""
        return OffsetColumns(self._arrays, self._entry_numbers[start:end], self._positions[start:end])

    def max_text_sizes(self) -> Array:
        """Return for each row how many bytes all texts of the row can have together at most."""
        return self._positions[:, [_GROUP_SIZE, _TOPIC_SIZE, _METADATA_SIZE]].sum(1) + TOPIC_ID_TEXT_SIZE

    def group(self) -> Texts:
        return self._texts(_GROUP)

    def topic(self) -> Texts:
        return self._texts(_TOPIC)

    def topic_partition(self) -> Array:
        return self._positions[:, _PARTITION]

    def committed_offset(self) -> Array:
        return self._rows[:, layout.COMMITTED_OFFSET]

    def leader_epoch(self) -> Array:
        return self._epochs_and_flags.astype(np.int32)  # This keeps the lower 32 bits, the epoch.

    def metadata(self) -> Texts | None:
        """Return the metadata, or None if any metadata is not valid UTF-8. In that case, use `metadata_bytes`."""
        return self._texts(_METADATA) if _is_metadata_valid(self._arrays.arena, self._positions) else None

    def metadata_bytes(self) -> list[bytes]:
        """Return the metadata of each row as bytes, unchanged from the record."""
        arena = self._arrays.arena
        return [arena[start : start + size].tobytes() for start, size in self._positions[:, _METADATA:].tolist()]

    def commit_timestamp(self) -> Array:
        return self._rows[:, layout.COMMIT_TIME]

    def has_expire_timestamp(self) -> Array:
        return self._epochs_and_flags & layout.HAS_EXPIRE != 0

    def expire_timestamp(self) -> Array:
        return self._extras[:, layout.EXPIRE_TIME]

    def has_topic_id(self) -> Array:
        return self._epochs_and_flags & layout.HAS_TOPIC_ID != 0

    def topic_id(self) -> Texts:
        """Return the topic ids as Kafka prints them. The text of a row without a topic id is empty."""
        has_id = self.has_topic_id()
        id_columns = [layout.TOPIC_ID_FIRST_HALF, layout.TOPIC_ID_LAST_HALF]
        ids = np.ascontiguousarray(self._extras[has_id][:, id_columns]).view(np.uint8)
        texts = np.empty((len(ids), TOPIC_ID_TEXT_SIZE), np.uint8)
        _write_ids(ids, _BASE64, texts)
        return Texts(_find_ends(has_id * TOPIC_ID_TEXT_SIZE), texts.reshape(-1))

    def record_offset(self) -> Array:
        return self._rows[:, layout.RECORD_OFFSET]

    def _texts(self, column: int) -> Texts:
        ends = _find_ends(self._positions[:, column + 1])
        content = np.empty(ends[-1], np.uint8)
        _copy_texts(self._arrays.arena, self._positions, column, content)
        return Texts(ends, content)


def _find_ends(sizes: Array) -> Array:
    """Return the attribute `ends` of Texts for texts of these sizes in bytes."""
    ends = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    return ends


@kernel
def _fill_positions(entries: Any, entry_numbers: Any, names: Any, arena: Any, positions: Any) -> None:
    """Fill `positions` for the entries with these numbers.

    In the arena, the size (int16) of a group id or topic name is before its bytes.
    """
    for row in range(len(entry_numbers)):
        name_and_partition = entries[entry_numbers[row], layout.NAME_AND_PARTITION]
        positions[row, _PARTITION] = np.int32(name_and_partition & layout.PARTITION_MASK)
        start = names[name_and_partition >> layout.PARTITION_BITS, layout.NAME_TEXT] >> layout.SIZE_BITS
        metadata = entries[entry_numbers[row], layout.METADATA]
        for column in (_GROUP, _TOPIC):
            size = load_int16(arena, start)
            positions[row, column] = start + 2
            positions[row, column + 1] = size
            start += 2 + size
        positions[row, _METADATA] = metadata >> layout.SIZE_BITS
        positions[row, _METADATA_SIZE] = metadata & layout.SIZE_MASK


@kernel
def _copy_texts(arena: Any, positions: Any, column: int, content: Any) -> None:
    """Copy the texts of one column of `positions` to `content`, one after another."""
    end = 0
    for row in range(len(positions)):
        size = positions[row, column + 1]
        copy_bytes(arena, positions[row, column], content, end, size)
        end += size


@kernel
def _is_metadata_valid(arena: Any, positions: Any) -> bool:
    """Return whether all metadata is valid UTF-8."""
    for row in range(len(positions)):
        if not is_valid_utf8(arena, positions[row, _METADATA], positions[row, _METADATA_SIZE]):
            return False
    return True


@kernel
def _write_ids(ids: Any, alphabet: Any, texts: Any) -> None:
    """Write UUIDs (16 bytes each) as Kafka prints them: base64 for URLs, without padding."""
    for row in range(len(ids)):
        for letter in range(TOPIC_ID_TEXT_SIZE):
            # Each letter encodes 6 bits, which can be in two bytes.
            bit = 6 * letter
            byte = bit >> 3
            two_bytes = np.int64(ids[row, byte]) << 8 | (np.int64(ids[row, byte + 1]) if byte < 15 else 0)
            texts[row, letter] = alphabet[two_bytes >> (10 - (bit & 7)) & 63]
