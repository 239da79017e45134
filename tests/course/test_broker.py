"""The brokers of the lessons: the answers of a copied log, and the defaults of each version."""

import json
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.coordinator import OffsetCommit, TopicPartition

ORDERS = TopicPartition("orders", 0)
SHOP = str(Path(__file__).parents[2] / "data" / "harbour" / "3.9.2")


def test_it_opens_a_copy_of_a_real_log_and_answers_as_that_broker():
    """A fetch of every group equals the restarted broker's answer; a commit does not change the lesson's data."""
    said = json.loads(Path(SHOP, "answers.json").read_text())["offsets"]
    broker = course.start_broker(SHOP)
    for group, offsets in said.items():
        found = broker.offset_fetch(group).value.offsets
        assert {str(each): there.offset for each, there in found.items()} == {
            name: there["offset"] for name, there in offsets.items()
        }
    before = len(course.read_lines(SHOP))
    broker.offset_commit("dashboard", {ORDERS: OffsetCommit(5)})
    assert len(course.read_lines(SHOP)) == before


def test_the_defaults_are_those_of_the_version():
    """1.0.1 has ZooKeeper and a retention of a day, 3.9.2 of a week. Every setting can be changed."""
    old = course.start_broker(kafka="1.0.1")
    new = course.start_broker(offset_metadata_max_bytes=10)
    assert old.settings.zookeeper and old.settings.offsets_retention_ms * 7 == new.settings.offsets_retention_ms
    assert new.settings.offset_metadata_max_bytes == 10
    with pytest.raises(kg.UsageError):
        course.start_broker(kafka="4.3.0")
