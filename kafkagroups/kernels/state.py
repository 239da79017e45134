"""The state of one partition's fold: reads segments in pieces into its arrays, and decodes what the arrays hold.

Of a segment it keeps only the keys, the metadata of offsets, and the records of other types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from io import BufferedIOBase, RawIOBase

import numpy as np

from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition
from kafkagroups.kernels import fold, layout
from kafkagroups.kernels.arrays import Array, FoldArrays
from kafkagroups.kernels.folded_offsets import FoldedOffsets
from kafkagroups.kernels.group_keys import sort_live
from kafkagroups.kernels.layout import COMPRESSED, HAND_OVER, LIVE, NO_SPACE, OK, PAUSED, STOPPED
from kafkagroups.kernels.other_records import OtherRecords
from kafkagroups.kernels.unpack import as_array, decompress_run
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.records.text import decode_utf8, uuid_text
from kafkagroups.records.versions import Dialect

STRIDE = 8 * 1024 * 1024
"""How many bytes are folded before the caller's progress is reported."""
PIECE = 2 * 1024 * 1024
"""How many bytes of a file are in memory at the same time."""

ReportPosition = Callable[[int], None]
"""Called with the number of bytes of the segment that were read so far."""


def ignore_position(at: int) -> None:
    """Do nothing with the position."""


class FoldState(FoldArrays):
    """The state of one partition's fold. Fold its segments in order; False: the readable engine must load it."""

    def __init__(self, rules: Dialect, stop: Stop = NO_STOP, size: int = 0) -> None:
        """Make an empty state for a log of about `size` bytes."""
        classic = rules.coordinator == "classic"
        self.rules = np.array(
            [
                classic,
                rules.offset_values,
                rules.type0_values,
                not classic and rules.version >= (4, 1),
                _limit(stop.until_offset),
                _limit(stop.until_time),
                True,
                classic and not rules.since(2, 0, 1),
            ],
            np.int64,
        )
        super().__init__(size)
        self._group_values = rules.group_values
        self.others = OtherRecords(self._group_values)
        self.is_stopped = False
        self._classic = classic
        self._texts: dict[bytes, str] = {}
        self._names: dict[int, tuple[str, str]] = {}

    @classmethod
    def restore(cls, rules: Dialect, saved: Mapping[str, Array]) -> FoldState:
        """Return the state as it was saved. Continue with the records behind its next offset."""
        state = cls(rules)
        state.set_arrays(saved)
        return state

    def fold_segment(self, data: Array, report: ReportPosition = ignore_position) -> bool:
        """Fold a segment's bytes (uint8, read-only)."""
        status, _ = self._fold_piece(data, True, report)
        report(len(data))
        return status != HAND_OVER

    def fold_file(self, file: RawIOBase | BufferedIOBase, report: ReportPosition = ignore_position) -> bool:
        """Fold a segment's file, piece by piece. The pieces reuse the same memory, which stays in the CPU's cache."""
        piece = np.empty(PIECE, np.uint8)
        kept = 0
        read = 0
        is_last = False
        has_ended = False
        while not (is_last or self.is_stopped):
            count = file.readinto(piece[kept:]) or 0
            read += count
            is_last = not count
            data = as_array(piece[: kept + count])
            if has_ended:
                if data.any():
                    return False
                continue
            status, at = self._fold_piece(data, is_last)
            if status == HAND_OVER:
                return False
            has_ended = status == OK and at < len(data)
            kept = 0 if has_ended else len(data) - at
            if kept == len(piece):
                piece = np.empty(2 * kept, np.uint8)
            piece[:kept] = data[len(data) - kept :]
            report(read - kept)
        return True

    def _fold_piece(self, data: Array, is_last: bool, report: ReportPosition = ignore_position) -> tuple[int, int]:
        """Fold the whole batches in a piece of a segment. Return a status and where it stopped."""
        at = 0
        status = NO_SPACE
        while status in (NO_SPACE, COMPRESSED, PAUSED) and not self.is_stopped:
            status, at = fold.fold_segment(data, at, STRIDE, is_last, self.tables(), self.row_places, self.block)
            self.others.add(data, self.row_places[: self.counts[layout.ROWS]])
            self.counts[layout.ROWS] = 0
            if status == NO_SPACE:
                size, count = (int.from_bytes(data[at + n : at + n + 4].tobytes(), "big") for n in (8, 57))
                self.grow(size + 12, count)
            elif status == COMPRESSED:
                plain, at = decompress_run(data, at)
                if plain is None or not self.fold_segment(plain):
                    return HAND_OVER, at
            report(at)
        self.is_stopped = self.is_stopped or status == STOPPED
        return status, at

    def forget_records(self) -> None:
        """Release the other records, after they were replayed."""
        self.others = OtherRecords(self._group_values)

    def committed(self) -> tuple[dict[str, FoldedOffsets], dict[str, int]]:
        """Return what is committed, by group, and for each group the newest record that committed anything.

        Every group that an offset record names is in the second map; -1 means that it has only tombstones.
        """
        count = int(self.counts[layout.ENTRIES])
        groups, group_of = self.groups()
        ends = np.cumsum(groups[:, LIVE]) - groups[:, LIVE]
        order = np.empty(int(groups[:, LIVE].sum()), np.int64)
        sort_live(self.entries, count, group_of, ends, order)

        offsets = {}
        newest = {}
        arena = memoryview(self.arena)
        for (place, size, last, live), end in zip(groups.tolist(), ends.tolist(), strict=True):
            name = decode_utf8(bytes(arena[place : place + size]))
            newest[name] = last
            if live:
                offsets[name] = FoldedOffsets(self, order[end - live : end])
        return offsets, newest

    def decode_offsets(self, entries: Array) -> PartitionOffsets:
        """Return what is committed under the keys of these entries."""
        rows = self.entries[entries].tolist()
        extras = self.extras[entries].tolist()
        return {
            self._decode_key(row[layout.NAME])[1]: self._decode_offset(row, extra)
            for row, extra in zip(rows, extras, strict=True)
        }

    def decode_pending(self) -> dict[int, dict[str, PartitionOffsets]]:
        """Return what is pending, by producer id and then by group."""
        pending: dict[int, dict[str, PartitionOffsets]] = {}
        for producer, first, is_taken in self.producers.tolist():
            node = first if is_taken else -1
            decided = set()
            while node >= 0:
                row = self.nodes[node].tolist()
                entry = row[layout.ENTRY] if row[layout.ENTRY] >= 0 else ~row[layout.ENTRY]
                if entry not in decided:
                    decided.add(entry)
                    if not self._is_deleted(row, entry):
                        group, partition = self._decode_key(int(self.entries[entry, layout.NAME]))
                        offset = self._decode_offset(row, self.node_extras[node].tolist())
                        pending.setdefault(producer, {}).setdefault(group, {})[partition] = offset
                node = row[layout.NEXT]
        return pending

    def _is_deleted(self, node: list[int], entry: int) -> bool:
        """Return whether a pending commit was deleted by a tombstone."""
        if node[layout.ENTRY] < 0:
            return True
        return not self._classic and bool(node[layout.RECORD] < self.tombstones[entry])

    def _decode_key(self, key: int) -> tuple[str, TopicPartition]:
        """Return the group and the topic-partition of a key."""
        number = key >> 32
        partition = key & layout.PARTITION
        name = self._names.get(number)
        if name is None:
            text = self._bytes_at(int(self.names[number, layout.PLACE]))
            end = 2 + int.from_bytes(text[:2], "big")
            name = (self._decode_text(text[2:end]), self._decode_text(text[end + 2 :]))
            self._names[number] = name
        return name[0], TopicPartition(name[1], partition - (partition >> 31 << 32))

    def _decode_offset(self, row: list[int], extras: list[int]) -> OffsetAndMetadata:
        flags = row[layout.EPOCH]
        epoch = flags & 0xFFFFFFFF
        topic_id = None
        if flags & layout.HAS_TOPIC:
            topic_id = uuid_text(b"".join((half & (1 << 64) - 1).to_bytes(8, "little") for half in extras[1:3]))
        return OffsetAndMetadata(
            row[layout.COMMITTED],
            decode_utf8(self._bytes_at(row[layout.NOTE])) if row[layout.NOTE] else "",
            row[layout.TIME],
            epoch - (1 << 32) if epoch >> 31 else epoch,
            extras[0] if flags & layout.HAS_EXPIRE else None,
            topic_id,
            row[layout.RECORD],
            row[layout.BATCH] if self._classic else row[layout.RECORD],
        )

    def _bytes_at(self, place: int) -> bytes:
        return self._arena_bytes[place >> 20 : (place >> 20) + (place & layout.SIZE)]

    def _decode_text(self, data: bytes) -> str:
        """Return a name's text. Names repeat, so they share one text."""
        text = self._texts.get(data)
        if text is None:
            text = decode_utf8(data)
            self._texts[data] = text
        return text

    @cached_property
    def _arena_bytes(self) -> bytes:
        """The arena's content. Read it only when nothing will be folded into this state again."""
        return self.arena[: self.counts[layout.ARENA]].tobytes()


def _limit(value: int | None) -> int:
    return layout.MOST if value is None else max(-layout.MOST, min(value, layout.MOST))
