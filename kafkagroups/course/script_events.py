"""An event of a group in lessons 06, 07 and 09: a request, the response, and the changes of the group."""

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

    def make_step(self, state_before: str) -> tuple[str, str]:
        """Return a step for `compare_brokers`: the request, and the responses with the group's state if it is new."""
        label = f"{self.client}: {self.request}" if self.client else self.request
        parts = [self.response, *self.late_responses]
        if self.state != state_before:
            parts.append(f"now {self.state}")
        return label, "; ".join(part for part in parts if part) or "nothing changes"


def format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count or 'no'} {noun}s"
