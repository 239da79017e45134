"""Lesson 13: lines of the new groups' records, recordings, and what real brokers answered about the lesson's logs.

data/new_protocols has logs of recorded conversations, and logs that were made for a test and loaded by two brokers.
"""

import json
import re
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.coordinator import Errors
from kafkagroups.course.broker_answers import read_compressed

DATA = Path(__file__).parents[2] / "data"
SHOP = DATA / "harbour" / "4.3.1"
PROTOCOLS = DATA / "new_protocols"
ANSWERED = json.loads((PROTOCOLS / "answers.json").read_text())
GHOSTS = ["4.3.1-ghost", "4.4.0-ghost"]
LOYALTY = str(SHOP / "__consumer_offsets-24")
HANDBOOK = (DATA.parent / "docs" / "handbook" / "protocols.md").read_text(encoding="utf-8")


def read_handbook(heading):
    """Return the text of a section of the handbook's page about consumer groups."""
    [text] = re.findall(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", HANDBOOK, re.M | re.S)
    return text


def read_group_errors(name, first, last):
    """Return the errors of the groups that the requests from `first` to `last` of a recording described."""
    _, lines = read_compressed(f"new_protocols/{name}/conversation.jsonl.xz")
    groups = [group for line in lines if first <= line.get("n", -1) <= last for group in line["response"]["groups"]]
    return {group["groupId"]: Errors(group["errorCode"]).name for group in groups}


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
    failed = kg.load(PROTOCOLS / name, "new", kafka=version).failed
    answered = read_group_errors(name, 80, 88)
    refused = {group for group, error in answered.items() if error == "NOT_COORDINATOR"}
    assert set(answered.values()) == {"NONE", "NOT_COORDINATOR"}
    assert refused == {group for group in answered if kg.partition_for(group, partitions=4) in failed}


@pytest.mark.parametrize("end_offset", [14, 15])
def test_a_broker_continues_the_change_of_a_group_after_a_crash(end_offset):
    """After record 15 it writes the records 16 and 17 of the real broker, and after record 14 also record 15."""
    continued = course.continue_consumer_group(LOYALTY, "loyalty", end_offset=16)
    for offset in (16, 17):
        assert course.read_record(str(continued), offset) == course.read_record(LOYALTY, offset)
    earlier = course.continue_consumer_group(LOYALTY, "loyalty", end_offset)
    offsets = [record.offset for batch in kg.open_log(earlier) for record in batch.records]
    written = [course.read_record(str(earlier), offset) for offset in offsets if offset >= end_offset]
    assert course.read_record(LOYALTY, 15) in written


def test_the_records_in_the_handbook_are_those_of_the_log_and_the_cut_loads(capsys, tmp_path):
    """Partition 3 does not load (request 85). The shorter copy has the offsets that the clients had committed."""
    log = PROTOCOLS / "4.3.1-ghost" / "__consumer_offsets-3"
    course.print_protocol_lines(log, "s2", first_offset=40, last_offset=42)
    section = read_handbook("A bug of 4.3.1 and 4.4.0: missing tombstones")
    assert capsys.readouterr().out in section
    [finding] = kg.check(log, kafka="4.3.1").findings
    assert "4.0.0 to 4.0.2" in finding.remedy and "loses 5 records of s2" in finding.remedy
    assert "--cut 42" in finding.remedy and "`--cut 42`" in section
    kg.cut(log, tmp_path / log.name, 42)
    groups = kg.load(tmp_path / log.name, "new")
    assert groups.failed == {}
    assert [len(groups[name].offsets) for name in ("s2", "g6")] == [1, 1]


@pytest.mark.parametrize("name", ANSWERED)
def test_a_load_refuses_the_tombstones_of_the_lesson(name):
    """What a 4.3.1 broker loaded, and what its clients got for every group of a partition that it did not load."""
    answer = ANSWERED[name]["new"]
    assert bool(kg.load(PROTOCOLS / name, "new").failed) == (answer["load"] != "ok")
    if answer["load"] != "ok":
        assert {each["error"] for each in answer["offsets"].values()} == {"NOT_COORDINATOR"}


def test_the_group_of_the_exercise_is_loaded_up_to_record_29(capsys):
    """The log of a 4.4.0 broker. The answer has what the members' newest records say."""
    log = PROTOCOLS / "4.4.0-migration" / "__consumer_offsets-3"
    group = kg.load(log, "new", until=30)["up"]
    [behind] = [each for each in group.members.values() if each.member_epoch < group.assignment_epoch]
    topics = {"orders": set(range(3)), "clicks": set(range(3))}
    names = course.log_lines.collect_names(log).topics
    for member in group.members.values():
        for topic in [*member.assignment.assigned_partitions, *member.assignment.partitions_pending_revocation]:
            topics[names[topic.topic_id]] -= set(topic.partitions)
    [free] = [f"{name}-{number}" for name, numbers in topics.items() for number in numbers]
    course.check("after_record_29", (group.state.value, behind.metadata.client_id, free))
    assert capsys.readouterr().out.startswith("✓")


def test_the_member_that_must_revoke_shows_the_assignment_of_its_target():
    """The table of the last exercise: the older epoch is the only sign that a member has not revoked yet."""
    group = kg.load(LOYALTY, "new", until=16)["loyalty"]
    [behind] = [each for each in group.members.values() if each.member_epoch < group.assignment_epoch]
    [assigned] = behind.assignment.assigned_partitions
    [target] = group.targets[behind.member_id].topic_partitions
    assert assigned.partitions == target.partitions == (0, 1)
