"""Which offsets of a group are due to be deleted, before and after KIP-211.

Up to 2.0 each offset has its own time: it expires when its expire timestamp lies in the past, whoever uses it.
Since 2.1 it depends on the group:

    Empty, of some protocol type      all, when the retention has passed since the group became Empty (or since the
                                      commit, where an old group record does not tell when that was)
    Stable, "consumer"                those of topics that nobody subscribes to, the retention counts from the commit
    simple (no protocol type)         each, from its commit
    everything else                   none: not while it rebalances, not of a living group of another type

An offset with an expire timestamp of its own (OffsetCommit v2 to v4 with a retention time) goes by that. An offset with
a plain commit on its way stays; a pending transactional one does not keep it (4.x: it does).
Source: GroupMetadata.removeExpiredOffsets (3.9; tag 1.0.1); KIP-211.
"""

from __future__ import annotations

from kafkagroups.groups.classic_group import CONSUMER, ClassicGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.groups.states import ClassicState


def expired_offsets(group: ClassicGroup, now_ms: int, retention_ms: int) -> list[TopicPartition]:
    """The partitions whose offsets expire at `now_ms` (ms since the epoch) under a retention of `retention_ms`."""
    before_kip_211 = group.kafka < (2, 1)
    subscribed: frozenset[str] = frozenset()
    since_empty = None
    if before_kip_211 or group.protocol_type is None:
        pass
    elif group.state is ClassicState.EMPTY:
        since_empty = group.state_timestamp
    elif group.state is ClassicState.STABLE and group.protocol_type == CONSUMER and knows_topics(group):
        subscribed = group.subscribed_topics or frozenset()
    else:
        return []

    def is_due(offset: OffsetAndMetadata) -> bool:
        if offset.expire_timestamp is not None:
            return now_ms > offset.expire_timestamp if before_kip_211 else now_ms >= offset.expire_timestamp
        if before_kip_211:  # loaded from a value that no 1.x writes
            return now_ms > offset.commit_timestamp + retention_ms
        return now_ms - (offset.commit_timestamp if since_empty is None else since_empty) >= retention_ms

    return [
        partition
        for partition, offset in group.offsets.committed.items()
        if partition.topic not in subscribed and partition not in group.offsets.pending and is_due(offset)
    ]


def knows_topics(group: ClassicGroup) -> bool:
    """Whether the coordinator knows what the group's members subscribe to; it looks since 2.4 (KIP-496)."""
    return group.subscribed_topics is not None and group.kafka >= (2, 4)
