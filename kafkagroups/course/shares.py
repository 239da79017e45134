"""What consumers send each other through the coordinator, which does not read it: subscriptions and shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkagroups.course.broker import SHOP
from kafkagroups.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    Embedded,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_embedded,
)


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
    """Assignments by member id, as a range assignor makes them: of each topic a range of partitions, in the ids' order.

    A member is its id and the topics that it reads; the topics are the shop's.
    """
    shares: dict[str, list[TopicPartitions]] = {member: [] for member, _ in sorted(members)}
    for topic in sorted({topic for _, topics in members for topic in topics}):
        readers = sorted(member for member, topics in members if topic in topics)
        first = 0
        for number, reader in enumerate(readers):
            many = SHOP[topic] // len(readers) + (number < SHOP[topic] % len(readers))
            if many:
                shares[reader].append(TopicPartitions(topic=topic, partitions=tuple(range(first, first + many))))
            first += many
    return {
        member: encode_embedded(Embedded(1, ConsumerProtocolAssignment(assigned_partitions=tuple(share))))
        for member, share in shares.items()
    }
