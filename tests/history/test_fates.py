"""What became of each record, checked against what brokers answered."""

from dataclasses import asdict

import pytest
from msgspec.structs import replace

import kafkagroups as kg
from kafkagroups import UsageError, explain
from tests.captured import captured, folders
from tests.cases import case, first_quickly
from tests.command import ask_json
from tests.fuzz.odd_logs import mend
from tests.groups.small_logs import commit
from tests.groups.test_load_runs import DATA
from tests.handmade import encode_batch, write_segment

LOGS = sorted({str(file.parents[1]) for family in ("runs", "crafted") for file in captured(family).rglob("*.log")})
LOGS += [str(DATA / version) for version in ("1.0.1", "3.9.2", "4.3.1")]


@pytest.mark.slow
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
    """C commit, X transactional, T tombstone, D group tombstone, M/A markers."""
    assert fates_of(case, coordinator) == expected


# The tables `records` and `fates`


@pytest.mark.thorough
@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_the_fates_are_those_of_explain(coordinator):
    """Every group of the captured runs: the table has the records of `explain`, with the same fates.

    `explain` also shows a record that the coordinator cannot read, if its key names the group. The table has no group
    for such a record.
    """
    for folder in folders("runs"):
        with case(folder.relative_to(captured("runs"))):
            rows = kg.record_table(folder, coordinator=coordinator).read_all().to_pylist()
            for group in sorted({row["group"] for row in rows if row["group"] is not None}):
                history = kg.explain(folder, group, coordinator=coordinator, engine="python").history
                wanted = [
                    (entry.partition, entry.offset, entry.fate.value, entry.by, entry.member_id, entry.committed)
                    for entry in history
                    if entry.group is not None
                ]
                given = [
                    (row["partition"], row["offset"], row["fate"], row["by"], row["member_id"], row["committed_offset"])
                    for row in rows
                    if row["group"] == group
                ]
                without_group = {(row["partition"], row["offset"]) for row in rows if row["error"] is not None}
                assert given == [row for row in wanted if row[:2] not in without_group], group


def test_a_table_that_does_not_exist():
    with pytest.raises(UsageError, match="no table 'offset': expected one of records, fates, offsets"):
        kg.record_table("data/harbour/3.9.2", "offset")
    with pytest.raises(UsageError, match="key"):
        kg.record_table("data/harbour/3.9.2", "fates", columns=["key"])


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_batch_without_readable_records_and_a_record_with_its_offset(engine, tmp_path):
    """The batch has a row of its own, which has nothing of the record at the same offset."""
    good = encode_batch([commit(5)])
    bad = bytearray(good)
    bad[57:61] = (2).to_bytes(4, "big")  # The number of records. The batch has one.
    folder = write_segment(tmp_path, mend(bad) + good)
    rows = kg.record_table(folder, "fates", coordinator="classic", engine=engine).read_all().to_pylist()
    found = [(row["offset"], row["group"], row["committed_offset"]) for row in rows]
    assert found == [(5, None, None), (5, "g", 5)]


# `explain` of one group with both engines, and of many groups


def explain_both(path, group, coordinator, kafka, **options):
    """Return what `explain` gives with the readable engine, and with the native one."""
    options |= {"coordinator": coordinator, "kafka": kafka}
    return [asdict(kg.explain(path, group, engine=engine, **options)) for engine in ("python", "compiled")]


@pytest.mark.engine
@pytest.mark.parametrize("group", ["\ufffd", "\ud800", "", "a" * 40_000, "a" * 70_000], ids=lambda group: group[:2])
def test_a_group_id_that_has_no_single_encoding(group, tmp_path):
    """Java reads different wrong bytes as U+FFFD, so no bytes can be searched for it. No key has a very long id."""
    wrong = commit(0, "ab")
    records = [replace(wrong, key=wrong.key.replace(b"ab", b"\xff\xfe")), commit(1, "\ufffd"), commit(2, "")]
    folder = write_segment(tmp_path, encode_batch(records))
    readable, compiled = explain_both(folder, group, "new", "4.3.1")
    assert compiled == readable and bool(compiled["history"]) == (group in ("\ufffd", ""))


@pytest.mark.parametrize("engine", first_quickly(["python", "compiled"], pytest.mark.slow))
@pytest.mark.parametrize("family", first_quickly(["dumplog", "crafted"], pytest.mark.slow))
def test_each_group_of_a_pattern_is_explained_as_if_it_was_asked_about_alone(family, engine):
    """Every crafted log, and the logs that other programs' texts come from, with both coordinators."""
    for folder in folders(family):
        for coordinator in ("classic", "new"):
            topic = kg.Topic(folder, coordinator, engine=engine)
            with case(f"{folder.name} {coordinator}"):
                together = topic.explain_groups("*")
                alone = [topic.explain(each.group) for each in together if each.record_partitions]
                assert list(map(asdict, alone)) == [asdict(each) for each in together if each.record_partitions]
