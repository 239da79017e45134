"""The state of one partition's fold: reads segments piece by piece, and decodes offsets from its arrays.

To fold a segment means to apply its records to the state; layout.py describes the arrays of the state. A state keeps no
bytes of a segment except keys, the metadata of commits, and the records that are not offset records.
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
from kafkagroups.kernels.group_keys import sort_live_keys
from kafkagroups.kernels.layout import COMPRESSED, HAND_OVER, LIVE_KEYS, NO_SPACE, OK, PAUSED, STOPPED
from kafkagroups.kernels.other_records import OtherRecords
from kafkagroups.kernels.unpack import as_array, decompress_run
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.records.text import decode_utf8, uuid_text
from kafkagroups.records.versions import Dialect

REPORT_BYTES = 8 * 1024 * 1024
"""About how many bytes are folded between two reports of the progress."""
PIECE_BYTES = 2 * 1024 * 1024
"""How many bytes of a file are read at once. Only a larger batch needs more memory."""

ReportPosition = Callable[[int], None]
"""A progress callback. Its argument is the number of bytes of the segment that were read so far."""


def ignore_position(position: int) -> None:
    """Ignore the progress."""


class FoldState(FoldArrays):
    """The state of one partition's fold. Fold the partition's segments in order.

    If `fold_segment` or `fold_file` returns False, the readable engine must load the whole log. `is_stopped` is true
    after the fold has reached its stop (log/stop.py).
    """

    def __init__(self, dialect: Dialect, stop: Stop = NO_STOP, size: int = 0) -> None:
        """Make an empty state for a log of about `size` bytes."""
        classic = dialect.coordinator == "classic"
        # The order is that of the constants of `rules` in layout.py, from IS_CLASSIC to NEEDS_MARKER.
        self.rules = np.array(
            [
                classic,
                dialect.offset_values,
                dialect.type0_values,
                not classic and dialect.version >= (4, 1),
                _limit_to_int64(stop.until_offset),
                _limit_to_int64(stop.until_time),
                True,
                classic and not dialect.since(2, 0, 1),
            ],
            np.int64,
        )
        super().__init__(size)
        self._max_group_version = dialect.group_values
        self.other_records = OtherRecords(self._max_group_version)
        self.is_stopped = False
        self._classic = classic
        self._text_cache: dict[bytes, str] = {}
        self._name_cache: dict[int, tuple[str, str]] = {}

    @classmethod
    def restore(cls, dialect: Dialect, saved_arrays: Mapping[str, Array]) -> FoldState:
        """Return the state that was saved as arrays. The next batch to fold comes after the last batch of the state."""
        state = cls(dialect)
        state.set_arrays(saved_arrays)
        return state

    def fold_segment(self, data: Array, report: ReportPosition = ignore_position) -> bool:
        """Fold the bytes of a segment, a read-only array of uint8. Return False as described above."""
        status, _ = self._fold_piece(data, True, report)
        report(len(data))
        return status != HAND_OVER

    def fold_file(self, file: RawIOBase | BufferedIOBase, report: ReportPosition = ignore_position) -> bool:
        """Fold the file of a segment in pieces. All pieces use the same memory, which stays in the CPU's cache."""
        piece = np.empty(PIECE_BYTES, np.uint8)
        kept_bytes = 0
        read_bytes = 0
        is_last = False
        has_only_zeros = False
        while not (is_last or self.is_stopped):
            count = file.readinto(piece[kept_bytes:]) or 0
            read_bytes += count
            is_last = not count
            data = as_array(piece[: kept_bytes + count])
            if has_only_zeros:
                if data.any():
                    return False
                continue
            status, position = self._fold_piece(data, is_last)
            if status == HAND_OVER:
                return False
            has_only_zeros = status == OK and position < len(data)
            kept_bytes = 0 if has_only_zeros else len(data) - position
            if kept_bytes == len(piece):
                piece = np.empty(2 * kept_bytes, np.uint8)
            piece[:kept_bytes] = data[len(data) - kept_bytes :]
            report(read_bytes - kept_bytes)
        return True

    def _fold_piece(self, data: Array, is_last: bool, report: ReportPosition = ignore_position) -> tuple[int, int]:
        """Fold the complete batches in a piece of a segment. Return a status (layout.py) and the next position to read.

        `is_last` is true if the piece contains the last bytes of the segment.
        """
        position = 0
        status = NO_SPACE
        while status in (NO_SPACE, COMPRESSED, PAUSED) and not self.is_stopped:
            status, position = fold.fold_segment(
                data, position, REPORT_BYTES, is_last, self.tables(), self.record_positions, self.block
            )
            self.other_records.add(data, self.record_positions[: self.counts[layout.OTHER_RECORDS]])
            self.counts[layout.OTHER_RECORDS] = 0
            if status == NO_SPACE:
                # The header of the next batch has the batch's length at byte 8 and its record count at byte 57.
                size, record_count = (
                    int.from_bytes(data[position + field : position + field + 4].tobytes(), "big") for field in (8, 57)
                )
                self.grow(size + 12, record_count)
            elif status == COMPRESSED:
                uncompressed, position = decompress_run(data, position)
                if uncompressed is None or not self.fold_segment(uncompressed):
                    return HAND_OVER, position
            report(position)
        self.is_stopped = self.is_stopped or status == STOPPED
        return status, position

    def forget_records(self) -> None:
        """Release the memory of the records that are not offset records, after they were replayed."""
        self.other_records = OtherRecords(self._max_group_version)

    def committed(self) -> tuple[dict[str, FoldedOffsets], dict[str, int]]:
        """Return the committed offsets of each group, and the offset of each group's newest commit record with a value.

        The second mapping contains every group that has offset records. Its value is -1 if all of them are tombstones.
        """
        entry_count = int(self.counts[layout.ENTRIES])
        groups, group_of_name = self.groups()
        ends = np.cumsum(groups[:, LIVE_KEYS]) - groups[:, LIVE_KEYS]
        sorted_entries = np.empty(int(groups[:, LIVE_KEYS].sum()), np.int64)
        sort_live_keys(self.entries, entry_count, group_of_name, ends, sorted_entries)

        offsets = {}
        newest_values = {}
        arena = memoryview(self.arena)
        for (start, size, newest_value, live_keys), end in zip(groups.tolist(), ends.tolist(), strict=True):
            group_id = decode_utf8(bytes(arena[start : start + size]))
            newest_values[group_id] = newest_value
            if live_keys:
                offsets[group_id] = FoldedOffsets(self, sorted_entries[end - live_keys : end])
        return offsets, newest_values

    def decode_offsets(self, entries: Array) -> PartitionOffsets:
        """Return the committed offsets of these entries (rows of the array `entries`)."""
        rows = self.entries[entries].tolist()
        extras = self.extras[entries].tolist()
        return {
            self._decode_key(row[layout.NAME_AND_PARTITION])[1]: self._decode_offset(row, extra)
            for row, extra in zip(rows, extras, strict=True)
        }

    def decode_pending(self) -> dict[int, dict[str, PartitionOffsets]]:
        """Return the pending commits, by producer id and then by group."""
        pending: dict[int, dict[str, PartitionOffsets]] = {}
        for producer_id, first_node, is_used in self.producers.tolist():
            node = first_node if is_used else -1
            # The newest commit comes first in the list. Only this commit of each key is pending.
            seen_entries = set()
            while node >= 0:
                row = self.nodes[node].tolist()
                entry = row[layout.ENTRY] if row[layout.ENTRY] >= 0 else ~row[layout.ENTRY]
                if entry not in seen_entries:
                    seen_entries.add(entry)
                    if not self._is_deleted(row, entry):
                        group, partition = self._decode_key(int(self.entries[entry, layout.NAME_AND_PARTITION]))
                        offset = self._decode_offset(row, self.node_extras[node].tolist())
                        pending.setdefault(producer_id, {}).setdefault(group, {})[partition] = offset
                node = row[layout.NEXT_NODE]
        return pending

    def _is_deleted(self, node: list[int], entry: int) -> bool:
        """Return whether a tombstone deleted the pending commit of this node. `entry` is the key's entry."""
        if node[layout.ENTRY] < 0:
            return True
        return not self._classic and bool(node[layout.RECORD_OFFSET] < self.tombstones[entry])

    def _decode_key(self, key: int) -> tuple[str, TopicPartition]:
        """Return the group and the topic-partition of a key. `key` is the column NAME_AND_PARTITION of its entry."""
        name_number = key >> 32
        partition = key & layout.PARTITION_MASK
        name = self._name_cache.get(name_number)
        if name is None:
            name_bytes = self._bytes_of_text(int(self.names[name_number, layout.NAME_TEXT]))
            group_end = 2 + int.from_bytes(name_bytes[:2], "big")
            name = (self._decode_text(name_bytes[2:group_end]), self._decode_text(name_bytes[group_end + 2 :]))
            self._name_cache[name_number] = name
        return name[0], TopicPartition(name[1], partition - (partition >> 31 << 32))

    def _decode_offset(self, row: list[int], extras: list[int]) -> OffsetAndMetadata:
        """Return the offset in an entry and its row of `extras`, or in a node and its row of `node_extras`."""
        flags = row[layout.EPOCH_AND_FLAGS]
        epoch = flags & 0xFFFFFFFF
        topic_id = None
        if flags & layout.HAS_TOPIC_ID:
            topic_id = uuid_text(b"".join((half & (1 << 64) - 1).to_bytes(8, "little") for half in extras[1:3]))
        return OffsetAndMetadata(
            row[layout.COMMITTED_OFFSET],
            decode_utf8(self._bytes_of_text(row[layout.METADATA])) if row[layout.METADATA] else "",
            row[layout.COMMIT_TIME],
            epoch - (1 << 32) if epoch >> 31 else epoch,
            extras[0] if flags & layout.HAS_EXPIRE else None,
            topic_id,
            row[layout.RECORD_OFFSET],
            row[layout.BATCH_OFFSET] if self._classic else row[layout.RECORD_OFFSET],
        )

    def _bytes_of_text(self, text: int) -> bytes:
        return self._arena_bytes[text >> 20 : (text >> 20) + (text & layout.SIZE_MASK)]

    def _decode_text(self, data: bytes) -> str:
        """Return a group id or a topic name. Equal names share one string, because each name occurs many times."""
        text = self._text_cache.get(data)
        if text is None:
            text = decode_utf8(data)
            self._text_cache[data] = text
        return text

    @cached_property
    def _arena_bytes(self) -> bytes:
        """The bytes of the arena. Do not read them before the last batch is folded, because they are cached."""
        return self.arena[: self.counts[layout.ARENA_BYTES]].tobytes()


def _limit_to_int64(value: int | None) -> int:
    """Return a limit of the stop as an int64. None means that there is no limit."""
    return layout.MAX_INT64 if value is None else max(-layout.MAX_INT64, min(value, layout.MAX_INT64))
