"""Kafka's requests and responses as JSON, played against a coordinator.

The JSON is that of Kafka's own generated classes: newest field names also for old versions, bytes in base64, and in a
response the fields of its version only (`SINCE`).
Source: the request and response schemas of 3.9, KafkaApis.scala.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafkagroups.coordinator import Errors, FetchedOffset, GroupCoordinator, MemberIdentity, OffsetCommit
from kafkagroups.coordinator.results import DescribedGroup, JoinGroupResult, OffsetFetchResult, SyncGroupResult
from kafkagroups.groups.offsets import TopicPartition

Json = dict[str, Any]
Reply = Callable[[Json], None]

SINCE: dict[str, dict[str, int]] = {
    "JoinGroup": {"throttleTimeMs": 2, "groupInstanceId": 5, "protocolType": 7, "skipAssignment": 9},
    "SyncGroup": {"throttleTimeMs": 1, "protocolType": 5, "protocolName": 5},
    "Heartbeat": {"throttleTimeMs": 1},
    "LeaveGroup": {"throttleTimeMs": 1, "members": 3},
    "OffsetCommit": {"throttleTimeMs": 3},
    "TxnOffsetCommit": {},
    "OffsetFetch": {"errorCode": 2, "throttleTimeMs": 3, "committedLeaderEpoch": 5},
    "DescribeGroups": {"throttleTimeMs": 1, "authorizedOperations": 3, "groupInstanceId": 4},
    "ListGroups": {"throttleTimeMs": 1, "groupState": 4, "groupType": 5},
    "DeleteGroups": {},
    "OffsetDelete": {},
}
"""The requests that a coordinator answers, with the version that brought a field of the response."""
BROUGHT = {"DeleteGroups": (1, 1), "OffsetDelete": (2, 4)}
"""Which Kafka brought a request; an older one closes the connection."""
NOT_ASKED = -(2**31)
GROUP_OPERATIONS = ((0, 1), (3, 6, 8)), ((3, 3), (3, 6, 8, 10, 11))
"""Since which Kafka a group knows which operations (codes of AclOperation)."""


def handle(
    coordinator: GroupCoordinator, api: str, version: int, request: Json, client_id: str, client_host: str, reply: Reply
) -> None:
    """Plays one request; `reply` gets the response, at once or when it comes, if that Kafka knows the request.

    KeyError for an API that SINCE lacks.
    """
    since = SINCE[api]
    if not coordinator.settings.since(*BROUGHT.get(api, (0,))):
        return

    def send(response: Json) -> None:
        late = {name for name, first in since.items() if version < first}
        if api == "OffsetFetch" and version < 2:
            late.discard("errorCode")  # of a partition; `_fetch` leaves the group's out
        reply(_without({"throttleTimeMs": 0, **response}, late))

    _HANDLERS[api](coordinator, version, request, client_id, client_host, send)


def _without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(each, names) for name, each in value.items() if name not in names}
    return [_without(each, names) for each in value] if isinstance(value, list) else value


def _join(it: GroupCoordinator, version: int, request: Json, client_id: str, client_host: str, send: Reply) -> None:
    def answered(result: JoinGroupResult) -> None:
        members = [
            {"memberId": each.member_id, "groupInstanceId": each.group_instance_id, "metadata": _text(each.metadata)}
            for each in result.members
        ]
        send(
            {
                "errorCode": int(result.error),
                "generationId": result.generation,
                "protocolType": result.protocol_type,
                "protocolName": result.protocol if version >= 7 else result.protocol or "",
                "leader": result.leader,
                "skipAssignment": result.skip_assignment,
                "memberId": result.member_id,
                "members": members,
            }
        )

    instance = request.get("groupInstanceId")
    it.join_group(
        request["groupId"],
        protocols=[(each["name"], _bytes(each["metadata"])) for each in request["protocols"]],
        member_id=request["memberId"],
        group_instance_id=instance,
        client_id=client_id,
        client_host=client_host,
        session_timeout_ms=request["sessionTimeoutMs"],
        rebalance_timeout_ms=request["rebalanceTimeoutMs" if version else "sessionTimeoutMs"],
        protocol_type=request["protocolType"],
        require_known_member_id=version >= 4,
        skips_assignment=version >= 9,
    ).then(answered)


def _sync(it: GroupCoordinator, version: int, request: Json, client_id: str, client_host: str, send: Reply) -> None:
    def answered(result: SyncGroupResult) -> None:
        send(
            {
                "errorCode": int(result.error),
                "protocolType": result.protocol_type,
                "protocolName": result.protocol,
                "assignment": _text(result.assignment),
            }
        )

    named = request.get("protocolType"), request.get("protocolName")
    if version >= 5 and None in named:  # since version 5 both must be told (KIP-559)
        answered(SyncGroupResult(Errors.INCONSISTENT_GROUP_PROTOCOL))
        return
    it.sync_group(
        request["groupId"],
        request["generationId"],
        request["memberId"],
        {each["memberId"]: _bytes(each["assignment"]) for each in request["assignments"]},
        group_instance_id=request.get("groupInstanceId"),
        protocol_type=named[0],
        protocol=named[1],
    ).then(answered)


def _heartbeat(
    it: GroupCoordinator, version: int, request: Json, client_id: str, client_host: str, send: Reply
) -> None:
    instance = request.get("groupInstanceId")
    error = it.heartbeat(request["groupId"], request["generationId"], request["memberId"], group_instance_id=instance)
    send({"errorCode": int(error)})


def _leave(it: GroupCoordinator, version: int, request: Json, client_id: str, client_host: str, send: Reply) -> None:
    leaving = [
        MemberIdentity(each["memberId"], each.get("groupInstanceId"))
        for each in request.get("members", [{"memberId": request.get("memberId")}])
    ]
    result = it.leave_group(request["groupId"], leaving)
    error = result.error
    if version < 3 and result.members:  # the one member's error is the request's
        error = error or result.members[0][1]
    members = [
        {"memberId": each.member_id, "groupInstanceId": each.group_instance_id, "errorCode": int(its)}
        for each, its in result.members
    ]
    send({"errorCode": int(error), "members": members})


def _commit(it: GroupCoordinator, version: int, request: Json, client_id: str, client_host: str, send: Reply) -> None:
    offsets = _commits(request)
    if version == 0:
        answer = it.offset_commit_to_zookeeper(request["groupId"], offsets)
    else:
        answer = it.offset_commit(
            request["groupId"],
            offsets,
            generation=request["generationIdOrMemberEpoch"],
            member_id=request["memberId"],
            group_instance_id=request.get("groupInstanceId"),
            retention_ms=request.get("retentionTimeMs", -1),
        )
    answer.then(lambda errors: send({"topics": _topics(errors, lambda error: {"errorCode": int(error)})}))


def _txn_commit(
    it: GroupCoordinator, version: int, request: Json, client_id: str, client_host: str, send: Reply
) -> None:
    def answered(errors: Mapping[TopicPartition, Errors]) -> None:
        loading = Errors.COORDINATOR_LOAD_IN_PROGRESS  # producers before 2.0 would not survive it
        hides = version < 2 and it.settings.since(2, 0)
        told = {each: Errors.COORDINATOR_NOT_AVAILABLE if hides and error is loading else error
                for each, error in errors.items()}  # fmt: skip
        send({"topics": _topics(told, lambda error: {"errorCode": int(error)})})

    it.txn_offset_commit(
        request["groupId"],
        _commits(request),
        transactional_id=request["transactionalId"],
        producer_id=request["producerId"],
        producer_epoch=request["producerEpoch"],
        generation=request.get("generationId", -1),
        member_id=request.get("memberId", ""),
        group_instance_id=request.get("groupInstanceId"),
        knows_abortable=version >= 4,
    ).then(answered)


def _fetch(it: GroupCoordinator, version: int, request: Json, client_id: str, client_host: str, send: Reply) -> None:
    stable = request.get("requireStable", False)

    def fetch(asked: Json) -> Json:
        named = None if asked["topics"] is None else list(_partitions(asked["topics"], "partitionIndexes"))
        if version == 0:
            result = it.offset_fetch_from_zookeeper(asked["groupId"], named or [])
        else:
            result = it.offset_fetch(asked["groupId"], named, require_stable=stable)
        return {"topics": _topics(_told(result, named, version), _fetched), "errorCode": int(result.error)}

    if version >= 8:
        send({"groups": [{"groupId": asked["groupId"], **fetch(asked)} for asked in request["groups"]]})
        return
    response = fetch(request)
    if version < 2:
        del response["errorCode"]
    send(response)


def _told(
    result: OffsetFetchResult, named: list[TopicPartition] | None, version: int
) -> Mapping[TopicPartition, FetchedOffset]:
    """Before version 2 there is no error of the group: each partition has it."""
    if result.error is not Errors.NONE and version < 2:
        return {each: FetchedOffset(error=result.error) for each in named or ()}
    return result.offsets


def _fetched(offset: FetchedOffset) -> Json:
    return {
        "committedOffset": offset.offset,
        "committedLeaderEpoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "errorCode": int(offset.error),
    }


def _describe(it: GroupCoordinator, version: int, request: Json, client_id: str, client_host: str, send: Reply) -> None:
    operations = NOT_ASKED
    if request.get("includeAuthorizedOperations"):
        codes = [codes for since, codes in GROUP_OPERATIONS if it.settings.since(*since)][-1]
        operations = sum(1 << code for code in codes)

    def described(group: DescribedGroup) -> Json:
        members = [
            {
                "memberId": each.member_id,
                "groupInstanceId": each.group_instance_id,
                "clientId": each.client_id,
                "clientHost": each.client_host,
                "memberMetadata": _text(each.metadata),
                "memberAssignment": _text(each.assignment),
            }
            for each in group.members
        ]
        return {
            "errorCode": int(group.error),
            "groupId": group.group_id,
            "groupState": group.state,
            "protocolType": group.protocol_type,
            "protocolData": group.protocol,
            "members": members,
            "authorizedOperations": NOT_ASKED if group.error else operations,
        }

    send({"groups": [described(group) for group in it.describe_groups(request["groups"])]})


def _list(it: GroupCoordinator, version: int, request: Json, client_id: str, client_host: str, send: Reply) -> None:
    error, groups = it.list_groups(request.get("statesFilter") or (), request.get("typesFilter") or ())
    listed = [
        {"groupId": each.group_id, "protocolType": each.protocol_type, "groupState": each.state, "groupType": "classic"}
        for each in groups
    ]
    send({"errorCode": int(error), "groups": listed})


def _delete(it: GroupCoordinator, version: int, request: Json, client_id: str, client_host: str, send: Reply) -> None:
    errors = it.delete_groups(request["groupsNames"])
    send({"results": [{"groupId": group_id, "errorCode": int(error)} for group_id, error in errors.items()]})


def _offset_delete(
    it: GroupCoordinator, version: int, request: Json, client_id: str, client_host: str, send: Reply
) -> None:
    partitions = [
        TopicPartition(topic["name"], each["partitionIndex"])
        for topic in request["topics"]
        for each in topic["partitions"]
    ]
    result = it.offset_delete(request["groupId"], partitions)
    topics = _topics(result.partitions, lambda error: {"errorCode": int(error)})
    send({"errorCode": int(result.error), "topics": topics})


_HANDLERS = {
    "JoinGroup": _join,
    "SyncGroup": _sync,
    "Heartbeat": _heartbeat,
    "LeaveGroup": _leave,
    "OffsetCommit": _commit,
    "TxnOffsetCommit": _txn_commit,
    "OffsetFetch": _fetch,
    "DescribeGroups": _describe,
    "ListGroups": _list,
    "DeleteGroups": _delete,
    "OffsetDelete": _offset_delete,
}


def _partitions(topics: Iterable[Json], field: str) -> Iterable[TopicPartition]:
    for topic in topics:
        for partition in topic[field]:
            yield TopicPartition(topic["name"], partition)


def _commits(request: Json) -> dict[TopicPartition, OffsetCommit]:
    return {
        TopicPartition(topic["name"], each["partitionIndex"]): OffsetCommit(
            each["committedOffset"],
            each["committedMetadata"],
            each.get("committedLeaderEpoch", -1),
            each.get("commitTimestamp", -1),
        )
        for topic in request["topics"]
        for each in topic["partitions"]
    }


def _topics(partitions: Mapping[TopicPartition, Any], tell: Callable[[Any], Json]) -> list[Json]:
    topics: dict[str, list[Json]] = {}
    for (topic, partition), what in partitions.items():
        topics.setdefault(topic, []).append({"partitionIndex": partition, **tell(what)})
    return [{"name": topic, "partitions": told} for topic, told in topics.items()]


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
