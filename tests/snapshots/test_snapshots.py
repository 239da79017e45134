"""A snapshot that is advanced gives what a load of the whole log gives."""

import json
import os
import random
from pathlib import Path

import pytest
from crc32c import crc32c

import kafkagroups as kg
from kafkagroups import dialect, open_log, synth
from kafkagroups.loading import snapshots
from kafkagroups.loading.snapshots import FORMAT
from kafkagroups.log.segment_file import WHOLE_FILE, ByteRange, find_frames
from tests.captured import LONG, captured, folders
from tests.cases import case
from tests.engine.random_logs import random_log
from tests.engine.same import resumed_shape as shape
from tests.handmade import LogRecord, encode_batch, write_segment

COORDINATORS = (("classic", "3.9.2"), ("new", "4.3.1"))
NAME = "00000000000000000000.log"


def logs(family):
    return sorted({file.parent for file in captured(family).rglob("*.log")})


CUTS = 2 if LONG else 1
"""In how many steps a captured log grows, before its last step."""


def grown(path, cuts):
    """Yield while the last segment of a partition has each of these sizes, and then its whole size."""
    (segment,) = sorted(path.glob("*.log"))[-1:]
    whole = segment.read_bytes()
    for cut in (*sorted(cuts), len(whole)):
        segment.write_bytes(whole[:cut])
        yield


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize("family", ["runs", "crafted"])
def test_captured_logs_that_grow(family, engine, tmp_path):
    """A snapshot of a growing log answers what a load answers.

    Each captured partition is cut at random bytes. The snapshot is saved and read again between the cuts.
    """
    for number, path in enumerate(logs(family)):
        with case(path.relative_to(captured(family))):
            check_growing(path, engine, tmp_path / str(number))


def check_growing(path, engine, tmp_path):
    rnd = random.Random(path.name)
    for coordinator, kafka in COORDINATORS:
        place = tmp_path / coordinator / path.name
        place.mkdir(parents=True)
        for segment in path.glob("*.log"):
            (place / segment.name).write_bytes(segment.read_bytes())
        size = max(1, sorted(place.glob("*.log"))[-1].stat().st_size)
        snapshot = None
        for _ in grown(place, [rnd.randrange(size) for _ in range(CUTS)]):
            if snapshot is None:
                snapshot = snapshots.take_snapshot(place, coordinator, kafka, engine=engine)
            else:
                snapshot = snapshots.Snapshot.read(tmp_path / coordinator / "state").advance(place, engine=engine)
            wanted = kg.load(place, coordinator, kafka, engine="python")
            assert shape(snapshot.groups()) == shape(wanted)
            snapshot.save(tmp_path / coordinator / "state")


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize(("coordinator", "kafka"), [*COORDINATORS, ("classic", "2.0.0"), ("new", "4.0.0")])
def test_random_logs_that_grow(coordinator, kafka, engine, tmp_path):
    """300 random logs, some with damage or failing loads, are read in up to five steps, each from the saved segment."""
    rules = dialect(coordinator, kafka)
    resumed = 0
    for seed in range(300):
        data = random_log(seed)
        rnd = random.Random(seed)
        snapshot = snapshots.Snapshot(rules)
        for cut in (*sorted(rnd.randrange(len(data) + 1) for _ in range(4)), len(data)):
            topic = write_segment(tmp_path / "topic", data[:cut], 3)
            snapshot = snapshot.advance(topic, engine=engine)
            resumed += snapshot.partitions[3].saved is not None
            wanted = shape(kg.load(topic, coordinator, kafka))
            snapshot.save(tmp_path / "state")
            assert shape(snapshot.groups()) == wanted, (seed, cut)
            snapshot = snapshots.Snapshot.read(tmp_path / "state")
            assert shape(snapshot.groups()) == wanted, (seed, cut)
    assert resumed > 50


@pytest.mark.slow
@pytest.mark.parametrize(("coordinator", "kafka"), COORDINATORS)
@pytest.mark.parametrize("folder", ["harbour/3.9.2", "harbour/4.3.1", "new_protocols", "synth"])
def test_a_log_that_was_cut_at_each_batch(folder, coordinator, kafka, tmp_path):
    """A snapshot is taken at each batch of a log. The whole log is read from there, and answers what a load answers."""
    logs = sorted({file.parent for file in Path("data", folder).rglob("*.log")})
    if folder == "synth":
        mixed = {"transactional": 0.5, "generations": 0.1, "modern": 0.3, "hanging": 0.1, "groups": 5, "keys": 3}
        synth.write(tmp_path, 250, partitions=1, tombstones=0.3, seed=3, **mixed)
        logs = [tmp_path / "__consumer_offsets-0"]
    for path in logs:
        whole = open_log(path)
        wanted = shape(kg.load(path, coordinator, kafka))
        for batch in whole:
            number = whole.segments.index(batch.file)
            end = {batch.file: ByteRange(0, batch.position + batch.size)}
            part = whole.select_ranges({**dict.fromkeys(whole.segments[:number], WHOLE_FILE), **end})
            snapshot = snapshots.Snapshot(dialect(coordinator, kafka)).advance_logs([part])
            snapshot.save(tmp_path / "state")
            resumed = snapshots.Snapshot.read(tmp_path / "state").advance(path)
            failed = any(shard.failure for shard in snapshot.shards.values())
            assert failed or all(partition.saved for partition in resumed.partitions.values())
            assert shape(resumed.groups(str(path))) == wanted, (path, batch.base_offset)


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_new_segments_and_partitions(engine, tmp_path):
    """A topic gets new segments and partitions; the snapshot advances and answers as a load does."""
    synth.write(tmp_path / "whole", 6000, partitions=3, groups=30, transactional=0.5, segment_bytes=20_000)
    files_ = sorted((tmp_path / "whole").rglob("*.log"), key=lambda file: (file.name, file.parent.name))
    snapshot = None
    before = 0
    for count in (1, 2, 5, 9, len(files_)):
        for file in files_[before:count]:
            place = tmp_path / "topic" / file.parent.name
            place.mkdir(parents=True, exist_ok=True)
            (place / file.name).write_bytes(file.read_bytes())
        before = count
        topic = tmp_path / "topic"
        if snapshot is None:
            snapshot = snapshots.take_snapshot(topic, engine=engine)
        else:
            for state in snapshot.shards.values():  # what was read is no longer needed
                log = topic / f"__consumer_offsets-{state.partition}"
                assert state.loaded.next_offset and log.is_dir()
            snapshot = snapshot.advance(topic, engine=engine)
        wanted = kg.load(topic)
        assert shape(snapshot.groups()) == shape(wanted)
        assert snapshot.next_offsets == {number: p.next_offset for number, p in wanted.partitions.items()}


def test_what_was_handed_out_stays(tmp_path):
    """A snapshot and its groups stay unchanged when the snapshot is advanced."""
    path = "data/harbour/3.9.2/__consumer_offsets-9"
    (segment,) = Path(path).glob("*.log")
    place = tmp_path / "__consumer_offsets-9"
    place.mkdir()
    (place / segment.name).write_bytes(segment.read_bytes()[:2000])
    first = snapshots.take_snapshot(place, "classic")
    groups = first.groups()
    wanted = kg.load(place, "classic")
    (place / segment.name).write_bytes(segment.read_bytes())
    second = first.advance(place)
    assert shape(groups) == shape(first.groups()) == shape(wanted)
    assert shape(second.groups()) == shape(kg.load(place, "classic"))


def change_batch(folder):
    """The last batch has another record, with the right checksum, as in another log with the same sizes."""
    *_, file = sorted(folder.glob("*.log"))
    data = bytearray(file.read_bytes())
    *_, last = find_frames(data)
    data[last.position + 34] ^= 1  # The base timestamp.
    data[last.position + 17 : last.position + 21] = crc32c(bytes(data[last.position + 21 :])).to_bytes(4, "big")
    file.write_bytes(data)


def clean(folder):
    """The log cleaner has compacted the segments before the last one."""
    cleaned = folder.with_name("cleaned")
    kg.compact(folder, cleaned)
    for file in folder.glob("*.log"):
        file.unlink()
    for file in cleaned.iterdir():
        file.rename(folder / file.name)


def delete_records(folder):
    """The first segment is gone, as after DeleteRecords."""
    min(folder.glob("*.log")).unlink()


def cut(folder):
    """The log ends earlier, as after an unclean election."""
    *_, file = sorted(folder.glob("*.log"))
    *_, last = find_frames(file.read_bytes())
    os.truncate(file, last.position)


@pytest.mark.parametrize("change", [change_batch, clean, delete_records, cut])
def test_a_log_that_has_changed_is_read_again(change, tmp_path, run):
    """A log that was replaced, cleaned or cut before the saved position is read as a whole, and one line says so."""
    synth.write(tmp_path / "topic", 900, partitions=1, groups=5, segment_bytes=20_000)
    log = tmp_path / "topic" / "__consumer_offsets-0"
    state = tmp_path / "state"
    snapshots.take_snapshot(log).save(state)
    assert snapshots.Snapshot.read(state).advance(log).notes == []
    change(log)
    advanced = snapshots.Snapshot.read(state).advance(log)
    assert shape(advanced.groups(str(log))) == shape(kg.load(log))
    line = f"{log}: not the log of the snapshot any longer, so all of it was read"
    assert advanced.notes == [line]
    for errors in (f"kafkagroups: {line}\n", ""):
        status, _, err = run("load", log, "--snapshot", state, "--json")
        assert (status, err) == (0, errors)


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize(
    ("position", "change"),
    [(40, b"\0"), (16, b"\x09"), (8, b"\0\0\0\1"), (8, b"\x7f\0\0\0"), (61, b"\1")],
    ids=["checksum", "magic", "too small", "too large", "record"],
)
def test_errors_after_a_resume_have_the_position_in_the_file(position, change, engine, tmp_path):
    """A batch after the snapshot is damaged, in the segment where the snapshot ends. The message is that of a load."""
    topic = tmp_path / "__consumer_offsets-9"
    topic.mkdir()
    (segment,) = Path("data/harbour/3.9.2/__consumer_offsets-9").glob("*.log")
    data = segment.read_bytes()
    frames = list(find_frames(data))
    first = frames[2].base_offset
    names = {NAME: (0, frames[2].position), f"{first:020}.log": (frames[2].position, len(data))}
    for name, (start, end) in names.items():
        (topic / name).write_bytes(data[start : min(end, frames[4].position)])
    snapshots.take_snapshot(topic, "classic", engine=engine).save(tmp_path / "state")
    batch = bytearray(data[frames[5].position : frames[5].end])
    batch[position : position + len(change)] = change
    if position == 61:  # A record of a wrong size, under the right checksum.
        batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    whole = data[: frames[5].position] + bytes(batch) + data[frames[5].end :]
    (topic / f"{first:020}.log").write_bytes(whole[frames[2].position :])
    (problem,) = snapshots.Snapshot.read(tmp_path / "state").advance(topic).groups(str(topic)).problems
    assert f"{first:020}.log" in problem and f"byte {frames[5].position - frames[2].position}: " in problem
    assert [problem] == kg.load(topic, "classic").problems


@pytest.mark.parametrize("base", [0, -1, -(1 << 63), (1 << 63) - 2, (1 << 63) - 1])
@pytest.mark.parametrize("delta", [0, -(1 << 31), (1 << 31) - 1])
@pytest.mark.parametrize("count", [1, -(1 << 31), (1 << 31) - 1])
def test_extreme_numbers_are_saved(base, delta, count, tmp_path):
    """Offsets and counts that no broker writes are in a snapshot as the load has read them."""
    batch = bytearray(encode_batch([LogRecord(0, 1, b"\0\1", b"")], base_offset=0))
    batch[:8] = base.to_bytes(8, "big", signed=True)
    batch[23:27] = delta.to_bytes(4, "big", signed=True)
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    (tmp_path / "09223372036854775807.log").write_bytes(batch)
    taken = snapshots.take_snapshot(tmp_path, engine="python")
    taken.save(tmp_path / "state")
    assert shape(snapshots.Snapshot.read(tmp_path / "state").groups()) == shape(taken.groups())


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_the_message_about_damage_counts_later_segments(engine, tmp_path):
    """A resume at a damaged batch says as a load does how many segments are not read, also if they have no batch."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    log = bytearray(random_log(3))
    log[30] ^= 1
    (folder / NAME).write_bytes(log)
    (folder / f"{10**6:020}.log").write_bytes(b"")
    first = snapshots.take_snapshot(folder, engine=engine)
    damage = first.groups().partitions[0].damage
    assert damage.reason.endswith("; 1 later segment not read")
    assert first.advance(folder).groups().partitions[0].damage == damage


def test_what_lies_on_disk(tmp_path):
    """snapshot.json holds the next offsets. Damaged files, and folders with other content, are refused."""
    snapshot = snapshots.take_snapshot("data/harbour/3.9.2", "classic")
    folder = tmp_path / "state"
    folder.mkdir()
    for left in ("snapshot.json.new", f"9.{'0' * 32}.log"):  # by a first save that was killed
        (folder / left).write_text("")
    snapshot.save(folder)
    snapshot.save(folder)
    said = json.loads((folder / "snapshot.json").read_text())["partitions"]
    assert sorted(file.name for file in folder.glob("*.log")) == sorted(each["file"] for each in said)
    assert {each["partition"]: each["loaded"]["next_offset"] for each in said} == snapshot.next_offsets
    with pytest.raises(kg.UsageError, match="no snapshot"):
        snapshots.Snapshot.read(tmp_path)
    with pytest.raises(kg.UsageError, match="expected an empty folder"):
        snapshot.save("data/harbour")
    segment = folder / said[0]["file"]
    whole = segment.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:100] + bytes(50) + whole[150:], b""):
        segment.write_bytes(damaged)
        with pytest.raises(kg.InvalidLog, match=r"the snapshot cannot be read: .*; delete the snapshot"):
            snapshots.Snapshot.read(folder)
    (folder / "snapshot.json").write_text(json.dumps({"format": FORMAT}))
    with pytest.raises(kg.InvalidLog):
        snapshots.Snapshot.read(folder)


@pytest.mark.parametrize("old_format", [4, 8, 10])
def test_an_old_snapshot_is_replaced(old_format, tmp_path, run):
    """Format 4 contained a pickle, and format 10 JSON: one line says that the log is read again, and no state is."""
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "9.1.state").write_bytes(b"cpathlib\nPath\n(S'%s'\ntR." % bytes(tmp_path / "ran"))
    manifest = {"number": 1, "coordinator": "classic", "kafka": "3.9.2"}
    partitions = {"9": {"file": "9.1.state", "next_offset": 24}}
    (folder / "snapshot.json").write_text(json.dumps({"format": old_format, **manifest, "partitions": partitions}))
    found = f"{folder}: expected a snapshot of format {FORMAT}, found format {old_format}"
    with pytest.raises(kg.UsageError, match=found):
        snapshots.Snapshot.read(folder)
    command = ("load", "data/harbour/3.9.2", "--coordinator", "classic", "--json")
    _, wanted, _ = run(*command)
    line = f"kafkagroups: {found}. Now all of the log is read, and the snapshot is replaced\n"
    assert run(*command, "--snapshot", folder) == (0, wanted, line)
    assert run(*command, "--snapshot", folder) == (0, wanted, "")
    assert not list(folder.glob("*.state"))


def test_nothing_from_outside_is_unpickled():
    """A pickle can run code. Only Spark's driver and its tasks exchange pickles."""
    paths = list(Path("kafkagroups").rglob("*.py"))
    assert len(paths) > 150
    calls = ("pickle.load", "np.load", ".recv()")
    unpickling = [path for path in paths if any(call in path.read_text() for call in calls)]
    assert set(unpickling) == {Path("kafkagroups/spark/tasks.py")}


@pytest.mark.slow
@pytest.mark.engine
def test_a_segment_is_the_same_whichever_engine_made_it(tmp_path):
    """A snapshot never depends on an engine. Its segments are logs."""
    for number, folder in enumerate(folders("runs")):
        for coordinator, kafka in COORDINATORS:
            both = []
            for engine in ("python", "compiled"):
                state = tmp_path / f"{number}-{coordinator}-{engine}"
                snapshots.take_snapshot(folder, coordinator, kafka, engine=engine).save(state)
                both.append({file.name.split(".")[0]: file.read_bytes() for file in state.glob("*.log")})
                for file in state.glob("*.log"):
                    assert kg.open_log(file).damage is None
            assert both[0] == both[1]


def test_load_with_a_snapshot(tmp_path, run):
    """`load --snapshot DIR` answers as `load` does, and updates the snapshot. Wrong options are refused."""
    path = tmp_path / "__consumer_offsets-9"
    state = tmp_path / "state"
    command = ("load", path, "--coordinator", "classic")
    (segment,) = Path("data/harbour/3.9.2/__consumer_offsets-9").glob("*.log")
    path.mkdir()
    for size in (2000, None):
        (path / segment.name).write_bytes(segment.read_bytes()[:size])
        assert run(*command, "--snapshot", state, "--json") == run(*command, "--json")
    for wrong, said in (
        (["--kafka", "2.8.2"], "this snapshot is of the classic coordinator of Kafka 3.9.2"),
        (["--until", "3"], "--snapshot cannot be used with"),
        ([path], "one PATH"),
    ):
        status, _, err = run("load", path, *wrong, "--coordinator", "classic", "--snapshot", state)
        assert status == 2 and said in err
    next(state.glob("*.log")).write_bytes(b"nothing")
    # Damaged bytes are bad data, and no wrong usage.
    status, _, err = run(*command, "--snapshot", state)
    assert status == 1 and "the snapshot cannot be read" in err


def test_a_segment_is_not_written_again_for_few_batches(tmp_path, run):
    """`load --snapshot` reads a few new batches again next time. When they are many, it writes a new segment."""
    synth.write(tmp_path, 1000, partitions=1, groups=200)
    log = tmp_path / "__consumer_offsets-0"
    state = tmp_path / "state"
    (file,) = log.glob("*.log")
    data = file.read_bytes()
    frames = list(find_frames(data))
    segments = []
    for count in (len(frames) // 2, len(frames) // 2 + 3, len(frames) // 2 + 6, len(frames)):
        file.write_bytes(data[: frames[count - 1].end])
        assert run("load", log, "--snapshot", state, "--json") == run("load", log, "--json")
        segments += state.glob("*.log")
    assert segments[0] == segments[1] == segments[2] != segments[3]


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_save_never_writes_through_a_name_that_was_there_before(kind, tmp_path):
    """A hostile folder can contain a link to another file, or a named pipe, at the name that the next save writes."""
    log = "data/harbour/4.3.1/__consumer_offsets-9"
    folder = tmp_path / "state"
    snapshots.take_snapshot(log).save(folder)
    mine = tmp_path / "mine"
    mine.write_text("kept")
    new = folder / "snapshot.json.new"
    if kind == "link":
        new.symlink_to(mine)
    else:
        os.mkfifo(new)
    snapshots.take_snapshot(log).save(folder)
    assert mine.read_text() == "kept" and not new.exists()
    assert snapshots.Snapshot.read(folder).groups().keys() == kg.load(log).keys()


def test_damage_before_an_oddly_named_segment_is_reported_again(tmp_path):
    """The second segment's name promises an offset that the damaged first segment also has (found by fuzzing)."""
    batches = b"".join(encode_batch([LogRecord(offset, 5, b"\0\x02\0\x01g", None)]) for offset in range(2))
    folder = write_segment(tmp_path, batches + b"\xff" * 80)
    (folder / f"{1:020}.log").write_bytes(b"")
    snapshot = snapshots.take_snapshot(folder)
    resumed = snapshot.advance(folder)
    assert resumed.groups().partitions[0].damage == kg.load(folder).partitions[0].damage
    assert resumed.groups().partitions[0].damage.position == len(batches)
