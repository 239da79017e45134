"""Lessons 06 and 07: the incidents with a copied member and with a weekend."""

from __future__ import annotations

from kafkagroups.course.broker import start_broker
from kafkagroups.course.lesson_clock import HOUR
from kafkagroups.course.life import Life


def run_copied_van() -> Life:
    """Return the life of the group `shipping`: three static members, one of which also runs on a second machine.

    Returns
    -------
    Life
        The group's life after four rounds in which the copy of van-2 joins with the same instance id.
    """
    topics = ("orders", "stock")
    life = Life("shipping", verbose=False)
    for names in (["van-1"], ["van-1", "van-2"], ["van-1", "van-2", "van-3"]):
        for name in reversed(names):
            life.join(name, instance=name, topics=topics)
        life.wait(3)
        for name in names:
            life.sync(name)
    for number in range(4):
        life.wait(20)
        life.join("van-2", instance="van-2", topics=topics, as_new=True)
        for name in ("van-1", "van-2", "van-3"):
            life.heartbeat(name)
        life.commit("van-1", {"orders-0": 10 + number})
    return life


def run_weekend(kafka: str) -> dict[str, dict[str, int]]:
    """Return which offsets three groups still have on Monday at 8:00, with a retention of one day.

    The last mails are sent on Friday at 18:00. `mailer` has a member all the time. `dashboard` never has one.
    `nightly` has one for an hour each night, from 2:00 on.

    Parameters
    ----------
    kafka
        The coordinator's Kafka version.

    Returns
    -------
    dict
        For each group, the offset of each partition ("orders-0") that is not deleted.
    """
    broker = start_broker(
        kafka=kafka,
        offsets_retention_ms=24 * HOUR,
        topics=None,
        group_max_session_timeout_ms=2**31 - 1,
        group_initial_rebalance_delay_ms=0,
    )
    broker.start_expiration()
    mailer = Life("mailer", verbose=False, broker=broker)
    dashboard = Life("dashboard", verbose=False, broker=broker)
    nightly = Life("nightly", verbose=False, broker=broker)
    join_alone(mailer, session_s=100 * 3600)
    mailer.commit("mailer", {"orders-0": 900})
    dashboard.commit("", {"orders-0": 910})
    for night in range(3):
        # The clock starts on Friday at 18:00, and 2:00 is eight hours later.
        broker.clock.advance_to(mailer.start_ms + (8 + 24 * night) * HOUR)
        join_alone(nightly, session_s=10 * 3600)
        nightly.commit("nightly", {"orders-0": 920 + night})
        nightly.wait(3600)
        nightly.leave("nightly")
    broker.clock.advance_to(mailer.start_ms + 62 * HOUR)
    offsets = {}
    for life in (mailer, dashboard, nightly):
        fetched = broker.offset_fetch(life.group_id).offsets
        offsets[life.group_id] = {str(partition): offset.offset for partition, offset in fetched.items()}
    return offsets


def join_alone(life: Life, session_s: float) -> None:
    """Let one member, named like its group, join an empty group and get its assignment.

    The first JoinGroup may only return a member id, so the member joins until the group has a member.
    """
    while life.read_state()[0] in ("Dead", "Empty"):
        life.join(life.group_id, session=session_s)
    life.sync(life.group_id)
