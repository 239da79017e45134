"""What real clients asked consumer groups of 4.3.1 and 4.4.0, replayed: the same answers, appends and records.

As test_conversations.py, for the protocols of KIP-848 and KIP-932. The requests of share and streams groups are input;
their answers are not compared. Not compared either is the version of the cluster's metadata in the record of a pattern.
"""

import json
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups.coordinator import Clock, read_settings, start_broker
from kafkagroups.coordinator.conversation import read_conversation
from kafkagroups.coordinator.player import APIS_OF_OTHER_GROUPS, Player
from kafkagroups.coordinator.recorded_requests import Request, handle
from tests.captured import captured
from tests.replay.test_conversations import LATE_MS, header, recorded, unordered

CONVERSATIONS = sorted((captured("new_conversations") / "conversations_new").iterdir())


@pytest.fixture(scope="module", params=CONVERSATIONS, ids=lambda folder: folder.name)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def replayed(case, tmp_path_factory):
    """The player after its work, the lines of its output, and the folder of the log that it wrote."""
    folder = tmp_path_factory.mktemp("replayed") / "log"
    player = Player(*read_conversation(case / "conversation.jsonl"), folder, recorded_log=case / "log")
    return player, list(player.play()), folder


def test_every_request_is_answered_as_the_broker_answered_it(case, replayed):
    """The same response, error codes, texts, epochs and assignments to the letter, and the same batches appended."""
    played = {line["n"]: line for line in replayed[1] if "n" in line}
    requests = [line for line in recorded(case) if line.get("n") in played]
    assert any(line["api"] not in ("DescribeGroups", "ListGroups") for line in requests)
    for line in requests:
        n = line["n"]
        if line["response"] is not None and not line["api"].startswith(APIS_OF_OTHER_GROUPS):
            assert (n, unordered(played[n]["response"])) == (n, unordered(line["response"]))
        assert (n, played[n]["appended"]) == (n, line["appended"])


def test_what_no_request_appends_is_the_same(case, replayed):
    """Time-outs, resolved patterns, sweeps, topic deletions and markers append the same batches."""

    def appends(lines):
        return sorted(json.dumps(line["appended"]) for line in lines if line.get("event") == "append")

    assert appends(replayed[1]) == appends(recorded(case))


def test_the_log_holds_the_same_records(case, replayed):
    """Each batch's header, and each record's fields; the order of records in a batch and of lists has no meaning."""
    theirs = {folder.name: list(kg.open_log(folder)) for folder in (case / "log").iterdir()}
    ours = {folder.name: list(kg.open_log(folder)) for folder in replayed[2].iterdir()}
    assert ours.keys() == theirs.keys()
    for name, batches in theirs.items():
        assert [header(batch) for batch in ours[name]] == [header(batch) for batch in batches], name
        for mine, batch in zip(ours[name], batches, strict=True):
            if not batch.is_control:
                assert unordered(contents(mine)) == unordered(contents(batch)), (name, batch.base_offset)
            late = [a.timestamp - b.timestamp for a, b in zip(mine.records, batch.records, strict=True)]
            assert all(abs(ms) <= LATE_MS for ms in late), (name, batch.base_offset, late)


def contents(batch):
    """The batch's records as JSON, without timestamps and without the version of the metadata."""

    def hide(value):
        if isinstance(value, list):
            return [hide(each) for each in value]
        if not isinstance(value, dict):
            return value
        hidden = {name for name in value if name.lower().endswith("timestamp") or name == "version"}
        return {name: each is None if name in hidden else hide(each) for name, each in value.items()}

    return [hide(kg.to_json(kg.decode(record.key, record.value))) for record in batch.records]


def test_a_coordinator_that_starts_on_our_log_answers_what_the_broker_answered(case, replayed):
    """OffsetFetch, DescribeGroups, ListGroups and ConsumerGroupDescribe, after one more start."""
    header, *_ = recorded(case)
    player, _, folder = replayed
    answers = json.loads((case / "answers.json").read_text(encoding="utf-8"))
    config = {**header["config"], "offsets.topic.num.partitions": header["partitions"]}
    coordinator = start_broker(
        Path(folder),
        Clock(header["start_ms"] + header["end_ms"]),
        read_settings(header["broker"], config),
        topics=player.topics,
        topic_ids=player.topic_ids,
    )

    def ask(api, version, request):
        replies = []
        handle(coordinator, Request(api, version, request, "client"), replies.append)
        return replies[0]

    for group, answer in answers["offsets"].items():
        for stable in (False, True):
            named = {"groupId": group, "topics": None}
            fetched = ask("OffsetFetch", 9, {"groups": [named], "requireStable": stable})
            expected = answers["stable_differs"].get(group, answer) if stable else answer
            assert unordered(fetched) == unordered(expected), group
    names = [group["groupId"] for group in answers["groups"]]
    assert unordered(ask("DescribeGroups", 6, {"groups": names})["groups"]) == unordered(answers["groups"])
    assert unordered(ask("ListGroups", 5, {})["groups"]) == unordered(answers["listed"])
    described = ask("ConsumerGroupDescribe", 1, {"groupIds": names})["groups"]
    assert unordered(described) == unordered(answers["consumer_groups"])
