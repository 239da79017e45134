"""`kafkagroups timeline`: JSON lines, text of 80 columns, and what it says about bad paths and failed loads."""

import json

import pytest

import kafkagroups as kg
from tests.groups.small_logs import write
from tests.groups.test_load_runs import DATA


def test_the_command_prints_what_the_function_returns(run):
    """JSON lines, equal to `.to_json()`."""
    for options in ((), ("--all",)):
        status, out, err = run(
            "timeline", DATA / "3.9.2", "--group", "billing", "--coordinator", "classic", "--json", *options
        )
        result = kg.timeline(DATA / "3.9.2", "billing", coordinator="classic", all=bool(options))
        assert (status, err) == (0, "")
        assert [json.loads(line) for line in out.splitlines()] == result.to_json()


def test_the_text_says_where_the_cleaner_removed_the_evidence(run):
    """The shop's dashboard after a pass of a real cleaner."""
    _, out, _ = run("timeline", DATA / "cleaning" / "after-clean", "--group", "dashboard")
    text = " ".join(out.split())
    text = text.partition("__consumer_offsets. ")[2]
    assert text.startswith("gap: 317 records cleaned or not copied in 0 to 321. ")


def test_events_of_several_partitions_stand_in_the_order_of_their_times(run, tmp_path):
    """The small logs write a batch a minute, so the second partition's first event is before the first one's last."""
    write(tmp_path / "__consumer_offsets-0", [("G",), ("C", 0), ("E",)], set())
    write(tmp_path / "__consumer_offsets-1", [("G",), ("C", 0), ("E",)], set())
    _, out, _ = run("timeline", tmp_path, "--group", "g", "--coordinator", "classic")
    rules, first, *lines = [line for line in out.splitlines() if not line.startswith("    ")]
    assert rules == "As Kafka 3.9.2 reads it (classic coordinator; --kafka names another release)."
    assert first.startswith("The events of several partitions are in the order of their times.")
    assert [line.split()[2] for line in lines] == ["0:0", "1:0", "0:1", "1:1", "0:2", "1:2"]
    assert [line[:23] for line in lines] == sorted(line[:23] for line in lines)


def test_a_time_a_topic_and_damage_limit_the_events_as_in_explain(run):
    """The events are those of the whole history, and none of them changes."""
    everything = kg.timeline(DATA / "3.9.2", "billing", coordinator="classic", all=True).events
    since = everything[len(everything) // 2].timestamp_ms
    options = {"coordinator": "classic", "all": True}
    later = kg.timeline(DATA / "3.9.2", "billing", since_time=since, **options).events
    assert later == [event for event in everything if event.timestamp_ms >= since] != everything
    earlier = kg.timeline(DATA / "3.9.2", "billing", until_time=since - 1, **options).events
    assert earlier == everything[: len(earlier)] != []
    of_topic = kg.timeline(DATA / "3.9.2", "billing", topic="orders", **options).events
    assert of_topic == [e for e in everything if e.topic_partition and e.topic_partition.topic == "orders"] != []
    arguments = ("--group", "billing", "--coordinator", "classic", "--since-time", str(since), "--all", "--json")
    assert len(run("timeline", DATA / "3.9.2", *arguments)[1].splitlines()) == len(later)


def test_a_pattern_is_no_group_id(run):
    """An empty answer would say that no group matches, so explain and timeline refuse what can only be a pattern."""
    status, _, problem = run("timeline", DATA / "3.9.2", "--group", "b*")
    assert (status, "expected the id of one group" in problem) == (2, True)
    for ask in (kg.explain, kg.timeline):
        with pytest.raises(kg.UsageError, match="no group has the id b"):
            ask(DATA / "3.9.2", "b*")


def test_no_retention_is_negative():
    for ask in (kg.explain, kg.timeline):
        with pytest.raises(kg.UsageError, match="a retention time is at least 0, not -5 ms"):
            ask(DATA / "3.9.2", "billing", retention_ms=-5)


@pytest.mark.parametrize("rule", [{"until_time": "2026-11-21"}, {"partitions": "50"}])
def test_a_text_is_no_number(rule):
    with pytest.raises(kg.UsageError, match=f"{next(iter(rule))}: expected a whole number, found '"):
        kg.load(DATA / "3.9.2", **rule)


LOYALTY = DATA / "4.3.1" / "__consumer_offsets-24"
"""The shop's group loyalty: its second member joins, and the first one gives a partition back (kafka-story)."""


def test_a_member_that_has_to_give_a_partition_back_is_named_with_its_deadline(run):
    """Record 15 has the state UNREVOKED_PARTITIONS, and the member's rebalance timeout is 300 s (dump.txt)."""
    _, out, _ = run("timeline", LOYALTY, "--group", "loyalty", "--until-time", "2026-11-21T10:15:05.990")
    text = " ".join(out.split())
    assert "loyalty-1 (127.0.0.1), since 2026-11-21 10:15:05 UTC (record 15): has to give back orders-2 (last" in text
    assert "orders-2 (last move 2026-11-21 10:15:05 UTC). If it has not, " in text
    assert "the broker removes it at 2026-11-21 10:20:05 UTC, or 5 min after a load" in text
    assert "loyalty-2 (127.0.0.1), since 2026-11-21 10:15:05 UTC (record 13): waits for" in text
    assert "waits for partitions that other members still have: orders-2 (loyalty-1)." in text


def test_a_member_whose_partitions_are_free_waits_for_nobody(run):
    """At record 16, loyalty-1 has given orders-2 back; at record 17, 8 ms later, loyalty-2 has it (dump.txt)."""
    _, out, _ = run("timeline", LOYALTY, "--group", "loyalty", "--until-time", "2026-11-21T10:15:06.030")
    text = " ".join(out.split())
    assert "(record 13): its partitions are free: it gets them with its next heartbeat." in text
    assert "other members still have" not in text


def test_members_that_have_reached_their_targets_are_not_waiting(run):
    _, out, _ = run("timeline", LOYALTY, "--group", "loyalty")
    assert "not reached" not in out
