"""The assignors: what Kafka's clients computed and what Kafka promises."""

import base64
import json

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kafkagroups import decode_assignment, decode_subscription
from kafkagroups.coordinator import (
    ASSIGNORS,
    Subscriber,
    TopicPartition,
    range_assignor,
    round_robin_assignor,
    sticky_assignor,
)
from tests.captured import captured

TOPICS = ("orders", "clicks", "pay-ments")
groups = st.dictionaries(
    st.text("abcü𝄞", min_size=1, max_size=3), st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=6
).map(lambda members: [Subscriber(member_id, tuple(topics)) for member_id, topics in members.items()])
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9))


def alike(names, topics=TOPICS):
    return [Subscriber(name, topics) for name in names]


def by_name(assigned):
    return {member: [f"{each.topic}{each.partition}" for each in there] for member, there in assigned.items()}


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@given(members=groups, topics=counts)
def test_every_partition_that_somebody_reads_has_one_reader(assign, members, topics):
    """And it is one that subscribes to the topic; every member has an assignment, maybe an empty one."""
    assigned = assign(members, topics)
    assert set(assigned) == {member.member_id for member in members}
    read = {topic for member in members for topic in member.topics if topic in topics}
    everything = sorted(each for there in assigned.values() for each in there)
    assert everything == sorted(TopicPartition(topic, n) for topic in read for n in range(topics[topic]))
    for member in members:
        assert {each.topic for each in assigned[member.member_id]} <= set(member.topics)


@given(members=groups, topics=counts)
def test_range_shares_each_topic_evenly_and_in_order(members, topics):
    """The readers of a topic get consecutive partitions; the first ones get one more where it must be."""
    assigned = range_assignor(members, topics)
    for topic in topics:
        readers = [member.member_id for member in members if topic in member.topics]
        shares = [
            [each.partition for each in assigned[name] if each.topic == topic] for name in sorted(readers, key=java)
        ]
        assert [n for share in shares for n in share] == (list(range(topics[topic])) if readers else [])
        assert [len(share) for share in shares] == sorted((len(share) for share in shares), reverse=True)
        assert not shares or len(shares[0]) - len(shares[-1]) <= 1


def java(text):
    return text.encode("utf-16-be")


@given(names=st.sets(st.text("abc", min_size=1, max_size=3), min_size=1), topics=counts)
def test_equal_subscriptions_get_shares_that_differ_by_one(names, topics):
    """Round robin and sticky do; range does so only topic by topic."""
    for assign in (round_robin_assignor, sticky_assignor):
        sizes = [len(there) for there in assign(alike(names), topics).values()]
        assert max(sizes) - min(sizes) <= 1


def test_ranges_of_kafkas_own_example():
    """RangeAssignor's documentation (3.9): two consumers, two topics of three partitions."""
    assigned = range_assignor(alike(("C0", "C1"), ("t0", "t1")), {"t0": 3, "t1": 3})
    assert by_name(assigned) == {"C0": ["t00", "t01", "t10", "t11"], "C1": ["t02", "t12"]}


def test_round_robin_of_kafkas_own_examples():
    """RoundRobinAssignor's documentation (3.9): equal subscriptions, and different ones."""
    assigned = round_robin_assignor(alike(("C0", "C1"), ("t0", "t1")), {"t0": 3, "t1": 3})
    assert by_name(assigned) == {"C0": ["t00", "t02", "t11"], "C1": ["t01", "t10", "t12"]}
    members = [Subscriber("C0", ["t0"]), Subscriber("C1", ["t0", "t1"]), Subscriber("C2", ["t0", "t1", "t2"])]
    assigned = round_robin_assignor(members, {"t0": 1, "t1": 2, "t2": 3})
    assert by_name(assigned) == {"C0": ["t00"], "C1": ["t10"], "C2": ["t11", "t20", "t21", "t22"]}


def test_static_members_come_first_by_their_instance_ids():
    """AbstractPartitionAssignor.MemberInfo (3.9): so a static member keeps its share under a new member id."""
    members = [Subscriber("a", ["t"]), Subscriber("z", ["t"], "2"), Subscriber("y", ["t"], "1")]
    for assign in (range_assignor, round_robin_assignor):
        assert by_name(assign(members, {"t": 3})) == {"a": ["t2"], "y": ["t0"], "z": ["t1"]}


def test_sticky_of_kafkas_own_example():
    """StickyAssignor's documentation (3.9): when C1 goes, the others keep what they have, and share what C1 had."""
    names = ("C0", "C1", "C2")
    topics = {"t0": 2, "t1": 2, "t2": 2, "t3": 2}
    first = sticky_assignor(alike(names, tuple(topics)), topics)
    left = [Subscriber(name, tuple(topics), owned=first[name]) for name in ("C0", "C2")]
    second = sticky_assignor(left, topics)
    assert all(set(first[name]) <= set(second[name]) and len(second[name]) == 4 for name in ("C0", "C2"))


@given(members=groups, topics=counts, data=st.data())
def test_sticky_is_balanced_whatever_was_owned(members, topics, data):
    """No partition has a reader with two or more above another that could read it: AbstractStickyAssignorTest."""
    owned = st.lists(st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 9)))
    members = [Subscriber(member.member_id, member.topics, owned=data.draw(owned)) for member in members]
    assigned = sticky_assignor(members, topics)
    for there in assigned.values():
        for partition in there:
            others = [len(assigned[member.member_id]) for member in members if partition.topic in member.topics]
            assert len(there) - min(others) <= 1


@given(names=st.sets(st.text("abc", min_size=1, max_size=3), min_size=2), topics=counts, data=st.data())
def test_sticky_keeps_what_it_can(names, topics, data):
    """Equal subscriptions: after a leave no member loses a partition; after a join only the new member gains."""
    first = sticky_assignor(alike(names), topics)
    gone = data.draw(st.sampled_from(sorted(names)))
    stay = [Subscriber(name, TOPICS, owned=first[name]) for name in names - {gone}]
    second = sticky_assignor(stay, topics)
    assert all(set(first[name]) <= set(second[name]) for name in second)
    again = [Subscriber(name, TOPICS, owned=second[name]) for name in second]
    third = sticky_assignor([*again, Subscriber(gone, TOPICS)], topics)
    assert all(set(third[name]) <= set(second[name]) for name in second)
    assert sticky_assignor([Subscriber(name, TOPICS, owned=third[name]) for name in names], topics) == third


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
                yield pytest.param(header["topics"], joined, line["request"], id=f"{file.parent.name}-{line['n']}")


@pytest.mark.parametrize(("topics", "joined", "request_"), list(java_leaders()))
def test_a_java_consumer_assigned_the_same(topics, joined, request_):
    """The captured KafkaConsumers of 1.0.1 and 3.9.2, as leaders."""
    members = []
    for each in joined["members"]:
        said = decode_subscription(base64.b64decode(each["metadata"])).message
        members.append(Subscriber(each["memberId"], said.topics, each.get("groupInstanceId")))
    theirs = {}
    for each in request_["assignments"]:
        read = decode_assignment(base64.b64decode(each["assignment"])).message.assigned_partitions
        theirs[each["memberId"]] = sorted((its.topic, n) for its in read for n in its.partitions)
    ours = ASSIGNORS[joined["protocolName"]](members, topics)
    assert {name: sorted(there) for name, there in ours.items()} == theirs
