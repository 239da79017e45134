"""The requests and fetches of a recorded conversation, with the answers of a real broker and our coordinator.

`play_conversation` sends the recorded requests to our coordinator (kafkagroups.coordinator).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkagroups.coordinator import Errors
from kafkagroups.course.played_conversation import play_conversation

Json = Any


class Exchange(NamedTuple):
    """A request of a recording as JSON, with both responses, or None where the request got none.

    Lists in responses are sorted, because the order of the items makes no difference. `number` is the request's number
    in the recording.
    """

    number: int
    api: str
    version: int
    request: Json
    broker_response: Json
    our_response: Json


class Fetch(NamedTuple):
    """The OffsetFetch of one group, and for each partition the offset, or the name of the error, of both coordinators.

    `requested_partitions` are the names, or "all" or "none".
    """

    number: int
    version: int
    group: str
    requested_partitions: str
    require_stable: bool
    broker_offsets: dict[str, int | str]
    our_offsets: dict[str, int | str]


def read_exchanges(name: str) -> list[Exchange]:
    """Return the exchanges of a file in data/conversations, for example "3.9.2-commits", also those without a response.

    Requests to other parts of a broker, for example InitProducerId, are left out.
    """
    played = play_conversation(name)
    exchanges = []
    for line in played.lines:
        number = line.get("n")
        if number in played.our_responses:
            # Each value is a pair: the response, and the batches that the request appended to the offsets topic.
            broker_response, _ = played.broker_responses[number]
            our_response, _ = played.our_responses[number]
            exchanges.append(
                Exchange(number, line["api"], line["api_version"], line["request"], broker_response, our_response)
            )
    return exchanges


def read_fetches(exchanges: list[Exchange]) -> Iterator[Fetch]:
    for exchange in exchanges:
        if exchange.api != "OffsetFetch" or exchange.broker_response is None:
            continue
        broker_offsets = _read_offsets(exchange.broker_response)
        our_offsets = _read_offsets(exchange.our_response)
        # Newer versions of the request have a list of groups. Older versions have only one group.
        has_group_list = "groups" in exchange.request
        groups = exchange.request["groups"] if has_group_list else [exchange.request]
        for group in groups:
            group_id = group["groupId"]
            key = group_id if has_group_list else ""
            yield Fetch(
                exchange.number,
                exchange.version,
                group_id,
                _format_topics(group["topics"]),
                exchange.request.get("requireStable", False),
                broker_offsets[key],
                our_offsets[key],
            )


def print_all_and_by_name(exchanges: list[Exchange]) -> None:
    """Print the answers to the first fetches of "3.9.2-fetch": for all partitions, none, or one by name."""
    rows = [("group", "asked for", "the broker's answer")]
    for fetch in read_fetches(exchanges):
        if fetch.group == "live":  # Here, the second part of the conversation begins.
            break
        if "," in fetch.requested_partitions:
            continue
        answer = ", ".join(f"{name}: {offset}" for name, offset in fetch.broker_offsets.items())
        row = (fetch.group or "(empty id)", fetch.requested_partitions, answer or "(empty)")
        if row not in rows:
            rows.append(row)
    for group, requested_partitions, answer in rows:
        print(f"{group:<12}{requested_partitions:<18}{answer}")


def _format_topics(topics: Json) -> str:
    if topics is None:
        return "all"
    partitions = [f"{topic['name']}-{number}" for topic in topics for number in topic["partitionIndexes"]]
    return ", ".join(partitions) or "none"


def _read_offsets(response: Json) -> dict[str, dict[str, int | str]]:
    """Return the offsets by group id. A response in an older version has only one group, and the key ""."""
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
