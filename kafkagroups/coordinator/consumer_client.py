"""A simulated consumer of the new protocol (KIP-848): one request joins, learns, acknowledges and leaves.

    JOINING ──▶ RECONCILING ──▶ ACKNOWLEDGING ──▶ STABLE       each arrow is a ConsumerGroupHeartbeat or its response
       ▲             ▲                               │
       │             └──── a new assignment ─────────┤
       └──── FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID ─┘

The member gives back what it lost, takes what it got, and sends its partitions with the next heartbeat, at once. Only
then may another member have what was given back. A heartbeat repeats only what has changed since the last one; after an
error, it repeats all.

Simpler than Kafka: the consumer commits only in `commit`, so not before it gives partitions back. It reads the
committed offsets before it acknowledges the new partitions, and it has no poll timeout and no patterns.
Source: AbstractMembershipManager, ConsumerMembershipManager, ConsumerHeartbeatRequestManager (4.3.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.coordinator import messages
from kafkagroups.coordinator.messages import CommitErrors, Errors, ResponseFuture
from kafkagroups.coordinator.simulated_consumers import ConsumerState, SimulatedConsumer
from kafkagroups.groups.offsets import TopicPartition

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
        fields = {
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "subscribed_topic_names": sorted(set(self.topics)),
            "server_assignor": self.assignor,
            "topic_partitions": self._partitions_by_topic_id(),
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

    def _partitions_by_topic_id(self) -> dict[str, list[int]]:
        numbers_by_topic: dict[str, list[int]] = {}
        for topic, number in sorted(self.positions):
            numbers_by_topic.setdefault(self._topic_ids[topic], []).append(number)
        return numbers_by_topic

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
