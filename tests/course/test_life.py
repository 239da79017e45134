"""The tools of lesson 06: the life of a group as steps, crashes in its script, and recorded conversations."""

import pytest

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.coordinator import DiskLogs, Errors, HeldLogs
from kafkagroups.course.group_life import continue_after_crash

CONVERSATIONS = ["1.0.1-expiry", "1.0.1-versions", "3.9.2-commits", "3.9.2-deletes", "3.9.2-expiry", "3.9.2-fetch"]


@pytest.mark.parametrize("name", [*CONVERSATIONS, "3.9.2-rebalance", "3.9.2-txn"])
def test_a_conversation_is_answered_and_written_as_by_the_broker(name):
    """The conversations that the lessons ship, request by request."""
    played = course.play_conversation(name)
    assert played.broker_version == name.partition("-")[0] and len(played.our_responses) > 30
    assert played.our_responses == played.broker_responses
    assert played.our_appends == played.broker_appends


@pytest.mark.parametrize("kafka", ["3.9.2", "4.3.1"])
def test_the_leader_dies_between_join_and_sync(kafka):
    """Its session ends 45 s after its last heartbeat (10 s), and the other member rebalances to generation 3.

    The refused commit of step 12 does not restart the session: doCommitOffsets (3.9), CompletingRebalance.
    """
    life = course.play_script(course.TWO_CONSUMERS[:12], kafka)
    for _ in continue_after_crash(life, "billing-1"):
        if life.read_state()[2] == ("billing-2-2",):
            break
    assert (life.now_s, life.describe()) == (55, "PreparingRebalance, generation 2, 1 member")
    for _ in continue_after_crash(life, "billing-1"):
        pass
    assert life.describe() == "Stable, generation 3, 1 member"
    assert life.log_lines[-1][1:] == ("group", "billing", None, 3, None)


@pytest.mark.parametrize("acts", range(1, len(course.TWO_CONSUMERS) + 1))
def test_the_group_comes_to_rest_without_one_consumer(acts):
    """Whenever somebody dies: at the end it is no member, and the group is Stable or Empty."""
    for name in course.play_script(course.TWO_CONSUMERS[:acts]).consumers:
        life = course.play_script(course.TWO_CONSUMERS[:acts])
        dead = life.consumers[name].member_id
        for _ in continue_after_crash(life, name):
            pass
        state, _, members = life.read_state()
        assert state in ("Stable", "Empty") and dead not in members


@pytest.mark.parametrize(("kafka", "at_s"), [("1.0.1", 52), ("2.8.2", 307), ("3.9.2", 307)])
def test_a_leader_that_only_sends_heartbeats(kafka, at_s):
    """Up to 2.6.0 such a heartbeat does not restart the session. Since 2.8.1 the sync timeout ends the wait.

    Source: GroupCoordinator.handleHeartbeat, CompletingRebalance (tags 1.0.1, 2.3.0, 2.6.0, 2.6.1, 2.7.0, 2.8.1).
    """
    life = course.play_script(course.TWO_CONSUMERS[:13], kafka)
    while life.consumers["billing-2"].waiting_for and life.now_s < 900:
        life.wait(3)
        came = life.now_s
        life.heartbeat("billing-1")
    assert (round(came) if not life.consumers["billing-2"].waiting_for else None) == at_s


@pytest.mark.parametrize("kafka", ["3.9.2", "4.3.1"])
@pytest.mark.parametrize(
    ("step", "in_memory", "before"),
    [
        (14, "CompletingRebalance, generation 2, 2 members", "Stable, generation 1, 1 member"),
        (20, "Empty, generation 4, no members", "Stable, generation 3, 1 member"),
    ],
)
def test_a_groups_record_may_reach_the_next_coordinator_before_it_is_confirmed(kafka, step, in_memory, before):
    """storeGroup (3.9): Stable when the append has come back; Empty before it is made (onCompleteJoin)."""
    logs = HeldLogs(DiskLogs(course.make_scratch_folder()), holds_answers=False)
    life = course.play_script(course.TWO_CONSUMERS[: step - 1], kafka, course.start_broker(logs, kafka))
    end_offset = len(life.log_lines)
    logs.holds_answers = True
    request = course.TWO_CONSUMERS[step - 1]
    getattr(life, request.method)(*request.arguments)
    assert life.describe() == in_memory

    def load(end_offset=None):
        return course.GroupLife(broker=course.start_follower(life.coordinator, "billing", end_offset)).describe()

    with_record = load()
    assert load(end_offset) == before
    logs.release()
    assert life.describe() == with_record == load()


@pytest.mark.parametrize(
    ("kafka", "answer"), [("3.9.2", "REBALANCE_IN_PROGRESS"), ("4.3.1", "COORDINATOR_NOT_AVAILABLE")]
)
def test_the_members_of_a_late_record_join_again(kafka, answer):
    """storeGroup (3.9) and CoordinatorOperationExceptionHelper (4.3.1); the next coordinator loads the record."""
    logs = HeldLogs(DiskLogs(course.make_scratch_folder()), holds_answers=False)
    life = course.play_script(course.TWO_CONSUMERS[:13], kafka, course.start_broker(logs, kafka))
    logs.holds_answers = True
    assert life.sync("billing-1")[1] == "waits"
    life.coordinator.clock.after(5_000, lambda: logs.release(error=Errors.REQUEST_TIMED_OUT))
    answers = [f"{name}'s SyncGroup → {answer}" for name in ("billing-2", "billing-1")]
    assert life.wait(5)[1] == "; ".join([*answers, "now PreparingRebalance, generation 2, 2 members"])
    loaded = course.GroupLife(broker=course.start_follower(life.coordinator, "billing"))
    assert loaded.describe() == "Stable, generation 2, 2 members"


def test_a_returning_static_leader_sends_no_assignments():
    """3.9.2-static 7: skipAssignment for a leader; its SyncGroup is answered with the share that it had."""
    life = course.start_two_vans()
    life.join("van-1", instance="van-1", new_process=True)
    assert life.events[-1].response == "generation 2, range, you lead 2 members, skip_assignment"
    life.sync("van-1")
    assert (life.events[-1].request, life.events[-1].written_lines) == ("SyncGroup", [])
    with pytest.raises(kg.UsageError, match="no record at offset 99"):
        life.read_record(99)


def test_the_silent_member_is_removed_and_its_commit_refused():
    """A member that is not in the group gets UNKNOWN_MEMBER_ID, also in a rebalance (conversation 3.9.2-commits 44)."""
    life = course.run_silent_member()
    state, generation, members = life.read_state()
    assert (state, generation, members) == ("PreparingRebalance", 2, (life.consumers["billing-1"].member_id,))
    life.commit("billing-2", {"orders-2": 20})
    assert life.events[-1].response == "UNKNOWN_MEMBER_ID"


def test_the_copied_van_is_the_exercises(capsys):
    """Only one instance has more than one member id in the records."""
    life = course.run_duplicate_static_member()
    ids = {}
    for line in life.log_lines:
        if line.record_type == "group":
            for member in life.read_record(line.record_offset).value.members:
                ids.setdefault(member.group_instance_id, set()).add(member.member_id)
    [copied] = [name for name, each in ids.items() if len(each) > 1]
    course.check("copied", copied)
    assert capsys.readouterr().out.startswith("✓")
