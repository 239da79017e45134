"""The requests of a recorded conversation, with the responses of the real broker.

A recording also has the batches that the broker appended to the offsets topic.
"""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from pathlib import Path

from kafkagroups.coordinator import Errors
from kafkagroups.coordinator.conversation import read_conversation
from kafkagroups.coordinator.recorded_requests import Json
from kafkagroups.course.lesson_folders import find_data, make_scratch_folder


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
