"""The fold: the last writer of each key wins, transactions wait for their marker. Compiled, for one log partition.

The rules are those of groups/offsets.py; the two coordinators differ where `CLASSIC` stands. A block of records is
folded in three steps that lie apart, so that memory has time to come: slot, entry, and the name, where it is not that
of the row before. No views of rows are made: they would cost more than the work.
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
    CHECKS_CRC,
    CLASSIC,
    COMMIT,
    ENTRIES,
    ENTRY,
    MOST,
    NAME,
    NAMES,
    NEEDS_A_MARKER,
    NEXT_OFFSET,
    NOBODY,
    NODES,
    NOTE,
    OFFSET_VALUES,
    PLACE,
    PRODUCERS,
    RECORD,
    RECORDS,
    ROWS,
    SEEN,
    TYPE0_VALUES,
    UNTIL,
    UNTIL_TIME,
)
from kafkagroups.kernels.scan import (
    BLOCK,
    CUT,
    FIRST,
    FULL,
    HASH,
    HEADER,
    NAME_AT,
    NAME_SIZE,
    ODD,
    OFFSET,
    OK,
    PACKED,
    PAUSED,
    PRODUCER,
    SHORT,
    VALUE,
    VALUE_SIZE,
    int16,
    int32,
    int64,
    name_size,
    record_at,
    same_text,
    short_hash,
)
from kafkagroups.kernels.table import entry_of, key_hash
from kafkagroups.kernels.transactions import end_transaction, new_node
from kafkagroups.kernels.values import put_value


@kernel
def fold_segment(
    data: Any, start: int, stride: int, is_last: bool, tables: Any, rows: Any, block: Any
) -> tuple[int, int]:
    """Folds the batches of one segment from `start` on, about a stride of bytes. Gives a status and where it stopped.

    FULL, PACKED, PAUSED: call again from there, with more room, or from behind the batch; SHORT, unless this is the
    segment's last piece: with more bytes. ODD: the readable loader is to load this partition. CUT: what `until` or
    `until_time` allows has been read. OK before the end: zeros follow. `rows` gets the records of other types: offset,
    key, its size, value, its size.
    """
    rules, counts, slots = tables.rules, tables.counts, tables.slots
    limits = _limits(tables, rows)
    mask = len(slots) - 1
    at, end = start, len(data)
    waiting, pledged, status = 0, 0, OK
    promised = 0  # producers that the waiting block may bring
    before_at, before_size, name = np.int64(0), np.int64(-1), np.int64(0)  # of the row before, and its hash
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
            status = SHORT
            break
        if length < 49 or size > end - at or data[at + 16] != 2:
            status = OK if _is_zero(data, at, end) else ODD
            break
        base, attributes, count = int64(data, at), int16(data, at + 21), int32(data, at + 57)
        producer = int64(data, at + 43)
        if rules[CHECKS_CRC] and crc32c(data, at + 21, at + size) != int32(data, at + 17) & 0xFFFFFFFF:
            return ODD, at
        if int64(data, at + 35) > rules[UNTIL_TIME] or base >= rules[UNTIL]:
            status = CUT
            break
        if count < 0 or producer == NOBODY:
            return ODD, at
        if attributes & 7:
            status = PACKED
            break
        last = base + int32(data, at + 23)
        if count > size or base < counts[NEXT_OFFSET] or last < base or last == MOST:  # it holds fewer; offsets rise
            return ODD, at
        is_control = (attributes & 0x20) != 0
        has_room = _has_room(size + pledged, count, promised, counts, limits)
        if waiting and (is_control or not has_room or waiting + count > BLOCK):
            status = _fold(data, block, waiting, tables)
            waiting, pledged, promised = 0, 0, 0
            if status != OK:
                return status, at
            has_room = _has_room(size, count, 0, counts, limits)
        if not has_room:
            return FULL, at
        stop, place = at + size, at + HEADER
        if is_control:
            if count == 0 and rules[NEEDS_A_MARKER]:
                return ODD, at
            for number in range(count):
                place, _, key, key_size, _, _ = record_at(data, place, stop)
                if place < 0 or key_size < 4 or int16(data, key) < 0:
                    return ODD, at
                kind = int16(data, key + 2)
                if (number == 0) if rules[CLASSIC] else (kind in (COMMIT, ABORT)):
                    commits = kind == COMMIT
                    end_transaction(producer, commits, tables)
        else:
            pledged += size
            promised += 1
            pending = (attributes & 0x10) != 0 if rules[CLASSIC] else producer != -1
            first = np.int64(-1)
            before = base - 1
            for number in range(count):
                place, delta, key, key_size, value, value_size = record_at(data, place, stop)
                offset = base + delta
                if place < 0 or key_size < 2 or offset <= before or offset > last:
                    return ODD, at
                before = offset
                first = offset if number == 0 else first
                kind = int16(data, key)
                if kind != 0 and kind != 1:
                    row = counts[ROWS]
                    rows[row, 0], rows[row, 1], rows[row, 2] = offset, key, key_size
                    rows[row, 3], rows[row, 4] = value, value_size
                    counts[ROWS] += 1
                    continue
                size_of_name = name_size(data, key, key_size)
                if size_of_name < 0:
                    return ODD, at
                if waiting == BLOCK:  # within a batch that is larger than a block
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
                    block[waiting, NAME_SIZE] = before_size = size_of_name
                block[waiting, NAME_AT] = before_at = at_name
                hashed = key_hash(name, int32(data, at_name + size_of_name))
                prefetch(slots, hashed & mask)
                block[waiting, HASH] = hashed
                block[waiting, VALUE], block[waiting, VALUE_SIZE] = value, value_size
                block[waiting, OFFSET], block[waiting, FIRST] = offset, first
                block[waiting, PRODUCER] = producer if pending else NOBODY
                waiting += 1
        if place != stop:
            return ODD, at
        counts[BATCHES] += 1
        counts[RECORDS] += count
        counts[NEXT_OFFSET] = last + 1
        at = stop
    if waiting and status != ODD:
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
    """How many entries, bytes, nodes, producers, rows and names there is room for."""
    return (
        min(len(tables.entries), len(tables.slots) // 2),
        len(tables.arena),
        len(tables.nodes),
        len(tables.producers) // 2,
        len(rows),
        min(len(tables.names), len(tables.name_slots) // 2),
    )


@inlined
def _has_room(size: int, count: int, promised: int, counts: Any, limits: Any) -> bool:
    """Whether a batch of so many bytes and records surely fits, together with the block that waits."""
    many = count + BLOCK
    return (
        counts[ENTRIES] + many <= limits[0]
        and counts[ARENA] + size <= limits[1]
        and counts[NODES] + many <= limits[2]
        and counts[PRODUCERS] + promised + 2 <= limits[3]
        and counts[ROWS] + count <= limits[4]
        and counts[NAMES] + many <= limits[5]
    )


@kernel
def _fold(data: Any, block: Any, waiting: int, tables: Any) -> int:
    """Folds the block: three steps, each AHEAD of the next."""
    rules, slots, entries, nodes = tables.rules, tables.slots, tables.entries, tables.nodes
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
            return ODD
        before = entries[entry, NAME] >> 32
        producer, offset, value_size = block[at, PRODUCER], block[at, OFFSET], block[at, VALUE_SIZE]
        if value_size < 0 and (producer == NOBODY or not classic):
            entries[entry, RECORD] = -1  # a tombstone; in a transaction a classic one waits
            tables.tombs[entry] = offset
            continue
        highest = rules[TYPE0_VALUES] if data[block[at, NAME_AT] - 1] == 0 else rules[OFFSET_VALUES]
        status = OK
        if value_size >= 0:
            entries[entry, SEEN] = offset
        if producer == NOBODY:
            entries[entry, RECORD], entries[entry, BATCH] = offset, block[at, FIRST]
            status = put_value(data, block[at, VALUE], value_size, highest, tables, entries, tables.more, entry)
        else:
            node = new_node(producer, value_size < 0, tables)
            if node >= 0:
                nodes[node, ENTRY] = ~entry if value_size < 0 else entry
                nodes[node, RECORD], nodes[node, BATCH], nodes[node, NOTE] = offset, block[at, FIRST], 0
            if value_size >= 0:
                status = put_value(data, block[at, VALUE], value_size, highest, tables, nodes, tables.node_more, node)
        if status != OK:
            return status
    return OK
