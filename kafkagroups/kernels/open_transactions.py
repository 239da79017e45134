"""Kernels of the hash table of open transactions, and the kernel that finds the records of open transactions.

A transaction is open from its first batch with the transactional bit to its marker. A row of the array `transactions`
is a producer's newest transaction; layout.py describes the columns. This table does not depend on the coordinator. The
pending commits of a transaction are in other arrays (transactions.py), because the two coordinators have different
rules for them.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.hash_table import find_number
from kafkagroups.kernels.layout import (
    HAS_BATCH,
    IS_OPEN,
    IS_USED,
    NO_SPACE,
    NUMBER,
    OK,
    OPEN_FIRST_OFFSET,
    OPEN_TIME,
    PAUSED,
    PRODUCER_ID_POSITION,
    RECORD_COUNT_POSITION,
    TRANSACTIONS,
)
from kafkagroups.kernels.next_batch import find_next_batch
from kafkagroups.kernels.scan import find_record_parts, load_int16, load_int32, load_int64
from kafkagroups.log.batch import CONTROL, TRANSACTIONAL
from kafkagroups.log.record_batch import ATTRIBUTES_POSITION, HEADER_SIZE

KEY_PRODUCER, KEY_START, KEY_SIZE = range(3)
"""The columns of `keys` in `find_open_keys`: the producer id, and where the key of a record is."""


@kernel
def open_transaction(producer_id: int, first_offset: int, timestamp: int, tables: Any) -> None:
    """Open a transaction of a producer, unless it is already open."""
    transactions = tables.transactions
    row = find_number(producer_id, transactions, tables.secret)
    if not transactions[row, IS_USED]:
        transactions[row, NUMBER] = producer_id
        transactions[row, IS_USED] = 1
        tables.counts[TRANSACTIONS] += 1
    if not transactions[row, IS_OPEN]:
        transactions[row, OPEN_FIRST_OFFSET] = first_offset
        transactions[row, OPEN_TIME] = timestamp
        transactions[row, IS_OPEN] = 1


@kernel
def close_transaction(producer_id: int, tables: Any) -> None:
    """End the open transaction of a producer, if there is one."""
    # In a free row, this changes nothing.
    tables.transactions[find_number(producer_id, tables.transactions, tables.secret), IS_OPEN] = 0


@kernel
def find_open_keys(
    data: Any, start: int, transactions: Any, batches_left: Any, keys: Any, secret: Any
) -> tuple[int, int, int]:
    """Fill `keys` with the places of the keys of all records in open transactions. Columns: KEY_PRODUCER to KEY_SIZE.

    Return a status, the position of the next byte to read, and the number of keys. The statuses are those of `scan` in
    second_reading.py.

    `data` contains bytes of a segment that the compiled engine has loaded without an error, and `start` is where the
    kernel begins. `transactions` is the hash table of the transactions. `batches_left[0]` is how many batches may still
    be read. `secret` is the secret of the process (secret.py).
    """
    position = start
    key_count = 0
    while True:
        status, batch_end = find_next_batch(data, position, batches_left[0])
        if status != HAS_BATCH:
            return status, position, key_count
        attributes = load_int16(data, position + ATTRIBUTES_POSITION)
        producer_id = load_int64(data, position + PRODUCER_ID_POSITION)
        if attributes & TRANSACTIONAL and not attributes & CONTROL:
            row = find_number(producer_id, transactions, secret)
            if transactions[row, IS_OPEN] and load_int64(data, position) >= transactions[row, OPEN_FIRST_OFFSET]:
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
