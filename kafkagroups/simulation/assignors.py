"""The assignors of Kafka's clients, which the leader of a group runs.

    range       Topic by topic, the members that subscribe to it get consecutive partitions. If the partitions cannot be
                divided evenly, the first members get one more.
    roundrobin  All partitions, ordered by topic and number, are assigned in turn. Members that do not subscribe to the
                topic are skipped.
    sticky      The assignment is as even as possible, and a member keeps as many of its partitions as possible.

The members are ordered as in Kafka: static members by instance id, then the others by member id.
Range and round robin return the same assignment as Kafka's. Sticky makes an assignment with the same properties, but if
several are equally good it may choose another one.
Simpler than Kafka: there are no racks.
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
    """A member as the leader receives it. `owned` are its partitions until now, which only sticky reads."""

    member_id: str
    topics: Collection[str]
    group_instance_id: str | None = None
    owned: Collection[TopicPartition] = ()


Assignments = dict[str, list[TopicPartition]]
Assignor = Callable[[Iterable[Subscriber], Mapping[str, int]], Assignments]
"""Returns each member's partitions by member id, from the members and the topics' partition counts."""


def range_assignor(members: Iterable[Subscriber], topics: Mapping[str, int]) -> Assignments:
    """Assign consecutive partitions, topic by topic."""
    ordered = _ordered(members)
    assigned: Assignments = {member.member_id: [] for member in ordered}
    for topic in sorted(topics, key=_java_order):
        readers = [member.member_id for member in ordered if topic in member.topics]
        for at, reader in enumerate(readers):
            quota, remainder = divmod(topics[topic], len(readers))
            first = quota * at + min(at, remainder)
            count = quota + 1 if at < remainder else quota
            assigned[reader] += [TopicPartition(topic, first + n) for n in range(count)]
    return assigned


def round_robin_assignor(members: Iterable[Subscriber], topics: Mapping[str, int]) -> Assignments:
    """Assign all partitions in turn."""
    ordered = _ordered(members)
    assigned: Assignments = {member.member_id: [] for member in ordered}
    turns = cycle(ordered)
    for partition in _partitions(ordered, topics):
        reader = next(member for member in turns if partition.topic in member.topics)
        assigned[reader.member_id].append(partition)
    return assigned


def sticky_assignor(members: Iterable[Subscriber], topics: Mapping[str, int]) -> Assignments:
    """Assign evenly and keep owned partitions.

    No partition could move to a member that has at least two fewer. If two members claim to own a partition, the first
    one keeps it.
    """
    ordered = _ordered(members)
    assigned: Assignments = {member.member_id: [] for member in ordered}
    readers = {
        partition: [member.member_id for member in ordered if partition.topic in member.topics]
        for partition in _partitions(ordered, topics)
    }
    owner: dict[TopicPartition, str] = {}
    for member in ordered:
        for partition in member.owned:
            if member.member_id in readers.get(partition, ()):
                owner.setdefault(partition, member.member_id)

    def lightest(partition: TopicPartition) -> str:
        return min(readers[partition], key=lambda reader: len(assigned[reader]))

    for partition in readers:
        if partition in owner:
            assigned[owner[partition]].append(partition)
    for partition in readers:
        if partition not in owner:
            owner[partition] = lightest(partition)
            assigned[owner[partition]].append(partition)
    while True:
        gains = {each: len(assigned[owner[each]]) - len(assigned[lightest(each)]) for each in readers}
        moving = max(gains, key=lambda each: (gains[each], len(assigned[owner[each]])), default=None)
        if moving is None or gains[moving] < 2:
            break
        reader = lightest(moving)
        assigned[owner[moving]].remove(moving)
        assigned[reader].append(moving)
        owner[moving] = reader
    return {member_id: sorted(partitions, key=_partition_order) for member_id, partitions in assigned.items()}


ASSIGNORS: dict[str, Assignor] = {
    "range": range_assignor,
    "roundrobin": round_robin_assignor,
    "sticky": sticky_assignor,
}
"""The assignors by the names that members vote for."""


def _ordered(members: Iterable[Subscriber]) -> list[Subscriber]:
    def order(member: Subscriber) -> tuple[bool, bytes]:
        instance = member.group_instance_id
        return instance is None, _java_order(member.member_id if instance is None else instance)

    return sorted(members, key=order)


def _partitions(members: Iterable[Subscriber], topics: Mapping[str, int]) -> list[TopicPartition]:
    subscribed = {topic for member in members for topic in member.topics if topic in topics}
    return [TopicPartition(topic, n) for topic in sorted(subscribed, key=_java_order) for n in range(topics[topic])]


def _partition_order(partition: TopicPartition) -> tuple[bytes, int]:
    return _java_order(partition.topic), partition.partition


def _java_order(text: str) -> bytes:
    """Return a sort key that orders strings as Java does, by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")
