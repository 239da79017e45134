"""Recorded conversations with a real broker: its responses, and those of our coordinator to the same requests.

Lists in responses are sorted before a comparison, because a broker takes the order of these lists from a hash map.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkagroups.coordinator import Errors
from kafkagroups.coordinator.conversation import read_conversation
from kafkagroups.coordinator.player import Player
from kafkagroups.coordinator.recorded_requests import Json
from kafkagroups.course.lesson_folders import find_data, make_scratch_folder
from kafkagroups.course.log_lines import read_lines


@dataclass(frozen=True)
class Recording:
    """A recorded conversation with a real broker of `broker_version`.

    A line is a request, or an event that no request caused, for example the end of a timer, as JSON.
    """

    broker_version: str
    lines: list[Json]

    def find_response(self, number: int) -> Json:
        return next(line["response"] for line in self.lines if line.get("n") == number)

    def read_group_errors(self, first_number: int, last_number: int) -> dict[str, str]:
        errors = {}
        for number in range(first_number, last_number + 1):
            for group in self.find_response(number)["groups"]:
                errors[group["groupId"]] = Errors(group["errorCode"]).name
        return errors


def read_recording(name: str) -> Recording:
    """Return a recorded conversation in data/new_protocols, for example "4.3.1-ghost".

    Raises UsageError if the folder has no recording.
    """
    header, lines = read_compressed(f"new_protocols/{name}/conversation.jsonl.xz")
    return Recording(header["broker"], lines)


def read_compressed(name: str) -> tuple[Json, list[Json]]:
    recording = make_scratch_folder() / "conversation.jsonl"
    recording.write_bytes(lzma.decompress(Path(find_data(name)).read_bytes()))
    return read_conversation(recording)


@dataclass(frozen=True)
class PlayedConversation(Recording):
    """A recorded conversation (see `Recording`) with the responses of the real broker and of our coordinator.

    A response, with sorted lists, stands with the batches that its request appended, by the request's number. Appends
    are batches without a request, for example at the end of a timer.
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

    def print_expired(self, *groups: str) -> None:
        for line in self.lines:
            if line.get("why") != "expiry" or (groups and line["group"] not in groups):
                continue
            for append in line["appended"]:
                deletion = self._describe_deletion(append)
                print(f"  {line['ms'] / 1000:5.1f} s  {line['group']}: {deletion}")

    def _describe_deletion(self, append: Json) -> str:
        """The recording contains no records, so they are read from our coordinator's log."""
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
