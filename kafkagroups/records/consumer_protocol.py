"""The subscription and the assignment of a classic member: bytes that only clients read.

A member sends its subscription in a JoinGroup request. The group's leader, one of the members, computes the assignments
and sends them in a SyncGroup request. The broker stores subscriptions and assignments as bytes in the group record
(group_metadata.py). These bytes are an int16 version, then the fields below. Trailing bytes are ignored.

    negative version    refused
    version above 3     read like version 3

Only consumers use this format; the members of Kafka Connect's groups, for example, have another one.
Source (4.3.1): ConsumerProtocolSubscription.json; ConsumerProtocolAssignment.json; ConsumerProtocol.java.
"""

from __future__ import annotations

import struct
from typing import Any, Generic, NamedTuple, TypeVar

from kafkagroups.errors import InvalidRecord, UsageError
from kafkagroups.records.structs import Message, field, read_message, write_message
from kafkagroups.records.wire import BYTES, INT16, INT32, STRING, Array

HIGHEST_VERSION = 3
"""The highest version of subscriptions and assignments in Kafka 4.3.1."""


class TopicAndPartitions(Message):
    """A topic with the numbers of some of its partitions."""

    topic: str = field(STRING, "the topic's name")
    partitions: tuple[int, ...] = field(Array(INT32), "the numbers of its partitions")


class ConsumerProtocolSubscription(Message):
    """A member's subscription.

    Version 1 was added by KIP-429, and version 3 by KIP-881. `generation_id` -1 means "unknown".
    """

    topics: tuple[str, ...] = field(Array(STRING), "the topics that the member wants to read")
    user_data: bytes | None = field(
        BYTES, "bytes for the client's assignor, the code that computes assignments", default=None
    )
    owned_partitions: tuple[TopicAndPartitions, ...] = field(
        TopicAndPartitions, "the partitions that the member has when it joins again", versions="1+"
    )
    generation_id: int = field(
        INT32, "the generation in which the member got these partitions", versions="2+", default=-1
    )
    rack_id: str | None = field(STRING, "the rack where the client runs", versions="3+", default=None)


class ConsumerProtocolAssignment(Message):
    """The partitions that the leader assigned to a member."""

    assigned_partitions: tuple[TopicAndPartitions, ...] = field(
        TopicAndPartitions, "the partitions that the member may read"
    )
    user_data: bytes | None = field(BYTES, "bytes of the client's assignor", default=None)


E = TypeVar("E", bound=Message)


class VersionedMessage(NamedTuple, Generic[E]):
    """A subscription or an assignment (`message`) with the version that is stored before its fields (`version`)."""

    version: int
    message: E


def decode_subscription(data: bytes) -> VersionedMessage[ConsumerProtocolSubscription]:
    """Return the subscription in a member's field `subscription` of a group record, with its version.

    Raises InvalidRecord if Kafka's ConsumerProtocol refuses the bytes.
    Source: ConsumerProtocol.deserializeSubscription (4.3.1).

    >>> decode_subscription(bytes.fromhex("0000 00000001 0006 6f7264657273 ffffffff")).message.topics
    ('orders',)
    """
    return _decode(data, ConsumerProtocolSubscription, "subscription")


def decode_assignment(data: bytes) -> VersionedMessage[ConsumerProtocolAssignment]:
    """Return the assignment in a member's field `assignment` of a group record, with its version.

    Raises InvalidRecord if Kafka's ConsumerProtocol refuses the bytes.
    Source: ConsumerProtocol.deserializeAssignment (4.3.1).

    >>> data = bytes.fromhex("0000 00000001 0006 6f7264657273 00000001 00000002 ffffffff")
    >>> decode_assignment(data).message.assigned_partitions
    (TopicAndPartitions(topic='orders', partitions=(2,)),)
    """
    return _decode(data, ConsumerProtocolAssignment, "assignment")


def encode_versioned(versioned: VersionedMessage[Any]) -> bytes:
    """Raises UsageError if the version is negative or not an int16, or if a field cannot be written."""
    version = INT16.check(versioned.version)
    if version < 0:
        raise UsageError(f"expected a version of 0 or above, found {version}", field="version")
    out = bytearray(struct.pack(">h", version))
    write_message(out, versioned.message, type(versioned.message), min(version, HIGHEST_VERSION))
    return bytes(out)


def _decode(data: bytes, cls: type[E], field_name: str) -> VersionedMessage[E]:
    if len(data) < 2:
        raise InvalidRecord(f"expected a version of 2 bytes, found {len(data)} bytes", field=field_name)
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise InvalidRecord(f"expected a version of 0 or above, found {version}", field=field_name)
    decoded, _ = read_message(cls, data, 2, min(version, HIGHEST_VERSION))
    return VersionedMessage(version, decoded)
