"""Kernels that read the records of a log into columns, and copy texts of the records.

A column is a row of the array `columns`, so that the values of one column are next to each other in memory. The
constants below are the numbers of the columns.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.intrinsics import copy_bytes
from kafkagroups.kernels.layout import (
    BASE_TIMESTAMP_POSITION,
    HAND_OVER,
    HAS_BATCH,
    MAX_TIMESTAMP_POSITION,
    NO_SPACE,
    PAUSED,
    PRODUCER_ID_POSITION,
    RECORD_COUNT_POSITION,
)
from kafkagroups.kernels.next_batch import find_next_batch
from kafkagroups.kernels.scan import (
    find_record_parts,
    group_and_topic_size,
    load_int16,
    load_int32,
    load_int64,
    read_varint,
)
from kafkagroups.log.batch import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from kafkagroups.log.record_batch import ATTRIBUTES_POSITION, HEADER_SIZE

(
    OFFSET,
    TIMESTAMP,
    BATCH_OFFSET,
    PRODUCER_ID,
    PRODUCER_EPOCH,
    IS_TRANSACTIONAL,
    CONTROL_TYPE,
    TYPE,
    KEY_START,
    KEY_SIZE,
    VALUE_START,
    VALUE_SIZE,
    GROUP_START,
    GROUP_SIZE,
    TOPIC_START,
    TOPIC_SIZE,
    TOPIC_PARTITION,
    VALUE_VERSION,
    COMMITTED_OFFSET,
    MEMBER_START,
    MEMBER_SIZE,
) = range(21)
"""The columns.

OFFSET, BATCH_OFFSET: the Kafka offset of the record, and the base offset of its batch. TIMESTAMP: in ms. TYPE: the
record type; NO_TYPE for a control record. CONTROL_TYPE: the type of a control record; 0 for other records. The columns
…_START are positions in the bytes of the segment, and …_SIZE are sizes in bytes; -1 means null. A start below 0 is `~p`
for the position p in the texts that the caller adds. VALUE_VERSION: -1 means null. COMMITTED_OFFSET: the offset in the
value of an offset record. The kernel leaves GROUP_SIZE, VALUE_VERSION and MEMBER_SIZE at -1 for records that are
neither offset records nor control records.
"""
COLUMN_COUNT = 21
NO_TYPE = 1 << 20
PRODUCER_EPOCH_POSITION = 51
"""The position of the producer epoch in the header of a batch."""


@kernel
def read_records(data: Any, start: int, batches_left: Any, max_bytes: int, columns: Any) -> tuple[int, int, int]:
    """Fill `columns` with the records of the next batches.

    Return a status, the position of the next byte to read, and the number of records. The statuses are those of `scan`
    in second_reading.py. The kernel stops after a batch if the keys and values have `max_bytes` bytes or more.

    `data` contains bytes of a segment that the compiled engine has loaded without an error, and `start` is where the
    kernel begins. `batches_left[0]` is how many batches may still be read.
    """
    position = start
    row = 0
    byte_count = 0
    while True:
        status, batch_end = find_next_batch(data, position, batches_left[0])
        if status != HAS_BATCH:
            return status, position, row
        attributes = load_int16(data, position + ATTRIBUTES_POSITION)
        record_count = load_int32(data, position + RECORD_COUNT_POSITION)
        if byte_count >= max_bytes or row + record_count > columns.shape[1]:
            return PAUSED if row else NO_SPACE, position, row
        base_offset = load_int64(data, position)
        record_start = position + HEADER_SIZE
        for _ in range(record_count):
            _, delta_position = read_varint(data, record_start, batch_end, 5)
            # Skip the attributes (one byte).
            timestamp_delta, _ = read_varint(data, delta_position + 1, batch_end, 10)
            record_start, offset_delta, key_start, key_size, value_start, value_size = find_record_parts(
                data, record_start, batch_end
            )
            # The load has checked all sizes. The kernel checks them again, because the file can have changed since.
            if record_start < 0 or not _has_usual_layout(data, attributes, key_start, key_size, value_size):
                return HAND_OVER, position, row
            columns[OFFSET, row] = base_offset + offset_delta
            columns[TIMESTAMP, row] = load_int64(data, position + BASE_TIMESTAMP_POSITION) + timestamp_delta
            if attributes & LOG_APPEND_TIME:
                columns[TIMESTAMP, row] = load_int64(data, position + MAX_TIMESTAMP_POSITION)
            columns[BATCH_OFFSET, row] = base_offset
            columns[PRODUCER_ID, row] = load_int64(data, position + PRODUCER_ID_POSITION)
            columns[PRODUCER_EPOCH, row] = load_int16(data, position + PRODUCER_EPOCH_POSITION)
            columns[IS_TRANSACTIONAL, row] = (attributes & TRANSACTIONAL) != 0
            columns[KEY_START, row] = key_start
            columns[KEY_SIZE, row] = key_size
            columns[VALUE_START, row] = value_start
            columns[VALUE_SIZE, row] = value_size
            columns[CONTROL_TYPE, row] = load_int16(data, key_start + 2) if attributes & CONTROL else 0
            columns[TYPE, row] = NO_TYPE if attributes & CONTROL else load_int16(data, key_start)
            _read_content(data, row, columns)
            byte_count += max(key_size, 0) + max(value_size, 0)
            row += 1
        batches_left[0] -= 1
        position = batch_end


@kernel
def _has_usual_layout(data: Any, attributes: int, key_start: int, key_size: int, value_size: int) -> bool:
    """Return whether the key and the value of a record are long enough for the fields that the kernels read."""
    if attributes & CONTROL:
        return key_size >= 4
    if key_size < 2:
        return False
    record_type = load_int16(data, key_start)
    if record_type != 0 and record_type != 1:
        return value_size < 0 or value_size >= 2
    has_value = value_size < 0 or value_size >= 10
    return has_value and group_and_topic_size(data, key_start, key_size) >= 0


@kernel
def _read_content(data: Any, row: int, columns: Any) -> None:
    """Fill the columns from GROUP_START to MEMBER_SIZE of an offset record. For other records, they become null."""
    for column in range(GROUP_START, COLUMN_COUNT):
        columns[column, row] = -1
    if columns[TYPE, row] != 0 and columns[TYPE, row] != 1:
        return
    position = columns[KEY_START, row] + 2
    columns[GROUP_START, row] = position + 2
    columns[GROUP_SIZE, row] = load_int16(data, position)
    position += 2 + columns[GROUP_SIZE, row]
    columns[TOPIC_START, row] = position + 2
    columns[TOPIC_SIZE, row] = load_int16(data, position)
    position += 2 + columns[TOPIC_SIZE, row]
    columns[TOPIC_PARTITION, row] = load_int32(data, position)
    if columns[VALUE_SIZE, row] >= 0:
        columns[VALUE_VERSION, row] = load_int16(data, columns[VALUE_START, row])
        columns[COMMITTED_OFFSET, row] = load_int64(data, columns[VALUE_START, row] + 2)


@kernel
def copy_texts(data: Any, added_texts: Any, starts: Any, sizes: Any, content: Any) -> None:
    """Copy texts to `content`, one after another. A start below 0 is `~p` for the position p in `added_texts`."""
    end = 0
    for row in range(len(starts)):
        size = max(sizes[row], 0)
        if starts[row] >= 0:
            copy_bytes(data, starts[row], content, end, size)
        else:
            copy_bytes(added_texts, ~starts[row], content, end, size)
        end += size
