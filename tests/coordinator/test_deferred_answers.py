"""Answers of 4.x that wait for the log: each is a write operation, with records of its own or without.

GroupCoordinatorService and CoordinatorRuntime (4.3.1): a write without records waits for the last uncommitted batch of
its partition, one with records for its own. Before DeleteGroups deletes, a write for share groups has to be committed.
"""

import pytest

from kafkagroups.coordinator import (
    Clock,
    DiskLogs,
    Errors,
    HeldLogs,
    MemberIdentity,
    OffsetCommit,
    Settings,
    start_broker,
)
from tests.coordinator.conftest import ORDERS, TOPICS, Broker
from tests.coordinator.world import NOW

OTHER = Errors.COORDINATOR_NOT_AVAILABLE
"""What most requests get for an append that cannot be confirmed now."""
REQUESTS = {
    "Heartbeat": (1, lambda it, member: it.heartbeat("m", 1, member)),
    "stable OffsetFetch": (1, lambda it, member: it.offset_fetch("g", require_stable=True)),
    "LeaveGroup": (2, lambda it, member: it.leave_group("m", [member])),
    "OffsetDelete": (2, lambda it, member: it.offset_delete("g", [ORDERS])),
    "DeleteGroups": (2, lambda it, member: it.delete_groups(["g"])),
}
"""The appends that an answer waits for, after a commit of the group `g` that is not confirmed, and the request."""
MAPPED = {
    Errors.NOT_ENOUGH_REPLICAS: OTHER,
    Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
    Errors.MESSAGE_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.NETWORK_EXCEPTION: Errors.COORDINATOR_LOAD_IN_PROGRESS,
}
"""CoordinatorOperationExceptionHelper.handleOperationException."""
OWN_ERRORS = {
    ("Heartbeat", Errors.COORDINATOR_LOAD_IN_PROGRESS): Errors.NONE,
    ("stable OffsetFetch", OTHER): Errors.NOT_COORDINATOR,
}
"""GroupCoordinatorService.heartbeat, handleOffsetFetchException."""


def find_error(answer):
    """Return the error of the answer to any of the requests."""
    if isinstance(answer, dict):
        return answer["g"]
    return getattr(answer, "error", answer)


@pytest.fixture
def kafka(new_kafka):
    return new_kafka


@pytest.fixture(params=REQUESTS)
def sent(request, kafka):
    """A request after a commit that the log has not confirmed: its name, its appends and its response."""
    appends, send = REQUESTS[request.param]
    member = kafka.stable("m")
    kafka.commit("g", 1)
    kafka.hold()
    kafka.commit("g", 2)
    return request.param, appends, send(kafka.coordinator, member)


def test_the_answer_comes_when_the_log_has_confirmed_all_that_it_rests_on(kafka, sent):
    name, appends, response = sent
    for _ in range(appends):
        assert not response.done
        kafka.logs.release()
    assert find_error(response.value) is Errors.NONE
    if name == "stable OffsetFetch":
        assert response.value.offsets[ORDERS].offset == 2
    expected = {"OffsetDelete": {}, "DeleteGroups": {}}.get(name, {ORDERS: 2})
    assert kafka.fetch("g") == expected
    assert kafka.state("m") == ("Empty" if name == "LeaveGroup" else "Stable")


@pytest.mark.parametrize("error", MAPPED, ids=lambda error: error.name)
def test_the_answer_is_the_error_of_the_append_and_offsets_are_as_before(kafka, sent, error):
    """A classic group's members are plain memory, so a member that left stays away."""
    name, _, response = sent
    kafka.logs.release(0, error)
    assert find_error(response.value) is OWN_ERRORS.get((name, MAPPED[error]), MAPPED[error])
    assert kafka.fetch("g", stable=True) == {ORDERS: 1}
    assert kafka.state("m") == ("Empty" if name == "LeaveGroup" else "Stable")


def test_the_answer_waits_five_seconds_from_its_own_request(kafka, sent):
    """offsets.commit.timeout.ms, for each event. The first write of DeleteGroups fails, so the group stays."""
    name, _, response = sent
    kafka.clock.advance(4999)
    assert not response.done
    kafka.clock.advance(1)
    assert find_error(response.value) is OWN_ERRORS.get((name, OTHER), OTHER)
    while kafka.logs.held_appends:
        kafka.logs.release()
    assert kafka.fetch("g") == ({} if name == "OffsetDelete" else {ORDERS: 2})


def test_a_request_without_own_records_is_timed_from_its_arrival(kafka):
    member = kafka.stable("m")
    kafka.hold()
    commit = kafka.commit("g", 1)
    kafka.clock.advance(3000)
    heartbeat = kafka.coordinator.heartbeat("m", 1, member)
    kafka.clock.advance(2000)
    assert (commit.done, heartbeat.done) == (True, False)
    kafka.clock.advance(3000)
    assert heartbeat.value is OTHER


def test_an_append_that_is_refused_at_once(kafka):
    """The member that left is gone from memory, and back after a load."""
    member = kafka.stable("m")
    kafka.commit("g", 1)
    kafka.fail(Errors.NOT_LEADER_OR_FOLLOWER)
    it = kafka.coordinator
    answers = [it.leave_group("m", [member]), it.offset_delete("g", [ORDERS]), it.delete_groups(["g"])]
    assert [find_error(answer.value) for answer in answers] == 3 * [Errors.NOT_COORDINATOR]
    assert kafka.state("m") == "Empty"
    kafka.start()
    assert (kafka.state("m"), kafka.fetch("g")) == ("Stable", {ORDERS: 1})


def test_what_kafka_refuses_by_an_exception_is_answered_at_once(kafka):
    """CoordinatorWriteEvent.run: an exception completes the event; an error in the result waits like any other."""
    kafka.stable("m")
    kafka.hold()
    kafka.commit("g", 1)
    it = kafka.coordinator
    assert it.heartbeat("m", 7, "m-1").value is Errors.UNKNOWN_MEMBER_ID
    assert it.heartbeat("nobody", 1, "m").value is Errors.UNKNOWN_MEMBER_ID
    assert it.offset_delete("nobody", [ORDERS]).value.error is Errors.GROUP_ID_NOT_FOUND
    assert it.leave_group("nobody", ["m"]).value.members == ((MemberIdentity("m"), Errors.UNKNOWN_MEMBER_ID),)
    late = [it.leave_group("m", ["stranger"]), it.delete_groups(["nobody"])]
    assert not any(each.done for each in late)
    kafka.logs.release()
    assert late[0].value.members == ((MemberIdentity("stranger"), Errors.UNKNOWN_MEMBER_ID),)
    assert late[1].value == {"nobody": Errors.GROUP_ID_NOT_FOUND}


def test_groups_in_several_partitions_are_answered_together(tmp_path):
    logs = HeldLogs(DiskLogs(tmp_path), holds_answers=False)
    broker = start_broker(logs, Clock(NOW), Settings("4.3.1", offsets_topic_num_partitions=2), topics=TOPICS)
    groups = ["a", "b"]
    assert {broker.manager.partition_for(group) for group in groups} == {0, 1}
    for group in groups:
        broker.offset_commit(group, {ORDERS: OffsetCommit(1)})
    logs.holds_answers = True
    response = broker.delete_groups(["a", "b", "c", "d"])
    logs.release()
    assert not response.done
    logs.release(0, Errors.NOT_ENOUGH_REPLICAS)
    (left,) = (group for group in groups if broker.offset_fetch(group).value.offsets)
    failed = {group for group in "abcd" if broker.manager.partition_for(group) == broker.manager.partition_for(left)}
    unknown = {"c": Errors.GROUP_ID_NOT_FOUND, "d": Errors.GROUP_ID_NOT_FOUND}
    assert response.value == dict.fromkeys("ab", Errors.NONE) | unknown | dict.fromkeys(failed, OTHER)


@pytest.mark.parametrize("request_name", REQUESTS)
def test_up_to_3_9_the_answer_comes_at_once(tmp_path, request_name):
    kafka = Broker(tmp_path, "3.9.2", TOPICS, group_initial_rebalance_delay_ms=0)
    member = kafka.stable("m")
    kafka.commit("g", 1)
    kafka.logs.holds_answers = True
    kafka.commit("g", 2)
    _, send = REQUESTS[request_name]
    assert send(kafka.coordinator, member).done
