"""Offsets that retention takes although somebody still commits: the finding names the time at which they go."""

import re
from datetime import UTC, datetime

import pytest

from kafkagroups.coordinator import TopicPartition
from tests.history.logs import HOUR, VERSIONS, Broker

KEYS = [TopicPartition("orders", number) for number in range(2)]


@pytest.fixture(params=VERSIONS)
def broker(request, tmp_path):
    broker = Broker(tmp_path, request.param)
    broker.coordinator.start_expiration()
    return broker


def commit_each_six_hours(broker, *partitions, days):
    for _ in range(days * 4):
        broker.commit(dict.fromkeys(partitions, broker.clock.now_ms // HOUR))
        broker.clock.advance(6 * HOUR)


def find_expiry(broker):
    found = broker.find("expiry_in_use")
    line = broker.timeline().expiry
    assert [finding.what for finding in found] == ([] if line is None else [line])
    return found


def has_offset(broker, key):
    return broker.coordinator.offset_fetch("app", [key]).value.offsets[key].offset >= 0


def assert_goes_at(broker, finding, key):
    """The coordinator deletes the offset at the time in the finding, give or take a check for expired offsets."""
    text = re.search(r"expires? at (\S+ \S+) UTC", finding.what)[1]
    expire_ms = int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000
    while broker.clock.now_ms < expire_ms - 2 * HOUR:
        broker.clock.advance(HOUR)
    assert has_offset(broker, key)
    broker.clock.advance(3 * HOUR)
    assert not has_offset(broker, key)


def test_all_offsets_of_a_group_that_had_members_go_together(broker):
    """KIP-211: they expire after the time at which the group became Empty, and not after each commit."""
    consumer = broker.join("c", 2)
    broker.poll(consumer, times=10, seconds=1, commits=True)
    consumer.leave()
    commit_each_six_hours(broker, 0, 1, days=5)
    (finding,) = find_expiry(broker)
    assert (finding.group, finding.topic_partition) == ("app", "orders-0")
    assert finding.what.startswith("Group app has no members since 2023-11-14 22:13:")
    assert_goes_at(broker, finding, KEYS[0])
    assert not has_offset(broker, KEYS[1])


def test_a_simple_group_loses_the_offset_that_it_does_not_commit_again(broker):
    """KIP-211: each offset of a group without a protocol type expires after its own commit."""
    commit_each_six_hours(broker, 0, 1, days=1)
    commit_each_six_hours(broker, 0, days=5)
    (finding,) = find_expiry(broker)
    assert (finding.group, finding.topic_partition) == ("app", "orders-1")
    assert_goes_at(broker, finding, KEYS[1])


def test_a_group_that_was_reset_after_its_end_and_one_that_commits_all_are_fine(broker):
    commit_each_six_hours(broker, 0, 1, days=8)
    assert find_expiry(broker) == []
