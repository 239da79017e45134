"""The arrays of a shard in a snapshot: saves them, checks them, and fills a shard from them.

A shard is the state of one partition (groups/shard.py). The compiled engine keeps the offsets of a shard in a fold
state; layout.py describes the arrays of this state and the terms entry, name, node, arena and text reference. A
snapshot does not contain the hash tables, because the order of their rows depends on the process. These arrays are
saved:

entries, extras, tombstones   as in layout.py, without unused rows
names                         the text reference of each name
producers                     a row for each producer with pending commits: the producer id, the number of its nodes
nodes, node_extras            the nodes of the first producer (the newest commit first), then those of the next producer
arena                         as in layout.py, without unused bytes at the end
group_records                 a row for each plain group record: its Kafka offset, the size of its key, the size of its
                              value (in bytes)
group_record_bytes            the key and the value of the first group record, then those of the next record

Kernels do not check whether a position is inside an array. So saved arrays are checked before a kernel receives them:
with damaged arrays, a kernel could write to any memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kafkagroups.errors import InvalidLog
from kafkagroups.groups.group import GroupRecord
from kafkagroups.groups.shard import LoadedPartition, Shard
from kafkagroups.kernels import layout
from kafkagroups.kernels.arrays import Array
from kafkagroups.kernels.plain_groups import MAX_MEMBERS
from kafkagroups.kernels.saved_checks import are_plain_groups, are_valid_names, list_pending_commits
from kafkagroups.kernels.secret import process_secret
from kafkagroups.kernels.shards import FoldedShardOffsets
from kafkagroups.kernels.state import FoldState
from kafkagroups.records.dialects import Dialect

_COLUMN_COUNTS = {"entries": 8, "extras": 4, "producers": 2, "nodes": 8, "node_extras": 4, "group_records": 3}
"""The number of columns of the arrays with two dimensions."""
_BYTE_ARRAYS = ("arena", "group_record_bytes")
"""The names of the arrays of uint8. The other arrays are int64."""
_ARRAY_NAMES = (*_COLUMN_COUNTS, "tombstones", "names", *_BYTE_ARRAYS)
"""The names of all saved arrays in the order of the file. The arrays of int64 come first, so that they are aligned."""


def save_arrays(shard: Shard) -> dict[str, Array]:
    """Return the arrays of a shard by name. The compiled engine must have made the shard."""
    assert isinstance(shard.offsets, FoldedShardOffsets)
    used = shard.offsets.state.arrays_to_save()
    arrays = {name: used[name] for name in ("entries", "extras", "tombstones", "arena")}
    arrays["names"] = used["names"][:, layout.NAME_TEXT].copy()
    node_numbers = np.empty(len(used["nodes"]), np.int64)
    producers = np.empty((len(used["producers"]), 2), np.int64)
    producer_count, node_count = list_pending_commits(used["producers"], used["nodes"], producers, node_numbers)
    arrays["producers"] = producers[:producer_count]
    arrays["nodes"] = used["nodes"][node_numbers[:node_count]]
    arrays["node_extras"] = used["node_extras"][node_numbers[:node_count]]
    records = [group for group in shard.groups.values() if isinstance(group, GroupRecord)]
    rows = [(record.offset, len(record.key), len(record.value)) for record in records]
    arrays["group_records"] = np.array(rows, np.int64).reshape(-1, 3)
    record_bytes = b"".join(part for record in records for part in (record.key, record.value))
    arrays["group_record_bytes"] = np.frombuffer(record_bytes, np.uint8)
    return {name: arrays[name] for name in _ARRAY_NAMES}


def restore_arrays(shard: Shard, saved_arrays: Mapping[str, Array]) -> None:
    """Give a shard the offsets and the group records in saved arrays. Raise InvalidLog if the arrays are damaged.

    The arrays must not be used for anything else, because the shard uses their memory.
    """
    _check_shapes(saved_arrays)
    state = FoldState.restore(shard.dialect, _make_fold_arrays(shard.loaded, saved_arrays))
    shard.offsets = FoldedShardOffsets(state)
    rows = saved_arrays["group_records"]
    shard.groups.update(_read_group_records(rows, saved_arrays["group_record_bytes"], shard.partition, shard.dialect))


def _check_shapes(saved_arrays: Mapping[str, Array]) -> None:
    _expect(saved_arrays.keys() == set(_ARRAY_NAMES), f"the arrays {', '.join(_ARRAY_NAMES)}")
    for name in _ARRAY_NAMES:
        array = saved_arrays[name]
        dtype_name = "uint8" if name in _BYTE_ARRAYS else "int64"
        row_shape = (_COLUMN_COUNTS[name],) if name in _COLUMN_COUNTS else ()
        has_rows_of_shape = array.ndim > 0 and array.shape[1:] == row_shape
        is_expected = has_rows_of_shape and array.dtype == dtype_name and array.flags.carray
        _expect(is_expected, f"the array {name!r} to have aligned {dtype_name} rows of shape {row_shape}")
    for name, other_name in (("extras", "entries"), ("tombstones", "entries"), ("node_extras", "nodes")):
        has_same_length = len(saved_arrays[name]) == len(saved_arrays[other_name])
        _expect(has_same_length, f"{name!r} to have as many rows as {other_name!r}")


def _make_fold_arrays(loaded: LoadedPartition, saved_arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays from which `FoldState.restore` makes a fold state. Raise InvalidLog if an array is damaged.

    `loaded` has the counts of the shard.
    """
    entries = saved_arrays["entries"]
    names = saved_arrays["names"]
    arena = saved_arrays["arena"]
    nodes = saved_arrays["nodes"]
    keys = np.sort(entries[:, layout.NAME_AND_PARTITION])
    _expect((keys[1:] != keys[:-1]).all(), "each key to have one entry")
    entry_names = keys >> layout.PARTITION_BITS
    _expect(((entry_names >= 0) & (entry_names < len(names))).all(), "each entry to have the number of a name")
    _expect(np.bincount(entry_names, minlength=len(names)).all(), "each name to have an entry")
    _check_names(names, arena)
    node_entries = nodes[:, layout.ENTRY]
    entry_numbers = np.where(node_entries < 0, ~node_entries, node_entries)
    _expect((entry_numbers < len(entries)).all(), "each pending commit to have the number of an entry")
    text_references = np.concatenate([names, entries[:, layout.METADATA], nodes[:, layout.METADATA]])
    starts, ends = _find_bounds(text_references[text_references != 0], len(arena))
    order = np.argsort(starts)
    _expect((starts[order][1:] >= ends[order][:-1]).all(), "the names and the metadata not to overlap in the arena")

    counts = np.zeros(len(layout.COUNTS), np.int64)
    producers = _link_nodes(nodes, saved_arrays["producers"])
    array_by_count = {layout.ENTRIES: entries, layout.NAMES: names, layout.ARENA_BYTES: arena, layout.NODES: nodes}
    for count, array in array_by_count.items():
        counts[count] = len(array)
    counts[layout.FREE_NODE] = -1
    counts[layout.UNUSED_BYTES] = len(arena) - (ends - starts).sum()
    counts[layout.BATCHES] = loaded.batches
    counts[layout.RECORDS] = loaded.records
    counts[layout.NEXT_OFFSET] = loaded.next_offset if loaded.batches else 0
    # The count MARKERS begins at 0 again, so no entry may have the number of a later marker.
    saved_arrays["extras"][:, layout.LAST_MARKER] = 0
    return {
        "entries": entries,
        "extras": saved_arrays["extras"],
        "tombstones": saved_arrays["tombstones"],
        "names": np.stack([names, np.zeros_like(names)], axis=1),  # The hashes are computed later (rehash_names).
        "arena": arena,
        "nodes": nodes,
        "node_extras": saved_arrays["node_extras"],
        "producers": producers,
        "counts": counts,
    }


def _find_bounds(text_references: Array, arena_size: int) -> tuple[Array, Array]:
    """Return the start and the end in the arena of each text. Raise InvalidLog if a text is not inside the arena."""
    starts = text_references >> layout.SIZE_BITS
    sizes = text_references & layout.SIZE_MASK
    _expect(((starts >= 0) & (starts <= arena_size - sizes)).all(), "each name and metadata to be inside the arena")
    return starts, starts + sizes


def _check_names(text_references: Array, arena: Array) -> None:
    """Raise InvalidLog if the bytes of a name are not a group id and a topic name, or if a name occurs twice."""
    starts, ends = _find_bounds(text_references, len(arena))
    name_sizes = ends - starts
    _expect((name_sizes >= 4).all(), "each name to have at least the 4 bytes of two sizes")
    group_sizes = _read_int16(arena, starts)
    _expect(((group_sizes >= 0) & (group_sizes + 4 <= name_sizes)).all(), "each group id to be inside its name")
    topic_sizes = _read_int16(arena, starts + 2 + group_sizes)
    _expect((topic_sizes == name_sizes - 4 - group_sizes).all(), "each topic to end at the end of its name")
    slots = np.full(1 << (2 * len(text_references) + 1).bit_length(), -1, np.int64)
    _expect(
        are_valid_names(text_references.reshape(-1, 1), arena, slots, process_secret()),
        "each name to be valid UTF-8 and to occur once",
    )


def _read_int16(arena: Array, positions: Array) -> Array:
    """Return the signed big-endian int16 at each position."""
    high_bytes = arena[positions].astype(np.int8).astype(np.int64)
    return high_bytes << 8 | arena[positions + 1]


def _link_nodes(nodes: Array, saved_producers: Array) -> Array:
    """Link the nodes of each producer to a list, and return the rows of the producers (layout.py)."""
    producer_ids = saved_producers[:, 0]
    node_counts = saved_producers[:, 1]
    _expect(len(np.unique(producer_ids)) == len(producer_ids), "each producer to have one row")
    _expect((node_counts > 0).all(), "each producer to have a pending commit")
    ends = _check_and_sum(node_counts, len(nodes), "each node to belong to one producer")
    nodes[:, layout.NEXT_NODE] = np.arange(1, len(nodes) + 1)
    nodes[ends - 1, layout.NEXT_NODE] = -1
    producers = np.zeros((len(producer_ids), layout.PRODUCER_COLUMNS), np.int64)
    producers[:, layout.NUMBER] = producer_ids
    producers[:, layout.IS_USED] = 1
    producers[:, layout.FIRST_NODE] = ends - node_counts
    return producers


def _read_group_records(
    rows: Array, record_bytes: Array, partition: int | None, dialect: Dialect
) -> dict[str, GroupRecord]:
    """Return the group records by group id. Raise InvalidLog if one of them is not plain (plain_groups.py)."""
    ends = _check_and_sum(rows[:, 1:].reshape(-1), len(record_bytes), "each byte to belong to one group record")
    members = np.empty((MAX_MEMBERS, 2), np.int64)
    are_plain = are_plain_groups(record_bytes, rows, dialect.max_group_value_version, members)
    _expect(are_plain, "each group record to be one that the coordinator can read")
    data = record_bytes.tobytes()
    records = {}
    start = 0
    for offset, key_end, end in zip(rows[:, 0].tolist(), ends[::2].tolist(), ends[1::2].tolist(), strict=True):
        key = data[start:key_end]
        group_id = key[4 : 4 + int.from_bytes(key[2:4], "big")].decode()
        records[group_id] = GroupRecord(partition, offset, key, data[key_end:end], dialect)
        start = end
    return records


def _check_and_sum(sizes: Array, total: int, expectation: str) -> Array:
    """Return the cumulative sums of sizes. Raise InvalidLog if a size is negative or the last sum is not `total`."""
    _expect(((sizes >= 0) & (sizes <= total)).all(), expectation)
    ends = np.cumsum(sizes)
    # A sum above int64 becomes negative. But then an earlier sum is above `total`, because no size is above `total`.
    _expect((ends <= total).all() and ends[-1:].sum() == total, expectation)
    return ends


def _expect(is_met: Any, expectation: str) -> None:
    """Raise InvalidLog if `is_met` is false. `expectation` continues the message "expected …"."""
    if not is_met:
        raise InvalidLog(f"expected {expectation}")
