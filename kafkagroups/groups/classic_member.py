"""A member of a living classic group.

What its group record holds is hard state; what it waits for and its timer are soft, and gone after a crash.
Source: MemberMetadata.scala (3.9).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

from kafkagroups.records.group_metadata import MemberMetadata

Protocols = list[tuple[str, bytes]]
"""What a member can take part with, the most wanted first: a name and the metadata for it."""


class Cancellable(Protocol):
    def cancel(self) -> None: ...


@dataclass(eq=False)
class ClassicMember:
    """A member. Timeouts in ms. `awaiting_join` and `awaiting_sync` answer a request that hangs; None: there is none.

    `is_new`: it has no member id yet that it could send heartbeats with, so it may time out while it waits.
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
    heartbeat: Cancellable | None = None

    @property
    def is_waiting(self) -> bool:
        return self.awaiting_join is not None or self.awaiting_sync is not None

    def metadata(self, protocol: str | None) -> bytes:
        """What it sent for that protocol. KeyError when it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise KeyError(protocol)

    def vote(self, candidates: Collection[str]) -> str:
        """The first protocol of its own that is a candidate."""
        return next(name for name, _ in self.protocols if name in candidates)

    def record(self, protocol: str, assignment: bytes) -> MemberMetadata:
        """What the group record says of it."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )
