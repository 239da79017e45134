"""Unsigned varints: seven bits per byte, the low bits first.

A varint is an integer of variable length. The high bit of a byte is 1 if another byte follows.
Source: ByteUtils.readUnsignedVarint and ByteUtils.writeUnsignedVarint (4.3.1).
"""

from __future__ import annotations

from kafkagroups.errors import InvalidRecord


def read_uvarint(buffer: bytes, position: int) -> tuple[int, int]:
    """Return the unsigned varint at a position of the buffer, and the position after the varint.

    A number above 2^31 - 1 becomes negative, as in Java. Raises InvalidRecord if the varint is longer than 5 bytes, and
    IndexError if the buffer ends inside the varint.
    """
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
    error = InvalidRecord("expected a varint of at most 5 bytes, found a longer one", position=position)
    raise error.with_cause("varint", value & 0xFFFFFFFF)


def write_uvarint(out: bytearray, value: int) -> None:
    """Append a number to `out` as an unsigned varint. The number must not be negative."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def uvarint_bytes(value: int) -> bytes:
    """Return the low 32 bits of a number as an unsigned varint, in the shortest form, as Kafka does."""
    out = bytearray()
    write_uvarint(out, value & 0xFFFFFFFF)
    return bytes(out)


def signed32(value: int) -> int:
    """Return the low 32 bits of a number as a signed integer."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000
