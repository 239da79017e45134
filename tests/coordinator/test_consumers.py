"""Simulated consumers over a coordinator: whatever happened, quiet time makes them a stable group again."""

import base64
import json
from itertools import count

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings as profile

from kafkagroups.coordinator import (
    ASSIGNORS,
    Clock,
    Consumer,
    DiskLogs,
    Settings,
    TopicPartition,
    poll_regularly,
    run_random_actions,
    start_broker,
)
from tests.captured import captured
from tests.cases import first_quickly

NOW = 1_700_000_000_000
TOPICS = {"orders": 5, "clicks": 3}
SESSION_MS = 10_000
REBALANCE_MS = 20_000
QUIET_MS = 300_000 + 5 * REBALANCE_MS
"""After this time every session has ended, also that of a new member (five minutes), and the others have joined."""


class World:
    """A coordinator that can crash, and its consumers."""

    def __init__(self, folder, version="3.9.2", consumers=3, assignor="range", static=False):
        self.logs = DiskLogs(folder)
        self.settings = Settings(version, offsets_topic_num_partitions=1)
        self.clock = Clock(NOW)
        numbers = count(1)
        self.new_member_id = lambda prefix: f"{prefix}-{next(numbers)}"
        self.coordinator = self.start()
        self.consumers = [
            Consumer(
                self.coordinator,
                "billing",
                f"c{n}",
                tuple(TOPICS),
                TOPICS,
                (assignor,),
                f"instance-{n}" if static else None,
                SESSION_MS,
                REBALANCE_MS,
            )
            for n in range(consumers)
        ]

    def start(self):
        return start_broker(self.logs, self.clock, self.settings, new_member_id=self.new_member_id, topics=TOPICS)

    def crash(self):
        """Crash the coordinator; another one loads its log."""
        self.clock.clear_timers()
        self.coordinator = self.start()
        for consumer in self.consumers:
            consumer.connect(self.coordinator)

    def stored(self):
        """Return the offsets that the coordinator has."""
        return {each: there.offset for each, there in self.coordinator.offset_fetch("billing").offsets.items()}

    def confirmed(self):
        """Return the largest offset whose commit was confirmed to a consumer, for each partition."""
        found = {}
        for consumer in self.consumers:
            for partition, offset in consumer.committed.items():
                found[partition] = max(offset, found.get(partition, 0))
        return found

    def settle(self):
        """Let the group come to rest. The second round restarts static members that a crash has fenced."""
        for _ in range(2):
            for consumer in self.consumers:
                if consumer.state.name == "GONE":
                    consumer.start()
            poll_regularly(self.consumers, self.clock, QUIET_MS)

    def is_settled(self):
        """Assert that the group is Stable, its members are the consumers, and one of them reads each partition."""
        (group,) = self.coordinator.describe_groups(["billing"])
        assert group.state == "Stable"
        assert {each.member_id for each in group.members} == {each.member_id for each in self.consumers}
        read = sorted(each for consumer in self.consumers for each in consumer.assignment)
        assert read == sorted(
            TopicPartition(topic, n) for topic, partitions in TOPICS.items() for n in range(partitions)
        )
        assert len({each.generation for each in self.consumers}) == 1


@pytest.mark.parametrize("version", ["1.0.1", "2.8.2", "3.9.2", "4.3.1"])
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_consumers_form_a_group(tmp_path, version, assignor):
    """They need one rebalance, because they all join within the initial delay."""
    world = World(tmp_path, version, assignor=assignor)
    poll_regularly(world.consumers, world.clock, 20_000, every_ms=1000)
    world.is_settled()
    assert world.consumers[0].generation == 1


@pytest.mark.slow
@pytest.mark.parametrize("version", first_quickly(["4.3.1", "3.9.2", "2.8.2", "1.0.1"]))
@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("static", [False, True])
@given(seed=st.integers(0, 2**32), crashes=st.lists(st.integers(1, 20), max_size=3))
@profile(max_examples=10)
def test_a_group_recovers_from_accidents(tmp_path_factory, version, assignor, static, seed, crashes):
    """Consumers crash, leave and come back, the coordinator crashes: all is stable, no confirmed commit is lost."""
    if static and version == "1.0.1":
        return  # KIP-345 came with 2.3
    world = World(tmp_path_factory.mktemp("log"), version, assignor=assignor, static=static)
    for number, steps in enumerate([10, *crashes]):
        run_random_actions(world.consumers, world.clock, seed + number, steps)
        world.crash()
        assert world.stored() == world.confirmed()
    world.settle()
    world.is_settled()
    assert world.stored() == world.confirmed()
    for consumer in world.consumers:
        assert all(position >= world.confirmed().get(each, 0) for each, position in consumer.positions.items())
        consumer.commit()
    world.crash()
    assert (
        world.stored()
        == world.confirmed()
        == {each: position for consumer in world.consumers for each, position in consumer.positions.items()}
    )


def test_the_same_seed_does_the_same(tmp_path):
    told = []
    for folder in ("a", "b"):
        world = World(tmp_path / folder)
        told.append(run_random_actions(world.consumers, world.clock, 7, 200))
        world.logs.close()
    assert told[0] == told[1]
    assert {line.split()[2] for line in told[0]} == {"poll", "commit", "leave", "crash", "start"}
    logs = [sorted(file.read_bytes() for file in (tmp_path / folder).glob("*/*.log")) for folder in ("a", "b")]
    assert logs[0] == logs[1] and any(logs[0])


def test_a_consumer_continues_at_the_committed_offset(tmp_path):
    world = World(tmp_path, consumers=1)
    (consumer,) = world.consumers
    poll_regularly([consumer], world.clock, 30_000)
    consumer.commit()
    before = dict(consumer.positions)
    poll_regularly([consumer], world.clock, 9_000)
    consumer.leave()
    consumer.start()
    while not consumer.assignment:
        consumer.poll(0)
        world.clock.advance(1000)
    assert consumer.positions == before and min(before.values()) > 0


def test_the_bytes_of_a_subscription_are_a_java_consumers(tmp_path):
    """The first JoinGroup of 3.9.2-life's KafkaConsumer carries the same metadata."""
    file = captured("conversations") / "conversations" / "3.9.2-life" / "conversation.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    joins = [line for line in lines if line.get("api") == "JoinGroup" and line["client_id"].startswith("java-")]
    theirs = base64.b64decode(joins[0]["request"]["protocols"][0]["metadata"])
    sent = []
    world = World(tmp_path, consumers=1)
    (consumer,) = world.consumers
    join = world.coordinator.join_group
    world.coordinator.join_group = lambda *args, **named: sent.append(named["protocols"]) or join(*args, **named)
    consumer.poll()
    assert sent == [[("range", theirs)]]
