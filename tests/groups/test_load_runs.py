"""The loader against real brokers: `load` gives what a broker answered after a restart on the same bytes.

Not compared: parts that a version has no request for, member metadata and topics of 2.3.1 (it answers the assignment
there), and `m-dying`, whose session ends while one asks.
"""

import base64
import json
from pathlib import Path

import pytest

import kafkagroups as kg
from tests.captured import captured
from tests.command import main

DATA = Path(__file__).parents[2] / "data" / "harbour"
NINE = {f"{topic}-{p}" for topic in ("orders", "clicks", "pay-ments") for p in range(3)}
"""The partitions that brokers before 0.10.2 were asked for: a client could not ask them for all."""


def cases():
    runs = [*(captured("runs") / "runs").iterdir(), *(captured("v440") / "v440" / "runs").iterdir()]
    for run in sorted(runs, key=lambda run: run.name):
        for answers in sorted(run.glob("*answers.json")):
            name = answers.name.removesuffix("answers.json").rstrip("-") or "log"
            yield pytest.param(run / name, answers, id=f"{run.name}-{name}")
    for version in ("1.0.1", "3.9.2", "4.3.1"):
        yield pytest.param(DATA / version, DATA / version / "answers.json", id=f"harbour-{version}")
    for name in ("before-clean", "after-clean", "after-clean-2"):
        yield pytest.param(DATA / "cleaning" / name, DATA / "cleaning" / f"{name}-answers.json", id=f"harbour-{name}")


def load(capsys, folder, answers):
    version = answers.get("broker") or "4.3.1"
    coordinator = answers.get("coordinator") or ("new" if version.startswith("4") else "classic")
    status = main(["load", str(folder), "--json", "--coordinator", coordinator, "--kafka", version])
    loaded = json.loads(capsys.readouterr().out)
    assert status == any(partition["error"] for partition in loaded["partitions"].values())
    return loaded, version


@pytest.mark.parametrize(("folder", "file"), list(cases()))
def test_load_answers_what_the_broker_answered(folder, file, capsys):
    answers = json.loads(file.read_text())
    loaded, version = load(capsys, folder, answers)
    known = answers["groups"] or {}
    names = (set(known) | set(answers["offsets"])) - {"m-dying"}
    assert set(loaded["groups"]) <= names | {"m-dying"}
    for name in names:
        mine = loaded["groups"].get(name) or {}
        compare_offsets(answers, loaded, name, version)
        if known.get(name, {}).get("type") in ("consumer", "share", "streams"):
            compare_modern_group(mine, known[name], answers["topics"])
        elif name in known:
            compare_group(mine, known[name], version)
    for listed in answers.get("listed") or ():
        name = listed.get("group", listed.get("groupId"))
        if name != "m-dying":
            assert loaded["groups"][name]["protocol_type"] == listed.get("protocol_type", listed.get("protocolType"))
            assert loaded["groups"][name]["type"] == listed.get("groupType", "classic")
    if answers.get("listed") is not None:
        names = {listed.get("group", listed.get("groupId")) for listed in answers["listed"]}
        assert set(loaded["groups"]) - {"m-dying"} <= names


def compare_offsets(answers, loaded, name, version):
    holder = loaded["groups"].get(name) or loaded["orphans"].get(name) or {"offsets": {}, "pending": {}}
    expected = answers["offsets"].get(name)
    if expected is not None and "error" not in expected:
        mine = holder["offsets"]
        if version in ("0.8.2.2", "0.9.0.1"):
            mine = {tp: offset for tp, offset in mine.items() if tp in NINE and offset["offset"] != -1}
        assert set(mine) == set(expected), name
        for tp, offset in expected.items():
            assert {field: mine[tp][field] for field in offset} == offset, (name, tp)
    named = (answers.get("stable_every_live_partition_named") or {}).get(name)
    if named is not None:
        unstable = {tp for tp, answer in named.items() if answer == "UNSTABLE_OFFSET_COMMIT"}
        live = {tp for tp in holder["pending"] if tp.rpartition("-")[0] in answers["topics"]}
        assert live == unstable, name


def compare_group(mine, expected, version):
    if expected["state"] == "Dead":
        assert mine == {}
        return
    for field in ("state", "protocol_type", "protocol"):
        assert mine[field] == expected[field]
    members = sorted(expected["members"], key=lambda member: member["member_id"])
    assert [member["member_id"] for member in mine["members"]] == [member["member_id"] for member in members]
    for member, answer in zip(mine["members"], members, strict=True):
        assert (member["client_id"], member["client_host"]) == (answer["client_id"], answer["host"])
        if "instance_id" in answer:
            assert member["group_instance_id"] == answer["instance_id"]
        assert member["assignment_hex"] == raw(answer, "assignment")
        if mine["protocol_type"] == "consumer" and member["assignment_hex"]:
            assert member["assignment"]["partitions"] == partitions(answer["assignment"])
        if version != "2.3.1":
            assert member["subscription_hex"] == raw(answer, "metadata")
            if mine["protocol_type"] == "consumer":
                assert sorted(member["subscription"]["topics"]) == sorted(answer["subscription_topics"])


def compare_modern_group(mine, expected, topics):
    """ConsumerGroupDescribe, ShareGroupDescribe, StreamsGroupDescribe; the log knows topics by their ids."""
    raw = expected["raw"]
    assert (mine["type"], mine["state"], mine["protocol"]) == (
        expected["type"],
        raw["groupState"],
        expected["protocol"],
    )
    assert (mine["group_epoch"], mine["assignment_epoch"]) == (raw["groupEpoch"], raw["assignmentEpoch"])
    members = sorted(raw["members"], key=lambda member: member["memberId"])
    assert len(mine["members"]) == len(members)
    for member, answer in zip(mine["members"], members, strict=True):
        told = ("memberId", "memberEpoch", "rackId", "clientId", "clientHost")
        names = ("member_id", "member_epoch", "rack_id", "client_id", "client_host")
        assert [member[name] for name in names] == [answer[field] for field in told]
        assert member["group_instance_id"] == answer.get("instanceId")
        assert member["member_type"] == answer.get("memberType", 1)
        for name, field in (("assignment", "assignment"), ("target_assignment", "targetAssignment")):
            if field not in answer:
                continue
            if expected["type"] == "streams":
                kinds = ("active", "standby", "warmup")
                assert member[name] == {
                    kind: {ids["subtopologyId"]: ids["partitions"] for ids in answer[field][f"{kind}Tasks"]}
                    for kind in kinds
                }
                continue
            assert member[name] == {
                there["topicId"]: sorted(there["partitions"]) for there in answer[field]["topicPartitions"]
            }
            assert all(topics[there["topicName"]]["id"] in member[name] for there in answer[field]["topicPartitions"])
        if expected["type"] == "streams":
            assert (member["topology_epoch"], member["process_id"]) == (answer["topologyEpoch"], answer["processId"])
        else:
            assert sorted(member["subscribed_topic_names"]) == sorted(answer["subscribedTopicNames"])
            assert member["subscribed_topic_regex"] == answer.get("subscribedTopicRegex")
    if expected["type"] == "streams":
        assert mine["topology"]["epoch"] == raw["topology"]["epoch"]
        assert [without_counts(part) for part in mine["topology"]["subtopologies"]] == [
            without_counts(part) for part in raw["topology"]["subtopologies"]
        ]


def without_counts(part):
    """A subtopology without the partition counts of internal topics, which the broker fills in, and our extra lists."""
    fields = ("subtopologyId", "sourceTopics", "repartitionSinkTopics")
    shown = {field: part[field] for field in fields}
    for field in ("stateChangelogTopics", "repartitionSourceTopics"):
        shown[field] = [{name: topic[name] for name in topic if name != "partitions"} for topic in part[field]]
    return shown


def raw(answer, name):
    return answer.get(f"{name}_hex") if f"{name}_hex" in answer else base64.b64decode(answer[f"{name}_b64"]).hex()


def partitions(assignment):
    if isinstance(assignment, dict):
        pairs = [(topic, p) for topic, numbers in assignment.items() for p in numbers]
    else:
        pairs = [(tp.rpartition("-")[0], int(tp.rpartition("-")[2])) for tp in assignment]
    return [f"{topic}-{p}" for topic, p in sorted(pairs)]


@pytest.mark.parametrize("version", ["1.0.1", "3.9.2", "4.3.1"])
def test_an_offset_names_the_record_that_made_it_so(version, capsys):
    """record_offset is a record of that key, and its value is the offset, the note and the times that are answered."""
    answers = {"broker": version}
    loaded, _ = load(capsys, DATA / version, answers)
    records = {}
    for log in map(kg.open_log, (DATA / version).glob("__consumer_offsets-*")):
        records |= {
            (log.partition, r.offset): kg.to_json(kg.decode(r.key, r.value))
            for b in log
            if not b.is_control
            for r in b.records
        }
    seen = 0
    for name, group in loaded["groups"].items():
        for tp, offset in group["offsets"].items():
            record = records[group["partition"], offset["record_offset"]]
            key = record["key"]["data"]
            value = record["value"]["data"]
            assert (key["group"], f"{key['topic']}-{key['partition']}") == (name, tp)
            assert (value["offset"], value["metadata"]) == (offset["offset"], offset["metadata"])
            assert value["commitTimestamp"] == offset["commit_timestamp"]
            assert value.get("expireTimestamp", -1) == (offset["expire_timestamp"] or -1)
            assert value.get("topicId") == offset["topic_id"]
            seen += 1
    assert seen > 10


def test_frames_hold_what_the_groups_hold():
    """offsets_frame and members_frame have one row per offset and member, with the answers of the 3.9.2 broker."""
    groups = kg.load(DATA / "3.9.2", coordinator="classic")
    answers = json.loads((DATA / "3.9.2" / "answers.json").read_text())
    offsets = groups.offsets_frame()
    told = {(r.group, f"{r.topic}-{r.partition}"): r.offset for r in offsets.itertuples()}
    assert told == {
        (name, tp): offset["offset"] for name, there in answers["offsets"].items() for tp, offset in there.items()
    }
    members = groups.members_frame()
    billing = members[members.group == "billing"].set_index("member_id")
    for member in answers["groups"]["billing"]["members"]:
        assert billing.loc[member["member_id"], "assigned_partitions"] == sorted(member["assignment"])
