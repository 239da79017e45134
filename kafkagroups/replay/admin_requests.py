"""DescribeGroups, ConsumerGroupDescribe, ListGroups and DeleteGroups: from request JSON to response JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from kafkagroups.coordinator import Errors, GroupCoordinator
from kafkagroups.coordinator.consumer_requests import DescribedConsumer, DescribedConsumerGroup
from kafkagroups.coordinator.results import DescribedGroup
from kafkagroups.replay.json_values import Json, encode_bytes
from kafkagroups.replay.request import Reply, Request

UNKNOWN_OPERATIONS = -(2**31)
"""The value of the field `authorizedOperations` if it was not requested, or if the group has an error."""
# What a client can do with a group if it is authorized. The numbers are the codes of Kafka's AclOperation.
READ = 3
DELETE = 6
DESCRIBE = 8
DESCRIBE_CONFIGS = 10
ALTER_CONFIGS = 11
GROUP_OPERATIONS = (READ, DELETE, DESCRIBE)
GROUP_OPERATIONS_SINCE_4_0 = (*GROUP_OPERATIONS, DESCRIBE_CONFIGS, ALTER_CONFIGS)


def describe_groups(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send a recorded DescribeGroups to the coordinator."""
    operation_bits = _find_operation_bits(coordinator, request)
    groups = coordinator.describe_groups(request.body["groups"])
    if request.version < 6:
        groups = [_hide_missing_group(group) for group in groups]
    reply({"groups": [_write_group(group, operation_bits) for group in groups]})


def _find_operation_bits(coordinator: GroupCoordinator, request: Request) -> int:
    """Return the field `authorizedOperations` of a described group."""
    if not request.body.get("includeAuthorizedOperations"):
        return UNKNOWN_OPERATIONS
    can_have_configs = coordinator.settings.is_at_least(4, 0)
    operations = GROUP_OPERATIONS_SINCE_4_0 if can_have_configs else GROUP_OPERATIONS
    return sum(1 << code for code in operations)  # Bit n stands for the operation with code n.


def list_groups(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send a recorded ListGroups to the coordinator."""
    states = request.body.get("statesFilter") or ()
    types = request.body.get("typesFilter") or ()
    error, groups = coordinator.list_groups(states, types)
    reply(
        {
            "errorCode": int(error),
            "groups": [
                {
                    "groupId": group.group_id,
                    "protocolType": group.protocol_type,
                    "groupState": group.state,
                    "groupType": group.type,
                }
                for group in groups
            ],
        }
    )


def delete_groups(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send a recorded DeleteGroups to the coordinator."""
    errors = coordinator.delete_groups(request.body["groupsNames"])
    results = [
        {"groupId": group_id, "errorCode": int(error), "errorMessage": None} for group_id, error in errors.items()
    ]
    reply({"results": results})


def _hide_missing_group(group: DescribedGroup) -> DescribedGroup:
    """Return the group without the error that it does not exist, which responses before version 6 do not have."""
    return replace(group, error=Errors.NONE) if group.error is Errors.GROUP_ID_NOT_FOUND else group


def _write_group(group: DescribedGroup, operation_bits: int) -> Json:
    return {
        "errorCode": int(group.error),
        "errorMessage": group.message,
        "groupId": group.group_id,
        "groupState": group.state,
        "protocolType": group.protocol_type,
        "protocolData": group.protocol,
        "members": [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.group_instance_id,
                "clientId": member.client_id,
                "clientHost": member.client_host,
                "memberMetadata": encode_bytes(member.metadata),
                "memberAssignment": encode_bytes(member.assignment),
            }
            for member in group.members
        ],
        "authorizedOperations": UNKNOWN_OPERATIONS if group.error else operation_bits,
    }


def consumer_group_describe(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send a recorded ConsumerGroupDescribe to the coordinator."""
    operation_bits = _find_operation_bits(coordinator, request)
    groups = coordinator.consumer_group_describe(request.body["groupIds"])
    reply({"groups": [_write_consumer_group(group, operation_bits) for group in groups]})


def _write_consumer_group(group: DescribedConsumerGroup, operation_bits: int) -> Json:
    return {
        "errorCode": int(group.error),
        "errorMessage": group.message,
        "groupId": group.group_id,
        "groupState": group.state,
        "groupEpoch": group.group_epoch,
        "assignmentEpoch": group.assignment_epoch,
        "assignorName": group.assignor,
        "members": [_write_consumer(member, group.topic_names) for member in group.members],
        "authorizedOperations": UNKNOWN_OPERATIONS if group.error else operation_bits,
    }


def _write_consumer(described: DescribedConsumer, names: Mapping[str, str]) -> Json:
    member = described.member
    metadata = member.metadata
    return {
        "memberId": member.member_id,
        "instanceId": metadata.instance_id,
        "rackId": metadata.rack_id,
        "memberEpoch": member.epoch,
        "clientId": metadata.client_id,
        "clientHost": metadata.client_host,
        "subscribedTopicNames": list(metadata.subscribed_topic_names),
        "subscribedTopicRegex": metadata.subscribed_topic_regex,
        "assignment": _write_partitions(described.owned, names),
        "targetAssignment": _write_partitions(described.target, names),
        "memberType": 0 if member.uses_classic_protocol else 1,
    }


def _write_partitions(partitions: Mapping[str, Collection[int]], names: Mapping[str, str]) -> Json:
    topics = [
        {"topicId": topic_id, "topicName": names[topic_id], "partitions": sorted(numbers)}
        for topic_id, numbers in partitions.items()
    ]
    return {"topicPartitions": topics}
