"""What became of each record, checked against what brokers answered."""

import pytest

import kafkagroups as kg
from kafkagroups import explain
from kafkagroups.history.fates import Fates, history_json
from kafkagroups.loading.engines import create_observed_engine
from kafkagroups.loading.group_json import group_json, offset_json
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.folders import open_logs
from tests.captured import captured
from tests.cases import case
from tests.groups.test_load_runs import DATA

LOGS = sorted({str(file.parents[1]) for family in ("runs", "crafted") for file in captured(family).rglob("*.log")})
LOGS += [str(DATA / version) for version in ("1.0.1", "3.9.2", "4.3.1")]


def walk(path, coordinator, group=None):
    rules = kg.dialect(coordinator)
    fates = Fates(rules, None if group is None else [group])
    groups = OpenTopic(open_logs(path), rules).load(engine=create_observed_engine(fates))
    fates.settle(groups)
    return fates, groups


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_the_record_that_wins_is_the_one_that_is_answered(coordinator):
    """Every captured log: one winner for each offset that load answers, none for others; pending ones as load says."""
    for path in LOGS:
        with case(path):
            check_fates(path, coordinator)


def check_fates(path, coordinator):
    fates, groups = walk(path, coordinator)
    winners = {}
    pending = set()
    hidden = set()
    for entry in fates:
        shown = history_json(entry)
        assert shown["fate"] and (entry.fate.value != "ignored" or entry.why), shown
        if entry.key is not None and shown["fate"] == "wins":
            assert (entry.group, entry.key) not in winners
            winners[entry.group, entry.key] = (entry.partition, entry.offset)
        if shown["fate"] == "pending":
            pending.add((entry.group, entry.key, entry.offset))
        if shown["fate"] == "hidden":
            hidden.add((entry.group, entry.key, entry.offset))
    assert winners == {
        (name, key): (group.partition, offset.record_offset)
        for name, group in [*groups.items(), *((n, each) for n, each in groups.orphans.items() if each.is_answered)]
        for key, offset in group.offsets.items()
    }
    holders = [*groups.items(), *groups.orphans.items()]
    assert pending == {
        (name, key, offset.record_offset)
        for name, holder in holders
        for there in holder.pending.values()
        for key, offset in there.items()
    }
    assert hidden == {
        (name, key, offset.record_offset)
        for name, orphan in groups.orphans.items()
        if not orphan.is_answered
        for key, offset in orphan.offsets.items()
    }
    for name, group in groups.items():
        wins = [e for e in fates if e.group == name and e.key is None and e.fate.value == "wins"]
        assert len({(e.type, e.member_id) for e in wins}) == len(wins) or any(e.type == 16 for e in wins)
        if group.type == "classic":
            assert len(wins) == (0 if group_json(group)["generation"] == 0 and not wins else 1)


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_explain_answers_what_load_answers(coordinator):
    """Group by group and offset by offset, on the shop's log and on crafted ones."""
    for path in (DATA / "3.9.2", DATA / "4.3.1"):
        groups = kg.load(path, coordinator)
        for name, group in groups.items():
            story = explain(path, name, coordinator=coordinator)
            assert story.answer == group_json(group)
            for key, offset in list(group.offsets.items())[:2]:
                one = explain(path, name, key.topic, key.partition, coordinator=coordinator)
                assert one.answer == offset_json(offset)
                assert [e.offset for e in one.history if e.fate.value == "wins"] == [offset.record_offset]
    assert explain(DATA / "4.3.1", "nobody").answer is None


def fates_of(case, coordinator):
    (path,) = (captured("crafted") / "crafted" / "logs" / case).iterdir()
    fates, _ = walk(path, coordinator)
    return [(e.fate.value, e.by) for e in fates]


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
