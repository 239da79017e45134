"""Small compressed batches that become large, with right checksums, in every codec and format."""

import struct
import zlib

import cramjam
from crc32c import crc32c

from tests.handmade import HEADER, HEADER_SIZE, CompressionType, compress, message

SNAPPY_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
ZSTD_BLOCK = 128 * 1024


def batch_of(payload, codec, count=1, base_offset=0, producer_id=-1):
    """Return a batch of magic 2 with any compressed payload and any number of records in its header."""
    fields = (base_offset, HEADER_SIZE - 12 + len(payload), 0, 2, 0, codec, count - 1, 5, 5, producer_id, -1, -1, count)
    data = bytearray(HEADER.pack(*fields) + payload)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def zeros(codec, size):
    """Return data that decompresses to `size` zeros. Only the zstd data has its size rounded up to a block."""
    if codec == CompressionType.GZIP:
        packer = zlib.compressobj(wbits=31)
        pieces = [packer.compress(bytes(min(2**20, size - start))) for start in range(0, size, 2**20)]
        return b"".join(pieces) + packer.flush()
    if codec == CompressionType.SNAPPY:
        chunks = [bytes(cramjam.snappy.compress_raw(bytes(min(2**20, size - at)))) for at in range(0, size, 2**20)]
        return SNAPPY_HEADER + b"".join(struct.pack(">i", len(chunk)) + chunk for chunk in chunks)
    if codec == CompressionType.LZ4:
        return compress(codec, bytes(size))
    blocks = -(-size // ZSTD_BLOCK)
    run = (ZSTD_BLOCK << 3 | 2).to_bytes(3, "little") + b"\0"
    last = (ZSTD_BLOCK << 3 | 3).to_bytes(3, "little") + b"\0"
    return bytes.fromhex("28b52ffd0038") + run * (blocks - 1) + last


def snappy_that_announces(size):
    """Return a raw snappy block of a few bytes that announces `size` bytes."""
    length = bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(length) + bytes([size, 0, 0])


def chunk_that_announces(size):
    """Return snappy-java's stream with one chunk that announces `size` bytes."""
    block = snappy_that_announces(size)
    return SNAPPY_HEADER + struct.pack(">i", len(block)) + block


def lz4_without_checksum(data):
    """Return an lz4 frame with a wrong checksum of its header, as clients before magic 2 wrote it."""
    return data[:6] + bytes([data[6] ^ 0xFF]) + data[7:]


def bombs(size):
    """Return named batches that each decompress to about `size` bytes, of every codec and magic."""
    found = {"announced": batch_of(snappy_that_announces(size), CompressionType.SNAPPY)}
    found["announced chunk"] = batch_of(chunk_that_announces(size), CompressionType.SNAPPY)
    found["announced, magic 1"] = message(0, None, snappy_that_announces(size), CompressionType.SNAPPY)
    for codec in (CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD):
        payload = zeros(codec, size)
        found[codec.name.lower()] = batch_of(payload, codec)
        if codec != CompressionType.ZSTD:
            for magic in (0, 1):
                found[f"{codec.name.lower()}, magic {magic}"] = message(0, None, payload, codec, magic)
    found["lz4 without checksum, magic 1"] = message(0, None, lz4_without_checksum(zeros(CompressionType.LZ4, size)), 3)
    return found
