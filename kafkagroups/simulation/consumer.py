"""A simulated consumer: what a Kafka client sends between `subscribe` and `close`.

    JOINING ──JoinGroup──▶ SYNCING ──SyncGroup──▶ STABLE: heartbeats, commits
       ▲                      │                     │
       └──────────────────────┴─────────────────────┘ REBALANCE_IN_PROGRESS, an old generation, an unknown member id

There are two ways to drive it:

- `poll` handles the responses that have come and takes the next step. While a request waits for its response, it does
  nothing.
- `request_join`, `request_sync` and `request_heartbeat` send one request. The caller passes the responses to
  `handle_join` and `handle_sync`.

As in Kafka's client, the error decides what the consumer keeps. A member with an unknown id joins as a new member, and
a fenced member stops.

Simpler than Kafka: it has only the eager protocol (a member gives up all partitions before a rebalance), it sends one
request at a time, it counts records instead of reading them, and it commits only when `commit` is called.
Source: AbstractCoordinator.java, ConsumerCoordinator.java (3.9).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from kafkagroups.coordinator import Errors, GroupCoordinator, MemberIdentity, OffsetCommit, ResponseFuture
from kafkagroups.coordinator.results import CommitErrors, JoinGroupResult, LeaveGroupResult, SyncGroupResult
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.simulation.assignors import ASSIGNORS, Subscriber
from kafkagroups.simulation.member_bytes import (
    NEWEST_VERSION,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)

R = TypeVar("R")


class ConsumerState(Enum):
    """What the consumer does next: join, sync, or heartbeats. A GONE consumer sends nothing."""

    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    GONE = "gone"


@dataclass(eq=False)
class Consumer:
    """A member of the group `group_id`.

    `partitions` are the partition counts of the topics, and `positions` the offsets that the consumer reads next.
    `committed` are the offsets whose commit the coordinator confirmed to this consumer. `waiting_for` is the request
    that waits for its response ("JoinGroup", "SyncGroup" or ""). `protocol_version` is the version of the bytes for
    subscriptions and assignments.
    """

    coordinator: GroupCoordinator
    group_id: str
    client_id: str
    topics: Sequence[str]
    partitions: Mapping[str, int]
    assignors: Sequence[str] = ("range",)
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    protocol_version: int = NEWEST_VERSION
    member_id: str = ""
    generation: int = -1
    state: ConsumerState = ConsumerState.JOINING
    waiting_for: str = ""
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    _joined: JoinGroupResult | None = None
    _responses: list[Callable[[], None]] = field(default_factory=list)
    _session: int = 0

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that the consumer reads now."""
        return tuple(self.positions) if self.state is ConsumerState.STABLE else ()

    @property
    def is_leader(self) -> bool:
        """Whether the consumer must send assignments with its next SyncGroup."""
        return self._joined is not None and bool(self._joined.members) and not self._joined.skip_assignment

    # Steps that a computer takes

    def poll(self, records: int = 1) -> None:
        """Take the next step: join, or send a heartbeat and read `records` records of each partition.

        The SyncGroup follows in the poll that handles the response to the JoinGroup.
        """
        self._handle_responses()
        if self.state is ConsumerState.SYNCING and not self.waiting_for:
            self.request_sync().then(self._defer(self.handle_sync))
            self._handle_responses()
        if self.waiting_for:
            return
        if self.state is ConsumerState.JOINING:
            self.request_join().then(self._defer(self.handle_join))
        elif self.state is ConsumerState.STABLE and self.request_heartbeat() is Errors.NONE:
            self.positions = {partition: offset + records for partition, offset in self.positions.items()}

    def commit(self) -> None:
        """Commit all positions, if the consumer has an assignment."""
        if not self.assignment:
            return
        sent = dict(self.positions)
        session = self._session

        def handle(errors: CommitErrors) -> None:
            self.committed |= {each: sent[each] for each, error in errors.items() if error is Errors.NONE}
            failed = next((error for error in errors.values() if error is not Errors.NONE), None)
            if failed is not None and session == self._session and self.state is ConsumerState.STABLE:
                self._handle_error(failed)

        self.request_commit({partition: OffsetCommit(offset) for partition, offset in sent.items()}).then(handle)

    def leave(self) -> None:
        """Close the consumer. A static member sends no LeaveGroup, because it is expected to return."""
        if self.member_id and self.group_instance_id is None:
            self.request_leave()
        self.crash()

    def crash(self) -> None:
        """Stop without a request. Responses that come later are ignored."""
        self._end_session()
        self.state = ConsumerState.GONE
        self.positions = {}
        self.member_id = ""
        self.generation = -1

    def start(self) -> None:
        """Start (again) as a new member."""
        self.crash()
        self.state = ConsumerState.JOINING

    def connect(self, coordinator: GroupCoordinator) -> None:
        """Use another coordinator. A request that waited at the old one is lost, but the member id is kept."""
        self.coordinator = coordinator
        if self.waiting_for:
            self._join_again()

    # Single requests

    def request_join(self) -> ResponseFuture[JoinGroupResult]:
        """Send a JoinGroup. From version 2 on, the subscription contains the partitions that the member owned.

        The sticky assignor reads them.
        """
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

    def handle_join(self, result: JoinGroupResult) -> None:
        """Take over the response to a JoinGroup."""
        self.waiting_for = ""
        if result.error is Errors.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
            self._join_again()
        elif result.error is not Errors.NONE:
            self._handle_error(result.error)
        else:
            self.member_id = result.member_id
            self.generation = result.generation
            self.state = ConsumerState.SYNCING
            self._joined = result

    def request_sync(self) -> ResponseFuture[SyncGroupResult]:
        """Send a SyncGroup, as the leader with the assignments of all members."""
        self.waiting_for = "SyncGroup"
        joined = self._joined
        return self.coordinator.sync_group(
            self.group_id,
            self.generation,
            self.member_id,
            self._assign() if self.is_leader else {},
            group_instance_id=self.group_instance_id,
            protocol_type=joined.protocol_type if joined else None,
            protocol=joined.protocol if joined else None,
        )

    def handle_sync(self, result: SyncGroupResult) -> None:
        """Take over the response to a SyncGroup. The positions begin at the committed offsets, or at 0."""
        self.waiting_for = ""
        if result.error is not Errors.NONE:
            self._handle_error(result.error)
            return
        partitions = read_assignment(result.assignment)
        stored = self.coordinator.offset_fetch(self.group_id, partitions).offsets
        self.positions = {each: max(stored[each].offset, 0) if each in stored else 0 for each in partitions}
        self.state = ConsumerState.STABLE

    def request_heartbeat(self) -> Errors:
        """Send a Heartbeat and handle its error.

        While a request waits, or before the SyncGroup, REBALANCE_IN_PROGRESS changes nothing: the member joins already.
        """
        error = self.coordinator.heartbeat(
            self.group_id, self.generation, self.member_id, group_instance_id=self.group_instance_id
        )
        joins_already = bool(self.waiting_for) or self.state is ConsumerState.SYNCING
        if error is not Errors.NONE and not (joins_already and error is Errors.REBALANCE_IN_PROGRESS):
            self._handle_error(error)
        return error

    def request_commit(
        self, offsets: Mapping[TopicPartition, OffsetCommit], generation: int | None = None
    ) -> ResponseFuture[CommitErrors]:
        """Send an OffsetCommit, with the member's generation or another one."""
        return self.coordinator.offset_commit(
            self.group_id,
            offsets,
            generation=self.generation if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
        )

    def request_leave(self) -> LeaveGroupResult:
        """Send a LeaveGroup."""
        return self.coordinator.leave_group(self.group_id, [MemberIdentity(self.member_id, self.group_instance_id)])

    def _assign(self) -> dict[str, bytes]:
        """Run the group's assignor, as its leader does, and return the assignments by member id."""
        if self._joined is None:
            return {}
        members = []
        for member in self._joined.members:
            topics, owned = read_subscription(member.metadata)
            members.append(Subscriber(member.member_id, topics, member.group_instance_id, owned))
        assigned = ASSIGNORS[self._joined.protocol or ""](members, self.partitions)
        return {
            member_id: write_assignment(partitions, self.protocol_version) for member_id, partitions in assigned.items()
        }

    def _handle_error(self, error: Errors) -> None:
        if error is Errors.FENCED_INSTANCE_ID:
            self._end_session()
            self.state = ConsumerState.GONE
            self.positions = {}
            return
        if error in (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION):
            # Another member may own the partitions by now.
            self.generation = -1
            self.positions = {}
        if error is Errors.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self._join_again()

    def _handle_responses(self) -> None:
        while self._responses:
            handle = self._responses.pop(0)
            handle()

    def _defer(self, handle: Callable[[R], None]) -> Callable[[R], None]:
        """Return a callback that handles a response at the next poll, unless another session has begun by then."""
        self._session += 1
        session = self._session

        def handle_in_session(result: R) -> None:
            if session == self._session:
                handle(result)

        return lambda result: self._responses.append(lambda: handle_in_session(result))

    def _join_again(self) -> None:
        self._end_session()
        self.state = ConsumerState.JOINING

    def _end_session(self) -> None:
        """Ignore responses that have not come yet."""
        self._session += 1
        self.waiting_for = ""
        self._joined = None
