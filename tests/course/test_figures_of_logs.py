"""The figures that load or clean a small log, compared with what Kafka's classes and brokers do with it."""

from functools import partial

from kafkagroups.course import read_answers
from kafkagroups.course.figures.marks import Box
from tests.course.figures import make_figure

load_tape = partial(make_figure, "load-tape")
two_maps = partial(make_figure, "two-maps")
offset_map = partial(make_figure, "offset-map")
compaction = partial(make_figure, "compaction")


# Lesson 08, two maps: commits in transactions wait by producer until a marker moves them.


def read_fetch(step, ending):
    return [line.partition(": ")[2] for line in two_maps().text(step, ending)[:2]]


def test_the_place_of_the_commit_decides():
    """As in the shop's act 4: the plain commit of 25 is newer than a transaction whose marker comes later."""
    answered = read_answers("harbour/4.3.1")["offsets"]["fraud-check"]["payments-0"]
    assert (answered["offset"], answered["metadata"]) == (25, "set back by hand")
    assert read_fetch(5, 0)[0] == "25"
    assert "waits for producer 1: record 1" not in two_maps().text(5, 0)


def test_the_order_of_the_markers_changes_no_final_answer():
    """OffsetMetadataManager of 4.3.1: an older record never replaces a newer one."""
    assert read_fetch(6, 0) == read_fetch(6, 1) == ["30", "30"]


def test_an_aborted_offset_never_counts():
    assert read_fetch(6, 2) == ["25", "25"]


def test_an_open_transaction_makes_stable_fetches_wait():
    """OffsetFetch with requireStable answers UNSTABLE_OFFSET_COMMIT as long as a commit of the partition is pending."""
    for step in (2, 3, 4, 5, 6):
        assert read_fetch(step, 3)[1] == "UNSTABLE_OFFSET_COMMIT"


# Lesson 10, one pass: the offset map, and what the pass copies.


def read_lefts(step):
    return {mark.key: mark.x for mark in offset_map().content.scenes[step,].marks if isinstance(mark, Box)}


def test_the_map_has_the_newest_offset_of_each_dirty_key():
    """SkimpyOffsetMap is filled from the dirty range only, so B and C are not in it."""
    entries = [[line for line in offset_map().text(step) if line.startswith("the map")] for step in range(4)]
    assert entries == [
        [],
        ["the map has A: A → 3"],
        ["the map has A: A → 3", "the map has D: D → 4"],
        ["the map has A: A → 5", "the map has D: D → 4"],
    ]


def test_the_copied_records_close_up_and_keep_their_offsets():
    """`kafkagroups.compact` removes the records 0 and 3. The active segment stays where it is."""
    assert [line for line in offset_map().text(10) if line.startswith("record")] == [
        "record 1: B = 1",
        "record 2: C = 1",
        "record 4: D = 1",
        "record 5: A = 3",
        "record 6: B = 2",
    ]
    assert offset_map().text(5)[7:9] == ["verdict 0: removed newer: 5", "verdict 1: kept no entry"]
    before = read_lefts(9)
    after = read_lefts(10)
    assert all(after[f"record {offset}"] < before[f"record {offset}"] for offset in (1, 2, 4, 5))
    assert after["record 6"] == before["record 6"]


# Lesson 10, three passes: what each pass does with each record of a small log.


def read_pass(*options):
    """Return the word for each record of a pass, by offset."""
    words = {}
    for line in compaction().text(*options):
        name, _, word = line.partition(": ")
        if name.startswith("record "):
            words[int(name.split()[1])] = word
    return words


def test_a_pass_keeps_the_newest_record_of_each_key():
    """Kafka's Cleaner: the offset map ends at the active segment, so A = 7 stays although A = 8 is newer."""
    words = read_pass(1, 0, 0)
    assert [offset for offset, word in words.items() if word == "replaced"] == [0, 1, 2, 3, 5, 6, 8, 9, 10, 11, 12]
    assert [offset for offset, word in words.items() if word == "kept"] == [13, 14, 15]
    assert [offset for offset, word in words.items() if word == "not read"] == [16, 17]


def test_a_tombstone_and_a_marker_wait_for_their_horizon():
    """KIP-534: a tombstone's day begins with the first pass, a marker's day when its transaction has no records."""
    assert [read_pass(step, 0, 0).get(4) for step in (1, 2, 3)] == ["until hour 24", "removed", None]
    assert [read_pass(step, 0, 0).get(7) for step in (1, 2, 3)] == ["needed", "until hour 49", "removed"]


def test_an_open_transaction_stops_every_pass():
    """LogCleanerManager: the first uncleanable offset is the last stable offset, here in the segment from 4."""
    for step in (1, 2, 3):
        assert "the pass ends at: 4" in compaction().text(step, 0, 1)
        assert {word for offset, word in read_pass(step, 0, 1).items() if offset >= 4} == {"not read"}


def test_the_active_segment_is_never_read():
    """If it begins at 8, nothing from 8 on is cleaned."""
    for step in (1, 2, 3):
        assert {word for offset, word in read_pass(step, 1, 0).items() if offset >= 8} == {"not read"}


# Lesson 11, the tape: a load drops the records of a log into the memory of both coordinators.


END = 10


def read_places(*options):
    return {mark.key: (mark.x, mark.y) for mark in load_tape().content.scenes[options].marks if isinstance(mark, Box)}


def read_memory(kafka, *options):
    return [
        line.removeprefix(f"{kafka} has ") for line in load_tape().text(*options) if line.startswith(f"{kafka} has ")
    ]


def test_a_record_drops_from_its_cell_into_both_memories():
    """What a record changes appears when the head reaches it: it comes from the cell, and lies below it."""
    words = {0: "billing offset 10", 1: "billing group Stable", 2: "promo offset 3", 3: "billing offset 17"}
    words |= {4: "mailer offset 5", 5: "audit offset 8", 6: "commits", 8: "promo offset ∅"}
    for offset, word in words.items():
        for coordinator in ("classic", "new"):
            key = f"{coordinator} {'billing group gen 1' if (coordinator, offset) == ('classic', 1) else word}"
            assert key not in read_places(offset, 0)
            (copy,) = [mark for mark in load_tape().content.scenes[offset + 1, 0].marks if mark.key == key]
            assert copy.origin == f"cell {offset}"
            assert copy.y > read_places(offset + 1, 0)[copy.origin][1]


def test_a_pending_offset_ends_at_its_marker():
    """Record 4 is pending after step 5, and committed after the marker, record 6. Record 5 is aborted by record 7."""
    for kafka in ("3.9.2", "4.3.1"):
        assert "pending mailer mail-0: 5" in read_memory(kafka, 5, 0)
        assert "committed mailer mail-0: 5" in read_memory(kafka, 7, 0)
        assert "pending audit till-0: 8" in read_memory(kafka, 7, 0)
        assert not any("till-0" in line for line in read_memory(kafka, 8, 0))


def test_the_classic_coordinator_builds_groups_only_at_the_end():
    """GroupMetadataManager.doLoadGroupsAndOffsets (3.9) builds them from its maps; replay (4.3.1) at each record."""
    assert [line for line in read_memory("3.9.2", 9, 0) if line.startswith("the group")] == [
        "the group record of billing: gen 1"
    ]
    assert [line for line in read_memory("3.9.2", END, 0) if line.startswith("the group")] == [
        "the group billing: Stable",
        "the group mailer: Empty",
    ]
    assert [line for line in load_tape().text(END, 0) if line.startswith("only")] == [
        "only 4.3.1 has promo",
        "only 4.3.1 has audit",
    ]


def test_a_value_of_zero_bytes_empties_both_memories():
    """The brokers answer as they did for the crafted logs (data/crafted/answers.json)."""
    assert load_tape().text(END, 1) == [
        "3.9.2 answers about billing sales-0: −1",
        "4.3.1 answers about billing sales-0: NOT_COORDINATOR",
        "9 of 9 records are read",
    ]
    assert load_tape().text(END, 0)[0] == "3.9.2 answers about billing sales-0: 17"
