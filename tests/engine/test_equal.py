"""The native engine answers what the readable engine answers: on captured, random and changed logs."""

import gc
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

import kafkagroups as kg
from kafkagroups import dialect, load
from kafkagroups.history.stats import ROW_KINDS
from kafkagroups.loading.load import PYTHON, OpenTopic, choose_engine
from kafkagroups.log.folders import open_logs
from kafkagroups.log.segment_file import ByteRange
from kafkagroups.log.segments import NO_STOP, Stop
from tests.captured import LONG, captured, folders, some_folders
from tests.cases import case
from tests.engine.random_logs import passing_keys, random_log
from tests.engine.same import RULES, compare, count_shards, shape
from tests.fuzz.cases import seed_log
from tests.fuzz.odd_logs import change_log, mend, split_batches
from tests.groups.small_logs import commit
from tests.handmade import LogRecord, encode_batch, load_table, log_of_buffers
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
    return [shape(OpenTopic([log], rules, stop=stop).load(engine=one)) for log, one in zip(logs, engines, strict=True)]


@pytest.fixture
def partition(tmp_path):
    """Return an empty folder of a partition."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    return folder


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("family", ["runs", "crafted", "cleaner", "releases", "v440", "dumplog"])
def test_captured_logs_have_the_same_answers(family, monkeypatch):
    """Every log that a broker wrote, read by a release of each coordinator, and every crafted log, read by two."""
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
    # In 11327, two groups prevent the end of a classic load, and the broker names the first of its hash set.
    for seed in range(20_000) if LONG else (*range(60), 11_327):
        wanted, found = load_both([(SEGMENT, some_log(seed))], rules)
        assert found == wanted, seed
    assert shards or rules.version < (0, 10, 1)


@pytest.mark.thorough
@pytest.mark.slow
def test_random_logs_have_the_same_answers(partition):
    """200 random logs (20,000 in the long profile), some of them not read to their end."""
    for seed in range(20_000 if LONG else 200):
        rnd = random.Random(seed)
        (partition / SEGMENT).write_bytes(some_log(seed))
        compare(partition, *rnd.choice(RULES), seed, rnd.randrange(60) if rnd.random() < 0.3 else None)


@pytest.mark.thorough
@pytest.mark.slow
def test_changed_logs_have_the_same_answers(partition):
    """150 captured or random logs with changed fields, records and batches (20,000 in the long profile)."""
    for seed in range(20_000 if LONG else 150):
        rnd = random.Random(seed)
        (partition / SEGMENT).write_bytes(change_log(rnd, seed_log(rnd))[:PIECE_BYTES])
        compare(partition, *rnd.choice(RULES), seed)


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("attributes", [0, 1, 4])
def test_a_log_of_many_segments_and_producers(attributes, partition, monkeypatch):
    """1,200 open or ended transactions in four segments, with tombstones, in three codecs."""
    shards = count_shards(monkeypatch)
    batches = {}
    for offset in range(0, 1200, 4):
        records = [
            commit(offset, f"group {offset % 7}", offset % 11),
            commit(offset + 1, f"group {offset % 5}", 1, f"topic {offset}", "m" * (offset % 300)),
        ]
        if offset % 3 == 0:
            records.append(replace(commit(offset + 2, f"group {offset % 5}", 1, f"topic {offset - 12}"), value=None))
        producer = {"producer_id": offset, "producer_epoch": 0} if offset % 8 else {}
        batches[offset] = encode_batch(records, attributes=attributes | (0x10 if producer else 0), **producer)
        if offset % 5 == 0:
            ending = LogRecord(offset + 3, 5, b"\0\0\0\1" if offset % 3 else b"\0\0\0\0", b"\0\0\0\0\0\0")
            batches[offset + 3] = encode_batch([ending], attributes=0x30, producer_id=offset, producer_epoch=0)
    for base in range(0, 1200, 300):
        content = b"".join(batch for offset, batch in batches.items() if base <= offset < base + 300)
        (partition / f"{base:020}.log").write_bytes(content)
    for rules in COORDINATORS[:2]:
        for seed in range(4):
            compare(partition, *rules, seed)
    assert len(shards) > 8


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
    for tail in ([(b"\x00\x63\x7f", b"")], [(b"\x00\x63", b"")], []):
        records = [commit(0, "a"), *(LogRecord(at, 5, *each) for at, each in enumerate([member, *tail], 1))]
        broken = bytearray(encode_batch([commit(50, "a")], attributes=1))
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
    for number in (0, 11, 22):
        batches = [encode_batch([commit(2 * at), commit(2 * at + 1)], attributes=codec) for at in range(23)]
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


@pytest.mark.parametrize("shift", [-61, -17, -1, 0, 1, 61, 5000])
def test_a_file_is_read_piece_by_piece(shift, partition):
    """Wherever the first piece of a segment ends, in a batch or in the zeros at its end, the result is the same."""

    def batch(offset, size):
        return encode_batch([commit(offset, "g", offset % 7, metadata="n" * size)])

    batches = [batch(offset, 20_000) for offset in range(51)]
    gap = PIECE_BYTES + shift - sum(map(len, batches))
    batches.append(batch(51, gap - (len(batch(51, gap)) - gap)))
    assert sum(map(len, batches)) == PIECE_BYTES + shift
    batches += [batch(offset, offset) for offset in range(52, 60)]
    (partition / f"{10**6:020}.log").write_bytes(random_log(1, first_offset=10**6))
    for content in tails(b"".join(batches)):
        (partition / SEGMENT).write_bytes(content)
        for rules in COORDINATORS[:2]:
            both = [shape(load(partition, *rules, engine=engine)) for engine in ("python", "compiled")]
            assert both[0] == both[1]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(data).cast("b")])
def test_segments_in_memory_and_ranges_of_them(kind, partition):
    """A log is a folder or buffers, whole or a range of each: the same bytes give the same shard."""
    rules = dialect("new", None)
    parts = [encode_log(random_sequence(4)), random_log(8, first_offset=10**6)]
    names = [SEGMENT, f"{10**6:020}.log"]
    for name, data in zip(names, parts, strict=True):
        (partition / name).write_bytes(b"before" + data + b"behind")
    buffers = [(name, kind((partition / name).read_bytes())) for name in names]
    for log in (*open_logs(partition), log_of_buffers(buffers, 0)):
        first, second = log.segments
        whole = {first: ByteRange(6, 6 + len(parts[0])), second: ByteRange(6, 6 + len(parts[1]))}
        for ranges in (whole, whole | {first: ByteRange(6, 6)}, {second: whole[second]}):
            part = log.select_ranges(ranges)
            wanted, found = (OpenTopic([part], rules).load(engine=one) for one in (PYTHON, choose_engine("compiled")))
            assert shape(found) == shape(wanted)
            assert found.partitions[0].batches


def test_threads_change_nothing():
    """Two threads give what one gives, in the same order: nothing is shared between logs."""
    for folder in (folder for folder in folders("runs") if len(list(folder.glob("__consumer_offsets-*"))) > 1):
        one, two = (load(folder, engine="compiled", threads=count) for count in (1, 2))
        assert shape(one) == shape(two) and list(one) == list(two)


@pytest.mark.parametrize("by", ROW_KINDS)
@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_rows_have_one_order(by, coordinator, foreign):
    """The rows of statistics stand in the same order, also where groups have records in several partitions."""
    options = {"coordinator": coordinator, "partitions": 400}
    wanted, found = (kg.stats(foreign, by, engine=engine, **options) for engine in ("python", "compiled"))
    assert list(found.rows) == list(wanted.rows)


@pytest.mark.slow
@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_memory_holds_what_lives(coordinator):
    """Of 60,000 keys that are committed and deleted, few are kept, and the load is the same."""
    wanted, found = load_both([(SEGMENT, passing_keys(60_000))], dialect(coordinator, None))
    assert found == wanted


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_load_leaves_the_garbage_collector_alone(engine):
    """It belongs to the whole process, so other threads would be without it."""
    during = set()
    log = log_of_buffers([(SEGMENT, random_log(8, 120))], 3)
    topic = OpenTopic([log], dialect("new", None), engine=engine)
    topic.load(count_bytes=lambda count: during.add(gc.isenabled()))
    assert during == {True}
