"""The assignors of Kafka's clients, which the leader of a group runs.

    range       Each topic is assigned separately: each member that subscribes to the topic gets consecutive
                partitions. If the partitions cannot be divided evenly, the first members get one partition more.
    roundrobin  The partitions of all topics are assigned one by one, in the order of topic and number. Each partition
                goes to the next member. A member that does not subscribe to the partition's topic is skipped.
    sticky      The assignment is as even as possible, and a member keeps as many of its partitions as possible.

The members are ordered as in Kafka: first static members by instance id, then dynamic members by member id.
`range_assignor` and `round_robin_assignor` return the same assignment as Kafka. `sticky_assignor` returns an assignment
that is as even as Kafka's. If several assignments are equally even, Kafka may choose another assignment.
Simpler than Kafka: Kafka's range and sticky assignors prefer a member in the rack of a partition's replica. Here racks
are ignored. The result is the same if no consumer has a rack (client.rack).
Source: RangeAssignor, RoundRobinAssignor, AbstractPartitionAssignor.MemberInfo, AbstractStickyAssignor (all in 3.9).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import cycle

from kafkagroups.groups.offsets import TopicPartition


@dataclass(frozen=True)
class Subscriber:
    """A member as the leader receives it. `topics` are the topics to which the member subscribes.

    `owned` are the partitions that the member had before the rebalance. Only `sticky_assignor` reads them.
    """

    member_id: str
    topics: Collection[str]
    group_instance_id: str | None = None
    owned: Collection[TopicPartition] = ()


Assignments = dict[str, list[TopicPartition]]
Assignor = Callable[[Iterable[Subscriber], Mapping[str, int]], Assignments]
"""A function (members, partition count of each topic) -> (partitions by member id)."""


def range_assignor(members: Iterable[Subscriber], topics: Mapping[str, int]) -> Assignments:
    """Assign consecutive partitions of each topic to each reader, i.e. each member that subscribes to the topic.

    `topics` has the partition count of each topic.
    """
    ordered_members = _order_members(members)
    assigned: Assignments = {member.member_id: [] for member in ordered_members}
    for topic in sorted(topics, key=_java_sort_key):
        readers = [member.member_id for member in ordered_members if topic in member.topics]
        for index, reader in enumerate(readers):
            quota, remainder = divmod(topics[topic], len(readers))
            # The first `remainder` readers get one partition more than the quota.
            count = quota + 1 if index < remainder else quota
            start = quota * index + min(index, remainder)
            assigned[reader] += [TopicPartition(topic, number) for number in range(start, start + count)]
    return assigned


def round_robin_assignor(members: Iterable[Subscriber], topics: Mapping[str, int]) -> Assignments:
    """Assign each partition to the next member that subscribes. `topics` has the partition count of each topic."""
    ordered_members = _order_members(members)
    assigned: Assignments = {member.member_id: [] for member in ordered_members}
    turns = cycle(ordered_members)
    for partition in _list_subscribed_partitions(ordered_members, topics):
        reader = next(member for member in turns if partition.topic in member.topics)
        assigned[reader.member_id].append(partition)
    return assigned


def sticky_assignor(members: Iterable[Subscriber], topics: Mapping[str, int]) -> Assignments:
    """Assign the partitions evenly, and let members keep the partitions that they own.

    `topics` has the partition count of each topic. The readers of a partition are the ids of the members that subscribe
    to the partition's topic. In the result, no reader has at least two partitions fewer than the partition's owner. If
    two members claim to own a partition, the first member keeps the partition.
    """
    ordered_members = _order_members(members)
    assigned: Assignments = {member.member_id: [] for member in ordered_members}
    readers_by_partition = {
        partition: [member.member_id for member in ordered_members if partition.topic in member.topics]
        for partition in _list_subscribed_partitions(ordered_members, topics)
    }
    owner_of: dict[TopicPartition, str] = {}
    for member in ordered_members:
        for partition in member.owned:
            if member.member_id in readers_by_partition.get(partition, ()):
                owner_of.setdefault(partition, member.member_id)

    def find_least_loaded_reader(partition: TopicPartition) -> str:
        """Return the id of the member with the fewest partitions, among the readers of the partition's topic."""
        return min(readers_by_partition[partition], key=lambda reader: len(assigned[reader]))

    for partition in readers_by_partition:
        if partition in owner_of:
            assigned[owner_of[partition]].append(partition)
    for partition in readers_by_partition:
        if partition not in owner_of:
            owner_of[partition] = find_least_loaded_reader(partition)
            assigned[owner_of[partition]].append(partition)
    while True:
        # The gain of a move: the old owner's number of partitions minus the new owner's. A move makes the result more
        # even only if the gain is 2 or more. The move with the largest gain comes first.
        gains = {
            partition: len(assigned[owner_of[partition]]) - len(assigned[find_least_loaded_reader(partition)])
            for partition in readers_by_partition
        }
        moved = max(gains, key=lambda partition: (gains[partition], len(assigned[owner_of[partition]])), default=None)
        if moved is None or gains[moved] < 2:
            break
        new_owner = find_least_loaded_reader(moved)
        assigned[owner_of[moved]].remove(moved)
        assigned[new_owner].append(moved)
        owner_of[moved] = new_owner
    return {member_id: sorted(partitions, key=_partition_sort_key) for member_id, partitions in assigned.items()}


ASSIGNORS: dict[str, Assignor] = {
    "range": range_assignor,
    "roundrobin": round_robin_assignor,
    "sticky": sticky_assignor,
}
"""The assignors by name. The members of a group send these names in JoinGroup."""


def _order_members(members: Iterable[Subscriber]) -> list[Subscriber]:
    def sort_key(member: Subscriber) -> tuple[bool, bytes]:
        instance_id = member.group_instance_id
        return instance_id is None, _java_sort_key(member.member_id if instance_id is None else instance_id)

    return sorted(members, key=sort_key)


def _list_subscribed_partitions(members: Iterable[Subscriber], topics: Mapping[str, int]) -> list[TopicPartition]:
    subscribed = {topic for member in members for topic in member.topics if topic in topics}
    return [
        TopicPartition(topic, number)
        for topic in sorted(subscribed, key=_java_sort_key)
        for number in range(topics[topic])
    ]


def _partition_sort_key(partition: TopicPartition) -> tuple[bytes, int]:
    return _java_sort_key(partition.topic), partition.partition


def _java_sort_key(text: str) -> bytes:
    """Return a sort key that orders strings as Java does, by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")
