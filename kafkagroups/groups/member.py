"""One member of a classic group, as the last group record describes it."""

from __future__ import annotations

from dataclasses import dataclass

from kafkagroups.errors import InvalidRecord
from kafkagroups.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    Embedded,
    decode_assignment,
    decode_subscription,
)


@dataclass(frozen=True, slots=True)
class Member:
    """A member. Timeouts in ms; `subscription_bytes` and `assignment_bytes` as JoinGroup and SyncGroup carried them."""

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
    def subscription(self) -> Embedded[ConsumerProtocolSubscription] | None:
        """What the member subscribed to; None when it is no consumer or its bytes cannot be read."""
        if self.protocol_type != "consumer":
            return None
        try:
            return decode_subscription(self.subscription_bytes)
        except InvalidRecord:
            return None

    @property
    def assignment(self) -> Embedded[ConsumerProtocolAssignment] | None:
        """What the member was assigned; None when it is no consumer or its bytes cannot be read."""
        if self.protocol_type != "consumer":
            return None
        try:
            return decode_assignment(self.assignment_bytes)
        except InvalidRecord:
            return None
