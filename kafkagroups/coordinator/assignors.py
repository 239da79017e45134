"""The assignors of the broker. Clients that lead a classic group divide the partitions by the same `range`.

As in Kafka, static members come first, by instance id, then dynamic members, by member id.

- `range` divides each topic on its own: its subscribers get consecutive partitions, and the first ones get one more if
  it does not come out even.
- `uniform` keeps what members have. If all members have the same topics, each member keeps up to its share, and the
  rest goes to the members below their share. Otherwise the free partitions go to the subscribers with the fewest
  partitions, the most contested topics first; then, topic by topic, partitions move from the fullest to the emptiest
  subscriber, until no topic can be balanced better, or after 16 rounds.

Where they have equally good choices, the order of members and topics decides, that of Java's hash maps
(groups/map_orders.py). Simpler than Kafka: racks are ignored.
Source: AbstractPartitionAssignor.MemberInfo, RangeAssignor (3.9); RangeAssignor, UniformAssignor,
UniformHomogeneousAssignmentBuilder, UniformHeterogeneousAssignmentBuilder (4.3.1).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kafkagroups.coordinator.messages import Errors, Refusal
from kafkagroups.groups.map_orders import java_map_order, java_set_order, uuid_hash
from kafkagroups.records.wire import uuid_bytes


def java_sort_key(text: str) -> bytes:
    """Return a sort key that orders strings as Java does, by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def _member_sort_key(member_id: str, instance_id: str | None) -> tuple[bool, bytes]:
    return instance_id is None, java_sort_key(member_id if instance_id is None else instance_id)


def _divide(partition_count: int, reader_count: int) -> Iterator[range]:
    quota, remainder = divmod(partition_count, reader_count)
    for index in range(reader_count):
        start = quota * index + min(index, remainder)
        yield range(start, start + quota + (index < remainder))


_MAX_ROUNDS = 16
_NO_OWNER = -1

Target = dict[str, list[int]]
"""Partitions by topic id, or in clients by topic name."""


def add_partition(target: Target, topic_id: str, partition: int) -> Target:
    """A new topic comes first, as `HashMap.computeIfAbsent` puts it, because the order can matter for the next
    assignment.
    """
    if topic_id not in target:
        target = {topic_id: [], **target}
    target[topic_id].append(partition)
    return target


class _Assignment:
    """The owners of all partitions. A member is its index, because the first of equally full members is chosen."""

    def __init__(self, members: Mapping[str, TargetedMember], partition_counts: Mapping[str, int]) -> None:
        self.subscribers: dict[str, list[int]] = {}
        for index, member in enumerate(members.values()):
            for topic_id in member.topic_ids:
                self.subscribers.setdefault(topic_id, []).append(index)
        self.owners = {topic_id: [_NO_OWNER] * partition_counts[topic_id] for topic_id in self.subscribers}
        self.targets: list[Target] = []
        for index, member in enumerate(members.values()):
            kept = {
                topic_id: list(partitions)
                for topic_id, partitions in member.target.items()
                if topic_id in member.topic_ids
            }
            self.targets.append(kept)
            for topic_id, partitions in kept.items():
                if any(partition >= len(self.owners[topic_id]) for partition in partitions):
                    # The topic was created again with fewer partitions, and Kafka's array has no such index.
                    raise Refusal(Errors.UNKNOWN_SERVER_ERROR)
                for partition in partitions:
                    self.owners[topic_id][partition] = index
        self.sizes = [sum(map(len, target.values())) for target in self.targets]

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
        return sorted(self.subscribers[topic_id], key=lambda member: (self.sizes[member], member))

    def _balance_topic(self, topic_id: str) -> bool:
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
class TargetedMember:
    """A member as an assignor sees it: its subscribed topics that exist, and its present target."""

    instance_id: str | None
    topic_ids: tuple[str, ...]
    target: Target = field(default_factory=dict)


@dataclass(frozen=True)
class GroupToAssign:
    """`members` are in the order of Kafka's hash map. `assigned` are the partitions in the targets that the group has
    now.
    """

    members: Mapping[str, TargetedMember]
    partition_counts: Mapping[str, int]
    has_same_topics: bool
    assigned: frozenset[tuple[str, int]]


def assign_range(group: GroupToAssign) -> dict[str, Target]:
    """If all members count as readers of the same topics, the first member's topics are taken for all of them."""
    member_ids = sorted(group.members, key=lambda each: _member_sort_key(each, group.members[each].instance_id))
    topic_ids = {
        member_id: group.members[member_ids[0] if group.has_same_topics else member_id].topic_ids
        for member_id in member_ids
    }
    readers: dict[str, list[str]] = {}
    for member_id in member_ids:
        for topic_id in topic_ids[member_id]:
            readers.setdefault(topic_id, []).append(member_id)
    shares = {
        topic_id: dict(zip(ids, _divide(group.partition_counts[topic_id], len(ids)), strict=True))
        for topic_id, ids in readers.items()
    }
    return {
        member_id: {
            topic_id: list(shares[topic_id][member_id])
            for topic_id in topic_ids[member_id]
            if shares[topic_id][member_id]
        }
        for member_id in member_ids
    }


def assign_uniform(group: GroupToAssign) -> dict[str, Target]:
    members = {
        member_id: TargetedMember(member.instance_id, member.topic_ids, order_target(member.target))
        for member_id, member in group.members.items()
    }
    if not any(member.topic_ids for member in members.values()):
        return {}
    if group.has_same_topics:
        return _assign_same_topics(group, members)
    assignment = _Assignment(members, group.partition_counts)
    assignment.assign_free()
    assignment.balance()
    return dict(zip(members, assignment.targets, strict=True))


BROKER_ASSIGNORS: dict[str, Callable[[GroupToAssign], dict[str, Target]]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}


def order_target(target: Mapping[str, Iterable[int]]) -> Target:
    return {
        topic_id: java_set_order(list(target[topic_id]), lambda partition: partition)
        for topic_id in java_map_order(target, uuid_hash)
    }


def _assign_same_topics(group: GroupToAssign, members: Mapping[str, TargetedMember]) -> dict[str, Target]:
    topic_ids = java_set_order(next(iter(members.values())).topic_ids, uuid_hash)
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
    kept: Target = {}
    for topic_id, partitions in old_target.items():
        if topic_id not in topic_ids:
            continue
        free += [(topic_id, partition) for partition in partitions[room:]]
        if partitions[:room]:
            kept[topic_id] = partitions[:room]
        room -= len(partitions[:room])
    return kept, room
