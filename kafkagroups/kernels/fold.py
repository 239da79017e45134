"""The fold: the last writer of each key wins, transactions wait for their marker. Compiled, for one log partition.

    slots     int64, open addressing: the upper half of a key's hash and its entry, -1 free
    entries   a row of 8 int64 for each key, one cache line: see below
    arena     uint8: keys, and metadata that is not empty
    nodes     pending commits, a list for each producer with an open transaction, newest first

The rules are those of groups/offsets.py; the two coordinators differ where `classic` stands. A block of records is
folded in three steps that lie apart, so that memory has time to come: slot, entry, key.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from kafkagroups.kernels.crc32c import crc32c
from kafkagroups.kernels.intrinsics import load64, prefetch
from kafkagroups.kernels.scan import (
    BLOCK,
    CUT,
    FIRST,
    FULL,
    HASH,
    HEADER,
    KEY,
    KEY_SIZE,
    ODD,
    OFFSET,
    OK,
    PACKED,
    PRODUCER,
    VALUE,
    VALUE_SIZE,
    hash_bytes,
    int16,
    int32,
    int64,
    is_plain_text,
    offset_key_size,
    record_at,
    uvarint,
)

# The columns of an entry. A place is position << 20 | size in the arena.
SEEN, NAME, COMMITTED, RECORD, BATCH, TIME, NOTE, EPOCH = range(8)
"""Newest record with a value; key; committed offset; its record (-1: none), its batch's first; time; metadata; epoch."""
# The columns of a node.
NEXT, ENTRY, P_COMMITTED, P_RECORD, P_BATCH, P_TIME, P_NOTE, P_EPOCH = range(8)
HAS_EXPIRE, HAS_TOPIC = 1 << 32, 1 << 33
"""Bits of EPOCH, whose lower half is the leader epoch: `more` holds an expire timestamp, or a topic id."""
# The counts of a fold.
ENTRIES, ARENA, NODES, FREE, PRODUCERS, BATCHES, RECORDS, NEXT_OFFSET, ROWS, GARBAGE, MARK = range(11)
# Its rules.
CLASSIC, OFFSET_VALUES, TYPE0_VALUES, KNOWS_TOPIC_IDS, UNTIL, UNTIL_TIME, CHECKS_CRC, NEEDS_A_MARKER = range(8)

COMMIT, ABORT = 1, 0
SIZE = (1 << 20) - 1
NOBODY = -(1 << 62)
"""The producer of a row that is no part of a transaction."""


@njit(cache=True, nogil=True)
def fold_segment(
    data: Any, start: int, rules: Any, counts: Any, slots: Any, entries: Any, more: Any, tombs: Any, arena: Any,
    nodes: Any, node_more: Any, producers: Any, rows: Any, block: Any,
) -> tuple[int, int]:  # fmt: skip
    """Folds the batches of one segment from `start` on. Gives a status and where it stopped.

    FULL, PACKED: call again from there with more room, or from behind the batch. ODD: the readable loader is to load this partition. CUT: what `until`
    or `until_time` allows has been read. `rows` gets the records of other types: offset, key, its size, value, its size.
    """
    found = np.empty(5, np.int64)
    at, end = start, len(data)
    waiting, pledged, status = 0, 0, OK
    while at < end and status == OK:
        length = np.int64(0)
        if end - at >= HEADER:
            length = int32(data, at + 8)
        size = length + 12
        if length < 49 or size > end - at or data[at + 16] != 2:
            status = OK if _is_zero(data, at, end) else ODD
            break
        base, attributes, count = int64(data, at), int16(data, at + 21), int32(data, at + 57)
        late = rules[UNTIL_TIME] >= 0 and int64(data, at + 35) > rules[UNTIL_TIME]
        if late or (rules[UNTIL] >= 0 and base >= rules[UNTIL]):
            status = CUT
            break
        if rules[CHECKS_CRC] and crc32c(data, at + 21, at + size) != int32(data, at + 17) & 0xFFFFFFFF:
            return ODD, at
        if count < 0:
            return ODD, at
        if attributes & 7:
            status = PACKED
            break
        producer = int64(data, at + 43)
        is_control = (attributes & 0x20) != 0
        has_room = _has_room(size + pledged, count, counts, slots, entries, arena, nodes, producers, rows)
        if waiting and (is_control or not has_room or waiting + count > BLOCK):
            status = _fold(
                data, block, waiting, rules, counts, slots, entries, more, tombs, arena, nodes, node_more, producers
            )
            waiting, pledged = 0, 0
            if status != OK:
                return status, at
            has_room = _has_room(size, count, counts, slots, entries, arena, nodes, producers, rows)
        if not has_room:
            return FULL, at
        stop, place = at + size, at + HEADER
        if is_control:
            if count == 0 and rules[NEEDS_A_MARKER]:
                return ODD, at
            for number in range(count):
                place = record_at(data, place, stop, found)
                if place < 0 or found[2] < 4 or int16(data, found[1]) < 0:
                    return ODD, at
                kind = int16(data, found[1] + 2)
                if (number == 0) if rules[CLASSIC] else (kind in (COMMIT, ABORT)):
                    commits = kind == COMMIT
                    _end_transaction(
                        producer, commits, rules, counts, entries, more, tombs, nodes, node_more, producers
                    )
        else:
            pledged += size
            pending = (attributes & 0x10) != 0 if rules[CLASSIC] else producer != -1
            first = np.int64(-1)
            for number in range(count):
                place = record_at(data, place, stop, found)
                if place < 0 or found[2] < 2:
                    return ODD, at
                offset = base + found[0]
                first = offset if number == 0 else first
                kind = int16(data, found[1])
                if kind != 0 and kind != 1:
                    row = rows[counts[ROWS]]
                    row[0], row[1], row[2], row[3], row[4] = offset, found[1], found[2], found[3], found[4]
                    counts[ROWS] += 1
                    continue
                size_of_key = offset_key_size(data, found[1], found[2])
                if size_of_key < 0:
                    return ODD, at
                if waiting == BLOCK:  # within a batch that is larger than a block
                    status = _fold(
                        data, block, waiting, rules, counts, slots, entries, more, tombs, arena, nodes, node_more,
                        producers,
                    )  # fmt: skip
                    waiting = 0
                    if status != OK:
                        return status, at
                row = block[waiting]
                row[HASH] = hash_bytes(data, found[1] + 2, size_of_key)
                row[KEY], row[KEY_SIZE] = found[1] + 2, size_of_key
                row[VALUE], row[VALUE_SIZE] = found[3], found[4]
                row[OFFSET], row[FIRST] = offset, first
                row[PRODUCER] = producer if pending else NOBODY
                prefetch(slots, row[HASH] & len(slots) - 1)
                waiting += 1
        if place != stop:
            return ODD, at
        counts[BATCHES] += 1
        counts[RECORDS] += count
        counts[NEXT_OFFSET] = base + int32(data, at + 23) + 1
        at = stop
    if waiting and status != ODD:
        folded = _fold(
            data, block, waiting, rules, counts, slots, entries, more, tombs, arena, nodes, node_more, producers
        )
        status = folded if folded != OK else status
    return status, at


@njit(cache=True, nogil=True)
def _is_zero(data: Any, at: int, end: int) -> bool:
    for place in range(at, end):
        if data[place]:
            return False
    return True


@njit(cache=True, nogil=True)
def _has_room(
    size: int, count: int, counts: Any, slots: Any, entries: Any, arena: Any, nodes: Any, producers: Any, rows: Any
) -> bool:
    """Whether a batch of so many bytes and records surely fits, together with the block that waits."""
    many = count + BLOCK
    return (
        counts[ENTRIES] + many <= len(entries)
        and 2 * (counts[ENTRIES] + many) <= len(slots)
        and counts[ARENA] + size <= len(arena)
        and counts[NODES] + many <= len(nodes)
        and 2 * (counts[PRODUCERS] + 2) <= len(producers)
        and counts[ROWS] + count <= len(rows)
    )


@njit(cache=True, nogil=True)
def _same(data: Any, start: int, arena: Any, place: int, size: int) -> bool:
    at = 0
    while at + 8 <= size:
        if load64(data, start + at) != load64(arena, place + at):
            return False
        at += 8
    while at < size:
        if data[start + at] != arena[place + at]:
            return False
        at += 1
    return True


AHEAD = 8


@njit(cache=True, nogil=True)
def _fold(
    data: Any, block: Any, waiting: int, rules: Any, counts: Any, slots: Any, entries: Any, more: Any, tombs: Any,
    arena: Any, nodes: Any, node_more: Any, producers: Any,
) -> int:  # fmt: skip
    """Folds the block: three steps, each AHEAD of the next."""
    mask = len(slots) - 1
    for step in range(waiting + 2 * AHEAD):
        if step < waiting:
            entry = slots[block[step, HASH] & mask]
            if entry >= 0:
                prefetch(entries, (entry & 0x7FFFFFFF) * 8)
        behind = step - AHEAD
        if 0 <= behind < waiting:
            entry = slots[block[behind, HASH] & mask]
            if entry >= 0:
                prefetch(arena, entries[entry & 0x7FFFFFFF, NAME] >> 20)
        behind = step - 2 * AHEAD
        if behind >= 0:
            row = block[behind]
            entry = _entry_of(data, row, mask, counts, slots, entries, tombs, arena)
            if entry < 0:
                return ODD
            if row[PRODUCER] == NOBODY:
                status = _plain(data, row, entry, rules, counts, entries, more, tombs, arena)
            else:
                status = _pending(
                    data, row, entry, rules, counts, entries, more, tombs, arena, nodes, node_more, producers
                )
            if status != OK:
                return status
    return OK


@njit(cache=True, nogil=True)
def _entry_of(data: Any, row: Any, mask: int, counts: Any, slots: Any, entries: Any, tombs: Any, arena: Any) -> int:
    """The entry of a key, made when there is none; -1 for a key that is no plain text."""
    tag = row[HASH] >> 32 & 0x7FFFFFFF
    slot = row[HASH] & mask
    while slots[slot] >= 0:
        if slots[slot] >> 32 == tag:
            entry = slots[slot] & 0x7FFFFFFF
            name = entries[entry, NAME]
            if name & SIZE == row[KEY_SIZE] and _same(data, row[KEY], arena, name >> 20, row[KEY_SIZE]):
                return entry
        slot = slot + 1 & mask
    group = int16(data, row[KEY])
    topic = row[KEY] + 2 + group
    if not is_plain_text(data, row[KEY] + 2, group) or not is_plain_text(data, topic + 2, int16(data, topic)):
        return -1
    entry = counts[ENTRIES]
    counts[ENTRIES] += 1
    slots[slot] = tag << 32 | entry
    place = counts[ARENA]
    for at in range(row[KEY_SIZE]):
        arena[place + at] = data[row[KEY] + at]
    counts[ARENA] += row[KEY_SIZE]
    made = entries[entry]
    made[SEEN], made[NAME], made[RECORD], made[BATCH] = -1, place << 20 | row[KEY_SIZE], -1, -1
    made[COMMITTED], made[TIME], made[NOTE], made[EPOCH] = 0, 0, 0, 0
    tombs[entry] = -1
    return entry


@njit(cache=True, nogil=True)
def _plain(
    data: Any, row: Any, entry: int, rules: Any, counts: Any, entries: Any, more: Any, tombs: Any, arena: Any
) -> int:
    """A commit outside of transactions, or a tombstone: it counts at once."""
    target = entries[entry]
    if row[VALUE_SIZE] < 0:
        target[RECORD] = -1
        tombs[entry] = row[OFFSET]
        return OK
    target[SEEN] = row[OFFSET]
    target[RECORD], target[BATCH] = row[OFFSET], row[FIRST]
    return _value(data, row, rules, counts, target, more[entry], arena)


@njit(cache=True, nogil=True)
def _pending(
    data: Any, row: Any, entry: int, rules: Any, counts: Any, entries: Any, more: Any, tombs: Any, arena: Any,
    nodes: Any, node_more: Any, producers: Any,
) -> int:  # fmt: skip
    """A commit in a transaction waits in its producer's list; a classic tombstone waits with it, a new one acts at once."""
    dead = row[VALUE_SIZE] < 0
    if dead and not rules[CLASSIC]:
        entries[entry, RECORD] = -1
        tombs[entry] = row[OFFSET]
        return OK
    place = _producer(row[PRODUCER], counts, producers)
    if dead and producers[place, 1] < 0:
        return OK
    if counts[FREE] >= 0:
        node = counts[FREE]
        counts[FREE] = nodes[node, NEXT]
    else:
        node = counts[NODES]
        counts[NODES] += 1
    made = nodes[node]
    made[NEXT], producers[place, 1] = producers[place, 1], node
    made[ENTRY] = ~entry if dead else entry
    made[P_RECORD], made[P_BATCH], made[P_NOTE] = row[OFFSET], row[FIRST], 0
    if dead:
        return OK
    entries[entry, SEEN] = row[OFFSET]
    return _value(data, row, rules, counts, made, node_more[node], arena)


@njit(cache=True, nogil=True)
def _producer(producer: int, counts: Any, producers: Any) -> int:
    """The place of a producer in the open-addressed table of (id + 1, first node)."""
    mask = len(producers) - 1
    place = (np.uint64(producer) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(33)) & np.uint64(mask)
    at = np.int64(place)
    while producers[at, 2]:
        if producers[at, 0] == producer:
            return at
        at = at + 1 & mask
    producers[at, 0], producers[at, 1], producers[at, 2] = producer, -1, 1
    counts[PRODUCERS] += 1
    return at


@njit(cache=True, nogil=True)
def _value(data: Any, row: Any, rules: Any, counts: Any, target: Any, extra: Any, arena: Any) -> int:
    """Reads an offset's value into an entry or a node (their columns are the same). ODD when it is not plain."""
    at, end = row[VALUE], row[VALUE] + row[VALUE_SIZE]
    if row[VALUE_SIZE] < 2:
        return ODD
    version = int16(data, at)
    highest = rules[TYPE0_VALUES] if data[row[KEY] - 1] == 0 else rules[OFFSET_VALUES]
    if version < 0 or version > highest or end - at < 2 + 8 + 1 + 8:
        return ODD
    target[COMMITTED] = int64(data, at + 2)
    at += 10
    epoch, flags = np.int64(-1), np.int64(0)
    if version >= 3:
        epoch = int32(data, at)
        at += 4
    if version == 4:
        size, at = uvarint(data, at, end)
        size -= 1
        if at < 0 or size > 0x7FFF:
            return ODD
    else:
        if at + 2 > end:
            return ODD
        size = int16(data, at)
        at += 2
    note = at
    at += size
    if size < 0 or at + 8 > end:
        return ODD
    target[TIME] = int64(data, at)
    at += 8
    if version == 1:
        if at + 8 > end:
            return ODD
        extra[0] = int64(data, at)
        flags = np.int64(HAS_EXPIRE) if extra[0] != -1 else np.int64(0)
    if version == 4:
        if at >= end or data[at] > 1:
            return ODD
        if data[at] == 1:
            if at + 19 > end or data[at + 1] != 0 or data[at + 2] != 16:
                return ODD
            if rules[KNOWS_TOPIC_IDS]:
                extra[1], extra[2] = load64(data, at + 3), load64(data, at + 11)
                flags = np.int64(HAS_TOPIC) if extra[1] or extra[2] else np.int64(0)
    target[EPOCH] = (epoch & 0xFFFFFFFF) | flags
    if size == 0:
        target[NOTE] = 0
        return OK
    old = target[NOTE]
    place = old >> 20
    if old & SIZE < size:
        counts[GARBAGE] += old & SIZE
        place = counts[ARENA]
        counts[ARENA] += size
    for step in range(size):
        arena[place + step] = data[note + step]
    target[NOTE] = place << 20 | size
    return OK


@njit(cache=True, nogil=True)
def _end_transaction(
    producer: int, commits: bool, rules: Any, counts: Any, entries: Any, more: Any, tombs: Any, nodes: Any,
    node_more: Any, producers: Any,
) -> None:  # fmt: skip
    """A marker: what the producer has pending is decided, the newest of each key alone. Its nodes are free again."""
    place = _producer(producer, counts, producers)
    node = producers[place, 1]
    producers[place, 1] = -1
    counts[MARK] += 1
    while node >= 0:
        waits = nodes[node]
        entry = waits[ENTRY] if waits[ENTRY] >= 0 else ~waits[ENTRY]
        if more[entry, 3] != counts[MARK]:
            more[entry, 3] = counts[MARK]
            target = entries[entry]
            if waits[ENTRY] >= 0 and commits:
                if rules[CLASSIC]:
                    newer = target[RECORD] < 0 or target[BATCH] < waits[P_BATCH]
                else:
                    newer = waits[P_RECORD] > tombs[entry] and target[RECORD] < waits[P_RECORD]
                if newer:
                    counts[GARBAGE] += target[NOTE] & SIZE
                    for column in range(P_COMMITTED, P_EPOCH + 1):
                        target[column] = waits[column]
                    more[entry, 0], more[entry, 1], more[entry, 2] = (
                        node_more[node, 0],
                        node_more[node, 1],
                        node_more[node, 2],
                    )
        following = waits[NEXT]
        waits[NEXT] = counts[FREE]
        counts[FREE] = node
        node = following


@njit(cache=True, nogil=True)
def rehash(entries: Any, count: int, arena: Any, slots: Any) -> None:
    """Fills empty slots with all entries."""
    mask = len(slots) - 1
    for entry in range(count):
        name = entries[entry, NAME]
        hashed = hash_bytes(arena, name >> 20, name & SIZE)
        slot = hashed & mask
        while slots[slot] >= 0:
            slot = slot + 1 & mask
        slots[slot] = (hashed >> 32 & 0x7FFFFFFF) << 32 | entry


@njit(cache=True, nogil=True)
def commit_events(data: Any, groups: Any, table: Any, has_made: Any, events: Any, found: Any) -> int:
    """When the groups of a table came to life by a commit, in a segment that was folded before; how many `events` that is.

    `groups` holds the bytes of the names, `table` by hash (place, size) of one, size -1: free. An event is a record's
    offset and the group's place in `table`; a group has one at its first commit (`has_made` is 0), and one at the first
    after each record of its own.
    """
    at, end, count = 0, len(data), 0
    mask = len(table) - 1
    while end - at >= HEADER:
        size = int32(data, at + 8) + 12
        if size < HEADER or size > end - at:
            break
        base, attributes, records = int64(data, at), int16(data, at + 21), int32(data, at + 57)
        place, stop = at + HEADER, at + size
        for _ in range(0 if attributes & 0x20 else records):
            place = record_at(data, place, stop, found)
            kind = int16(data, found[1])
            if kind <= 1 and found[4] < 0:
                continue
            start, length = found[1] + 4, int16(data, found[1] + 2)
            slot = hash_bytes(data, start, length) & mask
            while table[slot, 1] >= 0:
                if table[slot, 1] == length and _same(data, start, groups, table[slot, 0], length):
                    if kind > 1:
                        has_made[slot] = 0
                    elif not has_made[slot]:
                        has_made[slot] = 1
                        events[count, 0], events[count, 1] = base + found[0], slot
                        count += 1
                    break
                slot = slot + 1 & mask
        at = stop
    return count
