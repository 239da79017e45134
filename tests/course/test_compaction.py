"""The tools of lesson 10: small logs, repeated passes of the cleaner, their results, and growing replicas."""

from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.course.cleaner_passes import CleanerPass
from kafkagroups.course.exercises.catalog import EXERCISES
from kafkagroups.course.pass_results import find_results
from kafkagroups.course.small_logs import load_small_log, write_small_log

REAL = Path(__file__).parents[2] / "data" / "harbour" / "cleaning"
PARTITION = "__consumer_offsets-38"


def files(folder):
    return {file.name: file.read_bytes() for file in folder.glob("*.log")}


@pytest.fixture(scope="module")
def passes(tmp_path_factory):
    return course.repeat_cleaner_passes(tmp_path_factory.mktemp("passes"))


def test_the_repeated_passes_write_the_brokers_bytes(passes):
    """The logs after pass 1 and 3 are the copied ones. The size after pass 2 is in server-lines.txt."""
    assert files(passes[0].log_after) == files(REAL / "after-clean" / PARTITION)
    assert files(passes[2].log_after) == files(REAL / "after-clean-2" / PARTITION)
    server_lines = (REAL / "server-lines.txt").read_text()
    size = len(files(passes[1].log_after)["0" * 20 + ".log"])
    assert f"cleaned segment LogSegment(baseOffset=0, size={size}," in server_lines


def test_the_exercises_survivors_are_those_of_the_real_cleaner(passes):
    """The rule of the exercise, applied to data/harbour/cleaning."""
    left = [offset for offset, _, _ in course.list_offset_map_records(REAL / "after-clean" / PARTITION)]
    assert (
        EXERCISES["survivors"].correct(course.list_offset_map_records(REAL / "before-clean" / PARTITION), 498) == left
    )


def test_the_results_of_the_brokers_passes(passes):
    """By the story's README, three tombstones and nine markers are removed. Each pass leaves what its log has."""
    results = [find_results(each) for each in passes]
    removed = [result for each in results for result in each.values() if result.endswith("gone")]
    assert removed.count("tombstone gone") == 3 and removed.count("marker gone") == 9
    for each, done in zip(results, passes, strict=True):
        left = {offset for offset, result in each.items() if not result.endswith("gone")}
        assert left == {record.offset for batch in kg.open_log(done.log_after) for record in batch.records}


def test_a_tombstone_with_a_newer_value_counts_as_superseded(tmp_path):
    """Case 12 of the cleaner's facts: it is superseded, whatever its delete horizon is."""
    log = write_small_log(tmp_path / "log", "CTC")
    out = tmp_path / "out"
    done = kg.compact(log, out)
    results = find_results(CleanerPass("pass 1", log, out, done.next_dirty_offset))
    assert results == {0: "value gone", 1: "value gone", 2: "value kept", 3: "unchanged"}


def test_a_producers_last_batch_stays_without_records(tmp_path):
    """Case 20 of the cleaner's facts: the cleaner keeps a header of 61 bytes, and the marker."""
    kg.compact(write_small_log(tmp_path / "log", "XMC"), tmp_path / "out")
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
def test_cleaning_changes_the_answer_of_some_logs(letters, coordinator, answers):
    """The search in tests/groups/test_compaction.py finds these logs."""
    assert load_small_log(letters, coordinator) == answers


def test_an_unknown_letter_is_refused(tmp_path):
    with pytest.raises(kg.UsageError, match="use the letters C, X, T, D, K, M, A"):
        write_small_log(tmp_path / "log", "CQ")


def test_an_open_transaction_stops_the_cleaner_at_the_start_of_its_segment(tmp_path):
    """The segment with offset 216 begins at 207. After the abort marker, the pass reaches the active segment."""
    log = course.write_log_with_hanging_transaction(tmp_path / "log")
    assert kg.compact(log, tmp_path / "a").next_dirty_offset == 207
    done = kg.compact(course.abort_transaction(log, 77), tmp_path / "b")
    assert done.next_dirty_offset == 500 and done.after.bytes < 2_000
    assert len(kg.load(log)["dashboard"].offsets) == 2, "the other groups answer as before"


def test_a_replica_that_is_never_cleaned_is_larger_and_loads_the_same(tmp_path):
    *_, last = course.grow_replicas(tmp_path, records=4_000, groups=5, rounds=4)
    assert last.never_cleaned_bytes > 5 * last.bytes_after_pass and last.records == 4_000
    never, cleaned = (kg.load(tmp_path / name) for name in ("never-cleaned", "cleaned"))
    assert sum(len(group.offsets) for group in never.values()) == last.live_offsets > 0
    assert {name: g.offsets for name, g in never.items() if g.offsets} == {
        name: g.offsets for name, g in cleaned.items() if g.offsets
    }
