"""The tools of lesson 09: the expiry timeline, the weekend, deletions of pending commits, and a server's log lines."""

import logging

import pytest

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.course.exercises.catalog import EXERCISES
from kafkagroups.course.expiry_timeline import ITEMS, KAFKA_VERSIONS, LAST_DAY, find_deletion_days
from tests.course.test_widgets import DATA, bundle


@pytest.mark.parametrize("number", [0, 1])
def test_the_timeline_deletes_as_it_says(number):
    """The days in the coordinators' logs agree with the rules of 1.0.1 and of KIP-211 for each item."""
    days = find_deletion_days(KAFKA_VERSIONS[number])
    rules = {
        "7 days after its commit": lambda item: item.stored_day + 7,
        "7 days after the group became Empty": lambda item: 4 + 7,
        "after that day": lambda item: 1,
        "Empty without an offset": lambda item: 4,
        "stays": lambda item: None,
    }
    for item in ITEMS:
        expected = next(rule for words, rule in rules.items() if item.outcomes[number].startswith(words))
        day = days.get((item.group, item.partition))
        assert (None if day is None else int(day)) == expected(item), item


def test_a_group_with_a_record_is_deleted_with_its_last_offset():
    """mailer and promo have group records. dashboard and stock-audit are simple groups, without a tombstone."""
    for kafka in KAFKA_VERSIONS:
        groups = {group for group, partition in find_deletion_days(kafka) if not partition}
        assert groups == {"mailer", "promo"}


def test_the_expiry_timeline_shows_the_chosen_day():
    timeline = course.ExpiryTimeline(5)
    text = bundle(timeline)["text/plain"]
    assert "day 5 " in text and "   1.0.1     ●──           exists\n" in text
    assert "stock-audit stock-0" in text and "●✗               after that day" in text
    assert timeline.static_html() == timeline.view.value
    timeline.day_slider.value = 2
    assert "dashboard orders-1" not in timeline.view.value, "it is committed on day 3"
    timeline.day_slider.value = LAST_DAY
    assert "●──────────────  stays: a member of the group reads orders" in timeline.view.value
    assert max(map(len, timeline.static_text().splitlines())) < 92, "it fits on a projector"


@pytest.mark.parametrize("how", ["OffsetDelete", "DeleteGroups", "topic"])
def test_a_deleted_offset_comes_back_from_an_open_transaction(how):
    """Recorded in 3.9.2-deletes (requests 66 to 73 and 94), 3.9.2-topicdel, and for 4.x in the crafted case x-t-m."""
    outcome = course.delete_while_pending(how)
    assert [(line.record_type, line.value) for line in outcome.log] == [
        ("offset", 1),
        ("offset", 41),
        ("offset", None),
        ("commit", None),
    ]
    assert outcome[1:] == ("NONE", None, 41, None)
    recorded = course.play_conversation("3.9.2-deletes")
    assert recorded.read_offsets(73) == {} and recorded.read_offsets(94) == {"orders-0": 41}


@pytest.mark.parametrize("how", ["OffsetDelete", "DeleteGroups", "topic"])
@pytest.mark.parametrize(("before", "loaded"), [(True, None), (False, 41)])
def test_a_plain_commit_in_flight_while_its_offset_is_deleted(how, before, loaded):
    """The commit is not cached, its client receives NONE, and a tombstone follows only if an offset was committed.

    Source: removeOffsets and onOffsetCommitAppend (3.9). The deletion removes the pending entry.
    """
    outcome = course.delete_while_pending(how, transactional=False, commits_first=before)
    assert outcome[1:4] == ("NONE", None, loaded)
    assert [line.value for line in outcome.log] == ([1, 41, None] if before else [41])


def test_expirations_are_printed_with_their_offsets_and_groups(capsys):
    """3.9.2-expiry, records 2/7, 2/8 and 0/5: `late` has one offset, `nocommit` has none."""
    course.play_conversation("3.9.2-expiry").print_expired()
    out = capsys.readouterr().out
    assert "86.8 s  late: 1 offset + the group\n" in out and "0.8 s  nocommit: the group\n" in out
    assert "60.8 s  left: 2 offsets + the group\n" in out and out.count("\n") == 12


def test_the_weekend_deletes_the_offset_of_the_exercises_group():
    """3.9.2 deletes the offset of the simple group. 1.0.1 also deletes that of a group with a member."""
    left = course.run_weekend_expiry("3.9.2")
    assert [group for group, offsets in left.items() if not offsets] == [EXERCISES["weekend"].correct]
    left = course.run_weekend_expiry("1.0.1")
    assert [group for group, offsets in left.items() if not offsets] == ["mailer", "dashboard"]


def test_the_shops_group_deletion_is_one_batch():
    """Partition 12 of the story (act 5): three offset tombstones and the group's tombstone."""
    batches = list(kg.open_log(DATA / "3.9.2" / "__consumer_offsets-12"))
    assert [batch.count for batch in batches][-1] == 4
    assert [line.record_type for line in course.read_lines(DATA / "3.9.2" / "__consumer_offsets-12")][-4:] == [
        *["offset"] * 3,
        "group",
    ]


def test_offset_delete_refuses_subscribed_topics_and_deletes_an_empty_group():
    """3.9.2-deletes: request 20 (error 86 for a subscribed topic) and 28 (the last offset of an Empty group)."""
    life = course.GroupLife("billing", verbose=False)
    life.join("billing-1")
    life.join("billing-1")
    life.wait(3)
    life.sync("billing-1")
    life.commit("billing-1", {"orders-0": 5, "payments-0": 8})
    life.delete_offsets("orders-0", "payments-0")
    assert life.events[-1].response == "GROUP_SUBSCRIBED_TO_TOPIC, NONE"
    life.leave("billing-1")
    life.delete_offsets("orders-0")
    assert str(life.events[-1].written_lines[-1]).strip() == "6: billing, deleted" and life.group is None
    life.delete_offsets("orders-0")
    assert life.events[-1].response == "GROUP_ID_NOT_FOUND"


def test_the_servers_log_is_printed_only_inside_the_block(capsys):
    log = logging.getLogger("kafkagroups.coordinator")
    before = log.level, list(log.handlers)
    broker = course.start_broker()
    with course.print_server_log():
        broker.resign(9)
    broker.resign(10)
    assert (log.level, list(log.handlers)) == before
    out = capsys.readouterr().out
    assert out == "    INFO Finished unloading __consumer_offsets-9. Removed 0 cached offsets and 0 cached groups.\n"
