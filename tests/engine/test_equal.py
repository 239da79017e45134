"""The native engine answers what the readable engine answers: on captured, random and changed logs."""

import gc
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings, strategies as st

from kafkagroups.api import load, load_table
from kafkagroups.loading.engines import PYTHON, choose_engine
from kafkagroups.loading.load import load_logs
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.folders import open_logs
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.log.segment_file import ByteRange
from kafkagroups.log.segments import log_of_buffers
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.records.dialects import dialect
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode
from tests.captured import LONG, captured, folders, some_folders
from tests.cases import case
from tests.engine.random_logs import passing_keys, random_log
from tests.engine.same import RULES, compare, count_shards, shape
from tests.fuzz.cases import seed_log
from tests.fuzz.odd_logs import change_log, mend, split_batches
from tests.releases.sequences import encode_log, random_sequence

pytestmark = pytest.mark.engine
COORDINATORS = (("classic", "3.9.2"), ("new", "4.3.1"), ("classic", "1.0.1"), ("new", "4.0.2"))
SEGMENT = f"{0:020}.log"
PIECE_BYTES = 1 << 20
"""The engine reads a file in pieces of this size (engine/src/source.rs)."""


def some_log(seed: int) -> bytes:
    """Return a random log: every second one with the record types of all groups."""
    return random_log(seed) if seed % 2 else encode_log(random_sequence(seed))


def load_both(buffers, rules, stop=NO_STOP):
    """Return what each engine makes of one log in memory."""
    logs = [log_of_buffers(buffers, 3) for _ in range(2)]
    engines = (PYTHON, choose_engine("compiled"))
    return [shape(load_logs([log], rules, stop=stop, engine=one)) for log, one in zip(logs, engines, strict=True)]


@pytest.fixture
def partition(tmp_path):
    """Return an empty folder of a partition."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("family", ["runs", "crafted", "cleaner", "releases", "v440", "dumplog"])
def test_captured_logs_have_the_same_answers(family, monkeypatch):
    """Every log that a broker wrote or that was crafted, read by two releases of each coordinator."""
    shards = count_shards(monkeypatch)
    for number, folder in enumerate(some_folders(family)):
        with case(folder.relative_to(captured(family))):
            for index, rules in enumerate(COORDINATORS[: 4 if LONG or family == "crafted" else 2]):
                compare(folder, *rules, seed=number + index)
    assert shards


@pytest.mark.slow
@pytest.mark.parametrize(("coordinator", "kafka"), RULES)
def test_random_logs_load_the_same(coordinator, kafka, monkeypatch):
    """60 random logs (20,000 in the long profile) with all kinds of records, batches and damage, for each release."""
    shards = count_shards(monkeypatch)
    rules = dialect(coordinator, kafka)
    seeds = range(20_000 if LONG else 60)
    for seed in seeds:
        wanted, found = load_both([(SEGMENT, some_log(seed))], rules)
        assert found == wanted, seed
    assert len(shards) > len(seeds) / 4 or rules.version < (0, 10, 1)


@pytest.mark.slow
def test_random_logs_have_the_same_answers(partition):
    """500 random logs (20,000 in the long profile), some of them not read to their end."""
    for seed in range(20_000 if LONG else 500):
        rnd = random.Random(seed)
        (partition / SEGMENT).write_bytes(some_log(seed))
        compare(partition, *rnd.choice(RULES), seed, rnd.randrange(60) if rnd.random() < 0.3 else None)


@pytest.mark.slow
def test_changed_logs_have_the_same_answers(partition):
    """300 captured or random logs with changed fields, records and batches (20,000 in the long profile)."""
    for seed in range(20_000 if LONG else 300):
        rnd = random.Random(seed)
        (partition / SEGMENT).write_bytes(change_log(rnd, seed_log(rnd))[:PIECE_BYTES])
        compare(partition, *rnd.choice(RULES), seed)


@settings(max_examples=20_000 if LONG else 60)
@given(
    seed=st.integers(0, 500),
    changes=st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 255)), min_size=1, max_size=5),
    is_mended=st.booleans(),
    rules=st.sampled_from(RULES),
)
def test_changed_bytes_have_the_same_answers(tmp_path_factory, seed, changes, is_mended, rules):
    """Any bytes of a random log are other bytes, with the checksums of before or with right ones."""
    data = bytearray(some_log(seed))
    for place, byte in changes:
        if data:
            data[place % len(data)] = byte
    if is_mended:
        batches, tail = split_batches(bytes(data))
        data = b"".join(map(mend, batches)) + tail
    folder = tmp_path_factory.mktemp("changed") / "__consumer_offsets-0"
    folder.mkdir()
    (folder / SEGMENT).write_bytes(data)
    compare(folder, *rules, seed)


@pytest.mark.parametrize("seed", range(40))
def test_a_log_cut_anywhere_loads_the_same(seed):
    """`until` and `until_time` stop both engines at the same batch."""
    offsets = [Stop(until_offset=offset) for offset in (5, 20, -1, 1 << 70)]
    times = [Stop(until_time=time) for time in (1010, 1040, -5, -1 << 70)]
    for stop in (*offsets, *times):
        wanted, found = load_both([(SEGMENT, random_log(seed))], dialect("classic", None), stop)
        assert found == wanted


def test_a_cut_before_a_damaged_batch_hides_no_commit():
    """A batch that cannot be decompressed stands behind the cut, and a member's record creates the group before it."""
    member = bytes.fromhex("0003000161"), bytes.fromhex("00000000000100")  # ConsumerGroupMetadata of group a
    commit = encode(Record(1, OffsetCommitKey("a", "t", 0), OffsetCommitValue(5, -1, "", 9, -1), 3))
    for tail in ([(b"\x00\x63\x7f", b"")], [(b"\x00\x63", b"")], []):
        records = [LogRecord(at, 1000, *each) for at, each in enumerate([commit, member, *tail])]
        broken = bytearray(encode_batch([LogRecord(50, 2000, *commit)], attributes=1))
        broken[70] ^= 1
        for until in (20, None):
            wanted, found = load_both([(SEGMENT, encode_batch(records) + broken)], dialect("new", None), Stop(until))
            assert found == wanted


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("base", [2**63 - 1, 2**63 - 2, 2**63 - 3, -(2**63), -1])
def test_an_extreme_offset_is_no_stop(base, codec):
    """A base offset has no checksum. Both engines read all 23 batches if one has an extreme base offset.

    Offsets overflow as in Java, so they still fit into the columns of the tables, which Spark shows.
    """
    commit = encode(Record(1, OffsetCommitKey("g", "t", 0), OffsetCommitValue(7, -1, "", 9, -1), 3))
    for number in (0, 11, 22):
        batches = [
            encode_batch([LogRecord(2 * at + step, 5, *commit) for step in range(2)], attributes=codec)
            for at in range(23)
        ]
        batches[number] = base.to_bytes(8, "big", signed=True) + batches[number][8:]
        buffers = [(SEGMENT, b"".join(batches))]
        wanted, found = load_both(buffers, dialect("new", None))
        assert found == wanted
        for engine in ("python", "compiled"):
            table = load_table(buffers, table="partitions", partition=3, engine=engine).read_all()
            assert table["batches"].to_pylist() == [23]
            offsets = load_table(buffers, table="records", partition=3, engine=engine).read_all()["offset"].to_pylist()
            assert len(offsets) == 46
            assert offsets[2 * number + 1] == (base + 1 if base < 2**63 - 1 else -(2**63))


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_timestamp_that_overflows_is_javas(engine):
    """A record's timestamp is the sum of two int64, which overflows as in Java."""
    data = encode_batch([LogRecord(0, 2**63 + 4, b"\0\x63", b"")], base_timestamp=2**63 - 1, max_timestamp=5)
    table = load_table([(SEGMENT, data)], table="records", partition=3, engine=engine).read_all()
    assert table["timestamp_ms"].to_pylist() == [-(2**63) + 4]


def tails(data: bytes) -> Iterator[bytes]:
    """Yield a log that is whole, cut, or followed by zeros or by damage."""
    yield data
    yield data[:-7]
    yield data + bytes(PIECE_BYTES + 1000)
    yield data + bytes(PIECE_BYTES - 61) + b"\1" + bytes(300)


@pytest.mark.parametrize("shift", [0, 1, 60, 61, 62, 5000])
def test_a_file_is_read_piece_by_piece(shift, partition):
    """Wherever a piece of a segment ends, in a batch or in the zeros at its end, the result is the same."""
    note = OffsetCommitValue(1, -1, "n" * (shift % 5000 + 20_000), 9, -1)
    first = encode_batch([LogRecord(0, 5, *encode(Record(1, OffsetCommitKey("g", "t", 0), note, 3)))])
    log = passing_keys(15_000, first_offset=1)
    assert len(log) > 2 * PIECE_BYTES
    (partition / f"{10**6:020}.log").write_bytes(random_log(shift + 1, first_offset=10**6))
    for content in tails(first + log):
        (partition / SEGMENT).write_bytes(content)
        for rules in COORDINATORS[:2]:
            both = [shape(load(partition, *rules, engine=engine)) for engine in ("python", "compiled")]
            assert both[0] == both[1]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_segments_in_memory_and_ranges_of_them(kind, partition):
    """A log is a folder, buffers, or a range of bytes of each: the shard is the same."""
    first = random_log(7)
    second = random_log(8, first_offset=10**6)
    names = [SEGMENT, f"{10**6:020}.log"]
    rules = dialect("new", None)
    wanted = shape(load_logs([log_of_buffers(list(zip(names, (first, second), strict=True)), 0)], rules))
    (wanted_without_first,) = [shape(load_logs([log_of_buffers([(names[1], second)], 0)], rules))]
    for name, data in zip(names, (first, second), strict=True):
        (partition / name).write_bytes(b"before" + data + b"behind")
    (on_disk,) = open_logs(partition)
    in_memory = log_of_buffers([(name, kind((partition / name).read_bytes())) for name in names], 0)
    for log in (on_disk, in_memory):
        sizes = zip(log.segments, (len(first), len(second)), strict=True)
        ranges = {segment: ByteRange(6, 6 + size) for segment, size in sizes}
        part = log.select_ranges(ranges, 0)
        assert shape(load_logs([part], rules, engine=choose_engine("compiled"))) == wanted
        part = log.select_ranges(ranges | {log.segments[0]: ByteRange(0, 0)}, 10**6)
        groups = shape(load_logs([part], rules, engine=choose_engine("compiled")))
        assert groups[:4] == wanted_without_first[:4]


def test_threads_change_nothing():
    """Two threads give what one gives, in the same order: nothing is shared between logs."""
    for folder in (folder for folder in folders("runs") if len(list(folder.glob("__consumer_offsets-*"))) > 1):
        one, two = (load(folder, engine="compiled", threads=count) for count in (1, 2))
        assert shape(one) == shape(two) and list(one) == list(two)


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_memory_holds_what_lives(coordinator):
    """Of 60,000 keys that are committed and deleted, few are kept, and the load is the same."""
    wanted, found = load_both([(SEGMENT, passing_keys(60_000))], dialect(coordinator, None))
    assert found == wanted


def test_the_collector_runs_again_when_a_load_is_over():
    """This is also so if the load ends with an error that the caller keeps."""

    def interrupt(count):
        raise KeyboardInterrupt

    log = log_of_buffers([(SEGMENT, random_log(8, 120))], 3)
    with pytest.raises(KeyboardInterrupt):
        load_logs([log], dialect("new", None), engine=choose_engine("compiled"), count_bytes=interrupt)
    assert gc.isenabled()
