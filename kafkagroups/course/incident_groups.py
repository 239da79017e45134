"""Lessons 07 and 09: groups in a certain situation. A member is silent, a static member runs twice, offsets expire."""

from __future__ import annotations

from kafkagroups.course.broker import start_broker
from kafkagroups.course.group_life import GroupLife
from kafkagroups.course.lesson_clock import HOUR_MS


def run_silent_member() -> GroupLife:
    """Run a group with two members, of which `billing-2` sends nothing for 50 seconds.

    Returns
    -------
    GroupLife
        The group `billing`. The session of `billing-2` has ended, and `billing-1` has not joined again yet.
    """
    life = GroupLife("billing", verbose=False)
    # The response to the first JoinGroup of a client contains only the member id.
    life.join("billing-1")
    life.join("billing-1")
    life.wait(3)
    life.sync("billing-1")
    life.join("billing-2")
    life.join("billing-2")
    life.join("billing-1")
    life.sync("billing-1")
    life.sync("billing-2")
    for _ in range(5):
        life.wait(10)
        life.heartbeat("billing-1")
    return life


def start_two_vans() -> GroupLife:
    """Run a group with two static members.

    Returns
    -------
    GroupLife
        The group `shipping`, which is Stable in generation 2. Its members are van-1, the leader, and van-2.
    """
    life = GroupLife("shipping", verbose=False)
    life.join("van-1", instance="van-1")
    life.wait(3)
    life.sync("van-1")
    life.join("van-2", instance="van-2")
    life.join("van-1", instance="van-1")
    life.wait(3)
    life.sync("van-1")
    life.sync("van-2")
    return life


def run_duplicate_static_member() -> GroupLife:
    """Run a group with three static members. Two processes run as the member van-2.

    A static member has a fixed id, the group instance id. If two processes have the same group instance id, the process
    that joins last removes the other process from the group.

    Returns
    -------
    GroupLife
        The group `shipping` after four rounds. In each round, a new process joins with the group instance id van-2.
    """
    topics = ("orders", "stock")
    life = GroupLife("shipping", verbose=False)
    for members in (["van-1"], ["van-1", "van-2"], ["van-1", "van-2", "van-3"]):
        # The new member is last in the list. Its JoinGroup starts the rebalance, so it must be sent first.
        for member in reversed(members):
            life.join(member, instance=member, topics=topics)
        # The first rebalance of a group waits three seconds for more members (group.initial.rebalance.delay.ms).
        life.wait(3)
        for member in members:
            life.sync(member)
    for round_number in range(4):
        life.wait(20)
        life.join("van-2", instance="van-2", topics=topics, new_process=True)
        for member in ("van-1", "van-2", "van-3"):
            life.heartbeat(member)
        life.commit("van-1", {"orders-0": 10 + round_number})
    return life


def run_weekend_expiry(kafka: str) -> dict[str, dict[str, int]]:
    """Return the offsets that three groups still have on Monday at 8:00, with a retention of one day.

    `mailer` and `dashboard` commit on Friday at 18:00. `mailer` has a member all the time. `dashboard` never has a
    member. `nightly` has a member for one hour each night, from 2:00 to 3:00, and commits at 2:00.

    Parameters
    ----------
    kafka
        The coordinator's Kafka version.

    Returns
    -------
    dict
        The keys are group ids. The value of a group contains its partitions ("orders-0") with their committed offsets.
    """
    broker = start_broker(
        kafka=kafka,
        offsets_retention_ms=24 * HOUR_MS,
        topics=None,
        # The members send no heartbeats, so their session timeouts must be longer than Kafka's default maximum.
        group_max_session_timeout_ms=2**31 - 1,
        group_initial_rebalance_delay_ms=0,
    )
    broker.start_expiration()
    mailer = GroupLife("mailer", verbose=False, broker=broker)
    dashboard = GroupLife("dashboard", verbose=False, broker=broker)
    nightly = GroupLife("nightly", verbose=False, broker=broker)
    _join_alone(mailer, session_s=100 * 3600)
    mailer.commit("mailer", {"orders-0": 900})
    # The empty name means a client that is not a member.
    dashboard.commit("", {"orders-0": 910})
    for night in range(3):
        # The clock starts on Friday at 18:00. 2:00 on Saturday is eight hours later.
        broker.clock.advance_to(mailer.start_ms + (8 + 24 * night) * HOUR_MS)
        _join_alone(nightly, session_s=10 * 3600)
        nightly.commit("nightly", {"orders-0": 920 + night})
        nightly.wait(3600)
        nightly.leave("nightly")
    # Monday at 8:00 is 62 hours after Friday at 18:00.
    broker.clock.advance_to(mailer.start_ms + 62 * HOUR_MS)
    offsets = {}
    for life in (mailer, dashboard, nightly):
        fetched = broker.offset_fetch(life.group_id).offsets
        offsets[life.group_id] = {str(partition): offset.offset for partition, offset in fetched.items()}
    return offsets


def _join_alone(life: GroupLife, session_s: float) -> None:
    """Let one member join an empty group and receive an assignment. The name of the member is the group's id.

    `session_s` is the member's session timeout in seconds.
    """
    # The response to the first JoinGroup may contain only a member id. Then a second JoinGroup is needed.
    while life.read_state_name() in ("Dead", "Empty"):
        life.join(life.group_id, session_s=session_s)
    life.sync(life.group_id)
