"""Offsets that retention takes although somebody still commits: the finding names the time at which they go."""

import re
from datetime import UTC, datetime

import pytest

import kafkagroups as kg
from kafkagroups.coordinator import Clock, Consumer, OffsetCommit, Settings, TopicPartition, open_logs, start_broker

START = 1_700_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
KEYS = [TopicPartition("orders", number) for number in range(2)]


class Broker:
    def __init__(self, folder, version):
        self.folder = folder
        self.clock = Clock(START)
        self.settings = Settings(version)
        self.logs = open_logs(folder, self.settings)
        self.coordinator = start_broker(self.logs, self.clock, self.settings)
        self.coordinator.start_expiration()
        self.rules = {"coordinator": "classic" if version < "4" else "new", "kafka": version}

    def commit(self, *keys, days):
        for _ in range(days * 4):
            self.coordinator.offset_commit("app", {key: OffsetCommit(self.clock.now_ms // HOUR) for key in keys})
            self.clock.advance(6 * HOUR)

    def find(self):
        self.logs.close()
        found = [each for each in kg.stats(self.folder, **self.rules).findings if each.kind == "expiry_in_use"]
        line = kg.timeline(self.folder, "app", **self.rules).expiry
        assert [finding.what for finding in found] == ([] if line is None else [line])
        return found

    def has_offset(self, key):
        return self.coordinator.offset_fetch("app", [key]).value.offsets[key].offset >= 0

    def assert_goes_at(self, finding, key):
        """The coordinator deletes the offset at the time in the finding, give or take a check for expired offsets."""
        text = re.search(r"expires? at (\S+ \S+) UTC", finding.what)[1]
        expire_ms = int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000
        while self.clock.now_ms < expire_ms - 2 * HOUR:
            self.clock.advance(HOUR)
        assert self.has_offset(key)
        for _ in range(3):
            self.clock.advance(HOUR)
        assert not self.has_offset(key)


@pytest.fixture(params=["3.9.2", "4.3.1"])
def broker(request, tmp_path):
    return Broker(tmp_path, request.param)


def test_all_offsets_of_a_group_that_had_members_go_together(broker):
    """KIP-211: they expire after the time at which the group became Empty, and not after each commit."""
    consumer = Consumer(broker.coordinator, "app", "c", ["orders"], {"orders": 2})
    for _ in range(10):
        consumer.poll()
        consumer.commit()
        broker.clock.advance(1000)
    consumer.leave()
    broker.commit(*KEYS, days=5)
    (finding,) = broker.find()
    assert (finding.group, finding.topic_partition) == ("app", "orders-0")
    assert finding.what.startswith("Group app has no members since 2023-11-14 22:13:")
    broker.assert_goes_at(finding, KEYS[0])
    assert not broker.has_offset(KEYS[1])


def test_a_simple_group_loses_the_offset_that_it_does_not_commit_again(broker):
    """KIP-211: each offset of a group without a protocol type expires after its own commit."""
    broker.commit(*KEYS, days=1)
    broker.commit(KEYS[0], days=5)
    (finding,) = broker.find()
    assert (finding.group, finding.topic_partition) == ("app", "orders-1")
    broker.assert_goes_at(finding, KEYS[1])


def test_a_group_that_was_reset_after_its_end_and_one_that_commits_all_are_fine(broker):
    broker.commit(*KEYS, days=8)
    assert broker.find() == []
