"""The tools of lesson 10: small logs, repeated passes of the cleaner, their results, and growing replicas."""

import shutil
from pathlib import Path

import kafkagroups as kg
from kafkagroups import course

REAL = Path(__file__).parents[2] / "data" / "harbour" / "cleaning"
PARTITION = "__consumer_offsets-38"
PASS_1_MS = 1_795_256_324_030


def test_three_passes_over_the_shops_log_write_the_brokers_bytes(tmp_path):
    """The passes of a 4.3.1 broker, at their times (data/harbour/cleaning/server-lines.txt).

    Between pass 1 and 2, the broker wrote offsets 499 to 508, and pass 3 removed the first eight. Only the log after
    pass 3 has the other two, so around pass 2 these eight records are missing.
    """
    last_copy = REAL / "after-clean-2" / PARTITION
    day_12 = next(batch for batch in kg.open_log(last_copy) if batch.base_offset == 507)
    log = tmp_path / "before"
    shutil.copytree(REAL / "before-clean" / PARTITION, log)
    for number, (delay_ms, first_dirty) in enumerate([(0, 0), (11_451, 498), (17_528, 499)], start=1):
        cleaned = tmp_path / f"after-{number}"
        kg.compact(
            log, cleaned, kg.CleanerConfig(PASS_1_MS + delay_ms, delete_retention_ms=2000, first_dirty=first_dirty)
        )
        if number == 2:
            size = (cleaned / f"{0:020}.log").stat().st_size
            assert f"cleaned segment LogSegment(baseOffset=0, size={size}," in (REAL / "server-lines.txt").read_text()
        else:
            theirs = last_copy if number == 3 else REAL / "after-clean" / PARTITION
            assert read_segments(cleaned) == read_segments(theirs)
        log = tmp_path / f"before-{number + 1}"
        shutil.copytree(cleaned, log)
        # What the broker wrote until the next pass.
        if number == 1:
            (log / f"{499:020}.log").write_bytes(day_12.data)
        elif number == 2:
            shutil.copy(last_copy / f"{509:020}.log", log)


def read_segments(folder):
    return {file.name: file.read_bytes() for file in folder.glob("*.log")}


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
    offsets, same = ({name: g.offsets for name, g in groups.items() if g.offsets} for groups in (never, cleaned))
    assert offsets == same and offsets
