"""The runtime of 4.x: what the log has not confirmed, failed appends, groups without records, loads that fail.

No conversation was recorded with a log that fails or answers late, so these rules come from Kafka's source
(CoordinatorRuntime, 4.3.1). What a client of a healthy broker sees is in tests/replay.
"""

import pytest

import kafkagroups as kg
from kafkagroups.coordinator import Errors, NewBatch, OffsetCommit, Settings, start_broker
from tests.coordinator.conftest import CLICKS, ORDERS, ORDERS_1, TOO_LARGE, TOPICS
from tests.coordinator.world import NOW, subscription
from tests.handmade import GroupMetadataKey


@pytest.fixture
def kafka(new_kafka):
    return new_kafka


# What the log has not confirmed


def test_a_group_is_described_and_listed_when_its_first_record_is_confirmed(kafka):
    kafka.hold()
    kafka.commit("g", 1)
    assert (kafka.state("g"), kafka.listed()) == ("Dead", set())
    kafka.logs.release()
    assert (kafka.state("g"), kafka.listed()) == ("Empty", {"g"})


def test_after_five_seconds_the_client_gets_an_error_and_the_records_stay(kafka):
    """offsets.commit.timeout.ms: the log may still confirm them, and a later batch does."""
    kafka.hold()
    answer = kafka.commit("g", 1)
    kafka.clock.advance(5000)
    assert kafka.error(answer) == {Errors.COORDINATOR_NOT_AVAILABLE}
    assert kafka.fetch("g") == {}
    kafka.commit("g", 2, ORDERS_1)
    kafka.logs.release(1)
    assert kafka.fetch("g") == {ORDERS: 1, ORDERS_1: 2}


def test_a_batch_that_is_confirmed_after_a_later_one_has_been_confirmed_with_it(kafka):
    kafka.hold()
    answers = [kafka.commit("g", 1), kafka.commit("g", 2)]
    kafka.logs.release(1)
    assert [kafka.error(each) for each in answers] == 2 * [{Errors.NONE}]
    kafka.logs.release(0)
    assert kafka.fetch("g") == {ORDERS: 2}


# Failed appends


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (Errors.NOT_ENOUGH_REPLICAS, Errors.COORDINATOR_NOT_AVAILABLE),
        (Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.COORDINATOR_NOT_AVAILABLE),
        (Errors.NOT_LEADER_OR_FOLLOWER, Errors.NOT_COORDINATOR),
        (Errors.KAFKA_STORAGE_ERROR, Errors.NOT_COORDINATOR),
        (Errors.MESSAGE_TOO_LARGE, Errors.UNKNOWN_SERVER_ERROR),
        (Errors.INVALID_PRODUCER_EPOCH, Errors.INVALID_PRODUCER_EPOCH),
        (Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        (Errors.REQUEST_TIMED_OUT, Errors.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_failed_commit_is_taken_back(kafka, error, answered):
    """CoordinatorOperationExceptionHelper: the error that the client gets. The earlier offset is there again."""
    kafka.commit("g", 1)
    kafka.fail(error)
    assert kafka.error(kafka.commit("g", 2)) == {answered}
    assert kafka.fetch("g", stable=True) == {ORDERS: 1}
    kafka.fail(Errors.NONE)
    assert kafka.error(kafka.commit("g", 3)) == {Errors.NONE}
    assert kafka.fetch("g") == {ORDERS: 3}


def test_a_failed_first_commit_takes_its_group_back(kafka):
    kafka.fail()
    kafka.commit("g", 1)
    kafka.fail(Errors.NONE)
    kafka.commit("other", 1)
    assert kafka.listed() == {"other"}


def test_the_batches_after_a_failed_one_fail_with_it(kafka):
    """They were built on its state. In the log they stand all the same here, so the partition is loaded again."""
    kafka.hold()
    answers = [kafka.commit("g", 1), kafka.commit("g", 2, CLICKS)]
    kafka.logs.release(0, Errors.NOT_ENOUGH_REPLICAS)
    assert [kafka.error(each) for each in answers] == 2 * [{Errors.COORDINATOR_NOT_AVAILABLE}]
    assert kafka.fetch("g", stable=True) == {}
    kafka.logs.holds_answers = False
    assert kafka.error(kafka.commit("g", 3)) == {Errors.NOT_COORDINATOR}
    assert kafka.fetch("g") == {ORDERS: 3, CLICKS: 2}


def test_a_record_of_another_program_makes_the_coordinator_load_again(kafka):
    """The offset of the next batch is not the expected one: the state is out of sync with the log."""
    kafka.commit("g", 1)
    tombstone = kg.encode(kg.Record(2, GroupMetadataKey("g"), None, None))
    kafka.disk.append(0, NewBatch([tombstone], NOW), lambda error, offset: None)
    assert kafka.error(kafka.commit("other", 1)) == {Errors.NOT_COORDINATOR}
    assert kafka.listed() == {"other"}
    assert kafka.error(kafka.commit("g", 2)) == {Errors.NONE}


def test_the_record_of_a_new_group_that_fails(kafka):
    """The member keeps the id that it got, but there is no group: it must join anew."""
    kafka.fail()
    joined = kafka.coordinator.join_group("g", protocols=[("range", b"")]).value
    assert joined.error is Errors.MEMBER_ID_REQUIRED
    kafka.fail(Errors.NONE)
    again = kafka.coordinator.join_group("g", protocols=[("range", b"")], member_id=joined.member_id).value
    assert again.error is Errors.UNKNOWN_MEMBER_ID


def test_a_join_that_still_waits_gets_the_error_of_the_new_groups_record(make_new):
    kafka = make_new(group_initial_rebalance_delay_ms=3000)
    kafka.fail()
    joined = kafka.join("g", require_known_member_id=False).value
    assert (joined.error, joined.member_id) == (Errors.COORDINATOR_NOT_AVAILABLE, "")


def test_the_record_of_the_leaders_assignment_fails(kafka):
    """All waiting SyncGroups get the error, and the members must join again."""
    joined = kafka.join("g").value
    kafka.fail()
    answer = kafka.coordinator.sync_group("g", 1, joined.member_id, {joined.member_id: b"mine"})
    assert (answer.value.error, kafka.state("g")) == (Errors.COORDINATOR_NOT_AVAILABLE, "PreparingRebalance")


def test_the_record_of_a_replaced_static_member_fails(kafka):
    """The member has its old id and its old protocols again."""
    member_id = kafka.stable("g", group_instance_id="i")
    kafka.fail()
    replaced = kafka.join("g", group_instance_id="i", topics=("clicks",)).value
    assert (replaced.error, replaced.member_id) == (Errors.COORDINATOR_NOT_AVAILABLE, "")
    group = kafka.group("g")
    assert (list(group.members), group.static_members) == ([member_id], {"i": member_id})
    assert kafka.coordinator.heartbeat("g", 1, member_id).value is Errors.NONE
    assert group.members[member_id].protocols == [("range", subscription("orders"))]


# Groups without records


@pytest.mark.parametrize("commit", ["commit", "txn_commit"])
def test_a_group_of_a_refused_commit_shows_with_the_next_batch_of_the_partition(kafka, commit):
    """4.3.1-txn2 48: Dead at first, then Empty and listed until the restart."""
    options = {"transactional_id": "t", "producer_id": 7, "producer_epoch": 0} if commit == "txn_commit" else {}
    verb = kafka.coordinator.txn_offset_commit if options else kafka.coordinator.offset_commit
    answer = verb("ghost", {ORDERS: OffsetCommit(1, TOO_LARGE)}, **options)
    assert kafka.error(answer) == {Errors.OFFSET_METADATA_TOO_LARGE}
    assert (kafka.state("ghost"), kafka.listed()) == ("Dead", set())
    kafka.commit("other", 1)
    assert (kafka.state("ghost"), kafka.listed()) == ("Empty", {"ghost", "other"})
    kafka.start()
    assert kafka.listed() == {"other"}


def test_a_transactional_commit_has_the_time_of_the_coordinator(kafka):
    """A TxnOffsetCommit has no timestamp, unlike an OffsetCommit v1 (OffsetAndMetadata.fromRequest, 4.3.1)."""
    answer = kafka.coordinator.txn_offset_commit(
        "g", {ORDERS: OffsetCommit(5, timestamp=7)}, transactional_id="t", producer_id=7, producer_epoch=0
    )
    assert kafka.error(answer) == {Errors.NONE}
    *_, batch = kafka.read(0)
    (record,) = batch.records
    assert kg.decode(record.key, record.value).value.commit_timestamp == kafka.clock.now_ms


def test_a_sweep_deletes_a_group_without_records_too(kafka):
    kafka.coordinator.offset_commit("ghost", {ORDERS: OffsetCommit(1, TOO_LARGE)})
    kafka.coordinator.start_expiration(1000)
    kafka.clock.advance(1000)
    assert kafka.records()[-1] == [("ghost", None)]
    assert kafka.listed() == set()


def test_tombstones_that_do_not_fit_into_one_batch(make_new):
    """cleanupGroupMetadata and onTopicsDeleted are not atomic: their records may stand in several batches."""
    kafka = make_new()
    kafka.commit("g", 1, ORDERS, ORDERS_1, CLICKS)
    kafka.disk.max_message_bytes = 110
    assert kafka.coordinator.partitions_deleted([ORDERS, ORDERS_1, CLICKS]) == 3
    assert sorted(len(batch) for batch in kafka.records()[1:]) == [1, 2]
    assert kafka.fetch("g") == {}


# Load and unload


def test_after_a_failed_load_every_request_is_refused_until_the_next_election(kafka):
    """A classic coordinator answers with what it has loaded; the new one does not."""
    kafka.commit("g", 1)
    broken = (b"\x00\x03\x00\x01g", b"\x00")  # Type 3, a consumer group, with a value that is too short.
    kafka.disk.append(0, NewBatch([broken], NOW), lambda error, offset: None)
    kafka.start()
    assert kafka.error(kafka.commit("g", 2)) == {Errors.NOT_COORDINATOR}
    assert kafka.coordinator.offset_fetch("g").value.error is Errors.NOT_COORDINATOR
    assert kafka.coordinator.list_groups() == (Errors.NONE, [])
    assert kafka.coordinator.find_coordinator("g") == (Errors.NONE, 0)


def test_a_broker_that_resigns_answers_what_waits(kafka):
    kafka.hold()
    commit = kafka.commit("g", 1)
    joined = kafka.coordinator.join_group("h", protocols=[("range", b"")], require_known_member_id=False)
    kafka.coordinator.resign(0)
    assert kafka.error(commit) == {Errors.NOT_COORDINATOR}
    assert joined.done
    assert kafka.error(kafka.commit("g", 1)) == {Errors.NOT_COORDINATOR}
    kafka.coordinator.elect(0, 1)
    assert kafka.fetch("g") == {ORDERS: 1}


def test_sessions_start_anew_after_a_load_and_a_group_that_is_too_large_rebalances(make_new):
    kafka = make_new(group_max_size=2)
    first = kafka.join("g").value
    second = kafka.join("g")
    kafka.join("g", member_id=first.member_id)
    ids = [first.member_id, second.value.member_id]
    kafka.coordinator.sync_group("g", 2, ids[0], {each: b"" for each in ids})
    kafka.settings = Settings("4.3.1", offsets_topic_num_partitions=1, group_max_size=1)
    kafka.start()
    assert kafka.state("g") == "PreparingRebalance"
    kafka.clock.advance(10_000)
    assert kafka.state("g") == "Empty"


# Where the rules for members differ from those of 3.9: GroupMetadataManager, and the recorded conversations


def test_the_initial_delay_starts_again_in_every_generation(make_new):
    """addMemberThenRebalanceOrCompleteJoin: 3.9 does this in generation 0 only."""
    kafka = make_new(group_initial_rebalance_delay_ms=1000)
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


def test_a_member_id_that_expires_can_end_the_initial_delay(make_new):
    """removePendingMemberAndUpdateClassicGroup: the rest has joined, so the delay is over."""
    kafka = make_new(group_initial_rebalance_delay_ms=10_000)
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


def test_a_member_that_does_not_fit_ends_no_rebalance(make_new):
    """3.9 looks once more whether all members have joined; 4.x waits for the rebalance timeout."""
    kafka = make_new(group_max_size=1)
    member_id = kafka.stable("g")
    kafka.join("g", member_id, topics=("clicks",))
    assert kafka.state("g") == "CompletingRebalance"
    refused = kafka.join("g").value
    assert (refused.error, refused.member_id) == (Errors.GROUP_MAX_SIZE_REACHED, "")


# Where the rules for commits differ from those of 3.9


@pytest.mark.parametrize(("knows", "error"), [(True, Errors.GROUP_ID_NOT_FOUND), (False, Errors.ILLEGAL_GENERATION)])
def test_a_member_of_an_unknown_group_commits(kafka, knows, error):
    """4.3.1-commits 25 (v9), 41 (v8): no group is made."""
    answer = kafka.commit("g", 1, generation=1, member_id="m", supports_group_not_found=knows)
    assert kafka.error(answer) == {error}
    kafka.commit("other", 1)
    assert kafka.listed() == {"other"}


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
