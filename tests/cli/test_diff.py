"""`kafkagroups diff`: what brokers answered differently, and nothing else."""

import json
import shutil

import pytest

from kafkagroups import TopicPartition
from tests import cases
from tests.captured import captured
from tests.groups.test_load_crafted import ALL
from tests.groups.test_load_runs import DATA
from tests.history.logs import START, VERSIONS, Broker

LOADED = [
    case
    for case in ALL
    if not case["id"].startswith("d-foreign-") and all(case["answers"][c]["load"] == "ok" for c in ("classic", "new"))
]


def test_two_coordinators_differ_where_the_brokers_answered_differently(run):
    """Every crafted log that loads on both: offsets of known groups, and which partitions are unstable."""
    for crafted in LOADED:
        with cases.case(crafted["id"]):
            check_differences(crafted, run)


def check_differences(case, run):
    path = captured("crafted") / "crafted" / "logs" / case["id"] / f"__consumer_offsets-{case['partition']}"
    status, out, _ = run("diff", path, "--coordinators", "--json")
    found = json.loads(out)
    a, b = (case["answers"][coordinator] for coordinator in ("classic", "new"))
    expected = {}
    for name in a["offsets"]:
        sides = [{tp: tell(offset) for tp, offset in answers["offsets"][name].items()} for answers in (a, b)]
        keys = {tp for tp in {*sides[0], *sides[1]} if sides[0].get(tp) != sides[1].get(tp)}
        if keys:
            expected[name] = {tp: [sides[0].get(tp), sides[1].get(tp)] for tp in keys}
    mine = {
        name: {tp: [offset and tell(offset) for offset in pair] for tp, pair in keys.items()}
        for name, keys in found["offsets"].items()
    }
    assert status == 0 and mine == expected
    for name in a["stable"]:
        unstable = [{tp for tp, said in x["stable"][name].items() if "UNSTABLE" in str(said)} for x in (a, b)]
        assert {tp for tp, pair in found["pending"].get(name, {}).items() if None in pair} == unstable[0] ^ unstable[1]
    listed = [{name: (g.get("type", "classic"), g["state"]) for name, g in x["listed"].items()} for x in (a, b)]
    for name in {*listed[0], *listed[1]} - {"b32", "o-session-0"}:
        if case["id"] not in ("b32", "o-session-0") and listed[0].get(name) != listed[1].get(name):
            assert name in found["groups"]


def tell(offset):
    return offset["offset"], offset["metadata"], offset["leader_epoch"]


def test_a_log_differs_from_its_earlier_self(run):
    """The shop's log of 3.9.2: a commit of billing's last minute (answers.json) is on the later side only."""
    status, out, _ = run(
        "diff", DATA / "3.9.2", "--coordinator", "classic", "--since-time", "2026-11-21T10:14:00", "--json"
    )
    found = json.loads(out)
    answers = json.loads((DATA / "3.9.2" / "answers.json").read_text())
    before, after = found["offsets"]["billing"]["orders-0"]
    assert status == 0 and after["offset"] == answers["offsets"]["billing"]["orders-0"]["offset"] > before["offset"]
    status, out, _ = run("diff", DATA / "3.9.2", DATA / "3.9.2")
    said = " ".join(out.split())
    assert status == 0 and "same as far as they were read. No group, no offset and no pending commit differs." in said


def test_partitions_of_one_side_are_named(run):
    status, out, _ = run("diff", DATA / "4.3.1", DATA / "4.3.1" / "__consumer_offsets-9")
    assert status == 0 and "Only a has these partitions: 8, 12, 21, 22, 24, 26, 37, 38.\n" in out
    status, out, _ = run("diff", DATA / "4.3.1" / "__consumer_offsets-9", DATA / "4.3.1", "--json")
    assert json.loads(out)["fork"] == {}


def test_a_log_whose_folder_has_no_number(tmp_path, run):
    """It is not compared with partition 9, and never called partition None."""
    partition = DATA / "4.3.1" / "__consumer_offsets-9"
    shutil.copytree(partition, tmp_path / "copy")
    _, out, _ = run("diff", partition, tmp_path / "copy")
    assert "Only b has these partitions: one without a number.\n" in out


@pytest.mark.parametrize("version", VERSIONS)
def test_deletions_between_two_moments_are_named(version, tmp_path, run):
    """Each request of a broker of this version deletes what was committed (OffsetDelete), so the log has a tombstone
    for each: two of orders-1, and one of orders-0, which was committed again.
    """
    broker = Broker(tmp_path, version)
    partitions = [TopicPartition("orders", number) for number in range(3)]
    broker.commit({0: 100, 1: 100, 2: 100}, seconds=60)
    broker.coordinator.offset_delete("app", partitions[:2])
    broker.commit({0: 150, 1: 110}, seconds=1)
    broker.coordinator.offset_delete("app", partitions[1:])
    broker.logs.close()
    options = ("--since-time", str(START), "--kafka", version)
    status, out, _ = run("diff", tmp_path, *options)
    rows = [" ".join(line.split()) for line in out.splitlines() if " orders-" in line]
    assert status == 0 and rows == [
        "app orders-0 offset 100 → 150; deleted in between (0:3)",
        "app orders-1 100 → none; deleted in between (0:4, 0:7)",
        "app orders-2 100 → none",
    ]
    _, out, _ = run("diff", tmp_path, *options, "--json")
    deleted = {"orders-0": {"b": [[0, 3]]}, "orders-1": {"b": [[0, 4], [0, 7]]}, "orders-2": {"b": [[0, 8]]}}
    assert json.loads(out)["deleted"] == {"app": deleted}
