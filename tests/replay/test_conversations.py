"""What real clients asked real brokers, replayed: the same answers, the same appends, the same records.

Each case is a captured conversation: its requests with the broker's responses, the segments that it left, and the
answers of one more broker that was started on them. Lists are compared without order, since hash maps order them;
timestamps in values and records may differ by what a broker needs for a request. Not compared, because they are not for
a group coordinator: requests without an answer, and the epoch of the transaction coordinator in a marker. Nor are topic
ids, which these recordings contain only in records; but a record has an id if theirs has one.

The newer recordings, of consumer groups of 4.3.1 and 4.4.0, also have share and streams groups (KIP-848, KIP-932).
Their requests are input, and their answers are not compared; nor is the version of the cluster's metadata in the record
of a pattern.
"""

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest

import kafkagroups as kg
from kafkagroups.coordinator import Clock, read_settings, start_broker
from kafkagroups.coordinator.conversation import read_conversation
from kafkagroups.coordinator.player import APIS_OF_OTHER_GROUPS, Player
from kafkagroups.coordinator.recorded_requests import Request, handle
from tests.captured import captured
from tests.command import main

LATE_MS = 200
"""How much later than a request arrived a broker may take the time; in the captured runs it is at most half of this."""
CONVERSATIONS = sorted((captured("conversations") / "conversations").iterdir())
NEW_CONVERSATIONS = sorted((captured("new_conversations") / "conversations_new").iterdir())
NEWEST = {"1": (3, 1, 1), "2": (7, 5, 4), "3": (9, 5, 5), "4": (9, 6, 5)}
"""The versions of OffsetFetch, DescribeGroups and ListGroups in which the answers were asked for."""


@pytest.fixture(scope="module", params=[*CONVERSATIONS, *NEW_CONVERSATIONS], ids=lambda folder: folder.name)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def replayed(case, tmp_path_factory):
    """The lines that `replay` prints, the folder of the log that it wrote, and the topics. A case is replayed once.

    A recording of consumer groups needs its log too, because the groups that are input wrote a part of it.
    """
    folder = tmp_path_factory.mktemp("replayed") / "log"
    if case in NEW_CONVERSATIONS:
        player = Player(*read_conversation(case / "conversation.jsonl"), folder, recorded_log=case / "log")
        return list(player.play()), folder, {"topics": player.topics, "topic_ids": player.topic_ids}
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        status = main(["replay", str(case / "conversation.jsonl"), "--out", str(folder)])
    assert (status, err.getvalue()) == (0, "")
    return [json.loads(line) for line in out.getvalue().splitlines()], folder, {}


def recorded(case):
    return [json.loads(line) for line in (case / "conversation.jsonl").read_text(encoding="utf-8").splitlines()]


def unordered(value):
    """The same with every list sorted."""
    if isinstance(value, dict):
        return {name: unordered(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted((unordered(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


def test_every_request_is_answered_as_the_broker_answered_it(case, replayed):
    """The same response, error codes, texts and ids to the letter, and the same batches appended; a line a request."""
    played = {line["n"]: line for line in replayed[0] if "n" in line}
    requests = [line for line in recorded(case) if line.get("n") in played]
    is_new = case in NEW_CONVERSATIONS
    answered = [line for line in requests if line["response"] is not None]
    assert any(line["api"] not in ("DescribeGroups", "ListGroups") for line in answered)
    for line in answered:
        n = line["n"]
        if not (is_new and line["api"].startswith(APIS_OF_OTHER_GROUPS)):
            assert (n, played[n]["api"]) == (n, line["api"])
            assert (n, unordered(played[n]["response"])) == (n, unordered(line["response"]))
    for line in requests if is_new else answered:
        assert (line["n"], played[line["n"]]["appended"]) == (line["n"], line["appended"])


def test_no_request_to_a_group_coordinator_is_left_out(case, replayed):
    """Only what the transaction coordinator and the controller are asked, and FindCoordinator, has no line."""
    if case in NEW_CONVERSATIONS:
        return
    others = {"FindCoordinator", "InitProducerId", "AddOffsetsToTxn", "EndTxn", "CreateTopics", "DeleteTopics"}
    asked = [(line["n"], line["api"]) for line in recorded(case) if "api" in line and line["api"] not in others]
    assert [(line["n"], line["api"]) for line in replayed[0] if "n" in line] == asked


def test_what_no_request_appends_is_the_same(case, replayed):
    """Time-outs, sweeps, resolved patterns, topic deletions and markers append the same batches."""

    def appends(lines):
        return sorted(json.dumps(line["appended"]) for line in lines if line.get("event") == "append")

    assert appends(replayed[0]) == appends(recorded(case))


def test_the_log_holds_the_same_batches(case, replayed):
    """Offsets, producers, attributes, sequences and each record; the order inside a batch has no meaning."""
    theirs = {folder.name: list(kg.open_log(folder)) for folder in (case / "log").iterdir()}
    ours = {folder.name: list(kg.open_log(folder)) for folder in replayed[1].iterdir()}
    compare = compare_fields if case in NEW_CONVERSATIONS else compare_bytes
    assert ours.keys() == theirs.keys()
    for name, batches in theirs.items():
        assert [header(batch) for batch in ours[name]] == [header(batch) for batch in batches], name
        for mine, batch in zip(ours[name], batches, strict=True):
            late = compare(mine, batch)
            assert all(abs(ms) <= LATE_MS for ms in late), (name, batch.base_offset, late)


def compare_bytes(mine, theirs):
    """Compare each record's bytes; return how much later our times are."""
    times = contents(mine)
    wanted = contents(theirs)
    assert times.keys() == wanted.keys(), theirs
    return [a - b for record in wanted for a, b in zip(times[record], wanted[record], strict=True)]


def compare_fields(mine, theirs):
    """Compare each record's fields, in which lists have no order; return how much later our records are."""
    if not theirs.is_control:
        assert unordered(fields(mine)) == unordered(fields(theirs)), theirs
    return [a.timestamp - b.timestamp for a, b in zip(mine.records, theirs.records, strict=True)]


def header(batch):
    return (
        batch.magic,
        batch.base_offset,
        batch.last_offset,
        batch.count,
        batch.attributes,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
    )


def contents(batch):
    """The batch's records, each as (key, value with its timestamps taken out), with these timestamps."""
    found = {}
    for record in batch.records:
        value = record.value
        times = [record.timestamp]
        if batch.is_control:
            value = None  # the epoch of the transaction coordinator
        elif value is not None:
            for span in kg.annotate(record.key, value):
                if span.part == "value" and span.field == "topicId":
                    value = value[: span.end - 16] + b"i" * 16 + value[span.end :]
                if span.part == "value" and span.field.lower().endswith("timestamp"):
                    time = int.from_bytes(value[span.start : span.end], signed=True)
                    value = value[: span.start] + (b"-" if time == -1 else b"t") * 8 + value[span.end :]
                    times.append(time)
        found[record.key, value] = times
    assert len(found) == len(batch.records)
    return found


def fields(batch):
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
    """OffsetFetch of all topics, with requireStable too, DescribeGroups and ListGroups, after one more start.

    Of the newer recordings, also ConsumerGroupDescribe.
    """
    header, *_ = recorded(case)
    answers = json.loads((case / "answers.json").read_text(encoding="utf-8"))
    config = {**header["config"], "offsets.topic.num.partitions": header["partitions"]}
    clock = Clock(header["start_ms"] + header["end_ms"])
    coordinator = start_broker(replayed[1], clock, read_settings(header["broker"], config), **replayed[2])
    fetch, describe, listing = NEWEST[header["broker"][0]]

    def ask(api, version, request):
        return unordered(handle(coordinator, Request(api, version, request, "client")).value)

    for group, answer in answers["offsets"].items():
        named = {"groupId": group, "topics": None}
        request = {**named, "groups": [named]}
        assert ask("OffsetFetch", fetch, {**request, "requireStable": False}) == unordered(answer), group
        if "stable_differs" in answers:
            stable = answers["stable_differs"].get(group, answer)
            assert ask("OffsetFetch", fetch, {**request, "requireStable": True}) == unordered(stable), group
    names = [group["groupId"] for group in answers["groups"]]
    assert ask("DescribeGroups", describe, {"groups": names})["groups"] == unordered(answers["groups"])
    assert ask("ListGroups", listing, {})["groups"] == unordered(answers["listed"])
    if "consumer_groups" in answers:
        described = ask("ConsumerGroupDescribe", 1, {"groupIds": names})["groups"]
        assert described == unordered(answers["consumer_groups"])
