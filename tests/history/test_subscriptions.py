"""Changed subscriptions in the timeline, and offsets that expire because no member subscribes to their topic.

Source: a group of a real 4.3.1 broker dropped a topic. The broker deleted the offsets of this topic when the retention
time had passed since their last commits, and kept those of the other topics, although the group was Stable.
"""

import pytest

import kafkagroups as kg
from tests import handmade
from tests.captured import captured
from tests.handmade import (
    classic_member,
    commit_record,
    consumer_epoch,
    consumer_group,
    consumer_member,
    offset_tombstone,
    streams_group,
    write_batches,
)

DAY = 86_400_000
RUNS = captured("runs") / "runs"


def commit(topic, offset):
    return commit_record(offset, 0, topic)


def new_member(*topics):
    return consumer_member("m", topics, client="enricher")


def generation(number, *topics, member_id="m"):
    return handmade.generation(number, classic_member(member_id, topics, client="enricher"))


def write(folder, batches):
    """Write batches of records. The last batch is eight days after the first one."""
    *others, last = enumerate(batches)
    return write_batches(folder, [*others, (8 * DAY, last[1])], 0)


NEW = [
    [new_member("clicks", "orders"), consumer_epoch(2)],
    [commit("clicks", 61440), commit("orders", 317)],
    [new_member("orders"), consumer_epoch(3)],
    [offset_tombstone(0, "clicks")],
]
CLASSIC = [[generation(2, "clicks", "orders")], NEW[1], [generation(3, "orders")], NEW[3]]
RESTARTED = [CLASSIC[0], NEW[1], [generation(3, "orders", member_id="m2")], NEW[3]]


@pytest.mark.parametrize(
    ("batches", "coordinator", "lost_at", "change"),
    [
        (NEW, "new", 4, "enricher no longer subscribes to clicks"),
        (CLASSIC, "classic", 3, "enricher no longer subscribes to clicks"),
        (RESTARTED, "new", 3, "no member subscribes to clicks any longer"),
    ],
)
def test_an_offset_expires_because_no_member_subscribes_to_its_topic(tmp_path, batches, coordinator, lost_at, change):
    path = write(tmp_path, batches)
    events = kg.timeline(path, "g", coordinator=coordinator, retention_ms=7 * DAY).events
    assert any(change in event.what for event in events)
    assert "subscribes" not in events[0].what
    assert events[-1].event == "expired"
    assert events[-1].what.startswith("clicks-0: 61440 expired after 8 days; ")
    assert events[-1].what.endswith(f"none subscribes to clicks since record {lost_at}.")
    history = kg.explain(path, "g", coordinator=coordinator, retention_ms=7 * DAY).history
    assert (history[-1].cause.value, history[-1].what) == ("expired", events[-1].what)


def test_without_the_retention_time_both_causes_are_possible(tmp_path):
    path = write(tmp_path, NEW)
    [*_, event] = kg.timeline(path, "g").events
    assert "61440 expired after 8 days, or was deleted by a request or with the topic; " in event.what
    assert event.what.endswith("none subscribes to clicks since record 4.")
    assert kg.explain(path, "g").history[-1].cause.value == "unknown"


def test_an_offset_that_was_not_old_enough_was_deleted(tmp_path):
    """The broker's retention time is longer than the age of the offset."""
    path = write(tmp_path, NEW)
    [*_, event] = kg.timeline(path, "g", retention_ms=30 * DAY).events
    said = "by request or with the topic, or expired after 8 days, if the broker's retention time is shorter"
    assert (event.event, event.what) == ("offset_deleted", f"clicks-0: 61440 deleted, {said}.")


@pytest.mark.parametrize("parts", [[("0", ("clicks",))], []])
@pytest.mark.parametrize("topic", ["clicks", "orders"])
def test_a_streams_group_subscribes_to_the_topics_of_its_topology(topic, parts, tmp_path):
    """StreamsGroup.isSubscribedToTopic (4.1): so an offset of `clicks` can only go with its topic. A topology that is
    not in the log can have any topic.
    """
    value = streams_group.StreamsGroupMemberMetadataValue(None, None, "app", "/h", 1000, 0, "p", None, ())
    topology = streams_group.StreamsGroupTopologyValue(0, tuple(streams_group.Subtopology(*each) for each in parts))
    begin = [kg.Record(19, consumer_group.MemberIdKey("g", "m"), value, 0)]
    begin += [kg.Record(17, consumer_group.GroupIdKey("g"), streams_group.StreamsGroupMetadataValue(1), 0)]
    begin += [kg.Record(23, consumer_group.GroupIdKey("g"), topology, 0)] if parts else []
    path = write(tmp_path, [begin, [commit("clicks", 5), commit("orders", 5)], [offset_tombstone(0, topic)]])
    reads = topic == "clicks" or not parts
    expected = (
        "deleted, with the topic" if reads else "expired after 8 days; the group has members, but none subscribes"
    )
    assert f"{topic}-0: 5 {expected}" in kg.timeline(path, "g", retention_ms=7 * DAY).events[-1].what


def test_a_new_topic_is_a_changed_subscription(tmp_path):
    path = write(
        tmp_path, [[new_member("orders"), consumer_epoch(2)], [new_member("orders", "clicks"), consumer_epoch(3)]]
    )
    [*_, event] = kg.timeline(path, "g").events
    assert event.what == "Epoch 3: member data of enricher; enricher now subscribes to clicks."


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_a_broker_with_a_retention_of_one_minute(version):
    """g-live had a member without a subscription to orders; g-simple and g-left had no members."""
    coordinator = "new" if version.startswith("4") else "classic"
    path = RUNS / f"{version}-expiry" / "log"

    def expired(group, retention_ms):
        events = kg.timeline(path, group, coordinator=coordinator, kafka=version, retention_ms=retention_ms).events
        return [event.what for event in events if event.event == "expired"]

    (live,) = expired("g-live", 60_000)
    assert "the group has members, but none subscribes to orders" in live and "request" not in live
    for group in ("g-simple", "g-left"):
        assert len(expired(group, 60_000)) == 2 and "request" not in " ".join(expired(group, 60_000))
        assert expired(group, 7 * DAY) == []
