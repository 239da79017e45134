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

from kafkagroups.kernels.compiled import inlined, kernel
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


@kernel
def fold_segment(
    data: Any, start: int, rules: Any, counts: Any, slots: Any, entries: Any, more: Any, tombs: Any, arena: Any,
    nodes: Any, node_more: Any, producers: Any, rows: Any, block: Any, found: Any,
) -> tuple[int, int]:  # fmt: skip
    """Folds the batches of one segment from `start` on. Gives a status and where it stopped.

    FULL, PACKED: call again from there with more room, or from behind the batch. ODD: the readable loader is to load this partition. CUT: what `until`
    or `until_time` allows has been read. `rows` gets the records of other types: offset, key, its size, value, its size.
    """
    limits = (min(len(entries), len(slots) // 2), len(arena), len(nodes), len(producers) // 2, len(rows))
    mask = len(slots) - 1
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
        has_room = _has_room(size + pledged, count, counts, limits)
        if waiting and (is_control or not has_room or waiting + count > BLOCK):
            status = _fold(
                data, block, waiting, rules, counts, slots, entries, more, tombs, arena, nodes, node_more, producers
            )
            waiting, pledged = 0, 0
            if status != OK:
                return status, at
            has_room = _has_room(size, count, counts, limits)
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
                    rows[counts[ROWS], 0] = offset
                    for column in range(1, 5):
                        rows[counts[ROWS], column] = found[column]
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
                hashed = hash_bytes(data, found[1] + 2, size_of_key)
                prefetch(slots, hashed & mask)
                block[waiting, HASH] = hashed
                block[waiting, KEY], block[waiting, KEY_SIZE] = found[1] + 2, size_of_key
                block[waiting, VALUE], block[waiting, VALUE_SIZE] = found[3], found[4]
                block[waiting, OFFSET], block[waiting, FIRST] = offset, first
                block[waiting, PRODUCER] = producer if pending else NOBODY
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


@kernel
def _is_zero(data: Any, at: int, end: int) -> bool:
    for place in range(at, end):
        if data[place]:
            return False
    return True


@inlined
def _has_room(size: int, count: int, counts: Any, limits: Any) -> bool:
    """Whether a batch of so many bytes and records surely fits, together with the block that waits."""
    many = count + BLOCK
    return (
        counts[ENTRIES] + many <= limits[0]
        and counts[ARENA] + size <= limits[1]
        and counts[NODES] + many <= limits[2]
        and counts[PRODUCERS] + 2 <= limits[3]
        and counts[ROWS] + count <= limits[4]
    )


@inlined
def _same(data: Any, start: int, arena: Any, place: int, size: int) -> bool:
    """Whether two runs of at least 8 bytes are equal."""
    at, last = 0, size - 8
    while at < last:
        if load64(data, start + at) != load64(arena, place + at):
            return False
        at += 8
    return load64(data, start + last) == load64(arena, place + last)


AHEAD = 8


@kernel
def _fold(
    data: Any, block: Any, waiting: int, rules: Any, counts: Any, slots: Any, entries: Any, more: Any, tombs: Any,
    arena: Any, nodes: Any, node_more: Any, producers: Any,
) -> int:  # fmt: skip
    """Folds the block: three steps, each AHEAD of the next. No views of rows are made: they would cost more than the work."""
    mask = len(slots) - 1
    classic = rules[CLASSIC] != 0
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
        at = step - 2 * AHEAD
        if at < 0:
            continue
        entry = _entry_of(
            data, block[at, HASH], block[at, KEY], block[at, KEY_SIZE], mask, counts, slots, entries, tombs, arena
        )
        if entry < 0:
            return ODD
        producer, offset, value_size = block[at, PRODUCER], block[at, OFFSET], block[at, VALUE_SIZE]
        if value_size < 0 and (producer == NOBODY or not classic):
            entries[entry, RECORD] = -1  # a tombstone; in a transaction a classic one waits
            tombs[entry] = offset
            continue
        highest = rules[TYPE0_VALUES] if data[block[at, KEY] - 1] == 0 else rules[OFFSET_VALUES]
        status = OK
        if value_size >= 0:
            entries[entry, SEEN] = offset
        if producer == NOBODY:
            entries[entry, RECORD], entries[entry, BATCH] = offset, block[at, FIRST]
            status = _value(data, block[at, VALUE], value_size, highest, rules, counts, entries, more, entry, arena)
        else:
            node = _node(producer, value_size < 0, counts, nodes, producers)
            if node >= 0:
                nodes[node, ENTRY] = ~entry if value_size < 0 else entry
                nodes[node, P_RECORD], nodes[node, P_BATCH], nodes[node, P_NOTE] = offset, block[at, FIRST], 0
            if value_size >= 0:
                status = _value(
                    data, block[at, VALUE], value_size, highest, rules, counts, nodes, node_more, node, arena
                )
        if status != OK:
            return status
    return OK


@inlined
def _entry_of(
    data: Any,
    hashed: int,
    key: int,
    size: int,
    mask: int,
    counts: Any,
    slots: Any,
    entries: Any,
    tombs: Any,
    arena: Any,
) -> int:
    """The entry of a key, made when there is none; -1 for a key that is no plain text."""
    tag = hashed >> 32 & 0x7FFFFFFF
    slot = hashed & mask
    found = np.int64(-1)
    while slots[slot] >= 0:
        if slots[slot] >> 32 == tag:
            entry = slots[slot] & 0x7FFFFFFF
            name = entries[entry, NAME]
            if name & SIZE == size and _same(data, key, arena, name >> 20, size):
                found = entry
                break
        slot = slot + 1 & mask
    if found < 0 and _is_key_plain(data, key):
        found = counts[ENTRIES]
        counts[ENTRIES] += 1
        slots[slot] = tag << 32 | found
        _new_entry(data, key, size, found, counts, entries, tombs, arena)
    return found


@kernel
def _is_key_plain(data: Any, key: int) -> bool:
    group = int16(data, key)
    topic = key + 2 + group
    return is_plain_text(data, key + 2, group) and is_plain_text(data, topic + 2, int16(data, topic))


@kernel
def _new_entry(data: Any, key: int, size: int, entry: int, counts: Any, entries: Any, tombs: Any, arena: Any) -> None:
    place = counts[ARENA]
    for at in range(size):
        arena[place + at] = data[key + at]
    counts[ARENA] += size
    for column in range(8):
        entries[entry, column] = 0
    entries[entry, SEEN], entries[entry, NAME] = -1, place << 20 | size
    entries[entry, RECORD], entries[entry, BATCH] = -1, -1
    tombs[entry] = -1


@kernel
def _node(producer: int, dead: bool, counts: Any, nodes: Any, producers: Any) -> int:
    """A new node at the head of the producer's list; -1 for a tombstone where nothing waits."""
    place = _producer(producer, counts, producers)
    if dead and producers[place, 1] < 0:
        return -1
    node = counts[FREE]
    if node >= 0:
        counts[FREE] = nodes[node, NEXT]
    else:
        node = counts[NODES]
        counts[NODES] += 1
    nodes[node, NEXT], producers[place, 1] = producers[place, 1], node
    return node


@kernel
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


@kernel
def _value(
    data: Any, at: int, value_size: int, highest: int, rules: Any, counts: Any, table: Any, extra: Any, row: int,
    arena: Any,
) -> int:  # fmt: skip
    """Reads an offset's value into a row of entries or nodes (their columns are the same). ODD when it is not plain."""
    end = at + value_size
    if value_size < 2 + 8 + 1 + 8:
        return ODD
    version = int16(data, at)
    if version < 0 or version > highest:
        return ODD
    table[row, COMMITTED] = int64(data, at + 2)
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
    table[row, TIME] = int64(data, at)
    at += 8
    if version == 1:
        if at + 8 > end:
            return ODD
        expire = int64(data, at)
        if expire != -1:
            flags = np.int64(HAS_EXPIRE)
            extra[row, 0] = expire
    if version == 4:
        if at >= end or data[at] > 1:
            return ODD
        if data[at] == 1:
            if at + 19 > end or data[at + 1] != 0 or data[at + 2] != 16:
                return ODD
            if rules[KNOWS_TOPIC_IDS]:
                extra[row, 1], extra[row, 2] = load64(data, at + 3), load64(data, at + 11)
                flags = np.int64(HAS_TOPIC) if extra[row, 1] or extra[row, 2] else np.int64(0)
    table[row, EPOCH] = (epoch & 0xFFFFFFFF) | flags
    if size or table[row, NOTE]:
        _keep_note(data, note, size, counts, table, row, arena)
    return OK


@kernel
def _keep_note(data: Any, note: int, size: int, counts: Any, table: Any, row: int, arena: Any) -> None:
    """Copies metadata into the arena, over the row's old one where it fits."""
    old = table[row, NOTE]
    place = old >> 20
    if old & SIZE < size:
        counts[GARBAGE] += old & SIZE
        place = counts[ARENA]
        counts[ARENA] += size
    for step in range(size):
        arena[place + step] = data[note + step]
    table[row, NOTE] = place << 20 | size if size else 0


@kernel
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
        named = nodes[node, ENTRY]
        entry = named if named >= 0 else ~named
        if more[entry, 3] != counts[MARK]:
            more[entry, 3] = counts[MARK]
            there = entries[entry, RECORD]
            if rules[CLASSIC]:
                newer = there < 0 or entries[entry, BATCH] < nodes[node, P_BATCH]
            else:
                newer = nodes[node, P_RECORD] > tombs[entry] and there < nodes[node, P_RECORD]
            if named >= 0 and commits and newer:
                counts[GARBAGE] += entries[entry, NOTE] & SIZE
                for column in range(P_COMMITTED, P_EPOCH + 1):
                    entries[entry, column] = nodes[node, column]
                for column in range(3):
                    more[entry, column] = node_more[node, column]
        following = nodes[node, NEXT]
        nodes[node, NEXT] = counts[FREE]
        counts[FREE] = node
        node = following


@kernel
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


@kernel
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
            slot = short_hash(data, start, length) & mask
            while table[slot, 1] >= 0:
                if table[slot, 1] == length and _same_text(data, start, groups, table[slot, 0], length):
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


@kernel
def short_hash(data: Any, start: int, size: int) -> int:
    """A hash of bytes, however few."""
    mixed = np.uint64(14695981039346656037)
    for at in range(start, start + size):
        mixed = (mixed ^ np.uint64(data[at])) * np.uint64(1099511628211)
    return np.int64(mixed ^ mixed >> np.uint64(32))


@kernel
def _same_text(data: Any, start: int, other: Any, place: int, size: int) -> bool:
    for at in range(size):
        if data[start + at] != other[place + at]:
            return False
    return True
