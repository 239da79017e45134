"""The exchanges, commits and fetches of a recorded conversation, with our responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkagroups.coordinator import Errors
from kafkagroups.course.recorded import play_conversation

Json = Any


class Exchange(NamedTuple):
    """A request with the real broker's response and ours. Lists in responses are sorted.

    Attributes
    ----------
    n
        The number of the request in the recording.
    api, version, request
        The request as JSON, with the name and version of its API.
    broker, ours
        The responses as JSON.
    """

    n: int
    api: str
    version: int
    request: Json
    broker: Json
    ours: Json


class Commit(NamedTuple):
    """One partition of an OffsetCommit, with the real broker's error and ours."""

    n: int
    group: str
    generation: int
    member: str
    partition: str
    offset: int
    metadata: str
    broker: Errors
    ours: Errors


class Fetch(NamedTuple):
    """The OffsetFetch of one group, with the real broker's answer and ours.

    Attributes
    ----------
    n, version, group
        The number of the request in the recording, its version, and the group id.
    requested
        "all", "none", or the requested partitions.
    stable
        Whether the request has requireStable.
    broker, ours
        For each partition its offset, or the name of an error.
    """

    n: int
    version: int
    group: str
    requested: str
    stable: bool
    broker: dict[str, int | str]
    ours: dict[str, int | str]


def read_exchanges(name: str) -> list[Exchange]:
    """Return every request of a recorded conversation that a coordinator answers, in order.

    Parameters
    ----------
    name
        The name of a file in data/conversations, for example "3.9.2-commits".
    """
    played = play_conversation(name)
    exchanges = []
    for line in played.lines:
        number = line.get("n")
        if number in played.our_responses:
            broker_response, _ = played.broker_responses[number]
            our_response, _ = played.our_responses[number]
            exchanges.append(
                Exchange(number, line["api"], line["api_version"], line["request"], broker_response, our_response)
            )
    return exchanges


def read_commits(exchanges: list[Exchange]) -> Iterator[Commit]:
    """Yield every partition that an OffsetCommit among the exchanges names."""
    for exchange in exchanges:
        if exchange.api != "OffsetCommit":
            continue
        broker_errors = _read_errors(exchange.broker)
        our_errors = _read_errors(exchange.ours)
        for topic in exchange.request["topics"]:
            for partition in topic["partitions"]:
                key = (topic["name"], partition["partitionIndex"])
                yield Commit(
                    exchange.n,
                    exchange.request["groupId"],
                    exchange.request.get("generationIdOrMemberEpoch", -1),
                    exchange.request.get("memberId", ""),
                    f"{topic['name']}-{partition['partitionIndex']}",
                    partition["committedOffset"],
                    partition["committedMetadata"] or "",
                    broker_errors[key],
                    our_errors[key],
                )


def read_fetches(exchanges: list[Exchange]) -> Iterator[Fetch]:
    """Yield every group whose offsets an OffsetFetch among the exchanges requests."""
    for exchange in exchanges:
        if exchange.api != "OffsetFetch" or exchange.broker is None:
            continue
        broker_offsets = _read_offsets(exchange.broker)
        our_offsets = _read_offsets(exchange.ours)
        has_groups = "groups" in exchange.request
        for group in exchange.request["groups"] if has_groups else [exchange.request]:
            group_id = group["groupId"]
            key = group_id if has_groups else ""
            yield Fetch(
                exchange.n,
                exchange.version,
                group_id,
                _format_topics(group["topics"]),
                exchange.request.get("requireStable", False),
                broker_offsets[key],
                our_offsets[key],
            )


def _format_topics(topics: Json) -> str:
    if topics is None:
        return "all"
    partitions = [f"{topic['name']}-{number}" for topic in topics for number in topic["partitionIndexes"]]
    return ", ".join(partitions) or "none"


def _read_offsets(response: Json) -> dict[str, dict[str, int | str]]:
    """Return the offsets of an OffsetFetch response by group id; "" in a version with only one group."""
    return {
        group.get("groupId", ""): {
            f"{topic['name']}-{partition['partitionIndex']}": _read_offset(partition)
            for topic in group["topics"]
            for partition in topic["partitions"]
        }
        for group in response.get("groups", [response])
    }


def _read_offset(partition: Json) -> int | str:
    code = partition["errorCode"]
    return Errors(code).name if code else int(partition["committedOffset"])


def _read_errors(response: Json) -> dict[tuple[str, int], Errors]:
    return {
        (topic["name"], partition["partitionIndex"]): Errors(partition["errorCode"])
        for topic in response["topics"]
        for partition in topic["partitions"]
    }
