"""Random requests, failing and late appends, crashes and time: after each step Kafka's invariants hold.

The fast profile makes 10,000 steps, the long one a million. Whatever a rule draws, it is something that a client, a
replica or an operator can do.
"""

import logging
import os
import shutil
import tempfile

import hypothesis.strategies as st
import pytest
from hypothesis import settings as profile
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkagroups.coordinator import Errors, MemberIdentity, OffsetCommit, ResponseFuture, TopicPartition
from tests.coordinator.world import World, note_changes, positions, subscription
from tools.handbook_pages.facts import read_transitions

LONG = os.environ.get("KG_PROFILE") == "long"
STEPS = 50
EXAMPLES = 27_000 if LONG else 270
TOPICS = {"orders": 2, "clicks": 1}
PARTITIONS = [TopicPartition(topic, n) for topic, count in TOPICS.items() for n in range(count)]
SESSION_MS = 10_000
REBALANCE_MS = 20_000
RETENTION_MS = 60_000
LEGAL = {each.change for each in read_transitions().transitions["classic"]}
"""GroupMetadata.validPreviousStates (3.9)."""
FAILURES = [
    Errors.REQUEST_TIMED_OUT,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Errors.NOT_LEADER_OR_FOLLOWER,
    Errors.MESSAGE_TOO_LARGE,
]

group_ids = st.sampled_from(["billing", "stock"])
someone = st.integers(0, 5)
some = st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3, unique=True)
producers = st.sampled_from([7, 8])


class Coordinator(RuleBasedStateMachine):
    """One broker, two groups, clients that remember their member id and generation, two producers."""

    @initialize(
        version=st.sampled_from(["1.0.1", "2.8.2", "3.9.2", "3.9.2"]),
        max_size=st.sampled_from([2, 100]),
        delay_ms=st.sampled_from([0, 0, 3_000]),
    )
    def begin(self, version, max_size, delay_ms):
        self.folder = tempfile.mkdtemp(prefix="kafkagroups-")
        self.world = World(
            self.folder,
            version,
            TOPICS,
            group_max_size=max_size,
            offsets_retention_ms=RETENTION_MS,
            group_initial_rebalance_delay_ms=delay_ms,
        )
        self.members = []  # [group id, member id, generation, instance id, leads]
        self.waiting = []  # (answer, what was asked)
        self.dropped = []  # responses that never come: Kafka forgets the SyncGroup of a member that leaves
        self.generations = {}
        self.answered_twice = []
        self.commits = 0
        self.epoch = 0
        logging.getLogger("kafkagroups.coordinator").disabled = True
        self.watch()

    def watch(self):
        """Note each transition, and each response that is completed a second time."""
        self.patch = pytest.MonkeyPatch()
        self.transitions = note_changes(self.patch)
        complete = ResponseFuture.complete

        def watched_complete(answer, value):
            if answer.done:
                self.answered_twice.append((answer, value))
            complete(answer, value)

        self.patch.setattr(ResponseFuture, "complete", watched_complete)

    @property
    def coordinator(self):
        return self.world.coordinator

    def since(self, *version):
        return self.world.settings.is_at_least(*version)

    # Members

    @rule(
        group_id=group_ids, who=someone, static=st.booleans(), topic=st.sampled_from(list(TOPICS)), both=st.booleans()
    )
    def join(self, group_id, who, static, topic, both):
        """A known member joins again, with what it reads now, or a new one comes."""
        mine = [member for member in self.members if member[0] == group_id and not self.hanging(member)]
        member = mine[who] if who < len(mine) else [group_id, "", -1, None, False]
        if not member[1] and static and self.since(2, 3):
            member[3] = f"instance-{who % 2}"
        self.send_join(member, topic, both)

    def send_join(self, member, topic="orders", both=True):
        metadata = subscription(topic)
        protocols = [("range", metadata), ("roundrobin", metadata)] if both else [("range", metadata)]
        answer = self.coordinator.join_group(
            member[0],
            protocols=protocols,
            member_id=member[1],
            group_instance_id=member[3],
            client_id="c",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )
        self.waiting.append((answer, member))

        def joined(result):
            known = any(each is member for each in self.members)
            if result.error is Errors.MEMBER_ID_REQUIRED:
                self.members.append([member[0], result.member_id, -1, None, False])
            elif result.error is Errors.NONE:
                member[1:3] = [result.member_id, result.generation]
                member[4] = bool(result.members)
                if not known:
                    self.members.append(member)
            elif known and result.error in (Errors.UNKNOWN_MEMBER_ID, Errors.FENCED_INSTANCE_ID):
                self.members[:] = [each for each in self.members if each is not member]

        answer.then(joined)

    @rule(group_id=group_ids, new=st.booleans(), leader_syncs=st.booleans())
    def rebalance(self, group_id, new, leader_syncs):
        """All members join, and one more; then all sync, maybe except the leader."""
        if new:
            self.send_join([group_id, "", -1, None, False])
        for member in [each for each in self.members if each[0] == group_id and not self.hanging(each)]:
            self.send_join(member)
        for number, member in enumerate(self.members):
            if member[0] == group_id and (leader_syncs or not member[4]):
                self.sync(number, False, True)

    def hanging(self, member):
        return [answer for answer, asked in self.waiting if asked is member and not answer.done]

    @precondition(lambda self: self.members)
    @rule(who=someone, old=st.booleans(), all_of_it=st.booleans())
    def sync(self, who, old, all_of_it):
        """A member asks for its assignment; a leader brings everybody's, or forgets somebody."""
        member = self.members[who % len(self.members)]
        group_id, member_id, generation, instance, leads = member
        if self.hanging(member):
            return
        group = self.world.group(group_id)
        names = list(group.members) if group and leads else []
        assignments = {name: b"mine" for name in (names if all_of_it else names[:1])}
        answer = self.coordinator.sync_group(
            group_id, generation - old, member_id, assignments, group_instance_id=instance
        )
        self.waiting.append((answer, member))

    @precondition(lambda self: self.members)
    @rule(who=someone, old=st.booleans())
    def heartbeat(self, who, old):
        group_id, member_id, generation, instance, _ = self.members[who % len(self.members)]
        self.coordinator.heartbeat(group_id, generation - old, member_id, group_instance_id=instance)

    @precondition(lambda self: self.members)
    @rule(who=someone, by_instance=st.booleans())
    def leave(self, who, by_instance):
        member = self.members.pop(who % len(self.members))
        self.dropped += self.hanging(member)
        by_instance = by_instance and member[3] is not None
        leaving = MemberIdentity("" if by_instance else member[1], member[3] if self.since(2, 3) else None)
        self.coordinator.leave_group(member[0], [leaving])

    # Commits

    def offsets(self, partitions):
        """Every committed offset is another one, so that it tells where it comes from."""
        self.commits += 1
        return {each: OffsetCommit(self.commits * 10 + n) for n, each in enumerate(partitions)}

    @rule(group_id=group_ids, who=someone, as_member=st.booleans(), partitions=some)
    def commit(self, group_id, who, as_member, partitions):
        member = {}
        if as_member and self.members:
            group_id, member_id, generation, instance, _ = self.members[who % len(self.members)]
            member = {"member_id": member_id, "generation": generation, "group_instance_id": instance}
        self.waiting.append((self.coordinator.offset_commit(group_id, self.offsets(partitions), **member), None))

    @rule(group_id=group_ids, partitions=some, metadata=st.sampled_from(["", "", "x" * 4097]))
    def commit_with_metadata(self, group_id, partitions, metadata):
        """The first partition with metadata that may be too large."""
        offsets = self.offsets(partitions)
        if self.since(3, 8):  # before, what was too large stayed pending: test_live_and_loaded.py
            offsets[partitions[0]] = OffsetCommit(offsets[partitions[0]].offset, metadata)
        self.waiting.append((self.coordinator.offset_commit(group_id, offsets), None))

    @rule(group_id=group_ids, producer=producers, partitions=some)
    def commit_in_a_transaction(self, group_id, producer, partitions):
        answer = self.coordinator.txn_offset_commit(
            group_id, self.offsets(partitions), transactional_id="t", producer_id=producer, producer_epoch=0
        )
        self.waiting.append((answer, None))

    @rule(producer=producers, commits=st.booleans())
    def end_a_transaction(self, producer, commits):
        """A marker is written when everything of its producer has been answered."""
        while self.world.logs.held_appends:
            self.world.logs.release()
        self.world.logs.logs.append_marker(0, producer, 0, commits=commits, timestamp=self.world.clock.now_ms)
        self.coordinator.transaction_completed(producer, [0], commits=commits)
        for group in self.world.groups():
            self.world.ledgers[group].ended(producer, commits)

    # The log

    @rule(holds=st.booleans())
    def hold_answers(self, holds):
        self.world.logs.holds_answers = holds
        if not holds:
            while self.world.logs.held_appends:
                self.world.logs.release()

    @rule(error=st.sampled_from([Errors.NONE, Errors.NONE, Errors.NOT_ENOUGH_REPLICAS, Errors.MESSAGE_TOO_LARGE]))
    def refuse_appends(self, error):
        self.world.logs.append_error = error

    @precondition(lambda self: self.world.logs.held_appends)
    @rule(number=st.integers(0, 3), error=st.sampled_from([Errors.NONE, Errors.NONE, *FAILURES]))
    def answer_an_append(self, number, error):
        """In any order; an error although the record is in the log."""
        self.world.logs.release(number % len(self.world.logs.held_appends), error)

    # Deleting

    @rule(group_id=group_ids)
    def delete_group(self, group_id):
        group = self.world.group(group_id)
        if self.since(1, 1) and self.coordinator.delete_groups([group_id]).value[group_id] is Errors.NONE:
            self.world.remove(group, PARTITIONS)

    @rule(group_id=group_ids, partitions=some)
    def delete_offsets(self, group_id, partitions):
        group = self.world.group(group_id)
        if group is not None and self.since(2, 4):
            response = self.coordinator.offset_delete(group_id, partitions).value.partitions
            self.world.remove(group, [each for each, error in response.items() if error is Errors.NONE])

    @rule(topic=st.sampled_from(list(TOPICS)))
    def delete_topic(self, topic):
        """Its offsets are deleted; the topic is created again immediately."""
        gone = [each for each in PARTITIONS if each.topic == topic]
        groups = self.world.groups()
        self.coordinator.partitions_deleted(gone)
        for group in groups:
            self.world.remove(group, gone)

    @rule()
    def sweep(self):
        seen = len(self.world.appends)
        self.coordinator.manager.delete_expired()
        for made in self.world.appends[seen:]:
            self.world.ledgers[made.group].expired(made.tombstones)

    # Time and accidents

    @rule(ms=st.sampled_from([1, 500, 3_000, SESSION_MS, REBALANCE_MS, RETENTION_MS, 300_000]))
    def time_goes_on(self, ms):
        self.world.clock.advance(ms)

    @rule()
    def crash(self):
        """The broker dies; the next one knows what is in the log."""
        self.a_load_knows_the_same()
        self.world.start()
        self.waiting.clear()

    @rule()
    def move_away_and_back(self):
        self.coordinator.resign(0)
        self.epoch += 1
        self.world.elect(self.epoch)

    # What is asked changes nothing

    @rule(group_id=group_ids, stable=st.booleans())
    def fetch(self, group_id, stable):
        """An offset is the committed one; with requireStable one with anything on its way is unstable."""
        group = self.world.group(group_id)
        named = self.coordinator.offset_fetch(group_id, PARTITIONS, require_stable=stable).value.offsets
        ledger = self.world.ledgers[group] if group else None
        for each, there in named.items():
            waiting = ledger and (each in ledger.pending or any(each in it for it in ledger.transactions.values()))
            committed = ledger and ledger.committed.get(each)
            if stable and waiting:
                assert (there.error, there.offset) == (Errors.UNSTABLE_OFFSET_COMMIT, -1)
            else:
                assert (there.error, there.offset) == (Errors.NONE, committed[1] if committed else -1)
        everything = self.coordinator.offset_fetch(group_id).value.offsets
        assert set(everything) == set(ledger.committed if ledger else ())

    @rule()
    def describe_and_list(self):
        _, listed = self.coordinator.list_groups()
        assert {each.group_id for each in listed} == {group.group_id for group in self.world.groups()}
        for response in self.coordinator.describe_groups(["billing", "stock"]):
            group = self.world.group(response.group_id)
            assert {each.member_id for each in response.members} == set(group.members if group else ())

    # Invariants

    steps = 0

    @invariant()
    def only_legal_transitions(self):
        Coordinator.steps += 1
        while getattr(self, "transitions", None):
            assert self.transitions.pop() in LEGAL

    @invariant()
    def every_request_is_answered_once(self):
        assert not getattr(self, "answered_twice", None)

    @invariant()
    def groups_are_whole(self):
        for group in self.world.groups() if hasattr(self, "world") else ():
            assert group.generation >= self.generations.get(group, 0)
            self.generations[group] = group.generation
            assert group.leader in group.members if group.members else group.leader is None
            assert not group.pending_members.keys() & group.members.keys()
            statics = {each.group_instance_id: name for name, each in group.members.items() if each.group_instance_id}
            assert group.static_members == statics
            assert all(member.member_id == name for name, member in group.members.items())
            assert group.pending_sync <= group.members.keys()
            with_members = ("PreparingRebalance", "CompletingRebalance", "Stable")
            assert group.state.value in (with_members if group.members else ("Empty", "PreparingRebalance"))

    @invariant()
    def offsets_are_the_newest_that_were_answered(self):
        for group in self.world.groups() if hasattr(self, "world") else ():
            ledger = self.world.ledgers[group]
            assert positions(group.offsets.committed) == ledger.committed
            assert {each: there.offset for each, there in group.offsets.pending.items()} == ledger.pending
            waiting = {producer: positions(there) for producer, there in group.offsets.transactions.items()}
            assert waiting == ledger.transactions

    @rule()
    def a_load_knows_the_same(self):
        """Except where Kafka's own does not: docs/live-and-loaded.md."""
        found = self.world.differences()
        assert not found, found

    def teardown(self):
        """In quiet time every request that waits is answered, and what is in memory is in the log."""
        if not hasattr(self, "world"):
            return
        try:
            self.world.logs.append_error = Errors.NONE
            self.hold_answers(False)
            self.a_load_knows_the_same()
            self.world.clock.advance(10 * 300_000)
            for answer, _ in self.waiting:
                assert answer.done or answer in self.dropped, "a request was never answered"
            self.offsets_are_the_newest_that_were_answered()
        finally:
            self.patch.undo()
            logging.getLogger("kafkagroups.coordinator").disabled = False
            shutil.rmtree(self.folder)


@pytest.mark.slow
class TestCoordinator(Coordinator.TestCase):
    settings = profile(max_examples=EXAMPLES, stateful_step_count=STEPS)

    def runTest(self):
        Coordinator.steps = 0
        super().runTest()
        assert Coordinator.steps >= (1_000_000 if LONG else 10_000)
