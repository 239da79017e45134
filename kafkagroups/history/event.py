"""One event in the history of a group, as a dataclass and as JSON, and a member of a group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from kafkagroups.groups.offsets import TopicPartition


class Cause(Enum):
    """How a tombstone came to be, as far as the log tells.

    EXPIRED: the expire timestamp in the commit had passed.
    GROUP_DELETED: the group was deleted: by a request, or because it had no member and no offset left.
    OFFSET_DELETED: a request deleted the offset.
    TOPIC_DELETED: the topic was deleted.
    UNKNOWN: the log fits several of these causes, or none of them.
    """

    EXPIRED = "expired"
    GROUP_DELETED = "group_deleted"
    OFFSET_DELETED = "offset_deleted"
    TOPIC_DELETED = "topic_deleted"
    UNKNOWN = "unknown"


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

    def to_json(self) -> dict[str, Any]:
        """Return what the record says about the member, without its subscription."""
        return {name: value for name, value in self._asdict().items() if name not in ("name", "topics", "pattern")}

    @property
    def description(self) -> str:
        """The member's name and its host."""
        return f"{self.name}{self.host_text}"

    @property
    def host_text(self) -> str:
        """The host in parentheses, as a part of a sentence; "" if the host is not known."""
        host = self.host.removeprefix("/")
        return f" ({host})" if host else ""

    @property
    def settings(self) -> dict[str, str]:
        """The texts of what a new process of the same static member can have changed, by the name in a sentence."""
        session, rebalance = (
            "" if ms is None else f"{ms} ms" for ms in (self.session_timeout_ms, self.rebalance_timeout_ms)
        )
        settings = {"client id": self.client_id, "host": self.host.removeprefix("/"), "rack": self.rack}
        settings |= {"session timeout": session, "rebalance timeout": rebalance}
        return {name: setting or "none" for name, setting in settings.items()}

    def describe_changes(self, old: Member) -> str:
        """Return the settings that differ from those of the old process, for example "rack a -> none"."""
        return ", ".join(
            f"{name} {before} -> {setting}"
            for (name, setting), before in zip(self.settings.items(), old.settings.values(), strict=True)
            if setting != before
        )


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a group.

    Attributes
    ----------
    partition
        The partition of the offsets topic; None if the log's folder has no partition number.
    offset
        The offset of the record or marker in the log. For a gap: the first offset of the range.
    timestamp_ms
        The time of the record, in ms since 1970; None if there is no time.
    event
        The name of the event: "generation", "empty", "deleted", "commit", "rewind", "expired", "offset_deleted",
        "transaction_committed", "transaction_aborted", "transaction_open", "gap", "epoch" or "standing_still".
    what
        One sentence about the event and about what the log does not say.
    generation
        The generation (classic group) or the group epoch (newer groups) after the event; None if no record has it.
    members_joined, members_left
        The ids of the members that the previous group record did not contain, and those that only it had. Members
        whose earlier records the log cleaner may have removed are not in `members_joined`.
    leader, protocol
        The leader and the assignor of a generation.
    topic_partition
        The topic partition of an event about an offset.
    from_offset, to_offset
        The committed offset before and after the event; None if there is none. For an aborted or open transaction,
        `to_offset` is the offset that the transaction would commit. For a gap: the first and last offset of the range.
    producer_id
        The producer of a transaction.
    members
        The ids and the data of the members that the event is about: those that joined, or the one that has the topic
        partition of an offset that stands still.
    replaced_instances
        The instance ids of static members whose member ids were replaced by new ones.
    can_be_request
        Whether an expired offset can also have been deleted by a request, as far as the log tells.
    is_routine
        Whether the event only continues what earlier events show, for example a commit that moves forward.
    """

    partition: int | None
    offset: int
    timestamp_ms: int | None
    event: str
    what: str
    generation: int | None = None
    members_joined: tuple[str, ...] = ()
    members_left: tuple[str, ...] = ()
    leader: str | None = None
    protocol: str | None = None
    topic_partition: TopicPartition | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    producer_id: int | None = None
    members: tuple[tuple[str, Member], ...] = ()
    replaced_instances: tuple[str, ...] = ()
    can_be_request: bool = False
    is_routine: bool = False


def event_json(event: Event) -> dict[str, Any]:
    """Return an event as JSON, for the output of `timeline`."""
    return {
        "partition": event.partition,
        "offset": event.offset,
        "timestamp_ms": event.timestamp_ms,
        "event": event.event,
        "generation": event.generation,
        "members_joined": list(event.members_joined),
        "members_left": list(event.members_left),
        "leader": event.leader,
        "protocol": event.protocol,
        "topic_partition": None if event.topic_partition is None else str(event.topic_partition),
        "from": event.from_offset,
        "to": event.to_offset,
        "producer_id": event.producer_id,
        "what": event.what,
        "members": [{"member_id": member_id} | member.to_json() for member_id, member in event.members],
        "replaced_instances": list(event.replaced_instances),
    }
