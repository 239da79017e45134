"""Simulated consumers over a coordinator: whatever happened, quiet time makes them a stable group again."""

import base64
import json
from itertools import count

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings as profile

from kafkagroups.coordinator import (
    Clock,
    Consumer,
    ConsumerProtocolConsumer,
    DiskLogs,
    Errors,
    Settings,
    TopicPartition,
    start_broker,
)
from tests.captured import captured
from tests.cases import first_quickly
from tests.coordinator.consumer_world import IDS
from tests.coordinator.world import NOW

TOPICS = {"orders": 5, "clicks": 3}
SESSION_MS = 10_000
REBALANCE_MS = 20_000
QUIET_MS = 300_000 + 5 * REBALANCE_MS
"""After this time every session has ended, also that of a new member (five minutes), and the others have joined."""


ACTIONS = st.sampled_from(["poll"] * 12 + ["commit"] * 4 + ["leave", "crash"])
LIFE = st.lists(st.tuples(st.integers(0, 2), ACTIONS, st.integers(0, 3_000)), min_size=1, max_size=20)
LIVES = st.lists(LIFE, min_size=1, max_size=4)
"""What random consumers do, each time until the coordinator crashes, and after which pause in ms."""


class World:
    """A coordinator that can crash, and its consumers."""

    def __init__(self, folder, version="3.9.2", consumers=3, assignor="range", static=False, classic=None):
        """`classic` of the consumers speak the classic protocol, None: all."""
        self.logs = DiskLogs(folder)
        self.settings = Settings(version, offsets_topic_num_partitions=1)
        self.clock = Clock(NOW)
        numbers = count(1)
        self.new_member_id = lambda prefix: f"{prefix}-{next(numbers)}"
        self.coordinator = self.start()
        self.consumers = [
            self.consumer(n, assignor, f"instance-{n}" if static else None, classic is None or n < classic)
            for n in range(consumers)
        ]

    def consumer(self, number, assignor, instance_id, is_classic):
        shared = (self.coordinator, "billing", f"c{number}", tuple(TOPICS), TOPICS)
        options = {"group_instance_id": instance_id, "rebalance_timeout_ms": REBALANCE_MS}
        if is_classic:
            return Consumer(*shared, (assignor,), SESSION_MS, **options)
        return ConsumerProtocolConsumer(*shared, assignor, **options)

    def start(self):
        return start_broker(
            self.logs, self.clock, self.settings, new_member_id=self.new_member_id, topics=TOPICS, topic_ids=IDS
        )

    def crash(self):
        """Crash the coordinator; another one loads its log."""
        self.clock.clear_timers()
        self.coordinator = self.start()
        for consumer in self.consumers:
            consumer.connect(self.coordinator)

    def stored(self):
        """Return the offsets that the coordinator has."""
        return {each: there.offset for each, there in self.coordinator.offset_fetch("billing").value.offsets.items()}

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
        member_ids = {each.member_id for each in group.members}
        if group.state == "Dead":
            (group,) = self.coordinator.consumer_group_describe(["billing"])
            member_ids = {each.member.member_id for each in group.members}
            assert {each.member.epoch for each in group.members} == {group.group_epoch}
        assert group.state == "Stable"
        assert member_ids == {each.member_id for each in self.consumers}
        read = sorted(each for consumer in self.consumers for each in consumer.assignment)
        assert read == sorted(
            TopicPartition(topic, n) for topic, partitions in TOPICS.items() for n in range(partitions)
        )
        assert len({epoch(each) for each in self.consumers}) == 1


def poll_regularly(consumers, clock, ms, every_ms=3_000):
    """Let the consumers poll one after another, until the clock has advanced by `ms`."""
    for _ in range(0, ms, every_ms):
        for consumer in consumers:
            consumer.poll()
        clock.advance(every_ms)


def epoch(consumer):
    """Return the generation of a classic consumer, and the member epoch of another one."""
    return consumer.generation if isinstance(consumer, Consumer) else consumer.member_epoch


@pytest.mark.parametrize("version", ["1.0.1", "2.8.2", "3.9.2", "4.3.1"])
def test_consumers_form_a_group(tmp_path, version):
    """They need one rebalance, because they all join within the initial delay."""
    world = World(tmp_path, version)
    poll_regularly(world.consumers, world.clock, 20_000, every_ms=1000)
    world.is_settled()
    assert world.consumers[0].generation == 1


@pytest.mark.slow
@pytest.mark.parametrize("version", first_quickly(["4.3.1", "3.9.2", "2.8.2", "1.0.1"]))
@pytest.mark.parametrize("static", [False, True])
@given(lives=LIVES)
@profile(max_examples=20)
def test_a_group_recovers_from_accidents(tmp_path_factory, version, static, lives):
    """Consumers crash, leave and come back, the coordinator crashes: all is stable, no confirmed commit is lost."""
    if static and version == "1.0.1":
        return  # KIP-345 came with 2.3
    recovers(World(tmp_path_factory.mktemp("log"), version, static=static), lives)


@pytest.mark.slow
@pytest.mark.parametrize("version", first_quickly(["4.3.1", "4.4.0"]))
@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("static", [False, True])
@given(lives=LIVES)
@profile(max_examples=20)
def test_a_consumer_group_recovers_from_accidents(tmp_path_factory, version, assignor, static, lives):
    """The same with members of the new protocol."""
    recovers(World(tmp_path_factory.mktemp("log"), version, assignor=assignor, static=static, classic=0), lives)


def recovers(world, lives):
    for steps in lives:
        for number, action, pause_ms in steps:
            world.clock.advance(pause_ms)
            consumer = world.consumers[number]
            getattr(consumer, "start" if consumer.state.name == "GONE" else action)()
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


# Members of the new protocol


@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_consumers_form_a_consumer_group(tmp_path, version, assignor):
    """Each member that comes is a new epoch, and nobody stops reading what it keeps."""
    world = World(tmp_path, version, assignor=assignor, classic=0)
    first, *others = world.consumers
    poll_regularly([first], world.clock, 2_000, every_ms=1000)
    assert len(first.assignment) == 8
    before = dict(first.positions)
    poll_regularly(world.consumers, world.clock, 30_000, every_ms=1000)
    world.is_settled()
    assert all(offset == before[each] + 30 for each, offset in first.positions.items())
    assert {each.member_epoch for each in others} == {4}


def test_a_member_gets_a_partition_when_its_owner_has_given_it_back(tmp_path):
    world = World(tmp_path, "4.3.1", consumers=2, classic=0)
    first, second = world.consumers
    poll_regularly([first], world.clock, 10_000)
    first.commit()
    committed = dict(first.committed)
    states = []
    for _ in range(20):
        for consumer in world.consumers:
            consumer.poll()
        states.append((len(first.assignment), len(second.assignment)))
        assert not set(first.assignment) & set(second.assignment)
        world.clock.advance(1000)
    assert (8, 0) in states and (5, 0) in states and states[-1] == (5, 3)
    assert all(offset >= committed[each] for each, offset in second.positions.items())


def test_a_fenced_member_joins_again_with_its_id(tmp_path):
    """It notices with its next heartbeat; until then it reads, but may not commit."""
    world = World(tmp_path, "4.3.1", consumers=2, classic=0)
    poll_regularly(world.consumers, world.clock, 30_000)
    first, second = world.consumers
    member_id = first.member_id
    poll_regularly([second], world.clock, 60_000)
    committed = dict(first.committed)
    first.commit()
    assert first.committed == committed and len(first.assignment) == 5
    first.poll()
    first.poll()
    assert (first.assignment, first.member_epoch, first.waiting_for) == ((), 0, "ConsumerGroupHeartbeat")
    poll_regularly(world.consumers, world.clock, 30_000)
    world.is_settled()
    assert first.member_id == member_id


def test_a_static_member_keeps_its_partitions_over_a_restart(tmp_path):
    world = World(tmp_path, "4.3.1", static=True, classic=0)
    poll_regularly(world.consumers, world.clock, 30_000)
    first = world.consumers[0]
    before = set(first.assignment), first.member_epoch
    member_id = first.member_id
    first.leave()
    poll_regularly(world.consumers[1:], world.clock, 20_000)
    first.start()
    poll_regularly(world.consumers, world.clock, 10_000)
    assert (set(first.assignment), first.member_epoch) == before
    assert first.member_id != member_id


def test_a_second_process_with_the_instance_id_stops(tmp_path):
    world = World(tmp_path, "4.3.1", consumers=1, static=True, classic=0)
    (first,) = world.consumers
    poll_regularly([first], world.clock, 10_000)
    second = world.consumer(9, None, "instance-0", is_classic=False)
    poll_regularly([second], world.clock, 10_000)
    assert second.state.name == "GONE" and first.state.name == "STABLE"


def test_a_classic_broker_has_no_consumer_groups(tmp_path):
    world = World(tmp_path, "3.9.2", consumers=1, classic=0)
    poll_regularly(world.consumers, world.clock, 10_000)
    assert world.consumers[0].state.name == "GONE"


def test_the_heartbeats_are_a_java_consumers(tmp_path):
    """Joining, acknowledging, giving back and leaving carry the fields that a KafkaConsumer of 4.3.1 sends."""
    world = World(tmp_path, "4.3.1", consumers=2, classic=0)
    sent = []
    send = world.coordinator.consumer_group_heartbeat

    def record(group_id, member_id, epoch, **fields):
        optional = ("rebalance_timeout_ms", "subscribed_topic_names", "topic_partitions")
        sent.append((member_id, min(epoch, 1), [name for name in optional if name in fields]))
        return send(group_id, member_id, epoch, **fields)

    world.coordinator.consumer_group_heartbeat = record
    first, second = world.consumers
    poll_regularly([first], world.clock, 12_000, every_ms=1000)
    everything = ["rebalance_timeout_ms", "subscribed_topic_names", "topic_partitions"]
    joins = (0, everything)
    acknowledges = (1, ["topic_partitions"])
    beats = (1, [])
    assert [each[1:] for each in sent] == [joins, acknowledges, beats, beats]
    sent.clear()
    poll_regularly(world.consumers, world.clock, 20_000, every_ms=1000)
    gives_back = [each[1:] for each in sent if each[0] == first.member_id]
    assert gives_back[:3] == [beats, acknowledges, beats] and acknowledges not in gives_back[3:]
    gets = [each[1:] for each in sent if each[0] == second.member_id]
    assert gets[:2] == [joins, acknowledges] and gets.count(acknowledges) == 2  # First it has nothing, then its part.


@pytest.mark.parametrize("crashes_at", range(1, 60, 4))
def test_an_answer_that_is_lost_is_asked_for_again(tmp_path, crashes_at):
    """The coordinator crashes at any step of a reconciliation; the next heartbeat repeats everything."""
    world = World(tmp_path, "4.3.1", classic=0)
    poll_regularly(world.consumers, world.clock, crashes_at * 500, every_ms=500)
    world.crash()
    poll_regularly(world.consumers, world.clock, 60_000, every_ms=500)
    world.is_settled()


def test_the_new_coordinator_is_loading(tmp_path):
    """A member keeps its epoch and its partitions while no coordinator answers."""
    world = World(tmp_path, "4.3.1", classic=0)
    poll_regularly(world.consumers, world.clock, 30_000)
    before = [(each.member_epoch, each.assignment) for each in world.consumers]
    world.coordinator.resign(0)
    poll_regularly(world.consumers, world.clock, 10_000)
    assert world.coordinator.heartbeat("billing", 1, "nobody").value is Errors.NOT_COORDINATOR
    world.coordinator.elect(0, 1)
    poll_regularly(world.consumers, world.clock, 20_000)
    assert [(each.member_epoch, each.assignment) for each in world.consumers] == before


@pytest.mark.parametrize("classic", [1, 2])
def test_consumers_of_both_protocols_share_a_group(tmp_path, classic):
    """The classic ones are members of the consumer group, and both protocols give the partitions out together."""
    world = World(tmp_path, "4.3.1", assignor="range", classic=classic)
    poll_regularly(world.consumers[:classic], world.clock, 20_000, every_ms=1000)
    poll_regularly(world.consumers, world.clock, 60_000, every_ms=1000)
    world.is_settled()


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
