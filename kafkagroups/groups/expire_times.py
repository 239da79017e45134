"""When the offsets of a loaded group expire, by the rules of groups/expiration.py.

An offset with an expire timestamp expires at this time. Other offsets expire when the retention time of the broker has
passed (offsets.retention.minutes), which is not in the log. An offset does not expire at all while the group's rule
protects it, for example because a member subscribes to its topic. That can change at any time.

The new coordinator has the same rules for classic groups. Offsets of consumer and streams groups expire only if no
member subscribes to the topic, and their time counts from the commit. The new coordinator does not expire an offset
while a transaction has a pending commit of the same topic-partition.
Source: OffsetMetadataManager.cleanupExpiredOffsets, ClassicGroup, ConsumerGroup and StreamsGroup (4.3.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkagroups.groups.classic_group import CONSUMER
from kafkagroups.groups.expiration import FIRST_WITH_KIP_211, Rule, find_rule
from kafkagroups.groups.group import Group
from kafkagroups.groups.member import read_subscribed_topics
from kafkagroups.groups.modern_group import AnyGroup, ModernGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.log.frames import to_int64
from kafkagroups.records.dialects import Dialect


class Expiration(NamedTuple):
    """An offset that expires.

    `expire_ms` is the time in ms since the epoch. `is_from_record` says whether the record contains this time. If not,
    the retention time decides it.
    """

    topic_partition: TopicPartition
    offset: int
    expire_ms: int
    is_from_record: bool


def find_expirations(
    group: AnyGroup,
    dialect: Dialect,
    retention_ms: int | None = None,
    subscribes: Callable[[str], bool] | None = None,
) -> list[Expiration]:
    """Return the offsets of a loaded group that expire, in the order of their times.

    `retention_ms` is the retention time of the broker in ms. None: only offsets with an expire timestamp are returned.
    `subscribes` says whether a member of a consumer or streams group subscribes to a topic; None: the topic names in
    the members' subscriptions decide.
    """
    is_new = dialect.coordinator == "new"
    is_before_kip_211 = not is_new and dialect.version < FIRST_WITH_KIP_211
    rule: Rule | None = Rule(frozenset(), None)
    if isinstance(group, Group):
        rule = find_rule(
            (4,) if is_new else dialect.version,
            group.state,
            group.protocol_type or None,
            group.current_state_timestamp,
            _find_subscribed_topics(group),
        )
    if rule is None:
        return []
    pending = {partition for offsets in group.pending.values() for partition in offsets} if is_new else set()
    expirations = []
    for partition, offset in group.offsets.items():
        if partition.topic in rule.subscribed_topics or partition in pending:
            continue
        if isinstance(group, ModernGroup) and (subscribes or _subscription_of(group))(partition.topic):
            continue
        expire_ms = _find_expire_time(offset, None if is_before_kip_211 else rule.empty_since_ms, retention_ms)
        if expire_ms is not None:
            expirations.append(Expiration(partition, offset.offset, expire_ms, offset.expire_timestamp is not None))
    return sorted(expirations, key=lambda expiration: (expiration.expire_ms, expiration.topic_partition))


def find_protected(group: AnyGroup, expirations: list[Expiration]) -> list[Expiration]:
    """Return the offsets with an expire timestamp that do not expire because the group has members.

    `expirations` are the offsets that expire (`find_expirations`). The others expire at their time if the group has no
    member then, and otherwise when the last member has left. The result is in the order of the times.
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


def _find_expire_time(offset: OffsetAndMetadata, empty_since_ms: int | None, retention_ms: int | None) -> int | None:
    if offset.expire_timestamp is not None:
        return offset.expire_timestamp
    if retention_ms is None:
        return None
    return to_int64((offset.commit_timestamp if empty_since_ms is None else empty_since_ms) + retention_ms)


def _find_subscribed_topics(group: Group) -> frozenset[str] | None:
    """Return the topics in the members' subscriptions; None if the coordinator cannot read them."""
    if group.protocol_type != CONSUMER:
        return None
    if not group.members:
        return frozenset()
    if group.protocol is None:
        return None
    return read_subscribed_topics(member.subscription_bytes for member in group.members.values())


def _subscription_of(group: ModernGroup) -> Callable[[str], bool]:
    topics = {
        topic for member in group.members.values() for topic in getattr(member.metadata, "subscribed_topic_names", ())
    }
    return topics.__contains__
