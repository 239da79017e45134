"""The requests of a recorded conversation, with the answers of a real broker and our coordinator.

`play_conversation` sends the recorded requests to our coordinator (kafkagroups.coordinator).
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
