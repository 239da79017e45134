"""`load --group`: one group, or the groups that match a pattern, as a load of everything shows them."""

import json

import pytest

HARBOUR = "data/harbour/3.9.2"
BROKER = ["--coordinator", "classic"]


def load(run, path, *options):
    status, out, err = run("load", path, "--json", *BROKER, *options)
    assert (status, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize("pattern", ["billing", "b*", "*audit*", "nosuch"])
def test_only_the_groups_that_match_are_shown(run, pattern):
    """Everything else in the JSON is that of the whole load."""
    whole = load(run, HARBOUR)
    selected = load(run, HARBOUR, "--group", pattern)
    wanted = {
        "billing": {"billing"},
        "b*": {name for name in whole["groups"] if name.startswith("b")},
        "*audit*": {name for name in whole["groups"] if "audit" in name},
        "nosuch": set(),
    }[pattern]
    assert selected["groups"] == {name: whole["groups"][name] for name in wanted}
    assert {name: selected[name] for name in ("path", "partitions", "topic_partitions")} == {
        name: whole[name] for name in ("path", "partitions", "topic_partitions")
    }


def test_until_finds_the_partition_of_the_group(run):
    """The records of billing are in partition 9: a folder gives what this partition alone gives."""
    found = load(run, HARBOUR, "--group", "billing", "--until", "20")
    alone = load(run, f"{HARBOUR}/__consumer_offsets-9", "--until", "20")
    assert found["groups"] == {"billing": alone["groups"]["billing"]}
    assert list(found["partitions"]) == ["9"]
    assert found["path"] == HARBOUR


def test_the_text_says_that_no_group_matches(run):
    status, out, _ = run("load", HARBOUR, *BROKER, "--group", "zz*")
    assert status == 0
    assert "The coordinator has no group that matches zz*." in out
