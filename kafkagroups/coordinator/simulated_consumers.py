"""Simulated consumers: what a Kafka client sends between `subscribe` and `close`.

`SimulatedConsumer` is what the consumers of both protocols share.

`Consumer` speaks the classic protocol:

    JOINING ──JoinGroup──▶ SYNCING ──SyncGroup──▶ STABLE: heartbeats, commits
       ▲                      │                     │
       └──────────────────────┴─────────────────────┘ REBALANCE_IN_PROGRESS, an old generation, an unknown member id

After UNKNOWN_MEMBER_ID it gives up its partitions and joins as a new member; after ILLEGAL_GENERATION, with the same
member id. After FENCED_INSTANCE_ID it stops, because another process has its instance id. After other errors it joins
again.

`ConsumerProtocolConsumer` speaks the new protocol (KIP-848), in which one request joins, learns, acknowledges and
leaves:

    JOINING ──▶ RECONCILING ──▶ ACKNOWLEDGING ──▶ STABLE       each arrow is a ConsumerGroupHeartbeat or its response
       ▲             ▲                               │
       │             └──── a new assignment ─────────┤
       └──── FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID ─┘

The member gives back what it lost, takes what it got, and sends its partitions with the next heartbeat, at once. Only
then may another member have what was given back. A heartbeat repeats only what has changed since the last one; after an
error, it repeats all.

Simpler than Kafka: consumers commit only in `commit`, so not before they give partitions back, send one request at a
time and count records instead of reading them. `Consumer` supports only the eager protocol, in which a member gives up
all partitions before a rebalance. `ConsumerProtocolConsumer` reads the committed offsets before it acknowledges the new
partitions, and it has no poll timeout and no patterns.
Source: AbstractCoordinator, ConsumerCoordinator (3.9); AbstractMembershipManager, ConsumerMembershipManager,
ConsumerHeartbeatRequestManager (4.3.1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import Any, TypeVar

from kafkagroups.coordinator import messages
from kafkagroups.coordinator.assignors import GroupToAssign, TargetedMember, assign_range
from kafkagroups.coordinator.classic_members import write_assignment
from kafkagroups.coordinator.coordinator import GroupCoordinator
from kafkagroups.coordinator.messages import CommitErrors, Errors, ResponseFuture
from kafkagroups.groups.offsets import TopicPartition, group_by_topic
from kafkagroups.records.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicAndPartitions,
    VersionedMessage,
    decode_assignment,
    decode_subscription,
    encode_versioned,
)

NEWEST_LAYOUT_VERSION = 3
"""The version of the byte layout of subscriptions and assignments that Kafka's clients send since 3.5."""


def write_subscription(
    topics: Iterable[str],
    owned: Iterable[TopicPartition] = (),
    generation: int = -1,
    version: int = NEWEST_LAYOUT_VERSION,
) -> bytes:
    """Layout version 0 contains topics; 1 also owned partitions; 2 and 3 also the generation."""
    subscription = ConsumerProtocolSubscription(
        topics=tuple(sorted(topics)),
        owned_partitions=tuple(
            TopicAndPartitions(topic, tuple(numbers)) for topic, numbers in group_by_topic(owned).items()
        ),
        generation_id=generation,
    )
    return encode_versioned(VersionedMessage(version, subscription))


def read_assignment(assignment: bytes) -> list[TopicPartition]:
    """Return the partitions of an assignment. An assignment of 0 bytes has no partitions."""
    topics = decode_assignment(assignment).message.assigned_partitions if assignment else ()
    return [TopicPartition(entry.topic, number) for entry in topics for number in entry.partitions]


Result = TypeVar("Result")


class ConsumerState(Enum):
    """What the consumer does next. JOINING, and in the classic protocol SYNCING, send the request of this name. In the
    new protocol, the consumer has a new target in RECONCILING, and tells in ACKNOWLEDGING that it has reached it.
    """

    JOINING = "joining"
    SYNCING = "syncing"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    GONE = "gone"


@dataclass(eq=False)
class SimulatedConsumer(ABC):
    """A member of the group `group_id`, of any protocol.

    `waiting_for` is the name of the request that waits for its response, or "". `positions` has, for each assigned
    partition, the offset that the consumer reads next, and `committed` the offsets that the coordinator has confirmed
    as committed.
    """

    coordinator: GroupCoordinator
    group_id: str
    client_id: str
    topics: Sequence[str]
    partitions: Mapping[str, int]
    _: KW_ONLY
    group_instance_id: str | None = None
    rebalance_timeout_ms: int = 300_000
    member_id: str = ""
    generation: int = -1
    state: ConsumerState = ConsumerState.JOINING
    waiting_for: str = ""
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    _awaited: tuple[ResponseFuture[Any], Callable[[Any], None]] | None = None
    """The response to the newest request of `poll`, and what handles it."""

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        return tuple(self.positions)

    @abstractmethod
    def poll(self, records: int = 1) -> None:
        """Handle the responses that have arrived, send the next request, and read `records` records of each partition.

        While a request waits for its response, no other one is sent.
        """

    @abstractmethod
    def leave(self) -> None:
        """Close the consumer."""

    def request_commit(
        self, offsets: Mapping[TopicPartition, messages.OffsetCommit], generation: int | None = None
    ) -> ResponseFuture[CommitErrors]:
        """Commit offsets. `generation` is that of the member, unless it is given."""
        return self.coordinator.offset_commit(
            self.group_id,
            offsets,
            generation=self.generation if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
        )

    def commit(self) -> None:
        """Commit the positions. `committed` gets them when the coordinator has confirmed them."""
        if not self.assignment:
            return
        sent_offsets = dict(self.positions)

        def handle(errors: CommitErrors) -> None:
            self.committed |= {
                partition: sent_offsets[partition] for partition, error in errors.items() if error is Errors.NONE
            }
            first_error = next((error for error in errors.values() if error is not Errors.NONE), None)
            if first_error is not None and self.state is ConsumerState.STABLE:
                self._handle_commit_error(first_error)

        offsets = {partition: messages.OffsetCommit(offset) for partition, offset in sent_offsets.items()}
        self.request_commit(offsets).then(handle)

    def crash(self) -> None:
        """Stop without a request. Responses that arrive later are ignored."""
        self._ignore_earlier_responses()
        self.state = ConsumerState.GONE
        self.positions = {}

    def start(self) -> None:
        self.crash()
        self.state = ConsumerState.JOINING

    def connect(self, coordinator: GroupCoordinator) -> None:
        """Use another coordinator, with the same member id. A request that waits at the old one is lost."""
        self.coordinator = coordinator
        if self.waiting_for:
            self._send_again()

    @abstractmethod
    def _send_again(self) -> None:
        """Prepare to send the request that was lost with the coordinator."""

    def _handle_commit_error(self, error: Errors) -> None:  # noqa: B027
        """Handle the error of a commit of a Stable member."""

    def _await(self, response: ResponseFuture[Result], handle: Callable[[Result], None]) -> None:
        """Let a poll handle the response, unless the consumer meanwhile handles an error or crashes."""
        self._awaited = (response, handle)

    def _handle_response(self) -> None:
        if self._awaited is not None and self._awaited[0].done:
            response, handle = self._awaited
            self._awaited = None
            handle(response.value)

    def _ignore_earlier_responses(self) -> None:
        self._awaited = None
        self.waiting_for = ""


@dataclass(eq=False)
class Consumer(SimulatedConsumer):
    """A member that speaks the classic protocol (`group.protocol=classic`). The first of the `assignors` is the
    preferred one, but as a leader it always divides the partitions as `range` does. `protocol_version` is that of the
    byte layout of subscriptions and assignments.
    """

    assignors: Sequence[str] = ("range",)
    session_timeout_ms: int = 45_000
    protocol_version: int = NEWEST_LAYOUT_VERSION
    _join_result: messages.JoinGroupResult | None = None

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that the consumer reads now; empty if the state is not STABLE."""
        return tuple(self.positions) if self.state is ConsumerState.STABLE else ()

    @property
    def is_leader(self) -> bool:
        if self._join_result is None or self._join_result.skip_assignment:
            return False
        return bool(self._join_result.members)  # Only the leader receives the members.

    # What a real consumer does

    def poll(self, records: int = 1) -> None:
        """The poll that handles the response to the JoinGroup also sends the SyncGroup."""
        self._handle_response()
        if self.state is ConsumerState.SYNCING and not self.waiting_for:
            self._await(self.request_sync(), self.handle_sync)
            self._handle_response()
        if self.waiting_for:
            return
        if self.state is ConsumerState.JOINING:
            self._await(self.request_join(), self.handle_join)
        elif self.state is ConsumerState.STABLE:
            self.request_heartbeat()
            if self.state is ConsumerState.STABLE:
                self.positions = {partition: offset + records for partition, offset in self.positions.items()}

    def leave(self) -> None:
        """A static member sends no LeaveGroup, because it usually starts again soon."""
        if self.member_id and self.group_instance_id is None:
            self.request_leave()
        self.crash()

    def crash(self) -> None:
        super().crash()
        self.member_id = ""
        self.generation = -1

    # Single requests

    def request_join(self) -> ResponseFuture[messages.JoinGroupResult]:
        """Since version 2, the subscription has the partitions of now, which real sticky assignors read."""
        owned = tuple(self.positions) if self.protocol_version >= 2 else ()
        metadata = write_subscription(self.topics, owned, self.generation, self.protocol_version)
        self.waiting_for = "JoinGroup"
        return self.coordinator.join_group(
            self.group_id,
            protocols=[(name, metadata) for name in self.assignors],
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
        )

    def handle_join(self, result: messages.JoinGroupResult) -> None:
        self.waiting_for = ""
        if result.error is Errors.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
            self._send_again()
        elif result.error is not Errors.NONE:
            self._handle_error(result.error)
        else:
            self.member_id = result.member_id
            self.generation = result.generation
            self.state = ConsumerState.SYNCING
            self._join_result = result

    def request_sync(self) -> ResponseFuture[messages.SyncGroupResult]:
        self.waiting_for = "SyncGroup"
        join_result = self._join_result
        return self.coordinator.sync_group(
            self.group_id,
            self.generation,
            self.member_id,
            self._assign() if self.is_leader else {},
            group_instance_id=self.group_instance_id,
            protocol_type=join_result.protocol_type if join_result else None,
            protocol=join_result.protocol if join_result else None,
        )

    def handle_sync(self, result: messages.SyncGroupResult) -> None:
        """Each position starts at the committed offset, or else at 0."""
        self.waiting_for = ""
        if result.error is not Errors.NONE:
            self._handle_error(result.error)
            return
        partitions = read_assignment(result.assignment)
        fetched = self.coordinator.offset_fetch(self.group_id, partitions).value.offsets
        self.positions = {
            partition: max(fetched[partition].offset, 0) if partition in fetched else 0 for partition in partitions
        }
        self.state = ConsumerState.STABLE

    def request_heartbeat(self) -> ResponseFuture[Errors]:
        """An error is handled when it arrives; while the member joins, REBALANCE_IN_PROGRESS is ignored."""

        def handle(error: Errors) -> None:
            is_joining = bool(self.waiting_for) or self.state is ConsumerState.SYNCING
            is_ignored = is_joining and error is Errors.REBALANCE_IN_PROGRESS
            if error is not Errors.NONE and not is_ignored and self.state is not ConsumerState.GONE:
                self._handle_error(error)

        response = self.coordinator.heartbeat(
            self.group_id, self.generation, self.member_id, group_instance_id=self.group_instance_id
        )
        response.then(handle)
        return response

    def request_leave(self) -> ResponseFuture[messages.LeaveGroupResult]:
        return self.coordinator.leave_group(
            self.group_id, [messages.MemberIdentity(self.member_id, self.group_instance_id)]
        )

    def _assign(self) -> dict[str, bytes]:
        members = {}
        for member in self._join_result.members if self._join_result else ():
            topics = decode_subscription(member.metadata).message.topics
            existing = tuple(topic for topic in sorted(topics) if topic in self.partitions)
            members[member.member_id] = TargetedMember(member.group_instance_id, existing)
        targets = assign_range(GroupToAssign(members, self.partitions, has_same_topics=False, assigned=frozenset()))
        return {member_id: write_assignment(target, self.protocol_version) for member_id, target in targets.items()}

    def _handle_error(self, error: Errors) -> None:
        if error is Errors.FENCED_INSTANCE_ID:
            super().crash()
            return
        if error in (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION):
            # The group has removed this member or has a newer generation. Other members may have its partitions now.
            self.generation = -1
            self.positions = {}
        if error is Errors.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self._send_again()

    def _handle_commit_error(self, error: Errors) -> None:
        self._handle_error(error)

    def _send_again(self) -> None:
        self._ignore_earlier_responses()
        self.state = ConsumerState.JOINING

    def _ignore_earlier_responses(self) -> None:
        super()._ignore_earlier_responses()
        self._join_result = None


_REJOIN_ERRORS = (Errors.FENCED_MEMBER_EPOCH, Errors.UNKNOWN_MEMBER_ID)
_RETRY_ERRORS = (Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR)


@dataclass(eq=False)
class ConsumerProtocolConsumer(SimulatedConsumer):
    """A member that speaks the new protocol (`group.protocol=consumer`), with the same verbs as `Consumer`.

    assignor            the assignor of the broker that the member prefers (`group.remote.assignor`); None: the broker's
    member_id           chosen by the consumer when it starts, and kept when it joins again
    member_epoch        0 while the consumer is not a member
    target              the partitions that the coordinator wants the member to have
    """

    assignor: str | None = None
    member_epoch: int = messages.JOIN_EPOCH
    target: tuple[TopicPartition, ...] = ()
    _topic_ids: dict[str, str] = field(default_factory=dict)
    _sent: dict[str, Any] = field(default_factory=dict)
    """The fields of earlier heartbeats, which the next one repeats only if they have changed."""
    _interval_ms: int = 0
    _next_heartbeat_ms: int = 0

    def __post_init__(self) -> None:
        self.member_id = self.member_id or self.coordinator.new_member_id(self.client_id)

    # What a real consumer does

    def poll(self, records: int = 1) -> None:
        self._handle_response()
        if self.state is ConsumerState.GONE:
            return
        if self.state is ConsumerState.RECONCILING:
            self._reconcile()
        is_urgent = self.state in (ConsumerState.JOINING, ConsumerState.ACKNOWLEDGING)
        if not self.waiting_for and (is_urgent or self.coordinator.clock.now_ms >= self._next_heartbeat_ms):
            self._await(self.request_heartbeat(), self.handle_heartbeat)
        self.positions = {partition: offset + records for partition, offset in self.positions.items()}

    def leave(self) -> None:
        """A static member leaves for a restart: until its session ends, it keeps its partitions."""
        if self.state is not ConsumerState.GONE:
            self._heartbeat(messages.LEAVE_EPOCH if self.group_instance_id is None else messages.LEAVE_STATIC_EPOCH)
        self.crash()

    def crash(self) -> None:
        super().crash()
        self._forget_membership()

    def start(self) -> None:
        super().start()
        self.member_id = self.coordinator.new_member_id(self.client_id)

    # Single requests

    def request_heartbeat(self) -> ResponseFuture[messages.ConsumerHeartbeatResult]:
        """Send a heartbeat, which acknowledges the partitions that were taken."""
        owned = group_by_topic(sorted(self.positions))
        fields = {
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "subscribed_topic_names": sorted(set(self.topics)),
            "server_assignor": self.assignor,
            "topic_partitions": {self._topic_ids[topic]: numbers for topic, numbers in owned.items()},
        }
        changed = {name: value for name, value in fields.items() if name not in self._sent or self._sent[name] != value}
        self._sent |= changed
        if self.state is ConsumerState.ACKNOWLEDGING:
            self.state = ConsumerState.STABLE
        self.waiting_for = "ConsumerGroupHeartbeat"
        self._next_heartbeat_ms = self.coordinator.clock.now_ms + self._interval_ms
        return self._heartbeat(self.member_epoch, **changed)

    def handle_heartbeat(self, result: messages.ConsumerHeartbeatResult) -> None:
        self.waiting_for = ""
        if result.error is not Errors.NONE:
            self._handle_error(result.error)
            return
        self.member_epoch = result.member_epoch
        self._interval_ms = result.heartbeat_interval_ms
        if result.assignment is not None:
            names = {topic_id: name for name, topic_id in self.coordinator.validator.topic_ids.items()}
            self._topic_ids |= {names[topic_id]: topic_id for topic_id in result.assignment if topic_id in names}
            self.target = tuple(
                TopicPartition(names[topic_id], number)
                for topic_id, numbers in result.assignment.items()
                for number in numbers
                if topic_id in names
            )
            has_target = self.state is not ConsumerState.JOINING and set(self.target) == set(self.positions)
            self.state = ConsumerState.STABLE if has_target else ConsumerState.RECONCILING

    def request_commit(
        self, offsets: Mapping[TopicPartition, messages.OffsetCommit], generation: int | None = None
    ) -> ResponseFuture[CommitErrors]:
        return super().request_commit(offsets, self.member_epoch if generation is None else generation)

    def _heartbeat(self, epoch: int, **fields: Any) -> ResponseFuture[messages.ConsumerHeartbeatResult]:
        return self.coordinator.consumer_group_heartbeat(
            self.group_id,
            self.member_id,
            epoch,
            instance_id=self.group_instance_id,
            client_id=self.client_id,
            **fields,
        )

    def _reconcile(self) -> None:
        """Give back what is not in the target, and start in the new partitions at the committed offsets, or else at 0.

        If the offsets cannot be read, the next heartbeat tells why.
        """
        new = [partition for partition in self.target if partition not in self.positions]
        fetched = self.coordinator.offset_fetch(
            self.group_id, new, member_id=self.member_id, member_epoch=self.member_epoch
        ).value
        if fetched.error is not Errors.NONE:
            return
        kept = {partition: self.positions[partition] for partition in self.target if partition in self.positions}
        self.positions = kept | {partition: max(fetched.offsets[partition].offset, 0) for partition in new}
        self._sent.pop("topic_partitions", None)
        self.state = ConsumerState.ACKNOWLEDGING

    def _handle_error(self, error: Errors) -> None:
        if error in _RETRY_ERRORS:
            self._send_again()
        elif error in _REJOIN_ERRORS:
            # Another member may have the partitions already.
            self._forget_membership()
            self.positions = {}
            self.state = ConsumerState.JOINING
        else:
            self.crash()

    def _send_again(self) -> None:
        self._ignore_earlier_responses()
        self._sent = {}
        self._next_heartbeat_ms = self.coordinator.clock.now_ms

    def _forget_membership(self) -> None:
        self.member_epoch = messages.JOIN_EPOCH
        self.target = ()
        self._sent = {}
