"""The APIs of a conversation: from request JSON to the coordinator's call, and to the response JSON of each version.

The JSON is that of Kafka's own generated classes: in every version, fields have the names of the newest version, and
bytes are base64 text. So a field and the argument or attribute for it differ only in how names are written (apart from
`JSON_NAMES`). A response has only the fields that exist in its version.
Source: the request and response schemas of 3.9 and 4.3.1, KafkaApis.scala.
"""

from __future__ import annotations

import base64
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from kafkagroups.coordinator import messages
from kafkagroups.coordinator.consumer_requests import DescribedConsumer, DescribedConsumerGroup
from kafkagroups.coordinator.coordinator import GroupCoordinator
from kafkagroups.coordinator.messages import CommitErrors, Errors, ResponseFuture
from kafkagroups.groups.offsets import TopicPartition

R = TypeVar("R")
Json = dict[str, Any]
Answer = ResponseFuture[Json]


@dataclass(frozen=True)
class Request:
    api: str
    version: int
    body: Json
    client_id: str
    client_host: str = "/127.0.0.1"


JSON_NAMES = {
    "error": ["errorCode"],
    "message": ["errorMessage"],
    "generation": ["generationIdOrMemberEpoch", "generationId"],
    "protocol": ["protocolName"],
    "retention_ms": ["retentionTimeMs"],
    "offsets": ["topics"],
    "offset": ["committedOffset"],
    "leader_epoch": ["committedLeaderEpoch"],
    "state": ["groupState"],
    "type": ["groupType"],
    "assignor": ["assignorName"],
}
"""The names of fields that are not the name of the argument or attribute. The last one is written."""
JSON_NAMES_BY_CLASS = {
    messages.DescribedGroup: {"protocol": "protocolData"},
    messages.DescribedMember: {"metadata": "memberMetadata", "assignment": "memberAssignment"},
}
FIRST_VERSION_BY_ARGUMENT = {
    "require_known_member_id": 4,
    "supports_skip_assignment": 9,
    "supports_group_not_found": 9,
    "supports_abortable_error": 4,
    "supports_stale_epoch": 6,
}
"""The first version of the request whose clients have this ability."""
NOT_IN_JSON = ("topic_id", "topic_names")
"""The attributes of results that their JSON does not have."""


def write_json(value: Any) -> Any:
    if isinstance(value, Errors):
        return int(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, tuple):
        return [write_json(element) for element in value]
    if not is_dataclass(value):
        return value
    own_names = JSON_NAMES_BY_CLASS.get(type(value), {})
    names = [attribute.name for attribute in fields(value) if attribute.name not in NOT_IN_JSON]
    return {own_names.get(name) or _find_json_names(name)[-1]: write_json(getattr(value, name)) for name in names}


def _find_json_names(name: str) -> list[str]:
    first, *others = name.split("_")
    return JSON_NAMES.get(name, [first + "".join(map(str.capitalize, others))])


def call(
    verb: Callable[..., ResponseFuture[R]],
    request: Request,
    write: Callable[[R], Json],
    body: Json | None = None,
    **arguments: Any,
) -> Answer:
    """Call a verb of the coordinator with the fields of a request, and `write` its result as JSON.

    A missing field has the verb's default. `body` is the part of the request that is read; None: all of it. `arguments`
    replace fields.
    """
    body = request.body if body is None else body
    given: Json = {"client_id": request.client_id, "client_host": request.client_host, "version": request.version}
    parameters = inspect.signature(verb).parameters
    for name in parameters:
        if name in FIRST_VERSION_BY_ARGUMENT:
            given[name] = request.version >= FIRST_VERSION_BY_ARGUMENT[name]
        present = [each for each in _find_json_names(name) if each in body]
        if present:
            given[name] = body[present[0]]
    given |= arguments
    return verb(**{name: given[name] for name in parameters if name in given}).map(write)


def read_bytes(entries: Iterable[Json], key: str, value: str) -> list[tuple[str, bytes]]:
    return [(entry[key], base64.b64decode(entry[value])) for entry in entries]


# Topics and partitions


def read_commits(topics: Iterable[Json]) -> dict[TopicPartition, messages.OffsetCommit]:
    return {
        TopicPartition(topic["name"], partition["partitionIndex"]): messages.OffsetCommit(
            partition["committedOffset"],
            partition["committedMetadata"],
            partition.get("committedLeaderEpoch", -1),
            partition.get("commitTimestamp", -1),
        )
        for topic in topics
        for partition in topic["partitions"]
    }


def topics_to_json(partitions: Mapping[TopicPartition, Any]) -> list[Json]:
    topics: dict[str, list[Json]] = {}
    for (topic, partition), value in partitions.items():
        answer = {"errorCode": int(value)} if isinstance(value, Errors) else write_json(value)
        topics.setdefault(topic, []).append({"partitionIndex": partition, **answer})
    return [{"name": topic, "partitions": answers} for topic, answers in topics.items()]


class NamedTopics:
    """The topics of a request with their names. Newer requests contain the ids of topics instead.

    `topics` are those that have a name or a known id. `refused` is what the response says about the others: `refusal`
    for each partition.
    """

    def __init__(self, coordinator: GroupCoordinator, topics: Iterable[Json], refusal: Json) -> None:
        self.topic_ids = coordinator.validator.topic_ids
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        self.topics: list[Json] = []
        self.refused: list[Json] = []
        for topic in topics:
            if "name" in topic or topic["topicId"] in names:
                self.topics.append({"name": names.get(topic.get("topicId", "")), **topic})
                continue
            numbers = topic.get("partitionIndexes") or [each["partitionIndex"] for each in topic.get("partitions", ())]
            partitions = [{"partitionIndex": number, **refusal} for number in numbers]
            self.refused.append({"topicId": topic["topicId"], "partitions": partitions})

    def identify(self, topics: Iterable[Json]) -> list[Json]:
        """Topics without an id are left out."""
        return [
            {"topicId": self.topic_ids[topic["name"]], "partitions": topic["partitions"]}
            for topic in topics
            if topic["name"] in self.topic_ids
        ]


# Offsets

FETCH_WITH_TOPIC_IDS = 10
"""The first version of OffsetFetch that contains topic ids instead of names."""


def offset_commit(coordinator: GroupCoordinator, request: Request) -> Answer:
    """Version 0 stores offsets in ZooKeeper. Since 4.0 a broker closes the connection for versions 0 and 1."""
    if request.version == 0 and coordinator.settings.is_before(4, 0):
        return _commit(coordinator, coordinator.offset_commit_to_zookeeper, request)
    if request.version >= 2 or coordinator.settings.is_before(4, 0):
        return _commit(coordinator, coordinator.offset_commit, request)
    return ResponseFuture()


def txn_offset_commit(coordinator: GroupCoordinator, request: Request) -> Answer:
    return _commit(coordinator, coordinator.txn_offset_commit, request)


def _commit(
    coordinator: GroupCoordinator, verb: Callable[..., ResponseFuture[CommitErrors]], request: Request
) -> Answer:
    """The topics of the response have ids if those of the request have.

    Since Kafka 2.0, versions 0 and 1 of TxnOffsetCommit get COORDINATOR_NOT_AVAILABLE instead of
    COORDINATOR_LOAD_IN_PROGRESS, because their clients fail at COORDINATOR_LOAD_IN_PROGRESS.
    """
    topics = request.body["topics"]
    named = NamedTopics(coordinator, topics, {"errorCode": int(Errors.UNKNOWN_TOPIC_ID)})
    uses_topic_ids = any("topicId" in topic for topic in topics)
    is_old = request.api == "TxnOffsetCommit" and request.version < 2
    hides_loading = is_old and coordinator.settings.is_at_least(2, 0)

    def write(errors: CommitErrors) -> Json:
        if hides_loading:
            loading = Errors.COORDINATOR_LOAD_IN_PROGRESS
            errors = {
                partition: Errors.COORDINATOR_NOT_AVAILABLE if error is loading else error
                for partition, error in errors.items()
            }
        answered = topics_to_json(errors)
        return {"topics": named.refused + named.identify(answered) if uses_topic_ids else answered}

    return call(verb, request, write, offsets=read_commits(named.topics))


def offset_fetch(coordinator: GroupCoordinator, request: Request) -> Answer:
    """Version 0 reads from ZooKeeper; since 4.0, a broker does not know it. Version 8 and later name several groups."""
    if request.version == 0 and coordinator.settings.is_at_least(4, 0):
        return ResponseFuture()
    if request.version >= 8:
        groups = [_fetch_group(coordinator, request, group) for group in request.body["groups"]]
        return ResponseFuture.gather(groups).map(lambda answers: {"groups": answers})
    hidden = ("groupId", "errorCode") if request.version < 2 else ("groupId",)
    return _fetch_group(coordinator, request, request.body).map(
        lambda answer: {name: value for name, value in answer.items() if name not in hidden}
    )


def _fetch_group(coordinator: GroupCoordinator, request: Request, group: Json) -> Answer:
    """`group` is the group's part of the request; before version 8, the request.

    Before version 2, a response cannot contain an error of the group, so each partition gets the error.
    """
    named = NamedTopics(
        coordinator, group["topics"] or (), write_json(messages.FetchedOffset(error=Errors.UNKNOWN_TOPIC_ID))
    )
    partitions = [
        TopicPartition(topic["name"], number) for topic in named.topics for number in topic["partitionIndexes"]
    ]
    uses_topic_ids = request.version >= FETCH_WITH_TOPIC_IDS

    def write(result: messages.OffsetFetchResult) -> Json:
        offsets = result.offsets
        if request.version < 2 and result.error is not Errors.NONE:
            offsets = {partition: messages.FetchedOffset(error=result.error) for partition in partitions}
        topics = topics_to_json(offsets)
        return {
            "groupId": group["groupId"],
            "topics": named.identify(topics) + named.refused if uses_topic_ids else topics,
            "errorCode": int(result.error),
        }

    if request.version == 0:
        return ResponseFuture.of(write(coordinator.offset_fetch_from_zookeeper(group["groupId"], partitions)))
    return call(
        coordinator.offset_fetch,
        request,
        write,
        group,
        partitions=None if group["topics"] is None else partitions,
        require_stable=request.body.get("requireStable", False),
        by_topic_id=uses_topic_ids,
    )


def offset_delete(coordinator: GroupCoordinator, request: Request) -> Answer:
    partitions = [
        TopicPartition(topic["name"], partition["partitionIndex"])
        for topic in request.body["topics"]
        for partition in topic["partitions"]
    ]
    return coordinator.offset_delete(request.body["groupId"], partitions).map(
        lambda result: {"errorCode": int(result.error), "topics": topics_to_json(result.partitions)}
    )


# Members


def join_group(coordinator: GroupCoordinator, request: Request) -> Answer:
    """Version 0 has no rebalance timeout; the session timeout is used. Before version 7, no protocol is ""."""
    body = request.body
    rebalance_timeout_field = "sessionTimeoutMs" if request.version == 0 else "rebalanceTimeoutMs"

    def write(result: messages.JoinGroupResult) -> Any:
        return write_json(replace(result, protocol=result.protocol or "") if request.version < 7 else result)

    protocols = read_bytes(body["protocols"], "name", "metadata")
    timeout_ms = body[rebalance_timeout_field]
    return call(coordinator.join_group, request, write, protocols=protocols, rebalance_timeout_ms=timeout_ms)


def sync_group(coordinator: GroupCoordinator, request: Request) -> Answer:
    """Since version 5 the request must contain the protocol type and the protocol (KIP-559)."""
    body = request.body
    if request.version >= 5 and (body.get("protocolType") is None or body.get("protocolName") is None):
        return ResponseFuture.of(write_json(messages.SyncGroupResult(Errors.INCONSISTENT_GROUP_PROTOCOL)))
    assignments = dict(read_bytes(body["assignments"], "memberId", "assignment"))
    return call(coordinator.sync_group, request, write_json, assignments=assignments)


def heartbeat(coordinator: GroupCoordinator, request: Request) -> Answer:
    return call(coordinator.heartbeat, request, lambda error: {"errorCode": int(error)})


def leave_group(coordinator: GroupCoordinator, request: Request) -> Answer:
    """Before version 3 a request names one member, whose error is that of the response. `handle` removes `members`."""
    body = request.body
    members = body.get("members", [{"memberId": body.get("memberId")}])
    identities = [messages.MemberIdentity(member["memberId"], member.get("groupInstanceId")) for member in members]

    def write(result: messages.LeaveGroupResult) -> Json:
        error = result.error
        if request.version < 3 and result.members:
            _, member_error = result.members[0]
            error = error or member_error
        answered = [{**write_json(member), "errorCode": int(member_error)} for member, member_error in result.members]
        return {"errorCode": int(error), "members": answered}

    return coordinator.leave_group(body["groupId"], identities).map(write)


def consumer_group_heartbeat(coordinator: GroupCoordinator, request: Request) -> Answer:
    owned = request.body.get("topicPartitions")

    def write(result: messages.ConsumerHeartbeatResult) -> Json:
        assignment = None if result.assignment is None else _write_partitions(result.assignment)
        return {**write_json(result), "assignment": assignment}

    partitions = None if owned is None else {topic["topicId"]: topic["partitions"] for topic in owned}
    return call(coordinator.consumer_group_heartbeat, request, write, topic_partitions=partitions)


# Groups

UNKNOWN_OPERATIONS = -(2**31)
"""The value of the field `authorizedOperations` if it was not requested, or if the group has an error."""
GROUP_OPERATIONS = (3, 6, 8)
"""What an authorized client can do with a group, as codes of Kafka's AclOperation: READ, DELETE, DESCRIBE."""
CONFIG_OPERATIONS = (10, 11)
"""Since 4.0 also: DESCRIBE_CONFIGS, ALTER_CONFIGS."""


def describe_groups(coordinator: GroupCoordinator, request: Request) -> Answer:
    """Before version 6, a response has no error for a group that does not exist."""
    groups = coordinator.describe_groups(request.body["groups"])
    hidden_error = Errors.GROUP_ID_NOT_FOUND if request.version < 6 else None
    groups = [replace(group, error=Errors.NONE) if group.error is hidden_error else group for group in groups]
    answers = [{**write_json(group), **_write_operations(coordinator, request, group)} for group in groups]
    return ResponseFuture.of({"groups": answers})


def _write_operations(
    coordinator: GroupCoordinator, request: Request, group: messages.DescribedGroup | DescribedConsumerGroup
) -> Json:
    if group.error or not request.body.get("includeAuthorizedOperations"):
        return {"authorizedOperations": UNKNOWN_OPERATIONS}
    operations = GROUP_OPERATIONS + (CONFIG_OPERATIONS if coordinator.settings.is_at_least(4, 0) else ())
    return {"authorizedOperations": sum(1 << code for code in operations)}


def list_groups(coordinator: GroupCoordinator, request: Request) -> Answer:
    states = request.body.get("statesFilter") or ()
    types = request.body.get("typesFilter") or ()
    error, groups = coordinator.list_groups(states, types)
    return ResponseFuture.of({"errorCode": int(error), "groups": write_json(tuple(groups))})


def delete_groups(coordinator: GroupCoordinator, request: Request) -> Answer:
    def write(errors: Mapping[str, Errors]) -> Json:
        return {"results": [{"groupId": each, "errorCode": int(errors[each]), "errorMessage": None} for each in errors]}

    return coordinator.delete_groups(request.body["groupsNames"]).map(write)


def consumer_group_describe(coordinator: GroupCoordinator, request: Request) -> Answer:
    groups = [
        {
            **write_json(replace(group, members=())),
            "members": [_write_consumer(member, group.topic_names) for member in group.members],
            **_write_operations(coordinator, request, group),
        }
        for group in coordinator.consumer_group_describe(request.body["groupIds"])
    ]
    return ResponseFuture.of({"groups": groups})


def _write_consumer(described: DescribedConsumer, names: Mapping[str, str]) -> Json:
    member = described.member
    shown = ("instance_id", "rack_id", "client_id", "client_host", "subscribed_topic_names", "subscribed_topic_regex")
    return {
        "memberId": member.member_id,
        "memberEpoch": member.epoch,
        **{_find_json_names(name)[-1]: write_json(getattr(member.metadata, name)) for name in shown},
        "assignment": _write_partitions(described.owned, names),
        "targetAssignment": _write_partitions(described.target, names),
        "memberType": 0 if member.uses_classic_protocol else 1,
    }


def _write_partitions(partitions: Mapping[str, Collection[int]], names: Mapping[str, str] | None = None) -> Json:
    """`names` are the names of the topics by id, for a response that contains them."""
    topics = [
        {
            "topicId": topic_id,
            **({} if names is None else {"topicName": names[topic_id]}),
            "partitions": sorted(numbers),
        }
        for topic_id, numbers in partitions.items()
    ]
    return {"topicPartitions": topics}


HANDLERS: dict[str, Callable[[GroupCoordinator, Request], Answer]] = {
    "".join(map(str.capitalize, handler.__name__.split("_"))): handler
    for handler in (
        *(join_group, sync_group, heartbeat, leave_group),
        *(offset_commit, txn_offset_commit, offset_fetch, offset_delete),
        *(describe_groups, list_groups, delete_groups),
        *(consumer_group_heartbeat, consumer_group_describe),
    )
}
"""For each API, as "JoinGroup", the function that sends its request to the coordinator."""
FIRST_VERSION_BY_API_AND_FIELD: dict[str, dict[str, int]] = {
    "JoinGroup": {"throttleTimeMs": 2, "groupInstanceId": 5, "protocolType": 7, "skipAssignment": 9},
    "SyncGroup": {"throttleTimeMs": 1, "protocolType": 5, "protocolName": 5},
    "Heartbeat": {"throttleTimeMs": 1},
    "LeaveGroup": {"throttleTimeMs": 1, "members": 3},
    "OffsetCommit": {"throttleTimeMs": 3},
    "OffsetFetch": {"throttleTimeMs": 3, "committedLeaderEpoch": 5},
    "ConsumerGroupDescribe": {"memberType": 1},
    "DeleteGroups": {"errorMessage": 3},
    "DescribeGroups": {"throttleTimeMs": 1, "authorizedOperations": 3, "groupInstanceId": 4, "errorMessage": 6},
    "ListGroups": {"throttleTimeMs": 1, "groupState": 4, "groupType": 5},
}
"""The first response version that has a field, by API and field. All other fields are in every version.

One exception is handled by `offset_fetch`: the error code of the group, not that of partitions, is new in version 2.
"""
FIRST_RELEASE_BY_API = {"DeleteGroups": (1, 1), "OffsetDelete": (2, 4)}
"""The Kafka version that introduced an API, by API. All other APIs exist in every supported version."""


def handle(coordinator: GroupCoordinator, request: Request) -> Answer:
    """If the API does not exist in this Kafka version, a broker would close the connection, so it is never answered."""
    if coordinator.settings.is_before(*FIRST_RELEASE_BY_API.get(request.api, (0,))):
        return ResponseFuture()
    first_versions = FIRST_VERSION_BY_API_AND_FIELD.get(request.api, {})
    missing_fields = {name for name, version in first_versions.items() if request.version < version}
    answer = HANDLERS[request.api](coordinator, request)
    return answer.map(lambda response: _remove_fields({"throttleTimeMs": 0, **response}, missing_fields))


def _remove_fields(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {name: _remove_fields(field, names) for name, field in value.items() if name not in names}
    if isinstance(value, list):
        return [_remove_fields(element, names) for element in value]
    return value
