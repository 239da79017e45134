"""The hash XXH3 of 64 bits, without a seed: record type 3 contains one over the topics of a consumer group.

The algorithm depends on the number of bytes. Up to 240 bytes, 16 bytes at a time are multiplied with a part of a fixed
secret. Longer data is divided into stripes of 64 bytes, and each stripe changes eight accumulators.

Simpler than the original: fewer than 4 bytes raise ValueError, because Kafka always hashes at least 8.
Source: the specification of XXH3 (xxhash, doc/xxhash_spec.md).
"""

from __future__ import annotations

import struct

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
    "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d"
    "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc"
    "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_PRIMES_32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIMES_64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_MASK_32 = 2**32 - 1
_MASK_64 = 2**64 - 1
_STRIPE_BYTES = 64
_STRIPES_PER_BLOCK = 16
_LAST_SECRET = len(_SECRET) - _STRIPE_BYTES


def xxh3_64(data: bytes) -> int:
    """Return the hash of at least 4 bytes, as a signed integer of 64 bits."""
    if len(data) < 4:
        raise ValueError("expected at least 4 bytes")
    if len(data) <= 8:
        value = _hash_to_8(data)
    elif len(data) <= 16:
        value = _hash_to_16(data)
    elif len(data) <= 128:
        value = _hash_to_128(data)
    elif len(data) <= 240:
        value = _hash_to_240(data)
    else:
        value = _hash_long(data)
    return value - 2**64 if value >> 63 else value


def _hash_to_8(data: bytes) -> int:
    first = _read_32(data, 0)
    last = _read_32(data, len(data) - 4)
    value = (last + (first << 32)) ^ _secret(8) ^ _secret(16)
    value ^= _rotate_left(value, 49) ^ _rotate_left(value, 24)
    value = (value * 0x9FB21C651E98DF25) & _MASK_64
    value ^= (value >> 35) + len(data)
    value = (value * 0x9FB21C651E98DF25) & _MASK_64
    return value ^ (value >> 28)


def _hash_to_16(data: bytes) -> int:
    low = _read_64(data, 0) ^ _secret(24) ^ _secret(32)
    high = _read_64(data, len(data) - 8) ^ _secret(40) ^ _secret(48)
    reversed_low = int.from_bytes(low.to_bytes(8, "little"), "big")
    return _avalanche(len(data) + reversed_low + high + _multiply(low, high))


def _hash_to_128(data: bytes) -> int:
    value = len(data) * _PRIMES_64[0]
    for step in range((len(data) - 1) // 32 + 1):
        value += _mix_16(data, 16 * step, 32 * step)
        value += _mix_16(data, len(data) - 16 * (step + 1), 32 * step + 16)
    return _avalanche(value)


def _hash_to_240(data: bytes) -> int:
    value = len(data) * _PRIMES_64[0]
    for step in range(8):
        value += _mix_16(data, 16 * step, 16 * step)
    value = _avalanche(value)
    for step in range(8, len(data) // 16):
        value += _mix_16(data, 16 * step, 16 * (step - 8) + 3)
    return _avalanche(value + _mix_16(data, len(data) - 16, 136 - 17))


def _hash_long(data: bytes) -> int:
    totals = [_PRIMES_32[2], *_PRIMES_64[:4], _PRIMES_32[1], _PRIMES_64[4], _PRIMES_32[0]]
    for stripe in range((len(data) - 1) // _STRIPE_BYTES):
        step = stripe % _STRIPES_PER_BLOCK
        if stripe and step == 0:
            _scramble(totals)
        _add_stripe(totals, data, stripe * _STRIPE_BYTES, 8 * step)
    if (len(data) - 1) // _STRIPE_BYTES % _STRIPES_PER_BLOCK == 0:
        _scramble(totals)
    _add_stripe(totals, data, len(data) - _STRIPE_BYTES, _LAST_SECRET - 7)
    value = len(data) * _PRIMES_64[0]
    for index in range(0, 8, 2):
        at = 11 + 8 * index
        value += _multiply(totals[index] ^ _secret(at), totals[index + 1] ^ _secret(at + 8))
    return _avalanche(value)


def _add_stripe(totals: list[int], data: bytes, position: int, secret_position: int) -> None:
    for index in range(8):
        word = _read_64(data, position + 8 * index)
        key = word ^ _secret(secret_position + 8 * index)
        totals[index ^ 1] = (totals[index ^ 1] + word) & _MASK_64
        totals[index] = (totals[index] + (key & _MASK_32) * (key >> 32)) & _MASK_64


def _scramble(totals: list[int]) -> None:
    for index, total in enumerate(totals):
        mixed = total ^ (total >> 47) ^ _secret(_LAST_SECRET + 8 * index)
        totals[index] = (mixed * _PRIMES_32[0]) & _MASK_64


def _mix_16(data: bytes, position: int, secret_position: int) -> int:
    low = _read_64(data, position) ^ _secret(secret_position)
    high = _read_64(data, position + 8) ^ _secret(secret_position + 8)
    return _multiply(low, high)


def _multiply(a: int, b: int) -> int:
    product = a * b
    return (product & _MASK_64) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value &= _MASK_64
    value ^= value >> 37
    value = (value * 0x165667919E3779F9) & _MASK_64
    return value ^ (value >> 32)


def _rotate_left(value: int, count: int) -> int:
    return ((value << count) | (value >> (64 - count))) & _MASK_64


def _read_32(data: bytes, position: int) -> int:
    return int(struct.unpack_from("<I", data, position)[0])


def _read_64(data: bytes, position: int) -> int:
    return int(struct.unpack_from("<Q", data, position)[0])


def _secret(position: int) -> int:
    return _read_64(_SECRET, position)
