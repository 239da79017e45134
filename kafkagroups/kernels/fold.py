"""Kernel that folds a segment: finds the newest commit of each key, and applies markers to pending commits.

A fold is the state after some batches, and to fold a batch means to apply its records to this state. layout.py
describes the arrays of the state (slots, entries, names, nodes). The rules are those of groups/offsets.py. The two
coordinators differ where `IS_CLASSIC` is used.

The kernel checks each batch, and puts its offset records (key types 0 and 1) into the rows of a block. The kernel folds
the block when the block is full, and before a transaction marker. To fold a row, it reads the slot of the row's key,
then the entry, then the name. It starts to load the slot, the entry and the name PREFETCH_DISTANCE rows before their
use, so that it does not wait for memory. The arrays are indexed directly, because a view of a row would cost more time
than the work on the row.

If a log has an unusual layout, damage, or a record that a coordinator refuses, the kernel returns HAND_OVER. The
readable engine then loads the whole log.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.crc32c import crc32c
from kafkagroups.kernels.intrinsics import prefetch
from kafkagroups.kernels.layout import (
    ABORT,
    ARENA_BYTES,
    BATCH_OFFSET,
    BATCHES,
    BLOCK_ROWS,
    CHECKS_CRC,
    COMMIT,
    COMPRESSED,
    ENTRIES,
    ENTRY,
    ENTRY_MASK,
    FIRST_OFFSET,
    HAND_OVER,
    IS_CLASSIC,
    KEY_HASH,
    MAX_INT64,
    MAX_OFFSET_VERSION,
    MAX_TYPE0_VERSION,
    METADATA,
    NAME_AND_PARTITION,
    NAME_SIZE,
    NAME_START,
    NAME_TEXT,
    NAMES,
    NEEDS_MARKER,
    NEEDS_MORE,
    NEWEST_VALUE,
    NEXT_OFFSET,
    NO_SPACE,
    NO_TRANSACTION,
    NODES,
    OFFSET,
    OK,
    OTHER_RECORDS,
    PAUSED,
    PREFETCH_DISTANCE,
    PRODUCER_ID,
    PRODUCERS,
    RECORD_OFFSET,
    RECORDS,
    STOPPED,
    UNTIL_OFFSET,
    UNTIL_TIME,
    VALUE_SIZE,
    VALUE_START,
)
from kafkagroups.kernels.scan import (
    find_record_parts,
    group_and_topic_size,
    hash_bytes,
    load_int16,
    load_int32,
    load_int64,
    same_bytes,
)
from kafkagroups.kernels.table import find_or_add_entry, hash_key
from kafkagroups.kernels.transactions import add_node, end_transaction
from kafkagroups.kernels.values import read_offset_value
from kafkagroups.log.record_batch import HEADER_SIZE


@kernel
def fold_segment(
    data: Any, start: int, stride: int, is_last: bool, tables: Any, rows: Any, block: Any
) -> tuple[int, int]:
    """Fold about `stride` bytes of a segment from position `start` on. Return a status and the next position to read.

    What the caller must do before it continues at this position:

    - NO_SPACE: grow the arrays.
    - COMPRESSED: decompress and fold the compressed batches, and continue after them.
    - NEEDS_MORE: read more bytes of the segment. This status is never returned if `is_last` is true, which means that
      `data` contains the last bytes of the segment.

    After OK with a position before the end of `data`, all bytes from this position on are zero.

    `rows` receives the records that are not offset records: offset, key position, key size, value position, value size.
    `block` is memory for the block.
    """
    rules = tables.rules
    counts = tables.counts
    slots = tables.slots
    limits = _limits(tables, rows)
    mask = len(slots) - 1
    position = start
    end = len(data)
    status = OK
    # The number of rows in the block, and how many bytes and producers these rows can add to the arrays at most.
    block_rows = 0
    block_bytes = 0
    block_producers = 0
    # The position, the size and the hash of the name of the previous row.
    previous_name_start = np.int64(0)
    previous_name_size = np.int64(-1)
    name_hash = np.int64(0)
    while position < end and status == OK:
        if position - start >= stride:
            status = PAUSED
            break
        # The fields of a batch header are at fixed positions (log/record_batch.py): length 8, magic 16, checksum 17,
        # attributes 21, last offset delta 23, newest timestamp 35, producer id 43, record count 57. The length does not
        # include the first 12 bytes of the batch, so it is 49 or more.
        length = np.int64(0)
        has_header = end - position >= HEADER_SIZE
        if has_header:
            length = load_int32(data, position + 8)
        batch_size = length + 12
        if not is_last and (
            not has_header or (batch_size > end - position and length >= 49 and data[position + 16] == 2)
        ):
            status = NEEDS_MORE
            break
        if length < 49 or batch_size > end - position or data[position + 16] != 2:
            status = OK if _is_zero(data, position, end) else HAND_OVER
            break
        base_offset = load_int64(data, position)
        attributes = load_int16(data, position + 21)
        record_count = load_int32(data, position + 57)
        producer_id = load_int64(data, position + 43)
        if (
            rules[CHECKS_CRC]
            and crc32c(data, position + 21, position + batch_size) != load_int32(data, position + 17) & 0xFFFFFFFF
        ):
            return HAND_OVER, position
        if load_int64(data, position + 35) > rules[UNTIL_TIME] or base_offset >= rules[UNTIL_OFFSET]:
            status = STOPPED
            break
        # In the block, NO_TRANSACTION marks a record without a transaction, so no producer may have this id.
        if record_count < 0 or producer_id == NO_TRANSACTION:
            return HAND_OVER, position
        if attributes & 7:
            status = COMPRESSED
            break
        last_offset = base_offset + load_int32(data, position + 23)
        # A batch cannot contain more records than bytes, and offsets must ascend.
        if (
            record_count > batch_size
            or base_offset < counts[NEXT_OFFSET]
            or last_offset < base_offset
            or last_offset == MAX_INT64
        ):
            return HAND_OVER, position
        is_control = (attributes & 0x20) != 0
        has_space = _has_space(batch_size + block_bytes, record_count, block_producers, counts, limits)
        if block_rows and (is_control or not has_space or block_rows + record_count > BLOCK_ROWS):
            status = _fold_block(data, block, block_rows, tables)
            block_rows = 0
            block_bytes = 0
            block_producers = 0
            if status != OK:
                return status, position
            has_space = _has_space(batch_size, record_count, 0, counts, limits)
        if not has_space:
            return NO_SPACE, position
        batch_end = position + batch_size
        record_start = position + HEADER_SIZE
        if is_control:
            if record_count == 0 and rules[NEEDS_MARKER]:
                return HAND_OVER, position
            for number in range(record_count):
                record_start, _, key_start, key_size, _, _ = find_record_parts(data, record_start, batch_end)
                if record_start < 0 or key_size < 4 or load_int16(data, key_start) < 0:
                    return HAND_OVER, position
                record_type = load_int16(data, key_start + 2)
                # The classic coordinator reads only the first record of a control batch.
                is_applied = number == 0 if rules[IS_CLASSIC] else record_type in (COMMIT, ABORT)
                if is_applied:
                    is_commit = record_type == COMMIT
                    end_transaction(producer_id, is_commit, tables)
        else:
            block_bytes += batch_size
            block_producers += 1
            is_transactional = (attributes & 0x10) != 0 if rules[IS_CLASSIC] else producer_id != -1
            first_offset = np.int64(-1)
            previous_offset = base_offset - 1
            for number in range(record_count):
                record_start, offset_delta, key_start, key_size, value_start, value_size = find_record_parts(
                    data, record_start, batch_end
                )
                offset = base_offset + offset_delta
                if record_start < 0 or key_size < 2 or offset <= previous_offset or offset > last_offset:
                    return HAND_OVER, position
                previous_offset = offset
                first_offset = offset if number == 0 else first_offset
                record_type = load_int16(data, key_start)
                if record_type != 0 and record_type != 1:
                    row = counts[OTHER_RECORDS]
                    rows[row, 0] = offset
                    rows[row, 1] = key_start
                    rows[row, 2] = key_size
                    rows[row, 3] = value_start
                    rows[row, 4] = value_size
                    counts[OTHER_RECORDS] += 1
                    continue
                name_size = group_and_topic_size(data, key_start, key_size)
                if name_size < 0:
                    return HAND_OVER, position
                if block_rows == BLOCK_ROWS:  # The batch has more records than a block has rows.
                    status = _fold_block(data, block, block_rows, tables)
                    block_rows = 0
                    if status != OK:
                        return status, position
                name_start = key_start + 2
                is_same_name = block_rows > 0 and name_size == previous_name_size
                if is_same_name and same_bytes(data, previous_name_start, data, name_start, name_size):
                    block[block_rows, NAME_SIZE] = -name_size
                else:
                    name_hash = hash_bytes(data, name_start, name_size)
                    block[block_rows, NAME_SIZE] = name_size
                    previous_name_size = name_size
                block[block_rows, NAME_START] = name_start
                previous_name_start = name_start
                key_hash = hash_key(name_hash, load_int32(data, name_start + name_size))
                prefetch(slots, key_hash & mask)
                block[block_rows, KEY_HASH] = key_hash
                block[block_rows, VALUE_START] = value_start
                block[block_rows, VALUE_SIZE] = value_size
                block[block_rows, OFFSET] = offset
                block[block_rows, FIRST_OFFSET] = first_offset
                block[block_rows, PRODUCER_ID] = producer_id if is_transactional else NO_TRANSACTION
                block_rows += 1
        if record_start != batch_end:
            return HAND_OVER, position
        counts[BATCHES] += 1
        counts[RECORDS] += record_count
        counts[NEXT_OFFSET] = last_offset + 1
        position = batch_end
    if block_rows and status != HAND_OVER:
        block_status = _fold_block(data, block, block_rows, tables)
        status = block_status if block_status != OK else status
    return status, position


@kernel
def _is_zero(data: Any, start: int, end: int) -> bool:
    """Return whether all bytes are zero, as at the end of a preallocated segment."""
    for position in range(start, end):
        if data[position]:
            return False
    return True


@inlined
def _limits(tables: Any, rows: Any) -> tuple[int, int, int, int, int, int]:
    """Return how many entries, arena bytes, nodes, producers, rows and names the arrays can contain.

    Half of the rows of a hash table stay free, so that searches stay short.
    """
    return (
        min(len(tables.entries), len(tables.slots) // 2),
        len(tables.arena),
        len(tables.nodes),
        len(tables.producers) // 2,
        len(rows),
        min(len(tables.names), len(tables.name_slots) // 2),
    )


@inlined
def _has_space(size: int, record_count: int, producers: int, counts: Any, limits: Any) -> bool:
    """Return whether the arrays have space for the block and one more batch, whatever the batch contains.

    `size` is the bytes of the batch and of the batches in the block. `record_count` is the records of the batch.
    `producers` is how many producers the block can add. `limits` comes from `_limits`.
    """
    max_new_rows = record_count + BLOCK_ROWS
    return (
        counts[ENTRIES] + max_new_rows <= limits[0]
        and counts[ARENA_BYTES] + size <= limits[1]
        and counts[NODES] + max_new_rows <= limits[2]
        and counts[PRODUCERS] + producers + 2 <= limits[3]
        and counts[OTHER_RECORDS] + record_count <= limits[4]
        and counts[NAMES] + max_new_rows <= limits[5]
    )


@kernel
def _fold_block(data: Any, block: Any, row_count: int, tables: Any) -> int:
    """Fold the rows of the block, and return a status.

    In each step, load the entry of row `slot_row` and the name of the earlier row `name_row` into the CPU's cache, and
    fold the still earlier row `row`.
    """
    rules = tables.rules
    slots = tables.slots
    entries = tables.entries
    nodes = tables.nodes
    mask = len(slots) - 1
    is_classic = rules[IS_CLASSIC] != 0
    previous_name = np.int64(-1)
    for slot_row in range(row_count + 2 * PREFETCH_DISTANCE):
        if slot_row < row_count:
            entry = slots[block[slot_row, KEY_HASH] & mask]
            if entry >= 0:
                prefetch(entries, (entry & ENTRY_MASK) * 8)
        name_row = slot_row - PREFETCH_DISTANCE
        if 0 <= name_row < row_count and block[name_row, NAME_SIZE] >= 0:
            entry = slots[block[name_row, KEY_HASH] & mask]
            if entry >= 0:
                name_position = tables.names[entries[entry & ENTRY_MASK, NAME_AND_PARTITION] >> 32, NAME_TEXT] >> 20
                prefetch(tables.arena, name_position)
                # The name can continue in the next cache line.
                prefetch(tables.arena, name_position + 56)
        row = slot_row - 2 * PREFETCH_DISTANCE
        if row < 0:
            continue
        entry = find_or_add_entry(
            data, block[row, KEY_HASH], previous_name, block[row, NAME_START], block[row, NAME_SIZE], tables
        )
        if entry < 0:
            return HAND_OVER
        previous_name = entries[entry, NAME_AND_PARTITION] >> 32
        producer_id = block[row, PRODUCER_ID]
        offset = block[row, OFFSET]
        value_size = block[row, VALUE_SIZE]
        if value_size < 0 and (producer_id == NO_TRANSACTION or not is_classic):
            # This tombstone deletes the committed offset now. Only the classic coordinator waits for the marker if the
            # tombstone is in a transaction.
            entries[entry, RECORD_OFFSET] = -1
            tables.tombstones[entry] = offset
            continue
        # The byte before the name is the lower byte of the record's type, which is 0 or 1.
        max_version = rules[MAX_TYPE0_VERSION] if data[block[row, NAME_START] - 1] == 0 else rules[MAX_OFFSET_VERSION]
        status = OK
        if value_size >= 0:
            entries[entry, NEWEST_VALUE] = offset
        if producer_id == NO_TRANSACTION:
            entries[entry, RECORD_OFFSET] = offset
            entries[entry, BATCH_OFFSET] = block[row, FIRST_OFFSET]
            status = read_offset_value(
                data, block[row, VALUE_START], value_size, max_version, tables, entries, tables.extras, entry
            )
        else:
            node = add_node(producer_id, value_size < 0, tables)
            if node >= 0:
                nodes[node, ENTRY] = ~entry if value_size < 0 else entry
                nodes[node, RECORD_OFFSET] = offset
                nodes[node, BATCH_OFFSET] = block[row, FIRST_OFFSET]
                nodes[node, METADATA] = 0
            if value_size >= 0:
                status = read_offset_value(
                    data, block[row, VALUE_START], value_size, max_version, tables, nodes, tables.node_extras, node
                )
        if status != OK:
            return status
    return OK
