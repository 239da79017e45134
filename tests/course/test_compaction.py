"""The tools of lesson 10: small logs, repeated passes of the cleaner, their results, and growing replicas."""

from pathlib import Path

import kafkagroups as kg
from kafkagroups import course

REAL = Path(__file__).parents[2] / "data" / "harbour" / "cleaning"
PARTITION = "__consumer_offsets-38"


def test_a_pass_over_the_shops_log_writes_the_brokers_bytes(tmp_path):
    """The pass of a 4.3.1 broker, at its time (data/harbour/cleaning/server-lines.txt)."""
    kg.compact(
        REAL / "before-clean" / PARTITION, tmp_path, kg.CleanerConfig(1_795_256_324_030, delete_retention_ms=2000)
    )
    ours, theirs = (list(folder.glob("*.log")) for folder in (tmp_path, REAL / "after-clean" / PARTITION))
    assert {file.name: file.read_bytes() for file in ours} == {file.name: file.read_bytes() for file in theirs}


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
