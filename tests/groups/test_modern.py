"""Sequences of records that no captured log has, with the verdict of Kafka's own classes.

Source: GroupMetadataManager.replay and onLoaded of Kafka 4.3.1, run with these records; for older versions
ConsumerGroupMember, StreamsTopology, Utils and TopicMetadata of 4.0.2, 4.1.2 and 4.2.0.
"""

import base64

import pytest

import kafkagroups as kg
from tests.handmade import LogRecord, encode_batch, write_segment

ONE = "AAAAAAAAAAAAAAAAAAAAAQ"
TWO = "AAAAAAAAAAAAAAAAAAAAAg"


def record(kind, value=None, member=None, **more):
    key = {"groupId" if kind > 2 else "group": "g"} | ({"memberId": member} if member else {}) | more
    version = {1: 4, 2: 3}.get(kind, 0)
    return {
        "key": {"type": kind, "data": key},
        "value": None if value is None else {"version": version, "data": value},
    }


def load(tmp_path, records, coordinator="new", kafka=None):
    rules = kg.dialect("new", kafka) if coordinator == "new" else None
    batches = [
        encode_batch([LogRecord(offset, 0, *kg.encode(kg.from_json(each, rules), rules))])
        for offset, each in enumerate(records)
    ]
    folder = write_segment(tmp_path, b"".join(batches))
    groups = kg.load(folder, coordinator, kafka)
    return groups, groups.partitions[0].error


def current(assigned, pending=(), state=0, epoch=1):
    def topics(parts):
        return [{"topicId": topic, "partitions": list(numbers)} for topic, numbers in parts]

    return {
        "memberEpoch": epoch,
        "previousMemberEpoch": 0,
        "state": state,
        "assignedPartitions": topics(assigned),
        "partitionsPendingRevocation": topics(pending),
    }


@pytest.mark.parametrize(("kafka", "held"), [("4.0.2", [0]), ("4.1.2", [0]), ("4.2.0", [0]), ("4.3.1", [0, 1])])
def test_a_member_holds_what_it_has_to_give_back_since_4_3(kafka, held, tmp_path):
    load(tmp_path, [record(8, current([(ONE, [0])], [(ONE, [1])], 1), "m")], kafka=kafka)
    (member,) = kg.explain(tmp_path / "__consumer_offsets-0", "g", coordinator="new", kafka=kafka).answer["members"]
    assert member["assignment"] == {ONE: held}


def group(*subscriptions, protocol_type="consumer", protocol="range"):
    members = [
        {
            "memberId": name,
            "groupInstanceId": None,
            "clientId": "c",
            "clientHost": "h",
            "rebalanceTimeout": 1,
            "sessionTimeout": 1,
            "subscription": base64.b64encode(bytes.fromhex(data)).decode(),
            "assignment": "",
        }
        for name, data in subscriptions
    ]
    about = {"protocolType": protocol_type, "generation": 1, "protocol": protocol, "leader": "m"}
    return record(2, {**about, "currentStateTimestamp": 1, "members": members})


@pytest.mark.parametrize("coordinator", ["classic", "new"])
@pytest.mark.parametrize(
    ("name", "value", "loads"),
    [
        ("null topics", group(("m", "0000ffffffff")), False),
        ("null topic", group(("m", "000000000001ffff")), False),
        ("more topics than bytes", group(("m", "00007fffffff")), False),
        ("a topic beyond the end", group(("m", "0000000000017fff")), False),
        ("user data beyond the end", group(("m", "0000000000000000ffff")), False),
        ("no bytes", group(("m", "")), True),
        ("the end comes", group(("m", "0000")), True),
        ("a negative version", group(("m", "ffff00000000ffffffff")), True),
        ("the first one just ends", group(("m", ""), ("n", "0000ffffffff")), True),
        ("the second one is bad", group(("m", "000000000000ffffffff"), ("n", "0000ffffffff")), False),
        ("no protocol", group(("m", "0000ffffffff"), protocol=None), True),
        ("no consumer", group(("m", "0000ffffffff"), protocol_type="connect"), True),
    ],
)
def test_a_subscription_can_fail_the_load(name, value, loads, coordinator, tmp_path):
    """computeSubscribedTopics accepts bytes that end too early, and then reads no further member."""
    groups, error = load(tmp_path, [value], coordinator)
    assert (error is None) == loads and ("g" in groups) == loads, error


def info(topic, *partitions):
    return {"topicId": topic, "topicName": "t", "partitions": list(partitions)}


def tasks(state=1, **lists):
    empty = {f"{kind}Tasks{rest}": [] for kind in ("active", "standby", "warmup") for rest in ("", "PendingRevocation")}
    return {"memberEpoch": 1, "previousMemberEpoch": 0, "state": state, **empty, **lists}


def states(initializing=(), initialized=(), deleting=()):
    return {
        "initializingTopics": list(initializing),
        "initializedTopics": list(initialized),
        "deletingTopics": list(deleting),
    }


TARGET = {"topicId": ONE, "partitions": []}
PART = {"subtopologyId": "a", "partitions": [0]}
SEEN = {"topicId": ONE, "topicName": "t", "numPartitions": 1, "partitionMetadata": []}
COMMIT = record(1, {"offset": 1, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 1}, topic="t", partition=0)


@pytest.mark.parametrize(
    ("name", "kafka", "records", "loads"),
    [
        (
            "topic twice in a target",
            None,
            [record(7, {"topicPartitions": [{"topicId": ONE, "partitions": []}] * 2}, "m")],
            0,
        ),
        ("topic twice in an assignment", None, [record(8, current([(ONE, [0]), (ONE, [1])]), "m")], 1),
        ("topic twice in an assignment", "4.2.0", [record(8, current([(ONE, [0]), (ONE, [1])]), "m")], 0),
        ("one partition had and given back", None, [record(8, current([(ONE, [0])], [(ONE, [0])]), "m")], 0),
        ("topic twice initializing", None, [record(15, states([info(ONE, 0), info(ONE, 1)]))], 0),
        ("topic twice initialized", None, [record(15, states((), [info(TWO, 0)] * 2))], 0),
        ("topic twice deleting", None, [record(15, states((), (), [{"topicId": ONE, "topicName": "t"}] * 2))], 1),
        ("type 15", "4.0.2", [record(11, {"epoch": 1}), record(15, states())], 0),
        ("negative topology", None, [record(23, {"epoch": -1, "subtopologies": []})], 0),
        ("task twice", None, [record(22, tasks(activeTasks=[PART, PART]), "m")], 1),
        ("task twice", "4.1.2", [record(22, tasks(activeTasks=[PART, PART]), "m")], 0),
        ("waits without a timeout", None, [record(22, tasks(2), "m")], 0),
        ("waits, then is gone", None, [record(22, tasks(2), "m"), record(22, None, "m")], 0),
        ("does not wait", None, [record(22, tasks(3), "m")], 1),
        ("a topic without a name", "4.0.2", [record(4, {"topics": [SEEN | {"topicName": ""}]})], 0),
        ("a topic without a name", "4.1.2", [record(4, {"topics": [SEEN | {"topicName": ""}]})], 1),
        ("a topic with all", "4.0.2", [record(4, {"topics": [SEEN]})], 1),
        ("share group of a simple one", None, [COMMIT, record(11, {"epoch": 1, "metadataHash": 0})], 0),
        ("tombstone on a simple group", None, [COMMIT, record(7, None, "m")], 1),
        ("streams group of a simple one", None, [COMMIT, record(17, {"epoch": 1, "metadataHash": 0})], 1),
        ("of the wrong type", None, [record(3, {"epoch": 1}), record(15)], 0),
    ],
)
def test_values_and_orders_that_kafkas_coordinator_refuses(name, kafka, records, loads, tmp_path):
    _, error = load(tmp_path, records, kafka=kafka)
    assert (error is None) == bool(loads), error
