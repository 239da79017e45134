"""The figure of lesson 10 with one pass: the offset map, and what the pass copies."""

import pytest

from kafkagroups.course import OffsetMap
from kafkagroups.course.figures.marks import Box


@pytest.fixture(scope="module")
def figure():
    return OffsetMap()


def read_lefts(figure, step):
    return {mark.key: mark.x for mark in figure.content.scenes[step,].marks if isinstance(mark, Box)}


def test_the_map_has_the_newest_offset_of_each_dirty_key(figure):
    """SkimpyOffsetMap is filled from the dirty range only, so B and C are not in it."""
    entries = [[line for line in figure.text(step) if line.startswith("the map")] for step in range(4)]
    assert entries == [
        [],
        ["the map has A: A → 3"],
        ["the map has A: A → 3", "the map has D: D → 4"],
        ["the map has A: A → 5", "the map has D: D → 4"],
    ]


def test_the_copied_records_close_up_and_keep_their_offsets(figure):
    """`kafkagroups.compact` removes the records 0 and 3. The active segment stays where it is."""
    assert [line for line in figure.text(5) if line.startswith("record")] == [
        "record 1: B = 1",
        "record 2: C = 1",
        "record 4: D = 1",
        "record 5: A = 3",
        "record 6: B = 2",
    ]
    before = read_lefts(figure, 4)
    after = read_lefts(figure, 5)
    assert all(after[f"record {offset}"] < before[f"record {offset}"] for offset in (1, 2, 4, 5))
    assert after["record 6"] == before["record 6"]
