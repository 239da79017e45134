"""The tools of lesson 10: small logs, repeated passes of the cleaner, their results, and growing replicas."""

from pathlib import Path

import kafkagroups as kg
from kafkagroups import course

REAL = Path(__file__).parents[2] / "data" / "harbour" / "cleaning"
PARTITION = "__consumer_offsets-38"


def test_the_repeated_passes_write_the_brokers_bytes(tmp_path, capsys):
    """The logs after pass 1 and 3 are the copied ones, and a byte more is noticed. server-lines.txt has pass 2."""
    passes = course.repeat_cleaner_passes(tmp_path)
    for number, copy in ((0, "after-clean"), (2, "after-clean-2")):
        ours, theirs = (list(folder.glob("*.log")) for folder in (passes[number].log_after, REAL / copy / PARTITION))
        assert {file.name: file.read_bytes() for file in ours} == {file.name: file.read_bytes() for file in theirs}
    server_lines = (REAL / "server-lines.txt").read_text()
    size = (passes[1].log_after / f"{0:020}.log").stat().st_size
    assert f"cleaned segment LogSegment(baseOffset=0, size={size}," in server_lines
    course.compare_cleaned_files(passes)
    assert capsys.readouterr().out.count("✓") == 2
    with next(passes[2].log_after.glob("*.log")).open("ab") as file:
        file.write(b"\0")
    course.compare_cleaned_files(passes)
    out = capsys.readouterr().out
    assert out.count("✓") == out.count("✗") == 1


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
