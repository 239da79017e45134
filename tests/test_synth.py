"""Synthetic topics: the package loads what was written, and finds what the summary says."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import kafkagroups as kg
from kafkagroups import synth


@settings(max_examples=40)
@given(st.integers(0, 400), st.integers(1, 60), st.integers(1, 40), st.floats(0, 1), st.integers(0, 2**32))
def test_a_load_finds_what_the_summary_says(records, partitions, groups, tombstones, seed):
    """Batches, records and bytes of each partition, the groups that are left and their offsets."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = {"partitions": partitions, "groups": groups, "tombstones": tombstones, "seed": seed}
        written = synth.write(folder, records, **sizes)
        assert sum(partition["records"] for partition in written["partitions"].values()) == records
        if not records:
            return
        loaded = kg.load(folder, partitions=partitions)
        assert loaded.elsewhere == {}, "every group lies in its own partition"
        assert sum(len(group.offsets) for group in loaded.values()) == written["live_offsets"]
        assert len(loaded.named) == written["groups"]
        for number, found in loaded.partitions.items():
            said = written["partitions"][str(number)]
            assert (found.segments, found.batches, found.records) == (
                said["segments"],
                said["batches"],
                said["records"],
            )
            assert found.next_offset == found.records and (found.error, found.damage) == (None, None)
            log = kg.open_log(Path(folder, f"__consumer_offsets-{number}"))
            assert sum(Path(segment).stat().st_size for segment in log.segments) == said["bytes"]


def test_a_record_reads_as_one_of_kafkas(tmp_path):
    """The fixed layout is an OffsetCommit of value version 3, or its tombstone, as Kafka's writer gives it."""
    synth.write(tmp_path / "log", 500, partitions=1, groups=3, tombstones=0.3)
    (log,) = (tmp_path / "log").iterdir()
    kinds = set()
    for batch in kg.open_log(log):
        for record in batch.records:
            decoded = kg.decode(record.key, record.value, strict=True)
            kinds.add((decoded.name, decoded.value_version))
            if decoded.value:
                assert decoded.value.commit_timestamp == record.timestamp
    assert kinds == {("OffsetCommit", 3), ("OffsetCommit", None)}


def test_segments_end_where_they_are_full(tmp_path):
    """The files' names are their base offsets, and together they are one log."""
    written = synth.write(tmp_path / "log", 300, partitions=1, groups=5, segment_bytes=4000)
    (log,) = (tmp_path / "log").iterdir()
    sizes = [segment.stat().st_size for segment in sorted(log.iterdir())]
    assert len(sizes) == written["partitions"]["0"]["segments"] > 3 and max(sizes) <= 4000
    assert [batch.base_offset for batch in kg.open_log(log)] == list(range(0, 300, synth.WIDTH))


def test_the_same_seed_gives_the_same_bytes_and_few_groups_are_busy(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        synth.write(tmp_path / name, 5000, partitions=1, groups=100, seed=seed)
    a, b, c = (next((tmp_path / name).rglob("*.log")).read_bytes() for name in "abc")
    assert a == b != c
    assert a.count(b"group-000000") > 5 * a.count(b"group-000050")


def test_what_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "here").write_text("")
    for folder, sizes in ((tmp_path, {}), (tmp_path / "new", {"groups": 0}), (tmp_path / "new", {"tombstones": 2})):
        with pytest.raises(kg.UsageError):
            synth.write(folder, 10, **sizes)
    with pytest.raises(kg.UsageError, match="at least 1 partition"):
        synth.write(tmp_path / "new", 10, partitions=0)
