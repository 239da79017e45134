"""The tools of lesson 09: the day of a deletion, the weekend, and deletions of pending commits."""

from functools import partial

import pytest

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.coordinator import HeldLogs, OffsetCommit
from kafkagroups.course.broker import restart_after_crash

HOUR_MS = 3_600_000


@pytest.mark.parametrize(("kafka", "day"), [("1.0.1", 7), ("3.9.2", 11)])
def test_the_predicted_day_follows_the_rule_of_the_version(kafka, day):
    """1.0.1 counts 7 days from the commit on day 0. KIP-211 counts them from day 4, when the group became Empty."""
    assert course.find_deletion_day(kafka, commit_day=0, leaves_on=4, retention=7) == day


@pytest.mark.parametrize("request_name", ["OffsetDelete", "DeleteGroups", "the topic is deleted"])
def test_a_deleted_offset_comes_back_from_an_open_transaction(request_name):
    """Recorded in 3.9.2-deletes (requests 66 to 73 and 94), 3.9.2-topicdel, and for 4.x in the crafted case x-t-m."""
    compared = course.compare_brokers(partial(course.delete_while_pending, request=request_name))
    assert [step.records[1] for step in compared.steps[:4]] == [
        ("fraud-check: offset of payments-0 = 20",),
        ("fraud-check: offset of payments-0 = 41, producer 1",),
        ("fraud-check: offset of payments-0 deleted",),
        ("commit marker, producer 1",),
    ]
    assert [step.answers for step in compared.steps[-2:]] == [("nothing", "nothing"), ("nothing", "payments-0: 41")]


@pytest.mark.parametrize("request_name", ["OffsetDelete", "DeleteGroups", "topic"])
@pytest.mark.parametrize(("before", "loaded"), [(True, "nothing"), (False, "orders-0: 41")])
def test_a_plain_commit_in_flight_while_its_offset_is_deleted(request_name, before, loaded):
    """The commit is not cached, its client receives NONE, and a tombstone follows only if an offset was committed.

    Source: removeOffsets and onOffsetCommitAppend (3.9). The deletion removes the pending entry.
    """
    orders_0 = kg.TopicPartition("orders", 0)

    def script(broker):
        logs = HeldLogs(broker.manager.logs, holds_answers=False)
        broker = course.start_broker(logs, offsets_topic_num_partitions=1)
        if before:
            broker.offset_commit("mailer", {orders_0: OffsetCommit(1)})
        logs.holds_answers = True
        commit = broker.offset_commit("mailer", {orders_0: OffsetCommit(41)})
        if request_name == "OffsetDelete":
            broker.offset_delete("mailer", [orders_0])
        elif request_name == "DeleteGroups":
            broker.delete_groups(["mailer"])
        else:
            broker.partitions_deleted([orders_0])
        logs.release()
        yield "the commit", commit
        yield "a fetch", broker.offset_fetch("mailer")
        yield "a fetch after a failover", restart_after_crash(broker).offset_fetch("mailer")

    compared = course.compare_brokers(script, ["3.9.2"])
    assert [step.answers[0] for step in compared.steps] == ["NONE", "nothing", loaded]
    written = ["offset of orders-0 = 1", "offset of orders-0 = 41", "offset of orders-0 deleted"]
    expected = written if before else written[1:2]
    assert compared.steps[0].records[0] == tuple(f"mailer: {line}" for line in expected)


def test_expirations_are_printed_with_their_offsets_and_groups(capsys):
    """3.9.2-expiry, records 2/7, 2/8 and 0/5: `late` has one offset, `nocommit` none. `alive` loses one at 60.8 s."""
    played = course.play_conversation("3.9.2-expiry")
    played.print_expired("alive")
    assert capsys.readouterr().out == "   60.8 s  alive: 1 offset\n"
    played.print_expired()
    out = capsys.readouterr().out
    assert "86.8 s  late: 1 offset + the group\n" in out and "0.8 s  nocommit: the group\n" in out
    assert "60.8 s  left: 2 offsets + the group\n" in out and out.count("\n") == 12


def run_weekend(kafka):
    """Return the offsets that three groups still have on Monday at 8:00, with a retention of one day.

    `mailer` and `dashboard` commit on Friday at 18:00. `mailer` has a member all the time. `dashboard` never has a
    member. `nightly` has a member for one hour each night, from 2:00 to 3:00, and commits at 2:00.
    """
    broker = course.start_broker(
        kafka=kafka,
        offsets_retention_ms=24 * HOUR_MS,
        topics=None,
        # The members send no heartbeats, so their session timeouts must be longer than Kafka's default maximum.
        group_max_session_timeout_ms=2**31 - 1,
        group_initial_rebalance_delay_ms=0,
    )
    broker.start_expiration()
    mailer = course.GroupLife("mailer", broker=broker)
    dashboard = course.GroupLife("dashboard", broker=broker)
    nightly = course.GroupLife("nightly", broker=broker)
    join_alone(mailer, session_s=100 * 3600)
    mailer.commit("mailer", {"orders-0": 900})
    # The empty name means a client that is not a member.
    dashboard.commit("", {"orders-0": 910})
    for night in range(3):
        # The clock starts on Friday at 18:00. 2:00 on Saturday is eight hours later.
        broker.clock.advance_to(mailer.start_ms + (8 + 24 * night) * HOUR_MS)
        join_alone(nightly, session_s=10 * 3600)
        nightly.commit("nightly", {"orders-0": 920 + night})
        nightly.wait(3600)
        nightly.leave("nightly")
    # Monday at 8:00 is 62 hours after Friday at 18:00.
    broker.clock.advance_to(mailer.start_ms + 62 * HOUR_MS)
    offsets = {}
    for life in (mailer, dashboard, nightly):
        fetched = broker.offset_fetch(life.group_id).value.offsets
        offsets[life.group_id] = {str(partition): offset.offset for partition, offset in fetched.items()}
    return offsets


def join_alone(life, session_s):
    """Let one member join an empty group and receive an assignment. The name of the member is the group's id.

    `session_s` is the member's session timeout in seconds.
    """
    # The response to the first JoinGroup may contain only a member id. Then a second JoinGroup is needed.
    while life.read_state_name() in ("Dead", "Empty"):
        life.join(life.group_id, session_s=session_s)
    life.sync(life.group_id)


def test_the_weekend_deletes_the_offset_of_the_exercises_group(capsys):
    """4.3.1 and 3.9.2 delete the offset of the simple group. 1.0.1 also deletes that of a group with a member."""
    for kafka in ("4.3.1", "3.9.2"):
        left = run_weekend(kafka)
        [deleted] = [group for group, offsets in left.items() if not offsets]
        course.check("weekend", deleted)
        assert capsys.readouterr().out.startswith("✓")
    left = run_weekend("1.0.1")
    assert [group for group, offsets in left.items() if not offsets] == ["mailer", "dashboard"]
