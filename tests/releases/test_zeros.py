"""Zeros after the records: what real brokers did with them at each kind of start (`releases/zero`)."""

import json
import os
import shutil
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import dialect, open_log
from kafkagroups.loading.load import choose_engine
from kafkagroups.log.batches import Outcome, Start, judge_start
from kafkagroups.log.segment_file import Zeros
from kafkagroups.log.segments import NO_STOP
from tests.captured import captured
from tests.handmade import log_of_buffers
from tests.snapshots.forged import Snapshot, take_snapshot

LOADED = (Outcome.CUTS_ZEROS, Outcome.CUTS_LATER_SEGMENTS, Outcome.IGNORES_ZEROS)
STARTS = {
    "unclean": Start.UNCLEAN,
    "unclean-noindex": Start.WITHOUT_INDEXES,
    "clean-noindex": Start.WITHOUT_INDEXES,
    "clean": Start.CLEAN,
}
ENGINES = pytest.mark.parametrize("engine", ["python", "compiled"])
LOG = "data/harbour/3.9.2/__consumer_offsets-9"


def zero_cases():
    return sorted((captured("releases") / "releases" / "zero").glob("*/case.json"))


CASES = {file.parent.name: (file.parent, json.loads(file.read_text())) for file in zero_cases()}
STARTED = [name for name, (_, case) in CASES.items() if "verdicts" in case]
FAILED_OVER = [name for name, (_, case) in CASES.items() if "moved" in case]


def copy_case(name, folder):
    """Copy a case, and append the zeros that were left out of the captured files. Return its partition folders."""
    source, case = CASES[name]
    shutil.copytree(source, folder, dirs_exist_ok=True)
    left_out = case.get("zeros_left_out", {}).get("files", {})
    left_out |= {
        moved["log_of_the_new_leader"]: moved["zero_bytes_left_out"] for moved in case.get("moved", {}).values()
    }
    for path, count in left_out.items():
        with open(folder / path, "ab") as file:
            file.write(bytes(count))
    return sorted(folder.glob("__consumer_offsets-*"))


def load(path, release, engine):
    kafka, _, kind = release.partition("-")
    return kg.load(path, "classic" if kind == "classic" else "new", kafka, engine=engine)


def stored_offsets(groups):
    """Return the committed offsets of all groups, as the cases write them."""
    return {str(partition): commit.offset for group in groups.values() for partition, commit in group.offsets.items()}


def find_zeros(groups):
    """Return the zeros at the end of the log. Behind zeros between two batches is damage: the rest is read as zeros."""
    (loaded,) = groups.partitions.values()
    if loaded.damage is None:
        return loaded.zeros
    size = Path(loaded.damage.file).stat().st_size
    return Zeros(loaded.damage.file, loaded.damage.position, size - loaded.damage.position)


@ENGINES
@pytest.mark.parametrize("name", STARTED)
def test_each_start_of_a_broker(tmp_path, name, engine):
    """For every captured start of every release: whether the partition loads, which offsets it then answers."""
    (folder,) = copy_case(name, tmp_path)
    for capture, verdicts in CASES[name][1]["verdicts"].items():
        for release, verdict in verdicts.items():
            groups = load(folder, release, engine)
            zeros = find_zeros(groups)
            if zeros is None:
                assert verdict["load"] == "ok" and stored_offsets(groups) == verdict["offsets"]
                continue
            outcome = judge_start(STARTS[capture], zeros, groups.coordinator)
            where = f"{name}, {capture}, {release}: {outcome}"
            assert (outcome in LOADED) == (verdict["load"] == "ok"), where
            assert (outcome is Outcome.DOES_NOT_START) == (verdict["load"] == "broker did not start"), where
            assert (outcome is Outcome.LOADS_NOTHING) == (verdict.get("offsets") == {}), where
            if outcome is Outcome.CUTS_LATER_SEGMENTS:
                assert len(verdict["log_files_after"]) < groups.partitions[next(iter(groups.partitions))].segments
            elif outcome in LOADED:
                assert stored_offsets(groups) == verdict["offsets"], where


@ENGINES
@pytest.mark.parametrize("name", FAILED_OVER)
def test_a_failover(tmp_path, name, engine):
    """A new leader loads from the live segment whose space it has reserved as a follower."""
    release = CASES[name][1]["kafka"]
    for folder in copy_case(name, tmp_path):
        (moved,) = [each for number, each in CASES[name][1]["moved"].items() if folder.name.endswith(f"-{number}")]
        groups = load(folder, release, engine)
        zeros = find_zeros(groups)
        # The last bytes of a batch can be zeros, too.
        assert zeros.position >= moved["bytes_without_zero_tail"]
        assert zeros.position + zeros.bytes == moved["live_log_bytes"]
        assert stored_offsets(groups)
        expected = Outcome.LOADS_NOTHING if moved["offsets"] == {} else Outcome.LOAD_FAILS
        assert judge_start(Start.FAILOVER, zeros, groups.coordinator) is expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (10, Outcome.IGNORES_ZEROS),
        (11, Outcome.IGNORES_ZEROS),
        (12, Outcome.LOAD_FAILS),
        (17, Outcome.LOAD_FAILS),
        (18, Outcome.DOES_NOT_START),
        (61, Outcome.DOES_NOT_START),
    ],
)
def test_a_clean_start_by_the_number_of_zeros(count, expected):
    """Kafka's two readers ignore at most 17 bytes of a file and 11 bytes in memory."""
    assert judge_start(Start.CLEAN, Zeros("f", 226, count), "new") is expected
    if expected is Outcome.LOAD_FAILS:
        assert judge_start(Start.CLEAN, Zeros("f", 226, count), "classic") is Outcome.LOADS_NOTHING
    later = judge_start(Start.CLEAN, Zeros("f", 226, count, later_segments=1), "new")
    assert later is (Outcome.IGNORES_ZEROS if count < 12 else Outcome.LOAD_FAILS)


def write_segments(folder, tails):
    """Write a segment for each tail: two batches and `tail` zeros, or only zeros if `tail` is negative.

    Return the number of bytes of the batches.
    """
    folder.mkdir()
    (source,) = CASES["z-none"][0].glob("__consumer_offsets-*/*.log")
    data = source.read_bytes()
    for number, tail in enumerate(tails):
        content = b""
        for batch in open_log(source):
            offset = 2 * number + batch.base_offset  # No checksum covers the base offset.
            content += offset.to_bytes(8, "big") + data[batch.position + 8 : batch.position + batch.size]
        segment = bytes(-tail) if tail < 0 else content + bytes(tail)
        (folder / f"{2 * number:020}.log").write_bytes(segment)
    return len(data)


@pytest.mark.parametrize(
    ("tails", "expected"),
    [
        ((0, 0), None),
        ((0, 1), (1, True, 1)),
        ((0, 9), (1, True, 9)),
        ((0, 3_000_000), (1, True, 3_000_000)),
        ((0, -100), (1, False, 100)),
        ((-100,), (0, False, 100)),
        ((5, 0), (0, True, 5)),
        ((100, 200), (0, True, 100)),
    ],
)
@ENGINES
def test_the_position_and_number_of_zeros(tmp_path, tails, expected, engine):
    """The zeros of the first segment that ends with zeros, in both engines, in files and in memory."""
    folder = tmp_path / "__consumer_offsets-9"
    size = write_segments(folder, tails)
    log = open_log(folder)
    zeros = None
    if expected is not None:
        number, has_batches, count = expected
        zeros = Zeros(log.segments[number], size if has_batches else 0, count, len(tails) - 1 - number)
    rules = dialect("new", None)
    buffers = log_of_buffers([(segment, Path(segment).read_bytes()) for segment in log.segments], 9)
    for source in (log, buffers):
        loaded = choose_engine(engine).fold(source, rules, NO_STOP).loaded
        assert (loaded.damage, loaded.zeros) == (None, zeros)


def test_zeros_behind_a_stop_are_not_reported(tmp_path):
    """`until` ends the reading before the zeros."""
    folder = tmp_path / "__consumer_offsets-9"
    write_segments(folder, (0, 100))
    for engine in ("python", "auto"):
        assert kg.load(folder, until=1, engine=engine).partitions[9].zeros is None
        assert kg.load(folder, until=9, engine=engine).partitions[9].zeros is not None


@ENGINES
def test_zeros_and_snapshots(tmp_path, engine):
    """A resumed snapshot has the zeros that a load of the whole log has, also after they were overwritten."""
    folder = tmp_path / "__consumer_offsets-9"
    write_segments(folder, (0, 0, 0))
    content = {file: file.read_bytes() for file in sorted(folder.iterdir())}
    files = list(content)
    half = len(content[files[0]]) // 2
    for file in files[1:]:
        file.unlink()
    files[0].write_bytes(content[files[0]][:half] + bytes(1000))
    snapshot = take_snapshot(folder, engine=engine)

    def check():
        nonlocal snapshot
        snapshot = snapshot.advance(folder, engine=engine)
        snapshot.save(tmp_path / "state")
        snapshot = Snapshot.read(tmp_path / "state")
        assert snapshot.groups(str(folder)).partitions == kg.load(folder).partitions
        return snapshot.shards[9].loaded.zeros

    assert check().bytes == 1000
    files[0].write_bytes(content[files[0]] + bytes(7))
    assert check().bytes == 7
    files[1].write_bytes(content[files[1]] + bytes(20))
    assert (check().bytes, check().later_segments) == (7, 1)
    files[2].write_bytes(content[files[2]])
    assert (check().bytes, check().later_segments) == (7, 2)


@ENGINES
def test_zeros_that_a_broker_has_cut_off(tmp_path, engine):
    """When a broker begins a new segment, it cuts the reserved space off the old one. A snapshot then has no zeros."""
    folder = tmp_path / "__consumer_offsets-9"
    size = write_segments(folder, (1000, 0))
    old, new = sorted(folder.iterdir())
    content = new.read_bytes()
    new.unlink()
    snapshot = take_snapshot(folder, engine=engine)
    assert snapshot.shards[9].loaded.zeros.bytes == 1000
    os.truncate(old, size)
    new.write_bytes(content)
    snapshot = snapshot.advance(folder, engine=engine)
    assert snapshot.groups(str(folder)).partitions == kg.load(folder).partitions
    assert snapshot.shards[9].loaded.zeros is None


@ENGINES
def test_zeros_behind_damage_are_not_reported(tmp_path, engine):
    """Reading ends at a batch with a wrong checksum. A snapshot does not report the zeros behind this batch either."""
    folder = tmp_path / "__consumer_offsets-9"
    size = write_segments(folder, (100,))
    (segment,) = folder.iterdir()
    data = segment.read_bytes()
    segment.write_bytes(data[: size // 2])
    snapshot = take_snapshot(folder, engine=engine)
    segment.write_bytes(data[: size - 1] + bytes([data[size - 1] ^ 1]) + data[size:])
    (loaded,) = snapshot.advance(folder, engine=engine).groups(str(folder)).partitions.values()
    assert loaded.damage is not None
    assert (loaded.zeros, kg.load(folder).partitions[9].zeros) == (None, None)


def test_load_prints_the_zeros(tmp_path, run):
    """The JSON has file, position and bytes. `check` says what each kind of start would do. The exit code is 0."""
    folder = tmp_path / "__consumer_offsets-9"
    size = write_segments(folder, (100,))
    (segment,) = folder.iterdir()
    status, out, err = run("load", folder, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["partitions"]["9"]["zeros"] == {"file": str(segment), "position": size, "bytes": 100}
    status, out, err = run("load", folder)
    assert (status, err) == (0, "") and "A log ends with zeros: kafkagroups check says" in " ".join(out.split())
    _, out, _ = run("check", folder)
    assert f"{segment} ends with 100 zeros from byte {size} on" in " ".join(out.split())
    for start in Start:
        assert start.value in " ".join(out.split())
    assert "what a Kafka 4.3.1 broker does" in " ".join(out.split()) and "does not start" in " ".join(out.split())
    assert json.loads(run("load", LOG, "--json")[1])["partitions"]["9"]["zeros"] is None
    assert "zeros" not in run("load", LOG)[1]
