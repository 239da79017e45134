"""A member of a living classic group: its subscription, its unanswered requests, its timer.

A living group is a group in the cache of a running coordinator. The subscription, assignment and timeouts of a member
are hard state, because the group record contains them. Unanswered requests and timers are soft state: a crash loses
them.
Source: MemberMetadata.scala (3.9).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

from kafkagroups.records.group_metadata import MemberMetadata

Protocols = list[tuple[str, bytes]]
"""Pairs of a protocol (the name of an assignor) and the member's metadata (its subscription) for this protocol.

The protocol that the member prefers is first."""


class Cancellable(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the timer, so that its action never runs."""


@dataclass(eq=False)
class ClassicMember:
    """A member of a living classic group. Timeouts are in ms.

    `awaiting_join` and `awaiting_sync` are the callbacks that answer the member's JoinGroup and SyncGroup requests.
    A callback is None if no request waits for a response. `is_new` is True while the member's first JoinGroup request
    waits. While a request waits, only a new member can time out. `session_timer` is None until the timer is started.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: Callable[[Any], None] | None = None
    awaiting_sync: Callable[[Any], None] | None = None
    is_new: bool = False
    session_timer: Cancellable | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the member waits for the response to a JoinGroup or SyncGroup request."""
        return self.awaiting_join is not None or self.awaiting_sync is not None

    def find_metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol. Raises KeyError if the member does not support the protocol."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise KeyError(protocol)

    def vote(self, candidates: Collection[str]) -> str:
        """Return the first protocol in the member's list that is in `candidates`."""
        return next(name for name, _ in self.protocols if name in candidates)

    def build_record(self, protocol: str, assignment: bytes) -> MemberMetadata:
        """Return the member as the group record contains it, with this assignment."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.find_metadata(protocol),
            assignment=assignment,
        )
