"""Joining, syncing, leaving, failing: rows E12 to E17, and every check of a member's requests.

Sources: Kafka 3.9's GroupCoordinator (GC), GroupMetadata (GMD), T at the end: its tests; the recorded conversations.
"""

import pytest

from kafkagroups.coordinator import Clock, Errors, Settings, start_broker
from tests.coordinator.conftest import ORDERS, subscription
from tests.coordinator.world import NOW

READS = [("range", subscription("orders"))]


def error_of(answer):
    return answer.value.error


def test_a_new_member_is_first_given_its_id(kafka):
    """KIP-394, GC.doDynamicNewMemberJoinGroup: the id is pending, the group Empty and listed, nothing is written."""
    response = kafka.coordinator.join_group("g", protocols=READS).value
    assert (response.error, response.generation) == (Errors.MEMBER_ID_REQUIRED, -1)
    group = kafka.group("g")
    assert (list(group.pending_members), group.members, kafka.records()) == ([response.member_id], {}, [])
    assert (kafka.state("g"), kafka.listed()) == ("Empty", {"g"})
    joined = kafka.coordinator.join_group("g", protocols=READS, member_id=response.member_id).value
    assert (joined.error, joined.generation, joined.leader) == (Errors.NONE, 1, response.member_id)


@pytest.mark.parametrize(("version", "static"), [("1.0.1", False), ("3.9.2", True)])
def test_not_before_2_2_and_not_a_static_member(broker, version, static):
    """KIP-394, KIP-345: they are members immediately."""
    kafka = broker(version)
    answer = kafka.coordinator.join_group("g", protocols=READS, group_instance_id="i" if static else None)
    assert error_of(answer) is Errors.NONE


def static(kafka, instance="i", **more):
    return kafka.coordinator.join_group("g", protocols=READS, group_instance_id=instance, **more).value


def test_if_the_record_fails_the_old_id_is_back(kafka):
    """GCT.staticMemberRejoin...PersistenceFailure: its heartbeats go on."""
    old = kafka.stable("g", group_instance_id="i")
    kafka.logs.append_error = Errors.MESSAGE_TOO_LARGE
    assert static(kafka).error is Errors.UNKNOWN_SERVER_ERROR
    assert kafka.coordinator.heartbeat("g", 1, old, group_instance_id="i").value is Errors.NONE


def test_up_to_3_1_a_returning_leader_gets_the_old_id_as_leader(broker):
    """2.8.2-static 7: and no members."""
    kafka = broker("2.8.2")
    old = kafka.stable("g", group_instance_id="i")
    response = static(kafka)
    assert (response.leader, response.members, response.skip_assignment) == (old, (), False)


def test_the_last_member_leaves(kafka):
    """GMDT.testInitNextGenerationEmptyGroup: generation 2, Empty, no protocol, no leader, a record without members."""
    kafka.coordinator.leave_group("g", [kafka.stable("g")])
    group = kafka.group("g")
    assert (group.generation, kafka.state("g"), group.protocol, group.leader) == (2, "Empty", None, None)
    assert kafka.records()[-1] == [("g", 2)]
    value = kafka.group("g").build_record_value({})
    assert (value.generation, value.protocol_type, value.members) == (2, "consumer", ())


def test_the_leaders_sync_is_written_then_the_group_is_stable(kafka):
    """GC.doSyncGroup: the follower waits; the record holds the assignments, and then both are answered."""
    leader = kafka.stable("g")
    joining = kafka.join("g")
    kafka.join("g", leader)
    follower = joining.value.member_id
    waiting = kafka.coordinator.sync_group("g", 2, follower)
    assert not waiting.done
    kafka.logs.holds_answers = True
    answer = kafka.coordinator.sync_group("g", 2, leader, {leader: b"1", follower: b"2"})
    assert (kafka.state("g"), answer.done, waiting.done) == ("CompletingRebalance", False, False)
    kafka.logs.release()
    assert (kafka.state("g"), answer.value.assignment, waiting.value.assignment) == ("Stable", b"1", b"2")


def test_a_member_may_sync_in_the_callback_of_its_join(kafka):
    """Its SyncGroup is sent while the joins are being answered: it has synced, and does not time out later."""
    leader = kafka.stable("g", session_ms=60_000)
    joining = kafka.join("g", session_ms=60_000)
    syncs = []
    joining.then(lambda result: syncs.append(kafka.coordinator.sync_group("g", 2, result.member_id)))
    kafka.join("g", leader, session_ms=60_000)
    kafka.coordinator.sync_group("g", 2, leader, {})
    kafka.clock.advance(30_000)
    assert (syncs[0].done, kafka.state("g"), kafka.group("g").generation) == (True, "Stable", 2)


def test_an_answer_that_comes_too_late_changes_nothing(kafka):
    """GC.doSyncGroup: the callback looks whether the generation is still that one, and awaited."""
    leader = kafka.join("g").value.member_id
    kafka.logs.holds_answers = True
    kafka.coordinator.sync_group("g", 1, leader, {leader: b"1"})
    kafka.join("g")
    assert kafka.state("g") == "PreparingRebalance"
    kafka.logs.release()
    assert kafka.state("g") == "PreparingRebalance"


@pytest.mark.parametrize(
    ("votes", "chosen"),
    [
        (["ab", "ab", "ba"], "a"),  # the majority
        (["ab", "bc", "bc"], "b"),  # what all support, whatever is voted for
        (["abc", "cab", "ca"], "c"),  # b is not supported by all; c has two votes, a has one
    ],
)
def test_members_vote_for_a_protocol(kafka, votes, chosen):
    """GMDT.testSelectProtocol: each votes for the first of its protocols that everybody supports; most votes win."""
    joins = [kafka.join("g", protocols=[(name, b"") for name in votes[0]])]
    first = joins[0].value.member_id
    joins += [kafka.join("g", protocols=[(name, b"") for name in wanted]) for wanted in votes[1:]]
    answer = kafka.join("g", first, protocols=[(name, b"") for name in votes[0]])
    assert answer.value.protocol == chosen


def test_a_member_id_that_was_not_handed_out_is_unknown(kafka):
    """GC.doCurrentMemberJoinGroup: of an unknown group, of a known one."""
    assert error_of(kafka.join("none", "m")) is Errors.UNKNOWN_MEMBER_ID
    kafka.stable("g")
    assert error_of(kafka.join("g", "m")) is Errors.UNKNOWN_MEMBER_ID


def test_a_group_has_its_largest_size(broker):
    """group.max.size, KIP-389; maxsize 7: a member that is there may join again."""
    kafka = broker(group_max_size=1)
    member_id = kafka.stable("g")
    assert error_of(kafka.join("g")) is Errors.GROUP_MAX_SIZE_REACHED
    assert kafka.join("g", member_id).value.generation == 2


def test_a_member_that_joins_again_unchanged(kafka):
    """GC.doCurrentMemberJoinGroup: a follower in Stable learns the generation, a leader begins a rebalance."""
    leader = kafka.stable("g")
    joining = kafka.join("g")
    kafka.join("g", leader)
    follower = joining.value.member_id
    kafka.coordinator.sync_group("g", 2, leader, {})
    assert kafka.join("g", follower).value.generation == 2
    assert not kafka.join("g", leader).done
    assert kafka.state("g") == "PreparingRebalance"


def test_a_sync_is_checked(kafka):
    """GC.validateSyncGroup, KIP-559; refusals: member, generation, protocol, and the state last."""
    member_id = kafka.stable("g")
    sync = kafka.coordinator.sync_group
    assert error_of(sync("none", 1, member_id)) is Errors.UNKNOWN_MEMBER_ID
    assert error_of(sync("g", 1, "m")) is Errors.UNKNOWN_MEMBER_ID
    assert error_of(sync("g", 2, member_id)) is Errors.ILLEGAL_GENERATION
    assert error_of(sync("g", 1, member_id, protocol="sticky")) is Errors.INCONSISTENT_GROUP_PROTOCOL
    assert error_of(sync("g", 1, member_id, protocol_type="connect")) is Errors.INCONSISTENT_GROUP_PROTOCOL
    assert sync("g", 1, member_id, protocol_type="consumer", protocol="range").value.assignment == b"mine"
    kafka.join("g")
    assert error_of(sync("g", 1, member_id)) is Errors.REBALANCE_IN_PROGRESS


def test_a_member_without_heartbeats_is_removed(kafka):
    """GC.onExpireHeartbeat; 1.0.1-facts `f-timeout`: the same record as after a leave."""
    kafka.stable("g", session_ms=10_000)
    kafka.clock.advance(9_999)
    assert kafka.state("g") == "Stable"
    kafka.clock.advance(1)
    assert (kafka.state("g"), kafka.records()[-1]) == ("Empty", [("g", 2)])


def test_a_member_that_does_not_join_again_is_removed(kafka):
    """GC.onCompleteJoin: at the rebalance timeout, the largest of all members (GMDT, rebalanceTimeoutMs)."""
    first = kafka.stable("g", session_ms=60_000, rebalance_ms=20_000)
    answer = kafka.join("g", rebalance_ms=5_000)
    kafka.clock.advance(19_999)
    kafka.coordinator.heartbeat("g", 1, first)
    assert not answer.done
    kafka.clock.advance(1)
    assert (answer.value.generation, len(answer.value.members)) == (2, 1)


def test_the_initial_delay_waits_for_more_members(broker):
    """group.initial.rebalance.delay.ms, 3.9.2-votes 2: again if a member came during the delay, and only then (65)."""
    kafka = broker(group_initial_rebalance_delay_ms=3_000)
    first = kafka.join("g")
    kafka.clock.advance(1_000)
    second = kafka.join("g")
    kafka.clock.advance(4_999)
    assert not first.done
    kafka.clock.advance(1)
    assert (first.value.generation, len(first.value.members), second.value.generation) == (1, 2, 1)
    lonely = kafka.join("h")
    kafka.clock.advance(3_000)
    assert lonely.done


def test_a_leave_ends_the_wait_of_the_others(kafka):
    """GC.removeMemberAndUpdateGroup: in PreparingRebalance it may be what the join was waiting for."""
    first = kafka.stable("g")
    answer = kafka.join("g")
    kafka.coordinator.leave_group("g", [first])
    assert answer.value.generation == 2


def test_a_crash_keeps_what_is_in_the_record(kafka):
    """GC.onGroupLoaded: members are there, and must send a heartbeat within a session."""
    member_id = kafka.stable("g", session_ms=10_000)
    kafka.commit("g", 1, member_id=member_id, generation=1)
    kafka.start()
    assert (kafka.state("g"), kafka.fetch("g")) == ("Stable", {ORDERS: 1})
    assert kafka.coordinator.heartbeat("g", 1, member_id).value is Errors.NONE
    kafka.clock.advance(10_000)
    assert kafka.state("g") == "Empty"


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_a_restart_repeats_no_member_id_of_the_log(tmp_path, version):
    """A broker's ids have a random part. Here the ids of a later start pass over all that the log names."""
    settings = Settings(version, offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
    given = []
    for start in range(3):
        broker = start_broker(tmp_path, Clock(NOW + start), settings, topic_ids={"orders": "Jlm7tiTSTTyzsN-NaMyQPQ"})
        options = {"protocols": [("range", b"")], "client_id": "c", "require_known_member_id": False}
        joined = broker.join_group("classic", **options).value
        broker.sync_group("classic", joined.generation, joined.member_id, {joined.member_id: b""})
        broker.leave_group("classic", [joined.member_id])
        fields = {"rebalance_timeout_ms": 1, "subscribed_topic_names": ["orders"], "topic_partitions": {}}
        beaten = broker.consumer_group_heartbeat("g", "", 0, client_id="c", version=0, **fields).value
        given += [joined.member_id, *([beaten.member_id] if beaten.member_id else [])]
        broker.manager.logs.close()
    assert given == [f"c-{number}" for number in range(1, len(given) + 1)]
    assert len(given) == (6 if version == "4.3.1" else 3)
