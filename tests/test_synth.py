"""Synthetic topics: a load finds the numbers in the summary, and the records are as Kafka writes them."""

import itertools
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import kafkagroups as kg
from kafkagroups import decode_assignment, decode_subscription, synth
from tests.handmade import CompressionType, ControlType, decode_control_key

pytestmark = pytest.mark.slow

share = st.floats(0, 0.5)
REALISTIC = {
    "groups": 60,
    "keys": 30,
    "width": None,
    "skew": 0.5,
    "tombstones": 0.1,
    "generations": 0.2,
    "transactional": 0.5,
    "hanging": 0.03,
    "modern": 0.3,
    "metadata": 0.2,
}


def logs(folder):
    return {int(log.name.rpartition("-")[2]): kg.open_log(log) for log in sorted(Path(folder).iterdir())}


def batches(folder):
    return [batch for log in logs(folder).values() for batch in log]


def decoded(folder):
    """Return every record that is not a marker, with its batch."""
    return [
        (kg.decode(record.key, record.value, strict=True), record, batch)
        for batch in batches(folder)
        if not batch.is_control
        for record in batch.records
    ]


def agrees(folder, written, partitions, engine="python"):
    """Check that both coordinators load the numbers in the summary, and that the log contains them."""
    for coordinator in ("classic", "new"):
        loaded = kg.load(folder, coordinator=coordinator, partitions=partitions, engine=engine)
        assert loaded.elsewhere == {} and loaded.orphans == {}, "every group lies in its own partition, and is known"
        assert sum(len(group.offsets) for group in loaded.values()) == written["live_offsets"]
        assert sum(len(group.pending) for group in loaded.values()) == written["transactions"]["open"]
        assert len(loaded.partitions_of) == written["groups"]
        assert {str(number) for number in loaded.partitions} == set(written["partitions"])
        for number, found in loaded.partitions.items():
            said = written["partitions"][str(number)]
            counts = {"segments": found.segments, "batches": found.batches, "records": found.records}
            assert said == {**counts, "bytes": said["bytes"]}
            assert found.next_offset == found.records and (found.error, found.damage) == (None, None)
    for number, log in logs(folder).items():
        size = sum(Path(segment).stat().st_size for segment in log.segments)
        assert size == written["partitions"][str(number)]["bytes"]
    markers = Counter(decode_control_key(b.records[0].key) for b in batches(folder) if b.is_control)
    decided = written["transactions"]
    assert (markers[ControlType.COMMIT], markers[ControlType.ABORT]) == (decided["committed"], decided["aborted"])


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 600),
    st.fixed_dictionaries(
        {
            "partitions": st.sampled_from([1, 2, 5, 60]),
            "groups": st.integers(1, 30),
            "keys": st.sampled_from([1, 2, 8, 20, 130]),
            "width": st.none() | st.integers(1, 50),
            "skew": st.sampled_from([0, 0.5, 1, 2]),
            "tombstones": share,
            "generations": st.none() | share,
            "members": st.integers(1, 4),
            "transactional": st.floats(0, 1),
            "aborts": share,
            "hanging": share,
            "modern": st.floats(0, 1),
            "metadata": st.floats(0, 1),
            "codec": st.sampled_from([codec.name.lower() for codec in CompressionType]),
            "segment_bytes": st.sampled_from([1, 1000, 2**31 - 1]),
            "prefix": st.sampled_from(["", "shop.", "topic-0000", "group-000000.a-rather-long-name-of-a-datacentre."]),
            "seed": st.integers(0, 2**63 - 1),
        }
    ),
)
def test_a_load_finds_the_numbers_in_the_summary(records, asked):
    """They are the batches, records and bytes of each partition, the groups and their offsets, for any settings."""
    with tempfile.TemporaryDirectory() as folder:
        written = synth.write(folder, records, **asked)
        assert sum(partition["records"] for partition in written["partitions"].values()) == records
        if records:
            agrees(folder, written, asked["partitions"])


@pytest.fixture(scope="module")
def realistic(tmp_path_factory):
    """A topic with all kinds of records, and its summary."""
    folder = tmp_path_factory.mktemp("realistic") / "log"
    return folder, synth.write(folder, 20_000, partitions=2, **REALISTIC)


@pytest.mark.parametrize("at_once", [1000, 30_000])
def test_the_size_of_the_parts_in_memory_changes_nothing(tmp_path, monkeypatch, at_once):
    """The segments have the same bytes."""
    synth.write(tmp_path / "a", 5000, partitions=2, segment_bytes=20_000, **REALISTIC)
    monkeypatch.setattr("kafkagroups.synth.files._PART_BYTES", at_once)
    synth.write(tmp_path / "b", 5000, partitions=2, segment_bytes=20_000, **REALISTIC)
    whole = contents_of(tmp_path / "a")
    assert whole == contents_of(tmp_path / "b") and len(whole) > 10


def contents_of(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.log")}


def test_requests_of_many_rounds_are_consistent(tmp_path, monkeypatch):
    """A group with a hanging transaction writes no tombstones in later rounds either."""
    monkeypatch.setattr("kafkagroups.synth.request_batches._MAX_ROUND_REQUESTS", 100)
    written = synth.write(tmp_path / "log", 5000, partitions=2, **REALISTIC)
    agrees(tmp_path / "log", written, 2)
    assert written["transactions"]["open"] > 3


def test_records_are_as_kafka_writes_them(realistic):
    """They are written back as they are. A group's offsets rise in each partition, and timestamps rise in the log."""
    folder, _ = realistic
    last = {}
    kinds = set()
    for read, record, _ in decoded(folder):
        kinds.add((read.name, read.value_version))
        assert kg.encode(read) == (record.key, record.value)
        if read.name == "OffsetCommit" and read.value:
            assert read.value.commit_timestamp == record.timestamp
            assert read.value.offset > last.get(read.key, -1)
            last[read.key] = read.value.offset
    assert kinds >= {("OffsetCommit", 3), ("OffsetCommit", None), ("GroupMetadata", 3)}
    for log in logs(folder).values():
        times = [batch.max_timestamp for batch in log]
        assert times == sorted(times)


def test_generations_rise_and_contain_the_assignments(realistic):
    """Each generation of a group is one higher than the last. Its members have the group's partitions."""
    generation = {}
    partitions = {}
    empty = 0
    records = decoded(realistic[0])
    for read, _, _ in records:
        if read.name == "OffsetCommit":
            partitions.setdefault(read.key.group, set()).add((read.key.topic, read.key.partition))
    for read, record, _ in records:
        if read.name != "GroupMetadata":
            continue
        group = read.key.group
        value = read.value
        assert (read.value_version, value.generation) == (3, generation.get(group, 0) + 1)
        assert value.current_state_timestamp == record.timestamp
        generation[group] = value.generation
        if not value.members:
            assert (value.protocol, value.leader) == (None, None)
            empty += 1
            continue
        assert value.leader == value.members[0].member_id and len(value.members) == 3
        topics = {
            topic for member in value.members for topic in decode_subscription(member.subscription).message.topics
        }
        given = [
            (each.topic, number)
            for member in value.members
            for each in decode_assignment(member.assignment).message.assigned_partitions
            for number in each.partitions
        ]
        assert len(set(given)) == len(given) == REALISTIC["keys"]
        assert partitions[group] <= set(given) and topics == {topic for topic, _ in given}
    assert max(generation.values()) > 10 and empty > 20


def test_a_marker_comes_before_its_groups_next_request(realistic):
    """Transactions of several groups overlap."""
    folder, written = realistic
    waiting = {}
    most = 0
    lost = 0
    for batch in batches(folder):
        if batch.is_control:
            del waiting[batch.producer_id]
            continue
        group = kg.decode(batch.records[0].key, batch.records[0].value).key
        group = getattr(group, "group", None) or group.group_id
        assert group not in waiting.values()
        if batch.is_transactional:
            if batch.producer_id >= 10_000_000:
                lost += 1
            else:
                waiting[batch.producer_id] = group
        most = max(most, len(waiting))
    assert most > 3 and waiting == {} and lost == written["transactions"]["open"] > 0


def test_modern_groups_are_stable_in_the_new_coordinator(realistic):
    """4.3.1's coordinator loads consumer groups whose members have all partitions; 3.9.2's loads their offsets."""
    new, classic = (kg.load(realistic[0], coordinator=name) for name in ("new", "classic"))
    consumers = {name: group for name, group in new.items() if group.type == "consumer"}
    assert len(consumers) > 10
    for name, group in consumers.items():
        assert group.state.value == "Stable" and group.group_epoch == group.assignment_epoch > 0
        assert len(group.members) == 3 and sum(map(len, group.owners.epochs.values())) == REALISTIC["keys"]
        assert classic[name].is_simple and set(classic[name].offsets) == set(group.offsets)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_segments_end_where_they_are_full(tmp_path, codec):
    """A segment is rolled before it grows too large. Its name is the offset of its first batch."""
    asked = {"partitions": 1, "groups": 5, "segment_bytes": 4000, "codec": codec}
    written = synth.write(tmp_path / "log", 3000, **asked)
    (log,) = logs(tmp_path / "log").values()
    sizes = [Path(segment).stat().st_size for segment in log.segments]
    assert len(sizes) == written["partitions"]["0"]["segments"] > 3
    first = [next(iter(kg.open_log(segment))) for segment in log.segments]
    assert [Path(segment).name for segment in log.segments] == [f"{batch.base_offset:020}.log" for batch in first]
    for size, following in itertools.pairwise([*zip(sizes, first, strict=True), (0, None)]):
        assert size[0] <= 4000 and (following[1] is None or size[0] + following[1].size > 4000)
    assert [batch.base_offset for batch in log] == list(range(0, 3000, synth.WIDTH))


def test_the_same_seed_gives_the_same_bytes_and_few_groups_are_busy(tmp_path):
    for more in ({}, {**REALISTIC, "groups": 100, "skew": 1, "keys": 8}):
        place = tmp_path / str(len(more))
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            synth.write(place / name, 5000, **{"partitions": 1, "groups": 100, "seed": seed, **more})
        a, b, c = (next((place / name).rglob("*.log")).read_bytes() for name in "abc")
        assert a == b != c
        assert a.count(b"group-000000") > 5 * a.count(b"group-000050")


def test_settings_out_of_range_are_refused(tmp_path):
    (tmp_path / "here").write_text("")
    with pytest.raises(kg.UsageError, match="new or empty folder"):
        synth.write(tmp_path, 10)
    for wrong in (
        {"groups": 0},
        {"groups": 1_000_001},
        {"keys": 0},
        {"keys": 10_001},
        {"keys": 101, "groups": 1_000_000},
        {"width": 0},
        {"width": 51},
        {"skew": -1},
        {"tombstones": 2},
        {"tombstones": float("nan")},
        {"tombstones": 0.6, "generations": 0.6},
        {"aborts": 0.6, "hanging": 0.6},
        {"transactional": -0.1},
        {"members": 0},
        {"codec": "brotli"},
        {"segment_bytes": 0},
        {"prefix": "naïve"},
        {"seed": -1},
        {"partitions": 2**31},
    ):
        with pytest.raises(kg.UsageError):
            synth.write(tmp_path / "new", 10, **wrong)
    with pytest.raises(kg.UsageError, match="partitions: expected `int` >= 1"):
        synth.write(tmp_path / "new", 10, partitions=0)
    assert not (tmp_path / "new").exists()
