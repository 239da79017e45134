"""The rules that decide which offsets of a group expire, before and after KIP-211.

Up to 2.0 each offset has an expire timestamp, and it expires after that time in any group. Since 2.1 the group decides:

    group                             offsets that expire
    Empty, with a protocol type       all of them, when the retention has passed since the group became Empty. If an
                                      old group record does not contain that time, the retention begins at the commit
    Stable, protocol type "consumer"  those of topics without a subscription; the retention begins at the commit
    simple (no protocol type)         each one; the retention begins at its commit
    any other                         none: a group that rebalances, or a living group of another protocol type

An offset with its own expire timestamp (OffsetCommit v2 to v4 with a retention time) expires at that time.
An offset with an unfinished plain commit stays. A pending transactional commit does not keep it (in 4.x it does).
Source: GroupMetadata.removeExpiredOffsets (3.9; tag 1.0.1); KIP-211.
"""

from __future__ import annotations

from kafkagroups.groups.classic_group import CONSUMER, ClassicGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.groups.states import ClassicState


def find_expired_offsets(group: ClassicGroup, now_ms: int, retention_ms: int) -> list[TopicPartition]:
    """Return the partitions whose offsets have expired at `now_ms` (since the epoch) with this retention."""
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
        if before_kip_211:  # The value was written by another version: every 1.x value has an expire timestamp.
            return now_ms > offset.commit_timestamp + retention_ms
        retention_begin = offset.commit_timestamp if empty_since is None else empty_since
        return now_ms - retention_begin >= retention_ms

    return [
        partition
        for partition, offset in group.offsets.committed.items()
        if partition.topic not in subscribed and partition not in group.offsets.pending and has_expired(offset)
    ]


def can_read_subscriptions(group: ClassicGroup) -> bool:
    """Return whether the coordinator can read the members' subscriptions, which it does since 2.4 (KIP-496)."""
    return group.subscribed_topics is not None and group.kafka >= (2, 4)
