"""What Kafka's Scala tools make of a group value: the members in the order of its map, and where that kills them.

Source: GroupMetadata.loadGroup, add, computeSubscribedTopics (tags 1.0.1 to 3.7.0), and 2.8.2's tool on crafted logs.
"""

from __future__ import annotations

from kafkagroups.cli.jvm import ToolDied, Version, hash_map_order
from kafkagroups.errors import InvalidRecord
from kafkagroups.records.consumer_protocol import ConsumerProtocolSubscription
from kafkagroups.records.group_metadata import GroupMetadataValue, MemberMetadata
from kafkagroups.records.structs import reader


def loaded_members(group: str, value: GroupMetadataValue, kafka: Version) -> list[MemberMetadata]:
    """The group's members as its map tells them; of two with one id, the later one. ToolDied where loading fails."""
    by_id: dict[str, MemberMetadata] = {}
    for count, member in enumerate(value.members):
        if count > len(by_id) and kafka >= (2, 1):
            raise ToolDied(f"group {group}: another member after two with one id")
        by_id[member.member_id] = member
    members = [by_id[member_id] for member_id in hash_map_order(by_id, kafka)]
    if value.protocol_type == "consumer" and value.protocol is not None and kafka >= (2, 7):
        _subscribed_topics(members)
    return members


def _subscribed_topics(members: list[MemberMetadata]) -> None:
    """Reads each subscription in its oldest layout. Bytes that just end are forgiven, with all members that follow."""
    read = reader(ConsumerProtocolSubscription, 0)
    for member in members:
        if len(member.subscription) < 2:
            return
        try:
            read(member.subscription, 2)
        except InvalidRecord as error:
            if not error.cause:
                return
            raise ToolDied(f"the subscription of {member.member_id} cannot be read: {error}") from None
