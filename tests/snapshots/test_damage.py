"""A damaged snapshot is refused in one clear line, or it resumes and answers what a load answers.

A forged snapshot has the right checksums, so its answer can be wrong. It is refused, or used like any other snapshot.
"""

import copy
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from crc32c import crc32c

import kafkagroups as kg
from kafkagroups import synth
from kafkagroups.loading.snapshots import Snapshot, take_snapshot
from kafkagroups.log.segment_file import find_frames
from tests.captured import LONG, captured
from tests.cases import case
from tests.engine.random_logs import random_log
from tests.engine.same import resumed_shape as shape
from tests.fuzz.odd_values import change_bytes
from tests.handmade import log_of_buffers
from tests.snapshots import forged

pytestmark = pytest.mark.slow

ROUNDS = 3_000 if LONG else 80
"""How many random changes a test makes in each snapshot."""
SEGMENT = f"{0:020}.log"
TOPICS = ("all types", "random")


class Saved(NamedTuple):
    """A snapshot of the first half of a topic; the whole topic is there now.

    `files` has the bytes of the snapshot's files. `wanted` is what a load of the whole topic answers.
    """

    name: str
    topic: Path
    folder: Path
    files: dict[str, bytes]
    wanted: tuple

    def restore(self):
        """Write the files of the snapshot as they were."""
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        for name, data in self.files.items():
            (self.folder / name).write_bytes(data)

    def resume(self):
        """Return the groups after a resume, or None if the snapshot is refused in one line that names it."""
        try:
            return Snapshot.read(self.folder).advance(self.topic).groups(str(self.topic))
        except (kg.UsageError, kg.InvalidLog) as error:
            assert str(error).startswith(str(self.folder)) and "\n" not in str(error) and len(str(error)) < 1000
            return None

    def check(self):
        """Check that the changed snapshot is refused, or gives the right answer. Return whether it is refused."""
        groups = self.resume()
        assert groups is None or shape(groups) == self.wanted
        return groups is None


def logs_of(name):
    """Return the bytes of each partition of a topic, and its coordinator.

    The topic "all types" has groups of all types. The random logs have pending commits, damage and failing loads.
    """
    if name == "all types":
        folders = sorted((captured("runs") / "runs/4.3.1-next/log").iterdir())
        return [b"".join(file.read_bytes() for file in sorted(folder.glob("*.log"))) for folder in folders], "new"
    logs = (random_log(seed, 60) for seed in itertools.count())
    return list(itertools.islice((data for data in logs if offsets_ascend(data)), 12)), "classic"


def offsets_ascend(data):
    """Return whether a snapshot can advance by offsets: no damage has changed the offset of a batch."""
    bases = [batch.base_offset for batch in log_of_buffers({SEGMENT: data}, 3)]
    return len(bases) > 5 and bases == sorted(bases)


@pytest.fixture(scope="module")
def save(tmp_path_factory):
    """Return a function that returns the snapshot of a topic."""
    saved = {}

    def save_topic(topic):
        if topic not in saved:
            folder = tmp_path_factory.mktemp("topic")
            logs, coordinator = logs_of(topic)
            for part in (0.5, 1):
                for number, data in enumerate(logs):
                    path = folder / f"topic/__consumer_offsets-{number}"
                    path.mkdir(parents=True, exist_ok=True)
                    (path / SEGMENT).write_bytes(data[: int(len(data) * part)])
                if part < 1:
                    take_snapshot(folder / "topic", coordinator).save(folder / "state")
            files = {file.name: file.read_bytes() for file in (folder / "state").iterdir()}
            wanted = shape(kg.load(folder / "topic", coordinator))
            saved[topic] = Saved(topic, folder / "topic", folder / "state", files, wanted)
        saved[topic].restore()
        return saved[topic]

    return save_topic


@pytest.fixture(params=TOPICS)
def saved(request, save):
    return save(request.param)


def test_the_snapshot_itself_resumes(saved):
    """Without damage, each snapshot resumes with the answer of a load. The states are varied."""
    assert not saved.check()
    snapshot = Snapshot.read(saved.folder)
    if saved.name == "random":
        assert any(shard.failure for shard in snapshot.shards.values())
        assert any(shard.offsets.pending for shard in snapshot.shards.values())
    else:
        assert {group.type for group in snapshot.groups().values()} == {"classic", "consumer", "share", "streams"}


def test_changed_and_missing_bytes(saved):
    """Bytes are changed, added, repeated or missing."""
    rnd = random.Random(saved.name)
    for _ in range(ROUNDS):
        name = rnd.choice([*saved.files, "snapshot.json"])
        data = change_bytes(rnd, saved.files[name])
        with case((name, data)):
            (saved.folder / name).write_bytes(data)
            assert saved.check() or name == "snapshot.json" or data == saved.files[name]
            (saved.folder / name).write_bytes(saved.files[name])


def test_every_byte_of_a_small_snapshot(tmp_path):
    """One bit of each byte of a small snapshot is changed, and each file is cut at each eighth byte."""
    topic = tmp_path / "__consumer_offsets-9"
    shutil.copytree("data/harbour/3.9.2/__consumer_offsets-9", topic)
    (segment,) = topic.glob("*.log")
    data = segment.read_bytes()
    segment.write_bytes(data[:1000])
    take_snapshot(topic, "classic").save(tmp_path / "state")
    segment.write_bytes(data)
    files = {file.name: file.read_bytes() for file in (tmp_path / "state").iterdir()}
    saved = Saved("small", topic, tmp_path / "state", files, shape(kg.load(topic, "classic")))
    assert not saved.check()
    accepted = 0
    for name, content in files.items():
        for position in range(len(content)):
            bit = 1 << position % 8
            flipped = content[:position] + bytes([content[position] ^ bit]) + content[position + 1 :]
            for changed in (flipped, content[:position]) if LONG or position % 8 == 0 else (flipped,):
                with case((name, position, len(changed))):
                    (saved.folder / name).write_bytes(changed)
                    accepted += not saved.check()
        (saved.folder / name).write_bytes(content)
    assert accepted < 20  # A space in snapshot.json has no meaning.


def test_swapped_files(saved):
    """A segment has the bytes of another partition, or of a later snapshot of the same log."""
    segments = [name for name in saved.files if name != "snapshot.json"]
    for name, other_name in itertools.permutations(segments, 2):
        if saved.files[name] != saved.files[other_name]:
            with case((name, other_name)):
                (saved.folder / name).write_bytes(saved.files[other_name])
                assert saved.check()
                (saved.folder / name).write_bytes(saved.files[name])
    Snapshot.read(saved.folder).advance(saved.topic).save(saved.folder)
    later = {file.name.split(".")[0]: file.read_bytes() for file in saved.folder.glob("*.log")}
    saved.restore()
    swapped = [name for name in segments if saved.files[name] not in (later.get(name.split(".")[0]), None)]
    assert swapped
    for name in swapped:
        (saved.folder / name).write_bytes(later.get(name.split(".")[0], b""))
        assert saved.check()
        (saved.folder / name).write_bytes(saved.files[name])
    Snapshot.read(saved.folder).advance(saved.topic).save(saved.folder)
    (saved.folder / "snapshot.json").write_bytes(saved.files["snapshot.json"])
    assert saved.check()


@pytest.mark.parametrize("kind", ["snapshot.json", "segment"])
def test_special_files(kind, save):
    """A file that is missing, a folder, a FIFO, a device or a link to nothing is refused and never waited for."""
    saved = save("all types")
    path = saved.folder / kind if kind == "snapshot.json" else min(saved.folder.glob("*.log"))
    for change in (
        lambda: None,
        path.mkdir,
        lambda: os.mkfifo(path),
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to("nothing"),
    ):
        path.unlink()
        change()
        assert saved.check()
        saved.restore()
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    assert saved.check()


VALUES = [
    *(None, True, False, 0, -1, 1, 7, 1 << 31, -(1 << 31) - 1, 1 << 63, -(1 << 63), 1 << 70, 10**30, 0.5, 1e300),
    *(
        float("inf"),
        float("nan"),
        "",
        "x",
        "5",
        "null",
        "ü\u0000\u202e\n",
        "\ud800",
        "x" * 5000,
        "AAAAAAAAAAAAAAAAAAAAAA",
    ),
    *([], [[]], [None], {}, {"": 0}, [0, 0], ["x", 0], [0] * 10, {"type": "classic"}),
]


def places(value, path=()):
    """Yield the path of each value inside a JSON value."""
    if path:
        yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, content in value.items():
            yield from places(content, (*path, key))


def change(rnd, content):
    """Return a copy of a JSON value with one change: a value, a missing key, an unknown key, a repeated element."""
    content = copy.deepcopy(content)
    *path, key = rnd.choice(list(places(content)))
    parent = content
    for step in path:
        parent = parent[step]
    kind = rnd.choice(("replace", "replace", "replace", "delete", "add", "number"))
    if kind == "number" and type(parent[key]) is int:
        parent[key] = rnd.choice((parent[key] + 1, -parent[key], parent[key] << rnd.choice((8, 31, 40)), ~parent[key]))
    elif kind == "delete":
        del parent[key]
    elif kind == "add" and isinstance(parent, dict):
        parent[rnd.choice(("unknown", "\u202e", "0", ""))] = parent[key]
    elif kind == "add":
        parent.append(copy.deepcopy(parent[rnd.randrange(len(parent))]))
    else:
        parent[key] = copy.deepcopy(rnd.choice(VALUES))
    return content, (*path, key)


def use(saved):
    """Use a forged snapshot like any other, if it is not refused. Return whether it is refused."""
    groups = saved.resume()
    if groups is None:
        return True
    json.dumps(groups.to_json())
    "".join(groups.problems).encode(errors="backslashreplace")
    groups.offsets_frame()
    try:
        Snapshot.read(saved.folder).groups()
    except kg.InvalidLog:
        return True
    Snapshot.read(saved.folder).advance(saved.topic).save(saved.folder)
    assert shape(Snapshot.read(saved.folder).groups(str(saved.topic))) == shape(groups)
    return False


def test_forged_segments(saved):
    """One byte of a segment is changed, and all checksums fit. No exception is raised except a refusal."""
    rnd = random.Random(saved.name)
    refused = 0
    numbers = [each["partition"] for each in forged.read_manifest(saved.folder)["partitions"] if each["size"]]
    for _ in range(ROUNDS):
        number = rnd.choice(numbers)
        data = bytearray(forged.segment_path(saved.folder, number).read_bytes())
        frame = rnd.choice(list(find_frames(data)))
        position = rnd.randrange(frame.position, frame.end)
        data[position] ^= 1 << rnd.randrange(8)
        data[frame.position + 17 : frame.position + 21] = crc32c(bytes(data[frame.position + 21 : frame.end])).to_bytes(
            4, "big"
        )
        with case((number, position)):
            forged.write_segment(saved.folder, number, data)
            refused += use(saved)
            saved.restore()
    assert 0 < refused < ROUNDS


def test_a_forged_manifest(saved):
    """One value of snapshot.json is changed, and the checksum fits. No exception is raised except a refusal."""
    rnd = random.Random(saved.name)
    content = forged.read_manifest(saved.folder)
    refused = 0
    for _ in range(ROUNDS):
        changed, path = change(rnd, content)
        with case(path):
            forged.write_manifest(saved.folder, changed)
            refused += use(saved)
            saved.restore()
    assert ROUNDS * 0.3 < refused < ROUNDS


@pytest.mark.parametrize("name", ["ends", "last_batch"])
def test_a_position_far_behind_the_log(save, name):
    """A position says that the log was read up to a byte that it does not have. All of the log is read (by fuzzing)."""
    saved = save("all types")
    content = forged.read_manifest(saved.folder)
    for partition in content["partitions"]:
        if name == "ends":
            partition["ends"] = dict.fromkeys(partition["ends"], 2**53 - 1)
        elif partition["last_batch"]:
            partition["last_batch"][0] = 2**53 - 1
    forged.write_manifest(saved.folder, content)
    assert not saved.check()


def test_json_that_is_no_json(saved):
    """The bytes of snapshot.json are not JSON, or JSON that a parser does not like."""
    line = saved.files["snapshot.json"]
    for data in (
        *(b"", b"\n", b"{", b"null", b"[]", b"{}", b"\xff", b"\xef\xbb\xbf{}", b"\x00", b"\xfe\xff\x00{\x00}"),
        *(b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 50_000, b"9" * 5000, b"1e999999", b'"\\ud800"'),
        line.replace(b'"partition": 0', b'"partition": ' + b"1" * 5000),
        line.replace(b'"kafka"', b'"kafka":"4.3.1","kafka"'),
        line.replace(b'"kafka"', b'"kafka":"9.9","other"'),
        b"cos\nsystem\n(S'echo'\ntR.",
        b"PK\x03\x04" + bytes(100),
    ):
        (saved.folder / "snapshot.json").write_bytes(data)
        use(saved)
        saved.restore()


RESUME = """
import os, sys
from kafkagroups.loading.snapshots import Snapshot, take_snapshot
from kafkagroups.log.folders import open_logs
from kafkagroups.log.segments import Log

topic, state, engine = sys.argv[1:]
logs = open_logs(topic)
make = Log.__init__

def make_and_truncate(self, *arguments, **options):
    # The new part of the log is known here, and its records are not read yet.
    make(self, *arguments, **options)
    os.truncate(os.path.join(logs[0].folder, logs[0].segments[0]), 5000)

Log.__init__ = make_and_truncate
Snapshot.read(state).advance_logs(logs, engine=engine).save(state)
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_segment_that_is_truncated_while_a_snapshot_resumes(engine, tmp_path):
    """Bytes that were there when the file was opened are gone when they are read: then the log ends there."""
    topic = tmp_path / "topic"
    state = tmp_path / "state"
    synth.write(topic, 5000, partitions=1)
    (segment,) = topic.rglob("*.log")
    data = segment.read_bytes()
    segment.write_bytes(data[:5000])
    take_snapshot(topic, engine=engine).save(state)
    segment.write_bytes(data)
    script = [sys.executable, "-c", RESUME, str(topic), str(state), engine]
    resumed = subprocess.run(script, capture_output=True, text=True, timeout=120)
    assert resumed.returncode == 0, resumed
    assert segment.stat().st_size == 5000
    segment.write_bytes(data)
    assert shape(Snapshot.read(state).advance(topic, engine=engine).groups()) == shape(kg.load(topic))
