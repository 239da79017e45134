"""Lessons 06 and 07: two incidents: a static member runs twice; offsets expire on a weekend."""

from __future__ import annotations

from kafkagroups.course.broker import start_broker
from kafkagroups.course.group_life import GroupLife
from kafkagroups.course.lesson_clock import HOUR


def run_duplicate_static_member() -> GroupLife:
    """Run the group `shipping` with three static members, and run the member van-2 on a second machine too.

    A static member has a group instance id, which the configuration of its consumer contains.

    Returns
    -------
    GroupLife
        The group after four rounds. In each round, a new process joins with the group instance id van-2.
    """
    topics = ("orders", "stock")
    life = GroupLife("shipping", verbose=False)
    for names in (["van-1"], ["van-1", "van-2"], ["van-1", "van-2", "van-3"]):
        for name in reversed(names):
            life.join(name, instance=name, topics=topics)
        life.wait(3)
        for name in names:
            life.sync(name)
    for number in range(4):
        life.wait(20)
        life.join("van-2", instance="van-2", topics=topics, new_process=True)
        for name in ("van-1", "van-2", "van-3"):
            life.heartbeat(name)
        life.commit("van-1", {"orders-0": 10 + number})
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
        For each group id: the partitions ("orders-0") whose offset was not deleted, with the offset.
    """
    broker = start_broker(
        kafka=kafka,
        offsets_retention_ms=24 * HOUR,
        topics=None,
        group_max_session_timeout_ms=2**31 - 1,
        group_initial_rebalance_delay_ms=0,
    )
    broker.start_expiration()
    mailer = GroupLife("mailer", verbose=False, broker=broker)
    dashboard = GroupLife("dashboard", verbose=False, broker=broker)
    nightly = GroupLife("nightly", verbose=False, broker=broker)
    join_alone(mailer, session_s=100 * 3600)
    mailer.commit("mailer", {"orders-0": 900})
    dashboard.commit("", {"orders-0": 910})
    for night in range(3):
        # The clock starts on Friday at 18:00. 2:00 on Saturday is eight hours later.
        broker.clock.advance_to(mailer.start_ms + (8 + 24 * night) * HOUR)
        join_alone(nightly, session_s=10 * 3600)
        nightly.commit("nightly", {"orders-0": 920 + night})
        nightly.wait(3600)
        nightly.leave("nightly")
    # Monday at 8:00 is 62 hours after Friday at 18:00.
    broker.clock.advance_to(mailer.start_ms + 62 * HOUR)
    offsets = {}
    for life in (mailer, dashboard, nightly):
        fetched = broker.offset_fetch(life.group_id).offsets
        offsets[life.group_id] = {str(partition): offset.offset for partition, offset in fetched.items()}
    return offsets


def join_alone(life: GroupLife, session_s: float) -> None:
    """Let one member join a group without members, and receive its assignment. The member's name is the group's id.

    The first JoinGroup may only return a member id. So the member sends JoinGroup until the group has a member.
    `session_s` is the member's session timeout in seconds.
    """
    while life.read_state()[0] in ("Dead", "Empty"):
        life.join(life.group_id, session_s=session_s)
    life.sync(life.group_id)
