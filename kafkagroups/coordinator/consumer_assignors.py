"""The assignors that run in the broker: `range`, and `uniform` with its two algorithms.

An assignor gets the members with their topics and their present targets, and returns the new target of each member. If
it has several equally good choices, the order of the members and topics decides. In Kafka this is the order of Java's
hash maps, so this module computes with the same order (groups/map_orders.py).

- `range` divides each topic on its own. Members are sorted, static members first, and each gets consecutive partitions.
- `uniform` keeps what members have. If all members have the same topics, each member keeps up to its share, and the
  rest goes to the members below their share. Otherwise the free partitions go to the subscribers with the fewest
  partitions, the most contested topics first; then, topic by topic, partitions move from the fullest to the emptiest
  subscriber, until no topic can be balanced better, or after 16 rounds.

Source (4.3.1): RangeAssignor, UniformAssignor, UniformHomogeneousAssignmentBuilder,
UniformHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafkagroups.groups.map_orders import java_map_order, java_set_order, uuid_hash
from kafkagroups.records.wire import uuid_bytes

_MAX_ROUNDS = 16
_NO_OWNER = -1

Target = dict[str, list[int]]
"""Partitions by topic id."""


def add_partition(target: Target, topic_id: str, partition: int) -> Target:
    """Return the target with one partition more. A new topic comes first, as `HashMap.computeIfAbsent` puts it.

    The order matters for the next assignment, if two topics are in one bucket of Java's map.
    """
    if topic_id not in target:
        target = {topic_id: [], **target}
    target[topic_id].append(partition)
    return target


def assign_different_topics(
    topic_ids_by_member: Mapping[str, Sequence[str]],
    targets: Mapping[str, Target],
    partition_counts: Mapping[str, int],
) -> dict[str, Target]:
    """Return the new targets by member id. Members are in the order of Kafka's hash map, topic ids by member, too."""
    assignment = _Assignment(topic_ids_by_member, targets, partition_counts)
    assignment.assign_free()
    assignment.balance()
    return dict(zip(assignment.member_ids, assignment.targets, strict=True))


class _Assignment:
    """The owners of all partitions. A member is its index, because the first of equally full members is chosen."""

    def __init__(
        self,
        topic_ids_by_member: Mapping[str, Sequence[str]],
        targets: Mapping[str, Target],
        partition_counts: Mapping[str, int],
    ) -> None:
        self.member_ids = list(topic_ids_by_member)
        self.subscribers: dict[str, list[int]] = {}
        for index, member_id in enumerate(self.member_ids):
            for topic_id in topic_ids_by_member[member_id]:
                self.subscribers.setdefault(topic_id, []).append(index)
        self.owners = {topic_id: [_NO_OWNER] * partition_counts[topic_id] for topic_id in self.subscribers}
        self.sizes = [0] * len(self.member_ids)
        self.targets: list[Target] = []
        for index, member_id in enumerate(self.member_ids):
            kept = {
                topic_id: list(partitions)
                for topic_id, partitions in targets[member_id].items()
                if topic_id in topic_ids_by_member[member_id]
            }
            self.targets.append(kept)
            for topic_id, partitions in kept.items():
                self.sizes[index] += len(partitions)
                for partition in partitions:
                    self.owners[topic_id][partition] = index

    def assign_free(self) -> None:
        for topic_id in self._contested_first():
            members = self._by_size(topic_id)
            for partition, owner in enumerate(self.owners[topic_id]):
                if owner == _NO_OWNER:
                    self._give(topic_id, partition, min(members, key=self.sizes.__getitem__))

    def balance(self) -> None:
        topic_ids = [topic_id for topic_id in self._contested_first() if len(self.subscribers[topic_id]) >= 2]
        last_changed: str | None = None
        for _ in range(_MAX_ROUNDS):
            for topic_id in topic_ids:
                if topic_id == last_changed:
                    return
                if self._balance_topic(topic_id) or last_changed is None:
                    last_changed = topic_id

    def _contested_first(self) -> list[str]:
        """Return the topics by the partitions for each subscriber (most first), the subscribers, and the id."""

        def sort_key(topic_id: str) -> tuple[float, int, tuple[int, ...]]:
            count = len(self.subscribers[topic_id])
            return -len(self.owners[topic_id]) / count, count, struct.unpack(">qq", uuid_bytes(topic_id))

        return sorted(self.subscribers, key=sort_key)

    def _by_size(self, topic_id: str) -> list[int]:
        """Return the subscribers of a topic by their present size. The first of equally full members is chosen."""
        return sorted(self.subscribers[topic_id], key=lambda member: (self.sizes[member], member))

    def _balance_topic(self, topic_id: str) -> bool:
        """Move partitions of a topic from the fullest to the emptiest member. Return whether one moved."""
        takers = self._by_size(topic_id)
        givers = list(takers)
        movable: dict[int, list[int]] = {}
        for partition, owner in enumerate(self.owners[topic_id]):
            movable.setdefault(owner, []).append(partition)
        has_moved = False
        while givers:
            # Of equally full members, the last gives first.
            index = max(range(len(givers)), key=lambda each: (self.sizes[givers[each]], each))
            giver = givers[index]
            if not movable.get(giver):
                givers[index] = givers[-1]
                givers.pop()
                continue
            taker = min(takers, key=self.sizes.__getitem__)
            if self.sizes[giver] - self.sizes[taker] <= 1:
                break
            self._give(topic_id, movable[giver].pop(), taker)
            has_moved = True
        return has_moved

    def _give(self, topic_id: str, partition: int, member: int) -> None:
        owner = self.owners[topic_id][partition]
        if owner != _NO_OWNER:
            self.sizes[owner] -= 1
            self.targets[owner][topic_id].remove(partition)
            if not self.targets[owner][topic_id]:
                del self.targets[owner][topic_id]
        self.targets[member] = add_partition(self.targets[member], topic_id, partition)
        self.owners[topic_id][partition] = member
        self.sizes[member] += 1


@dataclass(frozen=True)
class Subscriber:
    """A member as an assignor sees it. `topic_ids` are the subscribed topics that exist. `target` is what it has."""

    instance_id: str | None
    topic_ids: tuple[str, ...]
    target: Target = field(default_factory=dict)


@dataclass(frozen=True)
class GroupToAssign:
    """What an assignor knows.

    `members` are in the order of Kafka's hash map. `partition_counts` has each topic id. `has_same_topics` says whether
    all members subscribe to the same topics. `assigned` are the partitions in the targets that the group has now.
    """

    members: Mapping[str, Subscriber]
    partition_counts: Mapping[str, int]
    has_same_topics: bool
    assigned: frozenset[tuple[str, int]]


def assign_range(group: GroupToAssign) -> dict[str, Target]:
    """Return the targets that the assignor `range` computes, by member id."""

    def sort_key(member_id: str) -> tuple[bool, bytes]:
        instance_id = group.members[member_id].instance_id
        text = member_id if instance_id is None else instance_id
        return instance_id is None, text.encode("utf-16-be", "surrogatepass")

    member_ids = sorted(group.members, key=sort_key)
    subscriber_counts: dict[str, int] = {}
    for member_id in member_ids:
        for topic_id in group.members[member_id].topic_ids:
            subscriber_counts[topic_id] = subscriber_counts.get(topic_id, 0) + 1
    given = dict.fromkeys(subscriber_counts, 0)
    next_partitions = dict.fromkeys(subscriber_counts, 0)
    targets: dict[str, Target] = {}
    for member_id in member_ids:
        targets[member_id] = {}
        for topic_id in group.members[member_id].topic_ids:
            quota, extra = divmod(group.partition_counts[topic_id], subscriber_counts[topic_id])
            count = quota + (given[topic_id] < extra)
            start = next_partitions[topic_id]
            if count:
                targets[member_id][topic_id] = list(range(start, start + count))
            given[topic_id] += 1
            next_partitions[topic_id] = start + count
    return targets


def assign_uniform(group: GroupToAssign) -> dict[str, Target]:
    """Return the targets that the assignor `uniform` computes, by member id."""
    members = {
        member_id: Subscriber(member.instance_id, member.topic_ids, order_target(member.target))
        for member_id, member in group.members.items()
    }
    if not any(member.topic_ids for member in members.values()):
        return {}
    if group.has_same_topics:
        return _assign_same_topics(group, members)
    return assign_different_topics(
        {member_id: member.topic_ids for member_id, member in members.items()},
        {member_id: member.target for member_id, member in members.items()},
        group.partition_counts,
    )


ASSIGNORS: dict[str, Callable[[GroupToAssign], dict[str, Target]]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}


def order_target(target: Mapping[str, Iterable[int]]) -> Target:
    """Return the target with topics and partitions in the order of Java's hash maps."""
    return {
        topic_id: java_set_order(list(target[topic_id]), lambda partition: partition)
        for topic_id in java_map_order(target, uuid_hash)
    }


def _assign_same_topics(group: GroupToAssign, members: Mapping[str, Subscriber]) -> dict[str, Target]:
    first_member = next(iter(members.values()))
    topic_ids = java_set_order(first_member.topic_ids, uuid_hash)
    free = [
        (topic_id, partition)
        for topic_id in topic_ids
        for partition in range(group.partition_counts[topic_id])
        if (topic_id, partition) not in group.assigned
    ]
    quota, extra_count = divmod(sum(group.partition_counts[topic_id] for topic_id in topic_ids), len(members))
    targets: dict[str, Target] = {}
    missing: dict[str, int] = {}
    for index, (member_id, member) in enumerate(members.items()):
        has_extra = extra_count > 0
        target, room = _keep_up_to(quota + has_extra, member.target, topic_ids, free)
        if room and has_extra and len(members) - index > extra_count:
            # A later member may use the extra partition without a move.
            room -= 1
            has_extra = False
        extra_count -= has_extra
        targets[member_id] = target
        if room:
            missing[member_id] = room
    remaining = iter(free)
    for member_id, room in missing.items():
        for _, (topic_id, partition) in zip(range(room), remaining, strict=False):
            targets[member_id] = add_partition(targets[member_id], topic_id, partition)
    return targets


def _keep_up_to(
    room: int, old_target: Target, topic_ids: Iterable[str], free: list[tuple[str, int]]
) -> tuple[Target, int]:
    """Return at most `room` partitions of a member's target, and how much room is left. Add the others to `free`."""
    kept: Target = {}
    for topic_id, partitions in old_target.items():
        if topic_id not in topic_ids:
            continue
        free += [(topic_id, partition) for partition in partitions[room:]]
        if partitions[:room]:
            kept[topic_id] = partitions[:room]
        room -= len(partitions[:room])
    return kept, room
