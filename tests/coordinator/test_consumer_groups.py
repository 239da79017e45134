"""Rules of consumer groups that the captured conversations do not show, or not alone (KIP-848)."""

import json
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups.coordinator import Errors, HeldLogs, OffsetCommit, TopicPartition
from tests.coordinator.consumer_world import IDS, World, owned
from tests.coordinator.world import subscription, write_assignment, write_subscription


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "log")


def test_a_partition_moves_only_after_its_owner_gave_it_back(world):
    """The owner stays in its epoch until it reports none of the partitions that it must give back."""
    assert world.join("a").assignment == {IDS["orders"]: {0: 2, 1: 2, 2: 2}}
    second = world.join("b")
    assert (second.member_epoch, second.assignment) == (3, {})
    first = world.send("a", 2, topic_partitions=owned(0, 1, 2))
    assert first.member_epoch == 2
    [kept] = first.assignment.values()
    revoked = {0, 1, 2} - set(kept)
    assert world.describe().state == "Reconciling"
    assert world.send("b", 3, topic_partitions={}).assignment is None
    world.written()
    assert world.send("a", 2, topic_partitions=owned(*kept, *revoked)).assignment is None
    assert world.written() == []
    assert world.send("a", 2, topic_partitions=owned(*kept)).member_epoch == 3
    assert set(world.send("b", 3, topic_partitions={}).assignment[IDS["orders"]]) == revoked
    assert world.written() == [[8], [8]]
    assert world.describe().state == "Stable"


def test_a_member_that_keeps_its_partitions_is_removed_at_the_rebalance_timeout(world):
    """Its heartbeats do not help. The timeout is the member's own, from the answer that asks it to give back."""
    world.join("a", timeout_ms=1_000)
    world.join("b")
    world.send("a", 2, topic_partitions=owned(0, 1, 2))
    world.clock.advance(900)
    world.send("a", 2, topic_partitions=owned(0, 1, 2))
    world.written()
    world.clock.advance(100)
    assert world.written() == [[-8, -7, -5, 3]]
    assert world.send("a", 2).error is Errors.UNKNOWN_MEMBER_ID
    assert set(world.send("b", 3, topic_partitions={}).assignment[IDS["orders"]]) == {0, 1, 2}


def test_a_load_starts_the_rebalance_timeout_anew(world):
    """GroupMetadataManager.onLoaded: for each member that must still give partitions back."""
    world.join("a", timeout_ms=1_000)
    world.join("b")
    world.send("a", 2, topic_partitions=owned(0, 1, 2))
    world.clock.advance(900)
    world.start()
    world.clock.advance(999)
    assert world.member_ids() == ["a", "b"]
    world.clock.advance(1)
    assert world.member_ids() == ["b"]


def test_a_rebalance_timeout_ends_only_the_epoch_for_which_it_was_started(world):
    """The timer of a member that goes on with the classic protocol is not cancelled (maybeReconcile)."""
    world.join("a", timeout_ms=1_000)
    world.join("b")
    [kept] = world.send("a", 2, topic_partitions=owned(0, 1, 2)).assignment.values()
    metadata = write_subscription(["orders"], [TopicPartition("orders", number) for number in kept], 2)
    joined = world.coordinator.join_group("g", protocols=[("range", metadata)], member_id="a").value
    assert (joined.error, joined.generation) == (Errors.NONE, 3)
    world.clock.advance(1_000)
    assert world.member_ids() == ["a", "b"]


def test_a_timeout_in_the_past_removes_the_member_after_the_answer(world):
    """A negative rebalance timeout is accepted. The answer comes first."""
    world.join("a", timeout_ms=-5)
    world.join("b")
    assert world.send("a", 2, topic_partitions=owned(0, 1, 2)).error is Errors.NONE
    assert len(world.describe().members) == 2
    world.clock.advance(1)
    assert world.member_ids() == ["b"]


def test_a_pattern_is_resolved_after_the_heartbeat(world):
    """The first heartbeat writes no group epoch. The next heartbeat after the resolution gets the partitions."""
    answer = world.join("a", subscribed_topic_regex="ord.*")
    assert (answer.member_epoch, answer.assignment) == (1, {})
    assert world.written() == [[5, 8]]
    world.clock.advance(1)
    assert world.written() == [[16, 3]]
    answer = world.send("a", 1, topic_partitions={})
    assert set(answer.assignment[IDS["orders"]]) == {0, 1, 2}
    assert world.written() == [[7, 6, 8]]


def test_patterns_are_resolved_at_most_every_ten_seconds(world):
    """A second pattern waits. Then all patterns are written again, also the one that has not changed."""
    world.join("a", subscribed_topic_regex="ord.*")
    world.clock.advance(1)
    world.send("a", 1, topic_partitions={})
    world.join("b", subscribed_topic_regex="cli.*")
    world.clock.advance(5_000)
    world.send("b", 2, topic_partitions={})
    world.written()
    world.clock.advance(5_000)
    world.send("b", 2, topic_partitions={})
    world.clock.advance(1)
    assert world.written() == [[16, 16, 3]]


def test_a_created_topic_is_found_by_the_next_resolution(world):
    """A new topic alone is a reason to resolve the patterns again, when a member sends a heartbeat."""
    world.join("a", subscribed_topic_regex="ord.*")
    world.clock.advance(1)
    world.send("a", 1, topic_partitions={})
    world.topics["orders-2"] = 1
    world.topic_ids["orders-2"] = "nxqHawnFR0atzTY1jrrS9g"
    world.clock.advance(10_000)
    world.written()
    world.send("a", 2, topic_partitions=owned(0, 1, 2))
    world.clock.advance(1)
    assert world.written() == [[16, 3]]
    assert set(world.send("a", 2).assignment) == {IDS["orders"], "nxqHawnFR0atzTY1jrrS9g"}


def test_a_pattern_that_nobody_has_gets_a_tombstone(world):
    """When its last member leaves or gives it up, even if it was never resolved."""
    world.join("a", subscribed_topic_regex="ord.*")
    world.written()
    world.send("a", 1, subscribed_topic_regex="cli.*", topic_partitions={})
    assert world.written() == [[5, -16, 8]]
    world.send("a", 1, subscribed_topic_regex="", topic_partitions={})
    assert world.written() == [[5, -16, 3, 7, 6, 8]]
    world.join("b", subscribed_topic_regex="o.*")
    world.clock.advance(1)
    world.written()
    world.send("b", -1)
    assert world.written() == [[-8, -7, -5, -16, 3]]


def test_a_member_that_changes_its_pattern_gives_up_the_topics_at_once(world):
    """The group gets a new epoch only when the new pattern is resolved, after the next heartbeat."""
    world.join("a", subscribed_topic_regex="ord.*")
    world.clock.advance(1)
    world.send("a", 1, topic_partitions={})
    world.written()
    world.send("a", 2, subscribed_topic_regex="cli.*", topic_partitions=owned(0, 1, 2))
    world.clock.advance(1)
    assert world.written() == [[5, -16, 8]]
    world.send("a", 2, topic_partitions={})
    world.clock.advance(1)
    assert world.written()[-1] == [16, 3]
    assert list(world.send("a", 2, topic_partitions={}).assignment) == [IDS["clicks"]]


def test_targets_wait_for_the_assignment_interval(tmp_path):
    """A member that joins too early gets the epoch of the targets. The interval also counts over a restart."""
    world = World(tmp_path / "log", assignment_interval_ms=1_000)
    world.join("a")
    world.clock.advance(999)
    world.written()
    assert world.join("b").member_epoch == 2
    assert world.written() == [[5, 3, 8]]
    assert world.describe().state == "Assigning"
    world.start()
    world.send("a", 2, topic_partitions=owned(0, 1, 2))
    assert world.written() == []
    world.clock.advance(1)
    world.send("a", 2, topic_partitions=owned(0, 1, 2))
    assert world.written() == [[7, 7, 6, 8]]


def test_a_change_of_a_topic_is_found_by_the_next_heartbeat(world):
    """A topic that grows, disappears or comes back makes new targets."""
    world.join("a")
    world.topics["orders"] = 5
    world.written()
    assert set(world.send("a", 2).assignment[IDS["orders"]]) == {0, 1, 2, 3, 4}
    del world.topics["orders"]
    assert world.send("a", 3, topic_partitions={}).assignment == {}
    assert world.written() == [[3, 7, 6, 8], [3, 7, 6, 8]]


def test_a_group_has_its_own_settings_within_the_limits_of_the_broker(tmp_path):
    """The session timeout and the heartbeat interval of one group; a value beyond a limit becomes the limit."""
    world = World(tmp_path / "log", min_session_timeout_ms=1_000, min_heartbeat_interval_ms=500)
    world.configs["g"] = {"consumer.session.timeout.ms": "10", "consumer.heartbeat.interval.ms": "700"}
    assert world.join("a").heartbeat_interval_ms == 700
    world.clock.advance(999)
    assert len(world.describe().members) == 1
    world.clock.advance(1)
    assert world.describe().state == "Empty"


def test_a_setting_that_is_no_number_and_a_wrong_topic_id_are_refused(world):
    """A recorded conversation supplies both as texts; a broker has refused such a setting before."""
    world.configs["g"] = {"consumer.session.timeout.ms": "45 s"}
    with pytest.raises(
        kg.UsageError,
        match=r"consumer\.session\.timeout\.ms: expected a whole number of at most 20 digits, found '45 s'",
    ):
        world.join("a")
    world.configs.clear()
    world.topic_ids["orders"] = "no id"
    with pytest.raises(kg.UsageError, match=r"expected a uuid .*, found 'no id'"):
        world.join("b")


def test_patterns_are_read_as_re2j_reads_them(world):
    """`re2j.json`: com.google.re2j 1.8, as brokers have it, with 340 patterns: the topics of each, or its error."""
    recorded = json.loads((Path(__file__).parent / "re2j.json").read_text(encoding="utf-8"))
    ids = {topic: f"{number:A<22}" for number, topic in enumerate(recorded["topics"])}
    world.topics.update(dict.fromkeys(ids, 1))
    world.topic_ids.update(ids)
    heartbeat = world.coordinator.consumer_group_heartbeat
    for number, pattern in enumerate(recorded["answers"]):
        joined = heartbeat(
            f"g{number}", "a", 0, rebalance_timeout_ms=1, subscribed_topic_regex=pattern, topic_partitions={}
        ).value
        expected = recorded["answers"][pattern]
        if isinstance(expected, str):
            assert joined.error is Errors.INVALID_REGULAR_EXPRESSION
            assert joined.message == f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {expected}."
            continue
        world.clock.advance(1)
        assigned = heartbeat(f"g{number}", "a", joined.member_epoch, topic_partitions={}).value.assignment or {}
        assert {topic for topic in ids if ids[topic] in assigned} == set(expected), pattern


def test_a_refused_classic_member_removes_an_empty_group_from_memory_only(world):
    """classicGroupJoinToClassicGroup (4.3.1) removes the group before it refuses the id, as in the run 4.3.1-ghost."""

    def listed():
        return [group.group_id for group in world.coordinator.list_groups()[1]]

    world.join("a")
    world.send("a", -1)
    world.written()
    protocols = [("range", subscription("orders"))]
    answer = world.coordinator.join_group("g", protocols=protocols, member_id="a", session_timeout_ms=10_000).value
    assert (answer.error, world.written()) == (Errors.UNKNOWN_MEMBER_ID, [])
    # What is listed is as old as the newest confirmed record.
    world.coordinator.offset_commit("other", {kg.TopicPartition("orders", 0): OffsetCommit(1)})
    assert listed() == ["other"]
    world.start()
    assert set(listed()) == {"g", "other"}


def test_a_session_that_ends_while_the_log_refuses_ends_again_half_a_second_later(world):
    """CoordinatorTimerImpl (4.3.1) schedules a session's time-out again after 500 ms if its write failed."""
    world.logs = HeldLogs(world.logs, holds_answers=False)
    world.start()
    world.join("a")
    world.logs.append_error = Errors.NOT_ENOUGH_REPLICAS
    world.clock.advance(45_100)
    assert [group.state for group in world.coordinator.list_groups()[1]] == ["Stable"]
    world.logs.append_error = Errors.NONE
    world.clock.advance(500)
    assert [group.state for group in world.coordinator.list_groups()[1]] == ["Empty"]


def test_an_upgrade_whose_append_fails_leaves_the_classic_group_with_its_timers(world):
    """convertToConsumerGroup (4.3.1) cancels no timer of the classic group, which is back after the failure."""
    world.logs = HeldLogs(world.logs, holds_answers=False)
    world.start()
    protocols = [("range", subscription("orders"))]
    join = {"protocols": protocols, "session_timeout_ms": 10_000}
    member_id = world.coordinator.join_group("g", **join).value.member_id
    joined = world.coordinator.join_group("g", member_id=member_id, **join)
    world.clock.advance(3_000)
    assignments = {member_id: write_assignment({"orders": [0]}, 3)}
    world.coordinator.sync_group("g", joined.value.generation, member_id, assignments)
    world.logs.holds_answers = True
    fields = {"subscribed_topic_names": ["orders"], "topic_partitions": {}, "rebalance_timeout_ms": 60_000}
    world.coordinator.consumer_group_heartbeat("g", "b", 0, **fields)
    world.logs.release(error=Errors.NOT_ENOUGH_REPLICAS)
    world.logs.holds_answers = False
    assert [group.state for group in world.coordinator.list_groups()[1]] == ["Stable"]
    world.clock.advance(10_000)
    assert [group.state for group in world.coordinator.list_groups()[1]] == ["Empty"]


def test_offsets_are_fetched_by_members_and_deleted_where_nobody_subscribes(world):
    """ConsumerGroup.validateOffsetFetch and isSubscribedToTopic (4.3.1)."""
    partitions = [TopicPartition("orders", 0), TopicPartition("clicks", 0)]
    epoch = world.join("a").member_epoch
    commits = {partition: OffsetCommit(5) for partition in partitions}
    world.coordinator.offset_commit("g", commits, generation=epoch, member_id="a")
    for member_id, member_epoch, error in (("a", 7, Errors.STALE_MEMBER_EPOCH), ("b", epoch, Errors.UNKNOWN_MEMBER_ID)):
        asked = {"require_stable": True, "member_id": member_id, "member_epoch": member_epoch}
        assert world.coordinator.offset_fetch("g", **asked).value.error is error
    deleted = world.coordinator.offset_delete("g", partitions).value.partitions
    assert deleted == dict(zip(partitions, [Errors.GROUP_SUBSCRIBED_TO_TOPIC, Errors.NONE], strict=True))
    left = world.coordinator.offset_fetch("g", require_stable=True, member_id="a", member_epoch=epoch).value.offsets
    assert list(left) == partitions[:1]


def test_a_classic_leave_of_an_empty_consumer_group_waits_for_the_log(world):
    """classicGroupLeaveToConsumerGroup (4.3.1) answers UNKNOWN_MEMBER_ID for each member, as the result of a write."""
    world.join("a")
    world.send("a", -1)
    world.logs = HeldLogs(world.logs)
    world.start()
    world.coordinator.offset_commit("g", {kg.TopicPartition("orders", 0): OffsetCommit(1)})
    left = world.coordinator.leave_group("g", ["a"])
    assert not left.done
    world.logs.release()
    assert [error for _, error in left.value.members] == [Errors.UNKNOWN_MEMBER_ID]


# The answers of Kafka's own GroupCoordinatorShard (4.3.1) to the same requests, in a JVM without a log.


def join_classic(world, member_id=""):
    protocols = [("range", subscription("orders"))]
    times = {"session_timeout_ms": 45_000, "rebalance_timeout_ms": 6_000}
    return world.coordinator.join_group("g", protocols=protocols, member_id=member_id, **times)


def types_and_states(world):
    return [(group.type, group.state) for group in world.coordinator.list_groups()[1]]


def test_a_classic_group_that_lost_its_members_in_the_first_delay_is_upgraded(world):
    """Its only member leaves before the group has a protocol. Kafka asks for the protocol once for each member."""
    member_id = join_classic(world).value.member_id
    join_classic(world, member_id)
    world.coordinator.leave_group("g", [member_id])
    world.written()
    assert world.join("a").error is Errors.NONE
    assert world.written() == [[-2, 3, 6, 5, 3, 7, 6, 8]]


def test_sessions_that_end_together_end_in_the_order_of_kafkas_map_after_a_failover(world):
    """The classic member is fenced before the last consumer, so the group is not downgraded."""
    for member_id in ("a", "b", "c", "d"):
        world.join(member_id)
    join_classic(world, "m")
    world.coordinator.resign(0)
    world.coordinator.elect(0)
    world.clock.advance(46_000)
    assert types_and_states(world) == [("consumer", "Empty")]


def test_the_sessions_of_an_upgrade_start_before_that_of_the_joining_member(world):
    """Nobody sends anything after it: the classic member is fenced first, so the group is not downgraded."""
    stable_classic(world, 0)
    world.join("a")
    world.clock.advance(46_000)
    assert types_and_states(world) == [("consumer", "Empty")]


def test_range_gives_all_members_the_topics_of_the_first_if_their_subscriptions_count_as_equal(world):
    """RangeAssignor.assignHomogeneousGroup. The joining member's pattern is not resolved, and it has a target."""
    for member_id in ("a", "b"):
        world.join(member_id, server_assignor="range")
    world.send("b", -1)
    world.join("c", subscribed_topic_regex="zeb.*", server_assignor="range")
    [described] = [each for each in world.describe().members if each.member.member_id == "c"]
    assert described.target == owned(2)


def test_a_changed_topic_is_noted_although_its_subscriber_has_left(world):
    """onMetadataUpdate: the next heartbeat computes the kind of subscription again, so `c` gets nothing."""
    world.join("a", server_assignor="range")
    world.join("b", topics=("clicks",), server_assignor="range")
    world.send("a", 3, topic_partitions={})
    world.topics["clicks"] = 5
    world.send("b", -1)
    world.written()
    assert world.join("c", subscribed_topic_regex="zeb.*", server_assignor="range").assignment == {}
    assert world.written() == [[5, 7, 6, 8]]


def stable_classic(world, *partitions):
    """Make a classic group with one member, which has these partitions of orders. Return its id."""
    member_id = join_classic(world).value.member_id
    joined = join_classic(world, member_id)
    world.clock.advance(3_000)
    assignment = write_assignment({"orders": partitions}, 3)
    world.coordinator.sync_group("g", joined.value.generation, member_id, {member_id: assignment})
    return member_id


def test_a_timer_of_a_classic_member_goes_on_after_a_downgrade_and_an_upgrade(world):
    """convertToClassicGroup cancels nothing: who was told to join again before both is fenced by the old timer."""
    member_id = stable_classic(world, 0, 1, 2)
    world.join("a")
    assert world.coordinator.heartbeat("g", 1, member_id).value is Errors.REBALANCE_IN_PROGRESS
    world.send("a", -1)
    again = join_classic(world, member_id)
    assignments = {member_id: write_assignment({"orders": [0]}, 3)}
    world.coordinator.sync_group("g", again.value.generation, member_id, assignments)
    world.clock.advance(4_000)
    world.join("b")
    assert world.member_ids() == sorted(["b", member_id])
    world.clock.advance(2_500)
    assert world.member_ids() == ["b"]


def test_an_upgrade_with_more_partitions_than_the_topic_has_is_an_error(world):
    """UniformHeterogeneousAssignmentBuilder has an array with the topic's partitions, and no place for others."""
    stable_classic(world, 0, 1, 2)
    world.topics["orders"] = 1
    world.written()
    assert world.join("a", topics=("orders", "clicks"), server_assignor="uniform").error is Errors.UNKNOWN_SERVER_ERROR
    assert world.written() == []
