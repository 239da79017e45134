"""Lesson 07: groups in a certain situation. A member is silent, a static member restarts or runs twice."""

from __future__ import annotations

from kafkagroups.coordinator import GroupCoordinator
from kafkagroups.course.group_life import GroupLife


def run_silent_member(broker: GroupCoordinator | None = None) -> GroupLife:
    """Return the group `billing`, whose second member has sent nothing for 50 seconds.

    The session of `billing-2` has ended, and `billing-1` has not joined again yet.
    """
    life = GroupLife("billing", broker=broker)
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


def start_two_vans(broker: GroupCoordinator | None = None) -> GroupLife:
    """Return the group `shipping`, Stable in generation 2, with the static members van-1, the leader, and van-2."""
    life = GroupLife("shipping", broker=broker)
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
    """Return the group `shipping` after four rounds, in each of which a new process joins as the static member van-2.

    The process that joins last removes the other process from the group.
    """
    topics = ("orders", "stock")
    life = GroupLife("shipping")
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
