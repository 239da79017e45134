"""`FoldState`: reads the segments of one log partition into arrays, and decodes offsets from these arrays.

To fold a segment means to apply its records, one after another, to the state of the partition. layout.py describes the
arrays of this state and the terms entry, extras, node, arena and text reference. A piece is a part of a segment that is
in memory at one time. The state keeps only these bytes of a segment: keys, the metadata of commits, and the records
that are not offset records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from io import BufferedIOBase, RawIOBase
from typing import Protocol

import numpy as np

from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition
from kafkagroups.int_limits import MAX_INT64, MIN_INT64
from kafkagroups.kernels import fold, layout
from kafkagroups.kernels.arrays import Array, FoldArrays
from kafkagroups.kernels.fates import list_pending_nodes
from kafkagroups.kernels.folded_offsets import FoldedOffsets
from kafkagroups.kernels.group_keys import sort_live_keys
from kafkagroups.kernels.layout import COMPRESSED, HAND_OVER, LIVE_KEYS, NO_SPACE, OK, PAUSED, STOPPED
from kafkagroups.kernels.other_records import OtherRecords
from kafkagroups.kernels.unpack import as_array, decompress_batches
from kafkagroups.log.batch import MEMORY_BYTES_PER_RECORD
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.frames import LENGTH_POSITION, LOG_OVERHEAD
from kafkagroups.log.record_batch import HEADER_SIZE
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.log.zeros import count_zeros
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.text import decode_utf8, uuid_text

REPORT_BYTES = 8 * 1024 * 1024
"""About how many bytes are folded between two reports of the progress."""
PIECE_BYTES = 2 * 1024 * 1024
"""The size of a piece of a file. If a batch is larger, the piece grows until it contains the batch."""


class RecordFollower(Protocol):
    """What receives the records that the kernels do not follow."""

    def follow(self, state: FoldState, data: Array, other_positions: Array) -> None:
        """Follow the records that are not offset records, and the new kinds of offset records.

        `data` contains bytes of a segment. `other_positions` has the columns of `record_positions` (layout.py).
        """


ReportPosition = Callable[[int], None]
"""A progress callback. Its argument is the number of bytes of the segment that were read so far."""


def ignore_position(position: int) -> None:
    """Ignore the progress."""


class FoldState(FoldArrays):
    """The state of one log partition in the compiled engine.

    Call `fold_segment` or `fold_file` for each segment, in order. If one of these methods returns False, the readable
    engine must load the whole log. `is_stopped` is true after reading reached a batch that the stop excludes
    (log/stop.py). `max_batch_bytes` is the limit of a decompressed batch. `zeros_bytes` is the number of zeros at the
    end of the last segment that was folded, and `zeros_start` is their position in the bytes that were folded.
    """

    def __init__(
        self,
        dialect: Dialect,
        stop: Stop = NO_STOP,
        log_size: int = 0,
        *,
        keeps_each_fate: bool = False,
        follower: RecordFollower | None = None,
        segment_count: int = 0,
    ) -> None:
        """Make an empty state for a log of about `log_size` bytes.

        If there is a `follower`, the state follows fates (fates.py), and the follower receives the records that the
        kernels do not follow. `keeps_each_fate` and `segment_count` are those of FateArrays (fate_arrays.py).
        """
        is_classic = dialect.coordinator == "classic"
        self.rules = np.zeros(layout.RULE_COUNT, np.int64)
        self.rules[layout.IS_CLASSIC] = is_classic
        self.rules[layout.MAX_OFFSET_VERSION] = dialect.max_offset_value_version
        self.rules[layout.MAX_TYPE0_VERSION] = dialect.max_type0_value_version
        self.rules[layout.KEEPS_TOPIC_IDS] = not is_classic and dialect.version >= (4, 1)
        self.rules[[layout.LAST_OFFSET, layout.LAST_TIME]] = _find_last_offset_and_time(stop)
        self.rules[layout.CHECKS_CRC] = True
        self.rules[layout.NEEDS_MARKER] = is_classic and not dialect.since(2, 0, 1)
        self.rules[layout.FOLLOWS_FATES] = follower is not None
        self.rules[layout.KEEPS_EACH_FATE] = keeps_each_fate
        super().__init__(
            log_size,
            follows_fates=follower is not None,
            keeps_each_fate=keeps_each_fate,
            segment_count=segment_count,
        )
        self._follower = follower
        self._max_group_version = dialect.max_group_value_version
        self.other_records = OtherRecords(self._max_group_version)
        self.is_stopped = False
        self.zeros_start = 0
        self.zeros_bytes = 0
        self.limit_batches(MAX_BATCH_BYTES)
        self._is_classic = is_classic
        self._text_cache: dict[bytes, str] = {}
        self._name_cache: dict[int, tuple[str, str]] = {}

    def limit_batches(self, max_batch_bytes: int) -> None:
        """Set the limit of a decompressed batch. The readable engine must load a log with a larger batch."""
        self.max_batch_bytes = max_batch_bytes
        max_content_bytes = max(max_batch_bytes, MAX_BATCH_BYTES)
        self.rules[layout.MAX_BATCH_SIZE] = min(max_content_bytes + HEADER_SIZE, MAX_INT64)
        self.rules[layout.MAX_BATCH_RECORDS] = min(max_content_bytes // MEMORY_BYTES_PER_RECORD, MAX_INT64)

    @classmethod
    def restore(cls, dialect: Dialect, saved_arrays: Mapping[str, Array]) -> FoldState:
        """Return a state with the saved arrays that `_make_fold_arrays` in saved.py has checked."""
        state = cls(dialect)
        state.set_arrays(saved_arrays)
        return state

    def fold_segment(self, data: Array, report: ReportPosition = ignore_position) -> bool:
        """Fold the bytes of a whole segment. Return False if the readable engine must load the log.

        `data` is a read-only array of uint8.
        """
        status, position = self._fold_piece(data, has_segment_end=True, report=report)
        self.zeros_start = position
        self.zeros_bytes = len(data) - position if status == OK else 0
        report(len(data))
        return status != HAND_OVER

    def fold_file(self, file: RawIOBase | BufferedIOBase, report: ReportPosition = ignore_position) -> bool:
        """Fold the file of a segment in pieces. Return False if the readable engine must load the log.

        All pieces use the same memory, so that this memory stays in the CPU's cache.
        """
        piece = np.empty(PIECE_BYTES, np.uint8)
        # How many bytes at the end of the previous piece were not folded. These bytes are now at the start of `piece`.
        kept_byte_count = 0
        read_byte_count = 0
        has_segment_end = False
        self.zeros_bytes = 0
        while not (has_segment_end or self.is_stopped):
            new_byte_count = file.readinto(piece[kept_byte_count:]) or 0
            read_byte_count += new_byte_count
            has_segment_end = not new_byte_count
            data = as_array(piece[: kept_byte_count + new_byte_count])
            status, position = self._fold_piece(data, has_segment_end=has_segment_end)
            if status == HAND_OVER:
                return False
            kept_byte_count = len(data) - position
            if status == OK and kept_byte_count:  # After these zeros, no other bytes may follow.
                later_zero_count, has_only_zeros = count_zeros(file)
                self.zeros_start = read_byte_count - kept_byte_count
                self.zeros_bytes = kept_byte_count + later_zero_count
                return has_only_zeros
            if kept_byte_count == len(piece):
                piece = np.empty(2 * kept_byte_count, np.uint8)
            piece[:kept_byte_count] = data[len(data) - kept_byte_count :]
            report(read_byte_count - kept_byte_count)
        return True

    def _fold_piece(
        self, data: Array, *, has_segment_end: bool, report: ReportPosition = ignore_position
    ) -> tuple[int, int]:
        """Fold the complete batches in a piece of a segment.

        Return a status (layout.py) and the position in `data` of the first byte that was not folded. `has_segment_end`
        is true if the piece contains the last bytes of the segment.
        """
        position = 0
        status = PAUSED
        while status in (NO_SPACE, COMPRESSED, PAUSED) and not self.is_stopped:
            status, position = fold.fold_batches(
                data,
                position,
                REPORT_BYTES,
                has_segment_end,
                self.as_tables(),
                self.record_positions,
                self.block,
                self.block_records,
            )
            other_positions = self.record_positions[: self.counts[layout.OTHER_RECORDS]]
            self.other_records.add(data, other_positions)
            if self._follower is not None and status != HAND_OVER:
                self._follower.follow(self, data, other_positions)
            self.counts[layout.OTHER_RECORDS] = 0
            if self.other_records.are_too_large:
                return HAND_OVER, position
            if status == NO_SPACE:
                batch_size = _read_int32(data, position + LENGTH_POSITION) + LOG_OVERHEAD
                self.grow(batch_size, _read_int32(data, position + layout.RECORD_COUNT_POSITION))
            elif status == COMPRESSED:
                uncompressed, position, disk_sizes = decompress_batches(data, position, self.max_batch_bytes)
                if uncompressed is None or not self._fold_run(uncompressed, disk_sizes):
                    return HAND_OVER, position
            report(position)
        self.is_stopped = self.is_stopped or status == STOPPED
        return status, position

    def _fold_run(self, uncompressed: Array, disk_sizes: list[int]) -> bool:
        """Fold batches that were decompressed. Return False if the readable engine must load the log.

        `disk_sizes` are the sizes of these batches on disk.
        """
        self.disk_sizes = np.array(disk_sizes, np.int64)
        self.counts[layout.RUN_START] = self.counts[layout.BATCHES]
        can_fold = self.fold_segment(uncompressed)
        self.disk_sizes = np.empty(0, np.int64)
        return can_fold

    def release_other_records(self) -> None:
        """Release the memory of the records that are not offset records, after they were replayed."""
        self.other_records = OtherRecords(self._max_group_version)

    def collect_committed(self) -> tuple[dict[str, FoldedOffsets], dict[str, int]]:
        """Return two mappings by group id: the committed offsets, and the offset of the newest value.

        The second mapping contains every group that has offset records. Its value is the Kafka offset of the group's
        newest offset record that is not a tombstone (-1: the group has only tombstones).
        """
        entry_count = int(self.counts[layout.ENTRIES])
        groups, group_of_name = self.make_groups()
        # At first, `ends` contains the start of each group. `sort_live_keys` then moves each start to the group's end.
        ends = np.cumsum(groups[:, LIVE_KEYS]) - groups[:, LIVE_KEYS]
        sorted_entries = np.empty(int(groups[:, LIVE_KEYS].sum()), np.int64)
        sort_live_keys(self.entries, entry_count, group_of_name, ends, sorted_entries)

        offsets = {}
        newest_value_offsets = {}
        for (reference, newest_value_offset, live_keys), end in zip(groups.tolist(), ends.tolist(), strict=True):
            group_id = decode_utf8(self.read_text(reference))
            newest_value_offsets[group_id] = newest_value_offset
            if live_keys:
                offsets[group_id] = FoldedOffsets(self, sorted_entries[end - live_keys : end])
        return offsets, newest_value_offsets

    def list_pending_nodes(self) -> Array:
        """Return the numbers of the nodes that are pending at the end of the log (fates.py)."""
        pending_nodes = np.empty(int(self.counts[layout.NODES]), np.int64)
        return pending_nodes[: list_pending_nodes(self.as_tables(), pending_nodes)]

    def list_group_ids(self) -> tuple[list[str], Array]:
        """Return the ids of the groups with offset records, and an array with the index of each name's group."""
        groups, group_of_name = self.make_groups()
        references = groups[:, layout.GROUP_TEXT].tolist()
        return [decode_utf8(self.read_text(reference)) for reference in references], group_of_name

    def decode_offsets(self, entry_numbers: Array) -> PartitionOffsets:
        """Return the committed offsets of the entries (rows of `self.entries`) with these numbers."""
        rows = self.entries[entry_numbers].tolist()
        extras = self.extras[entry_numbers].tolist()
        return {
            self._decode_key(row[layout.NAME_AND_PARTITION])[1]: self._decode_offset(row, extra)
            for row, extra in zip(rows, extras, strict=True)
        }

    def decode_pending(self) -> dict[int, dict[str, PartitionOffsets]]:
        """Return the pending commits, by producer id and then by group."""
        pending: dict[int, dict[str, PartitionOffsets]] = {}
        for row in self.list_producers().tolist():
            producer_id = row[layout.NUMBER]
            node = row[layout.FIRST_NODE]
            # The list begins with the newest commit. Only the newest commit of each key is pending.
            seen_entries = set()
            while node >= 0:
                columns = self.nodes[node].tolist()
                entry = columns[layout.ENTRY] if columns[layout.ENTRY] >= 0 else ~columns[layout.ENTRY]
                if entry not in seen_entries:
                    seen_entries.add(entry)
                    if not self._is_deleted(columns, entry):
                        group, partition = self._decode_key(int(self.entries[entry, layout.NAME_AND_PARTITION]))
                        offset = self._decode_offset(columns, self.node_extras[node].tolist())
                        pending.setdefault(producer_id, {}).setdefault(group, {})[partition] = offset
                node = columns[layout.NEXT_NODE]
        return pending

    def _is_deleted(self, node: list[int], entry: int) -> bool:
        """Return whether a node is a tombstone, or a pending commit that a tombstone has deleted.

        `node` is a row of `nodes`. `entry` is the number of the entry of the node's key.
        """
        if node[layout.ENTRY] < 0:
            return True
        return not self._is_classic and bool(node[layout.RECORD_OFFSET] < self.tombstones[entry])

    def _decode_key(self, key: int) -> tuple[str, TopicPartition]:
        """Return the group and the topic-partition of a key. `key` is a value of the column NAME_AND_PARTITION."""
        name_number = key >> layout.PARTITION_BITS
        partition = key & layout.PARTITION_MASK
        name = self._name_cache.get(name_number)
        if name is None:
            name_bytes = self._bytes_of_text(int(self.names[name_number, layout.NAME_TEXT]))
            group_end = 2 + int.from_bytes(name_bytes[:2], "big")
            name = (self._decode_text(name_bytes[2:group_end]), self._decode_text(name_bytes[group_end + 2 :]))
            self._name_cache[name_number] = name
        group, topic = name
        return group, TopicPartition(topic, _to_signed(partition, 32))

    def _decode_offset(self, row: list[int], extras: list[int]) -> OffsetAndMetadata:
        """Return the offset in an entry and its row of `extras`, or in a node and its row of `node_extras`."""
        flags = row[layout.EPOCH_AND_FLAGS]
        topic_id = None
        if flags & layout.HAS_TOPIC_ID:
            halves = extras[layout.TOPIC_ID_FIRST_HALF], extras[layout.TOPIC_ID_LAST_HALF]
            topic_id = uuid_text(b"".join(half.to_bytes(8, "little", signed=True) for half in halves))
        return OffsetAndMetadata(
            row[layout.COMMITTED_OFFSET],
            decode_utf8(self._bytes_of_text(row[layout.METADATA])) if row[layout.METADATA] else "",
            row[layout.COMMIT_TIME],
            _to_signed(flags & 0xFFFFFFFF, 32),  # The lower 32 bits are the leader epoch.
            extras[layout.EXPIRE_TIME] if flags & layout.HAS_EXPIRE else None,
            topic_id,
            row[layout.RECORD_OFFSET],
            # The new coordinator does not compare batches (groups/offsets.py).
            row[layout.BATCH_OFFSET] if self._is_classic else row[layout.RECORD_OFFSET],
        )

    def _bytes_of_text(self, text_reference: int) -> bytes:
        start = text_reference >> layout.SIZE_BITS
        return self._arena_bytes[start : start + (text_reference & layout.SIZE_MASK)]

    def _decode_text(self, data: bytes) -> str:
        """Return a group id or a topic name. Equal texts share one string, because each text occurs many times."""
        text = self._text_cache.get(data)
        if text is None:
            text = decode_utf8(data)
            self._text_cache[data] = text
        return text

    @cached_property
    def _arena_bytes(self) -> bytes:
        """A copy of the arena, made when this property is first read. Read it only after the last batch is folded."""
        return self.arena[: self.counts[layout.ARENA_BYTES]].tobytes()


def _read_int32(data: Array, position: int) -> int:
    """Return the big-endian number (int32) at a position."""
    return int.from_bytes(data[position : position + 4].tobytes(), "big")


def _to_signed(number: int, bits: int) -> int:
    """Return the signed number that has the same bits as an unsigned number of `bits` bits."""
    return number - (1 << bits) if number >> bits - 1 else number


def _find_last_offset_and_time(stop: Stop) -> tuple[int, int]:
    """Return the highest base offset and the highest timestamp (ms) before the stop, as int64."""
    last_offset = MAX_INT64
    last_time = MAX_INT64
    if stop.until_offset is not None:
        last_offset = _limit_to_int64(stop.until_offset - 1)
    if stop.until_time is not None:
        last_time = _limit_to_int64(stop.until_time)
        if stop.until_time < MIN_INT64:  # Every timestamp is after this time.
            last_offset = MIN_INT64
    return last_offset, last_time


def _limit_to_int64(number: int) -> int:
    """Return the int64 that is nearest to a number."""
    return max(MIN_INT64, min(number, MAX_INT64))
