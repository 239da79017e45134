"""Members of a consumer group that have not reached their targets at the end of a log."""

from tests.groups.test_load_runs import DATA

LOYALTY = DATA / "4.3.1" / "__consumer_offsets-24"
"""The shop's group loyalty: its second member joins, and the first one gives a partition back (kafka-story)."""


def test_a_member_that_has_to_give_a_partition_back_is_named_with_its_deadline(run):
    """Record 15 has the state UNREVOKED_PARTITIONS, and the member's rebalance timeout is 300 s (dump.txt)."""
    _, out, _ = run("timeline", LOYALTY, "--group", "loyalty", "--until-time", "2026-11-21T10:15:05.990")
    text = " ".join(out.split())
    assert (
        "loyalty-1 (127.0.0.1), since 2026-11-21 10:15:05 UTC (record 15): has to give back orders-2. If it has not, "
        "the broker removes it at 2026-11-21 10:20:05 UTC (after 5 min)." in text
    )
    waits = "since 2026-11-21 10:15:05 UTC (record 13): waits for partitions that other members still have."
    assert f"loyalty-2 (127.0.0.1), {waits}" in text


def test_members_that_have_reached_their_targets_are_not_waiting(run):
    _, out, _ = run("timeline", LOYALTY, "--group", "loyalty")
    assert "not reached" not in out
