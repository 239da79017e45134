"""Kernels that compute CRC-32C: with the CPU's instruction if it has one, otherwise with eight tables.

`crc32c` is the fastest one for this machine. `KAFKAGROUPS_CRC32C=tables` in the environment chooses the tables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from llvmlite import binding

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.intrinsics import crc32c_step, load64

_POLYNOMIAL = 0x82F63B78


def _tables() -> np.ndarray[Any, Any]:
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for step in range(1, 8):
        before = tables[step - 1]
        tables[step] = before >> 8 ^ tables[0, before & 0xFF]
    return tables


_TABLES = _tables()


@kernel
def crc32c_tables(data: Any, start: int, end: int) -> int:
    """Return the CRC-32C of a range, by slicing-by-8."""
    crc = np.uint32(0xFFFFFFFF)
    position = start
    while position + 8 <= end:
        word = load64(data, position) ^ np.uint64(crc)
        crc = np.uint32(0)
        for step in range(8):
            crc ^= _TABLES[7 - step, (word >> np.uint64(8 * step)) & np.uint64(0xFF)]
        position += 8
    while position < end:
        crc = crc >> np.uint32(8) ^ _TABLES[0, (crc ^ np.uint32(data[position])) & np.uint32(0xFF)]
        position += 1
    return np.int64(crc ^ np.uint32(0xFFFFFFFF))


LANE = 128
"""The bytes of one lane. Three lanes together take little longer than one, because steps wait for each other."""


def _shift_tables(count: int) -> np.ndarray[Any, Any]:
    """Return tables that give what each byte of a checksum becomes after `count` zero bytes."""
    words = np.arange(256, dtype=np.uint32) << (8 * np.arange(4, dtype=np.uint32))[:, None]
    for _ in range(count):
        words = words >> 8 ^ _TABLES[0, words & 0xFF]
    return words


_ONE_LANE = _shift_tables(LANE)
_TWO_LANES = _shift_tables(2 * LANE)


@inlined
def _shift(crc: Any, table: Any) -> Any:
    low = crc & np.uint64(0xFFFF)
    high = crc >> np.uint64(16)
    byte = np.uint64(0xFF)
    eight = np.uint64(8)
    return table[0, low & byte] ^ table[1, low >> eight] ^ table[2, high & byte] ^ table[3, high >> eight]


@kernel
def crc32c_instruction(data: Any, start: int, end: int) -> int:
    """Return the CRC-32C of a range, eight bytes per SSE 4.2 instruction; the last few bytes one by one."""
    crc = np.uint64(0xFFFFFFFF)
    position = start
    while position + 3 * LANE <= end:
        second = np.uint64(0)
        third = np.uint64(0)
        for at in range(position, position + LANE, 8):
            crc = crc32c_step(crc, load64(data, at))
            second = crc32c_step(second, load64(data, at + LANE))
            third = crc32c_step(third, load64(data, at + 2 * LANE))
        crc = np.uint64(_shift(crc, _TWO_LANES) ^ _shift(second, _ONE_LANE)) ^ third
        position += 3 * LANE
    while position + 8 <= end:
        crc = crc32c_step(crc, load64(data, position))
        position += 8
    while position < end:
        crc = crc32c_step(crc, np.uint8(data[position]))
        position += 1
    return np.int64(crc ^ np.uint64(0xFFFFFFFF))


def has_instruction(features: Mapping[str, bool], environment: Mapping[str, str]) -> bool:
    """Return whether the CPU has SSE 4.2 and the environment does not forbid it."""
    return bool(features.get("sse4.2")) and environment.get("KAFKAGROUPS_CRC32C") != "tables"


crc32c = crc32c_instruction if has_instruction(binding.get_host_cpu_features(), os.environ) else crc32c_tables
