"""Lesson 08's own tools: its slider, the logs that it makes, and what it says of them."""

from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.course.cleaner_passes import Pass
from kafkagroups.course.exercises import EXERCISES
from tests.course.test_widgets import bundle

REAL = Path(__file__).parents[2] / "data" / "harbour" / "cleaning"
PARTITION = "__consumer_offsets-38"


def files(folder):
    return {file.name: file.read_bytes() for file in folder.glob("*.log")}


@pytest.fixture(scope="module")
def passes(tmp_path_factory):
    return course.repeat_real_passes(tmp_path_factory.mktemp("passes"))


def test_the_passes_made_again_are_the_brokers(passes):
    """The copies after the first and third pass, byte for byte; the size between them as server-lines.txt says it."""
    assert files(passes[0].after) == files(REAL / "after-clean" / PARTITION)
    assert files(passes[2].after) == files(REAL / "after-clean-2" / PARTITION)
    said = (REAL / "server-lines.txt").read_text()
    assert f"cleaned segment LogSegment(baseOffset=0, size={len(files(passes[1].after)['0' * 20 + '.log'])}," in said


def test_the_survivors_of_the_real_log_are_the_brokers(passes):
    """The exercise's rule, on data/harbour/cleaning."""
    left = [offset for offset, _, _ in course.list_countable_records(REAL / "after-clean" / PARTITION)]
    assert EXERCISES["survivors"].correct(course.list_countable_records(REAL / "before-clean" / PARTITION), 498) == left


def test_the_slider_tells_what_each_pass_did(passes):
    """Every record is one letter: capitals stay. Three tombstones and nine markers go as the story's README says."""
    slider = course.CompactionSlider(passes)
    shown = bundle(slider)
    for form in ("text/plain", "text/html"):
        assert shown[form].count("before ") == 3
        assert "v dropped   475" in shown[form] and "a dropped     6" in shown[form]
        assert "t dropped     3" in shown[form] and "m dropped     9" in shown[form]
    assert "pass 1" in slider.view.value and "pass 3" not in slider.view.value
    slider.number.value = 3
    assert "pass 3" in slider.view.value and "626 bytes,   6 records" in slider.view.value
    for each, text in zip(passes, slider.static_text().split("\n\npass"), strict=True):
        strip = "".join(line.split()[1] for line in text.split("\n\n")[-1].splitlines())
        before, after = (sum(batch.count for batch in kg.open_log(log)) for log in (each.before, each.after))
        assert sum(mark != "·" for mark in strip) == before
        assert sum(mark.isupper() or mark == "=" for mark in strip) == after


def test_a_tombstone_that_a_newer_value_removes_is_no_expired_one(tmp_path):
    """Case 12 of the cleaner's facts: superseded, whatever its horizon."""
    log = course.write_small_log(tmp_path / "log", "CTC")
    out = tmp_path / "out"
    done = kg.compact(log, out)
    text = course.CompactionSlider([Pass("pass 1", log, out, done.next_dirty_offset)]).static_text()
    assert "v dropped     2" in text and "      0  vvV=" in text


def test_a_producers_last_batch_stays_empty(tmp_path):
    """FACTS of the cleaner, 20: kept as a header of 61 bytes, with its marker."""
    kg.compact(course.write_small_log(tmp_path / "log", "XMC"), tmp_path / "out")
    assert [(batch.count, batch.size) for batch in kg.open_log(tmp_path / "out")][:2] == [(0, 61), (1, 78)]


@pytest.mark.parametrize(
    ("letters", "coordinator", "answers"),
    [
        ("CD", "new", [None, None, 100]),
        ("CD", "classic", [100, 100, 100]),
        ("CK", "new", [None, None, None]),
        ("XTM", "classic", [100, None, None]),
        ("XTM", "new", [None, None, None]),
        ("XAC", "new", [102, 102, 102]),
    ],
)
def test_the_counterexamples(letters, coordinator, answers):
    """As the search of tests/groups/test_compaction.py finds them."""
    assert course.load_small_log(letters, coordinator) == answers


def test_an_unknown_letter_is_told(tmp_path):
    with pytest.raises(kg.UsageError, match="use the letters C, X, T, D, K, M, A"):
        course.write_small_log(tmp_path / "log", "CQ")


def test_the_incidents_answer_is_the_cleaners(tmp_path):
    """Where the pass stops is where the exercise says; after the abort marker it goes through."""
    log = course.write_pinned_log(tmp_path / "log")
    assert kg.compact(log, tmp_path / "a").next_dirty_offset == EXERCISES["cleaner_stops_at"].correct
    done = kg.compact(course.abort_transaction(log, 77), tmp_path / "b")
    assert done.next_dirty_offset == 500 and done.after.bytes < 2_000
    assert len(kg.load(log)["dashboard"].offsets) == 2, "the other groups answer as before"


def test_two_replicas_grow_apart_and_answer_alike(tmp_path):
    *_, last = course.grow_replicas(tmp_path, records=4_000, groups=5, rounds=4)
    assert last.never_cleaned > 5 * last.after_pass and last.records == 4_000
    never, cleaned = (kg.load(tmp_path / name) for name in ("never-cleaned", "cleaned"))
    assert sum(len(group.offsets) for group in never.values()) == last.live > 0
    assert {name: g.offsets for name, g in never.items() if g.offsets} == {
        name: g.offsets for name, g in cleaned.items() if g.offsets
    }
