"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: from request JSON to response JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafkagroups.coordinator import GroupCoordinator
from kafkagroups.coordinator.consumer_requests import (
    ConsumerHeartbeatResult,
    DescribedConsumer,
    DescribedConsumerGroup,
)
from kafkagroups.replay.group_requests import UNKNOWN_OPERATIONS, find_operation_bits
from kafkagroups.replay.json_values import Json
from kafkagroups.replay.request import Reply, Request


def consumer_group_heartbeat(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send a recorded ConsumerGroupHeartbeat to the coordinator."""
    body = request.body
    owned = body.get("topicPartitions")

    def reply_with(result: ConsumerHeartbeatResult) -> None:
        assignment = None
        if result.assignment is not None:
            topics = [
                {"topicId": topic_id, "partitions": sorted(partitions)}
                for topic_id, partitions in result.assignment.items()
            ]
            assignment = {"topicPartitions": topics}
        reply(
            {
                "errorCode": int(result.error),
                "errorMessage": result.message,
                "memberId": result.member_id,
                "memberEpoch": result.member_epoch,
                "heartbeatIntervalMs": result.heartbeat_interval_ms,
                "assignment": assignment,
            }
        )

    coordinator.consumer_group_heartbeat(
        body["groupId"],
        body["memberId"],
        body["memberEpoch"],
        instance_id=body.get("instanceId"),
        rack_id=body.get("rackId"),
        rebalance_timeout_ms=body.get("rebalanceTimeoutMs", -1),
        subscribed_topic_names=body.get("subscribedTopicNames"),
        subscribed_topic_regex=body.get("subscribedTopicRegex"),
        server_assignor=body.get("serverAssignor"),
        topic_partitions=None if owned is None else {topic["topicId"]: topic["partitions"] for topic in owned},
        client_id=request.client_id,
        client_host=request.client_host,
        version=request.version,
    ).then(reply_with)


def consumer_group_describe(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send a recorded ConsumerGroupDescribe to the coordinator."""
    operation_bits = find_operation_bits(coordinator, request)
    groups = coordinator.consumer_group_describe(request.body["groupIds"])
    reply({"groups": [_write_group(group, operation_bits) for group in groups]})


def _write_group(group: DescribedConsumerGroup, operation_bits: int) -> Json:
    return {
        "errorCode": int(group.error),
        "errorMessage": group.message,
        "groupId": group.group_id,
        "groupState": group.state,
        "groupEpoch": group.group_epoch,
        "assignmentEpoch": group.assignment_epoch,
        "assignorName": group.assignor,
        "members": [_write_member(member, group.topic_names) for member in group.members],
        "authorizedOperations": UNKNOWN_OPERATIONS if group.error else operation_bits,
    }


def _write_member(described: DescribedConsumer, names: Mapping[str, str]) -> Json:
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
