"""What clients asked real brokers and were answered, played once more: a lesson lays our answers beside theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkagroups.coordinator import Errors
from kafkagroups.course.recorded import play

Json = Any


class Exchange(NamedTuple):
    """A request, what the broker answered, and what our coordinator did. Lists that have no order are sorted."""

    n: int
    api: str
    version: int
    request: Json
    broker: Json
    ours: Json


class Commit(NamedTuple):
    """One partition of an OffsetCommit, with the broker's answer and ours."""

    n: int
    group: str
    generation: int
    member: str
    partition: str
    offset: int
    metadata: str
    broker: Errors
    ours: Errors


def conversation(name: str) -> list[Exchange]:
    """A conversation of data/conversations: every request that a coordinator answers, in order."""
    played = play(name)
    return [
        Exchange(n, line["api"], line["api_version"], line["request"], played.brokers[n][0], played.mine[n][0])
        for n, line in ((line.get("n"), line) for line in played.lines)
        if n in played.mine
    ]


def commits(talk: list[Exchange]) -> Iterator[Commit]:
    """Every partition that some OffsetCommit of the conversation names."""
    for each in talk:
        if each.api != "OffsetCommit":
            continue
        broker, ours = _errors(each.broker), _errors(each.ours)
        for topic in each.request["topics"]:
            for there in topic["partitions"]:
                key = topic["name"], there["partitionIndex"]
                yield Commit(
                    each.n,
                    each.request["groupId"],
                    each.request.get("generationIdOrMemberEpoch", -1),
                    each.request.get("memberId", ""),
                    f"{key[0]}-{key[1]}",
                    there["committedOffset"],
                    there["committedMetadata"] or "",
                    broker[key],
                    ours[key],
                )


class Fetch(NamedTuple):
    """One group's OffsetFetch, with the broker's answer and ours: partition to offset, or to the name of an error."""

    n: int
    version: int
    group: str
    asked: str
    stable: bool
    broker: dict[str, int | str]
    ours: dict[str, int | str]


def fetches(talk: list[Exchange]) -> Iterator[Fetch]:
    """Every group whose offsets are asked for in the conversation; `asked` is "all" or the partitions."""
    for each in talk:
        if each.api != "OffsetFetch" or each.broker is None:
            continue
        answers = [_offsets(response) for response in (each.broker, each.ours)]
        for group in each.request.get("groups", [each.request]):
            topics = group["topics"]
            named = [f"{topic['name']}-{n}" for topic in topics or () for n in topic["partitionIndexes"]]
            yield Fetch(
                each.n,
                each.version,
                group["groupId"],
                "all" if topics is None else ", ".join(named) or "none",
                each.request.get("requireStable", False),
                *(answer[group["groupId"] if "groups" in each.request else ""] for answer in answers),
            )


def _offsets(response: Json) -> dict[str, dict[str, int | str]]:
    return {
        group.get("groupId", ""): {
            f"{topic['name']}-{there['partitionIndex']}": Errors(there["errorCode"]).name
            if there["errorCode"]
            else there["committedOffset"]
            for topic in group["topics"]
            for there in topic["partitions"]
        }
        for group in response.get("groups", [response])
    }


def _errors(response: Json) -> dict[tuple[str, int], Errors]:
    return {
        (topic["name"], there["partitionIndex"]): Errors(there["errorCode"])
        for topic in response["topics"]
        for there in topic["partitions"]
    }
