"""`kafkagroups explain`: on the shop's log, whose acts (acts.json) say what happened."""

import json

import pytest

import kafkagroups as kg
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.records.group_metadata import GroupMetadataKey
from tests.captured import captured
from tests.groups.small_logs import write
from tests.groups.test_load_runs import DATA

LOG = DATA / "3.9.2"


def test_explain_prints_the_life_of_an_offset_as_the_contract_has_it(run):
    """CONTRACT.md 19: history in the order of the log, one winner, and the answer of load."""
    arguments = ("--group", "billing", "--topic", "orders", "--partition", "0", "--coordinator", "classic", "--json")
    status, out, _ = run("explain", LOG, *arguments)
    told = json.loads(out)
    answers = json.loads((LOG / "answers.json").read_text())
    assert status == 0 and (told["group"], told["coordinator"]) == ("billing", "classic")
    assert {"partition", "offset", "type", "key", "fate", "by"} <= set(told["history"][0])
    (winner,) = [entry for entry in told["history"] if entry["fate"] == "wins"]
    assert winner["offset"] == told["answer"]["record_offset"]
    assert told["answer"]["offset"] == answers["offsets"]["billing"]["orders-0"]["offset"]
    assert [entry["offset"] for entry in told["history"]] == sorted(entry["offset"] for entry in told["history"])


def test_a_person_sees_where_an_offset_went_back_and_what_waits(run):
    """Act 5: fraud-check was set back by hand, with a note; its last transaction never ended."""
    status, out, _ = run("explain", LOG, "--group", "fraud-check", "--coordinator", "classic")
    back = next(line for line in out.splitlines() if "▼" in line)
    assert status == 0 and "set back by hand" in back and "wins" in back
    assert "UNSTABLE_OFFSET_COMMIT" in out and "A 3.9.2 broker (classic coordinator) answers" in out


def test_a_group_that_is_not_there_is_told_with_its_home(run):
    """billing is stored in partition 9 of 50 (partition_for.jsonl has the hash); a wrong name has no records."""
    status, out, _ = run("explain", LOG / "__consumer_offsets-12", "--group", "billing")
    assert status == 0 and "No record of billing" in out and "partition 9 if the topic has 50" in out
    status, out, err = run("explain", LOG, "--group", "billing", "--topic", "orders")
    assert status == 2 and "both or none" in err and not out


@pytest.mark.slow
def test_a_long_history_is_cut_for_a_person_and_whole_for_a_machine(run, tmp_path):
    """Twenty records and what stands out; --all and --json have every one."""
    from kafkagroups import synth

    synth.write(tmp_path / "log", 4000, groups=1, partitions=1, tombstones=0)
    arguments = ("explain", tmp_path / "log", "--group", "group-000000")
    _, short, _ = run(*arguments)
    _, whole, _ = run(*arguments, "--all")
    _, machine, _ = run(*arguments, "--json")
    assert len(short.splitlines()) < 40 and "of 4000 records" in short
    assert len(whole.splitlines()) > 4000 and len(json.loads(machine)["history"]) == 4000


def test_several_paths_are_several_lines(run):
    """CONTRACT.md 2: an object a PATH, one bad one does not stop the others; 22: --until needs one partition."""
    status, out, _ = run("explain", LOG, "nowhere", DATA / "1.0.1", "--group", "billing", "--json")
    assert status == 2
    assert [json.loads(line)["path"] for line in out.splitlines()] == [str(LOG), str(DATA / "1.0.1")]
    status, _, err = run("explain", LOG, "--group", "billing", "--until", "10")
    assert status == 2 and "one partition" in err
    _, out, _ = run("explain", LOG / "__consumer_offsets-9", "--group", "billing", "--until", "20", "--json")
    batches = [batch for batch in kg.open_log(LOG / "__consumer_offsets-9") if batch.base_offset < 20]
    assert max(entry["offset"] for entry in json.loads(out)["history"]) <= batches[-1].last_offset


def test_a_hidden_offset_names_the_tombstone_that_hid_it(run, tmp_path):
    """Of two group tombstones the first; the second one did nothing (d-c-gt of the crafted logs, twice)."""
    folder = write(tmp_path / "__consumer_offsets-0", [("C", 0), ("D",), ("D",)], set())
    _, out, _ = run("explain", folder, "--group", "g", "--json")
    assert [(entry["fate"], entry["by"]) for entry in json.loads(out)["history"]] == [
        ("hidden", 1),
        ("tombstone", None),
        ("tombstone", None),
    ]
    _, out, _ = run("explain", folder, "--group", "g", "--partitions", "50", "--json")
    assert "home" in json.loads(out)["history"][0]["why"]


def test_a_failed_load_is_part_of_the_answer(run):
    """This load fails at its last step, so the broker answers for the group. The answer names the failure as well."""
    folder = captured("runs") / "runs" / "4.3.1-main" / "log" / "__consumer_offsets-2"
    arguments = ("explain", folder, "--group", "e-pending-delgroup", "--coordinator", "classic", "--until", "8")
    failure = "partition 2: Unexpected unload of active group 'e-pending-delgroup'"
    status, out, _ = run(*arguments)
    assert status == 1
    assert f"answers that e-pending-delgroup is Empty, with 0 offsets; it fails to load {failure}." in out
    status, out, _ = run(*arguments, "--json")
    shown = json.loads(out)
    assert status == 1 and shown["error"] == failure and shown["answer"]["state"] == "Empty"
    status, out, _ = run("explain", folder, "--group", "e-pending-delgroup", "--json")
    assert status == 0 and json.loads(out)["error"] is None


def test_a_broker_that_fails_to_load_answers_nothing(run, tmp_path):
    """The new coordinator answers nothing from a partition whose load fails, and explain says why."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    key, value = kg.encode(kg.Record(2, GroupMetadataKey("g"), None, None))
    records = [LogRecord(0, 5, key, value), LogRecord(1, 5, key, b"\x00\x63")]
    (folder / f"{0:020}.log").write_bytes(encode_batch(records))
    status, out, _ = run("explain", folder, "--group", "g")
    assert status == 1 and "answers nothing about g; it fails to load partition 0: " in out
    status, out, _ = run("explain", folder, "--group", "g", "--json")
    assert status == 1 and json.loads(out)["error"].startswith("partition 0: ")


def explain_json(run, path, group, coordinator, *options):
    status, out, _ = run("explain", path, "--group", group, "--coordinator", coordinator, "--json", *options)
    assert status in (0, 1)
    return json.loads(out)


def test_group_records_say_who_is_a_member_and_who_joined_or_left(run):
    """Act 1 (acts.json): billing-2 joins at record 6 and leaves at record 15, and the answers name the member ids."""
    acts = json.loads((LOG / "acts.json").read_text())
    joined = next(act for act in acts if act["step"] == "billing-2 joins")
    ids = {answer["client"]: answer["member_id"] for answer in joined["answer"]}
    rows = {row["offset"]: row for row in explain_json(run, LOG, "billing", "classic")["history"]}
    content = rows[joined["wrote"][0]["first"]]["group_record"]
    assert (content["generation"], content["state"]) == (2, "Stable")
    assert {member["client_id"]: member["member_id"] for member in content["members"]} == ids
    assert (content["members_joined"], content["members_left"]) == ([ids["billing-2"]], [])
    left = next(act for act in acts if act["step"] == "billing-2 leaves")
    content = rows[left["wrote"][0]["first"]]["group_record"]
    assert (content["generation"], content["members_left"]) == (3, [ids["billing-2"]])
    assert all((row["type"] == 2) == (row["group_record"] is not None) for row in rows.values())
    van = explain_json(run, LOG, "shipping", "classic")["history"]
    instances = {
        member["group_instance_id"] for row in van if row["group_record"] for member in row["group_record"]["members"]
    }
    assert {"van-1", "van-2"} <= instances


def test_records_of_the_new_protocol_have_epochs_and_members(run):
    """Act 9: loyalty-1 joins at epoch 2, loyalty-2 at epoch 3; the last state is that of `load`."""
    acts = json.loads((DATA / "4.3.1" / "acts.json").read_text())
    joined = next(act for act in acts if act["step"] == "loyalty-2 joins")
    ids = {answer["member_id"] for answer in joined["answer"]}
    written = joined["wrote"][0]
    told = explain_json(run, DATA / "4.3.1", "loyalty", "new")
    rows = [row for row in told["history"] if row["type"] == 3 and written["first"] <= row["offset"] <= written["last"]]
    content = rows[0]["group_record"]
    assert content["type"] == "consumer" and content["group_epoch"] == 3
    assert {member["member_id"] for member in content["members"]} == ids and len(content["members_joined"]) == 1
    last = [row for row in told["history"] if row["group_record"]][-1]["group_record"]
    for name in ("state", "group_epoch", "assignment_epoch"):
        assert last[name] == told["answer"][name]


@pytest.mark.parametrize(
    ("version", "step", "cause"),
    [
        ("3.9.2", "mailer is deleted", {"unknown"}),
        ("4.3.1", "mailer is deleted", {"group_deleted"}),
        ("3.9.2", "spring is over", {"unknown"}),
        ("4.3.1", "spring is over", {"unknown"}),
    ],
)
def test_a_tombstone_says_its_cause_as_far_as_the_log_tells(run, version, step, cause):
    """The acts tell the truth; 3.9 writes the same records for a deleted group and for the deleted topic of a group.

    A request that deletes the only offset of a topic, and the deletion of that topic, write the same record in 4.3.
    """
    folder = DATA / version
    act = next(act for act in json.loads((folder / "acts.json").read_text()) if act["step"] == step)
    group = "mailer" if "mailer" in step else "promo"
    written = act["wrote"][0]
    rows = explain_json(run, folder, group, "classic" if version < "4" else "new")["history"]
    rows = [row for row in rows if written["first"] <= row["offset"] <= written["last"]]
    assert {row["cause"] for row in rows if row["key"]} == cause
    assert {row["cause"] for row in rows if not row["key"]} <= {"group_deleted"}
    assert all("cause" not in row for row in rows if row["fate"] != "tombstone")


@pytest.mark.parametrize(("version", "coordinator"), [("3.9.2", "classic"), ("4.3.1", "new")])
def test_an_offset_with_an_expire_time_has_expired(run, version, coordinator):
    """stock-audit commits with a retention time of 3 s, and the broker deletes the offsets after it."""
    rows = explain_json(run, DATA / version, "stock-audit", coordinator)["history"]
    assert {row["cause"] for row in rows if row["fate"] == "tombstone"} == {"expired"}
    assert [row["timestamp_ms"] for row in rows] == [row["timestamp"] for row in rows]


SURVIVORS = {
    "a pending commit stays": ([("X", 1, 0), ("T", 0)], "deleted only the committed offset"),
    "so it wins after its marker": ([("X", 1, 0), ("T", 0), ("M", 1)], "deleted only the committed offset"),
    "a tombstone of an open transaction": ([("C", 0), ("U", 1, 0)], "is in a transaction of producer 1"),
    "a tombstone of an aborted transaction": ([("C", 0), ("U", 1, 0), ("A", 1)], "is in a transaction of producer 1"),
    "a group tombstone": ([("C", 0), ("D",)], "deleted only the group's own record"),
}


@pytest.mark.parametrize("name", SURVIVORS)
def test_a_record_that_counts_although_a_tombstone_follows_says_why(run, tmp_path, name):
    """SEMANTICS.md 7 and 8: the classic coordinator keeps pending commits, and the offsets of a deleted group."""
    steps, reason = SURVIVORS[name]
    folder = write(tmp_path / "__consumer_offsets-0", steps, set())
    row = explain_json(run, folder, "g", "classic")["history"][0]
    assert row["fate"] in ("wins", "pending") and reason in row["why"] and "tombstone at 1" in row["why"]
