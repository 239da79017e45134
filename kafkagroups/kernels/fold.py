"""Kernel that folds a segment: the newest commit of each key counts, transactions wait for their marker.

The rules are those of groups/offsets.py. The two coordinators differ where `CLASSIC` is used. Batches are checked, and
their offset records (types 0 and 1) fill the rows of a block. A block is folded when it is full, and before a marker.
Folding has three steps that run some rows apart, so that memory has time to arrive: the slot, the entry, and the name
unless the row before has the same one. No views of rows are made: they would cost more than the work.

The kernel only decides what it is sure of. An odd layout, a refused record or damage is HAND_OVER: the readable engine
then loads the whole log.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.crc32c import crc32c
from kafkagroups.kernels.intrinsics import prefetch
from kafkagroups.kernels.layout import (
    ABORT,
    AHEAD,
    ARENA,
    BATCH,
    BATCHES,
    BLOCK,
    CHECKS_CRC,
    CLASSIC,
    COMMIT,
    COMPRESSED,
    ENTRIES,
    ENTRY,
    FIRST,
    HAND_OVER,
    HASH,
    HEADER,
    MOST,
    NAME,
    NAME_AT,
    NAME_SIZE,
    NAMES,
    NEEDS_A_MARKER,
    NEEDS_MORE,
    NEXT_OFFSET,
    NO_SPACE,
    NO_TRANSACTION,
    NODES,
    NOTE,
    OFFSET,
    OFFSET_VALUES,
    OK,
    PAUSED,
    PLACE,
    PRODUCER,
    PRODUCERS,
    RECORD,
    RECORDS,
    ROWS,
    SEEN,
    STOPPED,
    TYPE0_VALUES,
    UNTIL,
    UNTIL_TIME,
    VALUE,
    VALUE_SIZE,
)
from kafkagroups.kernels.scan import int16, int32, int64, name_size, record_at, same_text, short_hash
from kafkagroups.kernels.table import entry_of, key_hash
from kafkagroups.kernels.transactions import end_transaction, new_node
from kafkagroups.kernels.values import put_value


@kernel
def fold_segment(
    data: Any, start: int, stride: int, is_last: bool, tables: Any, rows: Any, block: Any
) -> tuple[int, int]:
    """Fold the batches of one segment from `start` on, about `stride` bytes. Return a status and where it stopped.

    Call it again from there: after NO_SPACE with larger arrays, after COMPRESSED behind the batch, after PAUSED as it
    is, after NEEDS_MORE with more bytes (it is never returned if this is the segment's last piece). OK before the end
    means that zeros follow. `rows` gets the records of other types: offset, key, its size, value, its size.
    """
    rules = tables.rules
    counts = tables.counts
    slots = tables.slots
    limits = _limits(tables, rows)
    mask = len(slots) - 1
    at = start
    end = len(data)
    status = OK
    # The rows in the block, and how many bytes and producers they may add.
    waiting = 0
    waiting_bytes = 0
    waiting_producers = 0
    # The name of the row before: where it is, its size, its hash.
    before_at = np.int64(0)
    before_size = np.int64(-1)
    name = np.int64(0)
    while at < end and status == OK:
        if at - start >= stride:
            status = PAUSED
            break
        length = np.int64(0)
        has_head = end - at >= HEADER
        if has_head:
            length = int32(data, at + 8)
        size = length + 12
        if not is_last and (not has_head or (size > end - at and length >= 49 and data[at + 16] == 2)):
            status = NEEDS_MORE
            break
        if length < 49 or size > end - at or data[at + 16] != 2:
            status = OK if _is_zero(data, at, end) else HAND_OVER
            break
        base = int64(data, at)
        attributes = int16(data, at + 21)
        count = int32(data, at + 57)
        producer = int64(data, at + 43)
        if rules[CHECKS_CRC] and crc32c(data, at + 21, at + size) != int32(data, at + 17) & 0xFFFFFFFF:
            return HAND_OVER, at
        if int64(data, at + 35) > rules[UNTIL_TIME] or base >= rules[UNTIL]:
            status = STOPPED
            break
        if count < 0 or producer == NO_TRANSACTION:
            return HAND_OVER, at
        if attributes & 7:
            status = COMPRESSED
            break
        last = base + int32(data, at + 23)
        # A batch cannot hold more records than bytes, and offsets must rise.
        if count > size or base < counts[NEXT_OFFSET] or last < base or last == MOST:
            return HAND_OVER, at
        is_control = (attributes & 0x20) != 0
        fits = _fits(size + waiting_bytes, count, waiting_producers, counts, limits)
        if waiting and (is_control or not fits or waiting + count > BLOCK):
            status = _fold(data, block, waiting, tables)
            waiting = 0
            waiting_bytes = 0
            waiting_producers = 0
            if status != OK:
                return status, at
            fits = _fits(size, count, 0, counts, limits)
        if not fits:
            return NO_SPACE, at
        stop = at + size
        place = at + HEADER
        if is_control:
            if count == 0 and rules[NEEDS_A_MARKER]:
                return HAND_OVER, at
            for number in range(count):
                place, _, key, key_size, _, _ = record_at(data, place, stop)
                if place < 0 or key_size < 4 or int16(data, key) < 0:
                    return HAND_OVER, at
                kind = int16(data, key + 2)
                counts_here = number == 0 if rules[CLASSIC] else kind in (COMMIT, ABORT)
                if counts_here:
                    commits = kind == COMMIT
                    end_transaction(producer, commits, tables)
        else:
            waiting_bytes += size
            waiting_producers += 1
            pending = (attributes & 0x10) != 0 if rules[CLASSIC] else producer != -1
            first = np.int64(-1)
            before = base - 1
            for number in range(count):
                place, delta, key, key_size, value, value_size = record_at(data, place, stop)
                offset = base + delta
                if place < 0 or key_size < 2 or offset <= before or offset > last:
                    return HAND_OVER, at
                before = offset
                first = offset if number == 0 else first
                kind = int16(data, key)
                if kind != 0 and kind != 1:
                    row = counts[ROWS]
                    rows[row, 0] = offset
                    rows[row, 1] = key
                    rows[row, 2] = key_size
                    rows[row, 3] = value
                    rows[row, 4] = value_size
                    counts[ROWS] += 1
                    continue
                size_of_name = name_size(data, key, key_size)
                if size_of_name < 0:
                    return HAND_OVER, at
                if waiting == BLOCK:  # This happens within a batch that is larger than a block.
                    status = _fold(data, block, waiting, tables)
                    waiting = 0
                    if status != OK:
                        return status, at
                at_name = key + 2
                is_same = waiting > 0 and size_of_name == before_size
                if is_same and same_text(data, before_at, data, at_name, size_of_name):
                    block[waiting, NAME_SIZE] = -size_of_name
                else:
                    name = short_hash(data, at_name, size_of_name)
                    block[waiting, NAME_SIZE] = size_of_name
                    before_size = size_of_name
                block[waiting, NAME_AT] = at_name
                before_at = at_name
                hashed = key_hash(name, int32(data, at_name + size_of_name))
                prefetch(slots, hashed & mask)
                block[waiting, HASH] = hashed
                block[waiting, VALUE] = value
                block[waiting, VALUE_SIZE] = value_size
                block[waiting, OFFSET] = offset
                block[waiting, FIRST] = first
                block[waiting, PRODUCER] = producer if pending else NO_TRANSACTION
                waiting += 1
        if place != stop:
            return HAND_OVER, at
        counts[BATCHES] += 1
        counts[RECORDS] += count
        counts[NEXT_OFFSET] = last + 1
        at = stop
    if waiting and status != HAND_OVER:
        folded = _fold(data, block, waiting, tables)
        status = folded if folded != OK else status
    return status, at


@kernel
def _is_zero(data: Any, at: int, end: int) -> bool:
    for place in range(at, end):
        if data[place]:
            return False
    return True


@inlined
def _limits(tables: Any, rows: Any) -> tuple[int, int, int, int, int, int]:
    """Return how many entries, bytes, nodes, producers, rows and names fit into the arrays."""
    return (
        min(len(tables.entries), len(tables.slots) // 2),
        len(tables.arena),
        len(tables.nodes),
        len(tables.producers) // 2,
        len(rows),
        min(len(tables.names), len(tables.name_slots) // 2),
    )


@inlined
def _fits(size: int, count: int, producers: int, counts: Any, limits: Any) -> bool:
    """Return whether a batch of this size and number of records surely fits, together with the block."""
    many = count + BLOCK
    return (
        counts[ENTRIES] + many <= limits[0]
        and counts[ARENA] + size <= limits[1]
        and counts[NODES] + many <= limits[2]
        and counts[PRODUCERS] + producers + 2 <= limits[3]
        and counts[ROWS] + count <= limits[4]
        and counts[NAMES] + many <= limits[5]
    )


@kernel
def _fold(data: Any, block: Any, waiting: int, tables: Any) -> int:
    """Fold the rows of the block in three steps, each AHEAD rows before the next."""
    rules = tables.rules
    slots = tables.slots
    entries = tables.entries
    nodes = tables.nodes
    mask = len(slots) - 1
    classic = rules[CLASSIC] != 0
    before = np.int64(-1)
    for step in range(waiting + 2 * AHEAD):
        if step < waiting:
            entry = slots[block[step, HASH] & mask]
            if entry >= 0:
                prefetch(entries, (entry & 0x7FFFFFFF) * 8)
        behind = step - AHEAD
        if 0 <= behind < waiting and block[behind, NAME_SIZE] >= 0:
            entry = slots[block[behind, HASH] & mask]
            if entry >= 0:
                place = tables.names[entries[entry & 0x7FFFFFFF, NAME] >> 32, PLACE] >> 20
                prefetch(tables.arena, place)
                prefetch(tables.arena, place + 56)
        at = step - 2 * AHEAD
        if at < 0:
            continue
        entry = entry_of(data, block[at, HASH], before, block[at, NAME_AT], block[at, NAME_SIZE], tables)
        if entry < 0:
            return HAND_OVER
        before = entries[entry, NAME] >> 32
        producer = block[at, PRODUCER]
        offset = block[at, OFFSET]
        value_size = block[at, VALUE_SIZE]
        if value_size < 0 and (producer == NO_TRANSACTION or not classic):
            # A tombstone. Under the classic coordinator it waits for the marker if it is in a transaction.
            entries[entry, RECORD] = -1
            tables.tombstones[entry] = offset
            continue
        highest = rules[TYPE0_VALUES] if data[block[at, NAME_AT] - 1] == 0 else rules[OFFSET_VALUES]
        status = OK
        if value_size >= 0:
            entries[entry, SEEN] = offset
        if producer == NO_TRANSACTION:
            entries[entry, RECORD] = offset
            entries[entry, BATCH] = block[at, FIRST]
            status = put_value(data, block[at, VALUE], value_size, highest, tables, entries, tables.extras, entry)
        else:
            node = new_node(producer, value_size < 0, tables)
            if node >= 0:
                nodes[node, ENTRY] = ~entry if value_size < 0 else entry
                nodes[node, RECORD] = offset
                nodes[node, BATCH] = block[at, FIRST]
                nodes[node, NOTE] = 0
            if value_size >= 0:
                status = put_value(data, block[at, VALUE], value_size, highest, tables, nodes, tables.node_extras, node)
        if status != OK:
            return status
    return OK
