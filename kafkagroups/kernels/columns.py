"""Offsets from the arrays of a fold to numpy columns: no row is made, whatever the log's size."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kafkagroups.kernels import layout
from kafkagroups.kernels.arrays import Array
from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.folded_offsets import OffsetArrays
from kafkagroups.kernels.intrinsics import copy
from kafkagroups.kernels.scan import int16, is_plain_text

_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
ID_SIZE = 22
"""The size of a topic id's text."""
_GROUP = 0
_TOPIC = 2
_PARTITION = 4
_NOTE = 5
"""Columns of places: a text's position and size (of the group, the topic and the metadata), the topic's partition."""


class Texts(NamedTuple):
    """Texts side by side, as Arrow has them: where each one ends (after a first 0), and their UTF-8."""

    ends: Array
    content: Array


class OffsetColumns:
    """Committed offsets as columns. Each method returns one column."""

    def __init__(self, arrays: OffsetArrays, entries: Array, places: Array | None = None) -> None:
        if places is None:
            places = np.empty((len(entries), 7), np.int64)
            _fill_places(arrays.entries, entries, arrays.names, arrays.arena, places)
        self._arrays = arrays
        self._entries = entries
        self._places = places
        self._rows = arrays.entries[entries]
        self._extras = arrays.extras[entries]
        self._flags = self._rows[:, layout.EPOCH]

    def __len__(self) -> int:
        return len(self._entries)

    def part(self, start: int, end: int) -> OffsetColumns:
        """Return some of the rows."""
        return OffsetColumns(self._arrays, self._entries[start:end], self._places[start:end])

    def text_sizes(self) -> Array:
        """Return how many bytes of text each row has at most."""
        return self._places[:, [1, 3, 6]].sum(1) + ID_SIZE

    def group(self) -> Texts:
        return self._texts(_GROUP)

    def topic(self) -> Texts:
        return self._texts(_TOPIC)

    def topic_partition(self) -> Array:
        return self._places[:, _PARTITION]

    def committed_offset(self) -> Array:
        return self._rows[:, layout.COMMITTED]

    def leader_epoch(self) -> Array:
        return self._flags.astype(np.int32)  # the lower half

    def metadata(self) -> Texts | None:
        """Return the metadata; None if some of it is not plain text and must be decoded one by one."""
        return self._texts(_NOTE) if _are_plain(self._arrays.arena, self._places) else None

    def metadata_bytes(self) -> list[bytes]:
        """Return the metadata as it was written."""
        arena = self._arrays.arena
        return [arena[place : place + size].tobytes() for place, size in self._places[:, _NOTE:].tolist()]

    def commit_timestamp(self) -> Array:
        return self._rows[:, layout.TIME]

    def has_expire_timestamp(self) -> Array:
        return self._flags & layout.HAS_EXPIRE != 0

    def expire_timestamp(self) -> Array:
        return self._extras[:, 0]

    def has_topic_id(self) -> Array:
        return self._flags & layout.HAS_TOPIC != 0

    def topic_id(self) -> Texts:
        """Return the topic ids as Kafka writes them. Rows without one are empty."""
        is_there = self.has_topic_id()
        ids = np.ascontiguousarray(self._extras[is_there, 1:3]).view(np.uint8)
        texts = np.empty((len(ids), ID_SIZE), np.uint8)
        _write_ids(ids, _BASE64, texts)
        return Texts(_ends(is_there * ID_SIZE), texts.reshape(-1))

    def record_offset(self) -> Array:
        return self._rows[:, layout.RECORD]

    def _texts(self, column: int) -> Texts:
        ends = _ends(self._places[:, column + 1])
        content = np.empty(ends[-1], np.uint8)
        _copy_texts(self._arrays.arena, self._places, column, content)
        return Texts(ends, content)


def _ends(sizes: Array) -> Array:
    ends = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    return ends


@kernel
def _fill_places(table: Any, entries: Any, names: Any, arena: Any, places: Any) -> None:
    for row in range(len(entries)):
        key = table[entries[row], layout.NAME]
        places[row, 4] = np.int32(key & layout.PARTITION)
        at = names[key >> 32, layout.PLACE] >> 20
        note = table[entries[row], layout.NOTE]
        for column in (0, 2):
            size = int16(arena, at)
            places[row, column] = at + 2
            places[row, column + 1] = size
            at += 2 + size
        places[row, 5] = note >> 20
        places[row, 6] = note & layout.SIZE


@kernel
def _copy_texts(arena: Any, places: Any, column: int, content: Any) -> None:
    end = 0
    for row in range(len(places)):
        size = places[row, column + 1]
        copy(arena, places[row, column], content, end, size)
        end += size


@kernel
def _are_plain(arena: Any, places: Any) -> bool:
    """Return whether all metadata is text that a Java String preserves."""
    for row in range(len(places)):
        if not is_plain_text(arena, places[row, 5], places[row, 6]):
            return False
    return True


@kernel
def _write_ids(ids: Any, alphabet: Any, texts: Any) -> None:
    """Write Kafka's text of uuids of 16 bytes: base64 for URLs, without padding."""
    for row in range(len(ids)):
        for place in range(22):
            bit = 6 * place
            byte = bit >> 3
            word = np.int64(ids[row, byte]) << 8 | (np.int64(ids[row, byte + 1]) if byte < 15 else 0)
            texts[row, place] = alphabet[word >> (10 - (bit & 7)) & 63]
