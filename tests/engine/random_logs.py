"""Random small logs of one partition: every kind of record and batch, with few keys, so that records interact."""

from __future__ import annotations

import random

from kafkagroups import Record, encode
from tests.handmade import (
    CONTROL,
    TRANSACTIONAL,
    ControlType,
    GroupMetadataKey,
    GroupMetadataValue,
    LogRecord,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_batch,
    encode_control_key,
    encode_end_transaction_marker,
)

GROUPS = ("a", "b", "grüß", "a-group-with-a-name-that-is-rather-long")
SUBSCRIPTION = bytes.fromhex("0001000000010001740000000000000000")
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAABQ"


def random_log(seed: int, batches: int = 40, first_offset: int = 0) -> bytes:
    """Return the bytes of a segment. Most content is what brokers write; some is what no broker would write."""
    rnd = random.Random(seed)
    odd = rnd.random() < 0.3
    modern = rnd.random() < 0.3
    out = bytearray()
    offset = first_offset + rnd.choice((0, 0, 17))
    for _ in range(rnd.randrange(batches)):
        producer = rnd.choice((-1, -1, 1, 2, 7))
        transactional = producer >= 0 if rnd.random() < 0.97 else rnd.random() < 0.5
        if producer >= 0 and rnd.random() < 0.4:
            kind = rnd.choice((ControlType.COMMIT, ControlType.COMMIT, ControlType.ABORT))
            records = [LogRecord(offset, 5, encode_control_key(kind), encode_end_transaction_marker(0))]
            attributes = TRANSACTIONAL | CONTROL
        else:
            contents = [_record(rnd, odd, modern) for _ in range(rnd.choice((1, 1, 2, 3, 9)))]
            records = [LogRecord(offset + at, 1000 + offset, *each) for at, each in enumerate(contents)]
            if rnd.random() < 0.2 and len(records) > 1:
                del records[rnd.randrange(len(records))]  # The cleaner leaves gaps.
            attributes = (TRANSACTIONAL if transactional else 0) | (
                rnd.choice((1, 2, 3, 4)) if rnd.random() < 0.05 else 0
            )
        data = encode_batch(
            records,
            base_offset=offset,
            attributes=attributes,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
        )
        out += data
        offset = records[-1].offset + rnd.choice((1, 1, 1, 3))
    if odd and rnd.random() < 0.2 and out:
        if rnd.random() < 0.5:
            out[rnd.randrange(len(out))] ^= 1 << rnd.randrange(8)
        else:
            del out[rnd.randrange(len(out)) :]
    if rnd.random() < 0.1:
        out += bytes(rnd.randrange(100))
    return bytes(out)


def passing_keys(count: int, first_offset: int = 0) -> bytes:
    """Return a log with keys of 300 groups. They are committed, some by transactions of new producers, and deleted."""
    rnd = random.Random(count)
    out = bytearray()
    offset = first_offset

    def put(records: list[tuple[bytes, bytes | None]], producer: int = -1, attributes: int = 0) -> None:
        nonlocal offset, out
        out += encode_batch(
            [LogRecord(offset + at, 1000, *each) for at, each in enumerate(records)],
            base_offset=offset,
            attributes=attributes,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
        )
        offset += len(records)

    # Very many transactions stay open.
    for producer in range(count + 1, count + 700):
        key = OffsetCommitKey(f"open-{producer % 7}", "t", producer)
        put([encode(Record(1, key, OffsetCommitValue(producer, -1, "", 9, -1), 3))], producer, TRANSACTIONAL)
    # Long metadata is written and removed again.
    for turn in range(2000):
        key = OffsetCommitKey("noted", "t", 0)
        note = "n" * 3000 if turn % 2 else ""
        put([encode(Record(1, key, OffsetCommitValue(turn, -1, note, 9, -1), 3))])
    for number in range(count // 10):
        keys = [OffsetCommitKey(f"g{rnd.randrange(300)}", f"topic-{number}", at) for at in range(10)]
        note = rnd.choice(("", "n", "a note of some length: " * 9))
        transaction = number if rnd.random() < 0.3 else -1
        values = [OffsetCommitValue(number, -1, note, 9, -1) for _ in keys]
        both = [encode(Record(1, key, value, 3)) for key, value in zip(keys, values, strict=True)]
        put(both, transaction, TRANSACTIONAL if transaction >= 0 else 0)
        if transaction >= 0 and rnd.random() < 0.99:
            kind = rnd.choice((ControlType.COMMIT, ControlType.ABORT))
            put([(encode_control_key(kind), encode_end_transaction_marker(0))], transaction, TRANSACTIONAL | CONTROL)
        if rnd.random() < 0.98:
            put([(key, None) for key, _ in both])
    return bytes(out)


def _record(rnd: random.Random, odd: bool, modern: bool) -> tuple[bytes, bytes | None]:
    group = rnd.choice(GROUPS)
    chance = rnd.random()
    if modern and chance < 0.1:
        key = rnd.choice((3, 4, 6)).to_bytes(2, "big") + len(group.encode()).to_bytes(2, "big") + group.encode()
        return key, None if rnd.random() < 0.5 else b"\x00\x00" + rnd.randrange(9).to_bytes(4, "big") + b"\x00"
    if odd and chance < 0.12:
        return _odd(rnd, group)
    if chance < 0.25:
        members = tuple(
            MemberMetadata(f"m{at}", rnd.choice((None, f"i{at}")), "c", "/h", 1000, 2000, SUBSCRIPTION, b"")
            for at in range(rnd.randrange(3))
        )
        protocol = ("range", "m0") if members else (None, None)
        value = GroupMetadataValue(rnd.choice(("consumer", "connect")), rnd.randrange(5), *protocol, 77, members)
        return encode(Record(2, GroupMetadataKey(group), None if rnd.random() < 0.3 else value, 3))
    key = OffsetCommitKey(group, rnd.choice(("t", "topic")), rnd.choice((0, 0, 1, 1, 2, 9, -1, 2**31 - 1)))
    if rnd.random() < 0.2:
        return encode(Record(1, key, None, None))
    version = rnd.choice((0, 1, 2, 3, 3, 3, 4))
    value = OffsetCommitValue(
        rnd.randrange(-1, 1 << 40),
        rnd.choice((-1, 0, 7)) if version >= 3 else -1,
        rnd.choice(("", "", "m", "ein Vermerk: grüße", "x" * rnd.randrange(300))),
        rnd.randrange(1 << 41),
        rnd.choice((-1, 5, 1 << 41)) if version == 1 else -1,
        TOPIC_ID if version == 4 and rnd.random() < 0.5 else "AAAAAAAAAAAAAAAAAAAAAA",
    )
    data, content = encode(Record(1, key, value, version))
    return (b"\x00\x00" + data[2:] if rnd.random() < 0.1 and version < 4 else data), content


def _odd(rnd: random.Random, group: str) -> tuple[bytes, bytes | None]:
    data, content = encode(Record(1, OffsetCommitKey(group, "t", 0), OffsetCommitValue(5, -1, "", 9, -1), 3))
    which = rnd.randrange(7)
    if which == 0:
        return data + b"tail", content
    if which == 1:
        return data, (content or b"") + b"tail"
    if which == 2:
        return data[: rnd.randrange(2, len(data))], content
    if which == 3:
        return data, (content or b"")[: rnd.randrange(len(content or b"x"))]
    if which == 4:
        return rnd.choice((9, 24, 99)).to_bytes(2, "big") + data[2:], content
    if which == 5:
        return data.replace(group.encode(), bytes([0xFF]) * len(group.encode())), content
    return data, b"\x00" + bytes([rnd.randrange(7)]) + (content or b"")[2:]
