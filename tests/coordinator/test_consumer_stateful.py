"""Random members of one consumer group, of both protocols, with time, changed topics, restarts and cleanings.

Appends are answered at once, late, or with an error. After each step, the group that the coordinator has confirmed is
the group that a load of the confirmed log gives, and each partition has at most one owner. In the end, members of the
new protocol reach their targets.
"""

import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis.strategies as st
from hypothesis import given, settings as profile

from kafkagroups.coordinator import Errors, HeldLogs
from kafkagroups.groups.living_groups import ClassicGroup, LivingShard
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.replay import replay_batches
from tests.coordinator.consumer_world import IDS, World
from tests.coordinator.world import SMALL_SEGMENT, clean, subscription

LONG = os.environ.get("KG_PROFILE") == "long"
NAMES = ["a", "b", "c", "d"]
FAILURES = [Errors.NOT_ENOUGH_REPLICAS, Errors.NOT_LEADER_OR_FOLLOWER, Errors.MESSAGE_TOO_LARGE]
RETRIED = (Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR, Errors.UNKNOWN_SERVER_ERROR)
"""The errors of a failed append, after which a member stays what it was."""
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
        st.tuples(st.just("fail"), st.sampled_from([Errors.NONE, *FAILURES])),
        st.tuples(st.just("hold"), st.booleans()),
        st.tuples(st.just("release"), st.integers(0, 5), st.sampled_from([Errors.NONE, *FAILURES])),
    ),
    max_size=40,
)


class Members(World):
    """The clients: each remembers its epoch and what it owns, as the last answer said."""

    def __init__(self, folder, kafka):
        self.epochs = {}
        self.owned = {}
        super().__init__(folder, kafka)

    def start(self):
        self.disk = getattr(self, "disk", self.logs)
        self.disk.segment_bytes = SMALL_SEGMENT
        self.logs = HeldLogs(self.disk, holds_answers=False)
        super().start()

    def do(self, step):
        kind, *details = step
        getattr(self, f"do_{kind.replace(' ', '_')}")(*details)

    def send(self, member_id, epoch, **fields):
        response = self.coordinator.consumer_group_heartbeat("g", member_id, epoch, **fields)
        response.then(partial(self.note, member_id))

    def note(self, member_id, answer):
        if answer.error in RETRIED:
            return
        if answer.error is not Errors.NONE or answer.member_epoch < 0:
            self.epochs.pop(member_id, None)
            self.owned.pop(member_id, None)
            return
        self.epochs[member_id] = answer.member_epoch
        if answer.assignment is not None:
            self.owned[member_id] = {topic: list(numbers) for topic, numbers in answer.assignment.items()}

    def do_join(self, member_id, names, assignor):
        self.owned[member_id] = {}
        self.join(member_id, names, server_assignor=assignor)

    def do_join_static(self, member_id, names, instance_id):
        self.owned[member_id] = {}
        self.join(member_id, names, instance_id=instance_id)

    def do_pattern(self, member_id, pattern):
        self.owned[member_id] = {}
        self.join(member_id, subscribed_topic_regex=pattern)

    def do_heartbeat(self, member_id, reports):
        if member_id in self.epochs:
            owned = self.owned.get(member_id, {}) if reports else None
            self.send(member_id, self.epochs[member_id], topic_partitions=owned)

    def do_leave(self, member_id, epoch):
        group = self.group()
        if isinstance(group, ModernGroup) and member_id in group.members:
            instance_id = group.members[member_id].metadata.instance_id
            self.send(member_id, epoch if instance_id else -1, instance_id=instance_id)

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
        if self.runtime.next_offset == self.confirmed_end == self.log_end:
            clean(self.disk, self.clock.now_ms, delete_retention_ms)

    def do_fail(self, error):
        self.logs.append_error = error

    def do_hold(self, holds):
        while not holds and self.logs.held_appends:
            self.logs.release()
        self.logs.holds_answers = holds

    def do_release(self, number, error):
        """Answer a held append. The batch is in the log, so it fails only with its leader, and is loaded again."""
        if self.logs.held_appends:
            self.logs.release(number % len(self.logs.held_appends), error)
            if error is not Errors.NONE:
                self.do_fail_over()

    @property
    def runtime(self):
        return self.coordinator.manager.find_runtime("g")

    @property
    def confirmed_end(self):
        return min((each.base_offset for each in self.runtime._unconfirmed), default=self.runtime.next_offset)

    @property
    def log_end(self):
        return max((batch.next_offset for batch in self.disk.read(0)), default=0)

    def group(self):
        return self.runtime.shard.groups.get("g")


def check(world):
    runtime = world.runtime
    assert runtime.next_offset == world.log_end
    loaded = LivingShard(0, runtime.dialect, now_ms=world.clock.now_ms)
    replay_batches(loaded, [batch for batch in world.disk.read(0) if batch.next_offset <= world.confirmed_end])
    assert loaded.failure is None
    with runtime.shard.committed():
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
            world.disk.close()


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
            world.do_fail(Errors.NONE)
            world.do_hold(False)
            for _ in range(5):  # Who was fenced meanwhile has no epoch, and its session ends.
                for member_id in list(world.epochs):
                    world.do_heartbeat(member_id, True)
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
            world.disk.close()
