"""An event of a group in lessons 06 and 09: a request, the response, and the changes of the group."""

from __future__ import annotations

from dataclasses import dataclass

from kafkagroups.course.log_lines import Lines


@dataclass(frozen=True)
class Event:
    """A request of a client, as text, or a time in which no request was sent.

    `time_s` counts from the start of the `GroupLife`. `client` is "" without a request, and `response` is "waits"
    without a response. `late_responses` arrived during this event, but answer earlier requests. `written_lines` has the
    records that the event appended to the group's partition.
    """

    time_s: float
    client: str
    request: str
    response: str
    late_responses: tuple[str, ...]
    written_lines: Lines
    state: str

    def format_lines(self) -> list[str]:
        request = f"{self.time_s:>6.1f} s  {self.client:<10} {self.request}"
        lines = [f"{request} → {self.response}" if self.response else request]
        lines += [f"{'':10}{response}" for response in self.late_responses]
        lines += [f"{'':10}written {str(line).strip()}" for line in self.written_lines]
        return lines


def format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count or 'no'} {noun}s"
