"""The rules by which the offsets of a group expire, before and after KIP-211.

Up to 2.0 each offset has an expire timestamp. The offset expires after that time, in any group. Since 2.1 the state of
the group decides, and an offset expires when the broker's retention time (offsets.retention.minutes) has passed. The
column on the right tells when the retention begins:

    group                             offsets that expire
    Empty, with a protocol type       all offsets; the retention begins when the group became Empty. If an old group
                                      record does not contain that time, the retention begins at each commit
    Stable, protocol type "consumer"  since 2.4: the offsets of topics that no member subscribes to; the retention
                                      begins at each commit
    simple (no protocol type)         all offsets; the retention begins at each commit
    any other group                   no offset: the group rebalances, or has members and another protocol type, or has
                                      a subscription that cannot be read

An offset with its own expire timestamp (OffsetCommit v2 to v4 with a retention time) expires at that time.
An offset does not expire if the partition has a pending commit outside a transaction. If it has a pending commit in a
transaction, the offset expires (since 4.0 it does not).
Source: GroupMetadata.removeExpiredOffsets (3.9; tag 1.0.1); KIP-211.
"""

from __future__ import annotations

from kafkagroups.groups.classic_group import CONSUMER, ClassicGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.groups.states import ClassicState


def find_expired_offsets(group: ClassicGroup, now_ms: int, retention_ms: int) -> list[TopicPartition]:
    """Return the partitions whose offsets have expired at `now_ms`.

    `now_ms` is a time in ms since the epoch. `retention_ms` is the broker's offsets.retention.minutes, in ms.
    """
    before_kip_211 = group.kafka < (2, 1)
    subscribed: frozenset[str] = frozenset()
    empty_since = None
    if before_kip_211 or group.protocol_type is None:
        pass
    elif group.state is ClassicState.EMPTY:
        empty_since = group.state_timestamp
    elif group.state is ClassicState.STABLE and group.protocol_type == CONSUMER and can_read_subscriptions(group):
        subscribed = group.subscribed_topics or frozenset()
    else:
        return []

    def has_expired(offset: OffsetAndMetadata) -> bool:
        if offset.expire_timestamp is not None:
            return now_ms > offset.expire_timestamp if before_kip_211 else now_ms >= offset.expire_timestamp
        if before_kip_211:  # Every value of Kafka 1.x has an expire timestamp, so another version wrote this value.
            return now_ms > offset.commit_timestamp + retention_ms
        retention_begin = offset.commit_timestamp if empty_since is None else empty_since
        return now_ms - retention_begin >= retention_ms

    return [
        partition
        for partition, offset in group.offsets.committed.items()
        if partition.topic not in subscribed and partition not in group.offsets.pending and has_expired(offset)
    ]


def can_read_subscriptions(group: ClassicGroup) -> bool:
    """Return whether the coordinator can read the members' subscriptions. Before 2.4 it never reads them (KIP-496)."""
    return group.subscribed_topics is not None and group.kafka >= (2, 4)
