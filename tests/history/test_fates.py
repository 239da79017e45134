"""What became of each record, checked against what brokers answered."""

import pytest

import kafkagroups as kg
from kafkagroups import explain
from tests.captured import captured
from tests.cases import case
from tests.command import ask_json
from tests.groups.test_load_runs import DATA

LOGS = sorted({str(file.parents[1]) for family in ("runs", "crafted") for file in captured(family).rglob("*.log")})
LOGS += [str(DATA / version) for version in ("1.0.1", "3.9.2", "4.3.1")]


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_the_record_that_wins_is_the_one_that_is_answered(coordinator):
    """Every captured log: one winner for each offset that load answers, none for others; pending ones as load says."""
    for path in LOGS:
        with case(path):
            check_fates(path, coordinator)


def check_fates(path, coordinator):
    rows = kg.record_table(path, "fates", coordinator=coordinator).read_all().to_pylist()
    groups = kg.load(path, coordinator)
    holders = [*groups.items(), *groups.orphans.items()]
    answered = [*groups.items(), *((name, each) for name, each in groups.orphans.items() if each.is_answered)]
    commits = {fate: set() for fate in ("wins", "pending", "hidden")}
    for row in rows:
        if row["topic"] is not None and row["fate"] in commits:
            key = (row["group"], kg.TopicPartition(row["topic"], row["topic_partition"]), row["offset"])
            assert row["fate"] != "wins" or key not in commits["wins"]
            commits[row["fate"]].add(key)
    assert commits["wins"] == {
        (name, key, offset.record_offset) for name, group in answered for key, offset in group.offsets.items()
    }
    assert commits["pending"] == {
        (name, key, offset.record_offset)
        for name, holder in holders
        for there in holder.pending.values()
        for key, offset in there.items()
    }
    assert commits["hidden"] == {
        (name, key, offset.record_offset)
        for name, orphan in groups.orphans.items()
        if not orphan.is_answered
        for key, offset in orphan.offsets.items()
    }


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_explain_answers_what_load_answers(coordinator):
    """Group by group and offset by offset, on the shop's log and on crafted ones."""
    for path in (DATA / "3.9.2", DATA / "4.3.1"):
        groups = kg.load(path, coordinator)
        shown = ask_json("load", path, "--json", "--coordinator", coordinator)["groups"]
        for name, group in groups.items():
            story = explain(path, name, coordinator=coordinator)
            assert story.answer == shown[name]
            for key, offset in list(group.offsets.items())[:2]:
                one = explain(path, name, key.topic, key.partition, coordinator=coordinator)
                assert one.answer == shown[name]["offsets"][str(key)]
                assert [e.offset for e in one.history if e.fate.value == "wins"] == [offset.record_offset]
    assert explain(DATA / "4.3.1", "nobody").answer is None


def fates_of(case, coordinator):
    (path,) = (captured("crafted") / "crafted" / "logs" / case).iterdir()
    rows = kg.record_table(path, "fates", coordinator=coordinator).read_all().to_pylist()
    return [(row["fate"], row["by"]) for row in rows]


@pytest.mark.parametrize(
    ("case", "coordinator", "expected"),
    [
        ("t3-CXA", "classic", [("wins", None), ("aborted", 2), ("marker", None)]),
        ("t3-XMC", "new", [("superseded", 2), ("marker", None), ("wins", None)]),
        # a tombstone leaves a pending commit alone in the classic coordinator, and takes it in the new one
        ("t4-MXTC", "classic", [("marker", None), ("pending", None), ("tombstone", None), ("wins", None)]),
        ("t4-MXTC", "new", [("marker", None), ("deleted", 2), ("tombstone", None), ("wins", None)]),
        # a group's tombstone leaves its offsets, or hides them, those of committed transactions too
        ("g4-CXDM", "classic", [("wins", None), ("wins", 3), ("tombstone", None), ("marker", None)]),
        ("g4-CXDM", "new", [("hidden", 2), ("hidden", 2), ("tombstone", None), ("marker", None)]),
    ],
)
def test_fates_where_the_coordinators_differ(case, coordinator, expected):
    """FACTS.md of the crafted logs, 3 and 4: C commit, X transactional, T tombstone, D group tombstone, M/A markers."""
    assert fates_of(case, coordinator) == expected
