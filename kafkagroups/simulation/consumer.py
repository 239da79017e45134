"""A small consumer of a group: what Kafka's client does between `subscribe` and `close`, without reading a record.

    Joining ──JoinGroup──▶ Syncing ──SyncGroup──▶ Stable: heartbeats, commits
       ▲                      │                     │
       └──────────────────────┴─────────────────────┘ REBALANCE_IN_PROGRESS, an old generation, an unknown member id

`poll` deals with the answers that have come, then does the next step; while a request hangs it does nothing. As in
Kafka's client an error decides what is kept: an unknown member comes again as a new one, a fenced one is gone.

Simpler than Kafka: the eager protocol only (everything is given up before a rebalance), one request at a time, and a
consumer reads `records` at each poll and commits when told.
Source: AbstractCoordinator.java, ConsumerCoordinator.java (3.9).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from kafkagroups.coordinator import Errors, GroupCoordinator, OffsetCommit
from kafkagroups.coordinator.results import CommitErrors, JoinGroupResult, SyncGroupResult
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    Embedded,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_embedded,
)
from kafkagroups.simulation.assignors import ASSIGNORS, Subscriber

R = TypeVar("R")
VERSION = 3
"""Of the bytes of subscriptions and assignments, since 3.5."""


class ConsumerState(Enum):
    JOINING = "joining"
    WAITING = "waiting for an answer"
    STABLE = "stable"
    GONE = "gone"


@dataclass(eq=False)
class Consumer:
    """A member of `group_id`. `partitions` are the topics' partition counts, `positions` where it reads next."""

    coordinator: GroupCoordinator
    group_id: str
    client_id: str
    topics: Sequence[str]
    partitions: Mapping[str, int]
    assignors: Sequence[str] = ("range",)
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    member_id: str = ""
    generation: int = -1
    state: ConsumerState = ConsumerState.JOINING
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    """What the coordinator has confirmed to this consumer."""
    _answers: list[Callable[[], None]] = field(default_factory=list)
    _life: int = 0

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        return tuple(self.positions) if self.state is ConsumerState.STABLE else ()

    def poll(self, records: int = 1) -> None:
        """The next step: joins, syncs, or sends a heartbeat and reads on."""
        while self._answers:
            self._answers.pop(0)()
        if self.state is ConsumerState.JOINING:
            self._join()
        elif self.state is ConsumerState.STABLE:
            error = self.coordinator.heartbeat(
                self.group_id, self.generation, self.member_id, group_instance_id=self.group_instance_id
            )
            if error is Errors.NONE:
                self.positions = {each: offset + records for each, offset in self.positions.items()}
            else:
                self._failed(error)

    def commit(self) -> None:
        """Commits all positions, once it has an assignment."""
        if self.state is ConsumerState.STABLE and self.positions:
            sent, life = dict(self.positions), self._life
            offsets = {each: OffsetCommit(offset) for each, offset in sent.items()}

            def answered(errors: CommitErrors) -> None:
                self.committed |= {each: sent[each] for each, error in errors.items() if error is Errors.NONE}
                failed = next((error for error in errors.values() if error is not Errors.NONE), None)
                if failed is not None and life == self._life and self.state is ConsumerState.STABLE:
                    self._failed(failed)

            self.coordinator.offset_commit(
                self.group_id, offsets, generation=self.generation, member_id=self.member_id,
                group_instance_id=self.group_instance_id,
            ).then(answered)  # fmt: skip

    def leave(self) -> None:
        """Closes in order. A static member says nothing: it is to come back."""
        if self.member_id and self.group_instance_id is None:
            self.coordinator.leave_group(self.group_id, [self.member_id])
        self.crash()

    def crash(self) -> None:
        """Is gone without a word, and hears no answer any more."""
        self._life += 1
        self.state, self.positions, self.member_id, self.generation = ConsumerState.GONE, {}, "", -1

    def start(self) -> None:
        """Comes (back) as a new member."""
        self.crash()
        self.state = ConsumerState.JOINING

    def connect(self, coordinator: GroupCoordinator) -> None:
        """Another coordinator is the group's: what hung at the old one is lost, the member id is not."""
        self.coordinator = coordinator
        if self.state is ConsumerState.WAITING:
            self._rejoin()

    def _join(self) -> None:
        subscription = ConsumerProtocolSubscription(
            topics=tuple(sorted(self.topics)),
            owned_partitions=_grouped(self.positions),
            generation_id=self.generation,
        )
        metadata = encode_embedded(Embedded(VERSION, subscription))
        self.state = ConsumerState.WAITING
        self.coordinator.join_group(
            self.group_id,
            protocols=[(name, metadata) for name in self.assignors],
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
        ).then(self._later(self._joined))

    def _joined(self, result: JoinGroupResult) -> None:
        if result.error is Errors.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
            self._rejoin()
        elif result.error is not Errors.NONE:
            self._failed(result.error)
        else:
            self.member_id, self.generation = result.member_id, result.generation
            self._sync(result)

    def _sync(self, joined: JoinGroupResult) -> None:
        leads = joined.members and not joined.skip_assignment
        assignments = self._assign(joined) if leads else {}
        self.coordinator.sync_group(
            self.group_id, joined.generation, joined.member_id, assignments,
            group_instance_id=self.group_instance_id, protocol_type=joined.protocol_type, protocol=joined.protocol,
        ).then(self._later(self._synced))  # fmt: skip

    def _synced(self, result: SyncGroupResult) -> None:
        if result.error is not Errors.NONE:
            self._failed(result.error)
            return
        assigned = decode_assignment(result.assignment).message.assigned_partitions if result.assignment else ()
        mine = [TopicPartition(each.topic, n) for each in assigned for n in each.partitions]
        stored = self.coordinator.offset_fetch(self.group_id, mine).offsets
        self.positions = {each: max(stored[each].offset, 0) if each in stored else 0 for each in mine}
        self.state = ConsumerState.STABLE

    def _assign(self, joined: JoinGroupResult) -> dict[str, bytes]:
        """The leader's work: everybody's subscription read, the chosen assignor run."""
        members = []
        for each in joined.members:
            said = decode_subscription(each.metadata).message
            owned = [TopicPartition(its.topic, n) for its in said.owned_partitions for n in its.partitions]
            members.append(Subscriber(each.member_id, said.topics, each.group_instance_id, owned))
        assigned = ASSIGNORS[joined.protocol or ""](members, self.partitions)
        return {
            member_id: encode_embedded(Embedded(VERSION, ConsumerProtocolAssignment(_grouped(partitions))))
            for member_id, partitions in assigned.items()
        }

    def _failed(self, error: Errors) -> None:
        if error is Errors.FENCED_INSTANCE_ID:
            self.crash()
            return
        if error in (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION):
            self.generation, self.positions = -1, {}  # what it owned may be somebody else's by now
        if error is Errors.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self._rejoin()

    def _later(self, answered: Callable[[R], None]) -> Callable[[R], None]:
        """Deals with an answer at the next poll, as a network does, unless another life has begun by then."""
        self._life += 1
        life = self._life

        def arrived(result: R) -> None:
            self._answers.append(lambda: answered(result) if life == self._life else None)

        return arrived

    def _rejoin(self) -> None:
        self._life += 1
        self.state = ConsumerState.JOINING


def _grouped(partitions: Mapping[TopicPartition, int] | Sequence[TopicPartition]) -> tuple[TopicPartitions, ...]:
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each.partition)
    return tuple(TopicPartitions(topic, tuple(numbers)) for topic, numbers in topics.items())
