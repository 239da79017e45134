"""The APIs of a conversation: from request JSON to the coordinator's call, and to the response JSON of each version.

The JSON is that of Kafka's own generated classes: in every version, fields have the names of the newest version, and
bytes are base64 text. The messages (messages.py) know these names; the classes below are the parts of requests that the
coordinator's Python methods take in another form. A response has only the fields that exist in its version.
Source: the request and response schemas of 3.9 and 4.3.1, KafkaApis.scala.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from kafkagroups.coordinator import messages
from kafkagroups.coordinator.consumer_requests import DescribedConsumer, DescribedConsumerGroup
from kafkagroups.coordinator.coordinator import GroupCoordinator
from kafkagroups.coordinator.messages import CommitErrors, Errors, Message, ResponseFuture
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.records.record_json import remove_fields

Json = dict[str, Any]
Answer = ResponseFuture[Json]


@dataclass(frozen=True)
class Request:
    api: str
    version: int
    body: Json
    client_id: str


FIRST_VERSION_BY_ARGUMENT = {
    "require_known_member_id": 4,
    "supports_skip_assignment": 9,
    "supports_group_not_found": 9,
    "supports_abortable_error": 4,
    "supports_stale_epoch": 6,
}
"""The first version of the request whose clients have this ability."""


def call(verb: Any, request: Request, write: Callable[[Any], Any] = msgspec.to_builtins, **fields: Any) -> Answer:
    """Call a verb of the coordinator with the fields of a request, and `write` its result as JSON.

    A missing field has the verb's default. `fields` replace those of the request; their names are JSON names.
    """
    given = {"clientId": request.client_id, "version": request.version}
    abilities = {
        messages.json_name(name): request.version >= version for name, version in FIRST_VERSION_BY_ARGUMENT.items()
    }
    arguments = msgspec.convert({**request.body, **given, **abilities, **fields}, verb.request_class)
    answer: ResponseFuture[Any] = verb(**msgspec.structs.asdict(arguments))
    return answer.map(write)


# Topics and partitions

Partition = TypeVar("Partition")


class NumberedPartition(Message, frozen=True):
    partition_index: messages.Int32


class CommittedPartition(NumberedPartition, frozen=True):
    committed_offset: messages.Int64
    committed_metadata: str | None
    committed_leader_epoch: messages.Int32 = -1
    commit_timestamp: messages.Int64 = -1


class Topic(Message, Generic[Partition], frozen=True):
    """A topic of a request, with its name; newer requests contain its id instead."""

    name: str | None = None
    topic_id: str = ""
    partitions: tuple[Partition, ...] = ()
    partition_indexes: tuple[messages.Int32, ...] = ()


def topics_to_json(partitions: Mapping[TopicPartition, Any]) -> list[Json]:
    topics: dict[str, list[Json]] = {}
    for (topic, partition), value in partitions.items():
        answer = {"errorCode": int(value)} if isinstance(value, Errors) else msgspec.to_builtins(value)
        topics.setdefault(topic, []).append({"partitionIndex": partition, **answer})
    return [{"name": topic, "partitions": answers} for topic, answers in topics.items()]


class NamedTopics(Generic[Partition]):
    """The topics of a request by name, and what the response says about those without a known id (`refused`).

    `refusal` is the answer for each of their partitions.
    """

    def __init__(self, coordinator: GroupCoordinator, topics: Iterable[Topic[Partition]], refusal: Json) -> None:
        self.topic_ids = coordinator.validator.topic_ids
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        self.topics: list[tuple[str, Topic[Partition]]] = []
        self.refused: list[Json] = []
        for topic in topics:
            name = names.get(topic.topic_id) if topic.name is None else topic.name
            if name is not None:
                self.topics.append((name, topic))
                continue
            numbers = topic.partition_indexes or [getattr(each, "partition_index", -1) for each in topic.partitions]
            partitions = [{"partitionIndex": number, **refusal} for number in numbers]
            self.refused.append({"topicId": topic.topic_id, "partitions": partitions})

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


class CommitBody(Message, frozen=True):
    topics: tuple[Topic[CommittedPartition], ...]


class FetchedGroup(Message, frozen=True):
    """A group of an OffsetFetch; before version 8, the request."""

    group_id: str
    topics: tuple[Topic[Any], ...] | None
    member_id: str | None = None
    member_epoch: messages.Int32 = -1


class OffsetFetchBody(Message, frozen=True):
    groups: tuple[FetchedGroup, ...] = ()
    require_stable: bool = False


class OffsetDeleteBody(Message, frozen=True):
    group_id: str
    topics: tuple[Topic[NumberedPartition], ...]


def offset_commit(coordinator: GroupCoordinator, request: Request) -> Answer:
    """Version 0 stores offsets in ZooKeeper. Since 4.0 a broker closes the connection for versions 0 and 1."""
    if request.version < 2 and coordinator.settings.is_at_least(4, 0):
        return ResponseFuture()
    return _commit(coordinator, coordinator.offset_commit, request)


def txn_offset_commit(coordinator: GroupCoordinator, request: Request) -> Answer:
    return _commit(coordinator, coordinator.txn_offset_commit, request)


def _commit(
    coordinator: GroupCoordinator, verb: Callable[..., ResponseFuture[CommitErrors]], request: Request
) -> Answer:
    """The topics of the response have ids if those of the request have.

    Since Kafka 2.0, versions 0 and 1 of TxnOffsetCommit get COORDINATOR_NOT_AVAILABLE instead of
    COORDINATOR_LOAD_IN_PROGRESS, because their clients fail at COORDINATOR_LOAD_IN_PROGRESS.
    """
    topics = msgspec.convert(request.body, CommitBody).topics
    named = NamedTopics(coordinator, topics, {"errorCode": int(Errors.UNKNOWN_TOPIC_ID)})
    offsets = {
        TopicPartition(name, each.partition_index): messages.OffsetCommit(
            each.committed_offset, each.committed_metadata, each.committed_leader_epoch, each.commit_timestamp
        )
        for name, topic in named.topics
        for each in topic.partitions
    }
    uses_topic_ids = any(topic.topic_id for topic in topics)
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

    if request.api == "OffsetCommit" and request.version == 0:
        return coordinator.offset_commit_to_zookeeper(request.body["groupId"], offsets).map(write)
    older_name = {"generationIdOrMemberEpoch": request.body["generationId"]} if "generationId" in request.body else {}
    return call(verb, request, write, offsets=offsets, **older_name)


def offset_fetch(coordinator: GroupCoordinator, request: Request) -> Answer:
    """Version 0 reads from ZooKeeper; since 4.0, a broker does not know it. Version 8 and later name several groups."""
    if request.version == 0 and coordinator.settings.is_at_least(4, 0):
        return ResponseFuture()
    body = msgspec.convert(request.body, OffsetFetchBody)
    if request.version >= 8:
        groups = [_fetch_group(coordinator, request.version, body, group) for group in body.groups]
        return ResponseFuture.gather(groups).map(lambda answers: {"groups": answers})
    hidden = ("groupId", "errorCode") if request.version < 2 else ("groupId",)
    only_group = msgspec.convert(request.body, FetchedGroup)
    return _fetch_group(coordinator, request.version, body, only_group).map(
        lambda answer: {name: value for name, value in answer.items() if name not in hidden}
    )


def _fetch_group(coordinator: GroupCoordinator, version: int, body: OffsetFetchBody, group: FetchedGroup) -> Answer:
    """Before version 2, a response cannot contain an error of the group, so each partition gets the error."""
    refusal = messages.FetchedOffset(error=Errors.UNKNOWN_TOPIC_ID)
    named = NamedTopics(coordinator, group.topics or (), msgspec.to_builtins(refusal))
    partitions = [TopicPartition(name, number) for name, topic in named.topics for number in topic.partition_indexes]
    uses_topic_ids = version >= FETCH_WITH_TOPIC_IDS

    def write(result: messages.OffsetFetchResult) -> Json:
        offsets = result.offsets
        if version < 2 and result.error is not Errors.NONE:
            offsets = {partition: messages.FetchedOffset(error=result.error) for partition in partitions}
        topics = topics_to_json(offsets)
        return {
            "groupId": group.group_id,
            "topics": named.identify(topics) + named.refused if uses_topic_ids else topics,
            "errorCode": int(result.error),
        }

    if version == 0:
        return ResponseFuture.of(write(coordinator.offset_fetch_from_zookeeper(group.group_id, partitions)))
    return coordinator.offset_fetch(
        group.group_id,
        None if group.topics is None else partitions,
        require_stable=body.require_stable,
        by_topic_id=uses_topic_ids,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
    ).map(write)


def offset_delete(coordinator: GroupCoordinator, request: Request) -> Answer:
    body = msgspec.convert(request.body, OffsetDeleteBody)
    partitions = [
        TopicPartition(topic.name or "", each.partition_index) for topic in body.topics for each in topic.partitions
    ]
    return coordinator.offset_delete(body.group_id, partitions).map(
        lambda result: {"errorCode": int(result.error), "topics": topics_to_json(result.partitions)}
    )


# Members


class Protocol(Message, frozen=True):
    name: str
    metadata: bytes


class Assignment(Message, frozen=True):
    member_id: str
    assignment: bytes


class MemberBody(Message, frozen=True):
    """The lists in the requests of members."""

    protocols: tuple[Protocol, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    topic_partitions: tuple[Topic[messages.Int32], ...] | None = None


class LeaveGroupBody(Message, frozen=True):
    """Before version 3 a request names one member."""

    group_id: str
    member_id: str = ""
    members: list[messages.MemberIdentity] | None = None


def join_group(coordinator: GroupCoordinator, request: Request) -> Answer:
    """Version 0 has no rebalance timeout; the session timeout is used. Before version 7, no protocol is ""."""
    protocols = msgspec.convert(request.body, MemberBody).protocols
    timeout = {"rebalanceTimeoutMs": request.body["sessionTimeoutMs"]} if request.version == 0 else {}

    def write(result: messages.JoinGroupResult) -> Any:
        shown = replace(result, protocol=result.protocol or "") if request.version < 7 else result
        return msgspec.to_builtins(shown)

    return call(
        coordinator.join_group,
        request,
        write,
        protocols=[(protocol.name, protocol.metadata) for protocol in protocols],
        **timeout,
    )


def sync_group(coordinator: GroupCoordinator, request: Request) -> Answer:
    """Since version 5 the request must contain the protocol type and the protocol (KIP-559)."""
    body = request.body
    if request.version >= 5 and (body.get("protocolType") is None or body.get("protocolName") is None):
        return ResponseFuture.of(msgspec.to_builtins(messages.SyncGroupResult(Errors.INCONSISTENT_GROUP_PROTOCOL)))
    assignments = {each.member_id: each.assignment for each in msgspec.convert(body, MemberBody).assignments}
    return call(coordinator.sync_group, request, assignments=assignments)


def heartbeat(coordinator: GroupCoordinator, request: Request) -> Answer:
    return call(coordinator.heartbeat, request, lambda error: {"errorCode": int(error)})


def leave_group(coordinator: GroupCoordinator, request: Request) -> Answer:
    """Before version 3, the error of the member is that of the response. `handle` removes `members`."""
    body = msgspec.convert(request.body, LeaveGroupBody)

    def write(result: messages.LeaveGroupResult) -> Json:
        error = result.error
        if request.version < 3 and result.members:
            _, member_error = result.members[0]
            error = error or member_error
        answered = [
            {**msgspec.to_builtins(member), "errorCode": int(member_error)} for member, member_error in result.members
        ]
        return {"errorCode": int(error), "members": answered}

    members = [messages.MemberIdentity(body.member_id)] if body.members is None else body.members
    return coordinator.leave_group(body.group_id, members).map(write)


def consumer_group_heartbeat(coordinator: GroupCoordinator, request: Request) -> Answer:
    owned = msgspec.convert(request.body, MemberBody).topic_partitions

    def write(result: messages.ConsumerHeartbeatResult) -> Json:
        assignment = None if result.assignment is None else _write_partitions(result.assignment)
        return {**msgspec.to_builtins(replace(result, assignment=None)), "assignment": assignment}

    partitions = None if owned is None else {topic.topic_id: topic.partitions for topic in owned}
    return call(coordinator.consumer_group_heartbeat, request, write, topicPartitions=partitions)


# Groups

UNKNOWN_OPERATIONS = -(2**31)
"""The value of the field `authorizedOperations` if it was not requested, or if the group has an error."""
GROUP_OPERATIONS = (3, 6, 8)
"""What an authorized client can do with a group, as codes of Kafka's AclOperation: READ, DELETE, DESCRIBE."""
CONFIG_OPERATIONS = (10, 11)
"""Since 4.0 also: DESCRIBE_CONFIGS, ALTER_CONFIGS."""


class GroupsBody(Message, frozen=True):
    """The groups that a request names, or looks for."""

    groups: tuple[str, ...] = ()
    group_ids: tuple[str, ...] = ()
    groups_names: tuple[str, ...] = ()
    states_filter: tuple[str, ...] | None = None
    types_filter: tuple[str, ...] | None = None


def describe_groups(coordinator: GroupCoordinator, request: Request) -> Answer:
    """Before version 6, a response has no error for a group that does not exist."""
    groups = coordinator.describe_groups(msgspec.convert(request.body, GroupsBody).groups)
    hidden_error = Errors.GROUP_ID_NOT_FOUND if request.version < 6 else None
    groups = [replace(group, error=Errors.NONE) if group.error is hidden_error else group for group in groups]
    answers = [{**msgspec.to_builtins(group), **_write_operations(coordinator, request, group)} for group in groups]
    return ResponseFuture.of({"groups": answers})


def _write_operations(
    coordinator: GroupCoordinator, request: Request, group: messages.DescribedGroup | DescribedConsumerGroup
) -> Json:
    if group.error or not request.body.get("includeAuthorizedOperations"):
        return {"authorizedOperations": UNKNOWN_OPERATIONS}
    operations = GROUP_OPERATIONS + (CONFIG_OPERATIONS if coordinator.settings.is_at_least(4, 0) else ())
    return {"authorizedOperations": sum(1 << code for code in operations)}


def list_groups(coordinator: GroupCoordinator, request: Request) -> Answer:
    body = msgspec.convert(request.body, GroupsBody)
    error, groups = coordinator.list_groups(body.states_filter or (), body.types_filter or ())
    return ResponseFuture.of({"errorCode": int(error), "groups": msgspec.to_builtins(groups)})


def delete_groups(coordinator: GroupCoordinator, request: Request) -> Answer:
    def write(errors: Mapping[str, Errors]) -> Json:
        return {"results": [{"groupId": each, "errorCode": int(errors[each]), "errorMessage": None} for each in errors]}

    return coordinator.delete_groups(msgspec.convert(request.body, GroupsBody).groups_names).map(write)


def consumer_group_describe(coordinator: GroupCoordinator, request: Request) -> Answer:
    groups = [
        {
            **msgspec.to_builtins(replace(group, members=(), topic_names={})),
            "members": [_write_consumer(member, group.topic_names) for member in group.members],
            **_write_operations(coordinator, request, group),
        }
        for group in coordinator.consumer_group_describe(msgspec.convert(request.body, GroupsBody).group_ids)
    ]
    return ResponseFuture.of({"groups": groups})


def _write_consumer(described: DescribedConsumer, names: Mapping[str, str]) -> Json:
    member = described.member
    shown = ("instance_id", "rack_id", "client_id", "client_host", "subscribed_topic_names", "subscribed_topic_regex")
    return {
        "memberId": member.member_id,
        "memberEpoch": member.epoch,
        **{messages.json_name(name): getattr(member.metadata, name) for name in shown},
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
    missing_fields = {name for name, version in first_versions.items() if request.version < version} | {"topicNames"}
    answer = HANDLERS[request.api](coordinator, request)
    return answer.map(lambda response: remove_fields({"throttleTimeMs": 0, **response}, missing_fields))
