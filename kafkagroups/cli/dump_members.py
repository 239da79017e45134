"""The decoded subscriptions and assignments of classic consumer groups, for the command `dump`.

A classic group record stores them as bytes that only clients read (consumer_protocol.py). Kafka's JSON contains these
bytes in base64. Groups of other protocol types, for example of Kafka Connect, have other formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kafkagroups.errors import InvalidRecord
from kafkagroups.records.consumer_protocol import (
    HIGHEST_VERSION,
    VersionedMessage,
    decode_assignment,
    decode_subscription,
)
from kafkagroups.records.group_metadata import GroupMetadataValue
from kafkagroups.records.serde import Record
from kafkagroups.records.structs import to_json


class _DecodedMember(NamedTuple):
    """The JSON of one member, with its decoded subscription and assignment; None if the bytes cannot be read."""

    json_member: dict[str, Any]
    subscription: dict[str, Any] | None
    assignment: dict[str, Any] | None


def add_decoded_members(record: Record, value_json: dict[str, Any] | None) -> None:
    """Add the fields "subscriptionData" and "assignmentData" to each member of a classic consumer group.

    `value_json` is the JSON of the record's value. The other fields stay, so `encode` gives the same bytes.
    """
    for member in _decode_members(record, value_json):
        member.json_member["subscriptionData"] = member.subscription
        member.json_member["assignmentData"] = member.assignment


def replace_member_bytes(record: Record, value_json: dict[str, Any] | None) -> None:
    """Replace the bytes of subscriptions and assignments by their fields. Bytes that cannot be read stay."""
    for member in _decode_members(record, value_json):
        if member.subscription is not None:
            member.json_member["subscription"] = member.subscription
        if member.assignment is not None:
            member.json_member["assignment"] = member.assignment


def _decode_members(record: Record, value_json: dict[str, Any] | None) -> Iterator[_DecodedMember]:
    """Yield the members of a classic consumer group; nothing for other records."""
    value = record.value
    if value_json is None or not isinstance(value, GroupMetadataValue) or value.protocol_type != "consumer":
        return
    for member, json_member in zip(value.members, value_json["data"]["members"], strict=True):
        yield _DecodedMember(
            json_member,
            _to_json(decode_subscription, member.subscription),
            _to_json(decode_assignment, member.assignment),
        )


def _to_json(decode: Callable[[bytes], VersionedMessage[Any]], data: bytes) -> dict[str, Any] | None:
    """Return the version and the fields as Kafka's JSON; None if Kafka's ConsumerProtocol refuses the bytes."""
    try:
        decoded = decode(data)
    except InvalidRecord:
        return None
    return {"version": decoded.version, **to_json(decoded.message, min(decoded.version, HIGHEST_VERSION))}
