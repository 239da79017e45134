"""The rules by which the offsets of a group expire, before and after KIP-211.

KIP-211 changed the rules in Kafka 2.1. Up to 2.0 each offset expires after its expire timestamp, in any group. Since
2.1 the state of the group decides which offsets can expire. An offset expires when the broker's retention time
(offsets.retention.minutes) has passed:

    group                             offsets that expire                          begin of the retention time
    Empty, with a protocol type       all offsets                                  the group became Empty (the commit,
                                                                                   if no record contains that time)
    Stable, protocol type "consumer"  since 2.4: offsets of topics to which no     the commit
                                      member subscribes
    simple (no protocol type)         all offsets                                  the commit
    any other group                   none

In any other group a rebalance is running, or the protocol type is not "consumer", or a subscription cannot be read.

If an offset has an expire timestamp (OffsetCommit v2 to v4 with a retention time), this timestamp replaces the end of
the broker's retention time. A sum or a difference of times that exceeds 64 bits wraps around, as in Java.
An offset does not expire if the partition has a pending commit outside a transaction. Before Kafka 4.0 a pending commit
in a transaction does not prevent the expiration.
Source: GroupMetadata.removeExpiredOffsets (3.9; tag 1.0.1); KIP-211.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kafkagroups.groups.classic_group import CONSUMER, ClassicGroup
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition
from kafkagroups.groups.states import ClassicState
from kafkagroups.log.frames import to_int64
from kafkagroups.records.versions import Version

FIRST_WITH_KIP_211: Version = (2, 1)
FIRST_THAT_READS_SUBSCRIPTIONS: Version = (2, 4)


def find_expired_offsets(
    group: ClassicGroup | ModernGroup,
    committed: PartitionOffsets,
    pending: Collection[TopicPartition],
    now_ms: int,
    retention_ms: int,
) -> list[TopicPartition]:
    """Return the partitions whose offsets have expired at the time `now_ms`.

    `committed` are the group's committed offsets. The offsets of the partitions in `pending` never expire. `now_ms` is
    in ms since the epoch. `retention_ms` is the broker's offsets.retention.minutes, in ms.
    """
    is_before_kip_211 = group.kafka < FIRST_WITH_KIP_211
    rule = _find_group_rule(group)
    if rule is None:
        return []
    subscribed_topics, empty_since_ms = rule

    def has_expired(offset: OffsetAndMetadata) -> bool:
        if offset.expire_timestamp is not None:
            return now_ms > offset.expire_timestamp if is_before_kip_211 else now_ms >= offset.expire_timestamp
        if is_before_kip_211:
            # A later version wrote this record, because Kafka 1.x always writes an expire timestamp.
            return now_ms > to_int64(offset.commit_timestamp + retention_ms)
        retention_begin_ms = offset.commit_timestamp if empty_since_ms is None else empty_since_ms
        return to_int64(now_ms - retention_begin_ms) >= retention_ms

    return [
        partition
        for partition, offset in committed.items()
        if partition.topic not in subscribed_topics and partition not in pending and has_expired(offset)
    ]


def _find_group_rule(group: ClassicGroup | ModernGroup) -> Rule | None:
    """Return which offsets of a group expire. A group of a new type keeps those of subscribed topics, in any state."""
    if isinstance(group, ModernGroup):
        return Rule(group.subscribed_topics, None)
    return find_rule(group.kafka, group.state, group.protocol_type, group.state_timestamp, group.subscribed_topics)


class Rule(NamedTuple):
    """Which offsets of a group expire: those of topics that are not in `subscribed_topics`.

    `empty_since_ms` is the begin of the retention time; None: the time of each commit.
    """

    subscribed_topics: frozenset[str]
    empty_since_ms: int | None


def find_rule(
    kafka: Version,
    state: ClassicState,
    protocol_type: str | None,
    state_timestamp: int | None,
    subscribed_topics: frozenset[str] | None,
) -> Rule | None:
    """Return which offsets of a classic group expire; None if none of them does.

    `protocol_type` is None for a simple group. `state_timestamp` is the time of the last change of the state, in ms
    since the epoch. `subscribed_topics` are the topics in the members' subscriptions; None if they cannot be read.
    Before 2.4 no coordinator reads the subscriptions.
    """
    if kafka < FIRST_WITH_KIP_211 or protocol_type is None:
        return Rule(frozenset(), None)
    if state is ClassicState.EMPTY:
        return Rule(frozenset(), state_timestamp)
    is_stable_consumer_group = state is ClassicState.STABLE and protocol_type == CONSUMER
    if is_stable_consumer_group and subscribed_topics is not None and kafka >= FIRST_THAT_READS_SUBSCRIPTIONS:
        return Rule(subscribed_topics, None)
    return None
