"""The assignor `uniform` for members with different topics.

Each member keeps its partitions of topics that it still has. Then the free partitions go to the subscribers with the
fewest partitions, the most contested topics first. At last, topic by topic, partitions move from the fullest to the
emptiest subscriber of the topic, until no topic can be balanced better, or after 16 rounds.
Source: UniformHeterogeneousAssignmentBuilder (4.3.1).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from kafkagroups.records.text import uuid_bytes

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
