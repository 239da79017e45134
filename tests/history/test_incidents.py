"""Logs of real brokers in which somebody has done something. The folder's README.md says what."""

import re

import pytest

import kafkagroups as kg
from tests.captured import captured

ENGINES = ("auto", "python")


@pytest.fixture(scope="module")
def incidents():
    return captured("incidents") / "incidents"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_commit_of_any_group_says_when_a_topic_was_there_again(engine, incidents):
    """It was created again at 09:52:30. The lower commits came only with a release that had nothing to do with it."""
    (finding,) = kg.stats(incidents / "recreated", kafka="3.9.2", engine=engine).findings
    assert finding.kind == "topic_created_again"
    assert "shop.orders was created again, at the latest at 2026-11-30 09:52:30 UTC" in finding.what
    assert "Commits of order-audit, order-notify show it." in finding.what


@pytest.mark.parametrize("group", ["order-audit", "order-notify"])
def test_an_old_position_that_is_committed_again_makes_nothing_be_read_twice(group, incidents):
    """Each record was read once, although the committed offsets fell from 388 to 284."""
    timeline = kg.timeline(incidents / "recreated", group, kafka="3.9.2")
    assert timeline.rewound == []
    falls = [event.what for event in timeline.events if event.event == "rewind"]
    assert any("388 was a position in the topic before" in fall for fall in falls)
    history = kg.explain(incidents / "recreated", group, "shop.orders", 0, kafka="3.9.2").history
    assert "in a new topic" in next(
        entry.what for entry in history if entry.what and "first commit after" in entry.what
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_partition_that_every_dead_member_had_is_named(engine, incidents):
    """A record of invoices-4 killed each process that read it, and no other one."""
    (finding,) = kg.stats(incidents / "poison", kafka="4.3.1", engine=engine).findings
    assert finding.kind == "rebalance_storm"
    assert re.search(r"; each of the \d+ members that left with partitions had invoices-4\.$", finding.what)


def test_the_partition_at_which_the_members_died_stands_still(incidents):
    """The committed offset of invoices-4 was 139 for the last minute, and the other partitions moved on."""
    positions = kg.timeline(incidents / "poison", "invoice-renderer", kafka="4.3.1").positions
    assert positions[0].topic_partition == kg.TopicPartition("invoices", 4) and positions[0].now == 139


def test_threads_that_commit_out_of_order_make_nothing_be_read_twice_before_a_new_owner_begins(incidents, run):
    """Each of 8 threads of a pod commits its documents; ocr-1 began at the late 659 of ocr-0, and read up to 769."""
    position = next(
        each
        for each in kg.timeline(incidents / "threads", "contract-ocr", kafka="4.4.0").rewound
        if each.topic_partition == kg.TopicPartition("scans", 2)
    )
    certain = [(each.start, each.end - 1, each.record) for each in position.twice if not each.can_be_late]
    assert certain == [(659, 769, 371)]
    _, out, _ = run("timeline", incidents / "threads", "--group", "contract-ocr", "--kafka", "4.4.0")
    text = " ".join(out.split())
    assert "scans-2: back 18 times, last from 897 (0:439) to 896 (0:440); read again: at least 659 to 769; 17 " in text
    assert "17 lower commits (ocr-worker-0, ocr-worker-1, ocr-worker-2 and 4 more) without a new owner" in text


def test_a_topic_that_lost_its_end_is_not_read_again(incidents, run):
    """Record 898 of bookings-0 was lost with an unclean election, so 314 is a position in what was written since."""
    timeline = kg.timeline(incidents / "truncated", "booking-stats", kafka="3.9.2")
    assert timeline.rewound == []
    _, out, _ = run("timeline", incidents / "truncated", "--group", "booking-stats", "--kafka", "3.9.2")
    text = " ".join(out.split())
    assert "bookings-0: 898 -> 314, back by 584; set by a member (stats has the partition); with a higher" in text
    assert "higher leader epoch (0 -> 2): the topic can have lost its end (unclean election)" in text
    assert "still to be read again" not in text


def test_the_offsets_of_a_share_group_that_are_deleted_and_made_again(incidents, run):
    """A script deleted those of uploads only, at 16:50:00.65."""
    options = ("--group", "thumbnail-workers", "--kafka", "4.3.1")
    _, out, _ = run("timeline", incidents / "share", *options)
    for said in (
        "16:50:00.686 4:32 Epoch 7 of a share group: the offsets of uploads are being deleted.",
        "16:50:00.693 4:33 Epoch 7 of a share group: the offsets of uploads are deleted.",
        "4:44 Epoch 8 of a share group: thumb-0 (127.0.0.1) joined, the offsets of uploads are being initialized,",
    ):
        assert said in " ".join(out.split())
    _, out, _ = run("explain", incidents / "share", *options)
    text = " ".join(out.split())
    assert "answers that thumbnail-workers is Stable. The offsets of a share group are not in this log, but" in text
    assert "0 offsets" not in text
