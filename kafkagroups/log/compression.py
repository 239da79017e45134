"""The codecs of Kafka's batches, with the framings that its clients have used.

gzip, zstd and lz4 are standard frames. lz4 before magic 2 was written with a wrong header checksum (KAFKA-3160), and
Kafka's reader takes both. Snappy is framed as snappy-java's SnappyOutputStream does it: 8 bytes of magic, two int32
versions, then chunks of int32 length and raw snappy; without the magic the whole is one raw snappy block.
Source: Compression.java, Lz4BlockInputStream.java (4.3.1), snappy-java's SnappyInputStream.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum

import cramjam

from kafkagroups.errors import InvalidLog


class CompressionType(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_LZ4_MAGIC = 0x184D2204
_LZ4_UNCOMPRESSED = 0x80000000
_LZ4_BLOCK = 64 * 1024
_LZ4_HEADER = bytes.fromhex("04224d18604082")  # independent blocks of 64 KiB, no checksums
_GZIP_HEADER = bytes.fromhex("1f8b08000000000000ff")  # no name, no time, unknown system
_int32 = struct.Struct(">i")
_uint32_le = struct.Struct("<I")


def compression_type(attributes: int) -> CompressionType:
    """The codec that a batch's attributes name. InvalidLog for a number without one."""
    try:
        return CompressionType(attributes & 0x07)
    except ValueError:
        raise InvalidLog(f"a compression type of 0 to 4 was expected, found {attributes & 0x07}") from None


def decompress(codec: CompressionType, data: bytes) -> bytes:
    """The records' bytes. InvalidLog when the codec cannot read them."""
    try:
        if codec is CompressionType.GZIP:
            return _gzip(data)
        if codec is CompressionType.SNAPPY:
            return _snappy(data)
        if codec is CompressionType.LZ4:
            return _lz4(data)
        if codec is CompressionType.ZSTD:
            return bytes(cramjam.zstd.decompress(data))
    except (cramjam.DecompressionError, OSError, EOFError, zlib.error, struct.error) as error:
        raise InvalidLog(f"{codec.name.lower()} cannot be decompressed: {error}") from None
    return data


def compress(codec: CompressionType, data: bytes) -> bytes:
    """`data` in this codec's frame, as a batch of magic 2 holds it. All but snappy give the bytes of Kafka 4.3.1."""
    if codec is CompressionType.GZIP:
        deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        body = deflate.compress(data) + deflate.flush()
        return _GZIP_HEADER + body + struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
    if codec is CompressionType.SNAPPY:
        chunk = bytes(cramjam.snappy.compress_raw(data))
        return _SNAPPY_MAGIC + struct.pack(">ii", 1, 1) + _int32.pack(len(chunk)) + chunk
    if codec is CompressionType.LZ4:
        blocks = (_lz4_block(data[at : at + _LZ4_BLOCK]) for at in range(0, len(data), _LZ4_BLOCK))
        return _LZ4_HEADER + b"".join(blocks) + bytes(4)
    if codec is CompressionType.ZSTD:
        stream = cramjam.zstd.Compressor(3)
        stream.compress(data)
        return bytes(stream.flush()) + bytes(stream.finish())  # Java's stream ends with a block of its own
    return data


def _lz4_block(data: bytes) -> bytes:
    packed = bytes(cramjam.lz4.compress_block(data, store_size=False))
    if len(packed) < len(data):
        return _uint32_le.pack(len(packed)) + packed
    return _uint32_le.pack(len(data) | _LZ4_UNCOMPRESSED) + data


def _gzip(data: bytes) -> bytes:
    """All members of a gzip stream; Java's reader ignores what follows the last one and is none."""
    out = b""
    while data.startswith(b"\x1f\x8b") or not out:
        member = zlib.decompressobj(31)
        out += member.decompress(data) + member.flush()
        if not member.eof:
            raise InvalidLog("a gzip stream ends too early")
        data = member.unused_data
        if not data:
            break
    return out


def _snappy(data: bytes) -> bytes:
    if not data.startswith(_SNAPPY_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    out, position = bytearray(), 16
    while position < len(data):
        if data.startswith(_SNAPPY_MAGIC, position):
            position += 16  # streams that were written one behind the other
            continue
        (length,) = _int32.unpack_from(data, position)
        position += 4
        if not 0 <= length <= len(data) - position:
            raise InvalidLog(f"a snappy chunk announces {length} bytes, {len(data) - position} are left")
        out += cramjam.snappy.decompress_raw(data[position : position + length])
        position += length
    return bytes(out)


def _lz4(data: bytes) -> bytes:
    try:
        return bytes(cramjam.lz4.decompress(data))
    except cramjam.DecompressionError:
        return _lz4_by_blocks(data)


def _lz4_by_blocks(data: bytes) -> bytes:
    """One lz4 frame whose header checksum is not looked at: magic, flags, block descriptor, checksum, blocks."""
    magic, flags, descriptor = struct.unpack_from("<IBB", data)
    if magic != _LZ4_MAGIC:
        raise InvalidLog(f"an lz4 frame was expected, it begins with {magic:08x}")
    position = 7 + (8 if flags & 0x08 else 0)
    block_checksums = bool(flags & 0x10)
    most = 1 << (8 + 2 * (descriptor >> 4 & 0x07))
    out = bytearray()
    while True:
        (size,) = _uint32_le.unpack_from(data, position)
        position += 4
        if size == 0:
            return bytes(out)
        length = size & ~_LZ4_UNCOMPRESSED
        block = data[position : position + length]
        if len(block) < length:
            raise InvalidLog(f"an lz4 block announces {length} bytes, {len(block)} are left")
        position += length + (4 if block_checksums else 0)
        if size & _LZ4_UNCOMPRESSED:
            out += block
        else:
            room = bytearray(most)
            out += room[: cramjam.lz4.decompress_block_into(block, room)]
