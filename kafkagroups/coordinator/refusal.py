"""The refusal of a request, with the text that the client gets."""

from __future__ import annotations

from kafkagroups.coordinator.error_codes import Errors


class Refusal(Exception):
    """A request is refused: nothing is written, and the client gets the error and the text; None: only the error."""

    def __init__(self, error: Errors, message: str | None) -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message
