"""One member of a classic group, as the last group record describes it, and its subscription."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkagroups.errors import InvalidRecord
from kafkagroups.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    Embedded,
    decode_assignment,
    decode_subscription,
)
from kafkagroups.records.structs import reader


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a classic group.

    Timeouts are in ms. `subscription_bytes` are the bytes of JoinGroup, `assignment_bytes` those of SyncGroup.
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
    def subscription(self) -> Embedded[ConsumerProtocolSubscription] | None:
        """What the member subscribed to; None if it is not a consumer or its bytes cannot be read."""
        if self.protocol_type != "consumer":
            return None
        try:
            return decode_subscription(self.subscription_bytes)
        except InvalidRecord:
            return None

    @property
    def assignment(self) -> Embedded[ConsumerProtocolAssignment] | None:
        """What the member was assigned; None if it is not a consumer or its bytes cannot be read."""
        if self.protocol_type != "consumer":
            return None
        try:
            return decode_assignment(self.assignment_bytes)
        except InvalidRecord:
            return None


def find_unreadable_subscription(subscriptions: Iterable[tuple[str, bytes]]) -> str | None:
    """Return why a coordinator up to Kafka 4.3 cannot read the members' subscriptions; None if it can.

    It reads them in the given order, each in its oldest layout. If the bytes of one end too early, the coordinator
    stops reading and loads the group. Anything else that is wrong fails the load.
    Source: computeSubscribedTopics of GroupMetadata (2.7 to 3.9) and ClassicGroup (4.3.1).
    """
    for member_id, data in subscriptions:
        if len(data) < 2:
            return None
        try:
            _read_oldest(data, 2)
        except InvalidRecord as error:
            return f"the subscription of {member_id} cannot be read: {error}" if error.cause else None
    return None


_read_oldest = reader(ConsumerProtocolSubscription, 0)


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics that a group's consumers subscribed to; None if the bytes of one cannot be read."""
    topics: set[str] = set()
    for data in subscriptions:
        try:
            topics.update(_read_oldest(data, 2)[0].topics)
        except InvalidRecord:
            return None
    return frozenset(topics)
