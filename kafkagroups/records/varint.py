"""Unsigned varints: seven bits a byte, the low ones first, the high bit set in all bytes but the last.

Source: ByteUtils.readUnsignedVarint, writeUnsignedVarint (4.3.1).
"""

from __future__ import annotations

from kafkagroups.errors import InvalidRecord


def read_uvarint(buffer: bytes, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 5 bytes, as the signed 32-bit integer that Java makes of it."""
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = buffer[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return signed32(value), position + 1
    error = InvalidRecord("a varint of at most 5 bytes was expected, found a longer one", position=position)
    raise error.because("varint", value & 0xFFFFFFFF)


def write_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def uvarint_bytes(value: int) -> bytes:
    """The one form in which Kafka writes the 32 bits of this number."""
    out = bytearray()
    write_uvarint(out, value & 0xFFFFFFFF)
    return bytes(out)


def signed32(value: int) -> int:
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000
