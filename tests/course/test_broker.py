"""The brokers of the lessons: the same in every run, and their state after a crash."""

import json
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.coordinator import Errors, HeldLogs, OffsetCommit, TopicPartition
from kafkagroups.course.broker import read_partition_lines, restart_after_crash

ORDERS = TopicPartition("orders", 0)
SHOP = str(Path(__file__).parents[2] / "data" / "harbour" / "3.9.2")


def test_a_crash_leaves_what_the_log_has():
    """Committed offsets are loaded; a member that joined and never synced is lost (run 1.0.1-odd)."""
    broker = course.start_broker()
    assert broker.offset_commit("dashboard", {ORDERS: OffsetCommit(5)}).value == {ORDERS: Errors.NONE}
    member = broker.join_group("billing", protocols=[("range", b"")], client_id="billing").value.member_id
    assert member == "billing-1", "ids are numbered"
    heir = restart_after_crash(broker)
    assert heir.offset_fetch("dashboard").offsets[ORDERS].offset == 5
    assert [group.state for group in heir.describe_groups(["billing", "dashboard"])] == ["Dead", "Empty"]
    assert str(read_partition_lines(heir, "dashboard")[0]) == " 0: dashboard orders-0 = 5"


def test_what_was_held_back_dies_with_the_broker():
    """The record is in the log, and the response of the crashed broker never comes."""
    broker = course.start_broker(HeldLogs(course.start_broker().manager.logs))
    answer = broker.offset_commit("dashboard", {ORDERS: OffsetCommit(5)})
    heir = restart_after_crash(broker)
    assert not answer.done and heir.offset_fetch("dashboard").offsets[ORDERS].offset == 5


def test_it_opens_a_copy_of_a_real_log_and_answers_as_that_broker():
    """A fetch of every group equals the restarted broker's answer; a commit does not change the lesson's data."""
    said = json.loads(Path(SHOP, "answers.json").read_text())["offsets"]
    broker = course.start_broker(SHOP)
    for group, offsets in said.items():
        found = broker.offset_fetch(group).offsets
        assert {str(each): there.offset for each, there in found.items()} == {
            name: there["offset"] for name, there in offsets.items()
        }
    before = len(course.read_lines(SHOP))
    broker.offset_commit("dashboard", {ORDERS: OffsetCommit(5)})
    assert read_partition_lines(broker, "dashboard")[-1].value == 5 and len(course.read_lines(SHOP)) == before


def test_the_defaults_are_those_of_the_version():
    """1.0.1 has ZooKeeper and a retention of a day, 3.9.2 of a week. Every setting can be changed."""
    old = course.start_broker(kafka="1.0.1")
    new = course.start_broker(offset_metadata_max_bytes=10)
    assert old.settings.zookeeper and old.settings.offsets_retention_ms * 7 == new.settings.offsets_retention_ms
    assert new.settings.offset_metadata_max_bytes == 10 and restart_after_crash(old).settings == old.settings
    with pytest.raises(kg.UsageError):
        course.start_broker(kafka="4.3.0")
