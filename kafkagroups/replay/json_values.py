"""A request as its handler receives it, and the JSON of values that several requests contain."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafkagroups.coordinator import Errors, GroupCoordinator, OffsetCommit, TopicPartition

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
