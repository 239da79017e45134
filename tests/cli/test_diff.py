"""`kafkagroups diff`: what brokers answered differently, and nothing else."""

import json
import shutil

import kafkagroups as kg
from tests import cases
from tests.captured import captured
from tests.groups.test_load_crafted import ALL
from tests.groups.test_load_runs import DATA
from tests.handmade import LogRecord, LogWriter, encode_batch

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
    assert status == 0 and "No group, no offset and no pending commit differs.\n" in out


def write_replicas(tmp_path):
    """Two replicas with a common prefix of a real broker: a has a lost commit, b is the new leader."""
    folders = []
    for name, epoch, offset in (("a", 0, 90), ("b", 2, 60)):
        folder = tmp_path / name / "__consumer_offsets-9"
        shutil.copytree(DATA / "3.9.2" / "__consumer_offsets-9", folder)
        data = {"offset": offset, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 5}
        key = {"type": "1", "data": {"group": "billing", "topic": "orders", "partition": 0}}
        record = kg.encode(kg.from_json({"key": key, "value": {"version": "3", "data": data}}))
        with LogWriter(folder) as writer:
            batch = encode_batch([LogRecord(writer.next_offset, 5, *record)], partition_leader_epoch=epoch)
            writer.append(batch)
        folders.append(folder)
    return folders


def test_the_fork_of_two_replicas_is_named(run, tmp_path):
    """The log of 3.9.2 ends at offset 44 (dump.txt). Epoch 0 of a ends there on b, so a truncates to 44."""
    a, b = write_replicas(tmp_path)
    status, out, _ = run("diff", a, b, "--coordinator", "classic", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["fork"] == {"9": {"offset": 44, "leader_epochs": [0, 2], "a_only": 1, "b_only": 1}}
    assert found["truncation"] == {"9": {"newer": "b", "offset": 44}}
    assert found["healed"] == {"groups": {}, "offsets": {"billing": {"orders-0": False}}, "pending": {}}
    assert [pair["offset"] for pair in found["offsets"]["billing"]["orders-0"]] == [90, 60]
    status, out, _ = run("diff", a, b, "--coordinator", "classic")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "Partition 9: the replicas fork at offset 44. Up to there, their records agree." in lines
    text = " ".join(out.split())
    assert "When the broker of a returns and follows b, it truncates its log to offset 44, and loses 1 record." in text
    assert "billing orders-0 offset 90 → 60 lost: b is behind (record 44)" in lines
    assert all(len(line) <= 80 for line in out.splitlines() if "/" not in line)


def test_a_damaged_replica_is_not_called_older(run, tmp_path):
    """A 4.3.1 broker that was stopped cleanly goes on behind a flipped bit, where a reader of its log ends."""
    a, b = write_replicas(tmp_path)
    (segment,) = b.glob("*.log")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    status, out, _ = run("diff", a, b, "--coordinator", "classic")
    text = " ".join(out.split())
    assert status == 1 and "Partition 9: b is damaged: " in text and "compared only up to there" in text
    assert "is the newer replica" not in text and "after the fork" not in text


def test_a_replica_with_a_torn_end_is_compared_as_a_recovery_leaves_it(run, tmp_path):
    """No readable batch follows, so nothing hides behind the damage: the epochs say who is newer."""
    a, b = write_replicas(tmp_path)
    (segment,) = a.glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-10])
    status, out, _ = run("diff", a, b, "--coordinator", "classic")
    text = " ".join(out.split())
    assert status == 1 and "is damaged: " not in text and "b is the newer replica" in text


def test_partitions_of_one_side_are_named(run):
    status, out, _ = run("diff", DATA / "4.3.1", DATA / "4.3.1" / "__consumer_offsets-9")
    assert status == 0 and "Only a has these partitions: 8, 12, 21, 22, 24, 26, 37, 38.\n" in out
    status, out, _ = run("diff", DATA / "4.3.1" / "__consumer_offsets-9", DATA / "4.3.1", "--json")
    assert json.loads(out)["fork"] == {}
