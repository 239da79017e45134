"""Kernels of the three steps of a cleaner pass: read the log, fill the offset map, filter the batches.

They have the rules of the readable cleaner (log/cleaner.py). Each kernel reads a piece of a segment, batch by batch,
and returns a status (layout.py) and the position of the next byte to read:

- NEEDS_MORE_BYTES: the piece ends inside the next batch, or after a batch. Every piece ends with this status.
- NO_SPACE: an array must grow first.
- STOPPED: the offset map is full.
- HAND_OVER: the readable cleaner must clean this log.

clean_layout.py describes the arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.clean_layout import (
    ABORTED_COUNT,
    BASE_TIMESTAMP_POSITION,
    BATCHES,
    EPOCH,
    FIRST_DIRTY,
    FIRST_UNCLEANABLE,
    HAS_NEW_HORIZON,
    INCOMPLETE,
    IS_ACTIVE,
    LAST_DATA_OFFSET,
    MAP_CAPACITY,
    MAP_COUNT,
    MAP_HASH_END,
    MAP_HASH_START,
    MAP_LAST_OFFSET,
    MAP_OFFSET,
    MAX_BATCH_SIZE,
    MAX_TIME,
    MIN_RECORD_BYTES,
    NEW_HORIZON,
    NEWEST_TIME,
    NEXT_OFFSET,
    NOW,
    PRODUCER_COUNT,
    RECORDS,
    UNUSUAL,
    check_batch,
    read_record,
)
from kafkagroups.kernels.clean_transactions import PRODUCER_EPOCH_POSITION, add_batch, check_next_batch
from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.crc32c import crc32c
from kafkagroups.kernels.hash_table import find_number
from kafkagroups.kernels.intrinsics import copy_bytes
from kafkagroups.kernels.layout import (
    HAND_OVER,
    LAST_OFFSET_DELTA_POSITION,
    MAX_TIMESTAMP_POSITION,
    NEEDS_MORE_BYTES,
    NO_SPACE,
    PRODUCER_ID_POSITION,
    RECORD_COUNT_POSITION,
    STOPPED,
)
from kafkagroups.kernels.md5 import md5
from kafkagroups.kernels.scan import hash_number, load_int16, load_int32, load_int64, read_varint
from kafkagroups.log.batch import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, NO_TIMESTAMP, TRANSACTIONAL
from kafkagroups.log.frames import LENGTH_POSITION, LOG_OVERHEAD
from kafkagroups.log.record_batch import ATTRIBUTES_POSITION, CRC_FROM, CRC_POSITION, HEADER_SIZE

GROWTH = 3
"""A rewritten batch has at most this number of times as many bytes as before. A record of MIN_RECORD_BYTES can grow by
13 bytes: its timestamp by 9, and its length by 4."""


@kernel
def read_batches(data: Any, start: int, arrays: Any) -> tuple[int, int]:
    """Read a piece of the log: count its batches and records, and add its batches to the states of the producers."""
    numbers = arrays.numbers
    position = start
    while True:
        size = check_batch(data, position, numbers[MAX_BATCH_SIZE])
        if size == INCOMPLETE:
            return NEEDS_MORE_BYTES, position
        if size == UNUSUAL:
            return HAND_OVER, position
        is_full = 2 * numbers[PRODUCER_COUNT] >= len(arrays.producers)
        if is_full or numbers[ABORTED_COUNT] >= len(arrays.aborted):
            return NO_SPACE, position
        if not add_batch(data, position, size, arrays):
            return HAND_OVER, position
        numbers[BATCHES] += 1
        numbers[RECORDS] += load_int32(data, position + RECORD_COUNT_POSITION)
        numbers[NEWEST_TIME] = max(numbers[NEWEST_TIME], load_int64(data, position + MAX_TIMESTAMP_POSITION))
        numbers[NEXT_OFFSET] = load_int64(data, position) + load_int32(data, position + LAST_OFFSET_DELTA_POSITION) + 1
        position += size


@kernel
def add_keys(data: Any, start: int, arrays: Any) -> tuple[int, int]:
    """Add the keys of a piece of the dirty part to the offset map, like `fill_map` in log/offset_map.py."""
    numbers = arrays.numbers
    position = start
    while True:
        size = check_batch(data, position, numbers[MAX_BATCH_SIZE])
        if size == INCOMPLETE:
            return NEEDS_MORE_BYTES, position
        if size == UNUSUAL:
            return HAND_OVER, position
        record_count = load_int32(data, position + RECORD_COUNT_POSITION)
        most_records = min(record_count, (size - HEADER_SIZE) // MIN_RECORD_BYTES)
        if 2 * (numbers[MAP_COUNT] + most_records) >= len(arrays.map_rows):
            return NO_SPACE, position
        is_discardable = check_next_batch(data, position, size, arrays)
        if is_discardable == UNUSUAL:
            return HAND_OVER, position
        if not is_discardable and not load_int16(data, position + ATTRIBUTES_POSITION) & CONTROL:
            status = _add_keys_of_batch(data, position, size, record_count, arrays)
            if status != NEEDS_MORE_BYTES:
                return status, position
        last_offset = load_int64(data, position) + load_int32(data, position + LAST_OFFSET_DELTA_POSITION)
        if last_offset >= numbers[FIRST_DIRTY]:
            numbers[MAP_LAST_OFFSET] = last_offset
        position += size


@kernel
def _add_keys_of_batch(data: Any, position: int, size: int, record_count: int, arrays: Any) -> int:
    """Add the keys of a batch to the offset map. Return NEEDS_MORE_BYTES, STOPPED or HAND_OVER."""
    numbers = arrays.numbers
    map_rows = arrays.map_rows
    end = position + size
    base_offset = load_int64(data, position)
    record_start = position + HEADER_SIZE
    is_full = False
    for _ in range(record_count):
        record_start, delta, key_start, key_size, _, _ = read_record(data, record_start, end)
        offset = base_offset + delta
        if record_start < 0 or offset < 0:
            return HAND_OVER
        if is_full or key_size < 0 or offset < numbers[FIRST_DIRTY]:
            continue
        if numbers[MAP_COUNT] >= numbers[MAP_CAPACITY]:
            is_full = True  # The other records must be valid, too.
            continue
        hash_start, hash_end = md5(data, key_start, key_size, arrays.block, arrays.words)
        row = find_map_row(hash_start, hash_end, map_rows, arrays.secret)
        if map_rows[row, MAP_OFFSET] < 0:
            numbers[MAP_COUNT] += 1
            map_rows[row, MAP_HASH_START] = hash_start
            map_rows[row, MAP_HASH_END] = hash_end
        map_rows[row, MAP_OFFSET] = offset
        numbers[MAP_LAST_OFFSET] = offset
    if record_count and record_start != end:
        return HAND_OVER
    return STOPPED if is_full else NEEDS_MORE_BYTES


@kernel
def read_timestamp_delta(data: Any, record_start: int, end: int) -> int:
    """Return the timestamp delta of the record at a position. `end` is the position after its batch."""
    _, position = read_varint(data, record_start, end, 5)
    timestamp_delta, _ = read_varint(data, position + 1, end, 10)
    return timestamp_delta


@kernel
def find_map_row(hash_start: int, hash_end: int, map_rows: Any, secret: Any) -> int:
    """Return the row of a key in the offset map, or the free row where it belongs. The map must have a free row."""
    mask = len(map_rows) - 1
    row = hash_number(np.uint64(hash_start), secret) & mask
    while map_rows[row, MAP_OFFSET] >= 0:
        if map_rows[row, MAP_HASH_START] == hash_start and map_rows[row, MAP_HASH_END] == hash_end:
            break
        row = row + 1 & mask
    return row


@kernel
def copy_map(map_rows: Any, larger: Any, secret: Any) -> None:
    """Copy the rows of the offset map into `larger`, a map without keys."""
    for row in range(len(map_rows)):
        if map_rows[row, MAP_OFFSET] >= 0:
            new_row = find_map_row(map_rows[row, MAP_HASH_START], map_rows[row, MAP_HASH_END], larger, secret)
            for column in range(map_rows.shape[1]):
                larger[new_row, column] = map_rows[row, column]


@kernel
def filter_batches(data: Any, start: int, arrays: Any, is_kept: Any, out: Any) -> tuple[int, int, int]:
    """Filter a piece of the log, and write the batches that stay to `out`, like `filter_batch` in log/record_filter.py.

    Return a status, the position of the next byte to read, and the number of bytes in `out`. `is_kept` is working
    memory, with one byte for each record of a batch. NO_SPACE means that `out` has no space for the next batch.
    """
    numbers = arrays.numbers
    position = start
    out_end = 0
    while True:
        size = check_batch(data, position, numbers[MAX_BATCH_SIZE])
        if size == INCOMPLETE:
            return NEEDS_MORE_BYTES, position, out_end
        if size == UNUSUAL:
            return HAND_OVER, position, out_end
        if GROWTH * size > len(out) - out_end or size // MIN_RECORD_BYTES > len(is_kept):
            return NO_SPACE, position, out_end
        is_discardable = check_next_batch(data, position, size, arrays)
        if is_discardable == UNUSUAL:
            return HAND_OVER, position, out_end
        written_bytes, record_count = _filter_batch(data, position, size, is_discardable, arrays, is_kept, out, out_end)
        if written_bytes < 0:
            return HAND_OVER, position, out_end
        out_end += written_bytes
        numbers[BATCHES] += written_bytes > 0
        numbers[RECORDS] += record_count
        position += size


@kernel
def _filter_batch(
    data: Any, position: int, size: int, is_discardable: int, arrays: Any, is_kept: Any, out: Any, out_start: int
) -> tuple[int, int]:
    """Write a batch to `out` if it stays. Return the number of written bytes, and of the records in the new batch.

    The number of bytes is 0 if the batch is removed, and UNUSUAL if its records are unusual.
    """
    numbers = arrays.numbers
    attributes = load_int16(data, position + ATTRIBUTES_POSITION)
    record_count = np.int64(load_int32(data, position + RECORD_COUNT_POSITION))
    horizon = load_int64(data, position + BASE_TIMESTAMP_POSITION)
    has_horizon = attributes & DELETE_HORIZON != 0
    is_past_horizon = has_horizon and horizon <= numbers[NOW]
    is_control = attributes & CONTROL != 0
    kept_count = np.int64(0)
    keeps_tombstone = False
    if not is_discardable or (is_control and not is_past_horizon):
        kept_count, keeps_tombstone = _select_records(
            data, position, size, record_count, is_control, is_past_horizon, arrays, is_kept
        )
        if kept_count == UNUSUAL:
            return UNUSUAL, 0
    if kept_count == 0:
        if not _is_kept_when_empty(data, position, arrays):
            return 0, 0
        return _write_empty_batch(data, position, attributes, out, out_start), 0
    if not has_horizon and (is_discardable or keeps_tombstone):
        has_horizon = numbers[HAS_NEW_HORIZON] != 0
        horizon = numbers[NEW_HORIZON]
    elif kept_count == record_count:
        copy_bytes(data, position, out, out_start, size)
        return size, record_count
    attributes &= LOG_APPEND_TIME | TRANSACTIONAL | CONTROL
    if has_horizon:
        attributes |= DELETE_HORIZON
    written_bytes = _rewrite_batch(data, position, size, attributes, horizon, record_count, is_kept, out, out_start)
    return written_bytes, kept_count


@kernel
def _select_records(
    data: Any,
    position: int,
    size: int,
    record_count: int,
    is_control: bool,
    is_past_horizon: bool,
    arrays: Any,
    is_kept: Any,
) -> tuple[int, bool]:
    """Set `is_kept` for each record of a batch. Return how many records stay, and whether one of them is a tombstone.

    The number of records is UNUSUAL if the layout of a record is unusual. The rules are those of `_is_kept` in
    log/record_filter.py.
    """
    end = position + size
    last_offset = arrays.numbers[MAP_LAST_OFFSET]
    base_offset = load_int64(data, position)
    kept_count = np.int64(0)
    keeps_tombstone = False
    record_start = position + HEADER_SIZE
    for number in range(record_count):
        record_start, delta, key_start, key_size, _, value_size = read_record(data, record_start, end)
        offset = base_offset + delta
        if record_start < 0 or offset < 0:
            return UNUSUAL, False
        stays = is_control or offset > last_offset
        if not stays and key_size >= 0 and not (value_size < 0 and is_past_horizon):
            hash_start, hash_end = md5(data, key_start, key_size, arrays.block, arrays.words)
            row = find_map_row(hash_start, hash_end, arrays.map_rows, arrays.secret)
            stays = offset >= arrays.map_rows[row, MAP_OFFSET]
        is_kept[number] = stays
        if stays:
            kept_count += 1
            keeps_tombstone = keeps_tombstone or value_size < 0
    if record_count and record_start != end:
        return UNUSUAL, False
    return kept_count, keeps_tombstone


@kernel
def _is_kept_when_empty(data: Any, position: int, arrays: Any) -> bool:
    """Return whether a batch stays although it loses all its records, like the function in log/record_filter.py."""
    last_offset = load_int64(data, position) + load_int32(data, position + LAST_OFFSET_DELTA_POSITION)
    producers = arrays.producers
    row = find_number(load_int64(data, position + PRODUCER_ID_POSITION), producers, arrays.secret)
    is_needed = False
    if producers[row, IS_ACTIVE]:  # A free row is not active.
        if producers[row, LAST_DATA_OFFSET] < 0:
            is_control = load_int16(data, position + ATTRIBUTES_POSITION) & CONTROL != 0
            has_epoch = load_int16(data, position + PRODUCER_EPOCH_POSITION) == producers[row, EPOCH]
            is_needed = is_control and has_epoch
        else:
            is_needed = last_offset == producers[row, LAST_DATA_OFFSET]
    return is_needed or last_offset + 1 == arrays.numbers[FIRST_UNCLEANABLE]


@kernel
def _write_empty_batch(data: Any, position: int, attributes: int, out: Any, out_start: int) -> int:
    """Write the batch of `data` without records. Return the number of written bytes."""
    copy_bytes(data, position, out, out_start, HEADER_SIZE)
    kept_attributes = attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    newest_time = load_int64(data, position + MAX_TIMESTAMP_POSITION)
    _write_header(out, out_start, HEADER_SIZE, kept_attributes, NO_TIMESTAMP, newest_time, 0)
    return HEADER_SIZE


@kernel
def _rewrite_batch(
    data: Any,
    position: int,
    size: int,
    attributes: int,
    horizon: int,
    record_count: int,
    is_kept: Any,
    out: Any,
    out_start: int,
) -> int:
    """Write the batch with the records that stay. Return the number of written bytes; UNUSUAL for extreme timestamps.

    `attributes` are the attributes of the new batch. If they have a delete horizon, its time is `horizon`.
    """
    end = position + size
    old_base_time = load_int64(data, position + BASE_TIMESTAMP_POSITION)
    append_time = load_int64(data, position + MAX_TIMESTAMP_POSITION)
    base_time = horizon
    newest_time = -2 * MAX_TIME
    has_base_time = attributes & DELETE_HORIZON != 0
    kept_count = 0
    copy_bytes(data, position, out, out_start, HEADER_SIZE)
    out_end = out_start + HEADER_SIZE
    next_start = position + HEADER_SIZE
    for number in range(record_count):
        timestamp_delta = read_timestamp_delta(data, next_start, end)
        time = old_base_time + timestamp_delta
        next_start, delta, key_start, key_size, value_start, value_size = read_record(data, next_start, end)
        if not is_kept[number]:
            continue
        if timestamp_delta < -MAX_TIME or timestamp_delta > MAX_TIME:
            return UNUSUAL
        if attributes & LOG_APPEND_TIME:
            time = append_time
        if not has_base_time:
            base_time = time
            has_base_time = True
        newest_time = max(newest_time, time)
        kept_count += 1
        # The record has one byte of attributes, and no headers, whose count needs one byte.
        body_size = 2 + _varint_size(time - base_time) + _varint_size(delta)
        body_size += _varint_size(key_size) + max(key_size, 0) + _varint_size(value_size) + max(value_size, 0)
        out_end = _write_varint(out, out_end, body_size)
        out[out_end] = 0
        out_end = _write_varint(out, out_end + 1, time - base_time)
        out_end = _write_varint(out, out_end, delta)
        out_end = _write_bytes(data, key_start, key_size, out, out_end)
        out_end = _write_bytes(data, value_start, value_size, out, out_end)
        out[out_end] = 0
        out_end += 1
    _write_header(out, out_start, out_end - out_start, attributes, base_time, newest_time, kept_count)
    return out_end - out_start


@kernel
def _write_header(
    out: Any, start: int, size: int, attributes: int, base_time: int, newest_time: int, record_count: int
) -> None:
    """Write the fields of a batch's header that a cleaner changes. The other fields and the records are written."""
    _write_number(out, start + LENGTH_POSITION, size - LOG_OVERHEAD, 4)
    _write_number(out, start + ATTRIBUTES_POSITION, attributes, 2)
    _write_number(out, start + BASE_TIMESTAMP_POSITION, base_time, 8)
    _write_number(out, start + MAX_TIMESTAMP_POSITION, newest_time, 8)
    _write_number(out, start + RECORD_COUNT_POSITION, record_count, 4)
    _write_number(out, start + CRC_POSITION, crc32c(out, start + CRC_FROM, start + size), 4)


@kernel
def _write_number(out: Any, start: int, number: int, byte_count: int) -> None:
    """Write a big-endian number of `byte_count` bytes."""
    for step in range(byte_count):
        out[start + step] = number >> 8 * (byte_count - 1 - step) & 0xFF


@kernel
def _write_bytes(data: Any, start: int, size: int, out: Any, out_start: int) -> int:
    """Write a key or a value with its size. A size of -1 means null. Return the position after it."""
    end = _write_varint(out, out_start, size)
    copy_bytes(data, start, out, end, max(size, 0))
    return end + max(size, 0)


@kernel
def _write_varint(out: Any, start: int, number: int) -> int:
    """Write a number as a varint or varlong. Return the position after it."""
    zigzag = np.uint64(number << 1 ^ number >> 63)
    position = start
    while zigzag > np.uint64(0x7F):
        out[position] = zigzag & np.uint64(0x7F) | np.uint64(0x80)
        zigzag >>= np.uint64(7)
        position += 1
    out[position] = zigzag
    return position + 1


@kernel
def _varint_size(number: int) -> int:
    """Return the number of bytes of a number as a varint or varlong."""
    zigzag = np.uint64(number << 1 ^ number >> 63)
    size = 1
    while zigzag > np.uint64(0x7F):
        zigzag >>= np.uint64(7)
        size += 1
    return size
