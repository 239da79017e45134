"""A request of a recorded conversation, as its handler receives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkagroups.coordinator import GroupCoordinator
from kafkagroups.replay.json_values import Json

Reply = Callable[[Json], None]
"""A function that receives the JSON of a response."""


@dataclass(frozen=True)
class Request:
    """A request. `api` is the name of the request, for example "JoinGroup". `body` is the JSON of the request.

    The fields in `body` have the names of the request's newest version, as in Kafka's generated classes.
    """

    api: str
    version: int
    body: Json
    client_id: str
    client_host: str = "/127.0.0.1"


Handler = Callable[[GroupCoordinator, Request, Reply], None]
"""A function that sends a request to the coordinator. It calls the `Reply` with the response, now or later."""
