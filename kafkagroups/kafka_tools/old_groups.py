"""A group's members in the order in which Kafka's Scala tools print them.

Source: GroupMetadata.loadGroup, add (tags 1.0.1 to 3.7.0), and 2.8.2's tool on crafted logs.
"""

from __future__ import annotations

from kafkagroups.groups.map_orders import hash_map_order
from kafkagroups.groups.member import find_unreadable_subscription
from kafkagroups.kafka_tools.jvm import ToolDied, Version
from kafkagroups.records.group_metadata import GroupMetadataValue, MemberMetadata


def loaded_members(group: str, value: GroupMetadataValue, kafka: Version) -> list[MemberMetadata]:
    """Return the group's members in the order of the tool's hash map. Of two with the same id, the later one counts.

    ToolDied: the tool cannot load the group.
    """
    by_id: dict[str, MemberMetadata] = {}
    for count, member in enumerate(value.members):
        if count > len(by_id) and kafka >= (2, 1):
            raise ToolDied(f"group {group}: a member follows two members with the same id")
        by_id[member.member_id] = member
    members = [by_id[member_id] for member_id in hash_map_order(by_id, kafka)]
    if value.protocol_type == "consumer" and value.protocol is not None and kafka >= (2, 7):
        refused = find_unreadable_subscription((member.member_id, member.subscription) for member in members)
        if refused is not None:
            raise ToolDied(refused)
    return members
