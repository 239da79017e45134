"""Kernel that computes the MD5 hash of a key. Like Kafka's cleaner, the offset map stores this hash instead of the key.

Source: RFC 1321.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.intrinsics import copy_bytes

BLOCK_BYTES = 64
"""MD5 reads its input in blocks of this number of bytes."""
_LENGTH_BYTES = 8
"""The last bytes of the last block contain the length of the input in bits."""
_SINES = np.floor(np.abs(np.sin(np.arange(1, 65))) * 2**32).astype(np.uint32)
"""The constant of each of the 64 steps."""


def create_block() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the working memory of `md5`: a block as bytes, and the same memory as 16 uint32."""
    block = np.zeros(BLOCK_BYTES, np.uint8)
    return block, block.view("<u4")


@inlined
def _step(a: Any, b: Any, mixed: Any, word: Any, sine: Any, shift: int) -> Any:
    """Return the new value of `b` after a step."""
    total = np.uint32(np.uint32(a + mixed) + np.uint32(word + sine))
    rotated = np.uint32(total << np.uint32(shift)) | np.uint32(total >> np.uint32(32 - shift))
    return np.uint32(b + rotated)


@kernel
def _add_block(words: Any, state: Any) -> Any:
    """Return the state of MD5 (four uint32) after one more block of input."""
    a, b, c, d = state
    for step in range(0, 16, 4):
        a = _step(a, b, d ^ (b & (c ^ d)), words[step], _SINES[step], 7)
        d = _step(d, a, c ^ (a & (b ^ c)), words[step + 1], _SINES[step + 1], 12)
        c = _step(c, d, b ^ (d & (a ^ b)), words[step + 2], _SINES[step + 2], 17)
        b = _step(b, c, a ^ (c & (d ^ a)), words[step + 3], _SINES[step + 3], 22)
    for step in range(16, 32, 4):
        a = _step(a, b, c ^ (d & (b ^ c)), words[5 * step + 1 & 15], _SINES[step], 5)
        d = _step(d, a, b ^ (c & (a ^ b)), words[5 * step + 6 & 15], _SINES[step + 1], 9)
        c = _step(c, d, a ^ (b & (d ^ a)), words[5 * step + 11 & 15], _SINES[step + 2], 14)
        b = _step(b, c, d ^ (a & (c ^ d)), words[5 * step + 16 & 15], _SINES[step + 3], 20)
    for step in range(32, 48, 4):
        a = _step(a, b, b ^ c ^ d, words[3 * step + 5 & 15], _SINES[step], 4)
        d = _step(d, a, a ^ b ^ c, words[3 * step + 8 & 15], _SINES[step + 1], 11)
        c = _step(c, d, d ^ a ^ b, words[3 * step + 11 & 15], _SINES[step + 2], 16)
        b = _step(b, c, c ^ d ^ a, words[3 * step + 14 & 15], _SINES[step + 3], 23)
    for step in range(48, 64, 4):
        a = _step(a, b, c ^ (b | np.uint32(~d)), words[7 * step & 15], _SINES[step], 6)
        d = _step(d, a, b ^ (a | np.uint32(~c)), words[7 * step + 7 & 15], _SINES[step + 1], 10)
        c = _step(c, d, a ^ (d | np.uint32(~b)), words[7 * step + 14 & 15], _SINES[step + 2], 15)
        b = _step(b, c, d ^ (c | np.uint32(~a)), words[7 * step + 21 & 15], _SINES[step + 3], 21)
    return np.uint32(state[0] + a), np.uint32(state[1] + b), np.uint32(state[2] + c), np.uint32(state[3] + d)


@kernel
def md5(data: Any, start: int, size: int, block: Any, words: Any) -> tuple[int, int]:
    """Return the MD5 hash of `size` bytes of `data` as two int64: its first and its last 8 bytes, little-endian.

    `block` and `words` are the working memory (`create_block`).
    """
    state = (np.uint32(0x67452301), np.uint32(0xEFCDAB89), np.uint32(0x98BADCFE), np.uint32(0x10325476))
    position = start
    end = start + size
    while end - position >= BLOCK_BYTES:
        copy_bytes(data, position, block, 0, BLOCK_BYTES)
        state = _add_block(words, state)
        position += BLOCK_BYTES
    rest = end - position
    for step in range(BLOCK_BYTES // 4):
        words[step] = 0
    copy_bytes(data, position, block, 0, rest)
    block[rest] = 0x80
    if rest >= BLOCK_BYTES - _LENGTH_BYTES:
        state = _add_block(words, state)
        for step in range(BLOCK_BYTES // 4):
            words[step] = 0
    words[14] = np.uint32(size << 3)
    words[15] = np.uint32(size >> 29)
    a, b, c, d = _add_block(words, state)
    return (
        np.int64(np.uint64(a) | np.uint64(b) << np.uint64(32)),
        np.int64(np.uint64(c) | np.uint64(d) << np.uint64(32)),
    )
