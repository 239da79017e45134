"""`dump` with filters, next to the records that Kafka's own classes read from the same logs (records.jsonl)."""

import json
import re

from tests.captured import captured, rows
from tests.handmade import LogRecord, encode_batch, write_segment

RUN = "2.8.2-basic"
COMMIT_KEY = bytes.fromhex("0001" + "000167" + "000174" + "00000000")


def read_rows(name):
    """Return the rows of a run, without control records, and the folder of its log."""
    folder = captured("runs") / "runs" / name
    return [row for row in rows("runs", f"runs/{name}/records.jsonl") if not row["control"]], folder / "log"


def read_text(data, position):
    size = int.from_bytes(data[position : position + 2], "big")
    end = position + 2 + size
    return data[position + 2 : end].decode(), end


def split_key(row):
    """Return the group, the topic and the partition in a key; topic and partition are None in a group's key."""
    key = bytes.fromhex(row["key"])
    group, end = read_text(key, 2)
    if key[:2] == b"\0\2":
        return group, None, None
    topic, end = read_text(key, end)
    return group, topic, int.from_bytes(key[end : end + 4], "big")


def position_of(row):
    return int(re.search(r"-(\d+)/", row["file"])[1]), row["offset"]


def dumped(run, log, *args):
    status, out, err = run("dump", log, "--json", *args)
    assert (status, err) == (0, "")
    return [(line["partition"], line["offset"]) for line in map(json.loads, out.splitlines())]


def check(run, log, expected, *args):
    """The filtered dump has exactly the expected rows, and these are some but not all."""
    positions = [position_of(row) for row in expected]
    assert dumped(run, log, *args) == positions
    assert 0 < len(positions) < len(dumped(run, log))


def test_each_filter_selects_the_records_that_kafka_reads(run):
    """Group, topic, partition and key are in the key; a tombstone has no value; the time is that of the record."""
    all_rows, log = read_rows(RUN)
    newest = next(row for row in reversed(all_rows) if split_key(row)[1] is not None)
    group, topic, partition = split_key(newest)
    check(run, log, [row for row in all_rows if split_key(row)[0] == group], "--group", group)
    check(run, log, [row for row in all_rows if split_key(row)[1] == topic], "--topic", topic)
    check(run, log, [row for row in all_rows if split_key(row)[2] == partition], "--partition", partition)
    check(run, log, [row for row in all_rows if row["value"] is None], "--tombstones")
    for name in ("2", "GroupMetadata"):
        check(run, log, [row for row in all_rows if row["key"].startswith("0002")], "--type", name)
    middle = sorted(row["ts"] for row in all_rows)[len(all_rows) // 2]
    check(run, log, [row for row in all_rows if row["ts"] >= middle], "--since-time", middle)
    both = [row for row in all_rows if split_key(row)[:2] == (group, topic) and row["ts"] >= middle]
    positions = dumped(run, log, "--group", group, "--topic", topic, "--since-time", middle)
    assert positions == [position_of(row) for row in both]


def test_a_record_that_cannot_be_read_is_selected_by_its_key(run, tmp_path):
    """A value of version 99 cannot be read, but the key names the group and the topic."""
    folder = write_segment(tmp_path, encode_batch([LogRecord(0, 5, COMMIT_KEY, b"\0\x63")]))
    status, out, err = run("dump", folder, "--group", "g", "--topic", "t", "--partition", "0")
    assert status == 1 and "cannot be decoded" in out and err.count("\n") == 1
    assert run("dump", folder, "--group", "other") == (0, "No record is selected.\n", "")


def test_markers_have_no_group_but_a_time(run):
    """--since-time keeps markers, and every filter of the content leaves them out."""
    log = captured("runs") / "runs" / "1.0.1-txn" / "log"
    assert '"control": "commit"' in run("dump", log, "--json", "--since-time", 0)[1]
    assert "producer 9/1, transactional, control" in (text := run("dump", log)[1]) and "  marker: abort\n" in text
    assert '"control": "commit"' not in run("dump", log, "--json", "--partition", 0)[1]
    assert "marker" not in run("dump", log, "--tombstones")[1]
