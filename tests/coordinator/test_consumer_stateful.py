"""Random members of one consumer group, of both protocols, with time, changed topics, restarts and cleanings.

After each step, the group that the coordinator has is the group that a load of its log gives, and each partition has at
most one owner. In the end, members of the new protocol reach their targets.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis.strategies as st
from hypothesis import given, settings as profile

from kafkagroups.coordinator import Errors
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.living_shard import LivingShard
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.replay import replay_batches
from tests.coordinator.test_consumer_groups import IDS, World
from tests.coordinator.world import SMALL_SEGMENT, clean, subscription

LONG = os.environ.get("KG_PROFILE") == "long"
NAMES = ["a", "b", "c", "d"]
topics = st.sampled_from([("orders",), ("clicks",), ("clicks", "orders"), ()])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.sampled_from(NAMES), topics, st.sampled_from([None, "uniform", "range"])),
        st.tuples(st.just("join static"), st.sampled_from(NAMES), topics, st.sampled_from(["i", "j"])),
        st.tuples(st.just("pattern"), st.sampled_from(NAMES), st.sampled_from(["o.*", ".*"])),
        st.tuples(st.just("heartbeat"), st.sampled_from(NAMES), st.booleans()),
        st.tuples(st.just("leave"), st.sampled_from(NAMES), st.sampled_from([-1, -2])),
        st.tuples(st.just("classic"), st.sampled_from(NAMES), topics),
        st.tuples(st.just("grow"), st.sampled_from(list(IDS))),
        st.tuples(st.just("wait"), st.integers(1, 50_000)),
        st.tuples(st.just("restart")),
        st.tuples(st.just("fail over")),
        st.tuples(st.just("clean"), st.sampled_from([0, 86_400_000])),
    ),
    max_size=40,
)


class Members(World):
    """The clients: each remembers its epoch and what it owns."""

    def __init__(self, folder, kafka):
        super().__init__(folder, kafka)
        self.logs.segment_bytes = SMALL_SEGMENT
        self.epochs = {}
        self.owned = {}

    def do(self, step):
        kind, *details = step
        getattr(self, f"do_{kind.replace(' ', '_')}")(*details)

    def note(self, member_id, answer):
        if answer.error is not Errors.NONE or answer.member_epoch < 0:
            self.epochs.pop(member_id, None)
            self.owned.pop(member_id, None)
            return
        self.epochs[member_id] = answer.member_epoch
        if answer.assignment is not None:
            self.owned[member_id] = {topic: list(numbers) for topic, numbers in answer.assignment.items()}

    def do_join(self, member_id, names, assignor):
        self.owned[member_id] = {}
        self.note(member_id, self.join(member_id, names, server_assignor=assignor))

    def do_join_static(self, member_id, names, instance_id):
        self.owned[member_id] = {}
        self.note(member_id, self.join(member_id, names, instance_id=instance_id))

    def do_pattern(self, member_id, pattern):
        self.owned[member_id] = {}
        self.note(member_id, self.join(member_id, subscribed_topic_regex=pattern))

    def do_heartbeat(self, member_id, reports):
        if member_id in self.epochs:
            owned = self.owned.get(member_id, {}) if reports else None
            self.note(member_id, self.send(member_id, self.epochs[member_id], topic_partitions=owned))

    def do_leave(self, member_id, epoch):
        group = self.group()
        if isinstance(group, ModernGroup) and member_id in group.members:
            instance_id = group.members[member_id].metadata.instance_id
            self.note(member_id, self.send(member_id, epoch if instance_id else -1, instance_id=instance_id))

    def do_classic(self, member_id, names):
        group = self.group()
        if isinstance(group, ModernGroup) and not group.members:
            return  # Kafka's own difference: test_a_refused_classic_member_removes_an_empty_group_from_memory_only
        self.coordinator.join_group(
            "g", protocols=[("range", subscription(*names))], member_id=member_id, session_timeout_ms=10_000
        )

    def do_grow(self, name):
        self.topics[name] += 1

    def do_wait(self, ms):
        self.clock.advance(ms)

    def do_restart(self):
        self.start()

    def do_fail_over(self):
        self.coordinator.resign(0)
        self.coordinator.elect(0)

    def do_clean(self, delete_retention_ms):
        clean(self.logs, self.clock.now_ms, delete_retention_ms)

    def group(self):
        return self.coordinator.manager.find_runtime("g").shard.groups.get("g")


def check(world):
    runtime = world.coordinator.manager.find_runtime("g")
    loaded = LivingShard(0, runtime.dialect, now_ms=world.clock.now_ms)
    replay_batches(loaded, world.logs.read(0))
    assert loaded.failure is None
    group = world.group()
    if isinstance(group, ModernGroup):
        assert loaded.groups["g"] == group
        owners = [
            (topic.topic_id, number)
            for member in group.members.values()
            if member.assignment is not None
            for part in (member.assignment.assigned_partitions, member.assignment.partitions_pending_revocation)
            for topic in part
            for number in topic.partitions
        ]
        assert len(owners) == len(set(owners))
    elif isinstance(group, ClassicGroup):
        assert not isinstance(loaded.groups.get("g"), ModernGroup)


@given(steps, st.sampled_from(["4.3.1", "4.4.0"]))
@profile(max_examples=2_000 if LONG else 25, deadline=None)
def test_the_living_group_is_the_loaded_one(steps, kafka):
    with TemporaryDirectory(prefix="kafkagroups-") as folder:
        world = Members(Path(folder) / "log", kafka)
        try:
            for step in steps:
                world.do(step)
                check(world)
        finally:
            world.logs.close()


@given(steps)
@profile(max_examples=500 if LONG else 15, deadline=None)
def test_members_that_follow_reach_their_targets(steps):
    """When nothing else changes, some heartbeats of all members make the group Stable."""
    with TemporaryDirectory(prefix="kafkagroups-") as folder:
        world = Members(Path(folder) / "log", "4.3.1")
        try:
            for step in steps:
                if step[0] not in ("classic", "join static", "wait"):
                    world.do(step)
            world.clock.advance(10_001)
            for _ in range(12):
                for member_id in list(world.epochs):
                    world.do_heartbeat(member_id, True)
                    world.clock.advance(1)
            if world.epochs:
                described = world.describe()
                assert described.state == "Stable"
                for each in described.members:
                    owned = {topic: set(numbers) for topic, numbers in each.owned.items()}
                    assert owned == {topic: set(numbers) for topic, numbers in each.target.items()}
        finally:
            world.logs.close()
