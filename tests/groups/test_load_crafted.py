"""The loader on hand-made logs that a 3.9.2 and a 4.3.1 broker loaded from identical bytes.

Not compared: states that a living broker's limits and timers make (`b32`, `o-session-0`), and `b31c`'s error. A 4.0.2
and a 4.1.2 broker loaded them too; where they answered otherwise, that is compared.
"""

import json

import pytest

import kafkagroups as kg
from tests import cases
from tests.captured import captured
from tests.command import ask_json
from tests.releases.answers import CONSUMER_MEMBER

ALL = json.loads((captured("crafted") / "crafted" / "cases.json").read_text())
OTHERS = json.loads((captured("crafted") / "crafted" / "other_versions.json").read_text())["versions"]

BROKERS = [("classic", None), ("new", None), ("new", "4.0.2"), ("new", "4.1.2")]


@pytest.mark.parametrize(("coordinator", "kafka"), BROKERS)
def test_crafted_logs_load_as_on_that_broker(coordinator, kafka):
    """Every crafted log: offsets, pending commits, groups and members are what the broker answered."""
    seen = 0
    for crafted in ALL:
        if crafted["id"].startswith("d-foreign-"):
            continue
        answers = crafted["answers"][coordinator]
        if kafka is not None:
            differing = OTHERS[f"new-{kafka}"].get(crafted["id"])
            if not differing:
                continue
            answers = answers | differing
        seen += 1
        with cases.case(crafted["id"]):
            check_load(crafted, coordinator, kafka, answers)
    assert seen > 0


def check_load(case, coordinator, kafka, answers):
    if answers["load"] == "broker did not start":
        return
    folder = captured("crafted") / "crafted" / "logs" / case["id"] / f"__consumer_offsets-{case['partition']}"
    shown = ask_json("load", folder, "--json", "--coordinator", coordinator, *(["--kafka", kafka] if kafka else []))
    groups = shown["groups"]
    orphans = shown["orphans"]
    (loaded,) = shown["partitions"].values()
    assert (loaded["error"] is not None) == (answers["load"] == "failed"), loaded["error"]
    for name, expected in answers["offsets"].items():
        if "error" in expected:
            assert name not in groups and name not in orphans
            continue
        mine = groups[name]["offsets"] if name in groups else {}
        wanted = {tp: {k: v for k, v in mine.get(tp, {}).items() if k in offset} for tp, offset in expected.items()}
        assert wanted == expected and set(mine) == set(expected)
    for name, expected in answers["stable"].items():
        if "error" in expected:
            continue
        holder = groups.get(name) or orphans.get(name)
        mine = set(holder["pending"]) if holder else set()
        assert mine == {tp for tp, answer in expected.items() if "UNSTABLE_OFFSET_COMMIT" in str(answer)}
    if answers["load"] == "ok" and case["id"] not in ("b32", "o-session-0"):
        listed = {
            name: {field: group[field] for field in ("protocol_type", "state", "type")}
            for name, group in groups.items()
        }
        assert listed == {
            name: {"type": "classic"} | {field: said for field, said in group.items() if field != "error"}
            for name, group in answers["listed"].items()
        }
    for name, expected in (answers.get("consumer_groups") or {}).items():
        if "error" in expected:
            assert name not in groups or groups[name]["type"] != "consumer"
            continue
        mine = groups[name]
        fields = ("state", "group_epoch", "assignment_epoch", "assignor")
        assert {field: mine[field] for field in fields} == {field: expected[field] for field in fields}
        members = [{field: member[CONSUMER_MEMBER[field]] for field in CONSUMER_MEMBER} for member in mine["members"]]
        assert members == sorted(
            ({field: member[field] for field in CONSUMER_MEMBER} for member in expected["members"]),
            key=lambda m: m["memberId"],
        )
    for name, expected in answers["groups"].items():
        if expected.get("error", "NONE") != "NONE":
            assert name not in groups or case["id"] == "b31c"
        elif expected["state"] == "Dead":
            assert name not in groups or groups[name]["type"] != "classic"
        elif case["id"] not in ("b32", "o-session-0"):
            mine = groups[name]
            assert {field: mine[field] for field in ("state", "protocol_type", "protocol")} == {
                field: expected[field] for field in ("state", "protocol_type", "protocol")
            }
            members = [
                {
                    "member_id": member["member_id"],
                    "group_instance_id": member["group_instance_id"],
                    "metadata_hex": member["subscription_hex"],
                    "assignment_hex": member["assignment_hex"],
                }
                for member in mine["members"]
            ]
            for member, answer in zip(members, expected.get("members", []), strict=True):
                for field, content in member.items():
                    if str(answer[field]).endswith(" bytes"):  # b21: the answer gives only the length of a long one
                        content = f"{len(content) // 2} bytes"
                    assert content == answer[field]


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_a_group_in_two_partitions_is_answered_as_by_that_broker(foreign, coordinator):
    """classic has one cache for all partitions, new answers from the home partition; both name the other partitions."""
    groups = kg.load(foreign, coordinator=coordinator, partitions=400)
    for case in json.loads((captured("crafted") / "crafted" / "cases.json").read_text()):
        if case["id"].startswith("d-foreign-"):
            answers = case["answers"][coordinator]
            for name, expected in answers["groups"].items():
                mine = groups.get(name)
                assert (mine.state.value if mine else "Dead") == expected["state"], name
                offsets = mine.offsets if mine else {}
                assert {str(tp): o.offset for tp, o in offsets.items()} == {
                    tp: o["offset"] for tp, o in answers["offsets"][name].items()
                }
    elsewhere = {"d-foreign-gt-1.g.ex": [294], "d-foreign-gt-2.g.gl": [293]}
    if coordinator == "new":
        elsewhere["d-foreign-a.foreign.ek"] = [292]
    assert groups.elsewhere == elsewhere
    errors = [loaded.error for loaded in groups.partitions.values() if loaded.error]
    assert len(errors) == (coordinator == "classic"), "whichever of the two partitions loads second fails"
