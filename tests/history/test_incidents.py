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
