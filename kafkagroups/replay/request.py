"""A request of a recorded conversation, as its handler receives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafkagroups.coordinator import GroupCoordinator

Json = dict[str, Any]
Reply = Callable[[Json], None]
"""Receives the JSON of a response."""


@dataclass(frozen=True)
class Request:
    """A request. `body` is its JSON, with the newest field names also for old versions."""

    api: str
    version: int
    body: Json
    client_id: str
    client_host: str = "/127.0.0.1"


Handler = Callable[[GroupCoordinator, Request, Reply], None]
