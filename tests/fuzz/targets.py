"""The functions that the fuzzer calls with any bytes, and captured bytes to start with. An exception is a bug."""

import json
import os
import struct
import tempfile
from contextlib import suppress
from pathlib import Path

import kafkagroups as kg
from kafkagroups.loading.groups import group_json
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.cleaner import DEFAULT_CAPACITY
from tests.captured import captured, rows
from tests.engine.random_logs import random_log
from tests.engine.same import compare
from tests.fuzz.odd_logs import mend, split_batches
from tests.handmade import (
    decode_control_key,
    decode_end_transaction_marker,
    encode_versioned,
    log_of_buffers,
    read_batches,
)
from tests.records.judge import judge

READERS = [
    *(kg.dialect("new", version) for version in ("4.3.1", "4.4.0", "4.1.2", "4.0.2")),
    *(kg.dialect("classic", version) for version in ("3.9.2", "2.8.2", "2.3.1", "1.0.1", "0.8.2")),
]
MOST = 4096
"""Bytes of a seed and of what is made of it."""


def record(data):
    """Judge a record. Byte 1 chooses the reader and a tombstone (its highest bit). Then: key length (2), key, value."""
    if len(data) < 3:
        return
    choice, length = struct.unpack_from(">BH", data)
    value = None if choice & 0x80 else data[3 + length :]
    judge(data[3 : 3 + length], value, READERS[(choice & 0x7F) % len(READERS)])


def record_seeds():
    taken = [row for row in rows("records", "errors.jsonl") if "ok" in row["4.3.1"]]
    for path in sorted((captured("vectors") / "vectors").glob("*.jsonl")):
        taken += sorted(rows("vectors", f"vectors/{path.name}"), key=lambda row: len(json.dumps(row)))[::8]
    for row in taken:
        key = bytes.fromhex(row["key_hex"])
        value = row["value_hex"]
        yield struct.pack(">BH", 0x80 if value is None else 0, len(key)) + key + bytes.fromhex(value or "")


def embedded(data):
    """Read a member's subscription and assignment from the same bytes."""
    for read in (kg.decode_subscription, kg.decode_assignment):
        with suppress(kg.InvalidRecord):
            found = read(data)
            with suppress(kg.UsageError):  # a string that grew beyond 32767 bytes by its U+FFFD
                assert read(encode_versioned(found)) == found


def embedded_seeds():
    return (bytes.fromhex(row["hex"]) for row in rows("records", "embedded.jsonl") if row["kind"] != "assignor")


def log(data):
    """One byte chooses the loader, its highest bit to right all checksums first; then a segment.

    A batch or a record may be refused, the log may end in damage, and a load may fail as a broker's: nothing else.
    """
    if not data:
        return
    rules, segment = choose_log(data)
    found = log_of_buffers([("00000000000000000000.log", segment)], 0)
    for batch in found:
        with suppress(kg.InvalidLog):
            for entry in batch.records:
                with suppress(kg.InvalidRecord):
                    if batch.is_control:
                        decode_control_key(entry.key)
                        decode_end_transaction_marker(entry.value)
                    else:
                        kg.decode(entry.key, entry.value)
    str(found.damage)
    groups = OpenTopic([found], rules).load()
    for group in groups.values():
        json.dumps(group_json(group))


def followed(data):
    """As `log`: both engines have the same groups, statistics, rows of each record, and history of a group."""
    if not data:
        return
    rules, segment = choose_log(data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "__consumer_offsets-0")
        path.mkdir()
        (path / f"{0:020}.log").write_bytes(segment)
        compare(path, rules.coordinator, rules.kafka, len(segment))


def compiled_seeds():
    yield from log_seeds()
    for seed in range(200):
        data = random_log(seed, batches=12)
        if len(data) < MOST:
            yield b"\x80" + data


def compacted(data):
    """The cleaner refuses a log, or its result loads. Nothing but a refusal is raised.

    The first byte chooses the arguments, its highest bit to right all checksums first; then a segment, which an empty
    active segment follows.
    """
    if not data:
        return
    _, segment = choose_log(data)
    choice = data[0] & 0x7F
    arguments = {
        "now_ms": (None, 10**15)[choice & 1],
        "delete_retention_ms": (0, 86_400_000)[choice >> 1 & 1],
        "map_entries": (DEFAULT_CAPACITY, 1, 2, 5)[choice >> 2 & 3],
        "first_dirty": (None, 3)[choice >> 4 & 1],
        "producer_expiration_ms": (-1, 0)[choice >> 5 & 1],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "__consumer_offsets-0")
        path.mkdir()
        for base_offset, content in ((0, segment), (2**63 - 1, b"")):
            (path / f"{base_offset:020}.log").write_bytes(content)
            os.utime(path / f"{base_offset:020}.log", (1, 1))
        with suppress(kg.InvalidLog, kg.InvalidRecord):
            kg.compact(path, Path(folder, "out"), kg.CleanerConfig(**arguments))
            kg.load(Path(folder, "out"))


def compacted_seeds():
    """Yield segments of the recorded passes, too, which have delete horizons and odd markers."""
    yield from compiled_seeds()
    for number, path in enumerate(sorted(captured("cleaner").rglob("*.log"))[::4]):
        if path.stat().st_size < MOST:
            yield bytes([0x80 | number & 0x7F]) + path.read_bytes()


def log_seeds():
    """Yield small logs, and the compressed batches of larger logs."""
    logs = [captured("dumplog").glob("dumplog/*/*.log"), captured("crafted").glob("crafted/logs/*/*/*.log")]
    logs.append(captured("runs").glob("runs/*/*/*/*.log"))
    for path in sorted(path for paths in logs for path in paths):
        data = path.read_bytes()
        if len(data) < MOST:
            yield b"\x80" + data
            continue
        with suppress(kg.InvalidLog):
            for batch in read_batches(data):
                if batch.attributes & 0x07 and batch.size < MOST:
                    yield b"\x80" + data[batch.position : batch.position + batch.size]


def choose_log(data):
    """Return the rules that the first byte chooses, and the segment behind it.

    With the highest bit of this byte, all whole batches get correct checksums, so that a change reaches the records.
    """
    segment = data[1:]
    if data[0] & 0x80:
        batches, tail = split_batches(segment)
        segment = b"".join(map(mend, batches)) + tail
    return READERS[(data[0] & 0x7F) % len(READERS)], segment


TARGETS = {
    "record": (record, record_seeds),
    "embedded": (embedded, embedded_seeds),
    "log": (log, log_seeds),
    "followed": (followed, compiled_seeds),
    "compacted": (compacted, compacted_seeds),
}
