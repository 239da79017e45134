"""The verdict before a failover (`kg.check`), compared with loads of real brokers."""

import json
import os
import re
import shlex
import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

import kafkagroups as kg
from tests.captured import captured
from tests.cases import case, first_quickly
from tests.command import main
from tests.handmade import (
    consumer_epoch,
    consumer_group,
    encode_batch,
    generation,
    group_tombstone,
    streams_group,
    write_batches,
    write_segment,
)
from tests.releases.cases import LEFT_OUT, loads
from tests.releases.test_zeros import CASES, STARTED, STARTS, copy_case, find_zeros

BILLING = "data/harbour/4.3.1/__consumer_offsets-9"
HARBOUR = "data/harbour/3.9.2"
CRAFTED = captured("crafted") / "crafted"
CONVERSATIONS = captured("new_conversations") / "conversations_new"
MILLIONS_OF_ELEMENTS = ("lim2-4-1000001", "lim2-16-tomb")
"""Cases that `check` decodes for each release, a minute in all; tests/releases loads them."""
UNREADABLE_GROUPS = {"lim2-rec-2147483640.g.x"}
"""Groups in batches that cannot be split into records. A broker refuses them, but no reader of the log finds them."""
GHOSTS = ("4.3.1-ghost", "4.4.0-ghost")
RELEASES = sorted({load.release for load in loads()})

LONG = os.environ.get("KG_PROFILE") == "long"


def only_partition(verdict):
    (partition,) = verdict.partitions.values()
    return partition


def find_kind(verdict, kind):
    return [finding for finding in verdict.findings if finding.kind == kind]


@pytest.mark.slow
@pytest.mark.parametrize("release", first_quickly(["4.3.1", *(each for each in RELEASES if each != "4.3.1")]))
def test_the_verdict_is_that_of_a_broker_of_the_release(release):
    """Which logs fail, and for which groups the broker then answers NOT_COORDINATOR."""
    fails = 0
    for load in loads():
        if load.release != release or load.case["id"] in MILLIONS_OF_ELEMENTS:
            continue
        verdict = kg.check(load.folder, load.coordinator, load.kafka)
        partition = only_partition(verdict)
        assert verdict.loads != load.fails, load.case["id"]
        failures = find_kind(verdict, "load_failure")
        assert len(failures) == load.fails
        if not load.fails:
            assert (partition.groups_lost, partition.error, partition.record_offset) == ([], None, None)
            continue
        fails += 1
        if load.answers is not None:
            offsets = load.answers["offsets"]
            refused = {name for name, answer in offsets.items() if answer.get("error") == "NOT_COORDINATOR"}
            assert refused - UNREADABLE_GROUPS <= set(partition.groups_lost), load.case["id"]
        assert partition.groups_lost
        (failure,) = failures
        assert failure.offset == partition.record_offset
    assert fails or release == "3.9.2-classic"


CRAFTED_CASES = json.loads((CRAFTED / "cases.json").read_text())
CRAFTED_VERSIONS = json.loads((captured("releases") / "releases" / "crafted_versions.json").read_text())["versions"]
OTHER_COORDINATORS = json.loads((CRAFTED / "other_versions.json").read_text())["versions"]


def crafted_brokers():
    """Yield the brokers that loaded `crafted`: coordinator, release, and the answers by case that are its own."""
    yield pytest.param("classic", "3.9.2", {}, id="classic-3.9.2")
    yield pytest.param("new", "3.9.2", OTHER_COORDINATORS["new-3.9.2"], id="new-3.9.2")
    for release, own in CRAFTED_VERSIONS.items():
        yield pytest.param("new", release, own, id=f"new-{release}")


@pytest.mark.parametrize(("coordinator", "release", "own"), first_quickly(crafted_brokers()))
def test_the_verdict_about_each_crafted_log(coordinator, release, own):
    """The verdict of that broker, and the groups of which it answers nothing after a load that fails.

    Sources: `crafted/cases.json` (3.9.2 and 4.3.1), `crafted/other_versions.json` (the Java coordinator of 3.9.2), and
    `releases/crafted_versions.json` (4.0.0 to 4.4.0). A log with which the broker did not start has no verdict.
    """
    fails = loads = 0
    for crafted in CRAFTED_CASES:
        name = crafted["id"]
        answers = crafted["answers"][coordinator] | own.get(name, {})
        if name.startswith("d-foreign-") or answers["load"] not in ("ok", "failed"):
            continue
        verdict = kg.check(CRAFTED / "logs" / name / f"__consumer_offsets-{crafted['partition']}", coordinator, release)
        assert verdict.loads == (answers["load"] == "ok"), name
        if verdict.loads:
            loads += 1
            continue
        fails += 1
        lost = set(only_partition(verdict).groups_lost)
        for group, offsets in answers["offsets"].items():
            if ".never." in group:  # No record names this group.
                continue
            if "error" in offsets:
                assert group in lost, (name, group)
            elif offsets:
                assert group not in lost, (name, group)
    assert fails > 10 and loads > 100


def test_the_verdict_about_groups_in_two_partitions(foreign):
    """The cases `d-foreign-*`: one broker loaded the three partitions. The load that comes second fails in 3.9.2.

    The oracle has the order of that broker's loads. `check` loads partitions by their numbers, so it can name the other
    partition. The number of failures and the groups that are answered are the same.
    """
    cases = [each["answers"] for each in CRAFTED_CASES if each["id"].startswith("d-foreign-")]
    for coordinator in ("classic", "new"):
        verdict = kg.check(foreign, coordinator, partitions=400)
        failed = [partition for partition in verdict.partitions.values() if not partition.loads]
        assert len(failed) == sum(answers[coordinator]["load"] == "failed" for answers in cases)
        lost = {group for partition in failed for group in partition.groups_lost}
        assert not lost & {group for answers in cases for group in answers[coordinator]["listed"]}
        for finding in find_kind(verdict, "load_failure"):
            assert f"the group {finding.group}, and partition 293 has a group with the same id" in finding.what


@pytest.mark.parametrize("name", sorted(folder.name for folder in CONVERSATIONS.iterdir()))
def test_the_log_of_each_conversation(name):
    """After one more start on these segments, a broker has refused exactly the groups that are lost here."""
    verdict = kg.check(CONVERSATIONS / name / "log", "new", name.partition("-")[0])
    answers = json.loads((CONVERSATIONS / name / "answers.json").read_text())
    refused = {
        group
        for group, answer in answers["offsets"].items()
        if any(each["errorCode"] == 16 for each in answer.get("groups", ()))
    }
    lost = [group for partition in verdict.partitions.values() for group in partition.groups_lost]
    assert refused <= set(lost)
    assert verdict.loads == (not refused) == (name not in GHOSTS)


FAILED_PARTITIONS = {
    "1.0.1-craft-a": {0, 1},
    "1.0.1-craft-b": {0, 1, 2, 3},
    "2.3.1-craft-a": {0},
    "2.8.2-craft-a": {0},
    "2.8.2-craft-b": {0, 2, 3},
}
"""The lines "Error loading offsets from __consumer_offsets-N" in `runs/*/server-lines.txt`, by run.

In these runs, a broker wrote a key or value that it cannot read. No other captured run or
conversation with classic groups has a line of this kind. The modern runs have no lines: there, only the answers tell.
"""


def captured_logs():
    """Every log of a run or of a conversation with classic groups, and what a broker answered after a start on it."""
    for answers in sorted((captured("runs") / "runs").glob("*/*answers.json")):
        log = answers.name.removesuffix("answers.json").removesuffix("-") or "log"
        yield pytest.param(answers, answers.with_name(log), id=f"{answers.parent.name}/{log}")
    for family, folder in (
        ("v440", "v440/runs"),
        ("conversations", "conversations"),
    ):
        for answers in sorted((captured(family) / folder).glob("*/answers.json")):
            yield pytest.param(answers, answers.with_name("log"), id=f"{folder}/{answers.parent.name}")


@pytest.mark.parametrize(("file", "log"), list(captured_logs()))
def test_the_log_of_each_run_and_each_conversation_with_classic_groups(file, log):
    """A broker lists every group of a log that loads, and no group that is lost here.

    A classic coordinator answers nothing about a partition whose load failed, without an error. So the list of groups
    is the sign of a failure. A broker of 0.8.2 has no such list: there, the groups with offsets are the sign.
    """
    answers = json.loads(file.read_text())
    name = file.parent.name
    release = name.partition("-")[0]
    coordinator = "new" if release >= "4" else "classic"
    verdict = kg.check(log, coordinator, release)
    failed = {number for number, partition in verdict.partitions.items() if not partition.loads}
    assert failed == FAILED_PARTITIONS.get(name, set())
    lost = {group for partition in verdict.partitions.values() for group in partition.groups_lost}
    assert bool(lost) == bool(failed)
    groups = set(kg.load(log, coordinator, kafka=release))
    if answers["listed"] is None:
        named = {group for group, offsets in answers["offsets"].items() if offsets}
        assert named <= groups
    else:
        named = {group if isinstance(group, str) else list_id(group) for group in answers["listed"]}
        assert named == groups
    assert not lost & named


def list_id(listed):
    """Return a group's id in the answer to ListGroups. The captures of three clients spell the field differently."""
    return next(listed[field] for field in ("groupId", "group_id", "group") if field in listed)


@pytest.mark.parametrize("name", GHOSTS)
@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_the_record_at_which_a_load_fails(name, engine):
    """The load stops at g3's streams record, behind the consumer group."""
    verdict = kg.check(CONVERSATIONS / name / "log", kafka=name.partition("-")[0], engine=engine)
    partition = verdict.partitions[0]
    (failure,) = [finding for finding in find_kind(verdict, "load_failure") if finding.partition == 0]
    assert (partition.loads, partition.groups_lost) == (False, ["g3", "s3"])
    assert partition.error.startswith(f"offset {partition.record_offset}: ")
    assert (failure.offset, failure.group) == (partition.record_offset, "g3")
    assert "NOT_COORDINATOR" in failure.what
    assert [number for number, each in verdict.partitions.items() if each.loads] == [1, 2]


def test_the_remedy_of_a_failed_load_can_be_run(tmp_path, monkeypatch):
    """The copy that the remedy names loads. The folder's name needs quotes in a shell."""
    folder = tmp_path / "it's a copy" / "__consumer_offsets-379"
    shutil.copytree("data/crafted/f-txn-after/__consumer_offsets-379", folder)
    (finding,) = kg.check(folder).findings
    assert f"({shlex.join(finding.command)}), but it loses" in finding.remedy
    monkeypatch.chdir(tmp_path)
    assert main(finding.command[1:]) == 0
    assert kg.check(tmp_path / "COPY").loads


def test_a_load_that_fails_because_of_an_open_transaction_names_the_group():
    """The log deletes a group with a pending commit. The broker serves all groups."""
    (folder,) = (CRAFTED / "logs" / "t-x-gt-pend").glob("__consumer_offsets-*")
    verdict = kg.check(folder, "classic")
    (finding,) = verdict.findings
    assert finding.kind == "load_failure" and only_partition(verdict).groups_lost == []
    assert f"deletes the group {finding.group}" in finding.what
    command = f"abort --topic __consumer_offsets --partition {finding.partition} --start-offset {finding.offset}"
    assert command in finding.remedy
    (first, *_) = [batch for batch in kg.open_log(folder) if batch.is_transactional]
    assert finding.offset == first.base_offset


def test_the_command_prints_what_the_function_returns(capsys):
    """One object a PATH, in the order of the arguments, and the worst exit code."""
    paths = [str(CONVERSATIONS / "4.3.1-ghost" / "log"), HARBOUR]
    assert main(["check", *paths, "missing", "--json"]) == 2
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [kg.check(path).to_json() for path in paths]
    assert [line["loads"] for line in lines] == [False, True]
    assert main(["check", paths[0], "--json"]) == 1
    assert main(["check", paths[1], "--json"]) == 0


def pairs():
    """Cases in two releases that follow each other, and in the first and the last release.

    The fast profile has every sixth case, and the long profile all of them.
    """
    by_case = {}
    for load in loads():
        by_case.setdefault(load.case["id"], []).append(load)
    for case_loads in list(by_case.values())[:: 1 if LONG else 6]:
        yield from pairwise(case_loads)
        yield case_loads[0], case_loads[-1]


def upgrade(old, new):
    return kg.check(old.folder, old.coordinator, old.kafka, to=new.kafka, to_coordinator=new.coordinator)


def upgrades_and_downgrades():
    """Yield the loads of both releases, the verdict, and a name."""
    for first, second in pairs():
        for old, new in ((first, second), (second, first)):
            yield old, new, upgrade(old, new), f"{old.case['id']}: {old.release} to {new.release}"


def answered(answers):
    """What a broker answers: by group and topic partition the committed offset, and what is pending."""
    offsets = {}
    for group, answer in answers["offsets"].items():
        for name, offset in {} if "error" in answer else answer.items():
            if offset.get("offset", -1) != -1:
                offsets[group, name] = (offset["offset"], offset["metadata"])
    pending = {
        (group, name)
        for group, answer in answers["stable"].items()
        for name, offset in answer.items()
        if "UNSTABLE_OFFSET_COMMIT" in str(offset)
    }
    return offsets, pending


def assert_differences(verdict, before, after):
    """Compare the findings of an upgrade with what two brokers answered about the same bytes."""
    offsets_before, pending_before = answered(before)
    offsets_after, pending_after = answered(after)
    keys = {*offsets_before, *offsets_after}
    expected = {
        "offset_differs": {key for key in keys if offsets_before.get(key) != offsets_after.get(key)},
        "pending_differs": pending_before ^ pending_after,
    }
    for kind, places in expected.items():
        assert {(each.group, each.topic_partition) for each in find_kind(verdict, kind)} == places


def described(load):
    """What a broker answers about its groups: ListGroups, and the description of each group that it can describe.

    Members are without their type: 3.9 answers ConsumerGroupDescribe v0, which does not have this field.
    """
    found = {("listed", group): answer for group, answer in load.answers["listed"].items() if "error" not in answer}
    for part in ("groups", "consumer_groups", "share_groups", "streams_groups"):
        answers = load.answers.get(part) or {}
        if "request_failed" not in answers:
            found |= {(part, group): answer for group, answer in answers.items() if "error" not in answer}
    for key, answer in found.items():
        if "members" in answer:
            members = [{**member, "memberType": None} for member in answer["members"]]
            found[key] = {**answer, "members": members}
    return found


def find_other_groups(old, new):
    """The groups about which two brokers answer differently.

    A description is compared if both brokers have given one. Brokers before 4.2 cannot answer some of the requests.
    """
    before = described(old)
    after = described(new)
    keys = {key for key in {*before, *after} if key[0] == "listed" or (key in before and key in after)}
    return {group for part, group in keys if before.get((part, group)) != after.get((part, group))}


def has_unrevoked_partitions(finding):
    """Whether two answers differ in partitions that a member has not revoked yet. The cases contain no assignments."""
    answers = [answer for answer in (finding.before, finding.after) if answer and answer["type"] == "consumer"]
    return len(answers) == 2 and any(member["pending_revocation"] for member in answers[0]["members"])


@pytest.mark.thorough
def test_an_upgrade_and_a_downgrade_between_releases():
    """The differences are those between the answers of brokers of the two releases, for the same bytes.

    From 4.3 on, ConsumerGroupDescribe counts partitions that a member has not revoked as assigned. `releases` leaves
    assignments out, because they name topics that do not exist there. So a finding about these is not judged here.
    """
    kinds_seen = Counter()
    for old, new, verdict, name in upgrades_and_downgrades():
        with case(name):
            kinds = {finding.kind for finding in verdict.findings}
            kinds_seen.update(kinds)
            assert verdict.loads != new.fails
            assert ("refused" in kinds, "load_failure" in kinds) == (new.fails, old.fails)
            if old.fails or new.fails or old.answers is None or new.answers is None:
                continue
            if new.release in old.answers["kafka"]:
                # Members can differ in topics that the broker did not know. Its answers do not contain these.
                assert not kinds & {"offset_differs", "pending_differs"}
                kinds_seen["same"] += 1
            assert_differences(verdict, old.answers, new.answers)
            if old.case["id"] not in LEFT_OUT:
                expected = find_other_groups(old, new)
                findings = find_kind(verdict, "group_differs")
                judged = {
                    each.group for each in findings if each.group in expected or not has_unrevoked_partitions(each)
                }
                assert judged == expected
                kinds_seen["not judged"] += len(findings) > len(judged)
    assert kinds_seen.keys() >= {"refused", "skipped", "offset_differs", "group_differs", "same"}, kinds_seen


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("old", "new"), [(("classic", "3.9.2"), ("new", "4.3.1")), (("new", "4.3.1"), ("classic", "3.9.2"))], ids=str
)
def test_an_upgrade_and_a_downgrade_of_each_crafted_log(old, new):
    """`crafted/cases.json`: what a 3.9.2 and a 4.3.1 broker answered about the same bytes."""
    seen = {"refused": 0, "load_failure": 0, "offset_differs": 0, "pending_differs": 0}
    for crafted in CRAFTED_CASES:
        name = crafted["id"]
        before, after = (crafted["answers"][coordinator] for coordinator, _ in (old, new))
        if name.startswith("d-foreign-") or not {before["load"], after["load"]} <= {"ok", "failed"}:
            continue
        log = CRAFTED / "logs" / name / f"__consumer_offsets-{crafted['partition']}"
        verdict = kg.check(log, *old, to=new[1], to_coordinator=new[0])
        kinds = {finding.kind for finding in verdict.findings}
        with case(name):
            assert verdict.loads == (after["load"] == "ok")
            assert ("refused" in kinds, "load_failure" in kinds) == (not verdict.loads, before["load"] != "ok")
            if verdict.loads and before["load"] == "ok":
                assert_differences(verdict, before, after)
        for kind in kinds & seen.keys():
            seen[kind] += 1
    assert all(seen.values()), seen


def test_a_streams_group_of_a_broker_before_the_name_of_its_assignor():
    """All cases that 4.3.1 and 4.4.0 answer alike: StreamsGroupDescribe v0 gives the same bytes, so nothing differs."""
    count = 0
    by_release = {(load.case["id"], load.release): load for load in loads()}
    for (name, release), old in by_release.items():
        new = by_release.get((name, "4.4.0"))
        if release != "4.3.1" or new is None or "4.4.0" not in (old.answers or {"kafka": ()})["kafka"]:
            continue
        if any("error" not in answer for answer in (old.answers.get("streams_groups") or {}).values()):
            assert find_kind(upgrade(old, new), "group_differs") == [], name
            count += 1
    assert count > 10


def test_partitions_that_a_member_has_not_revoked():
    """From 4.3 on, ConsumerGroupDescribe counts them as assigned. The finding names the member.

    Source: ConsumerGroupMember.asConsumerGroupDescribeMember reads `assignedPartitions` in 4.2.1, and in 4.3.1 also
    `partitionsPendingRevocation`. The record in this random case has one partition, and it is not revoked yet.
    """
    by_release = {load.release: load for load in loads() if load.case["id"] == "rnd-085"}
    verdict = upgrade(by_release["4.2.1"], by_release["4.3.1"])
    (finding,) = find_kind(verdict, "group_differs")
    ((old, new),) = [
        pair for pair in zip(finding.before["members"], finding.after["members"], strict=True) if pair[0] != pair[1]
    ]
    assert (old["assignment"], new["assignment"]) == ({}, old["pending_revocation"])
    assert f"member {new['member_id']} with assignment" in finding.what


@pytest.mark.slow
def test_the_epochs_of_a_group_without_a_record_of_them():
    """`releases/README.md`, findings: such epochs start at 0 before 4.3.0, and at 1 from 4.3.0 on."""
    by_release = {load.release: load for load in loads() if load.case["id"] == "lim-16-1000001"}
    verdict = upgrade(by_release["4.2.1"], by_release["4.3.1"])
    (finding,) = verdict.findings
    answers = [by_release[release].answers["consumer_groups"][finding.group] for release in ("4.2.1", "4.3.1")]
    assert [answer["group_epoch"] for answer in answers] == [0, 1]
    assert [(each["group_epoch"], each["assignment_epoch"]) for each in (finding.before, finding.after)] == [
        (answer["group_epoch"], answer["assignment_epoch"]) for answer in answers
    ]
    assert "group epoch 0 → 1; assignment epoch 0 → 1" in finding.what


def test_a_downgrade_in_json(capsys):
    """Every pair is `from` and `to`, and the classic coordinator skips what it does not know."""
    path = str(CONVERSATIONS / "4.3.1-consumer-life" / "log")
    assert main(["check", path, "--to", "3.9.2", "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert (verdict["to"], verdict["to_coordinator"], verdict["loads"]) == ("3.9.2", "classic", True)
    found = {(finding["kind"], finding["group"]): finding for finding in verdict["findings"]}
    assert ("skipped", "life") in found
    life = found["group_differs", "life"]
    assert (life["from"]["type"], life["to"]["type"]) == ("consumer", "classic")
    assert {"before", "after"}.isdisjoint(life)


def test_a_share_group_that_the_other_release_does_not_have():
    """harbour/4.3.1: the offsets of `tasters` are in __share_group_state, so a plan of offsets is no remedy."""
    verdict = kg.check("data/harbour/4.3.1", to="3.9.2")
    (finding,) = [each for each in find_kind(verdict, "group_differs") if each.group == "tasters"]
    assert "__share_group_state" in finding.remedy and "rescue" not in finding.remedy
    assert "protocol None" not in str([each.what for each in verdict.findings])


@pytest.mark.parametrize("command", ["check", "stats"])
def test_findings_can_fail_a_nightly_run(command, tmp_path, capsys):
    """The exit code is 3 if everything loads and there is a finding, 1 if it does not load, and 0 without findings."""
    for path, code in (("data/crafted/t-idem", 3), ("data/crafted/f-txn-after", 1), (BILLING, 0)):
        assert main([command, path, "--fail-on-findings", "--json"]) == code
        assert main([command, path, "--json"]) == code % 3
    assert main([command, "data/crafted/t-idem", str(tmp_path / "none"), "--fail-on-findings"]) == 2
    capsys.readouterr()


@pytest.mark.parametrize("name", STARTED)
def test_zeros_say_what_each_start_does(name, tmp_path):
    """A finding names the starts of real brokers that did not load everything (`releases/zero`)."""
    (log,) = copy_case(name, tmp_path)
    groups = kg.load(log)
    if groups.partitions[next(iter(groups.partitions))].damage or find_zeros(groups) is None:
        return
    findings = find_kind(kg.check(log), "zeros")
    for capture, releases in CASES[name][1]["verdicts"].items():
        verdict = releases.get("4.3.1")
        if verdict is not None and verdict["load"] != "ok":
            (finding,) = findings
            assert STARTS[capture].value in finding.what


def streams_epoch(value):
    return kg.Record(17, consumer_group.GroupIdKey("g"), value, None if value is None else 0)


STREAMS_OVER_CONSUMER = [
    consumer_epoch(4),
    generation(0),
    group_tombstone(),
    streams_epoch(streams_group.StreamsGroupMetadataValue(2, validated_topology_epoch=1)),
]
"""A classic group between a consumer and a streams group with one id; a recorded conversation has such a log.

"With a 2 tombstone in between it loads, types 3 and 6 of the consumer group stay in the log."
"""


def write_log(folder, records):
    """Write a batch for each record."""
    return write_batches(folder, [(0, [record]) for record in records], 0)


def test_a_log_that_loads_again_after_a_cleaning(tmp_path):
    """A pass removes the record that fails the load, because a newer record of the same member follows."""
    (load,) = [each for each in loads() if (each.case["id"], each.release) == ("r19862-same-drop", "4.3.1")]
    verdict = kg.check(load.folder)
    (failure,) = verdict.findings
    assert not verdict.loads and failure.offset == only_partition(verdict).record_offset
    assert f"loads, and loses nothing of {failure.group} (" in failure.remedy
    assert main([str(tmp_path / "copy") if word == "COPY" else word for word in failure.command[1:]]) == 0
    assert kg.load(tmp_path / "copy").failed == {}


@pytest.mark.parametrize("case", ["r19862-same-drop", "rodd-16t-late", "rnd-131", "rnd-113", "rnd-119"])
def test_the_older_record_that_conflicts_is_named(case, tmp_path):
    """Kafka's loader refuses the later of two records; without the older one, the release accepts it."""
    (load,) = [each for each in loads() if (each.case["id"], each.release) == (case, "4.3.1")]
    (failure,) = find_kind(kg.check(load.folder), "load_failure")
    older = int(re.search(r"conflicts with the older record (\d+) \(", failure.what)[1])
    assert older < failure.offset
    (path,) = Path(load.folder).rglob("*.log")
    records = [record for batch in kg.open_log(path) for record in batch.records if record.offset != older]
    folder = write_segment(tmp_path, b"".join(encode_batch([record]) for record in records))
    (partition,) = kg.load(folder).partitions.values()
    assert partition.error is None or partition.record_offset > failure.offset
