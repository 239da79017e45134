"""What consumers send each other through the coordinator, which does not read it: subscriptions and shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from kafkagroups.course.broker import SHOP
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    Embedded,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_embedded,
)
from kafkagroups.simulation import Subscriber, range_assignor


def subscription(topics: Iterable[str]) -> bytes:
    return encode_embedded(Embedded(1, ConsumerProtocolSubscription(topics=tuple(topics))))


def read_topics(metadata: bytes) -> tuple[str, ...]:
    return decode_subscription(metadata).message.topics


def shown_share(assignment: bytes) -> str:
    """An assignment as "orders 0 1", for people."""
    if not assignment:
        return "no partitions"
    assigned = decode_assignment(assignment).message.assigned_partitions
    return ", ".join(f"{each.topic} {' '.join(map(str, each.partitions))}" for each in assigned) or "no partitions"


def share_out(members: Sequence[tuple[str, tuple[str, ...]]]) -> dict[str, bytes]:
    """Assignments by member id, as a leader with the range assignor makes them.

    A member is its id and the topics that it reads; the topics are the shop's.
    """
    assigned = range_assignor((Subscriber(member, topics) for member, topics in members), SHOP)
    return {
        member: encode_embedded(Embedded(1, ConsumerProtocolAssignment(assigned_partitions=_by_topic(partitions))))
        for member, partitions in assigned.items()
    }


def _by_topic(partitions: Iterable[TopicPartition]) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(topic=topic, partitions=tuple(each.partition for each in its))
        for topic, its in groupby(partitions, key=lambda each: each.topic)
    )
