"""A classic group after a load: its state, its last group record with its members, and its offsets.

After a load a group is Empty or Stable, because no record stores the states in between.
Source: GroupMetadata.scala (3.9), "GroupState"; GroupCoordinator.scala (3.9); ClassicGroupState.java (4.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeVar

from kafkagroups.errors import InvalidRecord, LoadFailed
from kafkagroups.groups.map_orders import hash_map_order, java_map_order
from kafkagroups.groups.offsets import PartitionOffsets
from kafkagroups.records import consumer_protocol
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkagroups.records.releases import UNREADABLE_SUBSCRIPTION, Dialect
from kafkagroups.records.serde import Record, decode
from kafkagroups.records.structs import read_message

M = TypeVar("M")
CONSUMER = "consumer"
"""The protocol type of groups of consumers."""


class ClassicState(Enum):
    """The state of a classic group. Each value is Kafka's name of the state.

    EMPTY: the group has no members. The group exists until its offsets are deleted. A join starts a rebalance, and
    commits without a generation are accepted.

    PREPARING_REBALANCE: the coordinator waits until all members have joined again. It waits at most for the largest
    rebalance timeout of the members.

    COMPLETING_REBALANCE: the coordinator waits for the leader's assignment. Before Kafka 1.1 the state was called
    AwaitingSync. Before 2.6.1 a Heartbeat is answered REBALANCE_IN_PROGRESS in this state. From 2.6.1 to 2.8.0, a
    leader that sends heartbeats and no assignments blocks its group forever.

    STABLE: all members have an assignment.

    DEAD: the group is being removed. Requests of its members get the error COORDINATOR_NOT_AVAILABLE (before 2.3:
    UNKNOWN_MEMBER_ID). No other state follows.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES = {
    ClassicState.EMPTY: {ClassicState.PREPARING_REBALANCE},
    ClassicState.PREPARING_REBALANCE: {ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY},
    ClassicState.COMPLETING_REBALANCE: {ClassicState.PREPARING_REBALANCE},
    ClassicState.STABLE: {ClassicState.COMPLETING_REBALANCE},
    ClassicState.DEAD: set(ClassicState),
}
"""For each state, the states that can come directly before it. The coordinator refuses all other changes."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a classic group after a load.

    Timeouts are in ms. `group_instance_id` is None for a dynamic member.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    subscription_bytes: bytes
    assignment_bytes: bytes

    @property
    def subscription(self) -> consumer_protocol.VersionedMessage[consumer_protocol.ConsumerProtocolSubscription] | None:
        """The decoded subscription; None if the member is not a consumer, or if the bytes cannot be decoded."""
        return self._decode(consumer_protocol.decode_subscription, self.subscription_bytes)

    @property
    def assignment(self) -> consumer_protocol.VersionedMessage[consumer_protocol.ConsumerProtocolAssignment] | None:
        """The decoded assignment; None in the same cases."""
        return self._decode(consumer_protocol.decode_assignment, self.assignment_bytes)

    def _decode(self, decode_bytes: Callable[[bytes], M], data: bytes) -> M | None:
        with suppress(InvalidRecord):
            return decode_bytes(data) if self.protocol_type == CONSUMER else None
        return None


_VERSION_BYTES = 2


def _read_oldest_layout(data: bytes) -> consumer_protocol.ConsumerProtocolSubscription:
    return read_message(consumer_protocol.ConsumerProtocolSubscription, data, _VERSION_BYTES, 0)[0]


def find_unreadable_subscription(subscriptions: Iterable[tuple[str, bytes]]) -> str | None:
    """Return the problem if a subscription makes the load fail (up to Kafka 4.3), otherwise None.

    The coordinator reads them in the given order, with the layout of version 0:

    - The bytes of a subscription end too early: the coordinator stops reading and loads the group.
    - Any other problem: the load fails.

    Source: GroupMetadata.computeSubscribedTopics (2.7 to 3.9); ClassicGroup.computeSubscribedTopics (4.3.1).
    """
    for member_id, data in subscriptions:
        if len(data) < _VERSION_BYTES:
            return None
        try:
            _read_oldest_layout(data)
        except InvalidRecord as error:
            # `InvalidRecord.cause` (errors.py) is empty if the bytes end too early.
            ends_too_early = not error.cause
            return None if ends_too_early else f"the subscription of {member_id} cannot be read: {error}"
    return None


def find_subscribed_topics(
    protocol_type: str | None, protocol: str | None, subscriptions: Collection[bytes]
) -> frozenset[str] | None:
    """Return the topics in the subscriptions of a group's members. None if they are not known: the group is not a
    consumer group, has members but no protocol, or has a subscription that cannot be read.
    """
    if protocol_type != CONSUMER or (subscriptions and protocol is None):
        return None
    topics: set[str] = set()
    for data in subscriptions:
        try:
            topics.update(_read_oldest_layout(data).topics)
        except InvalidRecord:
            return None
    return frozenset(topics)


@dataclass
class Group:
    """A classic group that a coordinator has loaded.

    `current_state_timestamp` is the time of the last state change, in ms since the epoch; None if the record does not
    contain it. A group with offsets but without a group record is Empty, with generation 0 and protocol type "".
    """

    group_id: str
    partition: int | None
    state: ClassicState = ClassicState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: int | None = None
    members: dict[str, Member] = field(default_factory=dict)
    offsets: PartitionOffsets = field(default_factory=dict)
    pending: dict[int, PartitionOffsets] = field(default_factory=dict)
    type: str = "classic"

    @property
    def is_simple(self) -> bool:
        """Whether the group is Empty and has no protocol type, like a group that has only offset records."""
        return not self.protocol_type and self.state is ClassicState.EMPTY

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        subscriptions = [member.subscription_bytes for member in self.members.values()]
        return find_subscribed_topics(self.protocol_type, self.protocol, subscriptions)


class UndecodedGroup(NamedTuple):
    partition: int | None
    offset: int
    key: bytes
    value: bytes
    dialect: Dialect

    def decode(self) -> Group:
        return build_group(self.partition, decode(self.key, self.value, self.dialect), self.offset, self.dialect)


def build_group(partition: int | None, record: Record, offset: int, dialect: Dialect) -> Group:
    """Return the group that the group record at `offset` describes.

    Raises LoadFailed if the coordinator refuses the record. A group is Stable if the record contains members,
    otherwise Empty. Before 0.10.1 every group is Stable.
    Source: GroupMetadata.loadGroup (3.9); GroupMetadataManager.replay (4.3).
    """
    assert isinstance(record.key, GroupMetadataKey) and isinstance(record.value, GroupMetadataValue)
    group_id = record.key.group
    value = record.value
    if not dialect.since(0, 10, 1) and (value.protocol is None or value.leader is None):
        raise LoadFailed(f"Kafka {dialect.kafka} expects a protocol and a leader in every group record", offset)
    is_stable = bool(value.members) or not dialect.since(0, 10, 1)
    # From 0.10.1 to 1.0.0 a group without members has no protocol type, because Kafka sets the protocol type when it
    # adds a member (as the loop below does).
    only_members_set_type = dialect.since(0, 10, 1) and not dialect.since(1, 0, 1)
    group = Group(
        group_id,
        partition,
        state=ClassicState.STABLE if is_stable else ClassicState.EMPTY,
        generation=value.generation,
        protocol_type="" if only_members_set_type else value.protocol_type,
        protocol=value.protocol,
        leader=value.leader,
        current_state_timestamp=None if value.current_state_timestamp == -1 else value.current_state_timestamp,
    )
    instance_ids: set[str] = set()
    for index, metadata in enumerate(value.members):
        if metadata.group_instance_id is not None and dialect.since(3, 0):
            if metadata.group_instance_id in instance_ids:
                raise LoadFailed(
                    f"group {group_id!r} has two members with instance id {metadata.group_instance_id!r}", offset
                )
            instance_ids.add(metadata.group_instance_id)
        has_earlier_repetition = len(group.members) < index
        if has_earlier_repetition and dialect.since(2, 1):
            # Before Kafka adds this member, it checks that there are as many votes for the protocol as members. An
            # earlier repetition added a vote, but no member.
            raise LoadFailed(f"group {group_id!r} has a member twice, and another member after it", offset)
        member = _build_member(metadata, value.protocol_type, record.value_version, dialect)
        group.protocol_type = value.protocol_type
        group.leader = member.member_id if group.leader is None else group.leader
        group.members[member.member_id] = member
    has_consumer_protocol = value.protocol_type == CONSUMER and value.protocol is not None
    reads_subscriptions = has_consumer_protocol and UNREADABLE_SUBSCRIPTION.applies_to(dialect.version)
    # If all subscriptions can be read, their order does not matter.
    if reads_subscriptions and group.members and group.subscribed_topics is None:
        # Kafka reads the subscriptions in this order. If one ends too early, Kafka skips the remaining subscriptions.
        is_classic = dialect.coordinator == "classic"
        ordered_ids = hash_map_order(group.members, dialect.version) if is_classic else java_map_order(group.members)
        problem = find_unreadable_subscription(
            (member_id, group.members[member_id].subscription_bytes) for member_id in ordered_ids
        )
        if problem is not None:
            raise LoadFailed(f"group {group_id!r}: {problem}", offset)
    return group


def _build_member(metadata: MemberMetadata, protocol_type: str, value_version: int | None, dialect: Dialect) -> Member:
    """The member gets its session timeout as its rebalance timeout if the record has none (value version 0), and in the
    new coordinator also if it is -1.
    """
    rebalance_timeout = metadata.rebalance_timeout
    lacks_timeout = value_version == 0 or (dialect.coordinator == "new" and rebalance_timeout == -1)
    if lacks_timeout:
        rebalance_timeout = metadata.session_timeout
    return Member(
        metadata.member_id,
        metadata.group_instance_id,
        metadata.client_id,
        metadata.client_host,
        rebalance_timeout,
        metadata.session_timeout,
        protocol_type,
        metadata.subscription,
        metadata.assignment,
    )
