"""`kafkagroups stats`: its JSON, exit codes, and what it promises of a cleaning pass."""

import json

import pytest

import kafkagroups as kg
from tests.groups.small_logs import write
from tests.groups.test_load_runs import DATA


def told(run, *arguments):
    status, out, _ = run("stats", *arguments, "--json")
    assert status == 0
    return json.loads(out)


def test_a_folder_without_a_partition_number_has_a_row_of_its_own(run, tmp_path):
    """The partition of a segment outside a folder __consumer_offsets-N is null."""
    (segment, *_) = sorted((DATA / "1.0.1").glob("*/*.log"))
    copy = tmp_path / segment.name
    copy.write_bytes(segment.read_bytes())
    status, out, _ = run("stats", copy, "--by", "partition")
    assert status == 0
    assert out.count("(none)") == 1


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


def test_what_ends_a_cleaning_is_damage_a_transaction_or_the_active_segment(run, tmp_path):
    """A cleaner fails at damaged bytes. A segment that a broker has rolled pins nothing, wherever it begins."""
    commits = [("C", 0), ("C", 1), ("C", 0), ("C", 1)]
    damaged = write(tmp_path / "damaged" / "__consumer_offsets-0", commits, {3})
    segment = damaged / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[-3] ^= 1
    segment.write_bytes(content)
    rolled = write(tmp_path / "rolled" / "__consumer_offsets-0", commits, {3})
    (rolled / f"{500:020}.log").touch()
    pinned = write(tmp_path / "pinned" / "__consumer_offsets-0", [("X", 1, 0), *commits, ("R",)], {4})
    paths = [(damaged,), (damaged, "--past-damage"), (rolled,), (pinned,)]
    parts = [json.loads(run("stats", *each, "--json")[1])["partitions"]["0"] for each in paths]
    assert [each["stops_because_of"] for each in parts] == ["damage 2", "damage 2", "active", "txn 0"]
    row = next(line for line in run("stats", damaged)[1].splitlines() if "damage 2" in line)
    assert row.split()[:4] == ["0", "0", "damage", "2"]


def test_a_young_open_transaction_gets_no_command_of_its_own(run):
    """The shop's log of 3.9.2: the transaction of act 6 is open for 30.6 s (acts.json), and may still end."""
    status, out, _ = run("stats", DATA / "3.9.2", "--coordinator", "classic")
    assert status == 0
    assert "Partition 9" not in out
    assert ["9", "32", "1", "0", "30.6", "fraud-check"] in [line.split() for line in out.splitlines()]
    assert "up to the default of transaction.timeout.ms (60 s) was probably still running" in " ".join(out.split())
    assert "kafka-transactions.sh" not in out


def test_a_row_of_markers_says_so(run, tmp_path):
    """A marker has no group, so all of them are one row, also if another row stands next to it."""
    folder = write(tmp_path / "__consumer_offsets-0", [("X", 1, 0), ("M", 1), ("C", 0), ("R",)], set())
    for by in ("group", "topic", "type"):
        _, out, _ = run("stats", folder, "--by", by)
        assert out.count("(markers)") == 1 and "(none)" not in out
    assert {row["group"] for row in told(run, folder)["rows"]} >= {None}


def test_the_text_says_why_cleaning_stops(run, tmp_path):
    """An open transaction in an earlier segment, or the active segment: LogCleanerManager.cleanableOffsets."""
    steps = [("C", 0), ("C", 0), ("X", 1, 0), ("C", 0), ("R",)]
    stopped = write(tmp_path / "__consumer_offsets-0", steps, {2, 4})
    _, out, _ = run("stats", stopped)
    assert "txn 2" in out
    active = write(tmp_path / "__consumer_offsets-1", steps[:2], {1})
    _, out, _ = run("stats", active)
    assert ["1", "1", "active"] in [line.split()[:3] for line in out.splitlines()]


def test_one_line_names_the_kafka_versions_if_all_partitions_agree(run, tmp_path):
    write(tmp_path / "__consumer_offsets-0", [("C", 0), ("R",)], set())
    write(tmp_path / "__consumer_offsets-1", [("C", 1), ("R",)], set())
    _, out, _ = run("stats", tmp_path)
    assert out.count("Kafka versions that can have written the records: 2.1") == 1
    assert "from offset" not in out
    assert " s to load " not in out


def test_the_shares_of_the_writers_add_up(run):
    """The shares are those of each partition of the offsets topic, so they add up to 1 in each partition."""
    rows = told(run, DATA / "3.9.2", "--coordinator", "classic", "--by", "writer")["rows"]
    shares = {}
    for row in rows:
        shares[row["partition"]] = shares.get(row["partition"], 0) + row["share_of_partition"]
    assert len(shares) > 3
    assert all(abs(share - 1) < 1e-9 for share in shares.values())
