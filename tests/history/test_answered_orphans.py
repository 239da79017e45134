"""Kafka 0.9.0 and 0.10.0 answer offsets of groups that they do not have: they look only into the cache of offsets."""

import json

import pytest

from tests.captured import captured

RUN = captured("runs") / "runs" / "0.9.0.1-basic"
ANSWERS = json.loads((RUN / "answers.json").read_text())
DEAD = {name: offsets for name, offsets in ANSWERS["offsets"].items() if ANSWERS["groups"][name]["state"] == "Dead"}
"""What the broker answered to OffsetFetch for groups of which it said Dead to DescribeGroups."""
RULES = ("--coordinator", "classic", "--kafka")


@pytest.mark.parametrize("name", sorted(name for name, offsets in DEAD.items() if name and offsets))
def test_an_offset_that_the_broker_answers_wins(run, name):
    status, out, _ = run("explain", RUN / "log", "--group", name, *RULES, "0.9.0.1", "--json")
    found = json.loads(out)
    wins = [row["key"] for row in found["history"] if row["fate"] == "wins"]
    answered = {key: row["offset"] for key, row in found["answer"]["offsets"].items() if row["offset"] != -1}
    assert status == 0 and {key: row["offset"] for key, row in DEAD[name].items()}.items() <= answered.items()
    assert answered.keys() <= set(wins) and len(wins) == len(found["answer"]["offsets"])
    assert {row["fate"] for row in found["history"]}.isdisjoint({"hidden", "ignored"})


def test_a_rescue_takes_the_offsets_that_the_broker_answers(run, tmp_path):
    assert run("rescue", "plan", RUN / "log", *RULES, "0.9.0.1", "--out", tmp_path / "plan.json")[0] == 0
    planned = json.loads((tmp_path / "plan.json").read_text())["groups"]
    for name, offsets in DEAD.items():
        if offsets:
            assert (planned[name]["state"], planned[name]["why"]) == (None, None)
            assert {key: row["offset"] for key, row in offsets.items()}.items() <= {
                key: row["offset"] for key, row in planned[name]["offsets"].items()
            }.items()


def test_the_offsets_are_live_and_an_upgrade_keeps_them(run):
    """A 1.0.1 broker, whose groups hold their offsets, answers the same offsets of the same log."""
    _, out, _ = run("stats", RUN / "log", *RULES, "0.9.0.1", "--json")
    live = {row["group"]: row["live_records"] for row in json.loads(out)["rows"]}
    assert all(live[name] >= len(offsets) for name, offsets in DEAD.items() if offsets)
    _, out, _ = run("check", RUN / "log", *RULES, "0.9.0.1", "--to", "1.0.1", "--to-coordinator", "classic", "--json")
    kinds = {finding["kind"] for finding in json.loads(out)["findings"]}
    assert "offset_differs" not in kinds
    _, out, _ = run("load", RUN / "log", *RULES, "0.9.0.1")
    assert "Groups that the coordinator does not have, but whose offsets it answers" in out
