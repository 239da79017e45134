"""Kernels that follow the fates of offset records while the kernels in fold.py and transactions.py fold them.

`Fate` in groups/observer.py lists the fates. The readable engine reports each fate to an observer. The compiled engine
has no observer: if the rule FOLLOWS_FATES is set, it counts what it reads, and how many bytes are replaced. If the rule
KEEPS_EACH_FATE is set too, it also stores the fate of each record, and the offset of the record that decided the fate.

The fate of a pending commit is decided as late as possible. A producer's list of nodes contains all its pending commits
(layout.py), but only the newest one of each key counts. The older ones are superseded when the list is walked: at the
marker, or at the end of the log (`supersede_pending`). In the new coordinator, a tombstone deletes the pending commits
of all producers. So the nodes of a key also form a list, which the tombstone walks (`delete_pending`).

A key is a group, a topic and a partition. An entry is the row of a key in the array `entries`. A node is the row of a
pending commit in the array `nodes`. layout.py describes the arrays. The fates of other records are decided in
kernels/other_fates.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.layout import (
    ABORTED,
    BASE_TIMESTAMP_POSITION,
    BATCHES,
    BLOCK_BYTES,
    BLOCK_IS_TRANSACTIONAL,
    BLOCK_NUMBER,
    CONTROL_BYTES,
    CONTROL_RECORDS,
    DELETED,
    DISK_BYTES,
    ENTRY,
    FIRST_NODE,
    FIRST_NODE_OF_KEY,
    FIRST_TIME,
    HAS_EXPIRE,
    HAS_TOPIC_ID,
    IS_CLASSIC,
    IS_SETTLED,
    IS_USED,
    KEEPS_EACH_FATE,
    KIND_IS_SEEN,
    KIND_KEY_SIZE,
    KIND_KEY_START,
    KIND_VALUE_SIZE,
    KIND_VALUE_START,
    LATEST_TIME,
    MAX_TIMESTAMP_POSITION,
    NAME_AND_PARTITION,
    NAME_SIZE,
    NAME_START,
    NEWER_OFFSET,
    NEWER_SEGMENT,
    NEXT_NODE,
    NEXT_NODE_OF_KEY,
    NEXT_OFFSET,
    NODE_PRODUCER,
    PARTITION_BITS,
    PREVIOUS_NODE_OF_KEY,
    PRODUCER_ID,
    PRODUCER_NEWER_OFFSET,
    PRODUCER_NEWER_SEGMENT,
    PRODUCER_WALK,
    RECORD_BYTES,
    RECORD_NUMBER,
    RECORD_OFFSET,
    RECORD_SEGMENT,
    RECORD_TYPE,
    REPLACED_BYTES,
    RUN_START,
    SEGMENT,
    SEGMENT_BYTES,
    SUPERSEDED,
    TOMBSTONE,
    TOMBSTONE_KIND,
    TOTAL_BYTES,
    TOTAL_COLUMNS,
    TOTAL_RECORDS,
    TOTAL_TOMBSTONES,
    TRACE_END,
    TRACE_HORIZON,
    TRACE_NEWEST,
    VALUE_SIZE,
    VALUE_START,
    WALK,
    WALKS,
    WINS,
)
from kafkagroups.kernels.producers import find_or_add_producer
from kafkagroups.kernels.scan import load_int16, load_int64, read_varint
from kafkagroups.log.batch import DELETE_HORIZON, LOG_APPEND_TIME, NO_TIMESTAMP

_PARTITION_SIZE = 4


@inlined
def find_disk_size(batch_size: int, tables: Any) -> int:
    """Return the size of the next batch on disk. `batch_size` is its size without compression."""
    if len(tables.disk_sizes):
        return tables.disk_sizes[tables.counts[BATCHES] - tables.counts[RUN_START]]
    return batch_size


@inlined
def divide_bytes(disk_size: int, end: int, content_size: int, previous_end: int) -> int:
    """Return how many bytes of a batch on disk belong to a record (`divide` in history/stats.py).

    The record begins at `previous_end` and ends at `end`, both in bytes from the start of the batch's first record.
    `content_size` is the size of all records of the batch.
    """
    return disk_size * end // content_size - disk_size * previous_end // content_size


@kernel
def note_batch(disk_size: int, record_count: int, is_control: bool, tables: Any) -> None:
    """Count a batch of `disk_size` bytes that has been read."""
    counts = tables.counts
    counts[DISK_BYTES] += disk_size
    tables.segments[counts[SEGMENT], SEGMENT_BYTES] += disk_size
    if is_control or record_count == 0:
        counts[CONTROL_RECORDS] += record_count
        counts[CONTROL_BYTES] += disk_size


@inlined
def note_traces(
    data: Any, start: int, attributes: int, base_offset: int, last_offset: int, record_count: int, tables: Any
) -> None:
    """Note the traces of the log cleaner in a batch, with the rules of history/cleaning_traces.py.

    `start` is the position of the batch in `data`. NEXT_OFFSET is the offset after the batch before it.
    """
    counts = tables.counts
    segments = tables.segments
    row = counts[SEGMENT]
    if base_offset != counts[NEXT_OFFSET]:
        segments[row, TRACE_END] = base_offset
    if last_offset - base_offset + 1 > record_count:
        segments[row, TRACE_END] = last_offset + 1
    if attributes & DELETE_HORIZON:
        segments[row, TRACE_END] = last_offset + 1
        horizon = load_int64(data, start + BASE_TIMESTAMP_POSITION)
        newest = load_int64(data, start + MAX_TIMESTAMP_POSITION)
        segments[row, TRACE_HORIZON] = max(segments[row, TRACE_HORIZON], horizon)
        segments[row, TRACE_NEWEST] = max(segments[row, TRACE_NEWEST], newest)


@kernel
def note_timestamp(
    data: Any, batch_start: int, attributes: int, record_start: int, record_end: int, counts: Any
) -> int:
    """Return the timestamp of a record in ms, and extend the range from FIRST_TIME to LATEST_TIME.

    `batch_start` and `record_start` are positions in `data`. `attributes` are those of the batch.
    """
    if attributes & LOG_APPEND_TIME:
        timestamp = load_int64(data, batch_start + MAX_TIMESTAMP_POSITION)
    else:
        _, position = read_varint(data, record_start, record_end, 5)
        # Skip the attributes (one byte).
        delta, _ = read_varint(data, position + 1, record_end, 10)
        timestamp = load_int64(data, batch_start + BASE_TIMESTAMP_POSITION) + delta
    if timestamp != NO_TIMESTAMP:
        counts[FIRST_TIME] = min(counts[FIRST_TIME], timestamp)
        counts[LATEST_TIME] = max(counts[LATEST_TIME], timestamp)
    return timestamp


@kernel
def note_fate(number: int, fate: int, by: int, tables: Any) -> None:
    """Store the fate of the record with this number, and the offset of the record that decided the fate."""
    if tables.rules[KEEPS_EACH_FATE]:
        tables.fates[number] = fate
        tables.by[number] = by


@inlined
def _replace(record: Any, row: int, fate: int, by: int, by_segment: int, tables: Any) -> None:
    """Decide that another record or a marker replaces a record. Its bytes count as replaced.

    The record is row `row` of the array `record`, which is `key_records` or `node_records`.
    """
    later_segment = max(record[row, RECORD_SEGMENT], by_segment)
    tables.segments[later_segment, REPLACED_BYTES] += record[row, RECORD_BYTES]
    note_fate(record[row, RECORD_NUMBER], fate, by, tables)


@kernel
def note_offset_record(data: Any, block: Any, block_records: Any, row: int, entry: int, tables: Any) -> None:
    """Count an offset record, which is a row of the block. `entry` is the entry of its key."""
    name = tables.entries[entry, NAME_AND_PARTITION] >> PARTITION_BITS
    # The byte before the name is the lower byte of the record's type, which is 0 or 1.
    first_column = TOTAL_COLUMNS * data[block[row, NAME_START] - 1]
    totals = tables.name_totals
    totals[name, first_column + TOTAL_RECORDS] += 1
    totals[name, first_column + TOTAL_BYTES] += block_records[row, BLOCK_BYTES]
    if block[row, VALUE_SIZE] < 0:
        totals[name, first_column + TOTAL_TOMBSTONES] += 1
        note_fate(block_records[row, BLOCK_NUMBER], TOMBSTONE, -1, tables)
        note_kind(data, block, block_records, row, TOMBSTONE_KIND, np.int64(-1), tables)


@kernel
def note_value(data: Any, block: Any, block_records: Any, row: int, epoch_and_flags: int, tables: Any) -> None:
    """Note the kind of an offset record with a value. `epoch_and_flags` is what was read from the value."""
    version = load_int16(data, block[row, VALUE_START])
    note_kind(data, block, block_records, row, version, epoch_and_flags, tables)


@kernel
def note_kind(
    data: Any, block: Any, block_records: Any, row: int, version: int, epoch_and_flags: int, tables: Any
) -> None:
    """Note an example of the kind of an offset record, if it is the first one of this kind.

    Records of one kind were written by the same Kafka versions (anatomy/written_by.py): they have the same record type,
    value version and transactional bit, and they all have or all lack an expire timestamp, a topic id, a leader epoch.
    """
    is_type_1 = data[block[row, NAME_START] - 1] == 1
    has_epoch = np.int32(epoch_and_flags & 0xFFFFFFFF) != -1
    kind = np.int64(version) << 5 | np.int64(is_type_1) << 4 | np.int64(has_epoch) << 3
    kind |= np.int64((epoch_and_flags & HAS_EXPIRE) != 0) << 2 | np.int64((epoch_and_flags & HAS_TOPIC_ID) != 0) << 1
    kind |= block_records[row, BLOCK_IS_TRANSACTIONAL]
    kinds = tables.kinds
    if not kinds[kind, KIND_IS_SEEN]:
        key_start = block[row, NAME_START] - 2
        kinds[kind, KIND_IS_SEEN] = 1
        kinds[kind, KIND_KEY_START] = key_start
        kinds[kind, KIND_KEY_SIZE] = 2 + abs(block[row, NAME_SIZE]) + _PARTITION_SIZE
        kinds[kind, KIND_VALUE_START] = block[row, VALUE_START]
        kinds[kind, KIND_VALUE_SIZE] = block[row, VALUE_SIZE]


@inlined
def _fill_record(
    record: Any, target_row: int, data: Any, block: Any, block_records: Any, row: int, tables: Any
) -> None:
    """Write a row of the block into row `target_row` of the array `record`: `key_records` or `node_records`."""
    record[target_row, RECORD_NUMBER] = block_records[row, BLOCK_NUMBER]
    record[target_row, RECORD_BYTES] = block_records[row, BLOCK_BYTES]
    record[target_row, RECORD_SEGMENT] = tables.counts[SEGMENT]
    record[target_row, RECORD_TYPE] = data[block[row, NAME_START] - 1]


@kernel
def supersede_committed(
    data: Any, block: Any, block_records: Any, row: int, entry: int, offset: int, tables: Any
) -> None:
    """Replace the record of a key's committed offset by a row of the block. `offset` is the offset of its record."""
    if tables.entries[entry, RECORD_OFFSET] >= 0:
        _replace(tables.key_records, entry, SUPERSEDED, offset, tables.counts[SEGMENT], tables)
    _fill_record(tables.key_records, entry, data, block, block_records, row, tables)


@kernel
def delete_offsets(entry: int, offset: int, tables: Any) -> None:
    """Apply the tombstone at `offset`: delete the committed offset of a key, and pending commits as the rules say."""
    if tables.entries[entry, RECORD_OFFSET] >= 0:
        _replace(tables.key_records, entry, DELETED, offset, tables.counts[SEGMENT], tables)
    if not tables.rules[IS_CLASSIC]:
        _delete_pending(entry, offset, tables)


@kernel
def _delete_pending(entry: int, offset: int, tables: Any) -> None:
    """Delete the pending commits of all producers for a key. Only the newest one of each producer is still pending."""
    counts = tables.counts
    producers = tables.producers
    records = tables.node_records
    counts[WALKS] += 1
    node = tables.key_records[entry, FIRST_NODE_OF_KEY] - 1
    tables.key_records[entry, FIRST_NODE_OF_KEY] = 0
    while node >= 0:
        row = find_or_add_producer(records[node, NODE_PRODUCER], counts, producers, tables.secret)
        if producers[row, PRODUCER_WALK] == counts[WALKS]:
            newer_offset = producers[row, PRODUCER_NEWER_OFFSET]
            _replace(records, node, SUPERSEDED, newer_offset, producers[row, PRODUCER_NEWER_SEGMENT], tables)
        else:
            _replace(records, node, DELETED, offset, counts[SEGMENT], tables)
        producers[row, PRODUCER_WALK] = counts[WALKS]
        producers[row, PRODUCER_NEWER_OFFSET] = tables.nodes[node, RECORD_OFFSET]
        producers[row, PRODUCER_NEWER_SEGMENT] = records[node, RECORD_SEGMENT]
        records[node, IS_SETTLED] = 1
        node = records[node, NEXT_NODE_OF_KEY] - 1


@kernel
def keep_node_record(data: Any, block: Any, block_records: Any, row: int, entry: int, node: int, tables: Any) -> None:
    """Write a row of the block into the record of a new node. In the new coordinator, add it to the list of its key."""
    records = tables.node_records
    _fill_record(records, node, data, block, block_records, row, tables)
    records[node, NODE_PRODUCER] = block[row, PRODUCER_ID]
    records[node, IS_SETTLED] = 0
    records[node, PREVIOUS_NODE_OF_KEY] = 0
    records[node, NEXT_NODE_OF_KEY] = 0
    if not tables.rules[IS_CLASSIC]:
        next_node = tables.key_records[entry, FIRST_NODE_OF_KEY]
        records[node, NEXT_NODE_OF_KEY] = next_node
        if next_node:
            records[next_node - 1, PREVIOUS_NODE_OF_KEY] = node + 1
        tables.key_records[entry, FIRST_NODE_OF_KEY] = node + 1


@kernel
def _settle_node(node: int, entry: int, fate: int, by: int, by_segment: int, tables: Any) -> None:
    """Decide that another record or a marker replaces a pending commit."""
    _replace(tables.node_records, node, fate, by, by_segment, tables)
    _leave_key_list(node, entry, tables)


@kernel
def _leave_key_list(node: int, entry: int, tables: Any) -> None:
    """Mark a node as settled. In the new coordinator, remove it from the list of its key."""
    records = tables.node_records
    records[node, IS_SETTLED] = 1
    if tables.rules[IS_CLASSIC]:
        return
    previous_node = records[node, PREVIOUS_NODE_OF_KEY]
    next_node = records[node, NEXT_NODE_OF_KEY]
    if previous_node:
        records[previous_node - 1, NEXT_NODE_OF_KEY] = next_node
    else:
        tables.key_records[entry, FIRST_NODE_OF_KEY] = next_node
    if next_node:
        records[next_node - 1, PREVIOUS_NODE_OF_KEY] = previous_node


@kernel
def supersede_pending(first_node: int, tables: Any) -> None:
    """Decide the fates of all nodes in a producer's list, except the newest node of each key.

    The newer node of the same key decides: a commit supersedes the older commit, a tombstone deletes it.
    """
    nodes = tables.nodes
    records = tables.node_records
    keys = tables.key_records
    tables.counts[WALKS] += 1
    walk = tables.counts[WALKS]
    node = first_node
    while node >= 0:
        is_tombstone = nodes[node, ENTRY] < 0
        entry = ~nodes[node, ENTRY] if is_tombstone else nodes[node, ENTRY]
        if keys[entry, WALK] == walk and not is_tombstone and not records[node, IS_SETTLED]:
            # NEWER_OFFSET is `~offset` if the newer node is a tombstone.
            newer_offset = keys[entry, NEWER_OFFSET]
            if newer_offset < 0:
                _settle_node(node, entry, DELETED, ~newer_offset, keys[entry, NEWER_SEGMENT], tables)
            else:
                _settle_node(node, entry, SUPERSEDED, newer_offset, keys[entry, NEWER_SEGMENT], tables)
        keys[entry, WALK] = walk
        keys[entry, NEWER_OFFSET] = ~nodes[node, RECORD_OFFSET] if is_tombstone else nodes[node, RECORD_OFFSET]
        keys[entry, NEWER_SEGMENT] = records[node, RECORD_SEGMENT]
        node = nodes[node, NEXT_NODE]


@kernel
def list_pending_nodes(tables: Any, pending_nodes: Any) -> int:
    """Fill `pending_nodes` with the numbers of the nodes that are pending at the end of the log. Return their count.

    The fates of all other commits of open transactions are decided.
    """
    producers = tables.producers
    nodes = tables.nodes
    count = 0
    for row in range(len(producers)):
        node = producers[row, FIRST_NODE] if producers[row, IS_USED] else -1
        supersede_pending(node, tables)
        while node >= 0:
            if nodes[node, ENTRY] >= 0 and not tables.node_records[node, IS_SETTLED]:
                pending_nodes[count] = node
                count += 1
            node = nodes[node, NEXT_NODE]
    return count


@kernel
def end_node(node: int, entry: int, is_commit: bool, is_newer: bool, marker_offset: int, tables: Any) -> None:
    """Decide the fate of the newest pending commit of a key when a marker ends its transaction.

    `is_newer` is true if the commit is newer than the committed offset of the key. Call this kernel before the entry
    changes.
    """
    records = tables.node_records
    keys = tables.key_records
    if records[node, IS_SETTLED]:
        return
    segment = tables.counts[SEGMENT]
    if not is_commit:
        _settle_node(node, entry, ABORTED, marker_offset, segment, tables)
        return
    committed_offset = tables.entries[entry, RECORD_OFFSET]
    if not is_newer:
        _settle_node(node, entry, SUPERSEDED, committed_offset, keys[entry, RECORD_SEGMENT], tables)
        return
    if committed_offset >= 0:
        _replace(keys, entry, SUPERSEDED, tables.nodes[node, RECORD_OFFSET], records[node, RECORD_SEGMENT], tables)
    _leave_key_list(node, entry, tables)
    for column in range(RECORD_TYPE + 1):
        keys[entry, column] = records[node, column]
    note_fate(records[node, RECORD_NUMBER], WINS, marker_offset, tables)
