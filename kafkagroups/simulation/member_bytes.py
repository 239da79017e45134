"""The bytes of subscriptions and assignments: from partitions to bytes, and back."""

from __future__ import annotations

from collections.abc import Iterable

from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicAndPartitions,
    VersionedMessage,
    decode_assignment,
    decode_subscription,
    encode_versioned,
)

NEWEST_LAYOUT_VERSION = 3
"""The version of the byte layout of subscriptions and assignments that Kafka's clients send since 3.5."""


def write_subscription(
    topics: Iterable[str],
    owned: Iterable[TopicPartition] = (),
    generation: int = -1,
    version: int = NEWEST_LAYOUT_VERSION,
) -> bytes:
    """Return the bytes of a subscription.

    `owned` are the partitions that the member has now. `version` is the version of the byte layout:

    version    contains
    0          topics
    1          topics, owned partitions
    2 and 3    topics, owned partitions, generation
    """
    subscription = ConsumerProtocolSubscription(
        topics=tuple(sorted(topics)),
        owned_partitions=_group_by_topic(owned),
        generation_id=generation,
    )
    return encode_versioned(VersionedMessage(version, subscription))


def read_subscription(metadata: bytes) -> tuple[tuple[str, ...], list[TopicPartition]]:
    """Return the topics and the owned partitions of a subscription."""
    subscription = decode_subscription(metadata).message
    return subscription.topics, _list_partitions(subscription.owned_partitions)


def write_assignment(partitions: Iterable[TopicPartition], version: int = NEWEST_LAYOUT_VERSION) -> bytes:
    """Return the bytes of an assignment."""
    return encode_versioned(VersionedMessage(version, ConsumerProtocolAssignment(_group_by_topic(partitions))))


def read_assignment(assignment: bytes) -> list[TopicPartition]:
    """Return the partitions of an assignment. An assignment of 0 bytes has no partitions."""
    return _list_partitions(decode_assignment(assignment).message.assigned_partitions) if assignment else []


def _list_partitions(entries: Iterable[TopicAndPartitions]) -> list[TopicPartition]:
    return [TopicPartition(entry.topic, number) for entry in entries for number in entry.partitions]


def _group_by_topic(partitions: Iterable[TopicPartition]) -> tuple[TopicAndPartitions, ...]:
    numbers_by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        numbers_by_topic.setdefault(partition.topic, []).append(partition.partition)
    return tuple(TopicAndPartitions(topic, tuple(numbers)) for topic, numbers in numbers_by_topic.items())
