"""Exercise of lesson 07: which offsets expire, and the wrong rules that learners use."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.log_lines import parse_partition
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.expiration import find_expired_offsets
from kafkagroups.groups.offsets import OffsetAndMetadata
from kafkagroups.groups.states import ClassicState


class ExpiringGroup(NamedTuple):
    """A group as the expiration finds it. Times are days.

    Attributes
    ----------
    state
        The group's state, for example "Stable".
    type
        Its protocol type, for example "consumer"; "" for a simple group.
    reads
        The topics that its members read.
    since
        The day on which its state began.
    offsets
        For each partition, the day of its commit and the day on which the client asked it to expire (None if it did
        not ask).
    """

    state: str
    type: str
    reads: tuple[str, ...]
    since: int
    offsets: dict[str, tuple[int, int | None]]

    def __repr__(self) -> str:
        offsets = ", ".join(f"{name}: {days}" for name, days in self.offsets.items())
        return f"{self.state} {self.type!r} reads {','.join(self.reads) or '-'} since {self.since} {{{offsets}}}"


def make_commit(committed: int = 0, expires: int | None = None) -> OffsetAndMetadata:
    """Return a commit of offset 1 on a day, with its own expiry day or None."""
    return OffsetAndMetadata(1, "", committed, -1, expires, None, -1, -1)


def _expired(group: ExpiringGroup, now: int, retention: int) -> list[str]:
    classic = ClassicGroup("g", (3, 9, 2), group.since, ClassicState(group.state), protocol_type=group.type or None)
    classic.offsets.committed = {parse_partition(name): make_commit(*days) for name, days in group.offsets.items()}
    classic.subscribed_topics = frozenset(group.reads) if group.type == "consumer" else None
    return [str(partition) for partition in find_expired_offsets(classic, now, retention)]


def _starts_at(group: ExpiringGroup, committed: int) -> int:
    """Return the day from which the retention counts."""
    return group.since if group.state == "Empty" and group.type else committed


def _is_kept(group: ExpiringGroup, topic: str) -> bool:
    """Return whether an offset is kept no matter how old it is."""
    if not group.type or group.state == "Empty":
        return False
    return group.state != "Stable" or group.type != "consumer" or topic in group.reads


def _expired_with(
    starts_at: Callable[[ExpiringGroup, int], int] = _starts_at,
    is_kept: Callable[[ExpiringGroup, str], bool] = _is_kept,
    *,
    uses_own_day: bool = True,
    on_the_day: bool = True,
) -> Callable[[ExpiringGroup, int, int], list[str]]:
    """Return an `expired` with other rules.

    `uses_own_day`: an offset with its own expiry day expires on that day. `on_the_day`: an offset expires on its last
    day, not after it.
    """

    def expired(group: ExpiringGroup, now: int, retention: int) -> list[str]:
        names = []
        for name, (committed, expires) in group.offsets.items():
            last_day = starts_at(group, committed) + retention
            if expires is not None and uses_own_day:
                last_day = expires
            is_due = now >= last_day if on_the_day else now > last_day
            if is_due and not is_kept(group, name.rpartition("-")[0]):
                names.append(name)
        return names

    return expired


def _count_from_commit(group: ExpiringGroup, committed: int) -> int:
    return committed


def _count_from_state_of_any_group(group: ExpiringGroup, committed: int) -> int:
    return group.since if group.type else committed


def _keep_nothing_of_stable_groups(group: ExpiringGroup, topic: str) -> bool:
    return _is_kept(group, topic) and group.state != "Stable"


def _keep_only_read_topics_in_a_rebalance(group: ExpiringGroup, topic: str) -> bool:
    return _is_kept(group, topic) and not (group.state == "PreparingRebalance" and topic not in group.reads)


def _keep_nothing_of_other_types(group: ExpiringGroup, topic: str) -> bool:
    return _is_kept(group, topic) and group.type != "connect"


def _keep_all_of_living_groups(group: ExpiringGroup, topic: str) -> bool:
    return bool(group.type) and group.state != "Empty"


def _expire_on_own_day_always(group: ExpiringGroup, now: int, retention: int) -> list[str]:
    expired = _expired(group, now, retention)
    return [
        name for name, (_, expires) in group.offsets.items() if (name in expired if expires is None else now >= expires)
    ]


EXPIRED = """\
def expired(group, now, retention):
    due = []
    for name, (committed, until) in group.offsets.items():
        topic = name.rpartition("-")[0]
        begins = committed                                      # for simple groups and for groups with members
        if group.type and group.state == "Empty":
            begins = group.since
        elif group.type:
            if group.state != "Stable" or group.type != "consumer" or topic in group.reads:
                continue                                        # it rebalances, or its members may read this topic
        if now >= (begins + retention if until is None else until):
            due.append(name)
    return due"""


EXPIRED_EXERCISE = Exercise(
    "expired",
    _expired,
    EXPIRED,
    (
        "From which day does the retention count? group.since for an Empty group that has a type, else the commit.",
        "A group with a type that is not Empty keeps all offsets. There is one exception: a Stable consumer group "
        "keeps only the offsets of topics that it reads.",
        "An offset with its own `until` ignores the retention: it expires if now >= until. Hint 2 still applies.",
    ),
    cases=(
        (ExpiringGroup("Empty", "", (), 0, {"a-0": (1, None), "a-1": (5, None)}), 8, 7),
        (ExpiringGroup("Empty", "consumer", (), 4, {"a-0": (0, None)}), 8, 7),
        (ExpiringGroup("Empty", "consumer", (), 4, {"a-0": (0, None)}), 11, 7),
        (ExpiringGroup("Stable", "consumer", ("a",), 0, {"a-0": (0, None), "b-0": (0, None)}), 20, 7),
        (ExpiringGroup("PreparingRebalance", "consumer", ("a",), 6, {"b-0": (0, None)}), 20, 7),
        (ExpiringGroup("Stable", "connect", (), 0, {"a-0": (0, None)}), 20, 7),
        (ExpiringGroup("Empty", "", (), 0, {"a-0": (0, 2), "a-1": (0, 30)}), 9, 7),
        (ExpiringGroup("Stable", "consumer", ("b",), 5, {"a-0": (0, None)}), 8, 7),
        (ExpiringGroup("Stable", "consumer", ("a",), 0, {"a-0": (0, 2), "b-0": (0, 30)}), 20, 7),
    ),
    known_mistakes={
        "the retention of an Empty group counts from the day it became Empty, not from the commit": _expired_with(
            starts_at=_count_from_commit
        ),
        "an offset expires on the last day of its retention: >=, not >": _expired_with(on_the_day=False),
        "an offset stays while a member of the group reads its topic": _expired_with(
            is_kept=_keep_nothing_of_stable_groups
        ),
        "nothing expires while the group rebalances": _expired_with(is_kept=_keep_only_read_topics_in_a_rebalance),
        "the coordinator cannot read what a group of another type reads: all of its offsets stay": _expired_with(
            is_kept=_keep_nothing_of_other_types
        ),
        "an offset with its own expiry day expires on that day": _expired_with(uses_own_day=False),
        "first check what may expire at all: an offset that the group reads stays even after its own expiry day": (
            _expire_on_own_day_always
        ),
        "a living group counts from the commit; only an Empty group counts from the start of its state": (
            _expired_with(starts_at=_count_from_state_of_any_group)
        ),
        "a living group loses the offsets of topics that it does not read": _expired_with(
            is_kept=_keep_all_of_living_groups
        ),
    },
)
