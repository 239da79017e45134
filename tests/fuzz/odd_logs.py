"""Random damage of segments, with structure: header fields, records, keys and values, codecs, the order of batches.

A change below the checksum is mostly followed by a new checksum, so that it reaches the code behind the checksum.
"""

from __future__ import annotations

import gzip
import json
import random
import struct
import zlib
from contextlib import suppress

import cramjam
from crc32c import crc32c

import kafkagroups as kg
from kafkagroups.log.batch import read_varint, write_varint
from tests.fuzz.odd_values import EDGES, change_bytes, change_json, odd_number
from tests.handmade import CompressionType, compress, decompress

COMMON_FIELDS = {"base_offset": (0, "q"), "length": (8, "i"), "magic": (16, "b")}
"""The position and the type of each header field that batches of all magics have."""
BATCH_FIELDS = COMMON_FIELDS | {
    "leader_epoch": (12, "i"),
    "attributes": (21, "h"),
    "last_offset_delta": (23, "i"),
    "base_timestamp": (27, "q"),
    "max_timestamp": (35, "q"),
    "producer_id": (43, "q"),
    "producer_epoch": (51, "h"),
    "base_sequence": (53, "i"),
    "count": (57, "i"),
}
"""The same for a batch of magic 2."""
MESSAGE_FIELDS = COMMON_FIELDS | {"attributes": (17, "b"), "timestamp": (18, "q"), "key_length": (26, "i")}
"""The same for a message of magic 0 or 1. Magic 0 has no timestamp."""
HEADER_BYTES = 61
MAX_BOMB_BYTES = 600 * 1024 * 1024
"""The decompressed size of a bomb. It is above the default limit of a batch."""


def change_log(rnd: random.Random, data: bytes) -> bytes:
    """Return a segment with one to five changes."""
    batches, tail = split_batches(data)
    for _ in range(rnd.choice((1, 1, 1, 2, 5))):
        if not batches:
            break
        index = rnd.randrange(len(batches))
        chance = rnd.random()
        if chance < 0.12:
            batches = _change_order(rnd, batches, index)
        elif chance < 0.15:
            batches.insert(index, bomb(rnd, batches[index]))
        elif chance < 0.4:
            batches[index] = _change_header(rnd, batches[index])
        elif chance < 0.9:
            batches[index] = _change_records(rnd, batches[index])
        else:
            batches[index] = change_bytes(rnd, batches[index], rnd.choice((1, 3)))
    out = b"".join(batches) + tail
    match rnd.randrange(12):
        case 0:
            out += bytes(rnd.choice((1, 9, 10, 17, 61, 5000)))
        case 1:
            out = out[: rnd.randrange(len(out) + 1)]
        case 2:
            out += rnd.randbytes(rnd.choice((1, 12, 100)))
        case 3 if out:
            place = rnd.randrange(len(out))
            out = out[:place] + bytes(rnd.choice((8, 61, 4096))) + out[place:]
    return out


def split_batches(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the batches and messages of a segment, and the bytes after the last whole one."""
    batches = []
    position = 0
    while position + 17 <= len(data):
        end = position + 12 + struct.unpack_from(">i", data, position + 8)[0]
        if not position + 26 <= end <= len(data):
            break
        batches.append(data[position:end])
        position = end
    return batches, data[position:]


def mend(batch: bytes) -> bytes:
    """Return a batch or message with its real length and the checksum of its bytes."""
    if len(batch) < 26:
        return batch
    out = bytearray(batch)
    struct.pack_into(">i", out, 8, len(out) - 12)
    if out[16] == 2 and len(out) >= HEADER_BYTES:
        struct.pack_into(">I", out, 17, crc32c(out[21:]))
    else:
        struct.pack_into(">I", out, 12, zlib.crc32(out[16:]))
    return bytes(out)


def bomb(rnd: random.Random, batch: bytes) -> bytes:
    """Return a small batch whose decompressed records have up to MAX_BOMB_BYTES, or announce more."""
    codec, pack = rnd.choice(BOMBS)
    payload = pack(rnd.choice((1 << 20, 50 << 20, MAX_BOMB_BYTES)))
    return mend(_with_header(batch, attributes=codec, count=rnd.choice((1, 1000, 2**31 - 1))) + payload)


BOMBS = (
    (CompressionType.SNAPPY, lambda size: b"\xff\xff\xff\xff\x0f\x00"),  # announces 4 GiB
    (CompressionType.SNAPPY, lambda size: b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + b"\x7f\xff\xff\xff" * 3),
    (CompressionType.SNAPPY, lambda size: bytes(cramjam.snappy.compress_raw(bytes(size // 10)))),
    (CompressionType.GZIP, lambda size: gzip.compress(b"") * (size >> 14)),
    (CompressionType.GZIP, lambda size: zlib.compress(bytes(size // 4), 1, wbits=31)),
    (CompressionType.LZ4, lambda size: bytes(cramjam.lz4.compress(bytes(size // 4)))),
    (CompressionType.ZSTD, lambda size: bytes(cramjam.zstd.compress(bytes(size), level=1))),
)
"""A codec, and a function that returns compressed data of about this decompressed size in bytes."""


def _with_header(batch: bytes, **fields: int) -> bytes:
    """Return the header of a batch of magic 2 with some fields changed. A message gets a plain header."""
    is_batch = len(batch) >= HEADER_BYTES and batch[16] == 2
    plain = struct.pack(">qiibIhiqqqhii", 0, 0, 0, 2, 0, 0, 0, 5, 5, -1, -1, -1, 1)
    header = bytearray(batch[:HEADER_BYTES] if is_batch else plain)
    for name, number in fields.items():
        _put(header, *BATCH_FIELDS[name], number)
    return bytes(header)


def _put(out: bytearray, place: int, code: str, number: int) -> None:
    """Write the low bits of a number."""
    size = struct.calcsize(">" + code)
    if place + size <= len(out):
        out[place : place + size] = (number & (256**size - 1)).to_bytes(size, "big")


def _change_order(rnd: random.Random, batches: list[bytes], index: int) -> list[bytes]:
    """Repeat, remove, swap or empty a batch."""
    out = list(batches)
    match rnd.randrange(5):
        case 0:
            out[index:index] = [out[index]] * rnd.choice((1, 2, 20))
        case 1:
            del out[index]
        case 2:
            rnd.shuffle(out)
        case 3:
            out[index] = mend(_with_header(out[index], count=0))
        case _:
            out.append(out[index])
    return out


def _change_header(rnd: random.Random, batch: bytes) -> bytes:
    out = bytearray(batch)
    fields = BATCH_FIELDS if batch[16:17] == b"\2" else MESSAGE_FIELDS
    name = rnd.choice(list(fields))
    number = rnd.choice((odd_number(rnd), rnd.getrandbits(6)))
    if rnd.random() < 0.85 and name not in ("length", "magic"):
        _put(out, *fields[name], number)
        return mend(bytes(out))
    _put(out, *fields[name], number)
    return bytes(out)


def _change_records(rnd: random.Random, batch: bytes) -> bytes:
    """Change the records of a batch, and store them with any codec, with a new checksum."""
    if len(batch) < HEADER_BYTES or batch[16] != 2:
        return mend(batch[:17] + change_bytes(rnd, batch[17:], rnd.choice((1, 2))))
    attributes = struct.unpack_from(">h", batch, 21)[0]
    try:
        payload = decompress(CompressionType(attributes & 7), batch[HEADER_BYTES:])
        records = split_records(payload)
    except (kg.InvalidLog, ValueError, IndexError):
        return mend(batch[:HEADER_BYTES] + change_bytes(rnd, batch[HEADER_BYTES:]))
    if records:
        index = rnd.randrange(len(records))
        records[index : index + 1] = _change_record(rnd, records[index])
    payload = join_records(records)
    if rnd.random() < 0.1:
        payload = change_bytes(rnd, payload)
    codec = rnd.choice((attributes & 7, 0, 1, 2, 3, 4))
    if codec <= 4:
        payload = compress(CompressionType(codec), payload)
    if rnd.random() < 0.15:
        payload = change_bytes(rnd, payload)
    fields = {"attributes": attributes & ~7 | codec}
    if rnd.random() < 0.9:
        fields["count"] = len(records)
    return mend(_with_header(batch, **fields) + payload)


def split_records(payload: bytes) -> list[bytes]:
    """Return the bodies of the records of a batch, without their lengths."""
    records = []
    position = 0
    while position < len(payload):
        size, position = read_varint(payload, position)
        if size < 0:
            raise ValueError(f"expected a record of 0 bytes or more, found {size}")
        records.append(payload[position : position + size])
        position += size
    return records


def join_records(records: list[bytes]) -> bytes:
    out = bytearray()
    for record in records:
        write_varint(out, len(record))
        out += record
    return bytes(out)


def _change_record(rnd: random.Random, record: bytes) -> list[bytes]:
    """Return no record, two records, or a record with other deltas, another key, another value or other bytes."""
    chance = rnd.random()
    if chance < 0.1:
        return [record] * rnd.choice((0, 2, 40))
    if chance < 0.25:
        return [change_bytes(rnd, record)]
    try:
        timestamp_delta, position = read_varint(record, 1, 10)
        offset_delta, position = read_varint(record, position)
        key, position = _read_field(record, position)
        value, position = _read_field(record, position)
    except (kg.InvalidLog, IndexError):
        return [change_bytes(rnd, record)]
    if chance < 0.35:
        timestamp_delta = rnd.choice(EDGES)
    elif chance < 0.45:
        offset_delta = rnd.choice(EDGES)
    else:
        key, value = change_key_and_value(rnd, key, value)
    out = bytearray(record[:1])
    write_varint(out, max(min(timestamp_delta, 2**63 - 1), -(2**63)))
    write_varint(out, max(min(offset_delta, 2**31 - 1), -(2**31)))
    for content in (key, value):
        write_varint(out, -1 if content is None else len(content))
        out += content or b""
    return [bytes(out) + record[position:]]


def _read_field(record: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(record, position)
    return (None, position) if size < 0 else (record[position : position + size], position + size)


def change_key_and_value(
    rnd: random.Random, key: bytes | None, value: bytes | None
) -> tuple[bytes | None, bytes | None]:
    """Return another key and value: with other fields in Kafka's JSON, or with other bytes."""
    attempts = rnd.choice((0, 1, 10))
    for _ in range(attempts):  # Most changes do not fit the types of the fields.
        with suppress(kg.InvalidRecord, kg.UsageError, RecursionError):
            changed = change_json(rnd, kg.to_json(kg.decode(key, value)))
            return kg.encode(kg.from_json(json.loads(json.dumps(changed))))
    match rnd.randrange(6):
        case 0:
            return key, None
        case 1:
            return None, value
        case 2 if key is not None:
            return rnd.randrange(-2, 30).to_bytes(2, "big", signed=True) + key[2:], value
        case 3 if value is not None:
            return key, rnd.randrange(-2, 7).to_bytes(2, "big", signed=True) + value[2:]
        case 4 if key is not None:
            return change_bytes(rnd, key), value
    return key, None if value is None else change_bytes(rnd, value, rnd.choice((1, 2, 4)))
