"""The requests of a recorded conversation, with the responses of the real broker.

A recording also has the batches that the broker appended to the offsets topic.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkagroups.coordinator import Errors
from kafkagroups.coordinator.conversation import read_conversation
from kafkagroups.coordinator.recorded_requests import Json
from kafkagroups.course.lesson_folders import find_data, make_scratch_folder

_NARROW_COLUMN = 10
_WIDE_COLUMN = 15


@dataclass(frozen=True)
class Recording:
    """A recorded conversation with a real broker of `broker_version`.

    A line is a request, or an event that no request caused, for example the end of a timer, as JSON. Only requests have
    a number, in the field "n". The field "ms" is the time in milliseconds.
    """

    broker_version: str
    lines: list[Json]

    def find_response(self, number: int) -> Json:
        return next(line["response"] for line in self.lines if line.get("n") == number)

    def read_group_errors(self, first_number: int, last_number: int) -> dict[str, str]:
        """Return the errors in the responses to OffsetFetch requests, by group id. The error NONE means success."""
        groups = [group for number in range(first_number, last_number + 1) for group in self._find_groups(number)]
        return {group["groupId"]: Errors(group["errorCode"]).name for group in groups}

    def print_requests(self, first_number: int, last_number: int) -> None:
        """Print these requests with the responses and the appended batches of the real broker."""
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

    def _find_groups(self, number: int) -> list[Json]:
        groups: list[Json] = self.find_response(number)["groups"]
        return groups


def read_recording(name: str) -> Recording:
    """Return a recorded conversation in data/new_protocols, for example "4.3.1-ghost".

    Raises UsageError if the folder has no recording.
    """
    header, lines = read_compressed(f"new_protocols/{name}/conversation.jsonl.xz")
    return Recording(header["broker"], lines)


def read_compressed(name: str) -> tuple[Json, list[Json]]:
    """Return the header and the other lines of a recorded conversation. `name` is its path in data/."""
    recording = make_scratch_folder() / "conversation.jsonl"
    recording.write_bytes(lzma.decompress(Path(find_data(name)).read_bytes()))
    return read_conversation(recording)


def _format_request(line: Json) -> str:
    waited_ms = (line["response_ms"] or line["ms"]) - line["ms"]
    different_codes = dict.fromkeys(_find_error_codes(line["response"]))
    errors = [Errors(code).name for code in different_codes]
    # After more than 200 ms, the broker delayed the response on purpose, for example until all members had joined.
    delay_text = f", after {waited_ms} ms" if waited_ms > 200 else ""
    client = f"{line['client_id']:<{_NARROW_COLUMN}}"
    api = f"{line['api']:<{_WIDE_COLUMN}}"
    if len(client) > _NARROW_COLUMN:
        client += " "
    return f"{line['ms']:>7} ms  {line['n']:>3} {client}{api} → {', '.join(errors)}{delay_text}{_format_appends(line)}"


def _find_error_codes(value: Any) -> Iterator[int]:
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
    appends = []
    for append in line["appended"]:
        last_offset = f"–{append['last']}" if append["last"] > append["first"] else ""
        appends.append(f"{append['partition']}/{append['first']}{last_offset}")
    return f"   written: {', '.join(appends)}" if appends else ""
