"""What a broker's restart, another Kafka than the recorded one and a broker's own choices mean for a conversation."""

import json

import pytest

CONFIG = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
HEADER = {"broker": "3.9.2", "config": CONFIG, "partitions": 1, "topics": {"orders": 1}, "start_ms": 1_700_000_000_000}
MEMBER = "a-12345678-0000-4000-8000-000000000001"
JOIN = {
    "groupId": "g",
    "memberId": "",
    "sessionTimeoutMs": 2000,
    "rebalanceTimeoutMs": 2000,
    "protocolType": "consumer",
    "protocols": [{"name": "range", "metadata": "AAAAAAAA"}],
}
SYNC = {"groupId": "g", "generationId": 1, "memberId": MEMBER, "assignments": []}
DESCRIBE = {"groups": ["g"]}
BEAT = {"groupId": "g", "generationId": 1, "memberId": MEMBER}


def asked(number, ms, api, version, request, response=None):
    return {
        "n": number,
        "ms": ms,
        "api": api,
        "api_version": version,
        "client_id": "a",
        "request": request,
        "response": {} if response is None else response,
    }


def commit(partition, retention=-1):
    rows = [{"partitionIndex": partition, "committedOffset": 4, "committedMetadata": ""}]
    return {
        "groupId": "g",
        "generationIdOrMemberEpoch": -1,
        "memberId": "",
        "retentionTimeMs": retention,
        "topics": [{"name": "orders", "partitions": rows}],
    }


@pytest.fixture
def play(run, tmp_path):
    def call(*lines, header=HEADER, options=()):
        file = tmp_path / "conversation.jsonl"
        file.write_text("".join(f"{json.dumps(line)}\n" for line in (header, *lines)))
        status, out, err = run("replay", file, "--out", tmp_path / "log", *options)
        assert (status, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]

    return call


def test_a_broker_that_is_down_expires_no_member(play):
    """GroupCoordinator.shutdown, onGroupLoaded (3.9): sessions restart with the load; one of 2 s outlives 5.5 s."""
    lines = play(
        asked(1, 0, "JoinGroup", 3, JOIN, {"memberId": MEMBER}),
        asked(2, 10, "SyncGroup", 3, SYNC),
        {"event": "restart", "ms": 500, "up_ms": 6000},
        asked(3, 6100, "DescribeGroups", 1, DESCRIBE),
        asked(4, 6110, "Heartbeat", 3, BEAT),
    )
    assert [line.get("n") for line in lines] == [1, 2, 3, 4]
    assert lines[2]["response"]["groups"][0]["groupState"] == "Stable"
    assert lines[3]["response"]["errorCode"] == 0


def test_a_broker_that_is_down_deletes_nothing(play):
    """KafkaScheduler (3.9): sweeps restart with the broker; the one recorded after the restart deletes."""
    config = {**CONFIG, "offsets.retention.check.interval.ms": 2000}
    lines = play(
        asked(1, 0, "OffsetCommit", 2, commit(0, 1000)),
        {"event": "restart", "ms": 800, "up_ms": 9500},
        {"event": "append", "ms": 9900, "why": "expiry", "group": "g", "appended": [{"partition": 0}]},
        asked(2, 10000, "OffsetFetch", 3, {"groupId": "g", "topics": None}),
        header={**HEADER, "config": config},
    )
    (sweep,) = [line for line in lines if line.get("event") == "append"]
    assert sweep["ms"] == 9900
    assert lines[-1]["response"]["topics"] == []


@pytest.mark.parametrize(("kafka", "knows"), [("1.0.1", False), ("2.8.2", True)])
def test_a_request_that_this_kafka_does_not_know_is_not_answered(play, kafka, knows):
    """DeleteGroups came with 1.1: an older broker closes the connection."""
    (line,) = play(asked(1, 0, "DeleteGroups", 1, {"groupsNames": ["g"]}), options=["--kafka", kafka])
    assert (line["response"] is not None) is knows


def test_a_topic_has_the_partitions_that_the_broker_gave_it(play):
    """CreateTopics with -1 partitions (KIP-464): the response says how many."""
    made = {"topics": [{"name": "orders", "errorCode": 0, "numPartitions": 2}]}
    lines = play(
        asked(1, 0, "CreateTopics", 5, {"topics": [{"name": "orders", "numPartitions": -1}]}, made),
        asked(2, 10, "OffsetCommit", 2, commit(1)),
        asked(3, 20, "OffsetCommit", 2, commit(2)),
        header={**HEADER, "topics": {}},
    )
    codes = [line["response"]["topics"][0]["partitions"][0]["errorCode"] for line in lines if "n" in line]
    assert codes == [0, 3]
