"""Kernel that reads the value of an offset record, of any version, into an entry or a node.

An entry is the row of a key (group, topic and partition) in the array `entries`. A node is the row of a pending commit
in the array `nodes`. The arena is the array with the bytes of names and metadata. layout.py describes these arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.intrinsics import load64
from kafkagroups.kernels.layout import (
    ARENA_BYTES,
    COMMIT_TIME,
    COMMITTED_OFFSET,
    EPOCH_AND_FLAGS,
    EXPIRE_TIME,
    HAND_OVER,
    HAS_EXPIRE,
    HAS_TOPIC_ID,
    KEEPS_TOPIC_IDS,
    METADATA,
    OK,
    SIZE_BITS,
    SIZE_MASK,
    TOPIC_ID_FIRST_HALF,
    TOPIC_ID_LAST_HALF,
    UNUSED_BYTES,
)
from kafkagroups.kernels.scan import load_int16, load_int32, load_int64, read_uvarint


@inlined
def read_offset_value(
    data: Any, position: int, value_size: int, max_version: int, tables: Any, target: Any, target_extras: Any, row: int
) -> int:
    """Read the value of an offset record into row `row` of the array `target`.

    `target` is `entries` or `nodes`. `target_extras` is `extras` or `node_extras`. Return OK or HAND_OVER. HAND_OVER
    means that the value is too short, has a version above `max_version`, or has an unusual layout.

    A value contains, in this order:

    - version (2 bytes)
    - offset (8 bytes)
    - only since version 3: leader epoch (4 bytes)
    - metadata: size and bytes
    - commit timestamp (8 bytes)
    - only in version 1: expire timestamp (8 bytes)
    - only in version 4: tagged fields; the field with tag 0 is the topic id
    """
    end = position + value_size
    # The smallest value has a version, an offset, one byte for the metadata's size, and a timestamp.
    if value_size < 2 + 8 + 1 + 8:
        return HAND_OVER
    version = load_int16(data, position)
    if version < 0 or version > max_version:
        return HAND_OVER
    target[row, COMMITTED_OFFSET] = load_int64(data, position + 2)
    position += 10
    epoch = np.int64(-1)
    flags = np.int64(0)
    if version >= 3:
        epoch = load_int32(data, position)
        position += 4
    if version == 4:
        metadata_size, position = read_uvarint(data, position, end)
        metadata_size -= 1  # Version 4 stores the size plus 1.
        if position < 0 or metadata_size > 0x7FFF:
            return HAND_OVER
    else:
        if position + 2 > end:
            return HAND_OVER
        metadata_size = load_int16(data, position)
        position += 2
    metadata_start = position
    position += metadata_size
    if metadata_size < 0 or position + 8 > end:
        return HAND_OVER
    target[row, COMMIT_TIME] = load_int64(data, position)
    position += 8
    if version == 1:
        if position + 8 > end:
            return HAND_OVER
        expire_timestamp = load_int64(data, position)
        if expire_timestamp != -1:  # -1 means that the commit has no expire timestamp.
            flags = np.int64(HAS_EXPIRE)
            target_extras[row, EXPIRE_TIME] = expire_timestamp
    if version == 4:
        # The number of tagged fields: 0, or 1 for the topic id.
        if position >= end or data[position] > 1:
            return HAND_OVER
        if data[position] == 1:
            # 19 bytes: the number of tagged fields, the tag, the size of the topic id, and its 16 bytes.
            if position + 19 > end or data[position + 1] != 0 or data[position + 2] != 16:
                return HAND_OVER
            if tables.rules[KEEPS_TOPIC_IDS]:
                target_extras[row, TOPIC_ID_FIRST_HALF] = load64(data, position + 3)
                target_extras[row, TOPIC_ID_LAST_HALF] = load64(data, position + 11)
                # A topic id of 16 zero bytes means that there is no topic id.
                if target_extras[row, TOPIC_ID_FIRST_HALF] or target_extras[row, TOPIC_ID_LAST_HALF]:
                    flags = np.int64(HAS_TOPIC_ID)
    target[row, EPOCH_AND_FLAGS] = (epoch & 0xFFFFFFFF) | flags
    if metadata_size or target[row, METADATA]:
        _store_metadata(data, metadata_start, metadata_size, tables, target, row)
    return OK


@kernel
def _store_metadata(data: Any, metadata_start: int, size: int, tables: Any, target: Any, row: int) -> None:
    """Copy metadata of `size` bytes into the arena. If the row's old metadata is not shorter, overwrite its bytes."""
    counts = tables.counts
    arena = tables.arena
    old_reference = target[row, METADATA]
    start = old_reference >> SIZE_BITS
    old_size = old_reference & SIZE_MASK
    counts[UNUSED_BYTES] += old_size
    if old_size < size:
        start = counts[ARENA_BYTES]
        counts[ARENA_BYTES] += size
    else:
        counts[UNUSED_BYTES] -= size
    for step in range(size):
        arena[start + step] = data[metadata_start + step]
    target[row, METADATA] = start << SIZE_BITS | size if size else 0
