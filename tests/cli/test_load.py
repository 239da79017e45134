"""`kafkagroups load`: the members of the new protocols, a text of 80 columns, and the groups that --group selects.

The expected members are those of the records themselves, with the names of MemberState.java (4.3.1).
"""

import json
import re
from datetime import datetime

import pytest

import kafkagroups as kg
from tests.captured import captured
from tests.groups.test_load_runs import DATA
from tests.handmade import commit_record, write_batches

LOYALTY = DATA / "4.3.1" / "__consumer_offsets-24"
SHOP = str(DATA / "3.9.2")
BROKER = ["--coordinator", "classic"]
ORDERS = "ZU65847bTT-V05yS1qluiQ"


def load_members(run, path, group, *options):
    status, out, _ = run("load", path, "--json", *options)
    assert status == 0
    return {member["client_id"]: member for member in json.loads(out)["groups"][group]["members"]}


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_member_that_gives_a_partition_back_and_one_that_waits_for_it(run, engine):
    """loyalty after record 15: member 1 has to revoke partition 2 (record 15), member 2 waits for it (record 14)."""
    members = load_members(run, LOYALTY, "loyalty", "--until", "16", "--engine", engine)
    fields = ("state", "member_epoch", "previous_member_epoch", "assignment", "pending_revocation")
    assert {client: [member[field] for field in fields] for client, member in members.items()} == {
        "loyalty-1": ["UnrevokedPartitions", 2, 2, {ORDERS: [0, 1, 2]}, {ORDERS: [2]}],
        "loyalty-2": ["UnreleasedPartitions", 3, 3, {}, {}],
    }


def test_the_state_of_a_streams_member_has_other_numbers(run):
    """4.3.1-next, records 42 and 43: number 3 is UNRELEASED_TASKS, and number 2 is UNREVOKED_TASKS."""
    log = captured("runs") / "runs" / "4.3.1-next" / "log" / "__consumer_offsets-1"
    _, out, _ = run("load", log, "--until", "44", "--json")
    (members,) = [group["members"] for group in json.loads(out)["groups"].values() if group["type"] == "streams"]
    tasks = {"standby": {}, "warmup": {}}
    assert sorted((m["state"], m["previous_member_epoch"], str(m["pending_revocation"])) for m in members) == [
        ("UnreleasedTasks", 4, str({"active": {}} | tasks)),
        ("UnrevokedTasks", 3, str({"active": {"0": [1], "1": [1]}} | tasks)),
    ]


def test_a_member_of_a_share_group_has_no_state(run):
    """The record of a share member has a state, but its only number is 0, and a share member has nothing to revoke."""
    (member,) = load_members(run, DATA / "4.3.1", "tasters").values()
    assert not {"state", "previous_member_epoch", "pending_revocation"} & member.keys()


def test_the_text_says_where_the_offsets_of_a_share_group_are(run):
    """A share group commits nothing to __consumer_offsets: Kafka has the progress in __share_group_state (KIP-932)."""
    note = "The offsets of a share group are not in this log, but in the topic __share_group_state."
    for group, is_share in [("tasters", True), ("loyalty", False)]:
        _, out, _ = run("load", DATA / "4.3.1", "--group", group)
        assert (note in " ".join(out.split())) == is_share


def test_the_text_names_members_and_pending_offsets(run):
    _, out, _ = run("load", LOYALTY, "--until", "16")
    assert "state UnrevokedPartitions, epoch 2, previous epoch 2" in " ".join(out.split())
    assert "of these to revoke: orders: 2\n" in out, "a commit names the topic of this id"
    _, out, _ = run("load", DATA / "3.9.2", "--coordinator", "classic")
    answers = json.loads(run("load", DATA / "3.9.2", "--coordinator", "classic", "--json")[1])
    for topic_partition, commits in answers["groups"]["fraud-check"]["pending"].items():
        (commit,) = commits
        numbers = (commit["offset"], commit["producer_id"], commit["record_offset"])
        assert ["fraud-check", topic_partition, *map(str, numbers)] in [line.split() for line in out.splitlines()]


def test_the_text_of_one_classic_group_names_its_members(run):
    """What a 3.9.2 broker stored (dump.txt): their time-outs differ only if somebody has set them."""
    path = DATA / "3.9.2"
    (group,) = [each for each in kg.load(path, "classic").values() if each.group_id == "billing"]
    _, out, _ = run("load", path, "--coordinator", "classic", "--group", "billing")
    text = " ".join(out.split())
    assert f"Members of billing (classic group, generation {group.generation}):" in text
    for member in kg.load(path, "classic").members_frame().query("group == 'billing'").itertuples():
        assert f"session time-out in ms {member.session_timeout_ms}" in text
        assert f"assigned: {', '.join(member.assigned_partitions)}" in text
    assert "Members of" not in run("load", path, "--coordinator", "classic")[1]


def write_commits(tmp_path, count, group_of=lambda number: "g"):
    records = [commit_record(5, number, "orders", group=group_of(number)) for number in range(count)]
    return write_batches(tmp_path, [(0, records)])


@pytest.mark.parametrize(("count", "shown"), [(20, 20), (21, 20), (300, 20)])
def test_many_offsets_of_a_group_are_cut_and_the_cut_is_announced(run, tmp_path, count, shown):
    log = write_commits(tmp_path, count)
    _, out, _ = run("load", log)
    assert out.count(" orders-") == shown
    assert (f"Not shown: {count - shown} committed offset" in out) == (shown < count)
    _, out, _ = run("load", log, "--all")
    assert out.count(" orders-") == count and "Not shown" not in out


def test_the_offsets_of_all_groups_together_have_a_limit(run, tmp_path):
    """40 groups with 15 offsets each have 600 offsets: 5 of each group are shown."""
    log = write_commits(tmp_path, 600, lambda number: f"g{number % 40:02}")
    _, out, _ = run("load", log)
    assert out.count(" orders-") == 200
    assert "Not shown: 400 committed offsets. --all shows them" in " ".join(out.split())


@pytest.mark.parametrize(("version", "coordinator"), [("3.9.2", "classic"), ("4.3.1", "new")])
def test_offsets_with_an_expire_time_are_marked(run, version, coordinator):
    """Act 7: stock-audit commits orders-1 with a retention time of an hour. No other offset of 3.9 or 4.3 has one."""
    act = next(act for act in json.loads((DATA / version / "acts.json").read_text()) if "an hour" in act["what"])
    _, out, _ = run("load", DATA / version, "--coordinator", coordinator)
    lines = out.splitlines()
    start = next(number for number, line in enumerate(lines) if "expire time (UTC)" in line)
    rows = [line.split() for line in lines[start:] if re.search(r" 20\d\d-\d\d-\d\d ", line)]
    assert [row[:2] for row in rows] == [["stock-audit", "orders-1"]]
    expires = datetime.fromisoformat(f"{rows[0][3]}T{rows[0][4]}+00:00").timestamp() * 1000
    assert -1000 < expires - 3_600_000 - act["time_ms"] < 1000  # The text has whole seconds.


def load(run, path, *options):
    status, out, err = run("load", path, "--json", *BROKER, *options)
    assert (status, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize("pattern", ["billing", "b*", "*audit*", "nosuch"])
def test_only_the_groups_that_match_are_shown(run, pattern):
    """Everything else in the JSON is that of the whole load."""
    whole = load(run, SHOP)
    selected = load(run, SHOP, "--group", pattern)
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


def test_the_text_says_that_no_group_matches(run):
    status, out, _ = run("load", SHOP, *BROKER, "--group", "zz*")
    assert status == 0
    assert "The coordinator has no group that matches 'zz*'." in out
