"""Who reads what: the assignors of Kafka's clients, which the leader of a group runs.

range       topic by topic: the members that subscribe to it, in their order, get consecutive partitions; where they
            cannot be shared evenly, the first members get one more
roundrobin  all partitions in the order of topics and numbers are dealt out in turn, past members that do not subscribe
sticky      as even as it can be, and of what a member owns it keeps what it can

The members' order is Kafka's: static members by their instance ids, then the others by their member ids.
Range and round robin give what Kafka's give; sticky keeps Kafka's promises, but not its choice among equal ones.
Simpler than Kafka: no racks.
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
    """A member as the leader knows it. `owned` is what it has until now, which only sticky looks at."""

    member_id: str
    topics: Collection[str]
    group_instance_id: str | None = None
    owned: Collection[TopicPartition] = ()


Assignments = dict[str, list[TopicPartition]]
Assignor = Callable[[Iterable[Subscriber], Mapping[str, int]], Assignments]
"""From the members and the partition counts of the topics to the partitions of each, by member id."""


def range_assignor(members: Iterable[Subscriber], topics: Mapping[str, int]) -> Assignments:
    ordered = _ordered(members)
    assigned: Assignments = {member.member_id: [] for member in ordered}
    for topic in sorted(topics, key=_java_order):
        readers = [member.member_id for member in ordered if topic in member.topics]
        for at, reader in enumerate(readers):
            each, more = divmod(topics[topic], len(readers))
            first = each * at + min(at, more)
            assigned[reader] += [TopicPartition(topic, first + n) for n in range(each + (at < more))]
    return assigned


def round_robin_assignor(members: Iterable[Subscriber], topics: Mapping[str, int]) -> Assignments:
    ordered = _ordered(members)
    assigned: Assignments = {member.member_id: [] for member in ordered}
    turns = cycle(ordered)
    for partition in _partitions(ordered, topics):
        reader = next(member for member in turns if partition.topic in member.topics)
        assigned[reader.member_id].append(partition)
    return assigned


def sticky_assignor(members: Iterable[Subscriber], topics: Mapping[str, int]) -> Assignments:
    """No partition could go to a reader that has two fewer. Of two who claim to own a partition the first has it."""
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
"""By the names under which members vote for them."""


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
    """Java compares strings by their UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")
