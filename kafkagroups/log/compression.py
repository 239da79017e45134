"""The compression codecs of batches: gzip, snappy, lz4 and zstd, as Kafka's clients write them.

gzip, zstd and lz4 data has the standard format of these codecs. Before magic 2 (the batch format since Kafka 0.11),
clients wrote lz4 with a wrong checksum of the header (KAFKA-3160). Kafka's reader accepts this checksum, too.

Snappy data has the format of snappy-java's SnappyOutputStream: 8 fixed bytes (_SNAPPY_MAGIC), two int32 versions, then
chunks. Each chunk is an int32 length in bytes and a raw snappy block. Data without the 8 fixed bytes is one raw snappy
block.
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
_SNAPPY_HEADER_BYTES = 16
_LZ4_MAGIC = 0x184D2204
_LZ4_UNCOMPRESSED_BIT = 0x80000000
"""The bit in an lz4 block's length that says that the block is not compressed."""
_LZ4_BLOCK_BYTES = 64 * 1024
"""The number of uncompressed bytes in each lz4 block that Kafka writes."""
_LZ4_HEADER = bytes.fromhex("04224d18604082")
"""The header of an lz4 frame with independent blocks of 64 KiB. Neither a block nor the content has a checksum."""
_GZIP_MAGIC = b"\x1f\x8b"
"""The first bytes of a gzip member."""
_GZIP_HEADER = bytes.fromhex("1f8b08000000000000ff")
"""The header of a gzip member (one compressed stream) with no name, no time and an unknown operating system."""
_int32 = struct.Struct(">i")
_uint32_le = struct.Struct("<I")


def compression_type(attributes: int) -> CompressionType:
    """Return the codec in a batch's attributes. Raises InvalidLog if no codec has this number."""
    try:
        return CompressionType(attributes & 0x07)
    except ValueError:
        raise InvalidLog(f"expected a compression type from 0 to 4, found {attributes & 0x07}") from None


def decompress(codec: CompressionType, data: bytes) -> bytes:
    """Return the decompressed data. Raises InvalidLog if the data cannot be decompressed."""
    try:
        if codec is CompressionType.GZIP:
            return _decompress_gzip(data)
        if codec is CompressionType.SNAPPY:
            return _decompress_snappy(data)
        if codec is CompressionType.LZ4:
            return _decompress_lz4(data)
        if codec is CompressionType.ZSTD:
            return bytes(cramjam.zstd.decompress(data))
    except (cramjam.DecompressionError, OSError, EOFError, zlib.error, struct.error) as error:
        raise InvalidLog(f"{codec.name.lower()} cannot be decompressed: {error}") from None
    return data


def compress(codec: CompressionType, data: bytes) -> bytes:
    """Return the compressed records of a batch of magic 2.

    For all codecs except snappy, Kafka 4.3.1 writes the same bytes.
    """
    if codec is CompressionType.GZIP:
        deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        body = deflate.compress(data) + deflate.flush()
        return _GZIP_HEADER + body + struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
    if codec is CompressionType.SNAPPY:
        chunk = bytes(cramjam.snappy.compress_raw(data))
        versions = struct.pack(">ii", 1, 1)
        return _SNAPPY_MAGIC + versions + _int32.pack(len(chunk)) + chunk
    if codec is CompressionType.LZ4:
        starts = range(0, len(data), _LZ4_BLOCK_BYTES)
        blocks = (_compress_lz4_block(data[start : start + _LZ4_BLOCK_BYTES]) for start in starts)
        return _LZ4_HEADER + b"".join(blocks) + bytes(4)  # A block length of zero ends the frame.
    if codec is CompressionType.ZSTD:
        stream = cramjam.zstd.Compressor(3)  # 3 is Kafka's default compression level.
        stream.compress(data)
        # As in Kafka's Java stream, flush() ends the block with the data, and finish() writes a separate last block.
        return bytes(stream.flush()) + bytes(stream.finish())
    return data


def _compress_lz4_block(data: bytes) -> bytes:
    """Return an lz4 block with its length. The block is not compressed if compression would not make it smaller."""
    compressed = bytes(cramjam.lz4.compress_block(data, store_size=False))
    if len(compressed) < len(data):
        return _uint32_le.pack(len(compressed)) + compressed
    return _uint32_le.pack(len(data) | _LZ4_UNCOMPRESSED_BIT) + data


def _decompress_gzip(data: bytes) -> bytes:
    """Decompress all gzip members, one after the other. As in Java's reader, bytes after the members are ignored."""
    out = b""
    while data.startswith(_GZIP_MAGIC) or not out:
        member = zlib.decompressobj(16 + zlib.MAX_WBITS)  # In zlib, adding 16 means data with a gzip header.
        out += member.decompress(data) + member.flush()
        if not member.eof:
            raise InvalidLog("the gzip data ends too early")
        data = member.unused_data
        if not data:
            break
    return out


def _decompress_snappy(data: bytes) -> bytes:
    if not data.startswith(_SNAPPY_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    out = bytearray()
    position = _SNAPPY_HEADER_BYTES
    while position < len(data):
        if data.startswith(_SNAPPY_MAGIC, position):
            # The data can consist of several streams, each with its own header.
            position += _SNAPPY_HEADER_BYTES
            continue
        (length,) = _int32.unpack_from(data, position)
        position += 4
        if not 0 <= length <= len(data) - position:
            raise InvalidLog(f"expected a snappy chunk of {length} bytes, found {len(data) - position} bytes")
        out += cramjam.snappy.decompress_raw(data[position : position + length])
        position += length
    return bytes(out)


def _decompress_lz4(data: bytes) -> bytes:
    try:
        return bytes(cramjam.lz4.decompress(data))
    except cramjam.DecompressionError:
        return _decompress_lz4_blocks(data)


def _decompress_lz4_blocks(data: bytes) -> bytes:
    """Decompress one lz4 frame. The checksum of its header is not checked, because it can be wrong (KAFKA-3160).

    An lz4 frame is the standard format of lz4 data. Its header consists of 4 fixed bytes (_LZ4_MAGIC), a byte of flags,
    a byte with the block size, the size of the content (optional), and a checksum. Blocks follow, each after its
    length.
    """
    magic, flags, block_size_byte = struct.unpack_from("<IBB", data)
    if magic != _LZ4_MAGIC:
        raise InvalidLog(f"expected an lz4 frame, found data that begins with {magic:08x}")
    has_content_size = bool(flags & 0x08)
    has_block_checksums = bool(flags & 0x10)
    header_bytes = 15 if has_content_size else 7
    block_size_code = block_size_byte >> 4 & 0x07
    max_block_bytes = 1 << (8 + 2 * block_size_code)
    position = header_bytes
    out = bytearray()
    while True:
        (length_and_bit,) = _uint32_le.unpack_from(data, position)
        position += 4
        if length_and_bit == 0:  # A block length of zero ends the frame.
            return bytes(out)
        length = length_and_bit & ~_LZ4_UNCOMPRESSED_BIT
        block = data[position : position + length]
        if len(block) < length:
            raise InvalidLog(f"expected an lz4 block of {length} bytes, found {len(block)} bytes")
        position += length + (4 if has_block_checksums else 0)
        if length_and_bit & _LZ4_UNCOMPRESSED_BIT:
            out += block
        else:
            buffer = bytearray(max_block_bytes)
            written = cramjam.lz4.decompress_block_into(block, buffer)
            out += buffer[:written]
