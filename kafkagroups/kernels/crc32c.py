"""Kernels that compute CRC-32C: with the CPU's instruction if the CPU has one, otherwise with eight tables.

CRC-32C is the checksum of a Kafka record batch. The module chooses one of the two kernels as `crc32c`. If the
environment variable KAFKAGROUPS_CRC32C is "tables", the module chooses the kernel with the tables on every CPU.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from llvmlite import binding

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.intrinsics import add_to_crc32c, load64

_POLYNOMIAL = 0x82F63B78
"""The polynomial of CRC-32C, with its bits in reverse order."""


def _make_tables() -> np.ndarray[Any, Any]:
    """Return 8 tables. Table n has, for each value of a byte, the CRC of this byte and n zero bytes after it."""
    tables = np.zeros((8, 256), np.uint32)
    tables[0] = np.arange(256)
    for _ in range(8):
        tables[0] = tables[0] >> 1 ^ (tables[0] & 1) * np.uint32(_POLYNOMIAL)
    for step in range(1, 8):
        previous_table = tables[step - 1]
        tables[step] = previous_table >> 8 ^ tables[0, previous_table & 0xFF]
    return tables


_TABLES = _make_tables()


@kernel
def crc32c_by_tables(data: Any, start: int, end: int) -> int:
    """Return the CRC-32C of `data[start:end]`, with the algorithm slicing-by-8."""
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


LANE_BYTES = 128
"""The size of a lane in bytes. A lane is a part of the data with a separate checksum. A CRC instruction waits for the
previous CRC instruction of the same lane, so the kernel reads three lanes at the same time."""


def _make_zeros_tables(zero_bytes: int) -> np.ndarray[Any, Any]:
    """Return the tables with which `_append_zeros` appends `zero_bytes` zero bytes.

    Table n has, for each value of byte n of the old checksum, what this byte adds to the new checksum.
    """
    tables = np.arange(256, dtype=np.uint32) << (8 * np.arange(4, dtype=np.uint32))[:, None]
    for _ in range(zero_bytes):
        tables = tables >> 8 ^ _TABLES[0, tables & 0xFF]
    return tables


_ONE_ZERO_LANE = _make_zeros_tables(LANE_BYTES)
_TWO_ZERO_LANES = _make_zeros_tables(2 * LANE_BYTES)


@inlined
def _append_zeros(crc: Any, tables: Any) -> Any:
    """Return the checksum of the data of `crc` and zero bytes after it. `tables` is made by `_make_zeros_tables`."""
    low = crc & np.uint64(0xFFFF)
    high = crc >> np.uint64(16)
    byte_mask = np.uint64(0xFF)
    byte_bits = np.uint64(8)
    return (
        tables[0, low & byte_mask]
        ^ tables[1, low >> byte_bits]
        ^ tables[2, high & byte_mask]
        ^ tables[3, high >> byte_bits]
    )


@kernel
def crc32c_by_instruction(data: Any, start: int, end: int) -> int:
    """Return the CRC-32C of `data[start:end]`, with the CPU instruction of SSE 4.2 that reads eight bytes."""
    crc = np.uint64(0xFFFFFFFF)
    position = start
    while position + 3 * LANE_BYTES <= end:
        second_crc = np.uint64(0)
        third_crc = np.uint64(0)
        for lane_position in range(position, position + LANE_BYTES, 8):
            crc = add_to_crc32c(crc, load64(data, lane_position))
            second_crc = add_to_crc32c(second_crc, load64(data, lane_position + LANE_BYTES))
            third_crc = add_to_crc32c(third_crc, load64(data, lane_position + 2 * LANE_BYTES))
        # Two lanes come after the first lane, and one lane after the second. `_append_zeros` adds them as zero bytes.
        crc = np.uint64(_append_zeros(crc, _TWO_ZERO_LANES) ^ _append_zeros(second_crc, _ONE_ZERO_LANE)) ^ third_crc
        position += 3 * LANE_BYTES
    while position + 8 <= end:
        crc = add_to_crc32c(crc, load64(data, position))
        position += 8
    while position < end:
        crc = add_to_crc32c(crc, np.uint8(data[position]))
        position += 1
    return np.int64(crc ^ np.uint64(0xFFFFFFFF))


def can_use_instruction(features: Mapping[str, bool], environment: Mapping[str, str]) -> bool:
    """Return whether the CPU has the CRC instruction (SSE 4.2) and the environment variable permits its use."""
    return bool(features.get("sse4.2")) and environment.get("KAFKAGROUPS_CRC32C") != "tables"


crc32c = crc32c_by_instruction if can_use_instruction(binding.get_host_cpu_features(), os.environ) else crc32c_by_tables
