"""The compiled engine gives what the readable engine gives, on every captured log and on random logs."""

import gc
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups.api import load, load_table, loaded_columns
from kafkagroups.kernels import arrays, fold_log, other_records, state
from kafkagroups.kernels.crc32c import can_use_instruction, crc32c_by_instruction, crc32c_by_tables
from kafkagroups.kernels.unpack import as_array
from kafkagroups.loading.engines import PYTHON, choose_engine
from kafkagroups.loading.load import load_logs
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.folders import open_logs
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.log.segments import log_of_buffers
from kafkagroups.log.stop import Stop
from kafkagroups.records.dialects import dialect
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode
from tests.captured import captured
from tests.cases import case
from tests.kernels.random_logs import passing_keys, random_log
from tests.kernels.same import shape

LONG = os.environ.get("KG_PROFILE") == "long"
COMPILED = choose_engine("compiled", 0)
COORDINATORS = (("classic", "3.9.2"), ("new", "4.3.1"), ("classic", "1.0.1"), ("new", "4.0.2"))


def folders(family):
    """Return every folder that is a log or holds a broker's logs."""
    parents = {file.parent for file in captured(family).rglob("*.log")}
    return sorted({each.parent if each.name.startswith("__") else each for each in parents})


def some_folders(family):
    """Return the folders of a family. Of the release cases, which are many and alike, only each fourth one.

    The long profile has all of them.
    """
    return folders(family)[:: 4 if family == "releases" and not LONG else 1]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["runs", "crafted", "cleaner"])
def test_captured_logs_load_the_same(family):
    """Every log that a broker wrote or that was crafted gives the same groups, offsets, orphans, counts and errors."""
    for folder in folders(family):
        with case(folder.relative_to(captured(family))):
            for coordinator, kafka in COORDINATORS:
                wanted = load(folder, coordinator, kafka, engine="python")
                assert shape(load(folder, coordinator, kafka, engine="compiled")) == shape(wanted), (coordinator, kafka)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_random_logs_load_the_same(part, monkeypatch):
    """20,000 random logs (1,000 in a normal run) with all kinds of records, batches and damage. Many are folded."""
    seeds = range(part, 20_000 if LONG else 1_000, 8)
    folded = []
    fold_if_possible = fold_log.fold_if_possible
    monkeypatch.setattr(
        fold_log, "fold_if_possible", lambda *given: folded.append(fold_if_possible(*given)) or folded[-1]
    )
    for seed in seeds:
        data = random_log(seed)
        for coordinator, kafka in COORDINATORS[:2]:
            rules = dialect(coordinator, kafka)
            wanted = load_logs([log_of_buffers([("s.log", data)], 3)], rules)
            given = load_logs([log_of_buffers([("s.log", data)], 3)], rules, engine=COMPILED)
            assert shape(given) == shape(wanted), (seed, coordinator)
    assert sum(one is not None for one in folded) > len(folded) / 3


@pytest.mark.parametrize("seed", range(40))
def test_a_log_cut_anywhere_loads_the_same(seed):
    """`until` and `until_time` stop both engines at the same batch."""
    data = random_log(seed)
    rules = dialect("classic", None)
    cuts = (
        (5, None),
        (20, None),
        (None, 1010),
        (None, 1040),
        (-1, None),
        (None, -5),
        (1 << 70, None),
        (None, -1 << 70),
    )
    for until, until_time in cuts:
        both = [
            load_logs([log_of_buffers([("s.log", data)], 3)], rules, stop=Stop(until, until_time), engine=engine)
            for engine in (PYTHON, COMPILED)
        ]
        assert shape(both[0]) == shape(both[1])


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
        buffers = [("s.log", b"".join(batches))]
        both = [load_logs([log_of_buffers(buffers, 3)], dialect("new", None), engine=one) for one in (PYTHON, COMPILED)]
        assert shape(both[0]) == shape(both[1])
        assert both[0].partitions[3].batches == 23 and not both[0].problems
        for engine in ("python", "compiled"):
            table = load_table(buffers, table="partitions", partition=3, engine=engine).read_all()
            assert table["batches"].to_pylist() == [23]
        offsets = load_table(buffers, table="records", partition=3).read_all()["offset"].to_pylist()
        assert len(offsets) == 46
        assert offsets[2 * number + 1] == (base + 1 if base < 2**63 - 1 else -(2**63))


def test_a_timestamp_that_overflows_is_javas():
    """A record's timestamp is the sum of two int64, which overflows as in Java."""
    record = LogRecord(0, 2**63 + 4, b"\0\x63", b"")
    data = encode_batch([record], base_timestamp=2**63 - 1, max_timestamp=5)
    times = load_table([("s.log", data)], table="records", partition=3).read_all()["timestamp_ms"].to_pylist()
    assert times == [-(2**63) + 4]


def test_arrays_grow_while_a_log_is_folded(monkeypatch):
    """If the first arrays are tiny, every array has to grow, and the result is the same."""
    monkeypatch.setattr(arrays, "INITIAL_KEYS", 1)
    monkeypatch.setattr(arrays, "INITIAL_NAMES", 1)
    monkeypatch.setattr(arrays, "INITIAL_NODES", 1)
    monkeypatch.setattr(arrays, "INITIAL_ARENA_BYTES", 1)
    monkeypatch.setattr(state, "REPORT_BYTES", 1)
    monkeypatch.setattr(arrays, "INITIAL_PRODUCERS", 8)
    monkeypatch.setattr(arrays, "INITIAL_RECORD_POSITIONS", 1)
    for seed in range(100):
        data = random_log(seed, batches=120)
        rules = dialect("new", None)
        wanted = load_logs([log_of_buffers([("s.log", data)], 3)], rules)
        given = load_logs([log_of_buffers([("s.log", data)], 3)], rules, engine=COMPILED)
        assert shape(given) == shape(wanted), seed


@pytest.mark.parametrize("piece", [1, 150, 4000])
def test_a_file_is_read_piece_by_piece(piece, monkeypatch, tmp_path):
    """Wherever a piece of a segment ends, in a batch, or in the zeros at its end, the result is the same."""
    monkeypatch.setattr(state, "PIECE_BYTES", piece)
    for seed in range(60):
        data = random_log(seed, batches=20)
        last = data[: len(data) - 7 * (seed % 3)], data + bytes(1000), data + bytes(300) + b"\1" + bytes(300)
        folder = tmp_path / f"{seed}" / "__consumer_offsets-3"
        folder.mkdir(parents=True)
        (folder / f"{0:020}.log").write_bytes(data + bytes(seed % 2 * 200))
        (folder / f"{10**6:020}.log").write_bytes(random_log(seed + 1, batches=5))
        (folder / f"{10**7:020}.log").write_bytes(last[seed // 3 % 3])
        both = [kg.load(folder, engine=engine) for engine in ("python", "compiled")]
        assert shape(both[0]) == shape(both[1]), seed


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_columns_are_the_rows(coordinator):
    """The tables of the compiled engine, with offsets straight from its arrays, equal those of the readable engine."""
    rules = dialect(coordinator, None)
    seen = 0
    for seed in range(200):
        log = [("s.log", random_log(seed))]
        wanted = load_logs([log_of_buffers(log, 3)], rules)
        given = load_logs([log_of_buffers(log, 3)], rules, engine=COMPILED)
        for table in ("offsets", "pending", "groups", "members"):
            frames = [loaded_columns(groups, table).read_all() for groups in (wanted, given)]
            frames[1].validate(full=True)
            assert frames[0].schema == frames[1].schema
            both = [sorted(map(repr, frame.to_pylist())) for frame in frames]
            assert both[0] == both[1], (seed, table)
            seen += len(both[0])
    assert seen > 300


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_memory_holds_what_lives(coordinator):
    """Of 60,000 keys that are committed and deleted, few are kept, and the load is the same."""
    rules = dialect(coordinator, None)
    data = passing_keys(60_000)
    wanted = load_logs([log_of_buffers([("s.log", data)], 3)], rules)
    given = load_logs([log_of_buffers([("s.log", data)], 3)], rules, engine=COMPILED)
    assert shape(given) == shape(wanted)
    fold = state.FoldState(rules)
    assert fold.fold_segment(as_array(data))
    assert len(fold.entries) <= 16_384 and len(fold.names) <= 16_384 and len(fold.producers) <= 16_384
    assert len(fold.arena) < 4_000_000
    assert len(fold.record_positions) == arrays.INITIAL_RECORD_POSITIONS


def test_the_collector_runs_again_when_a_load_is_over():
    """This is also so if the load ends with an error that the caller keeps."""
    data = random_log(8, 120)
    kept = []

    def interrupt(count):
        raise KeyboardInterrupt

    some = [log_of_buffers([("s.log", each)], n) for n, each in enumerate((data + b"\1", data))]
    try:
        load_logs(some, dialect("new", None), engine=COMPILED, count_bytes=interrupt)
    except KeyboardInterrupt as error:
        kept.append(error)
    assert kept and gc.isenabled()


def test_a_second_reading_stays_inside_what_was_folded():
    """Short keys and a damaged compressed batch after a cut, in a log where a newer group has commits."""
    new = bytes.fromhex("0003000161"), bytes.fromhex("00000000000100")  # ConsumerGroupMetadata of group a
    commit = encode(Record(1, OffsetCommitKey("a", "t", 0), OffsetCommitValue(5, -1, "", 9, -1), 3))
    for tail in ([(b"\x00\x63\x7f", b"")], [(b"\x00\x63", b"")], []):
        records = [LogRecord(at, 1000, *each) for at, each in enumerate([commit, new, *tail])]
        data = encode_batch(records, base_offset=0, attributes=0, producer_id=-1, producer_epoch=-1)
        packed = [LogRecord(50, 2000, *commit)]
        broken = encode_batch(packed, base_offset=50, attributes=1, producer_id=-1, producer_epoch=-1)
        broken = broken[:70] + bytes([broken[70] ^ 1]) + broken[71:]
        for log, until in ((data, None), (data + broken, 20), (data + broken, None)):
            both = [
                load_logs([log_of_buffers([("s.log", log)], 3)], dialect("new", None), stop=Stop(until), engine=engine)
                for engine in (PYTHON, COMPILED)
            ]
            assert shape(both[0]) == shape(both[1])


def test_both_checksums_are_crc_32c():
    """The instruction's and the tables' CRC-32C are the library's, of any length at any place."""
    import numpy as np
    from crc32c import crc32c

    data = np.frombuffer(bytes(range(256)) * 5, np.uint8)
    for start in range(0, 12):
        for end in (start, start + 1, start + 7, start + 8, start + 9, start + 63, start + 700):
            wanted = crc32c(data[start:end].tobytes())
            assert crc32c_by_tables(data, start, end) == wanted
            if can_use_instruction(_features(), {}):
                assert crc32c_by_instruction(data, start, end) == wanted


@pytest.mark.compiler
def test_the_tables_are_used_without_the_instruction():
    """A CPU without SSE 4.2 must never compile the instruction; the environment can choose the tables too."""
    assert not can_use_instruction({}, {}) and not can_use_instruction({"sse4.2": False}, {})
    assert can_use_instruction({"sse4.2": True}, {}) and not can_use_instruction(
        {"sse4.2": True}, {"KAFKAGROUPS_CRC32C": "tables"}
    )
    program = (
        "from kafkagroups.kernels import crc32c, fold_log\n"
        "from kafkagroups.api import load\n"
        "assert crc32c.crc32c is crc32c.crc32c_by_tables\n"
        "print(sorted(load('data/harbour/3.9.2', engine='compiled')))"
    )
    environment = {**os.environ, "KAFKAGROUPS_CRC32C": "tables"}  # its machine code is kept apart
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(sorted(load("data/harbour/3.9.2")))


def test_small_logs_never_import_numba():
    """`load` of a small log does not import numba, also if no machine code is stored: the import takes longer."""
    program = "import sys, kafkagroups as kg\nkg.load('data/harbour/3.9.2')\nassert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])


def test_an_unknown_engine_is_the_callers_mistake():
    """UsageError names the engines."""
    with pytest.raises(kg.UsageError, match="auto, python, compiled"):
        load("data/harbour/3.9.2", engine="fast")


def _features():
    from llvmlite import binding

    return binding.get_host_cpu_features()


def test_records_that_no_engine_must_keep_hand_the_log_over(monkeypatch):
    """The compiled engine keeps the records of group members until the end, but only up to a number of bytes."""
    folder = captured("runs") / "runs" / "4.3.1-main" / "log"
    wanted = load(folder, "new", "4.3.1", engine="python")
    monkeypatch.setattr(other_records, "MAX_KEPT_BYTES", 100)
    (partition,) = [number for number, each in wanted.partitions.items() if each.records][:1]
    log = next(each for each in open_logs(folder) if each.partition == partition)
    assert fold_log.fold_if_possible(log, dialect("new", "4.3.1")) is None
    assert shape(load(folder, "new", "4.3.1", engine="compiled")) == shape(wanted)


def test_a_bad_batch_after_a_cut_hides_no_commit_before_it(tmp_path):
    """Two megabytes of compressed batches are read again to find the commits that create groups: all before the cut."""
    metadata = random.Random(1).randbytes(16_000).hex()

    def batch(offset, group, value):
        key, content = encode(Record(1, OffsetCommitKey(group, "t", 0), value, 3))
        return encode_batch([LogRecord(offset, 5, key, content)], attributes=1)

    # A tombstone of type 3 removes the group, and the commit at offset 1 creates it again.
    batches = [encode_batch([LogRecord(0, 5, b"\0\3\0\1g", None)], attributes=1)]
    batches.append(batch(1, "g", OffsetCommitValue(offset=5, commit_timestamp=5)))
    size = sum(map(len, batches))
    offset = 2
    while size < state.PIECE_BYTES + 100_000:
        batches.append(
            batch(offset, "other", OffsetCommitValue(offset=5, metadata=metadata[offset:], commit_timestamp=5))
        )
        size += len(batches[-1])
        offset += 1
    bad = bytearray(batch(offset, "late", OffsetCommitValue(offset=5, commit_timestamp=5)))
    bad[-1] ^= 1
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(batches) + bad)
    readable, compiled = (load(folder, "new", "4.3.1", until=60, engine=engine) for engine in ("python", "compiled"))
    assert shape(compiled) == shape(readable) and "g" in compiled
