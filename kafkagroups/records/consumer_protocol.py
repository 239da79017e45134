"""The bytes inside a member: what it subscribed to, and what it was assigned.

JoinGroup carries the subscription, SyncGroup the assignment; the broker stores both without reading them. int16
version, then the fields below. A version above 3 is read as 3, a negative one is refused, trailing bytes are
ignored. Only members of protocol type "consumer" follow this form.
Source: ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json, ConsumerProtocol.java (4.3.1).
"""

from __future__ import annotations

import struct
from typing import Any, Generic, NamedTuple, TypeVar

from kafkagroups.errors import InvalidRecord
from kafkagroups.records.fields import Message, field, message
from kafkagroups.records.structs import Struct, reader, writer
from kafkagroups.records.wire import BYTES, INT32, STRING, Array

HIGHEST_VERSION = 3


@message()
class TopicPartitions(Message):
    topic: str = field(STRING)
    partitions: tuple[int, ...] = field(Array(INT32))


@message()
class ConsumerProtocolSubscription(Message):
    """version 1 brought owned_partitions (KIP-429), 2 generation_id, 3 rack_id (KIP-881)."""

    topics: tuple[str, ...] = field(Array(STRING))
    user_data: bytes | None = field(BYTES, nullable=True, default=None)
    owned_partitions: tuple[TopicPartitions, ...] = field(Array(Struct(TopicPartitions)), versions="1+")
    generation_id: int = field(INT32, versions="2+", default=-1)
    rack_id: str | None = field(STRING, versions="3+", nullable=True, default=None)


@message()
class ConsumerProtocolAssignment(Message):
    assigned_partitions: tuple[TopicPartitions, ...] = field(Array(Struct(TopicPartitions)))
    user_data: bytes | None = field(BYTES, nullable=True, default=None)


E = TypeVar("E", bound=Message)


class Embedded(NamedTuple, Generic[E]):
    """A subscription or an assignment with the version that its bytes name."""

    version: int
    message: E


def decode_subscription(data: bytes) -> Embedded[ConsumerProtocolSubscription]:
    """Reads a member's subscription. InvalidRecord when Kafka's ConsumerProtocol would refuse the bytes."""
    return _decode(data, ConsumerProtocolSubscription, "subscription")


def decode_assignment(data: bytes) -> Embedded[ConsumerProtocolAssignment]:
    """Reads a member's assignment. InvalidRecord when Kafka's ConsumerProtocol would refuse the bytes."""
    return _decode(data, ConsumerProtocolAssignment, "assignment")


def encode_embedded(embedded: Embedded[Any]) -> bytes:
    """The bytes of a subscription or an assignment, as ConsumerProtocol.serialize… writes them."""
    out = bytearray(struct.pack(">h", embedded.version))
    writer(type(embedded.message), min(embedded.version, HIGHEST_VERSION))(out, embedded.message)
    return bytes(out)


def _decode(data: bytes, cls: type[E], name: str) -> Embedded[E]:
    if len(data) < 2:
        raise InvalidRecord(f"a version of 2 bytes was expected, found {len(data)} bytes", field=name)
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise InvalidRecord(f"a version of 0 or above was expected, found {version}", field=name)
    body, _ = reader(cls, min(version, HIGHEST_VERSION))(data, 2)
    return Embedded(version, body)
