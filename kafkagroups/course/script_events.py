"""An event of a group in lessons 06 and 09: a request, the response, and the changes of the group."""

from __future__ import annotations

from dataclasses import dataclass

from kafkagroups.course.log_lines import Lines


@dataclass(frozen=True)
class Event:
    """A request of a client, or a time in which no request was sent. The fields are text.

    Attributes
    ----------
    time_s
        The seconds since the `GroupLife` was created.
    client
        The name of the client, or "" without a request.
    request
        The request, for example "JoinGroup, without an id".
    response
        The response, or "waits" if there is no response yet.
    late_responses
        The responses that arrived during this event, but answer earlier requests.
    written_lines
        One line for each record that the event appended to the partition that stores the group.
    state
        The group's state, generation and number of members after the event.
    """

    time_s: float
    client: str
    request: str
    response: str
    late_responses: tuple[str, ...]
    written_lines: Lines
    state: str

    def format_lines(self) -> list[str]:
        """Return one line for the request and its response, for each late response, and for each written record."""
        request = f"{self.time_s:>6.1f} s  {self.client:<10} {self.request}"
        lines = [f"{request} → {self.response}" if self.response else request]
        lines += [f"{'':10}{response}" for response in self.late_responses]
        lines += [f"{'':10}written {str(line).strip()}" for line in self.written_lines]
        return lines


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun: "1 member", "2 members" or "no members"."""
    return f"{count} {noun}" if count == 1 else f"{count or 'no'} {noun}s"
