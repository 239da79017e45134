"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: from request JSON to response JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafkagroups.coordinator import GroupCoordinator
from kafkagroups.coordinator.consumer_requests import (
    ConsumerHeartbeat,
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
    heartbeat = ConsumerHeartbeat(
        body["groupId"],
        body["memberId"],
        body["memberEpoch"],
        body.get("instanceId"),
        body.get("rackId"),
        body.get("rebalanceTimeoutMs", -1),
        body.get("subscribedTopicNames"),
        body.get("subscribedTopicRegex"),
        body.get("serverAssignor"),
        None if owned is None else {topic["topicId"]: topic["partitions"] for topic in owned},
        request.client_id,
        request.client_host,
        request.version,
    )

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

    coordinator.consumer_group_heartbeat(heartbeat).then(reply_with)


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
        "members": [_write_member(member) for member in group.members],
        "authorizedOperations": UNKNOWN_OPERATIONS if group.error else operation_bits,
    }


def _write_member(member: DescribedConsumer) -> Json:
    return {
        "memberId": member.member_id,
        "instanceId": member.instance_id,
        "rackId": member.rack_id,
        "memberEpoch": member.member_epoch,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "subscribedTopicNames": list(member.topic_names),
        "subscribedTopicRegex": member.topic_regex,
        "assignment": _write_partitions(member.assignment),
        "targetAssignment": _write_partitions(member.target),
        "memberType": 0 if member.is_classic else 1,
    }


def _write_partitions(partitions: Mapping[tuple[str, str], Collection[int]]) -> Json:
    return {
        "topicPartitions": [
            {"topicId": topic_id, "topicName": name, "partitions": list(numbers)}
            for (topic_id, name), numbers in partitions.items()
        ]
    }
