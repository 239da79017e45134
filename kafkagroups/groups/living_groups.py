"""The groups in a running coordinator: a living classic group, with its members' states, votes and timers and with its
offsets, and the shard of the new coordinator, which can take back what its log has not confirmed (`LivingShard`).

- Hard state is in records, so a load restores it: generation, protocol type, protocol, leader, members, the time of the
  last state change, and the offsets.
- Soft state is lost in a crash: the state during a rebalance, pending member ids, the members that have not sent
  SyncGroup, the requests that wait for a response, and the timers.

A commit has one of three states:

- *Pending*: a commit outside a transaction whose append is not answered yet (`prepare`).
- *Committed*: the append was answered (`complete`). Of several answered commits for a partition, the one that stands
  last in the log stays, no matter which append was answered first.
- *Pending in a transaction*: a commit in a transaction whose marker is not written yet (`prepare_txn_commit`,
  `complete_txn_append`, `end_transaction`).

If an append fails, the commit's pending offset is removed. If a later commit has already replaced it, Kafka keeps the
later offset outside a transaction (`drop_pending`), and removes it in a transaction (`fail_txn_commit`).

`remove` deletes committed and pending offsets, but only a committed offset gets a tombstone. `expire` keeps pending
commits.
Source: GroupMetadata.scala and MemberMetadata.scala (3.9; tag 1.0.1 for rules that depend on `kafka`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from kafkagroups.groups.group import (
    CONSUMER,
    VALID_PREVIOUS_STATES,
    ClassicState,
    Group,
    UndecodedGroup,
    find_subscribed_topics,
    find_unreadable_subscription,
)
from kafkagroups.groups.map_orders import hash_map_order, immutable_map_order, topic_partition_hash
from kafkagroups.groups.modern_group import ModernGroup, copy_group
from kafkagroups.groups.offsets import GroupOffsetsCopy, OffsetAndMetadata, Offsets, PartitionOffsets, TopicPartition
from kafkagroups.groups.replay import LogKeys, NewShard, read_keys
from kafkagroups.log.batch import Batch
from kafkagroups.records.group_metadata import GroupMetadataValue, MemberMetadata
from kafkagroups.records.releases import Version
from kafkagroups.records.wire import signed32

NOT_APPENDED = -1
"""A commit's `batch_offset` has this value until the append is answered."""


class NotAppended(Exception):
    """A marker commits an offset whose record never reached the log (Kafka's IllegalStateException)."""


@dataclass
class GroupOffsets:
    """`committed` and `transactions`, the offsets of open transactions by producer id, are hard state; the others are
    soft state. `has_plain_commit` and `has_transactional_commit` say what came in the current generation.
    """

    committed: PartitionOffsets = field(default_factory=dict)
    transactions: dict[int, PartitionOffsets] = field(default_factory=dict)
    pending: PartitionOffsets = field(default_factory=dict)
    has_plain_commit: bool = False
    has_transactional_commit: bool = False

    def __bool__(self) -> bool:
        return bool(self.committed or self.pending or self.transactions)

    def prepare(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.has_plain_commit = True
        self.pending.update(offsets)

    def complete(self, partition: TopicPartition, pending_offset: OffsetAndMetadata, batch_offset: int) -> None:
        """Commit a pending offset after its append, unless it was removed before, or a newer offset is committed."""
        if partition in self.pending:
            self._commit_if_newer(partition, msgspec.structs.replace(pending_offset, batch_offset=batch_offset))
        self.drop_pending(partition, pending_offset)

    def drop_pending(self, partition: TopicPartition, pending_offset: OffsetAndMetadata) -> None:
        """Remove this pending offset, but not a later one that has replaced it."""
        if self.pending.get(partition) == pending_offset:
            del self.pending[partition]

    def prepare_txn_commit(self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.has_transactional_commit = True
        self.transactions.setdefault(producer_id, {}).update(offsets)

    def complete_txn_append(
        self, producer_id: int, partition: TopicPartition, pending_offset: OffsetAndMetadata, batch_offset: int
    ) -> None:
        """Note that a transactional commit is in the log, so that the producer's marker can commit it."""
        pending = self.transactions.get(producer_id, {})
        if pending.get(partition) == pending_offset:
            pending[partition] = msgspec.structs.replace(pending_offset, batch_offset=batch_offset)

    def fail_txn_commit(self, producer_id: int, partition: TopicPartition) -> None:
        pending = self.transactions.get(producer_id, {})
        pending.pop(partition, None)
        if not pending:
            self.transactions.pop(producer_id, None)

    def end_transaction(self, producer_id: int, *, commits: bool, kafka: Version) -> None:
        """Handle the marker of the producer's transaction.

        If it commits, each pending offset becomes the committed offset, unless that one is from a later batch of the
        log. Raises NotAppended at a pending commit without a record; up to 3.7 that is one whose metadata string was
        too large. As in Kafka, the remaining partitions are then not committed until the next load.
        """
        pending = self.transactions.pop(producer_id, {})
        if not commits:
            return
        for partition in hash_map_order(pending, kafka, topic_partition_hash):
            if pending[partition].batch_offset == NOT_APPENDED:
                raise NotAppended(f"producer {producer_id}: the pending commit of {partition} has no record in the log")
            self._commit_if_newer(partition, pending[partition])

    def is_unstable(self, partition: TopicPartition) -> bool:
        return partition in self.pending or any(partition in pending for pending in self.transactions.values())

    def remove(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Remove these offsets. Return the partitions that had a committed offset and so need a tombstone."""
        for partition in partitions:
            for pending in (self.pending, *self.transactions.values()):
                pending.pop(partition, None)
        return self.expire(partitions)

    def expire(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Remove these committed offsets, and return the partitions that had one. Pending commits may still be
        committed.
        """
        return [partition for partition in partitions if self.committed.pop(partition, None) is not None]

    def _commit_if_newer(self, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        current = self.committed.get(partition)
        if current is None or current.batch_offset < offset.batch_offset:
            self.committed[partition] = offset


Protocols = list[tuple[str, bytes]]
"""Pairs of a protocol (the name of an assignor) and the member's metadata (its subscription) for this protocol."""


class Cancellable(Protocol):
    def cancel(self) -> None:
        """Cancel the timer, so that its action never runs."""


class NoTimer:
    def cancel(self) -> None:
        """Do nothing: no timer was started."""


NO_TIMER: Cancellable = NoTimer()


@dataclass(eq=False)
class ClassicMember:
    """`awaiting_join` and `awaiting_sync` are the callbacks that answer the member's JoinGroup and SyncGroup requests.
    `is_new` is True while its first JoinGroup request waits. While a request waits, only a new member can time out.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: Callable[[Any], None] | None = None
    awaiting_sync: Callable[[Any], None] | None = None
    is_new: bool = False
    session_timer: Cancellable = NO_TIMER

    def find_metadata(self, protocol: str | None) -> bytes:
        """Raises KeyError if the member does not support the protocol. A group without one has no metadata."""
        return b"" if protocol is None else dict(self.protocols)[protocol]

    def build_record(self, protocol: str, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.find_metadata(protocol),
            assignment=assignment,
        )


class IllegalTransition(Exception):
    """A state change that the group's current state does not allow (Kafka's IllegalStateException)."""


@dataclass(eq=False)
class ClassicGroup:
    """A living classic group.

    `current_state_timestamp` is the time of the last state change, in ms since the epoch; None if the version of the
    group record is too old to contain it.
    """

    group_id: str
    kafka: Version
    current_state_timestamp: int | None
    state: ClassicState = ClassicState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    offsets: GroupOffsets = field(default_factory=GroupOffsets)
    subscribed_topics: frozenset[str] | None = None
    """The topics to which the members of this generation subscribe (`find_subscribed_topics`)."""
    pending_members: dict[str, Cancellable] = field(default_factory=dict)
    pending_sync: set[str] = field(default_factory=set)
    new_member_added: bool = False
    """Whether a member joined during the initial delay of the first rebalance, which then starts again."""
    join_timer: Cancellable = NO_TIMER
    """The timer that ends the state PreparingRebalance."""
    can_end_join_early: bool = False
    """Whether PreparingRebalance ends as soon as all members have joined."""
    sync_timer: Cancellable = NO_TIMER
    type: str = "classic"

    def ordered_members(self) -> list[ClassicMember]:
        """The members in the order of Kafka's hash map, which decides the next leader."""
        return [self.members[member_id] for member_id in hash_map_order(self.members, self.kafka)]

    @property
    def is_simple(self) -> bool:
        return self.protocol_type is None and self.state is ClassicState.EMPTY and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def have_all_joined(self) -> bool:
        """Whether every member waits for the response to its JoinGroup, and no member id is pending."""
        return all(member.awaiting_join for member in self.members.values()) and not self.pending_members

    def transition_to(self, state: ClassicState, now_ms: int) -> None:
        if self.state not in VALID_PREVIOUS_STATES[state]:
            raise IllegalTransition(f"group {self.group_id!r} cannot go from {self.state.value} to {state.value}")
        self.state = state
        self.current_state_timestamp = now_ms

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with this protocol type and these protocols can join. In an Empty group, neither may
        be empty; otherwise the type must be the group's, and all members must support one of the protocols.
        """
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type and protocols)
        return self.protocol_type == protocol_type and any(self.is_common(name) for name, _ in protocols)

    def is_common(self, protocol: str) -> bool:
        return all(protocol in dict(member.protocols) for member in self.members.values())

    def select_protocol(self) -> str:
        """Return the protocol with the most votes.

        Each member votes for the candidate that it prefers. If two protocols have equally many votes, the first of them
        in the order of Kafka's map of votes wins.
        """
        members = self.ordered_members()
        candidates = [name for name, _ in members[0].protocols if self.is_common(name)]
        votes = Counter(next(name for name, _ in member.protocols if name in candidates) for member in members)
        return max(immutable_map_order(votes, self.kafka), key=votes.__getitem__)

    def add(self, member: ClassicMember) -> None:
        """The first member decides the protocol type and becomes the leader."""
        if not self.members:
            self.protocol_type = member.protocol_type
        self.leader = self.leader or member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.remove_pending_member(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member id. The first one in `ordered_members` replaces a leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            member.session_timer.cancel()
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next((follower.member_id for follower in self.ordered_members()), None)
        self.pending_sync.discard(member_id)
        # If a group is full, classic_requests.py removes the pending member id of a refused member with this method.
        # Up to 2.8 Kafka keeps this pending member id.
        if self.kafka >= (3, 0):
            self.remove_pending_member(member_id)

    def remove_pending_member(self, member_id: str) -> None:
        self.pending_members.pop(member_id, NO_TIMER).cancel()

    def replace_static_member(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        member = self.members.pop(old_id)
        member.member_id = new_id
        self.members[new_id] = member
        self.leader = new_id if self.leader == old_id else self.leader
        self.static_members[instance_id] = new_id
        return member

    def elect_joined_leader(self) -> bool:
        """If the leader has not joined, choose the first member in `ordered_members` that has."""
        joined_ids = [member.member_id for member in self.ordered_members() if member.awaiting_join]
        if joined_ids and self.leader not in joined_ids:
            self.leader = joined_ids[0]
        return bool(joined_ids)

    def start_next_generation(self, now_ms: int) -> bool:
        """Start a new generation: enter CompletingRebalance if the group has members, otherwise Empty.

        The generation after 2**31 - 1 is -2**31, as in Java. Return False if the state does not change: from 4.0 to
        4.3, Kafka throws an exception if a subscription cannot be read (`find_unreadable_subscription`). The group
        then waits in PreparingRebalance until the next load.
        """
        self.generation = signed32(self.generation + 1)
        self.protocol = self.select_protocol() if self.members else None
        is_checked = (4, 0) <= self.kafka < (4, 4) and self.protocol_type == CONSUMER
        subscriptions = [(each.member_id, each.find_metadata(self.protocol)) for each in self.ordered_members()]
        if is_checked and find_unreadable_subscription(subscriptions) is not None:
            return False
        self.compute_subscribed_topics()
        state = ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY
        self.transition_to(state, now_ms)
        self.offsets.has_plain_commit = False
        self.offsets.has_transactional_commit = False
        self.pending_sync.clear()
        return True

    def compute_subscribed_topics(self) -> None:
        subscriptions = [member.find_metadata(self.protocol) for member in self.members.values()]
        self.subscribed_topics = find_subscribed_topics(self.protocol_type, self.protocol, subscriptions)

    def build_record_value(self, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=-1 if self.current_state_timestamp is None else self.current_state_timestamp,
            members=tuple(
                member.build_record(self.protocol or "", assignments[member.member_id])
                for member in self.ordered_members()
            ),
        )


LivingGroup = ClassicGroup | ModernGroup
"""A group in a running coordinator."""


Changes = dict[str, tuple[Any, GroupOffsetsCopy]]
"""Of each changed group, by its id: the group as it was before (None if it did not exist), and its offsets."""


@dataclass
class LivingShard(NewShard):
    """What a running coordinator knows of one partition. `groups` contains ClassicGroup and ModernGroup objects.

    A running coordinator applies a record to its memory before the record is in the log, with the same code as a load
    (replay.py). Until the log confirms the record, a failed append must take the changes back, and a fetch,
    DescribeGroups and ListGroups must not see them, so the shard remembers each changed group as it was before.

    Of a group without a record, for example that of a refused commit, a load finds nothing; it becomes visible with the
    next batch of the partition.

    A classic group is remembered as an object, not by its content, so taking back an append does not bring an earlier
    generation back.

    Simpler than Kafka: Kafka's maps keep every version of every entry until the log has confirmed it (timeline maps).
    Here a group is copied as a whole before its first change in a batch.

    `now_ms` is the time of the state of a group without a record. `appended` are the changes of each batch that the log
    has not confirmed, the oldest first, and `unappended` are the changes since then.
    Source: SnapshottableCoordinator, SnapshotRegistry, GroupMetadataManager.replay (4.3.1).
    """

    groups: dict[str, Any] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)
    now_ms: int = 0
    appended: deque[Changes] = field(default_factory=deque)
    unappended: Changes = field(default_factory=dict)

    def keep_group(self, group_id: str, group: Group | UndecodedGroup | None) -> None:
        super().keep_group(group_id, group)
        if isinstance(group, Group):
            self.groups[group_id] = build_classic_group(group, self.dialect.version, self.now_ms)

    def add_group(self, group: LivingGroup) -> None:
        self._remember(group.group_id)
        self.groups[group.group_id] = group

    def remove_group(self, group_id: str) -> None:
        self._remember(group_id)
        self.groups.pop(group_id, None)

    def apply_new(self, batch: Batch, keys: LogKeys) -> None:
        """Apply a batch that the coordinator is about to append, or the marker that another broker wrote."""
        changed_groups = {group_id for group_id, _, _ in read_keys(batch, keys)}
        if batch.is_control:
            changed_groups.update(self.offsets.pending.get(batch.producer_id, ()))
        for group_id in changed_groups:
            self._remember(group_id)
        self.apply(batch, keys)

    def end_batch(self) -> None:
        self.appended.append(self.unappended)
        self.unappended = {}

    def confirm(self) -> None:
        self.appended.popleft()

    def revert(self, batch_count: int) -> None:
        self._swap(self.unappended)
        self.unappended = {}
        for _ in range(batch_count):
            self._swap(self.appended.pop())

    @contextmanager
    def committed(self) -> Iterator[None]:
        later_changes = [changes for changes in (*self.appended, self.unappended) if changes]
        for changes in reversed(later_changes):
            self._swap(changes)
        try:
            yield
        finally:
            for changes in later_changes:
                self._swap(changes)

    def _remember(self, group_id: str) -> None:
        if group_id not in self.unappended:
            group = self.groups.get(group_id)
            earlier = copy_group(group) if isinstance(group, ModernGroup) else group
            self.unappended[group_id] = (earlier, self.offsets.copy_group(group_id))

    def _swap(self, changes: Changes) -> None:
        for group_id, (earlier, offsets) in changes.items():
            current = self.groups.pop(group_id, None)
            if earlier is not None:
                self.groups[group_id] = earlier
            changes[group_id] = (current, self.offsets.replace_group(group_id, offsets))


def build_classic_group(loaded: Group, kafka: Version, now_ms: int) -> ClassicGroup:
    """If the log has no group record, the group became Empty at this time, as in Kafka."""
    has_state_time = loaded.current_state_timestamp is not None
    has_group_record = bool(loaded.members or loaded.generation or loaded.protocol_type or has_state_time)
    group = ClassicGroup(
        loaded.group_id,
        kafka,
        loaded.current_state_timestamp if has_group_record else now_ms,
        generation=loaded.generation,
        protocol_type=loaded.protocol_type or None,
        protocol=loaded.protocol,
        leader=loaded.leader,
        offsets=GroupOffsets(
            dict(loaded.offsets), {producer: dict(pending) for producer, pending in loaded.pending.items()}
        ),
    )
    for member in loaded.members.values():
        # A group record has each member's subscription for only one protocol: the group's protocol.
        protocols = [(loaded.protocol or "", member.subscription_bytes)]
        group.add(build_classic_member(member, protocols, member.assignment_bytes))
    group.state = loaded.state
    group.compute_subscribed_topics()
    return group


def build_classic_member(source: Any, protocols: Protocols, assignment: bytes = b"") -> ClassicMember:
    """`source` is a loaded member or a JoinGroup request."""
    return ClassicMember(
        source.member_id,
        source.group_instance_id,
        source.client_id,
        source.client_host,
        source.rebalance_timeout_ms,
        source.session_timeout_ms,
        source.protocol_type,
        protocols,
        assignment,
    )
