"""Lesson 13: lines of the new groups' records, recordings, and what real brokers answered about the lesson's logs.

data/new_protocols has logs of recorded conversations, and logs that were made for a test and loaded by two brokers.
"""

import json
import re
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import course

DATA = Path(__file__).parents[2] / "data"
SHOP = DATA / "harbour" / "4.3.1"
PROTOCOLS = DATA / "new_protocols"
ANSWERED = json.loads((PROTOCOLS / "answers.json").read_text())
GHOSTS = ["4.3.1-ghost", "4.4.0-ghost"]


def list_types(path, group, first_offset, last_offset=None):
    """Return the types of a group's records from one offset to another."""
    types = []
    for batch in kg.open_log(path):
        for each in batch.records:
            record = kg.decode(each.key, each.value)
            name = getattr(record.key, "group", None) or record.key.group_id
            if name == group and first_offset <= each.offset and (last_offset is None or each.offset <= last_offset):
                types.append(record.type)
    return types


def test_the_last_leave_and_the_deletion_write_these_types():
    """Requests 5 and 89 of both recordings. 4.4.0 also writes the assignment epoch (type 6, 20) at the last leave."""
    old, new = (PROTOCOLS / name / "__consumer_offsets-2" for name in GHOSTS)
    assert list_types(old, "g1", 11, 14) == [8, 7, 5, 3]
    assert list_types(new, "g1", 11, 15) == [8, 7, 5, 3, 6]
    assert list_types(old, "g1", 15) == list_types(new, "g1", 16) == [1, 6, 4, 3]
    assert list_types(old, "s1", 37, 40) == [22, 21, 19, 17]
    assert list_types(new, "s1", 39, 43) == [22, 21, 19, 17, 20]
    assert list_types(old, "s1", 41) == list_types(new, "s1", 44) == [1, 20, 17, 23]


@pytest.mark.parametrize("name", GHOSTS)
def test_partitions_with_missing_tombstones_do_not_load(name):
    """Requests 80 to 88, after the restart: NOT_COORDINATOR for every group of the partitions that do not load."""
    version = name.partition("-")[0]
    recording = course.read_recording(name)
    assert recording.broker_version == version
    failed = kg.load(PROTOCOLS / name, "new", kafka=version).failed
    answered = recording.read_group_errors(80, 88)
    refused = {group for group, error in answered.items() if error == "NOT_COORDINATOR"}
    assert set(answered.values()) == {"NONE", "NOT_COORDINATOR"}
    assert refused == {group for group in answered if kg.partition_for(group, partitions=4) in failed}


def test_the_epochs_of_a_group_are_compared_with_the_answer_of_the_broker(capsys):
    """The answer of the 4.3.1 broker about loyalty, and the same answer with a member in another epoch."""
    loyalty = kg.load(SHOP, "new")["loyalty"]
    answer = json.loads((SHOP / "answers.json").read_text())["groups"]["loyalty"]
    course.compare_epochs_with_broker("loyalty", loyalty, answer, "4.3.1")
    answer["members"][0]["epoch"] -= 1
    course.compare_epochs_with_broker("loyalty", loyalty, answer, "4.3.1")
    same, different = capsys.readouterr().out.splitlines()
    assert "group epoch 3, assignment epoch 3" in same and same.endswith("✓ a 4.3.1 broker answered the same")
    assert "✗" in different


def test_the_remedy_is_printed_and_its_copy_loads(capsys, tmp_path):
    """Partition 3 does not load (request 85). The shorter copy has the offsets that the clients had committed."""
    log = PROTOCOLS / "4.3.1-ghost" / "__consumer_offsets-3"
    course.print_first_remedy(log, kafka="4.3.1")
    printed = capsys.readouterr().out
    assert "--cut 42" in printed.replace("\n    ", " ")
    assert max(map(len, printed.splitlines())) <= 90 + len(str(log))
    kg.cut(log, tmp_path / log.name, 42)
    groups = kg.load(tmp_path / log.name, "new")
    assert groups.failed == {}
    assert [len(groups[name].offsets) for name in ("s2", "g6")] == [1, 1]


def test_an_unknown_recording_is_refused():
    with pytest.raises(kg.UsageError):
        course.read_recording("4.3.1-nothing")


def test_the_right_log_of_the_exercise_is_the_one_that_a_broker_loads(capsys):
    """A, B and C are three of the logs that a 4.3.1 broker loaded, without their values and offsets."""
    logs = {"A": "n-3t-6live", "B": "n-5t-before-8t", "C": "n-del-compacted"}
    [loaded] = [letter for letter, case in logs.items() if ANSWERED[case]["new"]["load"] == "ok"]
    course.check("correct_tombstones", loaded)
    assert capsys.readouterr().out.startswith("✓")


def test_the_record_in_hex_is_in_the_log(capsys):
    """The exercise shows record 60 of the group `up`. The recording's request 74 wrote it."""
    key, value = course.read_record(str(PROTOCOLS / "4.4.0-migration" / "__consumer_offsets-3"), 60)
    source = (DATA.parent / "notebooks" / "source" / "13_the_new_protocols.py").read_text()
    shown = [bytes.fromhex("".join(digits)) for digits in re.findall("^# (?:key|value) +([0-9a-f ]+)…$", source, re.M)]
    assert len(shown) == 2 and key.startswith(shown[0]) and value.startswith(shown[1])
    record = kg.decode(key, value)
    course.check("member_in_hex", (record.type, record.value.member_epoch, record.value.state))
    assert capsys.readouterr().out.startswith("✓")
