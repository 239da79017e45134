"""A living classic group: what the classic coordinator has in its cache.

Hard state, which the group record describes: generation, protocol type, protocol, leader, members with their metadata
and assignments, since when it is in its state; and the offsets. Soft state, which no record has: the five states
themselves, who is pending (an id was handed out, KIP-394), who has not synced yet, which requests hang.
A group changes by the operations below; the coordinator decides when (coordinator/rebalance.py).
Source: GroupMetadata.scala (3.9; tag 1.0.1 for what `kafka` tells apart).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkagroups.groups.classic_member import Cancellable, ClassicMember, Protocols
from kafkagroups.groups.group import Group
from kafkagroups.groups.group_offsets import GroupOffsets
from kafkagroups.groups.map_orders import Version, hash_map_order, immutable_map_order
from kafkagroups.groups.member import subscribed_topics
from kafkagroups.groups.states import VALID_PREVIOUS_STATES, ClassicState
from kafkagroups.records.group_metadata import GroupMetadataValue

CONSUMER = "consumer"


class IllegalTransition(Exception):
    """A state was to be entered from where it cannot be (Kafka's IllegalStateException)."""


@dataclass(eq=False)
class ClassicGroup:
    """A group. `kafka` is the broker's version, times are ms since the epoch, `members` is keyed by member id.

    `state_timestamp` None: an old group record did not tell. `subscribed_topics` None: nobody can tell, and every topic
    counts as subscribed. `delayed_join` and `delayed_sync` are the timers of a rebalance.
    """

    group_id: str
    kafka: Version
    state_timestamp: int | None
    state: ClassicState = ClassicState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """Group instance id to member id (KIP-345)."""
    offsets: GroupOffsets = field(default_factory=GroupOffsets)
    subscribed_topics: frozenset[str] | None = None
    pending_members: dict[str, Cancellable] = field(default_factory=dict)
    pending_sync: set[str] = field(default_factory=set)
    new_member_added: bool = False
    delayed_join: Cancellable | None = None
    joins_at_once: bool = False
    """Whether the delayed join ends when all have joined; the initial one waits its time."""
    delayed_sync: Cancellable | None = None

    def told(self) -> list[ClassicMember]:
        """The members in the order in which Kafka's map tells them: it decides leaders and the order in records."""
        return [self.members[name] for name in hash_map_order(self.members, self.kafka)]

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        return all(member.awaiting_join for member in self.members.values()) and not self.pending_members

    @property
    def can_rebalance(self) -> bool:
        return self.state in VALID_PREVIOUS_STATES[ClassicState.PREPARING_REBALANCE]

    def transition_to(self, state: ClassicState, now_ms: int) -> None:
        """IllegalTransition unless the matrix of states.py allows it."""
        if self.state not in VALID_PREVIOUS_STATES[state]:
            raise IllegalTransition(f"group {self.group_id!r} cannot go from {self.state.value} to {state.value}")
        self.state, self.state_timestamp = state, now_ms

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether somebody with these protocols can join: one of them is supported by all members."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type and protocols)
        return self.protocol_type == protocol_type and any(name in self.candidates(name) for name, _ in protocols)

    def candidates(self, *names: str) -> set[str]:
        """The protocols that all members support, of those named or of all."""
        votes = Counter(name for member in self.members.values() for name, _ in member.protocols)
        return {name for name in names or votes if votes[name] == len(self.members)}

    def select_protocol(self) -> str:
        """Each member votes for its first candidate. Of equal ones the first that Scala's map tells wins."""
        candidates = self.candidates()
        votes = Counter(member.vote(candidates) for member in self.told())
        return max(immutable_map_order(votes, self.kafka), key=votes.__getitem__)

    def add(self, member: ClassicMember) -> None:
        if not self.members:
            self.protocol_type = member.protocol_type
        self.leader = self.leader or member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.forget_pending(member.member_id)

    def remove(self, member_id: str) -> None:
        """Takes a member, or a pending one, out; a leader is followed by the first that the map tells."""
        member = self.members.pop(member_id, None)
        if member is not None:
            if member.heartbeat:
                member.heartbeat.cancel()
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next((other.member_id for other in self.told()), None)
        self.pending_sync.discard(member_id)
        if self.kafka >= (3, 0):  # before, an id that was refused for the group's size stayed pending
            self.forget_pending(member_id)

    def forget_pending(self, member_id: str) -> None:
        timer = self.pending_members.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def replace_static(self, instance_id: str, old: str, new: str) -> ClassicMember:
        """A static member comes back under a new member id and keeps its place, also the leader's."""
        member = self.members.pop(old)
        member.member_id = new
        self.members[new] = member
        self.leader = new if self.leader == old else self.leader
        self.static_members[instance_id] = new
        return member

    def elect_joined_leader(self) -> bool:
        """Whether somebody who joined leads: the leader, or else the first of those who joined (since 2.3)."""
        if self.leader is None or self.members[self.leader].awaiting_join:
            return self.leader is not None
        joined = next((member.member_id for member in self.told() if member.awaiting_join), None)
        self.leader = joined or self.leader
        return joined is not None

    def next_generation(self, now_ms: int) -> None:
        """A rebalance is over: with members to CompletingRebalance, without to Empty."""
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        self.compute_subscribed_topics()
        state = ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY
        self.transition_to(state, now_ms)
        self.offsets.received_plain = self.offsets.received_transactional = False
        self.pending_sync.clear()

    def compute_subscribed_topics(self) -> None:
        """What the consumers among the groups read, from the oldest layout of their subscriptions (KIP-496)."""
        self.subscribed_topics = None
        if self.protocol_type == CONSUMER and not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol_type == CONSUMER and self.protocol is not None:
            self.subscribed_topics = subscribed_topics(member.metadata(self.protocol) for member in self.told())

    def value(self, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
        """The value of the group's record, with these assignments by member id."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=-1 if self.state_timestamp is None else self.state_timestamp,
            members=tuple(member.record(self.protocol or "", assignments[member.member_id]) for member in self.told()),
        )


def living(loaded: Group, kafka: Version, now_ms: int) -> ClassicGroup:
    """The group as it goes on living after a load. A simple group counts as entered now, as in Kafka."""
    simple = not loaded.members and not loaded.generation and loaded.current_state_timestamp is None
    group = ClassicGroup(
        loaded.group_id,
        kafka,
        now_ms if simple and not loaded.protocol_type else loaded.current_state_timestamp,
        generation=loaded.generation,
        protocol_type=loaded.protocol_type or None,
        protocol=loaded.protocol,
        leader=loaded.leader,
        offsets=GroupOffsets(dict(loaded.offsets), {each: dict(there) for each, there in loaded.pending.items()}),
    )
    for member in loaded.members.values():
        protocols = [(loaded.protocol or "", member.subscription_bytes)]
        group.add(
            ClassicMember(
                member.member_id, member.group_instance_id, member.client_id, member.client_host,
                member.rebalance_timeout_ms, member.session_timeout_ms, member.protocol_type, protocols,
                member.assignment_bytes,
            )
        )  # fmt: skip
    group.state = loaded.state
    group.compute_subscribed_topics()
    return group
