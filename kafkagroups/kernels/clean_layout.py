"""The arrays of a cleaner pass, and kernels that check a batch and find a producer. clean.py runs the pass.

The kernels of a pass read a segment in pieces. A piece is an array of bytes. These arrays hold what they find:

producers   hash table of the producers (hash_table.py). A row is one producer
aborted     one row for each aborted transaction
map_rows    the offset map, a hash table. A row is one key; MAP_OFFSET is -1 in a free row
numbers     counts, and settings of the pass
secret      2 uint64, which are part of every hash (secret.py)
block       the working memory of MD5, as bytes, and `words`, the same memory as numbers (md5.py)

All arrays of numbers are int64. All offsets are Kafka offsets, and all times are in ms since 1970.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kafkagroups.int_limits import MAX_INT64
from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.crc32c import crc32c
from kafkagroups.kernels.layout import (
    LAST_OFFSET_DELTA_POSITION,
    MAX_TIMESTAMP_POSITION,
    PRODUCER_ID_POSITION,
    RECORD_COUNT_POSITION,
)
from kafkagroups.kernels.scan import find_record_parts, load_int16, load_int32, load_int64
from kafkagroups.log.batch import CODEC, CONTROL, NO_PRODUCER_ID, TRANSACTIONAL
from kafkagroups.log.frames import LENGTH_POSITION, LOG_OVERHEAD, MAGIC_POSITION
from kafkagroups.log.record_batch import ATTRIBUTES_POSITION, CRC_FROM, CRC_POSITION, HEADER_SIZE

(
    EPOCH,
    LAST_DATA_OFFSET,
    LAST_TIMESTAMP,
    TXN_FIRST_OFFSET,
    IS_ACTIVE,
    ABORTED_STATE,
    HAS_COMMITTED_DATA,
) = range(2, 9)
"""The columns of `producers` after NUMBER and IS_USED (layout.py).

EPOCH, LAST_DATA_OFFSET, LAST_TIMESTAMP and TXN_FIRST_OFFSET: the attributes of ProducerState
(log/producer_state.py), with -1 instead of None. IS_ACTIVE: 1 for an active producer. ABORTED_STATE and
HAS_COMMITTED_DATA: the open transaction of the producer, as in log/cleaned_transactions.py.
"""
PRODUCER_COLUMNS = 9
NOT_ABORTED, ABORTED_WITHOUT_DATA, ABORTED_WITH_DATA = range(3)
"""The values of ABORTED_STATE. ABORTED_WITHOUT_DATA: the transaction will be aborted, and the pass has read no data
batch of it."""
ABORTED_PRODUCER, ABORTED_FIRST_OFFSET, ABORTED_LAST_OFFSET = range(3)
"""The columns of `aborted`, which are the fields of AbortedTxn (log/producer_state.py)."""
MAP_OFFSET, MAP_HASH_START, MAP_HASH_END = range(3)
"""The columns of `map_rows`: the newest offset of a key, and the first and the last 8 bytes of the key's MD5 hash."""
(
    BATCHES,
    RECORDS,
    PRODUCER_COUNT,
    ABORTED_COUNT,
    NEXT_ABORTED,
    NEWEST_TIME,
    NEXT_OFFSET,
    MAX_BATCH_SIZE,
    FIRST_DIRTY,
    MAP_CAPACITY,
    MAP_COUNT,
    MAP_LAST_OFFSET,
    NOW,
    HAS_NEW_HORIZON,
    NEW_HORIZON,
    FIRST_UNCLEANABLE,
    NUMBER_COUNT,
) = range(17)
"""The elements of `numbers`.

BATCHES and RECORDS: the counts of the segment that is read or written. PRODUCER_COUNT, ABORTED_COUNT and MAP_COUNT: the
numbers of used rows. NEXT_ABORTED: the row of the next transaction that will be aborted. NEWEST_TIME: the newest
timestamp of the log. NEXT_OFFSET: the offset after the last batch. MAX_BATCH_SIZE: the largest number of bytes of a
batch that the kernels read. FIRST_DIRTY, NOW and FIRST_UNCLEANABLE: as in log/cleaner.py. MAP_CAPACITY and
MAP_LAST_OFFSET: the attributes of OffsetMap (log/offset_map.py). HAS_NEW_HORIZON and NEW_HORIZON: the delete horizon
that the pass sets; HAS_NEW_HORIZON is 0 if the pass sets none. NUMBER_COUNT is the number of these elements.
"""
MIN_RECORD_BYTES = 7
"""The smallest number of bytes of a record: each of its seven numbers has at least one byte."""
MAX_TIME = 1 << 61
"""Kernels accept timestamps from -MAX_TIME to MAX_TIME, so that no difference of two timestamps overflows."""
MAX_OFFSET = MAX_INT64 - (1 << 32)
"""Kernels accept base offsets up to MAX_OFFSET, so that no offset in the batch overflows."""
BASE_TIMESTAMP_POSITION = 27
"""The position of the base timestamp in a batch."""
INCOMPLETE = 0
UNUSUAL = -2
"""The results of `check_batch` for a batch that continues after the piece, and for a batch that no kernel reads."""


class Pass(NamedTuple):
    """The arrays of a pass, as one argument of the kernels. The module's docstring describes the arrays."""

    numbers: Any
    producers: Any
    aborted: Any
    map_rows: Any
    secret: Any
    block: Any
    words: Any


@kernel
def check_batch(data: Any, position: int, max_batch_size: int) -> int:
    """Return the size of the batch at a position in bytes, or INCOMPLETE, or UNUSUAL.

    A batch is unusual if it is damaged, is compressed, has another magic than 2, or has numbers that are so large that
    a sum could overflow. The readable cleaner must clean a log with an unusual batch.
    """
    available = len(data) - position
    if available < HEADER_SIZE:
        return INCOMPLETE
    size = np.int64(load_int32(data, position + LENGTH_POSITION) + LOG_OVERHEAD)
    if data[position + MAGIC_POSITION] != 2 or size < HEADER_SIZE or size > max_batch_size:
        return UNUSUAL
    if size > available:
        return INCOMPLETE
    attributes = load_int16(data, position + ATTRIBUTES_POSITION)
    producer_id = load_int64(data, position + PRODUCER_ID_POSITION)
    base_offset = load_int64(data, position)
    if attributes & CODEC or (attributes & (CONTROL | TRANSACTIONAL) and producer_id < 0):
        return UNUSUAL
    if base_offset < 0 or base_offset > MAX_OFFSET or load_int32(data, position + LAST_OFFSET_DELTA_POSITION) < 0:
        return UNUSUAL
    if producer_id < NO_PRODUCER_ID or load_int32(data, position + RECORD_COUNT_POSITION) < 0:
        return UNUSUAL
    base_time = load_int64(data, position + BASE_TIMESTAMP_POSITION)
    newest_time = load_int64(data, position + MAX_TIMESTAMP_POSITION)
    if min(base_time, newest_time) < -MAX_TIME or max(base_time, newest_time) > MAX_TIME:
        return UNUSUAL
    crc = load_int32(data, position + CRC_POSITION) & 0xFFFFFFFF
    return size if crc == crc32c(data, position + CRC_FROM, position + size) else UNUSUAL


@kernel
def read_record(data: Any, start: int, end: int) -> tuple[int, int, int, int, int, int]:
    """Return where the parts of the record at a position are, like `find_record_parts` in scan.py.

    This kernel is compiled once. `find_record_parts` would be compiled again in each kernel that calls it.
    """
    return find_record_parts(data, start, end)


BASE_TIMESTAMP_POSITION = 27
"""The position of the base timestamp in a batch."""
