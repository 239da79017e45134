"""The figure of lesson 11: a load drops the records of a log into the memory of both coordinators."""

import pytest

from kafkagroups.course import LoadTape
from kafkagroups.course.figures.marks import Box

END = 11


@pytest.fixture(scope="module")
def figure():
    return LoadTape()


def read_places(figure, *options):
    return {mark.key: (mark.x, mark.y) for mark in figure.content.scenes[options].marks if isinstance(mark, Box)}


def read_memory(figure, kafka, *options):
    return [line.removeprefix(f"{kafka} has ") for line in figure.text(*options) if line.startswith(f"{kafka} has ")]


def test_a_record_drops_from_its_cell_into_both_memories(figure):
    """Before the head reaches it, the copy lies under the cell; after that, its place differs."""
    for offset in (0, 1, 2, 3, 4, 5, 6):
        before = read_places(figure, offset, 0)
        after = read_places(figure, offset + 1, 0)
        for coordinator in ("classic", "new"):
            assert before[f"{coordinator} {offset}"] == before[f"cell {offset}"]
            assert after[f"{coordinator} {offset}"][1] > after[f"cell {offset}"][1]


def test_a_pending_offset_moves_at_its_marker(figure):
    """Record 4 is pending after step 5, and committed after the marker, record 7. Record 6 is aborted by record 8."""
    for kafka, coordinator in (("3.9.2", "classic"), ("4.3.1", "new")):
        assert "pending mailer mail-0: 5" in read_memory(figure, kafka, 5, 0)
        assert "committed mailer mail-0: 5" in read_memory(figure, kafka, 8, 0)
        assert read_places(figure, 7, 0)[f"{coordinator} 4"] != read_places(figure, 8, 0)[f"{coordinator} 4"]
        assert "pending audit till-0: 8" in read_memory(figure, kafka, 8, 0)
        assert not any("till-0" in line for line in read_memory(figure, kafka, 9, 0))


def test_the_classic_coordinator_builds_groups_only_at_the_end(figure):
    """GroupMetadataManager.doLoadGroupsAndOffsets (3.9) builds them from its maps; replay (4.3.1) at each record."""
    assert [line for line in read_memory(figure, "3.9.2", 10, 0) if line.startswith("the group")] == [
        "the group billing: group"
    ]
    assert [line for line in read_memory(figure, "3.9.2", END, 0) if line.startswith("the group")] == [
        "the group billing: Stable",
        "the group mailer: Empty",
    ]
    assert [line for line in figure.text(END, 0) if line.startswith("only")] == [
        "only 4.3.1 has promo",
        "only 4.3.1 has audit",
    ]


def test_a_value_of_zero_bytes_empties_both_memories(figure):
    """The brokers answer as they did for the crafted logs (data/crafted/answers.json)."""
    assert figure.text(END, 1) == [
        "3.9.2 answers about billing sales-0: −1",
        "4.3.1 answers about billing sales-0: NOT_COORDINATOR",
        "10 of 10 records are read",
    ]
    assert figure.text(END, 0)[0] == "3.9.2 answers about billing sales-0: 17"
