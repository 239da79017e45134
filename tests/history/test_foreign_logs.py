"""Bytes that are no log of __consumer_offsets are refused by every question, and load still shows them."""

import json
import struct

import pytest

from tests.groups.small_logs import commit
from tests.handmade import CONTROL, LogRecord, encode_batch

LEADER_CHANGE = LogRecord(0, 0, struct.pack(">hh", 0, 2), b"\0\0\0\0\0\1\0")
MARKER = LogRecord(1, 0, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0))
KRAFT = encode_batch([LEADER_CHANGE], attributes=CONTROL) + encode_batch([LogRecord(1, 0, None, b"\1\2\0\0")])
ORDERS = encode_batch([LogRecord(0, 0, b"customer-17", b"{}"), LogRecord(1, 0, struct.pack(">q", 5), b"{}")])
QUESTIONS = (
    ("check",),
    ("stats",),
    ("explain", "--group", "g"),
    ("timeline", "--group", "g"),
    ("rescue", "plan"),
)


@pytest.fixture
def write(tmp_path):
    def write(data, name="__consumer_offsets-0"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{0:020}.log").write_bytes(data)
        return folder

    return write


@pytest.mark.parametrize("coordinator", ["classic", "new"])
@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize(("data", "sign"), [(KRAFT, "LEADER_CHANGE"), (ORDERS, "customer-17")], ids=["KRaft", "orders"])
def test_each_question_refuses_the_log_and_gives_no_remedy(run, write, data, sign, engine, coordinator):
    """Exit code 2, one line that says why, and a line of JSON; the other PATHs are answered."""
    foreign = write(data, "orders-0")
    own = write(encode_batch([commit(0, "g")]))
    for question in QUESTIONS:
        paths = [foreign] if question[0] == "rescue" else [foreign, own]
        status, out, err = run(*question, *paths, "--coordinator", coordinator, "--engine", engine, "--json")
        assert status == 2
        assert f"{foreign}: this is not a log of __consumer_offsets" in err and sign in err
        refused, *answered = map(json.loads, out.splitlines())
        assert refused == {"path": str(foreign), "error": err.splitlines()[0].partition(": ")[2]}
        assert len(answered) >= len(paths) - 1, question
        assert run(*question, foreign)[1] == ""


def test_load_and_dump_show_such_a_log(run, write):
    foreign = write(ORDERS)
    assert json.loads(run("load", foreign, "--json")[1])["partitions"]["0"]["records"] == 2
    assert len(run("dump", foreign, "--json")[1].splitlines()) == 2


@pytest.mark.parametrize(
    "data",
    [
        encode_batch([MARKER], attributes=CONTROL),
        encode_batch([LogRecord(0, 0, None, b"v")]),
        ORDERS + encode_batch([LogRecord(2, 0, commit(2).key, None)]),
        b"",
    ],
    ids=["only markers", "no keys", "a tombstone among foreign records", "empty"],
)
def test_a_log_that_can_be_of_this_topic_is_answered(run, write, data):
    folder = write(data)
    assert run("stats", folder)[0] in (0, 1)
    assert json.loads(run("check", folder, "--json")[1])["path"] == str(folder)
