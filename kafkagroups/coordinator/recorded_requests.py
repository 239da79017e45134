"""The APIs of a conversation: from request JSON to the coordinator's call, and to the response JSON of each version.

The JSON has the form that Kafka's own generated classes write. In every version, fields have the names of the newest
version, and bytes are base64 text. A response has only the fields that exist in its version.
Source: the request and response schemas of 3.9, KafkaApis.scala.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafkagroups.coordinator.coordinator import GroupCoordinator
from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.request_fields import ConsumerHeartbeatResult, DescribedConsumer, DescribedConsumerGroup
from kafkagroups.coordinator.results import (
    CommitErrors,
    DescribedGroup,
    FetchedOffset,
    JoinGroupResult,
    MemberIdentity,
    OffsetCommit,
    OffsetFetchResult,
    SyncGroupResult,
)
from kafkagroups.groups.offsets import TopicPartition

Json = dict[str, Any]


def decode_bytes(text: str) -> bytes:
    """Return the bytes of base64 text."""
    return base64.b64decode(text)


def encode_bytes(data: bytes) -> str:
    """Return bytes as base64 text."""
    return base64.b64encode(data).decode()


def read_partitions(topics: Iterable[Json]) -> list[TopicPartition]:
    """Return the partitions in the field `topics` of an OffsetFetch request."""
    return [TopicPartition(topic["name"], number) for topic in topics for number in topic["partitionIndexes"]]


def read_commits(request: Json) -> dict[TopicPartition, OffsetCommit]:
    """Return the offsets in an OffsetCommit or TxnOffsetCommit request."""
    return {
        TopicPartition(topic["name"], partition["partitionIndex"]): OffsetCommit(
            partition["committedOffset"],
            partition["committedMetadata"],
            partition.get("committedLeaderEpoch", -1),
            partition.get("commitTimestamp", -1),
        )
        for topic in request["topics"]
        for partition in topic["partitions"]
    }


def name_topics(topics: Iterable[Json], names: Mapping[str, str]) -> tuple[list[Json], list[Json]]:
    """Return the topics of a request with their names, and the topics whose ids are unknown.

    Newer requests contain the ids of topics instead of their names. `names` are the names by id.
    """
    named = []
    unknown = []
    for topic in topics:
        if "name" in topic:
            named.append(topic)
        elif topic["topicId"] in names:
            named.append({**topic, "name": names[topic["topicId"]]})
        else:
            unknown.append(topic)
    return named, unknown


def identify_topics(topics: Iterable[Json], topic_ids: Mapping[str, str]) -> list[Json]:
    """Return the topics of a response with their ids instead of their names. Topics without an id are left out."""
    return [
        {"topicId": topic_ids[topic["name"]], "partitions": topic["partitions"]}
        for topic in topics
        if topic["name"] in topic_ids
    ]


def topics_to_json(partitions: Mapping[TopicPartition, Any], value_to_json: Callable[[Any], Json]) -> list[Json]:
    """Return the field `topics` of a response: the JSON of each partition, grouped by topic.

    `partitions` has a value for each partition, for example an error. `value_to_json` returns the JSON fields of this
    value.
    """
    topics: dict[str, list[Json]] = {}
    for (topic, partition), value in partitions.items():
        topics.setdefault(topic, []).append({"partitionIndex": partition, **value_to_json(value)})
    return [{"name": topic, "partitions": fields} for topic, fields in topics.items()]


def error_to_json(error: Errors) -> Json:
    """Return the JSON of a response, or of a partition in a response, that contains only an error code."""
    return {"errorCode": int(error)}


Reply = Callable[[Json], None]
"""A function that receives the JSON of a response."""


@dataclass(frozen=True)
class Request:
    """A request. `api` is the name of the request, for example "JoinGroup". `body` is the JSON of the request.

    The fields in `body` have the names of the request's newest version, as in Kafka's generated classes.
    """

    api: str
    version: int
    body: Json
    client_id: str
    client_host: str = "/127.0.0.1"


Handler = Callable[[GroupCoordinator, Request, Reply], None]
"""A function that sends a request to the coordinator. It calls the `Reply` with the response, now or later."""


FETCH_WITH_TOPIC_IDS = 10
"""The first version of OffsetFetch that contains topic ids instead of names."""


def offset_commit(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send a recorded OffsetCommit to the coordinator. Version 0 stores offsets in ZooKeeper.

    Since 4.0, a broker does not know versions 0 and 1, and closes the connection.
    """
    if request.version < 2 and coordinator.settings.is_at_least(4, 0):
        return
    body, write_topics = _name_topics(coordinator, request)
    offsets = read_commits(body)
    if request.version == 0:
        response = coordinator.offset_commit_to_zookeeper(body["groupId"], offsets)
    else:
        response = coordinator.offset_commit(
            body["groupId"],
            offsets,
            generation=body["generationIdOrMemberEpoch"],
            member_id=body["memberId"],
            group_instance_id=body.get("groupInstanceId"),
            retention_ms=body.get("retentionTimeMs", -1),
            supports_group_not_found=request.version >= 9,
        )
    response.then(lambda errors: reply({"topics": write_topics(errors)}))


def txn_offset_commit(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send a recorded TxnOffsetCommit to the coordinator.

    Since Kafka 2.0, versions 0 and 1 get COORDINATOR_NOT_AVAILABLE instead of COORDINATOR_LOAD_IN_PROGRESS, because
    their clients fail at COORDINATOR_LOAD_IN_PROGRESS.
    """
    body, write_topics = _name_topics(coordinator, request)
    # Kafka 4.4 has renamed the field.
    generation_field = "generationIdOrMemberEpoch" if "generationIdOrMemberEpoch" in body else "generationId"
    hides_loading = request.version < 2 and coordinator.settings.is_at_least(2, 0)

    def reply_with(errors: CommitErrors) -> None:
        if hides_loading:
            errors = {partition: _hide_loading(error) for partition, error in errors.items()}
        reply({"topics": write_topics(errors)})

    coordinator.txn_offset_commit(
        body["groupId"],
        read_commits(body),
        transactional_id=body["transactionalId"],
        producer_id=body["producerId"],
        producer_epoch=body["producerEpoch"],
        generation=body.get(generation_field, -1),
        member_id=body.get("memberId", ""),
        group_instance_id=body.get("groupInstanceId"),
        supports_abortable_error=request.version >= 4,
        supports_stale_epoch=request.version >= 6,
    ).then(reply_with)


def offset_fetch(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send a recorded OffsetFetch to the coordinator.

    Version 0 reads from ZooKeeper; since 4.0, a broker does not know it. Since version 8 a request contains several
    groups.
    """
    if request.version == 0 and coordinator.settings.is_at_least(4, 0):
        return
    body = request.body
    if request.version >= 8:
        groups = [
            {"groupId": group["groupId"], **_fetch_group(coordinator, request, group)} for group in body["groups"]
        ]
        reply({"groups": groups})
        return
    response = _fetch_group(coordinator, request, body)
    if request.version < 2:
        del response["errorCode"]
    reply(response)


def offset_delete(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send a recorded OffsetDelete to the coordinator."""
    partitions = [
        TopicPartition(topic["name"], partition["partitionIndex"])
        for topic in request.body["topics"]
        for partition in topic["partitions"]
    ]
    result = coordinator.offset_delete(request.body["groupId"], partitions)
    reply({"errorCode": int(result.error), "topics": topics_to_json(result.partitions, error_to_json)})


def _hide_loading(error: Errors) -> Errors:
    return Errors.COORDINATOR_NOT_AVAILABLE if error is Errors.COORDINATOR_LOAD_IN_PROGRESS else error


def _fetch_group(coordinator: GroupCoordinator, request: Request, group: Json) -> Json:
    """Return the response for one group. `group` is the group's part of the request; before version 8, the request."""
    group_id = group["groupId"]
    topic_ids = coordinator.validator.topic_ids
    named, unknown = name_topics(group["topics"] or (), {topic_id: name for name, topic_id in topic_ids.items()})
    partitions = None if group["topics"] is None else read_partitions(named)
    uses_topic_ids = request.version >= FETCH_WITH_TOPIC_IDS
    if request.version == 0:
        result = coordinator.offset_fetch_from_zookeeper(group_id, partitions or [])
    else:
        require_stable = request.body.get("requireStable", False)
        result = coordinator.offset_fetch(
            group_id,
            partitions,
            require_stable=require_stable,
            by_topic_id=uses_topic_ids,
            member_id=group.get("memberId"),
            member_epoch=group.get("memberEpoch", -1),
        )
    offsets = _move_group_error(result, partitions) if request.version < 2 else result.offsets
    topics = topics_to_json(offsets, _offset_to_json)
    if uses_topic_ids:
        unknown_offset = _offset_to_json(FetchedOffset(error=Errors.UNKNOWN_TOPIC_ID))
        topics = identify_topics(topics, topic_ids)
        topics += [
            {
                "topicId": topic["topicId"],
                "partitions": [{"partitionIndex": number, **unknown_offset} for number in topic["partitionIndexes"]],
            }
            for topic in unknown
        ]
    return {"topics": topics, "errorCode": int(result.error)}


def _name_topics(coordinator: GroupCoordinator, request: Request) -> tuple[Json, Callable[[CommitErrors], list[Json]]]:
    """Return the body of a commit with the names of its topics, and a function that writes the topics of the response.

    If the request contains topic ids, the response contains them, too. A topic whose id is unknown is refused.
    """
    topic_ids = coordinator.validator.topic_ids
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    named, unknown = name_topics(request.body["topics"], names)
    uses_topic_ids = any("topicId" in topic for topic in request.body["topics"])

    def write_topics(errors: CommitErrors) -> list[Json]:
        topics = topics_to_json(errors, error_to_json)
        if not uses_topic_ids:
            return topics
        refused = [
            {
                "topicId": topic["topicId"],
                "partitions": [
                    {"partitionIndex": partition["partitionIndex"], **error_to_json(Errors.UNKNOWN_TOPIC_ID)}
                    for partition in topic["partitions"]
                ],
            }
            for topic in unknown
        ]
        return refused + identify_topics(topics, topic_ids)

    return {**request.body, "topics": named}, write_topics


def _move_group_error(
    result: OffsetFetchResult, partitions: list[TopicPartition] | None
) -> Mapping[TopicPartition, FetchedOffset]:
    """Return the offsets. If the group has an error, each partition gets this error.

    Before version 2, a response cannot contain an error of the group.
    """
    if result.error is Errors.NONE:
        return result.offsets
    return {partition: FetchedOffset(error=result.error) for partition in partitions or ()}


def _offset_to_json(offset: FetchedOffset) -> Json:
    return {
        "committedOffset": offset.offset,
        "committedLeaderEpoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "errorCode": int(offset.error),
    }


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


HANDLERS: dict[str, Handler] = {
    "JoinGroup": join_group,
    "SyncGroup": sync_group,
    "Heartbeat": heartbeat,
    "LeaveGroup": leave_group,
    "OffsetCommit": offset_commit,
    "TxnOffsetCommit": txn_offset_commit,
    "OffsetFetch": offset_fetch,
    "DescribeGroups": describe_groups,
    "ListGroups": list_groups,
    "DeleteGroups": delete_groups,
    "OffsetDelete": offset_delete,
    "ConsumerGroupHeartbeat": consumer_group_heartbeat,
    "ConsumerGroupDescribe": consumer_group_describe,
}
FIRST_VERSION_BY_API_AND_FIELD: dict[str, dict[str, int]] = {
    "JoinGroup": {"throttleTimeMs": 2, "groupInstanceId": 5, "protocolType": 7, "skipAssignment": 9},
    "SyncGroup": {"throttleTimeMs": 1, "protocolType": 5, "protocolName": 5},
    "Heartbeat": {"throttleTimeMs": 1},
    "LeaveGroup": {"throttleTimeMs": 1, "members": 3},
    "OffsetCommit": {"throttleTimeMs": 3},
    "OffsetFetch": {"errorCode": 2, "throttleTimeMs": 3, "committedLeaderEpoch": 5},
    "ConsumerGroupDescribe": {"memberType": 1},
    "DeleteGroups": {"errorMessage": 3},
    "DescribeGroups": {"throttleTimeMs": 1, "authorizedOperations": 3, "groupInstanceId": 4, "errorMessage": 6},
    "ListGroups": {"throttleTimeMs": 1, "groupState": 4, "groupType": 5},
}
"""The first response version that has a field, by API and field. All other fields are in every version."""
FIRST_RELEASE_BY_API = {"DeleteGroups": (1, 1), "OffsetDelete": (2, 4)}
"""The Kafka version that introduced an API, by API. All other APIs exist in every supported version."""


def handle(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send one request to the coordinator. `reply` receives the response, now or later.

    If the API does not exist in the coordinator's Kafka version, `reply` is never called: a broker would close the
    connection without a response.
    """
    first_release = FIRST_RELEASE_BY_API.get(request.api, (0,))
    if coordinator.settings.is_before(*first_release):
        return

    def send(response: Json) -> None:
        first_versions = FIRST_VERSION_BY_API_AND_FIELD.get(request.api, {})
        missing_fields = {name for name, version in first_versions.items() if request.version < version}
        if request.api == "OffsetFetch" and request.version < 2:
            # `offset_fetch` has already removed the group's field "errorCode". The partitions keep theirs.
            missing_fields.discard("errorCode")
        reply(_remove_fields({"throttleTimeMs": 0, **response}, missing_fields))

    HANDLERS[request.api](coordinator, request, send)


def _remove_fields(value: Any, names: set[str]) -> Any:
    """Return a copy of a JSON value without the fields in `names`, on every level."""
    if isinstance(value, dict):
        return {name: _remove_fields(field, names) for name, field in value.items() if name not in names}
    if isinstance(value, list):
        return [_remove_fields(element, names) for element in value]
    return value
