"""One event in the history of a group, as a dataclass and as JSON, and the words of its sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.member import Member
from kafkagroups.log.batch import NO_TIMESTAMP

LISTED_NAMES = 3
"""How many names a sentence contains. The other names are only counted."""
_UNITS = ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))
"""The units of a duration: ms and name. A duration of less than two units is given in the next smaller unit."""


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
        "members": [_member_json(member_id, member) for member_id, member in event.members],
        "replaced_instances": list(event.replaced_instances),
    }


def _member_json(member_id: str, member: Member) -> dict[str, Any]:
    return {
        "member_id": member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "rack": member.rack,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
    }


def time_or_none(timestamp: int) -> int | None:
    """Return a timestamp, or None if it stands for no time."""
    return None if timestamp == NO_TIMESTAMP else timestamp


def list_names(names: Sequence[object]) -> str:
    """Return names for a sentence, for example "a, b, c and 2 more"."""
    listed = ", ".join(str(name) for name in names[:LISTED_NAMES])
    more = len(names) - LISTED_NAMES
    return f"{listed} and {more} more" if more > 0 else listed


def describe_time(ms: int) -> str:
    """Return a time for a sentence, to the second. `ms` is in ms since 1970. A record can contain any number."""
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms since 1970"


def count_of(count: int, noun: str) -> str:
    """Return a number with its noun, for example "1 record" or "2 records"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def describe_duration(duration_ms: int) -> str:
    """Return a duration for a sentence, for example "61 s" or "7 days"."""
    for unit_ms, name in _UNITS:
        if duration_ms >= 2 * unit_ms:
            return f"{duration_ms // unit_ms} {name}"
    return f"{duration_ms} ms"
