"""Random requests, failing and late appends, crashes, cleanings and time against 4.x: live and loaded agree.

After each step, a coordinator that loads the confirmed part of the log knows exactly the offsets that this one has
confirmed, and the same groups. The differences are Kafka's own, and they are named in `groups_differ`.
"""

import copy
import logging
import os
import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings as profile
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkagroups.coordinator import Errors, OffsetCommit, TopicPartition
from kafkagroups.groups.group import ClassicState as State
from kafkagroups.groups.living_groups import ClassicGroup, LivingShard
from kafkagroups.groups.replay import replay_batches
from tests.coordinator.conftest import TOO_LARGE, NewBroker
from tests.coordinator.world import SMALL_SEGMENT, clean, membership, subscription

LONG = os.environ.get("KG_PROFILE") == "long"
TOPICS = {"orders": 2, "clicks": 1}
PARTITIONS = [TopicPartition(topic, n) for topic, count in TOPICS.items() for n in range(count)]
FAILURES = [Errors.NOT_ENOUGH_REPLICAS, Errors.NOT_LEADER_OR_FOLLOWER, Errors.MESSAGE_TOO_LARGE]

group_ids = st.sampled_from(["billing", "stock"])
some = st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3, unique=True)
someone = st.integers(0, 5)


class NewCoordinator(RuleBasedStateMachine):
    """One broker, two groups, clients that remember their member id and generation, two producers."""

    @initialize(version=st.sampled_from(["4.3.1", "4.4.0"]), max_size=st.sampled_from([2, 100]))
    def begin(self, version, max_size):
        logging.getLogger("kafkagroups.coordinator").disabled = True
        self.folder = tempfile.mkdtemp(prefix="kafkagroups-")
        self.broker = NewBroker(
            Path(self.folder),
            version,
            group_max_size=max_size,
            offsets_retention_ms=60_000,
            group_initial_rebalance_delay_ms=0,
        )
        self.broker.disk.segment_bytes = SMALL_SEGMENT
        self.members = []  # [group id, member id, generation, instance id]
        self.group_record_failed = False
        self.commits = 0

    @property
    def coordinator(self):
        return self.broker.coordinator

    @property
    def runtime(self):
        return self.coordinator.manager.find_runtime("any")

    @property
    def log_end(self):
        return max((batch.next_offset for batch in self.broker.disk.read(0)), default=0)

    # Members

    @rule(group_id=group_ids, who=someone, static=st.booleans(), topic=st.sampled_from(list(TOPICS)))
    def join(self, group_id, who, static, topic):
        mine = [member for member in self.members if member[0] == group_id]
        instance_id = f"instance-{who % 2}" if static else None
        member = mine[who] if who < len(mine) else [group_id, "", -1, instance_id]
        if not any(member is each for each in self.members):
            self.members.append(member)

        def joined(result):
            if result.error in (Errors.NONE, Errors.MEMBER_ID_REQUIRED):
                member[1:3] = result.member_id, result.generation
            elif result.error is Errors.UNKNOWN_MEMBER_ID:
                member[1] = ""

        for _ in range(2):  # With KIP-394, the first JoinGroup only brings the member id.
            self.coordinator.join_group(
                group_id,
                protocols=[("range", subscription(topic))],
                member_id=member[1],
                group_instance_id=member[3],
                session_timeout_ms=10_000,
                rebalance_timeout_ms=20_000,
            ).then(joined)

    @precondition(lambda self: self.members)
    @rule(who=someone, leaves=st.booleans(), beats=st.booleans())
    def sync_beat_or_leave(self, who, leaves, beats):
        group_id, member_id, generation, instance_id = self.members[who % len(self.members)]
        if beats:
            self.coordinator.heartbeat(group_id, max(generation, 0), member_id, group_instance_id=instance_id)
        elif leaves:
            self.coordinator.leave_group(group_id, [member_id])
        else:
            everyone = {member[1]: b"mine" for member in self.members}
            self.coordinator.sync_group(
                group_id, max(generation, 0), member_id, everyone, group_instance_id=instance_id
            )

    # Offsets

    @rule(group_id=group_ids, partitions=some, producer=st.sampled_from([-1, 7, 8]), too_large=st.booleans())
    def commit(self, group_id, partitions, producer, too_large):
        self.commits += 1
        members = [member for member in self.members if member[0] == group_id]
        member = {"generation": max(members[0][2], 0), "member_id": members[0][1]} if members else {}
        offsets = {each: OffsetCommit(self.commits) for each in partitions}
        if too_large:
            offsets[partitions[0]] = OffsetCommit(self.commits, TOO_LARGE)
        if producer == -1:
            self.coordinator.offset_commit(group_id, offsets, **member)
        else:
            transaction = {"transactional_id": "t", "producer_id": producer, "producer_epoch": 0}
            self.coordinator.txn_offset_commit(group_id, offsets, **transaction)

    @rule(producer=st.sampled_from([7, 8]), commits=st.booleans())
    def end(self, producer, commits):
        self.broker.end(producer, commits=commits)

    @rule(group_id=group_ids, partitions=some, whole=st.booleans(), topic=st.booleans())
    def delete(self, group_id, partitions, whole, topic):
        if topic:
            self.coordinator.partitions_deleted(partitions)
        elif whole:
            self.coordinator.delete_groups([group_id])
        else:
            self.coordinator.offset_delete(group_id, partitions)

    @rule(ms=st.sampled_from([1, 4_000, 11_000, 70_000]))
    def sweep_later(self, ms):
        self.broker.clock.advance(ms)
        self.coordinator.manager.delete_expired()

    # The log and the broker

    @rule(error=st.sampled_from([Errors.NONE, *FAILURES]))
    def appends_fail_or_not(self, error):
        self.broker.logs.append_error = error
        self.group_record_failed |= error is not Errors.NONE

    @rule(holds=st.booleans())
    def hold(self, holds):
        while not holds and self.broker.logs.held_appends:
            self.broker.logs.release()
        self.broker.logs.holds_answers = holds

    @precondition(lambda self: self.broker.logs.held_appends)
    @rule(number=someone, error=st.sampled_from([Errors.NONE, Errors.NONE, Errors.REQUEST_TIMED_OUT, *FAILURES]))
    def release(self, number, error):
        self.group_record_failed |= error is not Errors.NONE
        self.broker.logs.release(number % len(self.broker.logs.held_appends), error)

    @rule(fails_over=st.booleans())
    def crash_or_fail_over(self, fails_over):
        if fails_over:
            self.coordinator.resign(0)
            self.coordinator.elect(0, 0)
        else:
            self.broker.start()
        self.broker.logs.held_appends.clear()
        self.group_record_failed = self.broker.logs.append_error is not Errors.NONE

    @precondition(lambda self: not self.runtime._unconfirmed and self.runtime.next_offset == self.log_end)
    @rule(delete_retention_ms=st.sampled_from([0, 86_400_000]))
    def clean(self, delete_retention_ms):
        """The cleaner stops at what the replicas have not confirmed, so only a log without that is cleaned."""
        clean(self.broker.disk, self.broker.clock.now_ms, delete_retention_ms)

    # What holds

    @invariant()
    def live_and_loaded_agree(self):
        if not hasattr(self, "broker") or self.runtime.next_offset != self.log_end:
            return  # A batch that failed is in the log: the next append finds it, and the partition is loaded again.
        confirmed = min((each.base_offset for each in self.runtime._unconfirmed), default=self.runtime.next_offset)
        loaded = LivingShard(0, self.runtime.dialect, now_ms=self.broker.clock.now_ms)
        replay_batches(loaded, [batch for batch in self.broker.disk.read(0) if batch.next_offset <= confirmed])
        assert loaded.failure is None
        with self.runtime.shard.committed():
            live = self.runtime.shard
            assert live.offsets.committed == loaded.offsets.committed
            assert nonempty(live.offsets.pending) == nonempty(loaded.offsets.pending)
            assert live.offsets.producers_by_group_partition == loaded.offsets.producers_by_group_partition
            for group_id in live.groups.keys() | loaded.groups.keys():
                assert not self.groups_differ(live.groups.get(group_id), loaded.groups.get(group_id))

    def groups_differ(self, live: ClassicGroup | None, loaded: ClassicGroup | None):
        if live is None:
            return True
        if loaded is None:  # No record was written for it, or only records of a failed append.
            return live.group_id in self.runtime.shard.offsets.committed
        written = live.state in (State.STABLE, State.EMPTY)
        if not written or self.group_record_failed or self.runtime._unconfirmed:
            return False  # The state of a rebalance is in no record, and a failed record changes nothing in memory.
        return membership(live) != membership(loaded)

    @invariant()
    def a_state_that_was_shown_is_put_back(self):
        if hasattr(self, "broker"):
            shard = self.runtime.shard
            before = (
                dict(shard.groups),
                *copy.deepcopy((shard.offsets.committed, shard.offsets.producers_by_group_partition)),
            )
            with shard.committed():
                pass
            assert before == (shard.groups, shard.offsets.committed, shard.offsets.producers_by_group_partition)

    def teardown(self):
        logging.getLogger("kafkagroups.coordinator").disabled = False
        if hasattr(self, "broker"):
            self.broker.disk.close()
            shutil.rmtree(self.folder)


def nonempty(pending):
    """Return the pending offsets by producer and group, without the producers and groups that have none any more."""
    found = {
        producer: {group: offsets for group, offsets in groups.items() if offsets}
        for producer, groups in pending.items()
    }
    return {producer: groups for producer, groups in found.items() if groups}


TestNewCoordinator = NewCoordinator.TestCase
TestNewCoordinator.settings = profile(max_examples=20_000 if LONG else 60, stateful_step_count=40, deadline=None)
