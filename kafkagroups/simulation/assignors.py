"""The assignors of Kafka's clients, which the leader of a group runs.

    range       Each topic is assigned separately: the members that subscribe to it get consecutive partitions. If the
                partitions cannot be divided evenly, the first members get one partition more.
    roundrobin  All partitions are assigned to the members in turn, in the order of topic and number. Members that do
                not subscribe to the topic of a partition are skipped.
    sticky      The assignment is as even as possible, and a member keeps as many of its partitions as possible.

The members are ordered as in Kafka: first static members by instance id, then dynamic members by member id.
`range_assignor` and `round_robin_assignor` return the same assignment as Kafka. The assignment of `sticky_assignor` is
as even as the assignment of Kafka, but if several assignments are equally good, the two may differ.
Simpler than Kafka: the racks of brokers and clients have no influence.
Source: RangeAssignor.java, RoundRobinAssignor.java, AbstractPartitionAssignor.MemberInfo, AbstractStickyAssignor.java,
all of 3.9.
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
"""A function that returns the partitions by member id. Its arguments: the members, and each topic's partition count."""


def range_assignor(members: Iterable[Subscriber], topics: Mapping[str, int]) -> Assignments:
    """Assign consecutive partitions of each topic to each member."""
    ordered_members = _order_members(members)
    assigned: Assignments = {member.member_id: [] for member in ordered_members}
    for topic in sorted(topics, key=_java_sort_key):
        readers = [member.member_id for member in ordered_members if topic in member.topics]
        for index, reader in enumerate(readers):
            quota, remainder = divmod(topics[topic], len(readers))
            start = quota * index + min(index, remainder)
            count = quota + 1 if index < remainder else quota
            assigned[reader] += [TopicPartition(topic, number) for number in range(start, start + count)]
    return assigned


def round_robin_assignor(members: Iterable[Subscriber], topics: Mapping[str, int]) -> Assignments:
    """Assign all partitions to the members in turn."""
    ordered_members = _order_members(members)
    assigned: Assignments = {member.member_id: [] for member in ordered_members}
    turns = cycle(ordered_members)
    for partition in _list_partitions(ordered_members, topics):
        reader = next(member for member in turns if partition.topic in member.topics)
        assigned[reader.member_id].append(partition)
    return assigned


def sticky_assignor(members: Iterable[Subscriber], topics: Mapping[str, int]) -> Assignments:
    """Assign the partitions evenly, and let members keep the partitions that they own.

    The result is even: no partition can be moved to a member that subscribes to its topic and has at least two
    partitions fewer. If two members claim to own the same partition, the first of these members keeps it.
    """
    ordered_members = _order_members(members)
    assigned: Assignments = {member.member_id: [] for member in ordered_members}
    readers = {
        partition: [member.member_id for member in ordered_members if partition.topic in member.topics]
        for partition in _list_partitions(ordered_members, topics)
    }
    owner: dict[TopicPartition, str] = {}
    for member in ordered_members:
        for partition in member.owned:
            if member.member_id in readers.get(partition, ()):
                owner.setdefault(partition, member.member_id)

    def find_smallest_reader(partition: TopicPartition) -> str:
        """Return the id of the member with the fewest partitions, among the members that subscribe to the topic."""
        return min(readers[partition], key=lambda reader: len(assigned[reader]))

    for partition in readers:
        if partition in owner:
            assigned[owner[partition]].append(partition)
    for partition in readers:
        if partition not in owner:
            owner[partition] = find_smallest_reader(partition)
            assigned[owner[partition]].append(partition)
    while True:
        # The gain of a move is the difference between the owner's and the new owner's number of partitions. Make the
        # move with the largest gain, until every gain is below 2 (such a move would not make the result more even).
        gains = {
            partition: len(assigned[owner[partition]]) - len(assigned[find_smallest_reader(partition)])
            for partition in readers
        }
        moved = max(gains, key=lambda partition: (gains[partition], len(assigned[owner[partition]])), default=None)
        if moved is None or gains[moved] < 2:
            break
        new_owner = find_smallest_reader(moved)
        assigned[owner[moved]].remove(moved)
        assigned[new_owner].append(moved)
        owner[moved] = new_owner
    return {member_id: sorted(partitions, key=_partition_sort_key) for member_id, partitions in assigned.items()}


ASSIGNORS: dict[str, Assignor] = {
    "range": range_assignor,
    "roundrobin": round_robin_assignor,
    "sticky": sticky_assignor,
}
"""The assignors by name. Members send these names in JoinGroup, and vote for one of these assignors."""


def _order_members(members: Iterable[Subscriber]) -> list[Subscriber]:
    def sort_key(member: Subscriber) -> tuple[bool, bytes]:
        instance_id = member.group_instance_id
        return instance_id is None, _java_sort_key(member.member_id if instance_id is None else instance_id)

    return sorted(members, key=sort_key)


def _list_partitions(members: Iterable[Subscriber], topics: Mapping[str, int]) -> list[TopicPartition]:
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
