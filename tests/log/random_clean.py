"""Random batches for the cleaner and the dump: few keys, transactions, horizons, and odd bytes."""

from __future__ import annotations

import random
import struct
import zlib

from tests.handmade import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    ControlType,
    LogRecord,
    encode_batch,
    encode_control_key,
    encode_end_transaction_marker,
)

LONG_KEYS = [b"k" * size for size in (55, 56, 63, 64, 65, 119, 120, 200)]
KEYS = [b"", b"a", b"b", b"c", b"0123456", b"01234567", b"\0\1\0\1g\0\1t\0\0\0\0", *LONG_KEYS]
TIMES = [0, 5, 1000, 1_700_000_000_000]
ODD_NUMBERS = [-1, 2**31 - 1, 2**61, -(2**61) - 1, 2**62, 2**63 - 1, -(2**63)]


def message(offset: int, key: bytes | None, value: bytes | None) -> bytes:
    """Return a message of magic 1, uncompressed."""
    body = struct.pack(">bbq", 1, 0, 5)
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


class RandomLog:
    """The batches of a random log. `odd` is true if the log contains what no broker of today writes."""

    def __init__(self, seed: int, batch_count: int = 30) -> None:
        self.rnd = random.Random(seed)
        self.odd = self.rnd.random() < 0.25
        self.offset = self.rnd.choice((0, 0, 17, 2**40))
        self.epochs = {producer: 0 for producer in (1, 2, 7)}
        self.batches: list[tuple[int, bytes]] = []
        """The base offset and the bytes of each batch."""
        for _ in range(self.rnd.randrange(1, batch_count)):
            base_offset = self.offset
            self.batches.append((base_offset, self._make_batch()))
            self.offset += self.rnd.choice((0, 0, 0, 4))

    def _make_batch(self) -> bytes:
        rnd = self.rnd
        if self.odd and rnd.random() < 0.05:
            self.offset += 1
            return message(self.offset - 1, self._key(), self._value())
        producer = rnd.choice((-1, -1, 1, 2, 7))
        if producer >= 0 and rnd.random() < 0.05:
            self.epochs[producer] += 1
        epoch = self.epochs.get(producer, -1)
        attributes = TRANSACTIONAL if producer >= 0 and rnd.random() < 0.8 else 0
        first_offset = self.offset
        if producer >= 0 and rnd.random() < 0.4:
            attributes = TRANSACTIONAL | CONTROL
            records = [self._marker()]
            self.offset += 1
        else:
            records = []
            for _ in range(rnd.choice((1, 1, 2, 3, 9))):
                records.append(
                    LogRecord(self.offset, rnd.choice(TIMES) + rnd.randrange(50), self._key(), self._value())
                )
                self.offset += rnd.choice((1, 1, 1, 2))
            if rnd.random() < 0.2:
                attributes |= LOG_APPEND_TIME
        if self.odd and rnd.random() < 0.1:
            attributes |= rnd.choice((1, 2, 3, 4))
        base_time = None
        if rnd.random() < 0.2:
            attributes |= DELETE_HORIZON
            base_time = rnd.choice(TIMES) + rnd.randrange(50)
        last_offset = self.offset - 1
        if rnd.random() < 0.15:  # An earlier pass has removed records.
            records = records[1:]
        times = {"base_timestamp": base_time} if records else {"base_timestamp": 7, "max_timestamp": 7}
        data = encode_batch(
            records,
            base_offset=first_offset,
            last_offset=last_offset,
            attributes=attributes,
            partition_leader_epoch=rnd.choice((0, 3)),
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=-1 if producer < 0 else 5,
            **times,
        )
        return self._spoil(data) if self.odd and rnd.random() < 0.1 else data

    def _marker(self) -> LogRecord:
        rnd = self.rnd
        kind = rnd.choice((ControlType.COMMIT, ControlType.COMMIT, ControlType.ABORT))
        key = encode_control_key(kind)
        value = encode_end_transaction_marker(0)
        if self.odd and rnd.random() < 0.2:
            key = rnd.choice((None, b"", b"\0\0\0", b"\0\0\0\2", b"\0\0\0\x77", b"\xff\xff\0\1", b"\0\5\0\1more"))
        if self.odd and rnd.random() < 0.2:
            value = None
        return LogRecord(self.offset, rnd.choice(TIMES), key, value)

    def _key(self) -> bytes | None:
        return None if self.rnd.random() < 0.03 else self.rnd.choice(KEYS)

    def _value(self) -> bytes | None:
        return self.rnd.choice((None, b"", b"1", b"v" * 70))

    def _spoil(self, data: bytes) -> bytes:
        """Return the batch with another number in its header, or with other bytes in its records."""
        rnd = self.rnd
        out = bytearray(data)
        position, number_format = rnd.choice(
            ((0, ">q"), (23, ">i"), (27, ">q"), (35, ">q"), (43, ">q"), (51, ">h"), (57, ">i"), (61, ">B"), (-1, ">B"))
        )
        size = 8 * struct.calcsize(number_format)
        number = rnd.choice(ODD_NUMBERS) if rnd.random() < 0.7 else rnd.getrandbits(64)
        unsigned = number % 2**size
        struct.pack_into(number_format.upper(), out, position % len(out), unsigned)
        return mend(bytes(out)) if rnd.random() < 0.8 else bytes(out)


def mend(data: bytes) -> bytes:
    """Return a batch of magic 2 with a correct checksum."""
    from crc32c import crc32c

    return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]
