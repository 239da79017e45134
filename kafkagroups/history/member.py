"""A member of a group as its newest record describes it."""

from __future__ import annotations

from typing import NamedTuple


class Member(NamedTuple):
    """A member as its newest record describes it.

    `topics` are the names of the topics to which the member subscribes; None if the subscription cannot be read.
    `pattern` is the pattern of topic names to which it subscribes. A streams member has neither: its topology is in
    another record. The timeouts are in ms. Those fields that the record does not have are None, or "" for the host.
    """

    name: str
    instance_id: str | None
    topics: frozenset[str] | None
    pattern: str | None = None
    client_id: str = ""
    host: str = ""
    rack: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None

    @property
    def description(self) -> str:
        """The member's name and its host."""
        host = self.host.removeprefix("/")
        return f"{self.name} ({host})" if host else self.name
