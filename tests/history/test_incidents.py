"""Logs of real brokers in which somebody has done something. The folder's README.md says what."""

import json
import re
import shutil

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


SAID = {
    "promo-mailer": [["promos-0", "none → 83", "lost: only a deleted it"], ["", "lost: only a deleted it"]],
    "refund-check": [["refunds-0", "343 → 258", "lost: b is behind"], ["", "with refund-0-68f6a3fd", "new on b"]],
}


@pytest.mark.parametrize("group", SAID)
def test_only_what_happened_after_an_unclean_election_is_said_of_a_group(group, incidents, run, monkeypatch):
    """Nobody used promo-mailer again: its coordinator took out a member. refund-check went on with new members on b,
    and reached none of its positions again.
    """
    monkeypatch.setenv("COLUMNS", "500")
    sides = [incidents / "unclean" / name for name in "ab"]
    status, out, _ = run("diff", *sides, "--kafka", "3.9.2")
    rows = [row for row in out.splitlines() if row.startswith(group)]
    for words in SAID[group]:
        assert status == 0 and any(all(word in row for word in words) for row in rows)
    assert not re.search("back|healed|again", " ".join(rows))
    found = kg.compare_replicas(*sides, kafka="3.9.2").to_json()
    assert found["healed"]["groups"][group] is False


@pytest.mark.parametrize(("a", "b"), ["ab", "ba"])
def test_a_deletion_that_one_replica_missed_is_no_fork(a, b, incidents, run, tmp_path):
    """catalog-diff was deleted on the leader. Both logs end at 532, and nothing was written on the follower since."""
    sides = [incidents / "cleaned" / name for name in (a, b)]
    old = "a" if a == "b" else "b"
    status, out, _ = run("diff", *sides, "--kafka", "4.3.1")
    text = " ".join(out.split())
    change = "81 → none" if old == "a" else "none → 81"
    assert (
        status == 0 and "no fork" in text and f"catalog-diff catalog-0 {change} only {old} still has record 103" in text
    )
    assert "can have been deleted" in text and "(delete.retention.ms) before this one fetched it" in text
    assert not re.search(r"ends at|fetches the|new on|new:|lost|joined", text)
    for side in sides:
        copied = tmp_path / side.name / "__consumer_offsets-3"
        shutil.copytree(side / copied.name, copied, ignore=shutil.ignore_patterns("leader-epoch-checkpoint"))
    for each in (sides, [tmp_path / side.name for side in sides]):
        _, out, _ = run("diff", *each, "--kafka", "4.3.1", "--until-time", "2026-11-30T17:01:00")
        assert "The replicas have no fork" in out and f"only {old} still has record 103" in " ".join(out.split())
    assert kg.compare_replicas(*sides, kafka="4.3.1").to_json()["fork"] == {}
    page = tmp_path / "report.html"
    assert run("report", *sides, "--kafka", "4.3.1", "--out", page)[0] == 0
    assert f"only {old} still has record 103" in " ".join(page.read_text().split())


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
        "4:44 Epoch 8 of a share group: thumb-0 (127.0.0.1) joined, the offsets of uploads-0, uploads-1,",
    ):
        assert said in " ".join(out.split())
    _, out, _ = run("explain", incidents / "share", *options)
    text = " ".join(out.split())
    assert "answers that thumbnail-workers is Stable. The offsets of a share group are not in this log, but" in text
    assert "0 offsets" not in text


def test_a_static_member_is_not_named_with_the_host_of_another_process(incidents, run):
    """A classic group's record keeps the host of the first process (replaceStaticMember)."""
    _, out, _ = run("timeline", incidents / "fenced", "--group", "fleet-tracker", "--kafka", "3.9.2", "--all")
    replaced = re.findall(r"static member tracker-1 .*? new id", " ".join(out.split()))
    assert len(replaced) == 10 and not any("127.0" in each for each in replaced)
    (finding,) = kg.stats(incidents / "fenced", kafka="3.9.2").findings
    assert finding.kind == "shared_instance_id" and "the host of the first process" in finding.what


def test_commits_of_both_replicas_prove_that_the_topic_forks_too(incidents, run):
    """payments-1 forked: record 509 was written in epoch 2 on b, and in epoch 0 on a. So the 695 of b stands for others
    than the 611 of a, and heals nothing.
    """
    sides = [incidents / "settlement" / name for name in "ab"]
    _, out, _ = run("diff", *sides, "--kafka", "3.9.2")
    assert "healed" not in out and " ".join(out.split()).count("the topic forks, too, at") == 5
    _, out, _ = run("diff", *sides, "--kafka", "3.9.2", "--json")
    healed = json.loads(out)["healed"]["offsets"]
    assert set(healed["payment-settlement"].values()) == set(healed["refund-mailer"].values()) == {False}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_topic_that_was_created_again_with_more_partitions_is_found(engine, incidents):
    """Its new offsets are more than were deleted. The ids of the topic are those of types 15 and 8 in the log."""
    (finding,) = kg.stats(incidents / "replaced", kafka="4.4.0", engine=engine).findings
    assert finding.kind == "topic_created_again"
    assert "its id changed from TrjAZ2HKRTSt9tqxMJErxA to Yr34uxDOQHi7oOq0i6pemg" in finding.what


def test_the_offsets_of_a_share_group_that_go_with_their_topic(incidents):
    """maybeCleanupShareGroupState removes a deleted topic at once; a request would have it as deleting first."""
    events = kg.timeline(incidents / "replaced", "alert-dispatch", kafka="4.4.0").events
    (deleted,) = [event for event in events if "deleted" in event.what]
    assert deleted.offset == 61 and deleted.what.endswith("the offsets of alerts are deleted with the topic.")


@pytest.mark.parametrize("group", ["tariff-sync", "monthly-invoice", "contract-export"])
def test_an_expiry_by_a_wrong_clock_is_doubted_also_for_a_group_without_later_records(group, incidents):
    """The clock was 9 days ahead. tariff-sync has no record after it, but its partition has."""
    events = kg.timeline(incidents / "jumped", group, kafka="4.3.1", retention_ms=7 * 86_400_000).events
    ends = [event.what for event in events if event.event in ("expired", "deleted")]
    assert len(ends) > 1 and all("a broker's clock was wrong" in end for end in ends)
    assert not any("with it" in end for end in ends)  # Its time does not tell which others it took.


def test_a_partition_count_that_the_folders_do_not_show_is_proposed(incidents, run):
    """The topic has 5 partitions, and the folder of partition 3 is missing."""
    for command in ("load", "stats"):
        _, out, _ = run(command, incidents / "widened", "--kafka", "4.3.1")
        assert "(5 is the only one up to 1000 that fits all groups)" in " ".join(out.split())
    assert "no findings about the log, without the partition count" in " ".join(out.split())
    kinds = [finding.kind for finding in kg.stats(incidents / "widened", kafka="4.3.1", partitions=5).findings]
    assert kinds == ["partition_count_changed"]


def test_without_the_partition_count_the_row_of_a_group_that_can_be_old_is_marked(incidents, run):
    """Five groups have records in two partitions (README of the incidents). mail-push is only in its home partition."""
    moved = {"basket-sync", "loyalty", "order-history", "price-feed", "search-index"}
    for options, expected in (([], moved), (["--partitions", "5"], set())):
        _, out, _ = run("load", incidents / "widened", "--kafka", "4.3.1", *options)
        assert {line.split()[0] for line in out.splitlines() if " ?  " in line} == expected
        assert ("?: another partition has records" in out) == bool(expected)


def test_two_offsets_that_are_set_one_after_the_other_are_told_with_their_own_times(incidents, run):
    """The first one was wanted, and the second one, 26 s later, was the mistake."""
    _, out, _ = run("timeline", incidents / "set-twice", "--kafka", "4.3.1", "--group", "order-fulfilment")
    text = " ".join(out.split())
    assert "00:02:45.059 2:207 orders-eu-1: 234 -> 863, ahead by 629;" in text
    assert "00:03:11.098 2:208 orders-us-1: 239 -> 388, ahead by 149;" in text
    (found,) = [
        each.what
        for each in kg.stats(incidents / "set-twice", kafka="4.3.1").findings
        if each.group == "order-fulfilment"
    ]
    assert "00:02:45 UTC: orders-eu-1: 234 -> 863" in found and "Record 2:208: orders-us-1: 239 -> 388" in found


def test_the_offsets_of_new_partitions_of_a_share_group_have_their_own_event(incidents):
    """The topic grew to 4 partitions while the group had no member, so 2 and 3 were initialized a minute later."""
    events = kg.timeline(incidents / "grown", "thumbnailers", kafka="4.3.1").events
    initialized = {event.offset: event.what for event in events if "are initialized" in event.what}
    assert initialized.keys() == {9, 29}
    assert "the offsets of image-uploads-2, image-uploads-3 are initialized" in initialized[29]


@pytest.mark.parametrize(
    ("group", "others"),
    [
        ("payroll-export", "experiment-42, tax-report"),
        ("experiment-42", "payroll-export, tax-report"),
        ("tax-report", "experiment-42, payroll-export"),
    ],
)
def test_groups_that_were_deleted_together_are_named_also_if_they_are_back_soon(group, others, incidents):
    events = kg.timeline(incidents / "swept", group, kafka="4.3.1").events
    (deleted,) = (event.what for event in events if event.event == "deleted")
    assert deleted.endswith(f"; with it, 2 other groups went within 1 s: {others}.")
    events = kg.timeline(incidents / "swept", group, kafka="4.3.1", retention_ms=7 * 24 * 3_600_000).events
    (deleted,) = (event.what for event in events if event.event == "deleted")
    assert "or its offsets expired, if the broker's retention time is shorter; with it" in deleted


@pytest.mark.parametrize("engine", ENGINES)
def test_a_member_that_auto_offset_reset_has_placed_ahead_skips(engine, incidents):
    """A position that no record has confirmed has no leader epoch (SubscriptionState.FetchPosition, clients 4.3.1)."""
    findings = kg.stats(incidents / "placed", kafka="4.3.1", engine=engine).findings
    (found,) = (each for each in findings if each.kind == "skipped_records")
    assert (found.group, found.offset) == ("telemetry-ingest", 384)
    assert "telemetry-1: 325 -> 1083, ahead by 758; set by a member; no leader epoch" in found.what


def test_an_invisible_character_in_a_group_id_is_printed_and_asked_for(incidents, run):
    """The group with the right id had expired, so `look_alike_groups` does not tell (test_look_alikes.py)."""
    _, out, _ = run("stats", incidents / "alike", "--kafka", "4.4.0")
    assert [line.split()[0] for line in out.splitlines() if line.startswith("billing-svc")] == [
        *("billing-svc\\u200b", "billing-svc-dunning", "billing-svc")
    ]
    _, out, _ = run("timeline", incidents / "alike", "--kafka", "4.4.0", "--group", "billing-svc\\u200b")
    assert "Write \\u… in the id as the character itself" in " ".join(out.split()), "the shell passes a backslash"


def test_a_new_owner_that_commits_less_has_read_again(incidents):
    """The pod seeks back at each assignment, so its first commit is below the one of the owner before."""
    positions = kg.explain(incidents / "seeks", "pricing-engine", kafka="4.4.0").rewound
    rereads = {reread.record: reread for position in positions for reread in position.rereads}
    assert rereads.keys() == {187, 198, 236, 400}
    assert not any(reread.can_be_late for reread in rereads.values())
