"""The compiled cleaner: one pass of the log cleaner, or a log that it hands to the readable cleaner.

The result is byte for byte that of the readable cleaner (log/cleaner.py), which is the specification. A pass reads the
log three times in pieces: for the producers, for the offset map, and to filter the batches. If the log has a compressed
batch, a batch of magic 0 or 1, damage or an unusual layout, the readable cleaner cleans it from the beginning. Only a
piece and the arrays (clean_layout.py) are in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kafkagroups.kernels import clean_batches, clean_layout as columns
from kafkagroups.kernels.hash_table import copy_numbers
from kafkagroups.kernels.layout import HAND_OVER, IS_USED, NEEDS_MORE_BYTES, NO_SPACE, OK, STOPPED
from kafkagroups.kernels.md5 import create_block
from kafkagroups.kernels.secret import process_secret
from kafkagroups.kernels.unpack import as_array
from kafkagroups.log import cleaner
from kafkagroups.log.batch import NO_TIMESTAMP
from kafkagroups.log.cleaner import CleanerConfig, Compaction
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.log_to_clean import (
    LogToClean,
    Progress,
    Segment,
    choose_range,
    group_by_size,
    list_segments,
    pair_with_next_base,
    select_segments,
    sum_file_sizes,
)
from kafkagroups.log.record_batch import HEADER_SIZE
from kafkagroups.log.segment_file import ByteRange, open_segment
from kafkagroups.log.segments import Log

Array = np.ndarray[Any, Any]
PIECE_BYTES = 2 * 1024 * 1024
"""The number of bytes of a piece. A piece with a larger batch has more."""
INITIAL_PRODUCERS = 1024
INITIAL_ABORTED = 256
INITIAL_MAP_ROWS = 64 * 1024
"""How many rows the arrays have at first. The number of rows of a hash table is a power of 2."""
Step = Callable[[Array], tuple[int, int]]
"""A function that reads a piece. It returns a status, and the position of the next byte to read (clean_batches.py)."""


def clean(log: Log, out: Path, config: CleanerConfig, progress: Progress | None = None) -> Compaction:
    """Run one pass over a log, and write the cleaned log to the folder `out`.

    The parameters, the result and the errors are those of `clean` in log/cleaner.py.
    """
    return cleaner.run_in_folder(_run_pass, log, out, config, progress)


def clean_if_possible(
    log: Log, out: Path, config: CleanerConfig, progress: Progress | None = None
) -> Compaction | None:
    """Do the same as `clean`, or return None if the readable cleaner must clean the log."""
    return cleaner.run_in_folder(_run_compiled_pass, log, out, config, progress)


def _run_pass(log: Log, out: Path, config: CleanerConfig, report: Progress) -> Compaction:
    compaction = _run_compiled_pass(log, out, config, report)
    if compaction is None:
        return cleaner.run_pass(log, out, config, report)
    return compaction


def _run_compiled_pass(log: Log, out: Path, config: CleanerConfig, report: Progress) -> Compaction | None:
    """Run a pass with the kernels. Return None, with no file in `out`, if the readable cleaner must clean the log."""
    compiled_pass = CompiledPass(log, config, report)
    source = compiled_pass.read_log()
    if source is None or not compiled_pass.fill_map(source):
        return None
    next_dirty = compiled_pass.next_dirty
    to_clean = select_segments(source.segments, 0, next_dirty)
    groups = group_by_size(to_clean, config.segment_bytes, source.first_uncleanable)
    written = compiled_pass.filter_groups(source, groups, out)
    if written is None:
        cleaner.delete_files(out)
        return None
    written += [cleaner.copy_segment(segment, out) for segment in source.segments[len(to_clean) :]]
    return cleaner.describe_pass(source, next_dirty, groups, written, damage=None)


class CompiledPass:
    """One pass over a log: the arrays, and the three steps that read the log with kernels."""

    def __init__(self, log: Log, config: CleanerConfig, report: Progress) -> None:
        self._log = log
        self._config = config
        self._report = report
        self._piece = np.empty(PIECE_BYTES, np.uint8)
        self._numbers = np.zeros(columns.NUMBER_COUNT, np.int64)
        self._producers = np.zeros((INITIAL_PRODUCERS, columns.PRODUCER_COLUMNS), np.int64)
        self._aborted = np.zeros((INITIAL_ABORTED, columns.ABORTED_LAST_OFFSET + 1), np.int64)
        self._all_aborted = self._aborted
        self._map_rows = _create_table(INITIAL_MAP_ROWS, columns.MAP_HASH_END + 1)
        self._secret = process_secret()
        self._block, self._words = create_block()
        max_content_bytes = max(log.max_batch_bytes, MAX_BATCH_BYTES)
        self._numbers[columns.MAX_BATCH_SIZE] = max_content_bytes + HEADER_SIZE

    @property
    def next_dirty(self) -> int:
        """The offset after the last offset of the offset map."""
        return int(self._numbers[columns.MAP_LAST_OFFSET]) + 1

    def read_log(self) -> LogToClean | None:
        """Read the whole log, like `read_log` in log/log_to_clean.py. Return None if its layout is unusual."""
        numbers = self._numbers
        numbers[columns.NEWEST_TIME] = NO_TIMESTAMP
        numbers[columns.NEXT_OFFSET] = self._log.start_offset
        segments = list_segments(self._log)
        total_bytes = sum_file_sizes(self._log)
        read_bytes = 0
        for segment in segments:
            numbers[[columns.BATCHES, columns.RECORDS]] = 0
            report = self._make_report("read", read_bytes, total_bytes)
            file_size = os.path.getsize(segment.path)
            if self._read_segment(segment.path, file_size, self._read_piece, report) != OK:
                return None
            segment.size = file_size
            segment.batches = int(numbers[columns.BATCHES])
            segment.records = int(numbers[columns.RECORDS])
            read_bytes += file_size
        self._sort_aborted()
        log_end = max(int(numbers[columns.NEXT_OFFSET]), segments[-1].base_offset)
        first_offsets = self._producers[self._used_producers(), columns.TXN_FIRST_OFFSET]
        last_stable_offset = int(first_offsets[first_offsets >= 0].min(initial=log_end))
        return choose_range(
            self._log,
            segments,
            int(numbers[columns.NEWEST_TIME]),
            log_end,
            last_stable_offset,
            self._config.first_dirty,
            self._config.first_uncleanable,
        )

    def fill_map(self, source: LogToClean) -> bool:
        """Add the keys of the dirty part to the offset map. Return False if the layout of the log is unusual."""
        numbers = self._numbers
        numbers[columns.FIRST_DIRTY] = source.first_dirty
        numbers[columns.MAP_CAPACITY] = self._config.map_entries
        numbers[columns.MAP_LAST_OFFSET] = -1
        self._start_transactions(source.first_dirty)
        dirty_segments = select_segments(source.segments, source.first_dirty, source.first_uncleanable)
        total_bytes = sum(segment.size for segment in dirty_segments)
        read_bytes = 0
        for segment, next_base in pair_with_next_base(dirty_segments, source.first_uncleanable):
            report = self._make_report("map", read_bytes, total_bytes)
            status = self._read_segment(segment.path, segment.size, self._map_piece, report)
            if status == HAND_OVER:
                return False
            if status == STOPPED:
                break
            numbers[columns.MAP_LAST_OFFSET] = next_base - 1
            read_bytes += segment.size
        return True

    def filter_groups(self, source: LogToClean, groups: Sequence[Sequence[Segment]], out: Path) -> list[Segment] | None:
        """Clean each group into one segment in `out`. Return the new segments, or None if the layout is unusual."""
        now_ms = cleaner.find_pass_time(source, self._config)
        new_horizon = cleaner.find_new_horizon(now_ms, self._config)
        if new_horizon is not None and new_horizon > columns.MAX_TIME:
            return None
        numbers = self._numbers
        numbers[columns.NOW] = now_ms
        numbers[columns.HAS_NEW_HORIZON] = new_horizon is not None
        numbers[columns.NEW_HORIZON] = new_horizon or 0
        numbers[columns.FIRST_UNCLEANABLE] = source.first_uncleanable
        oldest_ms = cleaner.find_oldest_activity(now_ms, self._config)
        is_active = self._used_producers()
        if oldest_ms is not None:
            is_active &= self._producers[:, columns.LAST_TIMESTAMP] >= oldest_ms
        self._producers[:, columns.IS_ACTIVE] = is_active
        self._start_transactions(0)
        total_bytes = sum(segment.size for group in groups for segment in group)
        read_bytes = 0
        written = []
        for group in groups:
            target = self._filter_group(group, out, read_bytes, total_bytes)
            if target is None:
                return None
            written.append(target)
            read_bytes += sum(segment.size for segment in group)
        return written

    def _filter_group(self, group: Sequence[Segment], out: Path, read_bytes: int, total_bytes: int) -> Segment | None:
        """Clean a group of segments into one segment. Return None if the layout is unusual.

        `read_bytes` and `total_bytes` are the bytes of the earlier groups and of all groups, for the report.
        """
        target = cleaner.create_target(group, out)
        self._numbers[[columns.BATCHES, columns.RECORDS]] = 0
        content = np.empty(0, np.uint8)
        is_kept = np.empty(0, np.bool_)
        with open(target.path, "wb") as file:

            def filter_piece(data: Array) -> tuple[int, int]:
                nonlocal content, is_kept
                if len(content) < clean_batches.GROWTH * len(data):
                    content = np.empty(clean_batches.GROWTH * len(data), np.uint8)
                    is_kept = np.empty(len(data), np.bool_)
                arrays = self._make_pass()
                status, position, size = clean_batches.filter_batches(data, 0, arrays, is_kept, content)
                file.write(memoryview(content)[:size])
                target.size += size
                return status, position

            for segment in group:
                report = self._make_report("clean", read_bytes, total_bytes)
                if self._read_segment(segment.path, segment.size, filter_piece, report) != OK:
                    return None
                read_bytes += segment.size
        target.batches = int(self._numbers[columns.BATCHES])
        target.records = int(self._numbers[columns.RECORDS])
        os.utime(target.path, ns=(target.modified_ns, target.modified_ns))
        return target

    def _read_segment(self, path: str, size: int, step: Step, report: Callable[[int], None]) -> int:
        """Read the first `size` bytes of a segment in pieces, and call `step` with each piece.

        Return OK, STOPPED or HAND_OVER. `report` is called with the number of bytes of this segment that were read.
        """
        kept_byte_count = 0
        read_byte_count = 0
        with open_segment(path, byte_range=ByteRange(0, size)) as file:
            while True:
                new_byte_count = file.readinto(memoryview(self._piece)[kept_byte_count:]) or 0
                read_byte_count += new_byte_count
                data = as_array(self._piece[: kept_byte_count + new_byte_count])
                status, position = step(data)
                if status != NEEDS_MORE_BYTES:
                    return status
                kept_byte_count = len(data) - position
                if not new_byte_count:
                    is_complete = kept_byte_count == 0 and read_byte_count == size
                    return OK if is_complete else HAND_OVER
                if kept_byte_count == len(self._piece):
                    self._piece = np.empty(2 * kept_byte_count, np.uint8)
                self._piece[:kept_byte_count] = data[position:]
                report(read_byte_count - kept_byte_count)

    def _read_piece(self, data: Array) -> tuple[int, int]:
        status, position = clean_batches.read_batches(data, 0, self._make_pass())
        while status == NO_SPACE:
            if 2 * self._numbers[columns.PRODUCER_COUNT] >= len(self._producers):
                larger = np.zeros((2 * len(self._producers), columns.PRODUCER_COLUMNS), np.int64)
                copy_numbers(self._producers, larger, self._secret)
                self._producers = larger
            else:
                self._aborted = np.concatenate([self._aborted, np.zeros_like(self._aborted)])
            status, position = clean_batches.read_batches(data, position, self._make_pass())
        return status, position

    def _map_piece(self, data: Array) -> tuple[int, int]:
        status, position = clean_batches.add_keys(data, 0, self._make_pass())
        while status == NO_SPACE:
            larger = _create_table(2 * len(self._map_rows), self._map_rows.shape[1])
            clean_batches.copy_map(self._map_rows, larger, self._secret)
            self._map_rows = larger
            status, position = clean_batches.add_keys(data, position, self._make_pass())
        return status, position

    def _make_pass(self) -> columns.Pass:
        return columns.Pass(
            self._numbers, self._producers, self._aborted, self._map_rows, self._secret, self._block, self._words
        )

    def _make_report(self, step: str, read_bytes: int, total_bytes: int) -> Callable[[int], None]:
        """Return a function that reports the progress in a segment. `read_bytes` are those of earlier segments."""
        return lambda position: self._report(step, read_bytes + position, total_bytes)

    def _used_producers(self) -> Array:
        """Return a bool for each row of the producers: whether the row is used."""
        return np.asarray(self._producers[:, IS_USED] != 0)

    def _sort_aborted(self) -> None:
        """Sort the aborted transactions by their first offsets. The order of equal offsets does not change."""
        rows = self._aborted[: self._numbers[columns.ABORTED_COUNT]]
        self._all_aborted = rows[np.argsort(rows[:, columns.ABORTED_FIRST_OFFSET], kind="stable")]

    def _start_transactions(self, first_offset: int) -> None:
        """Begin a step at the start of the log. The step uses the aborted transactions that end at `first_offset` or
        later.
        """
        self._producers[:, [columns.ABORTED_STATE, columns.HAS_COMMITTED_DATA]] = 0
        is_used = self._all_aborted[:, columns.ABORTED_LAST_OFFSET] >= first_offset
        self._aborted = self._all_aborted[is_used]
        self._numbers[columns.ABORTED_COUNT] = len(self._aborted)
        self._numbers[columns.NEXT_ABORTED] = 0


def _create_table(row_count: int, column_count: int) -> Array:
    """Return a hash table without rows. Its first column says which rows are used: -1 means a free row."""
    table = np.zeros((row_count, column_count), np.int64)
    table[:, 0] = -1
    return table
