"""The compression codecs of batches: gzip, snappy, lz4 and zstd, as Kafka's clients write them.

Before magic 2, clients wrote lz4 with a wrong checksum of the header, which Kafka's reader accepts, too (KAFKA-3160).

Snappy data has the format of snappy-java's SnappyOutputStream: 8 fixed bytes, two int32 versions, then chunks, each an
int32 length in bytes and a raw snappy block. Data without the 8 fixed bytes is one raw snappy block.

A few bytes can be the compressed form of gigabytes, so `decompress` has a limit, and never uses much more memory than
twice this limit.
Source: Compression.java (4.3.1); Lz4BlockInputStream.java (4.3.1); snappy-java's SnappyInputStream.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from types import ModuleType

import cramjam

from kafkagroups.errors import BatchTooLarge, InvalidLog

MAX_BATCH_BYTES = 256 * 1024 * 1024
"""The default limit of a decompressed batch."""


class CompressionType(IntEnum):
    """A codec. Its number is in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER_BYTES = 16
_LZ4_MAGIC = 0x184D2204
_LZ4_UNCOMPRESSED_BIT = 0x80000000
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_HEADER = bytes.fromhex("04224d18604082")
"""The header of an lz4 frame with independent blocks of 64 KiB. The blocks and the content have no checksums."""
_GZIP_MAGIC = b"\x1f\x8b"
"""The first bytes of a gzip member."""
_GZIP_HEADER = bytes.fromhex("1f8b08000000000000ff")
"""The header that Kafka writes. zlib's own is as long, and names the operating system."""
_GZIP_WBITS = 16 + zlib.MAX_WBITS
"""In zlib, adding 16 means data with the header and the checksum of gzip."""
_FIRST_PIECE_BYTES = 4096
_FIRST_BUFFER_RATIO = 8
_FIRST_BUFFER_EXTRA_BYTES = 4096
_BUFFER_GROWTH = 4
_END_MARK = os.urandom(16)
"""Random bytes after the end of a buffer. They change if the decompressed bytes do not fit into the buffer."""
_int32 = struct.Struct(">i")
_uint32_le = struct.Struct("<I")


def compression_type(attributes: int) -> CompressionType:
    """Return the codec in a batch's attributes. Raises InvalidLog if there is none with this number."""
    try:
        return CompressionType(attributes & 0x07)
    except ValueError:
        raise InvalidLog(f"expected a compression type from 0 to 4, found {attributes & 0x07}") from None


def decompress(codec: CompressionType, data: bytes, max_bytes: int = MAX_BATCH_BYTES) -> bytes:
    """Data without a codec has no limit.

    Raises BatchTooLarge if the result is more than `max_bytes`, and InvalidLog if the data cannot be decompressed.
    """
    try:
        return _DECOMPRESSORS[codec](data, max_bytes)
    except (cramjam.DecompressionError, OSError, EOFError, zlib.error, struct.error) as error:
        raise InvalidLog(f"{codec.name.lower()} cannot be decompressed: {error}") from None


def make_size_error(max_bytes: int) -> BatchTooLarge:
    return BatchTooLarge(f"this batch has more than {max_bytes} bytes when it is decompressed")


def compress(codec: CompressionType, data: bytes) -> bytes:
    """For all codecs except snappy, Kafka 4.3.1 writes the same bytes."""
    if codec is CompressionType.GZIP:
        return _GZIP_HEADER + zlib.compress(data, wbits=_GZIP_WBITS)[len(_GZIP_HEADER) :]
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
    compressed = bytes(cramjam.lz4.compress_block(data, store_size=False))
    if len(compressed) < len(data):
        return _uint32_le.pack(len(compressed)) + compressed
    return _uint32_le.pack(len(data) | _LZ4_UNCOMPRESSED_BIT) + data


def _decompress_into_buffer(codec_module: ModuleType, data: bytes, max_bytes: int) -> bytes:
    """cramjam fails if the buffer is too small, so it starts small, and grows up to `max_bytes`."""
    size = min(_FIRST_BUFFER_RATIO * len(data) + _FIRST_BUFFER_EXTRA_BYTES, max_bytes)
    while (content := _decompress_if_it_fits(codec_module, data, size)) is None:
        if size == max_bytes:
            raise make_size_error(max_bytes)
        size = min(_BUFFER_GROWTH * size, max_bytes)
    return content


def _decompress_if_it_fits(codec_module: ModuleType, data: bytes, size: int) -> bytes | None:
    """cramjam raises the same error for a full buffer and for damaged data, but only the first overwrites the mark at
    the end of the buffer.
    """
    buffer = bytearray(size + len(_END_MARK))
    buffer[size:] = _END_MARK
    try:
        byte_count = codec_module.decompress_into(data, buffer)
    except cramjam.DecompressionError:
        if buffer.endswith(_END_MARK):
            raise
        return None
    return bytes(memoryview(buffer)[:byte_count]) if byte_count <= size else None


def _decompress_gzip(data: bytes, max_bytes: int) -> bytes:
    out = bytearray()
    position = _decompress_gzip_member(data, 0, out, max_bytes)
    while data.startswith(_GZIP_MAGIC, position):
        position = _decompress_gzip_member(data, position, out, max_bytes)
    return bytes(out)


def _decompress_gzip_member(data: bytes, position: int, out: bytearray, max_bytes: int) -> int:
    """zlib copies the bytes of a piece after the end of the member, so the first pieces are small: otherwise, many
    small members would take quadratic time.
    """
    member = zlib.decompressobj(_GZIP_WBITS)
    piece_bytes = _FIRST_PIECE_BYTES
    while not member.eof:
        piece = data[position : position + piece_bytes]
        if not piece:
            raise InvalidLog("the gzip data ends too early")
        position += len(piece)
        piece_bytes *= 2
        out += member.decompress(piece, max_bytes + 1 - len(out))
        if len(out) > max_bytes:
            raise make_size_error(max_bytes)
    return position - len(member.unused_data)


def _decompress_snappy(data: bytes, max_bytes: int) -> bytes:
    if not data.startswith(_SNAPPY_MAGIC):
        return _decompress_snappy_block(data, max_bytes, max_bytes)
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
        out += _decompress_snappy_block(data[position : position + length], max_bytes - len(out), max_bytes)
        position += length
    return bytes(out)


def _decompress_snappy_block(block: bytes, bytes_left: int, max_bytes: int) -> bytes:
    """The block begins with its decompressed size, which is checked before memory is allocated."""
    if cramjam.snappy.decompress_raw_len(block) > bytes_left:
        raise make_size_error(max_bytes)
    return bytes(cramjam.snappy.decompress_raw(block))


def _decompress_lz4(data: bytes, max_bytes: int) -> bytes:
    try:
        return _decompress_into_buffer(cramjam.lz4, data, max_bytes)
    except cramjam.DecompressionError:  # cramjam does not accept the wrong checksum of old clients.
        return _decompress_lz4_blocks(data, max_bytes)


def _decompress_lz4_blocks(data: bytes, max_bytes: int) -> bytes:
    """The checksum of the frame's header is not checked, because it can be wrong (KAFKA-3160)."""
    magic, flags, block_size_byte = struct.unpack_from("<IBB", data)
    if magic != _LZ4_MAGIC:
        raise InvalidLog(f"expected an lz4 frame, found data that begins with {magic:08x}")
    has_content_size = bool(flags & 0x08)
    has_block_checksums = bool(flags & 0x10)
    header_bytes = 15 if has_content_size else 7
    block_size_code = block_size_byte >> 4 & 0x07
    max_block_bytes = 1 << (8 + 2 * block_size_code)
    buffer = bytearray(max_block_bytes)
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
            written = cramjam.lz4.decompress_block_into(block, buffer, output_len=max_block_bytes)
            out += memoryview(buffer)[:written]
        if len(out) > max_bytes:
            raise make_size_error(max_bytes)


_DECOMPRESSORS: dict[CompressionType, Callable[[bytes, int], bytes]] = {
    CompressionType.NONE: lambda data, max_bytes: data,
    CompressionType.GZIP: _decompress_gzip,
    CompressionType.SNAPPY: _decompress_snappy,
    CompressionType.LZ4: _decompress_lz4,
    CompressionType.ZSTD: partial(_decompress_into_buffer, cramjam.zstd),
}
