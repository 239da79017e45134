"""One step in the printed life of a group: a request and what it changed."""

from __future__ import annotations

from dataclasses import dataclass

from kafkagroups.course.log_lines import Lines


@dataclass(frozen=True)
class Event:
    """A request, or a time that passed.

    Attributes
    ----------
    at_s
        The time in seconds since the life began.
    who
        The name of the client, or "" if time passed.
    request
        The request, for example "JoinGroup, without an id".
    response
        The response, or "waits".
    late_responses
        The responses to earlier requests that came at this step.
    written
        The lines that were appended to the group's partition.
    state
        The group's state afterwards.
    """

    at_s: float
    who: str
    request: str
    response: str
    late_responses: tuple[str, ...]
    written: Lines
    state: str

    def format_lines(self) -> list[str]:
        """Return the step as text: one line, then one for each late response and each written line."""
        request = f"{self.at_s:>6.1f} s  {self.who:<10} {self.request}"
        lines = [f"{request} → {self.response}" if self.response else request]
        lines += [f"{'':10}{response}" for response in self.late_responses]
        lines += [f"{'':10}written {str(line).strip()}" for line in self.written]
        return lines


def format_count(count: int, noun: str) -> str:
    """Return "1 member", "2 members" or "no members"."""
    return f"{count} {noun}" if count == 1 else f"{count or 'no'} {noun}s"
