"""Logs that a load could find hard: many small parts, many members of one list, many compressed nothings."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import cramjam
from crc32c import crc32c

import kafkagroups as kg
from kafkagroups.log.batch import CONTROL, TRANSACTIONAL, LogRecord
from kafkagroups.log.compression import CompressionType, compress
from kafkagroups.log.record_batch import HEADER, HEADER_SIZE, encode_batch
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record

NEW = "4.3.1"


@dataclass
class HostileLog:
    """A log, or the logs of several partitions, and the Kafka version that loads it."""

    content: bytes | dict[int, bytes]
    kafka: str = NEW
    decompressed_size: int = 0

    @property
    def size(self) -> int:
        return sum(map(len, self.content.values())) if isinstance(self.content, dict) else len(self.content)


def commit(group: str, topic: str = "orders", partition: int = 0, metadata: str = "") -> tuple[bytes, bytes]:
    value = OffsetCommitValue(7, -1, metadata, 1_700_000_000_000, -1)
    key, data = kg.encode(Record(1, OffsetCommitKey(group, topic, partition), value, 3))
    assert data is not None
    return key, data


def tombstone(group: str, topic: str = "orders", partition: int = 0) -> tuple[bytes, None]:
    return commit(group, topic, partition)[0], None


def of_json(type: int, version: int, key: dict[str, Any], value: dict[str, Any] | None) -> tuple[bytes, bytes | None]:
    data = None if value is None else {"version": str(version), "data": value}
    return kg.encode(kg.from_json({"key": {"type": str(type), "data": key}, "value": data}))


def batch(offset: int, pairs: Iterable[tuple[bytes, bytes | None]], **header: Any) -> bytes:
    return encode_batch([LogRecord(offset + step, 5, *pair) for step, pair in enumerate(pairs)], **header)


def fill(size: int, make: Callable[[int, int], bytes], per_batch: int = 1) -> bytes:
    """Return batches of together `size` bytes. `make` gets the number of a batch and its first offset."""
    out = bytearray()
    for number in count():
        if len(out) >= size:
            return bytes(out)
        out += make(number, number * per_batch)
    raise AssertionError


def marker(offset: int, producer_id: int) -> bytes:
    header = {"attributes": CONTROL | TRANSACTIONAL, "producer_id": producer_id, "producer_epoch": 0}
    return batch(offset, [(b"\0\0\0\1", bytes(6))], **header)


def pending(offset: int, producer_id: int, pairs: Iterable[tuple[bytes, bytes | None]]) -> bytes:
    return batch(offset, pairs, attributes=TRANSACTIONAL, producer_id=producer_id, producer_epoch=0)


def with_payload(offset: int, codec: int, payload: bytes, records: int) -> bytes:
    fields = (offset, HEADER_SIZE - 12 + len(payload), 0, 2, 0, codec, records - 1, 5, 5, -1, -1, -1, records)
    data = bytearray(HEADER.pack(*fields) + payload)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def message(offset: int, key: bytes, value: bytes, codec: int = 0, magic: int = 1) -> bytes:
    time = struct.pack(">q", 5) if magic else b""
    parts = struct.pack(">i", len(key) or -1) + key + struct.pack(">i", len(value)) + value
    body = struct.pack(">bb", magic, codec) + time + parts
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def ordinary(size: int) -> bytes:
    """Return commits of 1,000 groups, some in transactions, in batches of five."""

    def make(number: int, offset: int) -> bytes:
        pairs = [commit(f"group-{number % 1000}", f"topic-{number % 7}", step, "note") for step in range(5)]
        return batch(offset, pairs)

    return fill(size, make, 5)


def ordinary_gzip(size: int) -> HostileLog:
    def make(number: int, offset: int) -> bytes:
        pairs = [commit(f"group-{number % 1000}", f"topic-{number % 7}", step, "note") for step in range(5)]
        return batch(offset, pairs, attributes=1)

    content = fill(size, make, 5)
    return HostileLog(content, NEW, size * 2)


def empty_batches(size: int) -> HostileLog:
    header = {"base_timestamp": 5, "max_timestamp": 5}
    return HostileLog(fill(size, lambda n, at: batch(at, [], base_offset=at, last_offset=at, **header)))


def single_commits(size: int) -> HostileLog:
    return HostileLog(fill(size, lambda n, at: batch(at, [commit("g", "t", n)])))


def new_groups(size: int) -> HostileLog:
    return HostileLog(fill(size, lambda n, at: batch(at, [commit(f"{n}-{step}", "t") for step in range(50)]), 50))


def open_producers(size: int) -> HostileLog:
    return HostileLog(fill(size, lambda n, at: pending(at, n, [commit("g", "t")])))


def open_producers_with_high_ids(size: int) -> HostileLog:
    return HostileLog(fill(size, lambda n, at: pending(at, n << 40, [commit("g", "t", n)])))


def tombstones_of_open_producers(size: int) -> HostileLog:
    half = fill(size // 2, lambda n, at: pending(at, n, [commit("g", "t", n % 3)]))
    start = 10**6
    rest = fill(size // 2, lambda n, at: batch(start + at, [tombstone("g", "t", step) for step in range(100)]), 100)
    return HostileLog(half + rest)


def pending_commits_of_one_producer(size: int) -> HostileLog:
    return HostileLog(fill(size, lambda n, at: pending(at, 7, [commit("g", "t") for _ in range(50)]), 50))


def markers(size: int) -> HostileLog:
    return HostileLog(fill(size, lambda n, at: marker(at, n)))


def transactions(size: int) -> HostileLog:
    return HostileLog(fill(size, lambda n, at: pending(at, n, [commit("g", "t")]) + marker(at + 1, n), 2))


def orphans(size: int) -> HostileLog:
    """Return offsets of groups that a group tombstone hides."""

    def make(number: int, offset: int) -> bytes:
        group = {"group": f"g{number}"}
        return batch(offset, [commit(f"g{number}", "t"), of_json(2, 3, group, None)])

    return HostileLog(fill(size, make, 2))


def messages(size: int) -> HostileLog:
    return HostileLog(fill(size, lambda n, at: message(at, *commit("g", "t", n), magic=0)), "1.0.1")


def tiny_messages(size: int) -> HostileLog:
    return HostileLog(fill(size, lambda n, at: message(at, b"\0\x63", b"", magic=0)), "3.9.2")


def wrappers(size: int) -> HostileLog:
    def make(number: int, offset: int) -> bytes:
        return message(offset, b"", compress(CompressionType.GZIP, message(0, *commit("g", "t", number))), 1)

    return HostileLog(fill(size, make), "1.0.1")


def single_gzip_commits(size: int) -> HostileLog:
    return HostileLog(fill(size, lambda n, at: batch(at, [commit("g", "t", n)], attributes=1)))


def single_zstd_commits(size: int) -> HostileLog:
    return HostileLog(fill(size, lambda n, at: batch(at, [commit("g", "t", n)], attributes=4)))


def alternating_codecs(size: int) -> HostileLog:
    return HostileLog(fill(size, lambda n, at: batch(at, [commit("g", "t", n)], attributes=n % 2)))


def one_batch_of(codec: CompressionType, part: bytes, size: int, header: bytes = b"", end: bytes = b"") -> HostileLog:
    """Return one batch whose payload repeats a part that decompresses to nothing."""
    record = batch(0, [commit("g", "t")])[HEADER_SIZE:]
    content = compress(codec, record)
    if codec is CompressionType.LZ4:  # Blocks of nothing stand in one frame with the block of the record.
        return HostileLog(message(0, b"", header + part * (size // len(part)) + end, codec), "1.0.1")
    content = content[len(header) :] if header else content
    return HostileLog(with_payload(0, codec, header + part * (size // len(part)) + content, 1))


def gzip_members(size: int) -> HostileLog:
    return one_batch_of(CompressionType.GZIP, compress(CompressionType.GZIP, b""), size)


def snappy_chunks(size: int) -> HostileLog:
    chunk = bytes(cramjam.snappy.compress_raw(b""))
    header = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    return one_batch_of(CompressionType.SNAPPY, struct.pack(">i", len(chunk)) + chunk, size, header)


def lz4_blocks(size: int) -> HostileLog:
    """Return a wrapper with a wrong header checksum and very many blocks of one byte, each up to 4 MiB in theory."""
    inner = message(0, *commit("g", "t"))
    blocks = b"".join(struct.pack("<I", 2) + bytes([0x10, byte]) for byte in inner)
    empty = struct.pack("<I", 1) + b"\0"
    frame = bytes.fromhex("04224d18607000") + empty * (size // len(empty)) + blocks + bytes(4)
    return HostileLog(message(0, b"", frame, 3), "1.0.1")


def zstd_frames(size: int) -> HostileLog:
    return one_batch_of(CompressionType.ZSTD, bytes(cramjam.zstd.compress(b"")), size)


def group_members(size: int, kafka: str = "3.9.2") -> HostileLog:
    """Return one group record with very many members, whose ids have equal hashes in Java."""
    ids = ("".join("Aa" if number >> bit & 1 else "BB" for bit in range(17)) for number in count())
    member = {"groupInstanceId": None, "clientId": "", "clientHost": "", "rebalanceTimeout": 1, "sessionTimeout": 1}
    bytes_ = {"subscription": "", "assignment": ""}
    members = [{"memberId": next(ids), **member, **bytes_} for _ in range(size // 60)]
    value = {"protocolType": "consumer", "generation": 1, "protocol": "range", "leader": None, "members": members}
    pair = of_json(2, 3, {"group": "g"}, value | {"currentStateTimestamp": 1})
    return HostileLog(batch(0, [pair]), kafka)


def group_records(size: int) -> HostileLog:
    member = {"groupInstanceId": None, "clientId": "", "clientHost": "", "rebalanceTimeout": 1, "sessionTimeout": 1}
    bytes_ = {"subscription": "AAAAAAAAAAAAAA==", "assignment": ""}

    def make(number: int, offset: int) -> bytes:
        members = [{"memberId": "m" * 3000, **member, **bytes_}]
        value = {"protocolType": "consumer", "generation": number, "protocol": "range", "leader": None}
        value |= {"currentStateTimestamp": 1, "members": members}
        return batch(offset, [of_json(2, 3, {"group": "g"}, value)])

    return HostileLog(fill(size, make), "3.9.2")


def large_assignment(size: int, kafka: str = NEW) -> HostileLog:
    """Return a member with a large assignment, and many records of the same member."""
    key = {"groupId": "g", "memberId": "m"}
    topics = [{"topicId": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": list(range(size // 8))}]
    current = {"memberEpoch": 5, "previousMemberEpoch": 4, "state": 0, "assignedPartitions": topics}
    current |= {"partitionsPendingRevocation": []}
    fields = {"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "h", "subscribedTopicNames": []}
    fields |= {"subscribedTopicRegex": None, "rebalanceTimeoutMs": 5, "serverAssignor": None}
    member = of_json(5, 0, key, fields)
    start = batch(0, [of_json(3, 0, {"groupId": "g"}, {"epoch": 5}), member, of_json(8, 0, key, current)])
    return HostileLog(start + fill(size // 2, lambda n, at: batch(3 + at, [member] * 50), 50), kafka)


def standby_tasks(size: int) -> HostileLog:
    """Return many members of a streams group that all have the same standby task."""
    none: list[Any] = []
    tasks = {name: none for name in ("activeTasks", "warmupTasks", "activeTasksPendingRevocation")}
    tasks |= {name: none for name in ("standbyTasksPendingRevocation", "warmupTasksPendingRevocation")}
    tasks |= {"standbyTasks": [{"subtopologyId": "0", "partitions": [0]}]}

    def make(number: int, offset: int) -> bytes:
        key = {"groupId": "g", "memberId": f"m{number}"}
        fields = {"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "h", "rebalanceTimeoutMs": 5}
        fields |= {"topologyEpoch": 0, "processId": f"p{number}", "userEndpoint": None, "clientTags": none}
        current = {"memberEpoch": 5, "previousMemberEpoch": 4, "state": 1, **tasks}
        return batch(offset, [of_json(19, 0, key, fields), of_json(22, 0, key, current)])

    return HostileLog(fill(size, make, 2), "4.1.1")


def wrong_utf8(size: int) -> HostileLog:
    """Return commits whose metadata is no valid UTF-8."""
    key, value = commit("g", "t", 0, "m" * 30_000)
    value = value.replace(b"m" * 30_000, b"\xff\xed\xa0\x80" * 7_500)
    return HostileLog(fill(size, lambda n, at: batch(at, [(key, value)])))


def headers(size: int) -> HostileLog:
    key, value = commit("g", "t")
    record = LogRecord(0, 5, key, value, ((b"", None),) * 5000)

    def make(number: int, offset: int) -> bytes:
        return encode_batch([record._replace(offset=offset)])

    return HostileLog(fill(size, make))


def partitions(size: int, kafka: str = NEW) -> HostileLog:
    pairs = [commit(f"g{step}", "t") for step in range(5)]
    data = batch(0, pairs)
    return HostileLog({number: data for number in range(size // len(data) // 4)}, kafka)


def partitions_with_own_groups(size: int, kafka: str = "0.9.0.1") -> HostileLog:
    found = {n: batch(0, [commit(f"{n}-{step}", "t") for step in range(5)]) for n in range(size // 300 // 4)}
    return HostileLog(found, kafka)


def failing_partitions(size: int) -> HostileLog:
    found = {n: batch(0, [commit(f"{n}-{step}", "t") for step in range(5)]) for n in range(size // 300 // 8)}
    bad = batch(0, [(b"\0\1", b"")])
    return HostileLog({**found, **{n + len(found): bad for n in range(len(found))}})


KINDS: dict[str, Callable[[int], HostileLog]] = {
    "ordinary, gzip": ordinary_gzip,
    "empty batches": empty_batches,
    "batches of one commit": single_commits,
    "new groups": new_groups,
    "open producers": open_producers,
    "open producers with high ids": open_producers_with_high_ids,
    "tombstones of open producers": tombstones_of_open_producers,
    "pending commits of one producer": pending_commits_of_one_producer,
    "markers": markers,
    "transactions": transactions,
    "orphans": orphans,
    "messages of magic 0": messages,
    "tiny messages of magic 0": tiny_messages,
    "wrappers of magic 1": wrappers,
    "gzip batches of one commit": single_gzip_commits,
    "zstd batches of one commit": single_zstd_commits,
    "alternating codecs": alternating_codecs,
    "gzip members": gzip_members,
    "snappy chunks": snappy_chunks,
    "lz4 blocks": lz4_blocks,
    "zstd frames": zstd_frames,
    "group members with equal hashes, 3.9": group_members,
    "group members with equal hashes, 2.3": lambda size: group_members(size, "2.3.1"),
    "group members with equal hashes, 4.3": lambda size: group_members(size, NEW),
    "group records with a long id": group_records,
    "large assignment": large_assignment,
    "large assignment, 4.0.1": lambda size: large_assignment(size, "4.0.1"),
    "standby tasks": standby_tasks,
    "wrong UTF-8": wrong_utf8,
    "record headers": headers,
    "partitions with the same groups": partitions,
    "partitions with the same groups, 3.9": lambda size: partitions(size, "3.9.2"),
    "partitions with their own groups, 0.9": partitions_with_own_groups,
    "failing partitions": failing_partitions,
}
