"""A compressed batch has a limit: beyond it the log ends, as at damage, and little memory is used."""

import json
import os
import resource
import subprocess
import sys
import zlib
from pathlib import Path
from unittest import mock

import pytest

import kafkagroups as kg
from tests.engine.same import shape
from tests.handmade import (
    MIN_RECORD_LIMIT,
    CompressionType,
    LogRecord,
    commit_record,
    compress,
    decompress,
    encode_batch,
    read_batches,
    write_segment,
)
from tests.log.bombs import (
    batch_of,
    bombs,
    lz4_without_checksum,
    message,
    zeros,
)
from tests.snapshots.forged import take_snapshot
from tests.spark.tables import load_table

CODECS = [CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD]
MEMORY = 3 * 1024**3
"""The memory of a command, in bytes. The bombs below would need more."""

LONG = os.environ.get("KG_PROFILE") == "long"


def commits(count, codec, first=0):
    """Return a batch with commits of group g."""
    key, value = kg.encode(commit_record(7))
    records = [LogRecord(first + index, 5, key, value) for index in range(count)]
    return encode_batch(records, attributes=codec)


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_exact(codec):
    """Data of exactly the limit is decompressed, and data of one byte more is refused."""
    for size in (0, 1, 1000, 70_000, 3_000_000):
        content = bytes(index * index % 251 for index in range(size % 997)) * (size // max(1, size % 997)) + b"x" * 9
        packed = compress(codec, content)
        forms = [packed, lz4_without_checksum(packed)] if codec == CompressionType.LZ4 else [packed]
        for form in forms:
            assert decompress(codec, form, len(content)) == decompress(codec, form) == content
            with pytest.raises(kg.InvalidLog, match=f"more than {len(content) - 1} bytes"):
                decompress(codec, form, len(content) - 1)


def run_with_little_memory(*args):
    """Run the command in a process that has little memory."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # noqa: E731
    command = [sys.executable, "-m", "kafkagroups", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, cwd=Path(__file__).parents[2])


COMMANDS = [
    ("load", "--json"),
    ("load", "--engine", "python", "--json"),
    ("dump",),
    ("dump", "--json"),
    ("dump", "--format", "dump-log"),
    ("dump", "--format", "formatter"),
    ("explain", "--group", "g"),
    ("timeline", "--group", "g"),
    ("stats",),
    ("diff", "--coordinators"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_bomb_ends_the_log_in_every_command(command, tmp_path, run):
    """The commands read what is before the bomb, and say in one line where it is and which option raises the limit.

    Each partition has another bomb.
    """
    good = commits(3, CompressionType.NONE)
    for number, bomb in enumerate(bombs(5_000_000).values()):
        write_segment(tmp_path, good + bomb + commits(1, 0, 9), number)
    status, out, err = run(command[0], tmp_path, *command[1:], "--max-batch-bytes", 4_000_000)
    lines = err.splitlines()
    assert (status, len(lines)) == (1, 1 if command[0] == "dump" else number + 1), err
    assert all("--max-batch-bytes" in line and f"byte {len(good)}" in line for line in lines)
    if command[0] == "dump":
        assert f"(and {number} more)" in err
    if command[0] == "load":
        for loaded in json.loads(out)["partitions"].values():
            assert (loaded["batches"], loaded["next_offset"], loaded["damage"]["position"]) == (1, 3, len(good))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["python", "compiled"] if LONG else ["compiled"])
def test_the_default_limit_protects_the_memory(engine, tmp_path):
    """A process that may use 3 GB loads every bomb of 512 MB, with two partitions at a time, and is not killed."""
    for number, bomb in enumerate(bombs(2**29).values()):
        write_segment(tmp_path, commits(3, 0) + bomb, number)
    done = run_with_little_memory("load", tmp_path, "--engine", engine, "--json")
    assert done.returncode == 1
    assert [loaded["batches"] for loaded in json.loads(done.stdout)["partitions"].values()] == [1] * (number + 1)


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_can_be_set_everywhere(codec, tmp_path):
    """A lower limit refuses a batch in each function, in both engines, and the default reads it."""
    small = commits(1, codec)
    large = commits(200, codec, 1)
    folder = write_segment(tmp_path, small + large)
    limit = {"max_batch_bytes": 1000}
    assert kg.load(folder).partitions[0].batches == kg.load(folder, max_batch_bytes=20_000).partitions[0].batches == 2
    loads = [kg.load(folder, engine=engine, **limit) for engine in ("python", "auto")]
    assert shape(loads[0]) == shape(loads[1])
    loaded = loads[0].partitions[0]
    assert (loaded.batches, loaded.next_offset, loaded.damage.position) == (1, 1, len(small))
    assert "more than 1000 bytes" in loaded.damage.reason and "--max-batch-bytes" in loaded.damage.reason
    assert kg.load(folder, until=1, **limit).problems == [], "the limit does not apply to batches that are not read"
    assert len(kg.explain(folder, "g", **limit).history) == 1
    assert len(kg.timeline(folder, "g", all=True, **limit).events) == 1
    assert kg.stats(folder, **limit).partitions[0].records == 1
    assert kg.compact(folder, tmp_path / "out", **limit).before.records == 1
    assert take_snapshot(folder, **limit).next_offsets == {0: 1}
    assert len(list(kg.open_log(folder, **limit))) == 1
    buffers = [(f"{0:020}.log", small + large)]
    for table, rows in (("records", 1), ("partitions", 1)):
        assert load_table(buffers, table=table, partition=0, **limit).read_all().num_rows == rows


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_very_many_tiny_records_are_too_large_too(engine, tmp_path):
    """A record needs memory, however short it is: 2 million records of 7 bytes are refused before they are parsed."""
    record = bytes.fromhex("0c000000010100")
    payload = compress(CompressionType.ZSTD, record * (2 * MIN_RECORD_LIMIT))
    folder = write_segment(tmp_path, commits(1, 0) + batch_of(payload, CompressionType.ZSTD, 2 * MIN_RECORD_LIMIT, 1))
    loaded = kg.load(folder, engine=engine).partitions[0]
    assert loaded.batches == 1 and f"{2 * MIN_RECORD_LIMIT} records" in loaded.damage.reason


def test_very_many_messages_in_a_wrapper_are_too_large_too(tmp_path, monkeypatch):
    """The number of messages in a wrapper is known only when they are parsed."""
    monkeypatch.setattr("kafkagroups.log.batch.MIN_RECORD_LIMIT", 1000)
    empty = message(0, None, b"")
    wrapper = message(0, None, compress(CompressionType.GZIP, empty * 1001), CompressionType.GZIP)
    folder = write_segment(tmp_path, empty + wrapper)
    loaded = kg.load(folder, "classic", "1.0.1", max_batch_bytes=100_000).partitions[0]
    assert loaded.batches == 1 and "1001 records" in loaded.damage.reason


def test_an_empty_batch_is_never_decompressed(tmp_path):
    """Kafka does not read the payload of a batch whose count is 0, so it may be anything."""
    (empty,) = read_batches(batch_of(zeros(CompressionType.ZSTD, 2**29), CompressionType.ZSTD, count=0))
    assert empty.records == ()
    folder = write_segment(tmp_path, commits(1, 0) + batch_of(zeros(CompressionType.ZSTD, 2**29), 4, 0, 1))
    assert kg.load(folder).partitions[0].damage is None


def test_many_small_members_take_no_quadratic_time():
    """zlib is given each byte of many empty gzip members a few times, not once for every member."""
    given = 0

    class Counting:
        def __init__(self, wbits):
            self.member = make(wbits)

        def decompress(self, data, limit):
            nonlocal given
            given += len(data)
            return self.member.decompress(data, limit)

        def __getattr__(self, name):
            return getattr(self.member, name)

    make = zlib.decompressobj
    members = compress(CompressionType.GZIP, b"") * 50_000
    with mock.patch("zlib.decompressobj", Counting):
        assert decompress(CompressionType.GZIP, members + compress(CompressionType.GZIP, b"end")) == b"end"
    assert given < 300 * len(members)


def test_a_limit_above_every_batch_is_the_largest_size(tmp_path):
    """No batch has more than 2^31-1 bytes, so a higher limit changes nothing (found by fuzzing)."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    record = LogRecord(0, 5, b"\0\x02\0\x01g", None)
    for attributes in range(5):
        (folder / f"{0:020}.log").write_bytes(encode_batch([record], attributes=attributes))
        for limit in (2**31, 2**63, 2**70):
            assert kg.load(folder, max_batch_bytes=limit).partitions[0].damage is None
