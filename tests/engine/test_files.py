"""Files of hostile kinds, and files that change while the native engine reads them: one clear error, or an answer."""

import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

import kafkagroups as kg
from kafkagroups import dialect, open_log, synth
from kafkagroups.loading import native
from tests.fuzz.odd_logs import mend
from tests.groups.small_logs import commit
from tests.handmade import CompressionType, compress, encode_batch, log_of_buffers, write_segment

pytestmark = pytest.mark.engine
NEW = dialect("new", None)
CHANGED = "has changed while it was read"


@pytest.fixture
def segment(tmp_path):
    """A segment of 2.5 MB, which the engine reads in three pieces. Every record is of another partition."""
    segment = tmp_path / "__consumer_offsets-0" / f"{0:020}.log"
    segment.parent.mkdir()
    batches = [encode_batch([commit(offset, "g", offset, metadata="n" * 20_000)]) for offset in range(125)]
    segment.write_bytes(b"".join(batches))
    return segment


def read_and_change(segment, change):
    """Read a log, and change the segment when the first piece was read."""
    changes = [change]

    def count_bytes(size):
        if changes:
            changes.pop()(segment)

    return native.read(open_log(segment.parent), NEW, count_bytes=count_bytes)


@pytest.mark.parametrize("size", [0, 61, 1_500_000])
def test_a_file_that_is_truncated_is_one_clear_error(segment, size):
    """The bytes that were there when the file was opened are gone. No signal ends the process."""
    with pytest.raises(kg.InvalidLog, match=f"{segment}: the file became shorter while it was read: read it again"):
        read_and_change(segment, lambda path: os.truncate(path, size))


@pytest.mark.parametrize("change", ["append", "replace"])
def test_a_file_that_is_appended_to_or_replaced_is_read_as_it_was(segment, change):
    """The load has the bytes that were there when the file was opened, as if it had been a moment earlier."""

    def apply(path):
        data = path.read_bytes()
        if change == "append":
            path.write_bytes(data + encode_batch([commit(125)]))
        else:
            path.unlink()
            path.write_bytes(encode_batch([commit(7)]))

    assert read_and_change(segment, apply).next_offset == 125


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_file_that_is_written_again_in_place_never_gives_a_mixture(segment, engine):
    """The second half has other bytes with wrong checksums, so the load ends before them, whichever engine reads."""
    half = segment.stat().st_size // 2

    def scramble(path):
        with open(path, "r+b") as file:
            file.seek(half)
            file.write(bytes(range(256)) * (half // 256))

    _, position = read_and_change(segment, scramble).damage
    assert position <= half
    loaded = kg.load(segment.parent, engine=engine).partitions[0]
    assert loaded.damage.position <= half


def test_a_segment_that_disappears(segment):
    """It was deleted between the listing of the folder and its opening."""
    log = open_log(segment.parent)
    segment.unlink()
    with pytest.raises(kg.UsageError, match="No such file"):
        native.read(log, NEW)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_of_a_progress_function_ends_the_reading(segment, error):
    """Ctrl-C, or a defect of the caller, leaves the engine at the end of a piece. The next load is right."""
    calls = []

    def fail(size):
        calls.append(size)
        raise error("stop")

    with pytest.raises(error, match="stop"):
        native.read(open_log(segment.parent), NEW, count_bytes=fail)
    assert len(calls) == 1 and 0 < calls[0] <= 1 << 20
    assert native.read(open_log(segment.parent), NEW).records == 125


def test_the_reported_bytes_are_those_of_the_file(segment):
    """The sum is the size, also behind a stop, and no piece is reported twice."""
    for until in (None, 3, 60):
        sizes = []
        stop = native.Stop(until)
        native.read(open_log(segment.parent), NEW, stop, count_bytes=sizes.append)
        assert sum(sizes) == segment.stat().st_size and min(sizes) >= 0


def test_other_threads_run_while_the_engine_reads():
    """The engine works without Python's lock, here while it decompresses one batch of 200 MB."""
    header = bytearray(encode_batch([commit(0)])[:61])
    header[22] = CompressionType.ZSTD
    data = mend(bytes(header) + compress(CompressionType.ZSTD, bytes(200 << 20)))
    log = log_of_buffers([("s.log", data)], 3)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(native.read, log, NEW)
        turns = 0
        while not reading.done():
            turns += 1
    assert turns > 1_000
    assert isinstance(reading.exception(), native.HandedOver)


@pytest.fixture
def two_segments(tmp_path):
    """The last segment of a log, and the record batch of Arrow that has the first one."""
    folder = write_segment(tmp_path, encode_batch([commit(0)]))
    last = folder / f"{10:020}.log"
    last.write_bytes(encode_batch([commit(10)]))
    return last


def change_before_records(monkeypatch, segment, data):
    """Change a segment after the load, before its records are read as columns."""
    read_records = native.read_records

    def change_and_read(*arguments, **options):
        segment.write_bytes(data)
        return read_records(*arguments, **options)

    monkeypatch.setattr(native, "read_records", change_and_read)


@pytest.mark.parametrize("table", ["fates", "records"])
@pytest.mark.parametrize("size", [0x7FFF, -0x8000])
def test_a_key_that_got_a_wrong_size_is_refused(table, size, two_segments, monkeypatch):
    """No byte outside the file can become a part of a group id, whatever sizes the changed file contains."""
    changed = commit(10)
    key = changed.key[:2] + (size & 0xFFFF).to_bytes(2, "big") + changed.key[4:]
    change_before_records(monkeypatch, two_segments, encode_batch([replace(changed, key=key)]))
    with pytest.raises(kg.InvalidLog, match=CHANGED):
        kg.record_table(two_segments.parent, table, engine="compiled").read_all()


@pytest.mark.parametrize("records", [0, 10])
def test_a_file_that_got_other_records_has_no_fates(records, two_segments, monkeypatch):
    """The fates of the load do not fit to the records of the changed file."""
    data = encode_batch([commit(offset) for offset in range(10, 10 + records)]) if records else b""
    change_before_records(monkeypatch, two_segments, data)
    with pytest.raises(kg.InvalidLog, match=CHANGED):
        kg.record_table(two_segments.parent, "fates", engine="compiled").read_all()


MEASURE = """
import resource, sys
from kafkagroups.loading import native
from kafkagroups.log.folders import open_logs
from kafkagroups.records.releases import dialect
rules = dialect("new", None)
(log,) = open_logs(sys.argv[1])
native.find_module()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
reading = native.read(log, rules)
print(log.size, reading.records, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


@pytest.mark.slow
@pytest.mark.parametrize("tombstones", [0, 0.4])
def test_memory_follows_live_keys(tombstones, tmp_path):
    """A log of 60 MB with few keys needs some megabytes: pieces of the file, and what still counts."""
    synth.write(tmp_path, 600_000, partitions=1, groups=20, keys=50, tombstones=tombstones)
    done = subprocess.run([sys.executable, "-c", MEASURE, str(tmp_path)], capture_output=True, text=True, check=True)
    size, records, memory = map(int, done.stdout.split())
    assert records == 600_000 and size > 20_000_000
    assert memory < 12_000_000, (size, memory)


@pytest.mark.slow
def test_the_metadata_of_a_deleted_offset_is_freed(tmp_path):
    """Of 9,000 offsets with 30,000 bytes of metadata each, which are deleted at once, nothing is left in memory."""
    segment = tmp_path / "__consumer_offsets-3" / f"{0:020}.log"
    segment.parent.mkdir()
    with segment.open("wb") as file:
        for offset in range(0, 18_000, 2):
            written = commit(offset, partition=offset, metadata="m" * 30_000)
            records = [written, replace(written, offset=offset + 1, value=None)]
            file.write(encode_batch(records, attributes=CompressionType.ZSTD))
    done = subprocess.run([sys.executable, "-c", MEASURE, str(tmp_path)], capture_output=True, text=True, check=True)
    _, records, memory = map(int, done.stdout.split())
    assert records == 18_000
    assert memory < 40_000_000


@pytest.mark.slow
def test_a_gigabyte_of_address_space_is_enough(tmp_path):
    """The limit is that of the whole process, with all libraries that the command imports."""
    synth.write(tmp_path / "topic", 200_000, partitions=4)
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))  # noqa: E731
    command = [sys.executable, "-m", "kafkagroups", "load", str(tmp_path / "topic"), "--engine", "compiled"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, preexec_fn=limit, cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
