"""The compression codecs of batches: gzip, snappy, lz4 and zstd, as Kafka's clients write them.

gzip, zstd and lz4 are standard frames. Before magic 2, clients wrote lz4 with a wrong header checksum (KAFKA-3160).
Kafka's reader accepts both checksums. Snappy has the format of snappy-java's SnappyOutputStream: 8 bytes of magic, two
int32 versions, then chunks of an int32 length and raw snappy. Data without this magic is one raw snappy block.
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
_SNAPPY_HEADER = 16
_LZ4_MAGIC = 0x184D2204
_LZ4_UNCOMPRESSED = 0x80000000
_LZ4_BLOCK = 64 * 1024
_LZ4_HEADER = bytes.fromhex("04224d18604082")  # independent blocks of 64 KiB, no checksums
_GZIP_HEADER = bytes.fromhex("1f8b08000000000000ff")  # no name, no time, unknown system
_int32 = struct.Struct(">i")
_uint32_le = struct.Struct("<I")


def compression_type(attributes: int) -> CompressionType:
    """Return the codec in a batch's attributes. InvalidLog if no codec has this number."""
    try:
        return CompressionType(attributes & 0x07)
    except ValueError:
        raise InvalidLog(f"expected a compression type from 0 to 4, found {attributes & 0x07}") from None


def decompress(codec: CompressionType, data: bytes) -> bytes:
    """Return the bytes, decompressed. InvalidLog if the codec cannot read them."""
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
    """Return the bytes, compressed as in a batch of magic 2. All codecs except snappy give the bytes of Kafka 4.3.1."""
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
        return bytes(stream.flush()) + bytes(stream.finish())  # Java's stream ends with a separate block.
    return data


def _lz4_block(data: bytes) -> bytes:
    packed = bytes(cramjam.lz4.compress_block(data, store_size=False))
    if len(packed) < len(data):
        return _uint32_le.pack(len(packed)) + packed
    return _uint32_le.pack(len(data) | _LZ4_UNCOMPRESSED) + data


def _gzip(data: bytes) -> bytes:
    """Decompress all members of a gzip stream. Java's reader ignores other bytes after the last member."""
    out = b""
    while data.startswith(b"\x1f\x8b") or not out:
        member = zlib.decompressobj(31)
        out += member.decompress(data) + member.flush()
        if not member.eof:
            raise InvalidLog("the gzip stream ends too early")
        data = member.unused_data
        if not data:
            break
    return out


def _snappy(data: bytes) -> bytes:
    if not data.startswith(_SNAPPY_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    out = bytearray()
    position = _SNAPPY_HEADER
    while position < len(data):
        if data.startswith(_SNAPPY_MAGIC, position):
            position += _SNAPPY_HEADER  # Several streams may follow each other.
            continue
        (length,) = _int32.unpack_from(data, position)
        position += 4
        if not 0 <= length <= len(data) - position:
            raise InvalidLog(f"expected a snappy chunk of {length} bytes, found {len(data) - position}")
        out += cramjam.snappy.decompress_raw(data[position : position + length])
        position += length
    return bytes(out)


def _lz4(data: bytes) -> bytes:
    try:
        return bytes(cramjam.lz4.decompress(data))
    except cramjam.DecompressionError:
        return _lz4_by_blocks(data)


def _lz4_by_blocks(data: bytes) -> bytes:
    """Decompress one lz4 frame without checking its header: magic, flags, block descriptor, checksum, blocks."""
    magic, flags, descriptor = struct.unpack_from("<IBB", data)
    if magic != _LZ4_MAGIC:
        raise InvalidLog(f"expected an lz4 frame, found data that begins with {magic:08x}")
    position = 7 + (8 if flags & 0x08 else 0)
    has_block_checksums = bool(flags & 0x10)
    most_bytes = 1 << (8 + 2 * (descriptor >> 4 & 0x07))
    out = bytearray()
    while True:
        (size,) = _uint32_le.unpack_from(data, position)
        position += 4
        if size == 0:
            return bytes(out)
        length = size & ~_LZ4_UNCOMPRESSED
        block = data[position : position + length]
        if len(block) < length:
            raise InvalidLog(f"expected an lz4 block of {length} bytes, found {len(block)}")
        position += length + (4 if has_block_checksums else 0)
        if size & _LZ4_UNCOMPRESSED:
            out += block
        else:
            room = bytearray(most_bytes)
            out += room[: cramjam.lz4.decompress_block_into(block, room)]
