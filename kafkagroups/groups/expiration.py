"""Which offsets of a group expire, and when, before and after KIP-211.

Up to 2.0 each offset expires after its expire timestamp, in any group. Since 2.1 the state of the group decides which
offsets can expire. An offset expires when the broker's retention time (offsets.retention.minutes, which is not in the
log) has passed:

    group                             offsets that expire                          begin of the retention time
    Empty, with a protocol type       all offsets                                  the group became Empty (the commit,
                                                                                   if no record contains that time)
    Stable, protocol type "consumer"  since 2.4: offsets of topics to which no     the commit
                                      member subscribes
    simple (no protocol type)         all offsets                                  the commit
    consumer and streams groups of    offsets of topics to which no member         the commit
    the new protocols                 subscribes
    any other group                   none

In any other group a rebalance is running, or the protocol type is not "consumer", or a subscription cannot be read.

If an offset has an expire timestamp (OffsetCommit v2 to v4 with a retention time), this timestamp replaces the end of
the broker's retention time. A sum or a difference of times that exceeds 64 bits wraps around, as in Java. An offset
does not expire while its partition has a pending commit: outside a transaction in every version, inside one only in the
new coordinator.
Source: GroupMetadata.removeExpiredOffsets (3.9; tag 1.0.1); OffsetMetadataManager.cleanupExpiredOffsets, ClassicGroup,
ConsumerGroup and StreamsGroup (4.3.1); KIP-211.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kafkagroups.groups.group import CONSUMER, ClassicState
from kafkagroups.groups.living_groups import LivingGroup
from kafkagroups.groups.modern_group import AnyGroup, ModernGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition
from kafkagroups.records.releases import Dialect, Version
from kafkagroups.records.wire import to_int64

FIRST_WITH_KIP_211: Version = (2, 1)
DEFAULT_RETENTION_MS = 7 * 86_400_000
"""The default of offsets.retention.minutes since Kafka 2.0."""
FIRST_THAT_READS_SUBSCRIPTIONS: Version = (2, 4)


def find_expired_offsets(
    group: LivingGroup, committed: PartitionOffsets, pending: Collection[TopicPartition], now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """Return the partitions whose offsets have expired at the time `now_ms`. Those in `pending` never expire."""
    is_before_kip_211 = group.kafka < FIRST_WITH_KIP_211
    rule = find_rule(group, group.kafka)
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


class Rule(NamedTuple):
    """Which offsets of a group expire: those of topics that are not in `subscribed_topics`.

    `empty_since_ms` is the begin of the retention time; None: the time of each commit.
    """

    subscribed_topics: frozenset[str]
    empty_since_ms: int | None


def find_rule(group: AnyGroup | LivingGroup, kafka: Version) -> Rule | None:
    """Return which offsets of a group expire; None if none of them does. Before 2.4 no coordinator reads the
    subscriptions.
    """
    if isinstance(group, ModernGroup):  # It keeps the offsets of subscribed topics, in any state.
        return Rule(group.subscribed_topics, None)
    if kafka < FIRST_WITH_KIP_211 or not group.protocol_type:
        return Rule(frozenset(), None)
    if group.state is ClassicState.EMPTY:
        return Rule(frozenset(), group.current_state_timestamp)
    is_stable_consumer_group = group.state is ClassicState.STABLE and group.protocol_type == CONSUMER
    if not is_stable_consumer_group or kafka < FIRST_THAT_READS_SUBSCRIPTIONS:
        return None
    return None if group.subscribed_topics is None else Rule(group.subscribed_topics, None)


class Expiration(NamedTuple):
    topic_partition: TopicPartition
    offset: int
    expire_ms: int
    is_from_record: bool


def find_expirations(group: AnyGroup, dialect: Dialect, retention_ms: int | None = None) -> list[Expiration]:
    """Return the offsets of a loaded group that expire, in the order of their times."""
    is_new = dialect.coordinator == "new"
    rule = find_rule(group, (4,) if is_new else dialect.version)
    if rule is None:
        return []
    pending = {partition for offsets in group.pending.values() for partition in offsets} if is_new else set()
    expirations = []
    for partition, offset in group.offsets.items():
        if partition.topic in rule.subscribed_topics or partition in pending:
            continue
        expire_ms = offset.expire_timestamp
        if expire_ms is None and retention_ms is not None:
            begin_ms = offset.commit_timestamp if rule.empty_since_ms is None else rule.empty_since_ms
            expire_ms = to_int64(begin_ms + retention_ms)
        if expire_ms is not None:
            expirations.append(Expiration(partition, offset.offset, expire_ms, offset.expire_timestamp is not None))
    return sorted(expirations, key=lambda expiration: (expiration.expire_ms, expiration.topic_partition))


def find_protected(group: AnyGroup, expirations: list[Expiration]) -> list[Expiration]:
    """Return the offsets with an expire timestamp that do not expire because the group has members.

    The others expire at their time if the group has no member then, and otherwise when the last member has left.
    """
    if not group.members:
        return []
    expiring = {expiration.topic_partition for expiration in expirations}
    protected = [
        Expiration(partition, offset.offset, offset.expire_timestamp, is_from_record=True)
        for partition, offset in group.offsets.items()
        if offset.expire_timestamp is not None and partition not in expiring
    ]
    return sorted(protected, key=lambda expiration: (expiration.expire_ms, expiration.topic_partition))
