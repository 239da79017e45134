"""The range assignor: what Kafka's clients computed and what Kafka promises."""

import base64
import json

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kafkagroups import decode_assignment, decode_subscription
from kafkagroups.coordinator.assignors import GroupToAssign, TargetedMember, assign_range
from tests.captured import captured

TOPICS = ("orders", "clicks", "pay-ments")
groups = st.dictionaries(
    st.text("abcü𝄞", min_size=1, max_size=3), st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=6
)


def assign(members, counts):
    """Return the partitions of each member, by topic. A member has its topics, or topics and its instance id."""
    targeted = {}
    for name, its in members.items():
        topics, instance_id = its if isinstance(its, tuple) else (its, None)
        targeted[name] = TargetedMember(instance_id, tuple(topic for topic in sorted(topics) if topic in counts))
    return assign_range(GroupToAssign(targeted, counts, has_same_topics=False, assigned=frozenset()))


@given(members=groups, counts=st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9)))
def test_range_shares_each_topic_evenly_and_in_order(members, counts):
    """The readers of a topic get consecutive partitions; the first ones get one more where it must be."""
    assigned = assign(members, counts)
    assert set(assigned) == set(members)
    for topic in counts:
        readers = sorted((name for name, topics in members.items() if topic in topics), key=java)
        shares = [assigned[name].get(topic, []) for name in readers]
        assert [n for share in shares for n in share] == (list(range(counts[topic])) if readers else [])
        assert [len(share) for share in shares] == sorted((len(share) for share in shares), reverse=True)
        assert not shares or len(shares[0]) - len(shares[-1]) <= 1
        assert sum(topic in there for there in assigned.values()) == sum(map(bool, shares))


def java(text):
    return text.encode("utf-16-be")


def test_ranges_of_kafkas_own_example():
    """RangeAssignor's documentation (3.9): two consumers, two topics of three partitions."""
    assigned = assign({"C0": ["t0", "t1"], "C1": ["t0", "t1"]}, {"t0": 3, "t1": 3})
    assert assigned == {"C0": {"t0": [0, 1], "t1": [0, 1]}, "C1": {"t0": [2], "t1": [2]}}


def test_static_members_come_first_by_their_instance_ids():
    """AbstractPartitionAssignor.MemberInfo (3.9): so a static member keeps its share under a new member id."""
    assigned = assign({"a": ["t"], "z": (["t"], "2"), "y": (["t"], "1")}, {"t": 3})
    assert assigned == {"a": {"t": [2]}, "y": {"t": [0]}, "z": {"t": [1]}}


def java_leaders():
    """What the leaders among the recorded Java consumers received, and what they then assigned."""
    for file in sorted((captured("conversations") / "conversations").glob("*/conversation.jsonl")):
        header, *lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        led = {}
        for line in lines:
            if line.get("api") == "JoinGroup" and line["response"] and line["response"]["members"]:
                led[line["response"]["memberId"]] = line["response"]
            by_java = line.get("api") == "SyncGroup" and line["client_id"].startswith("java-")
            if by_java and line["request"]["assignments"]:
                joined = led[line["request"]["memberId"]]
                if joined["protocolName"] == "range":
                    yield pytest.param(header["topics"], joined, line["request"], id=f"{file.parent.name}-{line['n']}")


@pytest.mark.parametrize(("topics", "joined", "request_"), list(java_leaders()))
def test_a_java_consumer_assigned_the_same(topics, joined, request_):
    """The captured KafkaConsumers of 1.0.1 and 3.9.2, as leaders."""
    members = {}
    for each in joined["members"]:
        said = decode_subscription(base64.b64decode(each["metadata"])).message
        members[each["memberId"]] = (said.topics, each.get("groupInstanceId"))
    theirs = {}
    for each in request_["assignments"]:
        read = decode_assignment(base64.b64decode(each["assignment"])).message.assigned_partitions
        theirs[each["memberId"]] = {its.topic: sorted(its.partitions) for its in read}
    assert assign(members, topics) == theirs
