"""The members of a classic group in the order in which Kafka's Scala tools print them.

The dump tool and the formatters of the console consumer put the members into a hash map, and print them in the order
of this map.
Source: GroupMetadata.loadGroup and GroupMetadata.add (tags 1.0.1 to 3.7.0); output of 2.8.2's tool for crafted logs.
"""

from __future__ import annotations

from kafkagroups.groups.map_orders import hash_map_order
from kafkagroups.groups.member import find_unreadable_subscription
from kafkagroups.kafka_tools.jvm import ToolCrashed, Version
from kafkagroups.records.group_metadata import GroupMetadataValue, MemberMetadata


def order_members_as_tool(group: str, value: GroupMetadataValue, kafka: Version) -> list[MemberMetadata]:
    """Return the group's members in the order of the tool's hash map.

    `group` is the group's id, `value` is the value of its record, and `kafka` is the version of the tool. If two
    members have the same id, only the later member is returned. Raises ToolCrashed if the tool cannot load the group.
    """
    by_id: dict[str, MemberMetadata] = {}
    for vote_count, member in enumerate(value.members):
        # Since 2.1, the tool checks before it adds a member that the group has as many votes as members. Two members
        # with the same id are one member with two votes. So the tool crashes at the next member after these two.
        if vote_count > len(by_id) and kafka >= (2, 1):
            raise ToolCrashed(f"group {group}: two members have the same id, and another member comes after them")
        by_id[member.member_id] = member
    members = [by_id[member_id] for member_id in hash_map_order(by_id, kafka)]
    if value.protocol_type == "consumer" and value.protocol is not None and kafka >= (2, 7):
        problem = find_unreadable_subscription((member.member_id, member.subscription) for member in members)
        if problem is not None:
            raise ToolCrashed(problem)
    return members
