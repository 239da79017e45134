"""Kernel that folds a segment: finds the newest commit of each key, and applies markers to pending commits.

To fold a batch means to apply its records to the state of the log partition. layout.py describes the arrays of this
state (slots, entries, names, nodes) and the other terms. The rules are those of groups/offsets.py. The classic and
the new coordinator have different rules where `IS_CLASSIC` is used.

The kernel checks each batch, and puts its offset records (record types 0 and 1) into a block, one record per row.
The kernel folds the block when the next batch does not fit into the block, and before a transaction marker. To fold a
row, the kernel reads the slot of the row's key, then the entry, then the name. To avoid waiting for memory, the CPU
starts to load each of them PREFETCH_DISTANCE rows earlier.

If a log has an unusual layout, damage, or a record that a coordinator refuses, the kernel returns HAND_OVER. The
readable engine then loads the whole log.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.int_limits import MAX_INT64
from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.crc32c import crc32c
from kafkagroups.kernels.fates import (
    delete_offsets,
    divide_bytes,
    find_disk_size,
    keep_node_record,
    note_batch,
    note_fate,
    note_offset_record,
    note_timestamp,
    note_traces,
    note_value,
    supersede_committed,
)
from kafkagroups.kernels.intrinsics import prefetch
from kafkagroups.kernels.layout import (
    ABORT,
    ARENA_BYTES,
    BATCH_OFFSET,
    BATCHES,
    BLOCK_BYTES,
    BLOCK_IS_TRANSACTIONAL,
    BLOCK_NUMBER,
    BLOCK_ROWS,
    CHECKS_CRC,
    COMMIT,
    COMPRESSED,
    ENTRIES,
    ENTRY,
    ENTRY_MASK,
    EPOCH_AND_FLAGS,
    FIRST_OFFSET,
    FOLLOWS_FATES,
    HAND_OVER,
    IGNORED,
    IS_CLASSIC,
    KEEPS_EACH_FATE,
    KEY_HASH,
    LAST_OFFSET,
    LAST_OFFSET_DELTA_POSITION,
    LAST_TIME,
    MARKER,
    MAX_BATCH_RECORDS,
    MAX_BATCH_SIZE,
    MAX_OFFSET_VERSION,
    MAX_TIMESTAMP_POSITION,
    MAX_TYPE0_VERSION,
    METADATA,
    NAME_AND_PARTITION,
    NAME_SIZE,
    NAME_START,
    NAME_TEXT,
    NAMES,
    NEEDS_MARKER,
    NEEDS_MORE_BYTES,
    NEWEST_VALUE_OFFSET,
    NEXT_OFFSET,
    NO_RECORD,
    NO_SPACE,
    NO_TRANSACTION,
    NODES,
    OFFSET,
    OK,
    OTHER_BYTES,
    OTHER_KEY_SIZE,
    OTHER_KEY_START,
    OTHER_NUMBER,
    OTHER_OFFSET,
    OTHER_RECORDS,
    OTHER_VALUE_SIZE,
    OTHER_VALUE_START,
    PARTITION_BITS,
    PAUSED,
    PREFETCH_DISTANCE,
    PRODUCER_ID,
    PRODUCER_ID_POSITION,
    PRODUCERS,
    RECORD_COUNT_POSITION,
    RECORD_OFFSET,
    RECORDS,
    SIZE_BITS,
    STOPPED,
    TRANSACTIONS,
    VALUE_SIZE,
    VALUE_START,
)
from kafkagroups.kernels.open_transactions import close_transaction, open_transaction
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
from kafkagroups.log.batch import CODEC, CONTROL, NO_PRODUCER_ID, TRANSACTIONAL
from kafkagroups.log.frames import LENGTH_POSITION, LOG_OVERHEAD, MAGIC_POSITION
from kafkagroups.log.record_batch import ATTRIBUTES_POSITION, CRC_FROM, CRC_POSITION, HEADER_SIZE


@kernel
def fold_batches(
    data: Any,
    start: int,
    max_bytes: int,
    has_segment_end: bool,
    tables: Any,
    other_records: Any,
    block: Any,
    block_records: Any,
) -> tuple[int, int]:
    """Fold about `max_bytes` bytes of a segment. Return a status and the position in `data` of the next byte to read.

    `data` contains bytes of the segment, and `start` is the position in `data` where the kernel begins.
    `has_segment_end` is true if `data` contains the last bytes of the segment. `other_records` receives the positions
    of the records that are not offset records (columns: layout.py). `block` and `block_records` are working memory.

    After these statuses, the caller must call the kernel again:

    - PAUSED: the caller can report the progress before the call.
    - NO_SPACE: the caller must first grow the arrays.
    - COMPRESSED: the caller must first decompress and fold the compressed batches. The next call begins after them.
    - NEEDS_MORE_BYTES: the caller must first read more bytes. Only if `has_segment_end` is false.

    The other statuses are OK, STOPPED and HAND_OVER (layout.py). If the status is OK and the position is before the end
    of `data`, all bytes from this position on are zero.
    """
    rules = tables.rules
    counts = tables.counts
    slots = tables.slots
    limits = _compute_limits(tables, other_records)
    mask = len(slots) - 1
    follows_fates = rules[FOLLOWS_FATES] != 0
    position = start
    end = len(data)
    status = OK
    # The number of used rows of the block.
    block_rows = 0
    # Folding these rows adds at most this many bytes to the arena, and this many producers.
    block_bytes = 0
    block_producers = 0
    # The position, the size and the hash of the name of the previous row.
    previous_name_start = np.int64(0)
    previous_name_size = np.int64(-1)
    name_hash = np.int64(0)
    while position < end and status == OK:
        if position - start >= max_bytes:
            status = PAUSED
            break
        # The size in the header does not include the first 12 bytes of the batch (LOG_OVERHEAD).
        batch_size = np.int64(0)
        is_magic_2 = False
        has_header = end - position >= HEADER_SIZE
        if has_header:
            batch_size = load_int32(data, position + LENGTH_POSITION) + LOG_OVERHEAD
            is_magic_2 = batch_size >= HEADER_SIZE and data[position + MAGIC_POSITION] == 2
        is_complete = batch_size <= end - position
        if is_magic_2 and batch_size > rules[MAX_BATCH_SIZE]:
            return HAND_OVER, position
        if not has_segment_end and (not has_header or (is_magic_2 and not is_complete)):
            status = NEEDS_MORE_BYTES
            break
        if not is_magic_2 or not is_complete:
            status = OK if _is_zero(data, position, end) else HAND_OVER
            break
        base_offset = load_int64(data, position)
        attributes = load_int16(data, position + ATTRIBUTES_POSITION)
        record_count = load_int32(data, position + RECORD_COUNT_POSITION)
        producer_id = load_int64(data, position + PRODUCER_ID_POSITION)
        stored_crc = load_int32(data, position + CRC_POSITION) & 0xFFFFFFFF
        if rules[CHECKS_CRC] and crc32c(data, position + CRC_FROM, position + batch_size) != stored_crc:
            return HAND_OVER, position
        max_timestamp = load_int64(data, position + MAX_TIMESTAMP_POSITION)
        if max_timestamp > rules[LAST_TIME] or base_offset > rules[LAST_OFFSET]:
            status = STOPPED
            break
        # In the block, the producer id NO_TRANSACTION means that a record is not in a transaction. So no producer may
        # have this id.
        if record_count < 0 or producer_id == NO_TRANSACTION:
            return HAND_OVER, position
        if attributes & CODEC:
            status = COMPRESSED
            break
        last_offset = base_offset + load_int32(data, position + LAST_OFFSET_DELTA_POSITION)
        # A batch cannot contain more records than bytes, and offsets must ascend.
        if (
            record_count > min(batch_size, rules[MAX_BATCH_RECORDS])
            or base_offset < counts[NEXT_OFFSET]
            or last_offset < base_offset
            or last_offset == MAX_INT64
        ):
            return HAND_OVER, position
        is_control = (attributes & CONTROL) != 0
        has_space = _has_space(batch_size + block_bytes, record_count, block_producers, counts, limits)
        fits_into_block = block_rows + record_count <= BLOCK_ROWS
        if block_rows and (is_control or not fits_into_block or not has_space):
            status = _fold_block(data, block, block_records, block_rows, tables)
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
        content_start = record_start
        disk_size = find_disk_size(batch_size, tables) if follows_fates else batch_size
        if is_control:
            if record_count == 0 and rules[NEEDS_MARKER]:
                return HAND_OVER, position
            for number in range(record_count):
                this_start = record_start
                record_start, offset_delta, key_start, key_size, _, _ = find_record_parts(data, record_start, batch_end)
                if record_start < 0 or key_size < 4 or load_int16(data, key_start) < 0:
                    return HAND_OVER, position
                record_type = load_int16(data, key_start + 2)
                is_marker = record_type in (COMMIT, ABORT)
                # The classic coordinator reads only the first record of a control batch.
                is_applied = number == 0 if rules[IS_CLASSIC] else is_marker
                if is_applied:
                    end_transaction(producer_id, record_type == COMMIT, base_offset + offset_delta, tables)
                if follows_fates:
                    note_timestamp(data, position, attributes, this_start, record_start, counts)
                    note_fate(counts[RECORDS] + number, MARKER if is_marker else IGNORED, NO_RECORD, tables)
                    if is_marker:
                        close_transaction(producer_id, tables)
        else:
            block_bytes += batch_size
            block_producers += 1
            # The new coordinator ignores the transactional bit.
            is_transactional = (attributes & TRANSACTIONAL) != 0 if rules[IS_CLASSIC] else producer_id != NO_PRODUCER_ID
            first_offset = np.int64(-1)
            previous_offset = base_offset - 1
            for number in range(record_count):
                this_start = record_start
                record_start, offset_delta, key_start, key_size, value_start, value_size = find_record_parts(
                    data, record_start, batch_end
                )
                offset = base_offset + offset_delta
                if record_start < 0 or key_size < 2 or offset <= previous_offset or offset > last_offset:
                    return HAND_OVER, position
                previous_offset = offset
                first_offset = offset if number == 0 else first_offset
                record_bytes = np.int64(0)
                if follows_fates:
                    timestamp = note_timestamp(data, position, attributes, this_start, record_start, counts)
                    if number == 0 and attributes & TRANSACTIONAL:
                        open_transaction(producer_id, base_offset, timestamp, tables)
                    record_bytes = divide_bytes(
                        disk_size, record_start - content_start, batch_end - content_start, this_start - content_start
                    )
                record_type = load_int16(data, key_start)
                if record_type != 0 and record_type != 1:
                    row = counts[OTHER_RECORDS]
                    other_records[row, OTHER_OFFSET] = offset
                    other_records[row, OTHER_KEY_START] = key_start
                    other_records[row, OTHER_KEY_SIZE] = key_size
                    other_records[row, OTHER_VALUE_START] = value_start
                    other_records[row, OTHER_VALUE_SIZE] = value_size
                    other_records[row, OTHER_NUMBER] = counts[RECORDS] + number
                    other_records[row, OTHER_BYTES] = record_bytes
                    counts[OTHER_RECORDS] += 1
                    continue
                name_size = group_and_topic_size(data, key_start, key_size)
                if name_size < 0:
                    return HAND_OVER, position
                if block_rows == BLOCK_ROWS:  # The batch has more records than a block has rows.
                    status = _fold_block(data, block, block_records, block_rows, tables)
                    block_rows = 0
                    if status != OK:
                        return status, position
                name_start = key_start + 2
                is_same_name = block_rows > 0 and name_size == previous_name_size
                if is_same_name and same_bytes(data, previous_name_start, data, name_start, name_size):
                    block[block_rows, NAME_SIZE] = -name_size  # Negative: the same name as in the previous row.
                else:
                    name_hash = hash_bytes(data, name_start, name_size, tables.secret)
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
                if follows_fates:
                    block_records[block_rows, BLOCK_NUMBER] = counts[RECORDS] + number
                    block_records[block_rows, BLOCK_BYTES] = record_bytes
                    block_records[block_rows, BLOCK_IS_TRANSACTIONAL] = (attributes & TRANSACTIONAL) != 0
                block_rows += 1
        if record_start != batch_end:
            return HAND_OVER, position
        if follows_fates:
            note_batch(disk_size, record_count, is_control, tables)
            note_traces(data, position, attributes, base_offset, last_offset, record_count, tables)
        counts[BATCHES] += 1
        counts[RECORDS] += record_count
        counts[NEXT_OFFSET] = last_offset + 1
        position = batch_end
    if block_rows and status != HAND_OVER:
        block_status = _fold_block(data, block, block_records, block_rows, tables)
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
def _compute_limits(tables: Any, other_records: Any) -> tuple[int, int, int, int, int, int, int, int]:
    """Return how many rows or bytes the arrays can contain.

    These are entries, arena bytes, nodes, producers, other records, names, fates and open transactions. Half of the
    rows of a hash table stay free, so that searches stay short.
    """
    return (
        min(len(tables.entries), len(tables.slots) // 2),
        len(tables.arena),
        len(tables.nodes),
        len(tables.producers) // 2,
        len(other_records),
        min(len(tables.names), len(tables.name_slots) // 2),
        len(tables.fates) if tables.rules[KEEPS_EACH_FATE] else MAX_INT64,
        len(tables.transactions) // 2 if tables.rules[FOLLOWS_FATES] else MAX_INT64,
    )


@inlined
def _has_space(new_bytes: int, record_count: int, new_producers: int, counts: Any, limits: Any) -> bool:
    """Return whether the arrays have space for the block and one more batch, whatever the batch contains.

    `new_bytes` is the total size of this batch and of the batches in the block. `record_count` is the number of records
    in the batch. `new_producers` is the largest number of producers that the block can add. `limits` is the result of
    `_compute_limits`.
    """
    max_entries, max_arena_bytes, max_nodes, max_producers, max_other_records, max_names, max_fates, max_open = limits
    max_new_rows = record_count + BLOCK_ROWS
    return (
        counts[ENTRIES] + max_new_rows <= max_entries
        and counts[ARENA_BYTES] + new_bytes <= max_arena_bytes
        and counts[NODES] + max_new_rows <= max_nodes
        and counts[PRODUCERS] + new_producers + 2 <= max_producers
        and counts[OTHER_RECORDS] + record_count <= max_other_records
        and counts[NAMES] + max_new_rows <= max_names
        and counts[RECORDS] + record_count <= max_fates
        and counts[TRANSACTIONS] + 1 <= max_open
    )


@kernel
def _fold_block(data: Any, block: Any, block_records: Any, row_count: int, tables: Any) -> int:
    """Fold the first `row_count` rows of the block, and return a status: OK or HAND_OVER.

    Each step of the loop works on three rows, with PREFETCH_DISTANCE rows between them:

    - It loads the entry of row `slot_row` into the CPU's cache.
    - It loads the name of row `name_row`.
    - It folds row `row`.
    """
    rules = tables.rules
    slots = tables.slots
    entries = tables.entries
    nodes = tables.nodes
    mask = len(slots) - 1
    is_classic = rules[IS_CLASSIC] != 0
    follows_fates = rules[FOLLOWS_FATES] != 0
    previous_name = np.int64(-1)
    for slot_row in range(row_count + 2 * PREFETCH_DISTANCE):
        if slot_row < row_count:
            slot_content = slots[block[slot_row, KEY_HASH] & mask]
            if slot_content >= 0:
                prefetch(entries, (slot_content & ENTRY_MASK) * 8)
        name_row = slot_row - PREFETCH_DISTANCE
        if 0 <= name_row < row_count and block[name_row, NAME_SIZE] >= 0:
            slot_content = slots[block[name_row, KEY_HASH] & mask]
            if slot_content >= 0:
                name = entries[slot_content & ENTRY_MASK, NAME_AND_PARTITION] >> PARTITION_BITS
                name_position = tables.names[name, NAME_TEXT] >> SIZE_BITS
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
        previous_name = entries[entry, NAME_AND_PARTITION] >> PARTITION_BITS
        producer_id = block[row, PRODUCER_ID]
        offset = block[row, OFFSET]
        value_size = block[row, VALUE_SIZE]
        if follows_fates:
            note_offset_record(data, block, block_records, row, entry, tables)
        if value_size < 0 and (producer_id == NO_TRANSACTION or not is_classic):
            # This tombstone deletes the committed offset. In the classic coordinator, a tombstone in a transaction
            # deletes only the pending commit of its producer (below).
            if follows_fates:
                delete_offsets(entry, offset, tables)
            entries[entry, RECORD_OFFSET] = -1
            tables.tombstones[entry] = offset
            continue
        # The byte before the name is the lower byte of the record's type, which is 0 or 1.
        max_version = rules[MAX_TYPE0_VERSION] if data[block[row, NAME_START] - 1] == 0 else rules[MAX_OFFSET_VERSION]
        status = OK
        if value_size >= 0:
            entries[entry, NEWEST_VALUE_OFFSET] = offset
        epoch_and_flags = np.int64(0)
        if producer_id == NO_TRANSACTION:
            if follows_fates:
                supersede_committed(data, block, block_records, row, entry, offset, tables)
            entries[entry, RECORD_OFFSET] = offset
            entries[entry, BATCH_OFFSET] = block[row, FIRST_OFFSET]
            status = read_offset_value(
                data, block[row, VALUE_START], value_size, max_version, tables, entries, tables.extras, entry
            )
            epoch_and_flags = entries[entry, EPOCH_AND_FLAGS]
        else:
            node = add_node(producer_id, value_size < 0, tables)
            if node >= 0:
                nodes[node, ENTRY] = ~entry if value_size < 0 else entry
                nodes[node, RECORD_OFFSET] = offset
                nodes[node, BATCH_OFFSET] = block[row, FIRST_OFFSET]
                nodes[node, METADATA] = 0
                if follows_fates:
                    keep_node_record(data, block, block_records, row, entry, node, tables)
            if value_size >= 0:
                status = read_offset_value(
                    data, block[row, VALUE_START], value_size, max_version, tables, nodes, tables.node_extras, node
                )
                epoch_and_flags = nodes[node, EPOCH_AND_FLAGS]
        if status != OK:
            return status
        if follows_fates and value_size >= 0:
            note_value(data, block, block_records, row, epoch_and_flags, tables)
    return OK
