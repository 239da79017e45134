"""The topics of the cluster as a coordinator sees them, the subscriptions and patterns of a consumer group, and its
targets.

A consumer group stores a hash of the topics that its members subscribe to. If that of the present topics differs, a
topic was created, deleted or expanded, and the group needs new targets.

Simpler than Kafka: brokers have no racks, so the hash contains none. A version of the topics is only their number.
Source (4.3.1): GroupMetadataManager.updateSubscriptionMetadata and maybeUpdateTargetAssignment, ConsumerGroup,
TargetAssignmentBuilder, CoordinatorMetadataImage, Utils.computeTopicHash and computeGroupHash; hash4j.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from xxhash import xxh3_64_digest

from kafkagroups.coordinator import group_store
from kafkagroups.coordinator.assignors import BROKER_ASSIGNORS, GroupToAssign, TargetedMember, java_sort_key
from kafkagroups.coordinator.clock import SHORTEST_DELAY_MS
from kafkagroups.coordinator.consumer_members import ConsumerMember, Partitions, find_static_member, read_members
from kafkagroups.coordinator.group_store import GroupStore, Result
from kafkagroups.coordinator.messages import Errors, Refusal
from kafkagroups.groups.group import CONSUMER
from kafkagroups.groups.map_orders import java_map_order, java_set_order
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.topic_patterns import compile_pattern, find_matches
from kafkagroups.records.consumer_group import ConsumerGroupRegularExpressionValue
from kafkagroups.records.serde import Record
from kafkagroups.records.wire import utf16_length, uuid_bytes

MIN_REFRESH_INTERVAL_MS = 10_000
"""The patterns of a group are resolved at most this often."""


@dataclass
class PatternResolver:
    """Resolves the patterns of all consumer groups.

    A pattern is resolved after the heartbeat that brings it, as a write of its own. Later heartbeats resolve all
    patterns of the group again if a topic was created, or after a time, but at most every ten seconds.
    Source: GroupMetadataManager.maybeUpdateRegularExpressions and handleRegularExpressionsResult (4.3.1).
    """

    store: GroupStore
    image: TopicImage
    refresh_interval_ms: int
    note_topics: Callable[[str, int], None]
    _resolving: set[str] = field(default_factory=set)
    _topic_ids_by_group: dict[str, frozenset[str]] = field(default_factory=dict)

    def forget(self, group_id: str) -> None:
        self._topic_ids_by_group.pop(group_id, None)

    def change(self, group: ModernGroup, before: ConsumerMember, after: ConsumerMember, records: list[Record]) -> bool:
        """Write the tombstone of a pattern that a member gave up. Return whether the new topics are known."""
        members = read_members(group)
        if before.regex is not None and count_subscribers(members, before.regex) == 1:
            records.append(group_store.pattern_record(group.group_id, before.regex, None))
        if after.regex is None:
            return before.regex is not None
        if count_subscribers(members, after.regex) == 0:
            check_pattern(after.regex)
            return False
        return after.regex in group.resolved

    def maybe_resolve(self, group: ModernGroup, before: ConsumerMember, after: ConsumerMember) -> None:
        members = read_members(group)
        is_new = after.regex not in (None, before.regex) and count_subscribers(members, after.regex) == 0
        if not is_new and not any(member.regex for member in members.values()):
            return
        now_ms = self.store.clock.now_ms
        last_ms = next((value.timestamp for value in group.resolved.values()), None)
        waits = last_ms is not None and now_ms <= last_ms + MIN_REFRESH_INTERVAL_MS
        if group.group_id in self._resolving or waits:
            return
        following = change_subscriptions(group, before, after).members
        patterns = {member.regex for member in following if member.regex is not None}
        has_new_topic = not self._topic_ids_by_group.get(group.group_id, frozenset()).issuperset(self._topic_ids())
        is_old = last_ms is None or now_ms > last_ms + self.refresh_interval_ms
        if patterns and (is_new or len(patterns) != len(group.resolved) or has_new_topic or is_old):
            self._resolving.add(group.group_id)
            ordered = java_map_order(sorted(patterns), capacity=len(patterns))
            version = len(self.image.partition_counts)
            resolved = {
                pattern: ConsumerGroupRegularExpressionValue(
                    find_matches(pattern, self.image.partition_counts), version, now_ms
                )
                for pattern in ordered
            }
            store = partial(self._store, group.group_id, resolved, self._topic_ids())
            self.store.clock.after(SHORTEST_DELAY_MS, store)

    def _store(self, group_id: str, resolved: Resolved, topic_ids: frozenset[str]) -> None:
        def store() -> Result[None]:
            group = self.store.find_modern_group(group_id)
            if group is None or group.type != CONSUMER:
                return Result(None)
            self._topic_ids_by_group[group_id] = topic_ids
            return Result(None, self._build_records(group, resolved))

        def resolve_again(error: Errors, message: str | None) -> None:
            self.forget(group_id)

        self._resolving.discard(group_id)
        self.store.write(group_id, store, resolve_again)

    def _build_records(self, group: ModernGroup, resolved: Resolved) -> list[Record]:
        members = read_members(group)
        stored = {pattern: value for pattern, value in resolved.items() if count_subscribers(members, pattern)}
        records = [group_store.pattern_record(group.group_id, pattern, value) for pattern, value in stored.items()]
        has_changed = any(
            set(value.topics) != set(group.resolved[pattern].topics if pattern in group.resolved else ())
            for pattern, value in stored.items()
        )
        following = Subscriptions(members.values(), {**group.resolved, **stored})
        metadata_hash = self.image.hash_of(following.topic_names())
        if has_changed or metadata_hash != group.metadata_hash:
            records.append(group_store.epoch_record(group.group_id, group.group_epoch + 1, metadata_hash))
            self.note_topics(group.group_id, group.group_epoch + 1)
        return records

    def _topic_ids(self) -> frozenset[str]:
        return frozenset(self.image.names_by_id())


def check_pattern(pattern: str) -> None:
    try:
        compile_pattern(pattern)
    except ValueError as error:
        raise Refusal(
            Errors.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
        ) from None


class TopicImage:
    """The topics that exist, by name; the caller changes them."""

    def __init__(self, partition_counts: Mapping[str, int], ids: Mapping[str, str]) -> None:
        self.partition_counts = partition_counts
        self.ids = ids

    def id_of(self, name: str) -> str | None:
        return self.ids.get(name) if name in self.partition_counts else None

    def ids_of(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(topic_id for name in names if (topic_id := self.id_of(name)) is not None)

    def names_by_id(self) -> dict[str, str]:
        return {self.ids[name]: name for name in self.partition_counts if name in self.ids}

    def snapshot(self) -> dict[str, tuple[str, int]]:
        return {name: (self.ids[name], count) for name, count in self.partition_counts.items() if name in self.ids}

    def hash_of(self, names: Iterable[str]) -> int:
        """Return the hash of those topics that exist; 0 if there are none."""
        hashes = [self._hash_topic(name) for name in sorted(names, key=java_sort_key) if self.id_of(name) is not None]
        return _hash(b"".join(struct.pack("<q", each) for each in hashes)) if hashes else 0

    def _hash_topic(self, name: str) -> int:
        high, low = struct.unpack(">QQ", uuid_bytes(self.ids[name]))
        count = self.partition_counts[name]
        return _hash(
            b"\0"  # the version of this layout
            + struct.pack("<QQ", high, low)
            + name.encode("utf-16-le", "surrogatepass")
            + struct.pack(f"<{count + 2}i", utf16_length(name), count, *range(count))
        )


def _hash(data: bytes) -> int:
    return int.from_bytes(xxh3_64_digest(data), signed=True)


Resolved = Mapping[str, ConsumerGroupRegularExpressionValue]


@dataclass(frozen=True)
class Subscriptions:
    members: Collection[ConsumerMember]
    resolved: Resolved

    def topic_names(self) -> set[str]:
        by_name = {name for member in self.members for name in member.metadata.subscribed_topic_names}
        return by_name.union(*(value.topics for value in self.resolved.values()))

    def are_equal(self) -> bool:
        """Return whether all members have the same names and no pattern, or the same single pattern and no names."""
        names = Counter(name for member in self.members for name in member.metadata.subscribed_topic_names)
        patterns = Counter(member.regex for member in self.members if member.regex)
        if not patterns:
            return all(names[topic] == len(self.members) for topic in self.topic_names())
        if list(patterns.values()) != [len(self.members)]:
            return False
        by_pattern = Counter(topic for value in self.resolved.values() for topic in value.topics)
        return not names and all(count == 1 for count in by_pattern.values())


def change_subscriptions(group: ModernGroup, before: ConsumerMember, after: ConsumerMember) -> Subscriptions:
    members = read_members(group)
    is_only_subscriber = count_subscribers(members, before.regex) == 1
    given_up = before.regex if is_only_subscriber and before.regex != after.regex else None
    resolved = {pattern: value for pattern, value in group.resolved.items() if pattern != given_up}
    replaced = find_static_member(group, after.metadata.instance_id)
    if replaced is not None:
        members.pop(replaced.member_id, None)
    members[after.member_id] = after
    return Subscriptions(members.values(), resolved)


def count_subscribers(members: Mapping[str, ConsumerMember], pattern: str | None) -> int:
    return sum(member.regex == pattern for member in members.values())


def find_topic_names(member: ConsumerMember, resolved: Resolved) -> list[str]:
    """Return the topics of a member. A pattern that is not resolved yet has none."""
    names = java_set_order(member.metadata.subscribed_topic_names)
    value = resolved.get(member.regex or "")
    return names if value is None else list(dict.fromkeys([*names, *java_set_order(value.topics)]))


def find_assignor(group: ModernGroup, default: str) -> str:
    votes = group.assignor_votes
    return max(votes, key=votes.__getitem__, default=default)


def choose_assignor(group: ModernGroup, before: ConsumerMember, after: ConsumerMember, default: str) -> str:
    """Return the assignor with the most votes after a member changed. With a tie, the order of Java's map decides.

    Kafka copies the votes into a small map, and takes out and puts back the member's, which comes first in its bucket.
    """
    votes = group.assignor_votes
    capacity = len(votes) * 4 // 3 + 1
    for name, change in ((before.metadata.server_assignor, -1), (after.metadata.server_assignor, 1)):
        if name is not None:
            votes = {name: 0, **votes} if name not in votes else votes
            votes[name] += change
            if not votes[name]:
                del votes[name]
    return max(java_map_order(votes, capacity=capacity), key=votes.__getitem__, default=default)


def compute_targets(
    group: ModernGroup, image: TopicImage, member: ConsumerMember, assignor: str, *, has_same_topics: bool
) -> dict[str, dict[str, list[int]]]:
    """Return the new target of each member, in the order of Kafka's map. `member` joined or changed."""
    members = read_members(group)
    replaced = find_static_member(group, member.metadata.instance_id)
    owner_id = member.member_id if replaced is None else replaced.member_id
    member_ids = [
        member_id for member_id in group.ordered_member_ids() if member_id != owner_id or member_id == member.member_id
    ]
    members[member.member_id] = member
    subscribers = {}
    for member_id in java_map_order([*member_ids, member.member_id]):
        names = find_topic_names(members[member_id], group.resolved)
        target_id = owner_id if member_id == member.member_id else member_id
        instance_id = members[member_id].metadata.instance_id
        subscribers[member_id] = TargetedMember(instance_id, image.ids_of(names), find_target(group, target_id))
    assigned = frozenset(
        (topic.topic_id, partition)
        for target in group.targets.values()
        for topic in target.topic_partitions
        for partition in topic.partitions
    )
    counts = {topic_id: image.partition_counts[name] for topic_id, name in image.names_by_id().items()}
    targets = BROKER_ASSIGNORS[assignor](GroupToAssign(subscribers, counts, has_same_topics, assigned))
    return {member_id: targets.get(member_id, {}) for member_id in subscribers}


def find_target(group: ModernGroup, member_id: str) -> dict[str, list[int]]:
    value = group.targets.get(member_id)
    return {} if value is None else {topic.topic_id: list(topic.partitions) for topic in value.topic_partitions}


def target_records(group: ModernGroup, targets: Mapping[str, Partitions], epoch: int, now_ms: int) -> Iterable[Record]:
    """Return the records of new targets: one for each member whose target changed, then the epoch's."""
    for member_id, target in targets.items():
        if member_id not in group.targets or _as_sets(find_target(group, member_id)) != _as_sets(target):
            yield group_store.target_record(group.group_id, member_id, target)
    yield group_store.assignment_epoch_record(group.group_id, epoch, now_ms)


def _as_sets(target: Partitions) -> dict[str, set[int]]:
    return {topic_id: set(partitions) for topic_id, partitions in target.items()}
