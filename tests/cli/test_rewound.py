"""Positions that went back: how far the group had been, what it read twice, and what it still reads again.

The log follows a deployment with a real 3.9.2 broker: another program set the offsets of an empty group back, and each
consumer then read up to its old position. The expected ranges are derived by hand from the commits.
"""

import json

import pytest

import kafkagroups as kg
from tests.handmade import (
    classic_member,
    commit_record,
    generation,
    group_tombstone,
    offset_tombstone,
    write_batches,
)

APP = "app=scoring"
EMPTY = generation(2)
STABLE = generation(3, classic_member())
DELETED = offset_tombstone(0, "cards")


def commit(offset, metadata=APP, partition=0):
    return commit_record(offset, partition, "cards", metadata=metadata)


def write(folder, records):
    """Write one record a second."""
    return write_batches(folder, [(1000 * second, [record]) for second, record in enumerate(records)], 5)


@pytest.fixture
def deployment(tmp_path):
    """A late commit (record 3), a step back that is passed again (6), and one that is not (10)."""
    records = [
        STABLE,
        commit(100),
        commit(200),
        commit(180),
        commit(210),
        EMPTY,
        commit(150, ""),
        STABLE,
        commit(220),
        EMPTY,
        commit(160, ""),
        STABLE,
        commit(190),
        commit(7, APP, 1),
    ]
    return write(tmp_path, records)


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_the_highest_committed_offset_and_what_is_read_twice(deployment, coordinator, run):
    (found,) = kg.timeline(deployment, "g", coordinator=coordinator).rewound
    assert (str(found.topic_partition), found.partition) == ("cards-0", 5)
    assert (found.highest, found.highest_record, found.now, found.record) == (220, 8, 190, 12)
    assert [(reread.start, reread.end, reread.can_be_late) for reread in found.twice] == [
        (180, 200, True),
        (150, 210, False),
        (160, 190, False),
    ]
    assert found.remaining == 30
    arguments = ("--group", "g", "--coordinator", coordinator)
    _, out, _ = run("timeline", deployment, *arguments)
    text = " ".join(out.split())
    assert "cards-0: the highest committed offset was 220 (5:8), now 190 (5:12)" in text
    assert "at least 180 to 199 (if 5:3 was not a late commit), 150 to 209, 160 to 189" in text
    _, out, _ = run("explain", deployment, *arguments, "--topic", "cards", "--json")
    (position,) = json.loads(out)["rewound"]
    assert (position["highest"], position["now"]) == (220, 190)
    assert position["still_to_read_again"] == {"from": 190, "to": 219, "can_be_late": False}
    _, out, _ = run("explain", deployment, *arguments, "--topic", "cards", "--partition", "1", "--json")
    assert json.loads(out)["rewound"] == []


def test_a_position_that_was_passed_again_says_so(tmp_path, run):
    folder = write(tmp_path, [commit(50), commit(20), commit(60)])
    _, out, _ = run("timeline", folder, "--group", "g")
    assert "back from 50 (5:0) to 20 (5:1); read again: 20 to 49; 50 is reached again, now 60 (5:2)" in " ".join(
        out.split()
    )


def test_an_old_commit_that_the_last_member_sent_again(tmp_path):
    """As the retry list of an application that sends an old commit when it closes: the next member begins there."""
    commits = [STABLE, commit(50), commit(70), commit(90), commit(50), EMPTY, STABLE, commit(95)]
    timeline = kg.timeline(write(tmp_path, commits), "g")
    (rewind,) = [event.what for event in timeline.events if event.event == "rewind"]
    assert rewind == "cards-0: 90 -> 50, back by 40, to what 5:1 committed; set by a member."
    (found,) = timeline.rewound
    assert found.describe_rewound() == (
        "cards-0: back from 90 (5:3) to 50 (5:4); read again: at least 50 to 89; 90 is reached again, now 95 (5:7)."
    )


def test_what_a_late_commit_leaves_to_be_read_again_depends_on_the_next_owner(tmp_path):
    """The members go on from where they are: what is committed only matters to a new owner."""
    commits = [STABLE, commit(50), commit(90), commit(60)]
    (found,) = kg.timeline(write(tmp_path / "late", commits), "g").rewound
    assert found.describe_rewound().endswith("again: 60 to 89 if 5:3 was not a late commit, or by a new owner.")
    assert found.to_json()["still_to_read_again"] == {"from": 60, "to": 89, "can_be_late": True}
    reads_again = [commit(offset) for offset in (65, 70, 75, 80, 85)]
    (found,) = kg.timeline(write(tmp_path / "seek", [*commits, *reads_again]), "g").rewound
    assert "read again: at least 60 to 84; still to be read again: 85 to 89." in found.describe_rewound()


@pytest.mark.parametrize(("before", "now"), [(0, 1), (1, 1), (1, 0), (0, -1)])
def test_a_lower_offset_with_a_higher_leader_epoch_is_of_other_records(before, now, tmp_path, run):
    """The leader epochs of records rise with their offsets (KIP-101), so record 89 cannot be there any longer."""
    commits = [commit_record(90, 0, "cards", leader_epoch=before), commit_record(50, 0, "cards", leader_epoch=now)]
    log = write(tmp_path, [STABLE, *commits])
    _, out, _ = run("timeline", log, "--group", "g")
    assert ("with a higher leader epoch (0 -> 1)" in " ".join(out.split())) == (before < now)
    assert bool(kg.timeline(log, "g").rewound) == (before >= now)


def test_a_generation_that_begins_again_has_forgotten_the_offsets(tmp_path, run):
    """A 3.9.2 broker whose load of the partition failed: nobody left, and the group started at auto.offset.reset."""
    before, after = (generation(1, classic_member(name, ("cards",))) for name in ("old", "new"))
    log = write(tmp_path, [before, commit(80), commit(70, partition=1), after, commit(95), commit(5, partition=1)])
    text = " ".join(run("timeline", log, "--group", "g")[1].split())
    assert "generation 1 was forgotten (by a failed load, or a deletion that is not here)" in text
    assert "is gone" not in text and "was written again" not in text
    assert "cards-0: 95, the first commit after 80 was forgotten: at most 80 to 94 are skipped, unless" in text
    assert "cards-1: 5, the first commit after 70 was forgotten: at least 5 to 69 is read again" in text
    again = write(tmp_path / "same", [before, commit(80), before, commit(95)])
    assert "forgotten" not in run("timeline", again, "--group", "g")[1]


def test_a_tool_that_repairs_a_late_commit(tmp_path):
    """No member has begun at the late commit, so perhaps no record was read again."""
    commits = [STABLE, commit(50), commit(90), commit(50), EMPTY, commit(90, "")]
    (found,) = kg.timeline(write(tmp_path, commits), "g").rewound
    assert (
        "read again: at least 50 to 89 (if 5:3 was not a late commit); 90 is reached again" in found.describe_rewound()
    )


@pytest.mark.parametrize(
    ("by_tool", "later", "twice", "remaining"),
    [
        ([48, 95], [99], [], 0),  # corrected before anybody has read
        ([10_000, 90], [99], [], 0),  # nobody has read up to 10,000
        ([48, 70], [85, 99], [(70, 90)], 0),  # corrected in part
        ([10_000, 60], [70], [(60, 70)], 20),  # corrected too far
    ],
)
def test_what_a_tool_sets_and_corrects_was_not_read(by_tool, later, twice, remaining, tmp_path):
    """The group has no member between the two commits of the tool, so only what a member reads after them is twice."""
    set_by_tool = [commit_record(offset, 0, "cards", leader_epoch=-1) for offset in by_tool]
    records = [STABLE, commit(80), commit(85), commit(90), EMPTY, *set_by_tool, STABLE, *map(commit, later)]
    positions = kg.timeline(write(tmp_path, records), "g").positions
    assert [[(each.start, each.end) for each in position.twice] for position in positions] == [twice]
    assert [position.remaining for position in positions] == [remaining]


def test_steps_back_are_counted_and_the_last_one_is_shown(tmp_path):
    (found,) = kg.timeline(write(tmp_path, [commit(50), commit(20), commit(40), commit(10), commit(60)]), "g").rewound
    assert found.describe_rewound().startswith("cards-0: back 2 times, last from 40 (5:2) to 10 (5:3); ")


def test_a_deletion_forgets_what_was_committed_before(tmp_path):
    commits = [commit(50), commit(90), DELETED, commit(70), commit(50)]
    whats = [event.what for event in kg.timeline(write(tmp_path, commits), "g").events]
    assert "cards-0: 70 -> 50, back by 20; no member is known." in whats


def test_the_member_that_has_the_partition_is_named(tmp_path):
    owner = generation(3, classic_member(topics=("cards",), assigned=(0,)))
    events = kg.timeline(write(tmp_path, [owner, commit(90), commit(60)]), "g").events
    assert events[-1].what == "cards-0: 90 -> 60, back by 30; set by a member (c has the partition)."


def test_a_tool_that_sets_a_first_offset(tmp_path):
    """A coordinator takes commits without a member only if the group has none."""
    records = [STABLE, commit(50), EMPTY, commit(0, "", partition=1)]
    assert [event.what for event in kg.timeline(write(tmp_path, records), "g").events][-1] == (
        "cards-1: 0, the first commit; the group had no member."
    )


def test_a_deletion_begins_a_new_position(tmp_path):
    """Somebody who deletes an offset wants the group to start again: the old position is no longer the goal."""
    records = [commit(50), commit(20), DELETED, commit(10)]
    assert kg.timeline(write(tmp_path, records), "g").rewound == []


def test_missing_metadata_is_shown_and_the_same_one_is_not_repeated(deployment, run, tmp_path):
    """Kafka's tools and other programs do not write the metadata of the application."""
    _, out, _ = run("explain", deployment, "--group", "g", "--topic", "cards", "--partition", "0", "--kafka", "3.9.2")
    text = " ".join(out.split())
    assert text.count(" no metadata ") == 2
    assert "210 -> 150, back by 60; the group had no member; no metadata, the commit before had some." in text
    long_name = "app=" + 60 * "x"
    records = [commit(offset, long_name) for offset in range(5)] + [commit(9, "")]
    _, out, _ = run(
        "explain", write(tmp_path / "other", records), "--group", "g", "--topic", "cards", "--partition", "0"
    )
    text = " ".join(out.split())
    assert text.count(f"{long_name[:40]}… (64 characters)") == 1 and text.count("no metadata") == 1


def test_two_programs_that_commit_in_turn_read_nothing_twice(run, tmp_path):
    """One commits with metadata and the other without, and each only goes forward (two consumers with one group id)."""
    pairs = [record for step in range(4) for record in (commit(1000 + step), commit(10 + step, ""))]
    path = write(tmp_path, [EMPTY, *pairs])
    _, out, _ = run("timeline", path, "--group", "g")
    text = " ".join(out.split())
    assert "read again" not in text
    said = "two programs, or one in two ways, commit this offset in turn: one with leader epochs, with metadata is at"
    assert f"{said} 1003" in text
    (position,) = json.loads(run("explain", path, "--group", "g", "--json")[1])["rewound"]
    assert position["read_twice"] == []


def test_a_program_that_goes_back_itself_reads_twice(run, tmp_path):
    pairs = [record for step in range(4) for record in (commit(1000 + step), commit(10 + step, ""))]
    path = write(tmp_path, [EMPTY, *pairs, commit(900)])
    _, out, _ = run("timeline", path, "--group", "g")
    assert "two programs" not in out


@pytest.mark.parametrize("ahead", [50_000, 400])
def test_a_position_that_jumps_far_beyond_its_usual_steps_skips_records(ahead, run, tmp_path):
    """Twelve steps of ten records, then one that nobody of the group can have read in between."""
    steps = [commit(10 * number) for number in range(12)]
    path = write(tmp_path, [STABLE, *steps, commit(110 + ahead, ""), commit(120 + ahead)])
    events = map(json.loads, run("timeline", path, "--group", "g", "--json")[1].splitlines())
    skips = [(event["topic_partition"], event["from"], event["to"]) for event in events if event["event"] == "skip"]
    assert skips == ([("cards-0", 110, 110 + ahead)] if ahead > 1000 else [])
    _, out, _ = run("timeline", path, "--group", "g")
    text = " ".join(out.split())
    said = "cards-0: 110 -> 50110, ahead by 50000; its longest step before was 10; set by a member; no metadata"
    assert (said in text) == (ahead > 1000)


def test_the_first_commit_after_a_deletion_says_what_it_skips(run, tmp_path):
    path = write(tmp_path, [EMPTY, commit(40), DELETED, commit(100)])
    _, out, _ = run("timeline", path, "--group", "g")
    skipped = "the first commit after 40 was deleted: at most 40 to 99 are skipped, unless the group began at the start"
    said = f"{skipped}, or the topic was created again (then from 0);"
    assert said in " ".join(out.split()), "the group can have begun at the end of a new topic"


def test_what_jumps_ahead_is_marked_and_never_left_out(tmp_path, run):
    """Of 82 commits, `explain` shows the last 20 and what is marked.

    After a deletion, the first commit skips at most what lies between (event.py, MIN_SKIP and SKIP_STEPS).
    """
    ahead = [*map(commit, range(15)), *map(commit, range(5014, 5040)), DELETED, *map(commit, range(5050, 5090))]
    _, out, _ = run("explain", write(tmp_path, ahead), "--group", "g")
    rows = [line.split() for line in out.splitlines() if line.lstrip().startswith("5:")]
    assert [row[0] for row in rows[:4]] == ["5:15", "5:40", "5:41", "5:42"]
    assert [(row[0], row[row.index("▲") + 1]) for row in rows if "▲" in row] == [("5:15", "5014"), ("5:42", "5050")]
    text = " ".join(out.split())
    assert "cards-0: 14 -> 5014, ahead by 5000; its longest step before was 1" in text
    assert (
        "5050, the first commit after 5039 was deleted: at most 5039 to 5049 are skipped, unless the group began"
        in text
    )
    assert "▲: the offset jumped ahead." in text and "▼" not in text
    assert "went back or jumped ahead, and the group's own" in text
    assert "▲" not in run("explain", write(tmp_path / "usual", ahead[:15]), "--group", "g")[1]


@pytest.mark.parametrize(
    ("tool", "is_skip"),
    [
        pytest.param(commit_record(12, leader_epoch=-1), True, id="without leader epoch, as kafka-consumer-groups.sh"),
        pytest.param(commit_record(30), True, id="further than any step"),
        pytest.param(commit_record(12), False, id="a program without members goes on"),
        pytest.param(commit_record(10, leader_epoch=-1), False, id="the same offset"),
    ],
)
def test_an_offset_that_is_set_ahead_after_the_last_member_has_left(tool, is_skip, tmp_path, run):
    """A 3.9.2 broker wrote such a log: reset to the latest offset between two deployments."""
    commits = [(1000 * n, [commit_record(2 * n)]) for n in range(1, 6)]
    batches = [(0, [generation(1, classic_member())]), *commits, (6000, [EMPTY]), (7000, [tool])]
    log = write_batches(tmp_path, batches)
    _, out, _ = run("timeline", log, "--group", "g")
    assert ("the group had no member" in out) == is_skip
    _, out, _ = run("explain", log, "--group", "g")
    assert ("▲" in out.split("Record:")[0]) == is_skip


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_a_position_that_a_tool_set_above_the_end_of_a_partition_is_not_read_again(coordinator, tmp_path, run):
    """A member then begins where auto.offset.reset says: nothing shows that the group has read up to the offset that
    was set. A real 3.9.2 broker, a script that copied offsets to the wrong partitions, invoices-2 of invoice-sync-v2.
    """
    by_script = commit_record(831, 0, "invoices", leader_epoch=-1)
    later = [commit_record(offset, 0, "invoices") for offset in (501, 843)]
    path = write(tmp_path, [by_script, STABLE, *later])
    timeline = kg.timeline(path, "g", coordinator=coordinator)
    assert timeline.rewound == []
    _, out, _ = run("timeline", path, "--group", "g", "--coordinator", coordinator)
    assert "831 -> 501, back by 330; nothing shows that the group has read up to 831" in " ".join(out.split())
    assert "read again" not in out


def test_a_deletion_of_a_group_says_how_long_it_had_no_members(tmp_path, run):
    """61 s after the last member left: a request, or a broker whose retention time is a minute (3.9.2, two brokers of
    which one had offsets.retention.minutes=1), or both topics were deleted (onPartitionsDeleted gets them together). No
    text says that somebody deleted it.
    """
    empty = generation(2)  # Its state has the time of record 0.
    deleted = [offset_tombstone(0, "cards"), offset_tombstone(0, "other"), group_tombstone()]
    path = write_batches(tmp_path, [(0, [commit(5), commit_record(6, 0, "other"), empty]), (61_000, deleted)], 5)
    _, out, _ = run("timeline", path, "--group", "g", "--retention", "7d")
    text = " ".join(out.split())
    said = "The group was deleted with 2 offsets, 61 s after its last member left: cards-0, other-0, or with the topics"
    assert f"{said}, or its offsets expired, if the broker's retention time is shorter." in text
    _, out, _ = run("explain", path, "--group", "g", "--retention", "7d", "--all")
    assert "The group was deleted with 2 offsets, 61 s after its last member left" in " ".join(out.split())


def test_a_duration_over_a_jump_of_the_clock_is_marked(tmp_path, run):
    """A 4.4.0 broker was 8 days ahead for 28 s: the group had had no member for 7 s."""
    ahead = 8 * 86_400_000
    batches = [(0, [commit(5), generation(2)]), (ahead, [offset_tombstone(0, "cards"), group_tombstone()])]
    path = write_batches(tmp_path, [*batches, (10_000, [generation(1, classic_member())])], 5)
    text = " ".join(run("timeline", path, "--group", "g", "--retention", "7d")[1].split())
    wrong = "; a later record has a time 8 days earlier, so a broker's clock was wrong."
    assert f"The group was deleted with 1 offset, 8 days after its last member left: cards-0{wrong}" in text
