"""`kafkagroups rescue plan`: the table, the file, JSON, and exit codes."""

import json
from pathlib import Path

import pytest

import kafkagroups as kg
from tests.captured import captured
from tests.handmade import MINUTE, START, commit_record, offset_tombstone, write_batches, write_segment

DATA = "data/harbour/4.3.1"


def test_the_table_and_the_file(run, tmp_path):
    """The table has each offset and what is left out. The file has the plan of the Python function."""
    status, out, err = run("rescue", "plan", DATA, "--out", tmp_path / "plan.json")
    assert (status, err) == (0, "")
    plan = kg.plan_rescue(DATA)
    assert json.loads((tmp_path / "plan.json").read_text()) == plan.to_json()
    rows = [line.split() for line in out.splitlines()]
    for group_id, group in plan.groups.items():
        in_table = any(row[:2] == [group_id, group.to] for row in rows)
        assert in_table == bool(group.offsets or group.left_out)
        for key, offset in group.offsets.items():
            assert any(row[:3] == [group_id, str(key), str(offset.offset)] for row in rows)
    assert ["fraud-check", "payments-1", "pending", "41", "31", "33"] in rows
    assert "Groups without offsets to restore (no group): mailer, promo." in out
    assert "Offsets only fit topics whose records kept their offsets" in " ".join(out.split())
    assert all(len(line) <= 80 for line in out.splitlines()[:-1])


def test_an_existing_file_is_refused_before_the_log_is_read(run, tmp_path):
    """Exit code 2, one line, and the file is unchanged."""
    (tmp_path / "plan.json").write_text("mine")
    status, out, err = run("rescue", "plan", "/no/such/log", "--out", tmp_path / "plan.json")
    assert (status, out, err.count("\n")) == (2, "", 1) and "never overwrites" in err
    assert (tmp_path / "plan.json").read_text() == "mine"


def test_json(run):
    """One line of JSON on stdout, the plan itself."""
    status, out, err = run("rescue", "plan", DATA, "--json", "--topic", "orders", "--group", "billing")
    assert (status, err, out.count("\n")) == (0, "", 1)
    assert json.loads(out) == kg.plan_rescue(DATA, topics=["orders"], groups=["billing"]).to_json()


def test_groups_that_do_not_match_are_named(run):
    """What --group excludes is not silent."""
    _, out, _ = run("rescue", "plan", "data/harbour/3.9.2", "--coordinator", "classic", "--group", "billing")
    assert "Not in the plan, because --group does not match: café-☕, dashboard" in " ".join(out.split())


def test_a_damaged_log(run, tmp_path):
    """The plan of what comes before the damage is written. Exit code 1, and one line about the damage."""
    data = bytearray(Path(DATA, "__consumer_offsets-9", "00000000000000000000.log").read_bytes())
    data[-1] ^= 1
    folder = write_segment(tmp_path, data, 9)
    status, _, err = run("rescue", "plan", folder, "--out", tmp_path / "plan.json")
    assert status == 1 and err.count("\n") == 1 and "checksum" in err
    assert kg.plan_rescue(folder).problems == kg.load(folder).problems


def test_the_plan_names_the_rules(run):
    """The rules of another version are named, in the JSON and in one line on stderr."""
    _, out, err = run("rescue", "plan", "data/harbour/1.0.1", "--kafka", "2.7.2", "--json")
    assert json.loads(out)["made_from"]["kafka_rules"] == "2.8.2" and err.endswith("the rules are those of 2.8.2\n")


def test_an_assumed_partition_count_is_not_silent(run, foreign):
    """Groups in partitions that are not theirs: the text and the plan say what was assumed, as `load` does."""
    _, out, _ = run("rescue", "plan", foreign)
    _, loaded, _ = run("load", foreign)
    (line,) = (line for line in loaded.splitlines() if line.startswith("The topic's partition count is unknown"))
    assert line in " ".join(out.split())
    assert kg.plan_rescue(foreign).made_from["topic_partitions"] == kg.load(foreign).topic_partitions.to_json()


def test_a_planned_offset_below_that_of_another_partition_is_named(run, tmp_path):
    """The new coordinator answers from the first partition if the partition count is unknown."""
    for partition, offset in ((1, 40), (3, 55)):
        commit = commit_record(offset, 0, "orders", group="billing")
        write_batches(tmp_path, [(offset, [commit])], partition)
    assert kg.load(tmp_path)["billing"].offsets[kg.TopicPartition("orders", 0)].offset == 40
    _, out, _ = run("rescue", "plan", tmp_path)
    assert "If the offset here is higher, the plan can repeat records" in " ".join(out.split())
    assert "billing orders-0 other partition 55 40" in " ".join(out.split())
    _, out, _ = run("rescue", "plan", DATA)
    assert "can repeat records" not in " ".join(out.split())


def test_offsets_of_a_topic_that_was_created_again_later_are_left_out(run):
    """A real broker of 3.9.2: shop.orders was created again at 09:52:30 (README.md of the captured incidents)."""
    log = captured("incidents") / "incidents" / "recreated"
    options = ("--kafka", "3.9.2", "--until-time")
    for engine in ("python", "auto"):
        _, out, _ = run("rescue", "plan", log, *options, "2026-11-30T09:52", "--json", "--engine", engine)
        groups = json.loads(out)["groups"].values()
        assert {key.rpartition("-")[0] for group in groups for key in group["offsets"]} == {"shop.stock", "shop.clicks"}
        left_out = [(key[:-2], each["why"]) for group in groups for key, each in group["left_out"].items()]
        assert left_out == [("shop.orders", "old topic")] * 12
    _, out, _ = run("rescue", "plan", log, *options, "2026-11-30T09:52")
    text = " ".join(out.split())
    assert "order-notify shop.orders-0 old topic 258 - 60" in text
    assert "old topic: the log shows that the topic was created again after --until-time" in text
    _, out, _ = run("rescue", "plan", log, *options, "2026-11-30T09:53:28")
    assert "old topic" not in out and all(f" {offset}\n" in out for offset in (244, 279, 281, 284))


@pytest.mark.parametrize(("topic_id", "marked"), [(None, {"g": 450, "h": 450}), ("5uQ2SNmWReyximm-_39NHQ", {})])
def test_offsets_that_can_have_expired_are_planned_and_marked(topic_id, marked, tmp_path):
    """One check expires the offsets of two groups, which begin again at the start: the topic can be the same one, and
    with the same id it is.
    """
    week = 7 * 86_400_000

    def both(offset):
        return [commit_record(offset, group=group, topic_id=topic_id) for group in "gh"]

    expired = [offset_tombstone(group=group) for group in "gh"]
    batches = [(0, both(450)), (week, expired), (week + MINUTE, both(9))]
    plan = kg.plan_rescue(write_batches(tmp_path, batches), until_time=START + MINUTE).groups
    assert {name: each.offset for name in plan for each in plan[name].offsets.values()} == {"g": 450, "h": 450}
    assert {name: each.offset for name in plan for each in plan[name].left_out.values()} == marked


def test_another_topic_id_shows_a_new_topic_whoever_commits_it(tmp_path):
    """A topic that is created again has another id (KIP-516), here in the later commit of another group."""
    ids = ("5uQ2SNmWReyximm-_39NHQ", "BblvQal6RcSV5OeUtKizDQ")
    commits = [commit_record(9, topic_id=ids[0]), commit_record(2, group="h", topic_id=ids[1], time=START + 1000)]
    log = write_batches(tmp_path, [(1000 * number, [commit]) for number, commit in enumerate(commits)])
    plan = kg.plan_rescue(log, until_time=START).groups["g"]
    assert not plan.offsets and [each.why.value for each in plan.left_out.values()] == ["old topic"]
