"""Kernels that follow the transactions of a cleaner pass, batch by batch. They have the rules of two readable modules:
log/producer_state.py and log/cleaned_transactions.py. clean_layout.py describes the arrays.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.clean_layout import (
    ABORTED_COUNT,
    ABORTED_FIRST_OFFSET,
    ABORTED_LAST_OFFSET,
    ABORTED_PRODUCER,
    ABORTED_STATE,
    ABORTED_WITH_DATA,
    ABORTED_WITHOUT_DATA,
    EPOCH,
    HAS_COMMITTED_DATA,
    LAST_DATA_OFFSET,
    LAST_TIMESTAMP,
    NEXT_ABORTED,
    NOT_ABORTED,
    PRODUCER_COUNT,
    TXN_FIRST_OFFSET,
    UNUSUAL,
    read_record,
)
from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.hash_table import find_number
from kafkagroups.kernels.layout import (
    ABORT,
    COMMIT,
    IS_USED,
    LAST_OFFSET_DELTA_POSITION,
    MAX_TIMESTAMP_POSITION,
    NUMBER,
    PRODUCER_ID_POSITION,
    RECORD_COUNT_POSITION,
)
from kafkagroups.kernels.scan import load_int16, load_int32, load_int64
from kafkagroups.log.batch import CONTROL, NO_PRODUCER_ID, TRANSACTIONAL
from kafkagroups.log.record_batch import ATTRIBUTES_POSITION, HEADER_SIZE

PRODUCER_EPOCH_POSITION = 51
"""The position of the producer epoch in a batch."""
NO_MARKER = -1
"""The result of `read_marker_type` for a batch without records: an earlier pass has removed the marker."""


@kernel
def read_marker_type(data: Any, position: int, size: int) -> int:
    """Return the type of the marker in a control batch: COMMIT, ABORT, NO_MARKER, or UNUSUAL.

    UNUSUAL means that the readable cleaner must read the batch: its records or its key have an unusual layout, or its
    record is no marker.
    """
    record_count = load_int32(data, position + RECORD_COUNT_POSITION)
    if record_count == 0:
        return NO_MARKER
    end = position + size
    marker_type = UNUSUAL
    record_start = position + HEADER_SIZE
    for number in range(record_count):
        record_start, _, key_start, key_size, _, _ = read_record(data, record_start, end)
        if record_start < 0:
            return UNUSUAL
        if number == 0:
            if key_size < 4 or load_int16(data, key_start) < 0:
                return UNUSUAL
            marker_type = load_int16(data, key_start + 2)
    is_usual = record_start == end and marker_type in (COMMIT, ABORT)
    return marker_type if is_usual else UNUSUAL


@kernel
def add_batch(data: Any, position: int, size: int, arrays: Any) -> bool:
    """Add a batch to the states of the producers, like `add_batch` in log/producer_state.py.

    Return whether the batch is usual. `producers` and `aborted` must have a free row.
    """
    attributes = load_int16(data, position + ATTRIBUTES_POSITION)
    marker_type = NO_MARKER
    if attributes & CONTROL:
        marker_type = read_marker_type(data, position, size)
        if marker_type == UNUSUAL:
            return False
    producer_id = load_int64(data, position + PRODUCER_ID_POSITION)
    if producer_id == NO_PRODUCER_ID:
        return True
    numbers = arrays.numbers
    producers = arrays.producers
    base_offset = load_int64(data, position)
    last_offset = base_offset + load_int32(data, position + LAST_OFFSET_DELTA_POSITION)
    epoch = load_int16(data, position + PRODUCER_EPOCH_POSITION)
    row = find_number(producer_id, producers, arrays.secret)
    if not producers[row, IS_USED]:
        numbers[PRODUCER_COUNT] += 1
        producers[row, NUMBER] = producer_id
        producers[row, IS_USED] = 1
        producers[row, EPOCH] = epoch
        producers[row, LAST_DATA_OFFSET] = -1
        producers[row, TXN_FIRST_OFFSET] = -1
    if producers[row, EPOCH] != epoch:
        producers[row, EPOCH] = epoch
        producers[row, LAST_DATA_OFFSET] = -1
    producers[row, LAST_TIMESTAMP] = load_int64(data, position + MAX_TIMESTAMP_POSITION)
    first_offset = producers[row, TXN_FIRST_OFFSET]
    if not attributes & CONTROL:
        producers[row, LAST_DATA_OFFSET] = last_offset
        if attributes & TRANSACTIONAL and first_offset < 0:
            producers[row, TXN_FIRST_OFFSET] = base_offset
    elif marker_type != NO_MARKER and first_offset >= 0:
        if marker_type == ABORT:
            number = numbers[ABORTED_COUNT]
            numbers[ABORTED_COUNT] += 1
            arrays.aborted[number, ABORTED_PRODUCER] = producer_id
            arrays.aborted[number, ABORTED_FIRST_OFFSET] = first_offset
            arrays.aborted[number, ABORTED_LAST_OFFSET] = last_offset
        producers[row, TXN_FIRST_OFFSET] = -1
    return True


@kernel
def check_next_batch(data: Any, position: int, size: int, arrays: Any) -> int:
    """Move to the next batch of the log, like `CleanedTransactions.check_next_batch` in log/cleaned_transactions.py.

    Return 1 if the batch is discardable, otherwise 0. Return UNUSUAL if the batch is unusual.
    """
    numbers = arrays.numbers
    producers = arrays.producers
    aborted = arrays.aborted
    last_offset = load_int64(data, position) + load_int32(data, position + LAST_OFFSET_DELTA_POSITION)
    while (
        numbers[NEXT_ABORTED] < numbers[ABORTED_COUNT]
        and aborted[numbers[NEXT_ABORTED], ABORTED_FIRST_OFFSET] <= last_offset
    ):
        row = find_number(aborted[numbers[NEXT_ABORTED], ABORTED_PRODUCER], producers, arrays.secret)
        if producers[row, ABORTED_STATE] == NOT_ABORTED:
            producers[row, ABORTED_STATE] = ABORTED_WITHOUT_DATA
        numbers[NEXT_ABORTED] += 1
    attributes = load_int16(data, position + ATTRIBUTES_POSITION)
    if not attributes & (CONTROL | TRANSACTIONAL):
        return 0
    row = find_number(load_int64(data, position + PRODUCER_ID_POSITION), producers, arrays.secret)
    if not producers[row, IS_USED]:  # The file has changed since the pass has read it first.
        return UNUSUAL
    if not attributes & CONTROL:
        if producers[row, ABORTED_STATE] != NOT_ABORTED:
            producers[row, ABORTED_STATE] = ABORTED_WITH_DATA
            return 1
        producers[row, HAS_COMMITTED_DATA] = 1
        return 0
    marker_type = read_marker_type(data, position, size)
    if marker_type == UNUSUAL:
        return UNUSUAL
    has_data = True
    if marker_type == ABORT:
        has_data = producers[row, ABORTED_STATE] == ABORTED_WITH_DATA
        producers[row, ABORTED_STATE] = NOT_ABORTED
    elif marker_type == COMMIT:
        has_data = producers[row, HAS_COMMITTED_DATA] != 0
        producers[row, HAS_COMMITTED_DATA] = 0
    return 0 if has_data else 1
