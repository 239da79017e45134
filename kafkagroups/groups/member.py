"""One member of a classic group, as its group record describes it, and its subscription."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkagroups.errors import InvalidRecord
from kafkagroups.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    VersionedMessage,
    decode_assignment,
    decode_subscription,
)
from kafkagroups.records.structs import reader


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a classic group after a load.

    Timeouts are in ms. `group_instance_id` is None for a dynamic member. The member sent `subscription_bytes` in its
    JoinGroup request. The leader sent `assignment_bytes` in its SyncGroup request.
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
    def subscription(self) -> VersionedMessage[ConsumerProtocolSubscription] | None:
        """The decoded subscription; None if the member is not a consumer, or if the bytes cannot be decoded."""
        if self.protocol_type != "consumer":
            return None
        try:
            return decode_subscription(self.subscription_bytes)
        except InvalidRecord:
            return None

    @property
    def assignment(self) -> VersionedMessage[ConsumerProtocolAssignment] | None:
        """The decoded assignment; None if the member is not a consumer, or if the bytes cannot be decoded."""
        if self.protocol_type != "consumer":
            return None
        try:
            return decode_assignment(self.assignment_bytes)
        except InvalidRecord:
            return None


_VERSION_BYTES = 2
"""The size, in bytes, of the version number at the start of a subscription."""
_read_oldest_layout = reader(ConsumerProtocolSubscription, 0)


def find_unreadable_subscription(subscriptions: Iterable[tuple[str, bytes]]) -> str | None:
    """Return the problem if a subscription makes the load fail (up to Kafka 4.3), otherwise None.

    `subscriptions` are pairs of a member id and the bytes of the member's subscription. The coordinator reads them in
    the given order, with the layout of version 0:

    - The bytes of a subscription end too early: the coordinator stops reading and loads the group.
    - Any other problem: the load fails.

    Source: GroupMetadata.computeSubscribedTopics (2.7 to 3.9); ClassicGroup.computeSubscribedTopics (4.3.1).
    """
    for member_id, data in subscriptions:
        if len(data) < _VERSION_BYTES:
            return None
        try:
            _read_oldest_layout(data, _VERSION_BYTES)
        except InvalidRecord as error:
            # `InvalidRecord.cause` (errors.py) is empty if the bytes end too early.
            ends_too_early = not error.cause
            return None if ends_too_early else f"the subscription of {member_id} cannot be read: {error}"
    return None


def read_subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics in these subscriptions; None if a subscription cannot be decoded."""
    topics: set[str] = set()
    for data in subscriptions:
        try:
            topics.update(_read_oldest_layout(data, _VERSION_BYTES)[0].topics)
        except InvalidRecord:
            return None
    return frozenset(topics)
