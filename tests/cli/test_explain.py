"""`kafkagroups explain`: on the shop's log, whose acts (acts.json) say what happened."""

import json
import re

import pytest
from msgspec.structs import replace

import kafkagroups as kg
from tests.captured import captured
from tests.groups.small_logs import MEMBER, MINUTE, START, group_record, write
from tests.groups.test_load_runs import DATA
from tests.handmade import (
    GroupMetadataKey,
    GroupMetadataValue,
    LogRecord,
    OffsetCommitKey,
    OffsetCommitValue,
    commit_record,
    consumer_epoch,
    consumer_group,
    encode_batch,
    group_tombstone,
    share_group,
    write_batches,
    write_segment,
)

LOG = DATA / "3.9.2"


def test_a_person_sees_where_an_offset_went_back_and_what_waits(run):
    """Act 5: fraud-check was set back by hand, with a note; its last transaction never ended."""
    status, out, _ = run("explain", LOG, "--group", "fraud-check", "--coordinator", "classic")
    lines = out.splitlines()
    row = next(number for number, line in enumerate(lines) if "▼" in line)
    assert status == 0 and "wins" in lines[row] and "metadata: set back by hand" in lines[row + 1]
    assert "UNSTABLE_OFFSET_COMMIT" in out and "A 3.9.2 broker (classic coordinator) answers" in out


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
    expected = f"answers that e-pending-delgroup is Empty, with 0 offsets; it fails to load {failure}."
    assert expected in " ".join(out.split())
    status, out, _ = run(*arguments, "--json")
    shown = json.loads(out)
    assert status == 1 and shown["error"] == failure and shown["answer"]["state"] == "Empty"
    status, out, _ = run("explain", folder, "--group", "e-pending-delgroup", "--json")
    assert status == 0 and json.loads(out)["error"] is None


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
    "a group tombstone": ([("C", 0), ("D",)], "deleted the group, and not this offset"),
}


@pytest.mark.parametrize("name", SURVIVORS)
def test_a_record_that_counts_although_a_tombstone_follows_says_why(run, tmp_path, name):
    """The classic coordinator keeps pending commits, and the offsets of a deleted group."""
    steps, reason = SURVIVORS[name]
    folder = write(tmp_path / "__consumer_offsets-0", steps, set())
    row = explain_json(run, folder, "g", "classic")["history"][0]
    assert row["fate"] in ("wins", "pending") and reason in row["why"] and "tombstone at 1" in row["why"]


@pytest.fixture(scope="module")
def long_log(tmp_path_factory):
    """Sixty commits, of which early ones count, were deleted, wait or went back, and early records of the group."""
    steps = [("G",), ("C", 1), ("C", 2), ("T", 2), ("X", 7, 3), ("E",), ("C", 9), ("G",)]
    steps += [("C", 0) for _ in range(60)]
    return write(tmp_path_factory.mktemp("long") / "__consumer_offsets-0", steps, set())


def shown_offsets(out):
    """Return the record offsets at the beginning of the rows."""
    return {int(offset) for offset in re.findall(r"^ *(?:\d+:)?(\d+) ", out, re.M)}


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_records_that_matter_are_never_cut(run, long_log, coordinator):
    """Rows that win, wait or were deleted stay, and the group's own records; --all shows all rows."""
    rows = explain_json(run, long_log, "g", coordinator)["history"]
    must = {
        row["offset"]
        for row in rows
        if row["fate"] in ("wins", "pending", "deleted", "hidden") or row["type"] == 2 or row["fate"] == "tombstone"
    }
    arguments = ("explain", long_log, "--group", "g", "--coordinator", coordinator)
    _, out, _ = run(*arguments)
    shown = shown_offsets(out)
    assert len(rows) == 68 and {0, 1, 2, 3, 4, 5, 7} <= must <= shown and len(shown) < 40
    assert "of 68 records" in out
    _, out, _ = run(*arguments, "--all")
    assert shown_offsets(out) == {row["offset"] for row in rows}


def test_a_topic_alone_a_time_and_a_pattern(run):
    """A topic without a partition, records since a time, and one object for each group of a pattern."""
    everything = explain_json(run, LOG, "billing", "classic")
    told = explain_json(run, LOG, "billing", "classic", "--topic", "orders")
    of_topic = [row for row in everything["history"] if (row["key"] or "").startswith("orders-")]
    assert told["history"] == of_topic
    answers = json.loads((LOG / "answers.json").read_text())["offsets"]["billing"]
    expected = {key: value["offset"] for key, value in answers.items() if key.startswith("orders-")}
    assert {key: value["offset"] for key, value in told["answer"].items()} == expected
    since = of_topic[len(of_topic) // 2]["timestamp_ms"]
    told = explain_json(run, LOG, "billing", "classic", "--topic", "orders", "--since-time", str(since))
    assert told["history"] == [row for row in of_topic if row["timestamp_ms"] >= since]
    assert {key: value["offset"] for key, value in told["answer"].items()} == expected
    status, out, _ = run("explain", LOG, "--group", "*i*l*", "--coordinator", "classic", "--json")
    names = sorted(name for name in kg.load(LOG, "classic").partitions_of if "l" in name.partition("i")[2])
    assert status == 0 and [json.loads(line)["group"] for line in out.splitlines()] == names == ["billing", "mailer"]
    assert json.loads(out.splitlines()[0])["history"] == everything["history"]
    assert explain_json(run, LOG, "caf?-☕", "classic")["group"] == "café-☕"
    assert explain_json(run, LOG, "no*thing", "classic")["history"] == []


def test_a_group_whose_id_looks_like_a_pattern_is_that_group(run, tmp_path):
    """A pattern only if no group has exactly that name."""
    records = [LogRecord(offset, 5, *kg.encode(group_tombstone(group))) for offset, group in enumerate(("a*", "ab"))]
    folder = write_segment(tmp_path, encode_batch(records))
    for pattern, groups in (("a*", ["a*"]), ("?b", ["ab"]), ("?*", ["a*", "ab"]), ("[ab]*", ["[ab]*"])):
        _, out, _ = run("explain", folder, "--group", pattern, "--json")
        assert [json.loads(line)["group"] for line in out.splitlines()] == groups


def test_a_batch_of_a_producer_without_a_transaction_says_that_no_marker_comes(run, tmp_path):
    """Only the new coordinator takes these commits as pending."""
    folder = write(tmp_path / "__consumer_offsets-0", [("V", 5, 0)], set())
    _, out, _ = run("explain", folder, "--group", "g", "--coordinator", "new")
    assert "pending for good: no marker will come" in " ".join(out.split())
    _, out, _ = run("explain", folder, "--group", "g", "--coordinator", "classic")
    assert "without a transaction: no marker will come" in " ".join(out.split()) and " wins" in out


def test_a_record_that_cannot_be_read_is_shown(run, tmp_path):
    """2.8.2 reads group values up to version 3. No release reads version 99."""
    key, value = group_record(GroupMetadataValue("consumer", 4, None, None, 5, ()))
    newer = b"\0\x04" + kg.encode(kg.Record(2, GroupMetadataKey("g"), GroupMetadataValue("consumer", 4), 4))[1][2:]
    records = [LogRecord(0, 5, key, value), LogRecord(1, 5, key, newer), LogRecord(2, 5, key, b"\0\x63")]
    folder = write_segment(tmp_path, encode_batch(records))
    rows = explain_json(run, folder, "g", "classic", "--kafka", "2.8.2")["history"]
    assert [(row["offset"], row["fate"]) for row in rows][1:] == [(1, "ignored"), (2, "ignored")]
    assert [row["why"].endswith(f"found {number}") for row, number in zip(rows[1:], (4, 99), strict=True)] == [
        True,
        True,
    ]


def text_of(run, folder, coordinator, rules):
    return run("explain", folder, "--group", "g", "--coordinator", coordinator, *rules)[1].split()


EXPIRE = 1_700_000_500_000


@pytest.mark.parametrize(
    ("coordinator", "kafka", "members", "expected"),
    [
        # 1.0.1: by the expire timestamp, live groups too; a commit without one: its time and the retention time.
        ("classic", "1.0.1", True, {"t-0": EXPIRE, "t-1": START + MINUTE}),
        # Since KIP-211: nothing of a group whose subscriptions cannot be read; an Empty group from its state's time.
        ("classic", "3.9.2", True, {}),
        ("classic", "3.9.2", False, {"t-0": EXPIRE, "t-1": START + 7 + MINUTE}),
        ("new", "4.3.1", False, {"t-0": EXPIRE, "t-1": START + 7 + MINUTE}),
    ],
)
def test_expires_next(run, tmp_path, coordinator, kafka, members, expected):
    """An expire timestamp decides; the rest has the retention time, if nothing protects it."""
    group = GroupMetadataValue("consumer", 4, "range" if members else None, "m" if members else None, START + 7)
    if members:
        group = replace(group, members=(MEMBER,))
    version = 1 if kafka == "1.0.1" else 3
    commits = [
        kg.Record(1, OffsetCommitKey("g", "t", 0), OffsetCommitValue(5, -1, "", START, EXPIRE), 1),
        kg.Record(1, OffsetCommitKey("g", "t", 1), OffsetCommitValue(6, -1, "", START), version),
    ]
    pairs = [kg.encode(kg.Record(2, GroupMetadataKey("g"), group, 0 if version == 1 else 3)), *map(kg.encode, commits)]
    records = [LogRecord(offset, START, *pair) for offset, pair in enumerate(pairs)]
    folder = write_segment(tmp_path, encode_batch(records))
    if version == 1:
        expected = expected | {"t-1": START + MINUTE}
    rules = ("--kafka", kafka)
    told = explain_json(run, folder, "g", coordinator, *rules, "--retention", "1")
    assert {row["topic_partition"]: row["expire_ms"] for row in told["expires_next"]} == expected
    # A member of 3.9 protects the offset until the group is Empty (GroupMetadata.removeExpiredOffsets, 3.9).
    is_protected = members and version > 1
    shown = [row["topic_partition"] for row in told["expires_without_members"]]
    assert shown == (["t-0"] if is_protected else [])
    assert ("as soon as the group has no member" in " ".join(text_of(run, folder, coordinator, rules))) == is_protected
    told = explain_json(run, folder, "g", coordinator, *rules)
    assert [row["topic_partition"] for row in told["expires_next"]] == [key for key in expected if key == "t-0"]
    for text in ("60s", "1min", "60000ms"):
        same = explain_json(run, folder, "g", coordinator, *rules, "--retention", text)
        assert {row["topic_partition"]: row["expire_ms"] for row in same["expires_next"]} == expected


def test_a_pattern_finds_groups_behind_damage(run, tmp_path):
    """The first batch of partition 9 is damaged, and billing and fraud-check are behind it."""
    content = bytearray((LOG / "__consumer_offsets-9" / f"{0:020}.log").read_bytes())
    content[70] ^= 1
    folder = write_segment(tmp_path, content, 9)
    arguments = ("explain", folder, "--group", "*-check", "--coordinator", "classic", "--json")
    _, out, _ = run(*arguments)
    assert json.loads(out)["group"] == "*-check"
    _, out, _ = run(*arguments, "--past-damage")
    told = json.loads(out)
    assert told["group"] == "fraud-check" and told["history"][0]["offset"] == 22


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_a_commit_that_went_back_is_marked_also_without_the_commit_before(run, coordinator):
    """The conversation of this run commits t-1 at 11, and an admin then sets it to 0 (4.3.1-main, group c-admin)."""
    folder = captured("runs") / "runs" / "4.3.1-main" / "log"
    rows = explain_json(run, folder, "c-admin", coordinator, "--topic", "t", "--partition", "1")["history"]
    (back,) = [row for row in rows if row.get("from") == 11 and row["committed_offset"] == 0]
    arguments = ("--group", "c-admin", "--coordinator", coordinator, "--since-time", str(back["timestamp_ms"]))
    _, out, _ = run("explain", folder, *arguments, "--topic", "t", "--partition", "1")
    (line,) = [line for line in out.splitlines() if "▼ 0" in line]
    assert str(back["offset"]) in line and "11 -> 0, back by 11" in " ".join(out.split())


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_commits_of_different_partitions_of_the_topic_are_not_compared(run, tmp_path, engine):
    """A coordinator replays each partition alone, so only a commit in the same partition can be set back."""
    write(tmp_path / "__consumer_offsets-0", [("C", 0)] * 3, set())
    write(tmp_path / "__consumer_offsets-1", [("C", 0)] * 2, set())
    options = ("--group", "g", "--coordinator", "classic", "--engine", engine)
    _, out, _ = run("explain", tmp_path, *options)
    assert "1:1" in out and "▼ " not in out
    rows = json.loads(run("explain", tmp_path, *options, "--json")[1])["history"]
    for number in (0, 1):
        committed = [row["committed_offset"] for row in rows if row["partition"] == number]
        assert [row["from"] for row in rows if row["partition"] == number] == [None, *committed[:-1]]


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_an_answer_from_a_damaged_partition_says_where_the_log_is_cut(run, tmp_path, engine):
    """A recovery cuts the log at the first damaged batch. A clean start reads the damaged bytes."""
    source = LOG / "__consumer_offsets-9"
    content = bytearray((source / f"{0:020}.log").read_bytes())
    damaged = next(batch for batch in kg.open_log(source) if batch.base_offset >= 20)
    content[damaged.position + damaged.size - 1] ^= 1
    folder = write_segment(tmp_path, content, 9)
    options = ("--group", "billing", "--topic", "orders", "--partition", "0", "--coordinator", "classic")
    _, out, _ = run("explain", folder, *options, "--engine", engine)
    text = " ".join(out.split())
    assert f"offset {damaged.base_offset}" in text.partition("is damaged: ")[2].partition(". The answer is")[0]
    assert "--past-damage reads them" in text
    place = json.loads(run("explain", folder, *options, "--engine", engine, "--json")[1])["damage"]["9"]
    assert (place["offset"], place["position"]) == (damaged.base_offset, damaged.position)
    assert "cut the log" not in run("explain", LOG, *options, "--engine", engine)[1]


def test_an_unknown_group_is_told_the_home_that_the_folder_shows(run, tmp_path):
    """The hash of billing chooses partition 9 of 50 (partition_for.jsonl). A folder of one partition shows 1."""
    write(tmp_path / "__consumer_offsets-0", [("C", 0)], set())
    for command in ("explain", "timeline"):
        _, out, _ = run(command, tmp_path, "--group", "billing")
        assert "No record of billing" in out
        assert "partition 0, because the topic has 1 partition, as this folder" in " ".join(out.split())
        _, out, _ = run(command, tmp_path, "--group", "billing", "--partitions", "50")
        assert "is stored in partition 9." in " ".join(out.split())
    assert run("timeline", tmp_path, "--group", "billing", "--json") == (0, "", "")


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_failed_load_is_explained_once(run, tmp_path, engine):
    """A share group's record fails the load, because no tombstone deleted the consumer group.

    GroupMetadataManager.replay (4.3.1) refuses a record of another group type.
    """
    contents = [
        consumer_epoch(1),
        commit_record(5),
        commit_record(6),
        kg.Record(11, consumer_group.GroupIdKey("g"), share_group.ShareGroupMetadataValue(1), 0),
        commit_record(7, 1),
    ]
    folder = write_batches(tmp_path, [(0, [record]) for record in contents], 0)
    status, out, _ = run("explain", folder, "--group", "g", "--engine", engine)
    table, _, end = " ".join(out.split()).partition("(UTC)")
    assert status == 1 and "fails to load partition 0: offset 3: ShareGroupMetadata (record type 11)" in table
    assert "Record 3 conflicts with the older record 0 (ConsumerGroupMetadata)." in table
    assert end.count("The load fails at this record.") == 1 and "ignored:" not in end
    rows = json.loads(run("explain", folder, "--group", "g", "--engine", engine, "--json")[1])["history"]
    assert [row["fate"] for row in rows] == ["ignored", "superseded", "ignored", "ignored", "ignored"]
