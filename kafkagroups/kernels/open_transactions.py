"""Kernels of the hash table of open transactions, and the kernel that finds the records of open transactions.

A transaction is open from its first batch with the transactional bit to its marker. A row of the array `transactions`
is a producer's newest transaction; layout.py describes the columns. This table does not depend on the coordinator. The
pending commits of a transaction are in other arrays (transactions.py), because the two coordinators have different
rules for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.layout import (
    COMPRESSED,
    ENDED,
    FREE,
    NEEDS_MORE_BYTES,
    NO_SPACE,
    OK,
    OPEN,
    OPEN_FIRST_OFFSET,
    OPEN_PRODUCER,
    OPEN_STATE,
    OPEN_TIME,
    PAUSED,
    PRODUCER_ID_POSITION,
    RECORD_COUNT_POSITION,
    TRANSACTIONS,
)
from kafkagroups.kernels.scan import find_record_parts, hash_number, load_int16, load_int32, load_int64
from kafkagroups.log.batch import CODEC, CONTROL, TRANSACTIONAL
from kafkagroups.log.frames import LENGTH_POSITION, LOG_OVERHEAD
from kafkagroups.log.record_batch import ATTRIBUTES_POSITION, HEADER_SIZE

KEY_PRODUCER, KEY_START, KEY_SIZE = range(3)
"""The columns of `keys` in `find_open_keys`: the producer id, and where the key of a record is."""


@kernel
def open_transaction(producer_id: int, first_offset: int, timestamp: int, tables: Any) -> None:
    """Open a transaction of a producer, unless it is already open."""
    transactions = tables.transactions
    row = _find_row(producer_id, transactions, tables.secret)
    if transactions[row, OPEN_STATE] == OPEN:
        return
    if transactions[row, OPEN_STATE] == FREE:
        tables.counts[TRANSACTIONS] += 1
    transactions[row, OPEN_PRODUCER] = producer_id
    transactions[row, OPEN_FIRST_OFFSET] = first_offset
    transactions[row, OPEN_TIME] = timestamp
    transactions[row, OPEN_STATE] = OPEN


@kernel
def close_transaction(producer_id: int, tables: Any) -> None:
    """End the open transaction of a producer, if there is one."""
    row = _find_row(producer_id, tables.transactions, tables.secret)
    if tables.transactions[row, OPEN_STATE] == OPEN:
        tables.transactions[row, OPEN_STATE] = ENDED


@kernel
def _find_row(producer_id: int, transactions: Any, secret: Any) -> int:
    """Return the row of a producer, or the free row where it belongs."""
    mask = len(transactions) - 1
    row = hash_number(np.uint64(producer_id), secret) & mask
    while transactions[row, OPEN_STATE] != FREE and transactions[row, OPEN_PRODUCER] != producer_id:
        row = row + 1 & mask
    return row


@kernel
def rehash_transactions(rows: Any, transactions: Any, secret: Any) -> None:
    """Add the open transactions in `rows` to `transactions`, an empty hash table."""
    for number in range(len(rows)):
        row = _find_row(rows[number, OPEN_PRODUCER], transactions, secret)
        for column in range(OPEN_STATE + 1):
            transactions[row, column] = rows[number, column]


@kernel
def find_open_keys(
    data: Any, start: int, transactions: Any, batches_left: Any, keys: Any, secret: Any
) -> tuple[int, int, int]:
    """Fill `keys` with the places of the keys of all records in open transactions. Columns: KEY_PRODUCER to KEY_SIZE.

    Return a status (layout.py), the position of the next byte to read, and the number of keys.

    `data` contains bytes of a segment that the compiled engine has loaded without an error, and `start` is where the
    kernel begins. `transactions` is the hash table of the transactions. `batches_left[0]` is how many batches may still
    be read. `secret` is the secret of the process (secret.py).

    After these statuses, the caller must call the kernel again:

    - NEEDS_MORE_BYTES: `data` ends before the end of the next batch.
    - COMPRESSED: the next batch is compressed.
    - PAUSED: `keys` is almost full.
    - NO_SPACE: the caller must first make `keys` longer.
    """
    position = start
    end = len(data)
    key_count = 0
    while batches_left[0] > 0:
        if end - position < HEADER_SIZE:
            return NEEDS_MORE_BYTES, position, key_count
        batch_size = load_int32(data, position + LENGTH_POSITION) + LOG_OVERHEAD
        if batch_size < HEADER_SIZE:  # Zeros follow, because all bytes before them were loaded without an error.
            return OK, position, key_count
        if batch_size > end - position:
            return NEEDS_MORE_BYTES, position, key_count
        attributes = load_int16(data, position + ATTRIBUTES_POSITION)
        if attributes & CODEC:
            return COMPRESSED, position, key_count
        batch_end = position + batch_size
        producer_id = load_int64(data, position + PRODUCER_ID_POSITION)
        if attributes & TRANSACTIONAL and not attributes & CONTROL:
            row = _find_row(producer_id, transactions, secret)
            is_open = transactions[row, OPEN_STATE] == OPEN
            if is_open and load_int64(data, position) >= transactions[row, OPEN_FIRST_OFFSET]:
                record_count = load_int32(data, position + RECORD_COUNT_POSITION)
                if key_count + record_count > len(keys):
                    return PAUSED if key_count else NO_SPACE, position, key_count
                record_start = position + HEADER_SIZE
                for _ in range(record_count):
                    record_start, _, key_start, key_size, _, _ = find_record_parts(data, record_start, batch_end)
                    if record_start < 0:
                        return OK, position, key_count
                    keys[key_count, KEY_PRODUCER] = producer_id
                    keys[key_count, KEY_START] = key_start
                    keys[key_count, KEY_SIZE] = key_size
                    key_count += 1
        batches_left[0] -= 1
        position = batch_end
    return OK, position, key_count
