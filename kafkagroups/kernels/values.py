"""Kernel that reads the value of an offset record, of any version, into an entry or a node."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.intrinsics import load64
from kafkagroups.kernels.layout import (
    ARENA,
    COMMITTED,
    EPOCH,
    GARBAGE,
    HAND_OVER,
    HAS_EXPIRE,
    HAS_TOPIC,
    KNOWS_TOPIC_IDS,
    NOTE,
    OK,
    SIZE,
    TIME,
)
from kafkagroups.kernels.scan import int16, int32, int64, uvarint


@inlined
def put_value(data: Any, at: int, value_size: int, highest: int, tables: Any, table: Any, extra: Any, row: int) -> int:
    """Read an offset's value into a row of entries or nodes (same columns). Return HAND_OVER if it is not plain."""
    end = at + value_size
    if value_size < 2 + 8 + 1 + 8:
        return HAND_OVER
    version = int16(data, at)
    if version < 0 or version > highest:
        return HAND_OVER
    table[row, COMMITTED] = int64(data, at + 2)
    at += 10
    epoch = np.int64(-1)
    flags = np.int64(0)
    if version >= 3:
        epoch = int32(data, at)
        at += 4
    if version == 4:
        size, at = uvarint(data, at, end)
        size -= 1
        if at < 0 or size > 0x7FFF:
            return HAND_OVER
    else:
        if at + 2 > end:
            return HAND_OVER
        size = int16(data, at)
        at += 2
    note = at
    at += size
    if size < 0 or at + 8 > end:
        return HAND_OVER
    table[row, TIME] = int64(data, at)
    at += 8
    if version == 1:
        if at + 8 > end:
            return HAND_OVER
        expire = int64(data, at)
        if expire != -1:
            flags = np.int64(HAS_EXPIRE)
            extra[row, 0] = expire
    if version == 4:
        if at >= end or data[at] > 1:
            return HAND_OVER
        if data[at] == 1:
            if at + 19 > end or data[at + 1] != 0 or data[at + 2] != 16:
                return HAND_OVER
            if tables.rules[KNOWS_TOPIC_IDS]:
                extra[row, 1] = load64(data, at + 3)
                extra[row, 2] = load64(data, at + 11)
                flags = np.int64(HAS_TOPIC) if extra[row, 1] or extra[row, 2] else np.int64(0)
    table[row, EPOCH] = (epoch & 0xFFFFFFFF) | flags
    if size or table[row, NOTE]:
        _keep_note(data, note, size, tables, table, row)
    return OK


@kernel
def _keep_note(data: Any, note: int, size: int, tables: Any, table: Any, row: int) -> None:
    """Copy metadata into the arena. It overwrites the row's old metadata if it fits there."""
    counts = tables.counts
    arena = tables.arena
    old = table[row, NOTE]
    place = old >> 20
    counts[GARBAGE] += old & SIZE
    if old & SIZE < size:
        place = counts[ARENA]
        counts[ARENA] += size
    else:
        counts[GARBAGE] -= size
    for step in range(size):
        arena[place + step] = data[note + step]
    table[row, NOTE] = place << 20 | size if size else 0
