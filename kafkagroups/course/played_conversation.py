"""Recorded conversations with a real broker, sent again to our coordinator for a comparison.

Lists in responses are sorted before the comparison, because a broker takes the order of these lists from a hash map.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kafkagroups.coordinator.player import Player
from kafkagroups.coordinator.recorded_requests import Json
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.course.log_lines import read_lines
from kafkagroups.course.recordings import Recording, read_compressed


@dataclass(frozen=True)
class PlayedConversation(Recording):
    """A recorded conversation (see `Recording`) with the responses of the real broker and of our coordinator.

    A response, with sorted lists, stands with the batches that its request appended, by the request's number. Appends
    are batches without a request, for example at the end of a timer. `log_folder` has the log that our coordinator
    wrote.
    """

    our_responses: dict[int, Any]
    broker_responses: dict[int, Any]
    our_appends: list[str]
    broker_appends: list[str]
    log_folder: Path

    def __str__(self) -> str:
        apis = Counter(line["api"] for line in self.lines if line.get("n") in self.our_responses)
        counts = ", ".join(f"{count} {api}" for api, count in apis.most_common())
        return f"{sum(apis.values())} requests: {counts}"

    def read_offsets(self, number: int) -> dict[str, int]:
        """Return the real broker's answer to the OffsetFetch of this number: the partitions ("orders-0") of all
        its groups.
        """
        response, _ = self.broker_responses[number]
        return {
            f"{topic['name']}-{partition['partitionIndex']}": partition["committedOffset"]
            for group in response.get("groups", [response])
            for topic in group["topics"]
            for partition in topic["partitions"]
        }

    def print_expired(self, *groups: str) -> None:
        for line in self.lines:
            if line.get("why") != "expiry" or (groups and line["group"] not in groups):
                continue
            for append in line["appended"]:
                deletion = self._describe_deletion(append)
                print(f"  {line['ms'] / 1000:5.1f} s  {line['group']}: {deletion}")

    def _describe_deletion(self, append: Json) -> str:
        """Return what an appended batch deleted, for example "2 offsets + the group".

        The recording contains no records, so they are read from our coordinator's log.
        """
        log = read_lines(self.log_folder / f"__consumer_offsets-{append['partition']}")
        record_types = [
            record.record_type for record in log if append["first"] <= record.record_offset <= append["last"]
        ]
        offset_count = record_types.count("offset")
        parts = []
        if offset_count:
            parts.append("1 offset" if offset_count == 1 else f"{offset_count} offsets")
        if "group" in record_types:
            parts.append("the group")
        return " + ".join(parts)


def play_conversation(name: str) -> PlayedConversation:
    """Send the requests of a recorded conversation to our coordinator, which uses the rules of the broker's version.

    `name` is a file in data/conversations without ".jsonl.xz", for example "3.9.2-rebalance". Raises UsageError if it
    does not exist.
    """
    folder = make_scratch_folder()
    header, lines = read_compressed(f"conversations/{name}.jsonl.xz")
    our_responses = {}
    our_appends = []
    for line in Player(header, lines, folder / "log").play():
        if "n" in line:
            our_responses[line["n"]] = (_sort_lists(line["response"]), line["appended"])
        else:
            our_appends += [str(append) for append in line["appended"]]
    broker_responses = {
        line["n"]: (_sort_lists(line["response"]), line["appended"]) for line in lines if line.get("n") in our_responses
    }
    broker_appends = [str(append) for line in lines if line.get("event") == "append" for append in line["appended"]]
    return PlayedConversation(
        broker_version=header["broker"],
        lines=lines,
        our_responses=our_responses,
        broker_responses=broker_responses,
        our_appends=sorted(our_appends),
        broker_appends=sorted(broker_appends),
        log_folder=folder / "log",
    )


def _sort_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sort_lists(element) for key, element in value.items()}
    if isinstance(value, list):
        return sorted((_sort_lists(element) for element in value), key=json.dumps)
    return value


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
