"""OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete: from request to response JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkagroups.coordinator import Errors, FetchedOffset, GroupCoordinator, TopicPartition
from kafkagroups.coordinator.results import CommitErrors, OffsetFetchResult
from kafkagroups.replay.json_values import (
    Json,
    error_to_json,
    identify_topics,
    name_topics,
    read_commits,
    read_partitions,
    topics_to_json,
)
from kafkagroups.replay.request import Reply, Request

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
