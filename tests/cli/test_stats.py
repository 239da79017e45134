"""`kafkagroups stats`: CONTRACT.md 24, exit codes, and what it promises of a cleaning pass."""

import json

import pytest

import kafkagroups as kg
from tests.groups.small_logs import write
from tests.groups.test_load_runs import DATA


def told(run, *arguments):
    status, out, _ = run("stats", *arguments, "--json")
    assert status == 0
    return json.loads(out)


def test_stats_prints_what_the_contract_names(run):
    """The shop's log of 3.9.2: the hanging transaction of act 6 pins partition 9 (acts.json)."""
    shown = told(run, DATA / "3.9.2", "--coordinator", "classic", "--by", "group", "--top", "2")
    partition = shown["partitions"]["9"]
    fields = "segments batches records bytes live_records live_bytes tombstones first_timestamp_ms last_timestamp_ms"
    fields += " last_stable_offset next_offset open_transactions uncleanable_bytes written_by"
    assert set(fields.split()) <= set(partition) and shown["by"] == "group" and len(shown["rows"]) == 2
    assert set(["group", "records", "bytes", "live_records", "live_bytes", "tombstones"]) <= set(shown["rows"][0])
    (open_one,) = partition["open_transactions"]
    assert {"producer_id", "first_offset", "since_ms", "groups"} <= set(open_one)
    assert open_one["groups"] == ["fraud-check"]
    assert partition["last_stable_offset"] == open_one["first_offset"]


def test_a_folder_without_a_partition_number_has_a_row_of_its_own(run, tmp_path):
    """CONTRACT.md 2: the partition of a segment outside a folder __consumer_offsets-N is null."""
    (segment, *_) = sorted((DATA / "1.0.1").glob("*/*.log"))
    copy = tmp_path / segment.name
    copy.write_bytes(segment.read_bytes())
    status, out, _ = run("stats", copy, "--by", "partition")
    assert status == 0
    assert "(unknown number)" in out and "markers" not in out


def test_several_paths_are_several_lines_and_the_worst_exit_code_counts(run):
    """CONTRACT.md 2: one bad PATH does not stop the others."""
    status, out, err = run("stats", DATA / "1.0.1", "nowhere", DATA / "3.9.2", "--json")
    assert status == 2 and [json.loads(line)["path"] for line in out.splitlines()] == [
        str(DATA / "1.0.1"),
        str(DATA / "3.9.2"),
    ]
    assert err.count("\n") == 1 and "nowhere" in err
    assert run("stats", DATA / "3.9.2", "--top", "0")[0] == 2


@pytest.mark.parametrize(
    ("name", "steps", "rolls"),
    [
        ("two of three commits", [("C", 0)] * 3 + [("R",)], {3}),
        ("hidden by a group tombstone", [("C", 0), ("C", 0), ("D",), ("R",)], {3}),
        ("superseded by the active segment only", [("C", 0), ("C", 1), ("C", 0)], {2}),
        ("pinned by an open transaction", [("C", 0), ("C", 0), ("X", 1, 0), ("C", 0), ("R",)], {2, 4}),
        ("aborted", [("C", 0), ("X", 1, 0), ("A", 1), ("R",)], {3}),
    ],
)
def test_what_a_pass_would_free_is_never_more_than_it_frees(name, steps, rolls, run, tmp_path):
    """An estimate that promises too much would send an operator to wait for the cleaner."""
    folder = write(tmp_path / "__consumer_offsets-0", steps, rolls)
    partition = told(run, folder)["partitions"]["0"]
    done = kg.compact(folder, tmp_path / "cleaned")
    freed = done.before.bytes - done.after.bytes
    assert partition["bytes"] == done.before.bytes
    assert partition["freed_bytes"] <= max(freed, 0) + 61, "but for the header of a batch that stays, empty"
    assert bool(partition["freed_bytes"]) == (freed > 0)
    assert (partition["uncleanable_bytes"] == partition["bytes"]) == (done.groups == [])


def test_a_failed_load_and_an_empty_active_segment_promise_nothing_wrong(run, tmp_path):
    """The cleaner keeps records that a coordinator cannot load; an empty active segment pins nothing."""
    folder = write(tmp_path / "__consumer_offsets-0", [("C", 0), ("C", 1), ("R",)], {2})
    (folder / f"{3:020}.log").write_bytes(b"")
    partition = told(run, folder)["partitions"]["0"]
    assert (partition["segments"], partition["uncleanable_bytes"], partition["freed_bytes"]) == (3, 0, 0)
