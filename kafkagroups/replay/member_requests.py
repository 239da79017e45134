"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat: from request JSON to response JSON."""

from __future__ import annotations

from kafkagroups.coordinator import Errors, GroupCoordinator, MemberIdentity
from kafkagroups.coordinator.consumer_requests import ConsumerHeartbeatResult
from kafkagroups.coordinator.results import JoinGroupResult, SyncGroupResult
from kafkagroups.replay.json_values import decode_bytes, encode_bytes, error_to_json
from kafkagroups.replay.request import Reply, Request


def join_group(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send a recorded JoinGroup to the coordinator. Version 0 has no rebalance timeout; the session timeout is used."""
    body = request.body
    rebalance_timeout_field = "sessionTimeoutMs" if request.version == 0 else "rebalanceTimeoutMs"
    can_have_null_protocol = request.version >= 7

    def reply_with(result: JoinGroupResult) -> None:
        members = [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.group_instance_id,
                "metadata": encode_bytes(member.metadata),
            }
            for member in result.members
        ]
        reply(
            {
                "errorCode": int(result.error),
                "generationId": result.generation,
                "protocolType": result.protocol_type,
                "protocolName": result.protocol if can_have_null_protocol else result.protocol or "",
                "leader": result.leader,
                "skipAssignment": result.skip_assignment,
                "memberId": result.member_id,
                "members": members,
            }
        )

    coordinator.join_group(
        body["groupId"],
        protocols=[(protocol["name"], decode_bytes(protocol["metadata"])) for protocol in body["protocols"]],
        member_id=body["memberId"],
        group_instance_id=body.get("groupInstanceId"),
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=body["sessionTimeoutMs"],
        rebalance_timeout_ms=body[rebalance_timeout_field],
        protocol_type=body["protocolType"],
        require_known_member_id=request.version >= 4,
        supports_skip_assignment=request.version >= 9,
    ).then(reply_with)


def sync_group(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send a recorded SyncGroup to the coordinator.

    Since version 5 the request must contain the protocol type and the protocol (KIP-559).
    """
    body = request.body
    protocol_type = body.get("protocolType")
    protocol = body.get("protocolName")

    def reply_with(result: SyncGroupResult) -> None:
        reply(
            {
                "errorCode": int(result.error),
                "protocolType": result.protocol_type,
                "protocolName": result.protocol,
                "assignment": encode_bytes(result.assignment),
            }
        )

    if request.version >= 5 and (protocol_type is None or protocol is None):
        reply_with(SyncGroupResult(Errors.INCONSISTENT_GROUP_PROTOCOL))
        return
    coordinator.sync_group(
        body["groupId"],
        body["generationId"],
        body["memberId"],
        {member["memberId"]: decode_bytes(member["assignment"]) for member in body["assignments"]},
        group_instance_id=body.get("groupInstanceId"),
        protocol_type=protocol_type,
        protocol=protocol,
    ).then(reply_with)


def heartbeat(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send a recorded Heartbeat to the coordinator."""
    body = request.body
    error = coordinator.heartbeat(
        body["groupId"], body["generationId"], body["memberId"], group_instance_id=body.get("groupInstanceId")
    )
    reply(error_to_json(error))


def leave_group(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send a recorded LeaveGroup to the coordinator.

    Before version 3 the request names one member, and the client receives one error: the error of the request, or else
    the error of the member. `handle` (requests.py) removes the field `members`, which the older versions do not have.
    """
    body = request.body
    members = body.get("members", [{"memberId": body.get("memberId")}])
    identities = [MemberIdentity(member["memberId"], member.get("groupInstanceId")) for member in members]
    result = coordinator.leave_group(body["groupId"], identities)
    error = result.error
    if request.version < 3 and result.members:
        _, member_error = result.members[0]
        error = error or member_error
    reply(
        {
            "errorCode": int(error),
            "members": [
                {
                    "memberId": member.member_id,
                    "groupInstanceId": member.group_instance_id,
                    "errorCode": int(member_error),
                }
                for member, member_error in result.members
            ],
        }
    )


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
