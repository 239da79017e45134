"""Recorded conversations with a real broker, sent again to our coordinator for a comparison.

A conversation is a recording: the requests to a real broker, the broker's responses, and the batches that the broker
appended to the offsets topic. "Our coordinator" is the coordinator of this package.

Lists in responses are sorted before the comparison, because a broker takes the order of these lists from a hash map.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkagroups.coordinator import Errors
from kafkagroups.course.folders import find_data, make_scratch_folder
from kafkagroups.course.log_lines import read_lines
from kafkagroups.replay.conversation import read_conversation
from kafkagroups.replay.json_values import Json
from kafkagroups.replay.player import Player


@dataclass(frozen=True)
class PlayedConversation:
    """A recorded conversation with the responses of the real broker and of our coordinator.

    Attributes
    ----------
    broker_version
        The Kafka version of the real broker.
    lines
        The lines of the recording, as JSON. A line is a request, or an event that no request caused, for example the
        end of a timer. Only requests have a number, in the field "n". The field "ms" is the time in milliseconds.
    our_responses, broker_responses
        The keys are the numbers of requests. Each value is a pair: the response (with sorted lists), and the batches
        that the request appended.
    our_appends, broker_appends
        The batches that were appended without a request, for example at the end of a timer, as text.
    log_folder
        The folder of the log that our coordinator wrote.
    """

    broker_version: str
    lines: list[Json]
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
        """Return the offsets in the real broker's response to an OffsetFetch.

        `number` is the number of the request in the recording. The keys of the result are the partitions ("orders-0")
        of all groups in the response.
        """
        response, _ = self.broker_responses[number]
        return {
            f"{topic['name']}-{partition['partitionIndex']}": partition["committedOffset"]
            for group in response.get("groups", [response])
            for topic in group["topics"]
            for partition in topic["partitions"]
        }

    def print_expired(self) -> None:
        """Print the time, the group and the content of each deletion of expired offsets in the recording."""
        for line in self.lines:
            if line.get("why") != "expiry":
                continue
            for append in line["appended"]:
                deletion = self._describe_deletion(append)
                print(f"  {line['ms'] / 1000:5.1f} s  {line['group']}: {deletion}")

    def print_requests(self, first_number: int, last_number: int) -> None:
        """Print requests of the recording with the responses and the appended batches of the real broker.

        `first_number` and `last_number` are the numbers of the first and the last request to print.
        """
        # A line without a number is printed if the request before this line is printed.
        is_in_range = False
        for line in self.lines:
            if "n" in line:
                is_in_range = first_number <= line["n"] <= last_number
            if is_in_range and "n" in line:
                print(_format_request(line))
            elif is_in_range and line.get("event") == "append":
                cause = f"{line['why']} of {line.get('group', 'a producer')}"
                print(f"{line['ms']:>7} ms  {'':>4}{cause}{_format_appends(line)}")

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

    Parameters
    ----------
    name
        The name of a file in data/conversations without ".jsonl.xz", for example "3.9.2-rebalance".

    Raises
    ------
    UsageError
        If the file does not exist.
    """
    folder = make_scratch_folder()
    recording = folder / "conversation.jsonl"
    recording.write_bytes(lzma.decompress(Path(find_data(f"conversations/{name}.jsonl.xz")).read_bytes()))
    header, lines = read_conversation(recording)
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
    """Return a copy of a JSON value in which every list is sorted."""
    if isinstance(value, dict):
        return {key: _sort_lists(element) for key, element in value.items()}
    if isinstance(value, list):
        return sorted((_sort_lists(element) for element in value), key=json.dumps)
    return value


def _format_request(line: Json) -> str:
    waited_ms = (line["response_ms"] or line["ms"]) - line["ms"]
    different_codes = dict.fromkeys(_find_error_codes(line["response"]))
    errors = [Errors(code).name for code in different_codes]
    # After more than 200 ms, the broker delayed the response on purpose, for example until all members had joined.
    delay_text = f", after {waited_ms} ms" if waited_ms > 200 else ""
    request = f"{line['ms']:>7} ms  {line['n']:>3} {line['client_id']:<10}{line['api']:<15}"
    return f"{request} → {', '.join(errors)}{delay_text}{_format_appends(line)}"


def _find_error_codes(value: Any) -> Iterator[int]:
    """Yield every error code in a JSON value."""
    elements: list[Any] = []
    if isinstance(value, dict):
        if "errorCode" in value:
            yield value["errorCode"]
        elements = list(value.values())
    elif isinstance(value, list):
        elements = value
    for element in elements:
        yield from _find_error_codes(element)


def _format_appends(line: Json) -> str:
    """Return the appended batches of a line as partition/offsets, for example "0/9" or "0/9–11"."""
    appends = []
    for append in line["appended"]:
        last_offset = f"–{append['last']}" if append["last"] > append["first"] else ""
        appends.append(f"{append['partition']}/{append['first']}{last_offset}")
    return f"   written: {', '.join(appends)}" if appends else ""
