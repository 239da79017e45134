"""Where the rules of 4.x for members and commits differ from those of 3.9.

Sources: GroupMetadataManager, OffsetMetadataManager (4.3.1), and the recorded conversations.
"""

import pytest

import kafkagroups as kg
from kafkagroups.coordinator import Errors, start_broker
from tests.coordinator.conftest import ORDERS, ORDERS_1, TOPICS


@pytest.fixture
def make(make_new):
    return make_new


@pytest.fixture
def kafka(new_kafka):
    return new_kafka


def test_the_initial_delay_starts_again_in_every_generation(make):
    """addMemberThenRebalanceOrCompleteJoin: 3.9 does this in generation 0 only."""
    kafka = make(group_initial_rebalance_delay_ms=1000)
    kafka.join("g")
    kafka.clock.advance(1000)
    (member,) = kafka.coordinator.describe_groups(["g"])[0].members
    kafka.coordinator.leave_group("g", [member.member_id])
    kafka.join("g")
    kafka.clock.advance(500)
    kafka.join("g")
    kafka.clock.advance(500)
    assert kafka.state("g") == "PreparingRebalance"
    kafka.clock.advance(1000)
    assert kafka.state("g") == "CompletingRebalance"


def test_members_that_leave_together_are_removed_before_the_group_goes_on(kafka):
    """classicGroupLeaveToClassicGroup (4.3.1): one of them that waits for the next generation does not get it."""
    leader = kafka.stable("g")
    joining = kafka.join("g")
    kafka.join("g", leader)
    kafka.coordinator.sync_group("g", 2, leader, {leader: b"", joining.value.member_id: b""})
    waiting = kafka.join("g", leader)
    assert not waiting.done
    left = kafka.coordinator.leave_group("g", [joining.value.member_id, leader]).value
    assert [error for _, error in left.members] == [Errors.NONE, Errors.NONE]
    assert waiting.value.error is Errors.UNKNOWN_MEMBER_ID
    assert kafka.state("g") == "Empty"


def test_a_pending_member_that_leaves_starts_a_rebalance(kafka):
    """classicGroupLeaveToClassicGroup (4.3.1) counts it among the members that left; 3.9 does not rebalance."""
    member_id = kafka.stable("g")
    refused = kafka.coordinator.join_group("g", protocols=[("range", b"")], session_timeout_ms=6000).value
    kafka.coordinator.leave_group("g", [refused.member_id])
    assert kafka.state("g") == "PreparingRebalance"
    assert kafka.coordinator.describe_groups(["g"])[0].members[0].member_id == member_id


def test_a_member_id_that_expires_can_end_the_initial_delay(make):
    """removePendingMemberAndUpdateClassicGroup: the rest has joined, so the delay is over."""
    kafka = make(group_initial_rebalance_delay_ms=10_000)
    kafka.join("g", rebalance_ms=60_000)
    kafka.coordinator.join_group("g", protocols=[("range", b"")], session_timeout_ms=6000)
    kafka.clock.advance(6000)
    assert kafka.state("g") == "CompletingRebalance"


def test_a_sync_in_a_stable_group_does_not_restart_the_session(kafka):
    member_id = kafka.stable("g", session_ms=10_000)
    kafka.clock.advance(9000)
    kafka.coordinator.sync_group("g", 1, member_id)
    kafka.clock.advance(1000)
    assert kafka.state("g") == "Empty"


def test_a_member_that_does_not_fit_ends_no_rebalance(make):
    """3.9 looks once more whether all members have joined; 4.x waits for the rebalance timeout."""
    kafka = make(group_max_size=1)
    member_id = kafka.stable("g")
    kafka.join("g", member_id, topics=("clicks",))
    assert kafka.state("g") == "CompletingRebalance"
    refused = kafka.join("g").value
    assert (refused.error, refused.member_id) == (Errors.GROUP_MAX_SIZE_REACHED, "")


@pytest.mark.parametrize(
    ("loading", "errors"),
    [(True, (14, 14, 0, 14)), (False, (16, 16, 16, 16))],
)
def test_the_answers_while_the_partition_is_not_ready(kafka, loading, errors):
    """SyncGroup is told to wait, as all requests but Heartbeat are; 3.9 answers REBALANCE_IN_PROGRESS."""
    kafka.coordinator.resign(0)
    if loading:
        kafka.coordinator.manager.loading.add(0)
    answers = (
        kafka.coordinator.join_group("g", protocols=[("range", b"")], member_id="m").value.error,
        kafka.coordinator.sync_group("g", 1, "m").value.error,
        kafka.coordinator.heartbeat("g", 1, "m").value,
        kafka.coordinator.leave_group("g", ["m"]).value.error,
    )
    assert answers == errors


# Commits


@pytest.mark.parametrize(("knows", "error"), [(True, Errors.GROUP_ID_NOT_FOUND), (False, Errors.ILLEGAL_GENERATION)])
def test_a_member_of_an_unknown_group_commits(kafka, knows, error):
    """4.3.1-commits 25 (v9), 41 (v8): no group is made."""
    answer = kafka.commit("g", 1, generation=1, member_id="m", supports_group_not_found=knows)
    assert kafka.error(answer) == {error}
    kafka.commit("other", 1)
    assert kafka.listed() == {"other"}


@pytest.mark.parametrize(("version", "has_id"), [("4.3.1", False), ("4.4.0", True)])
def test_which_commits_contain_the_topic_id(make, version, has_id):
    """4.4.0-txn 5: a transactional commit contains it since 4.4, a plain one before."""
    kafka = make(version=version)
    topic_ids = {"orders": "ddMECflbQ9m8z9IQOAcpWw"}
    kafka.coordinator = start_broker(kafka.logs, kafka.clock, kafka.settings, topics=TOPICS, topic_ids=topic_ids)
    kafka.commit("g", 1)
    kafka.txn_commit("g", 2, ORDERS_1)
    kafka.end()
    kafka.disk.close()
    offsets = kg.load(kafka.folder, "new", kafka=version)["g"].offsets
    assert offsets[ORDERS].topic_id == topic_ids["orders"]
    assert offsets[ORDERS_1].topic_id == (topic_ids["orders"] if has_id else None)


def test_an_offset_of_an_earlier_topic_is_hidden_from_a_fetch_by_id(kafka):
    """OffsetMetadataManager.isMismatchedTopicId: by name, it does not matter."""
    topic_ids = {"orders": "ddMECflbQ9m8z9IQOAcpWw"}
    kafka.coordinator = start_broker(kafka.logs, kafka.clock, kafka.settings, topics=TOPICS, topic_ids=topic_ids)
    kafka.commit("g", 1)
    topic_ids["orders"] = "r0xrErGLThG2xzb3Snvhrg"
    assert kafka.fetch("g", ORDERS) == {ORDERS: 1}
    by_id = kafka.coordinator.offset_fetch("g", [ORDERS], by_topic_id=True).value
    assert by_id.offsets[ORDERS].offset == -1
    kafka.coordinator.partitions_deleted([ORDERS])
    assert kafka.fetch("g") == {ORDERS: 1}  # It was another topic.
