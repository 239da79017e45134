"""Exercise of lesson 07: which offsets of a group expire, with wrong rules of learners.

The coordinator deletes an offset when its retention has passed, unless a rule keeps the offset. In this exercise, all
times are days.
"""

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
    """A group and its offsets before the coordinator deletes expired offsets. Times are days.

    Attributes
    ----------
    state
        The group's state, for example "Stable".
    type
        The group's protocol type, for example "consumer". It is "" for a simple group.
    read_topics
        The topics that the group's members read.
    state_start
        The day on which the group entered its state.
    offsets
        Two days for each partition: the day of the commit, and the expiry day that the client requested. The second day
        is None if the client did not request one.
    """

    state: str
    type: str
    read_topics: tuple[str, ...]
    state_start: int
    offsets: dict[str, tuple[int, int | None]]

    def __repr__(self) -> str:
        offsets = ", ".join(f"{name}: {days}" for name, days in self.offsets.items())
        topics = ",".join(self.read_topics) or "-"
        return f"{self.state} since {self.state_start}, type {self.type!r}, reads {topics}, {{{offsets}}}"


def make_commit(commit_day: int = 0, expiry_day: int | None = None) -> OffsetAndMetadata:
    """Return a commit of offset 1 on `commit_day`.

    `expiry_day` is the day of the expiration that the client requested, or None if the client requested no day.
    """
    return OffsetAndMetadata(1, "", commit_day, -1, expiry_day, None, -1, -1)


def _list_expired(group: ExpiringGroup, now: int, retention: int) -> list[str]:
    """Return the partitions whose offsets are expired on the day `now`. `retention` is a number of days."""
    classic_group = ClassicGroup(
        "g", (3, 9, 2), group.state_start, ClassicState(group.state), protocol_type=group.type or None
    )
    classic_group.offsets.committed = {
        parse_partition(name): make_commit(*days) for name, days in group.offsets.items()
    }
    classic_group.subscribed_topics = frozenset(group.read_topics) if group.type == "consumer" else None
    return [str(partition) for partition in find_expired_offsets(classic_group, now, retention)]


def _find_retention_start(group: ExpiringGroup, commit_day: int) -> int:
    """Return the day on which the retention of an offset starts."""
    return group.state_start if group.state == "Empty" and group.type else commit_day


def _is_kept(group: ExpiringGroup, topic: str) -> bool:
    """Return whether the group's offsets for this topic stay, no matter how old the offsets are."""
    if not group.type or group.state == "Empty":
        return False
    return group.state != "Stable" or group.type != "consumer" or topic in group.read_topics


def _make_wrong_function(
    find_start: Callable[[ExpiringGroup, int], int] = _find_retention_start,
    is_kept: Callable[[ExpiringGroup, str], bool] = _is_kept,
    *,
    uses_expiry_day: bool = True,
    includes_last_day: bool = True,
) -> Callable[[ExpiringGroup, int, int], list[str]]:
    """Return a function for the exercise in which one rule is wrong. The defaults are the correct rules.

    Parameters
    ----------
    find_start
        Returns the day on which the retention of an offset starts. Its arguments are the group and the commit day.
    is_kept
        Returns whether the group's offsets for a topic stay. Its arguments are the group and the topic.
    uses_expiry_day
        Whether an offset expires on the expiry day that the client requested.
    includes_last_day
        Whether an offset expires on the last day of its retention, and not one day later.
    """

    def expired(group: ExpiringGroup, now: int, retention: int) -> list[str]:
        names = []
        for name, (commit_day, expiry_day) in group.offsets.items():
            last_day = find_start(group, commit_day) + retention
            if expiry_day is not None and uses_expiry_day:
                last_day = expiry_day
            is_due = now >= last_day if includes_last_day else now > last_day
            if is_due and not is_kept(group, name.rpartition("-")[0]):
                names.append(name)
        return names

    return expired


def _count_from_commit(group: ExpiringGroup, commit_day: int) -> int:
    return commit_day


def _count_from_state_start_of_every_group(group: ExpiringGroup, commit_day: int) -> int:
    return group.state_start if group.type else commit_day


def _keep_no_offset_of_stable_groups(group: ExpiringGroup, topic: str) -> bool:
    return _is_kept(group, topic) and group.state != "Stable"


def _keep_only_read_topics_in_rebalance(group: ExpiringGroup, topic: str) -> bool:
    return _is_kept(group, topic) and not (group.state == "PreparingRebalance" and topic not in group.read_topics)


def _keep_no_offset_of_other_types(group: ExpiringGroup, topic: str) -> bool:
    return _is_kept(group, topic) and group.type != "connect"


def _keep_every_offset_of_groups_with_members(group: ExpiringGroup, topic: str) -> bool:
    return bool(group.type) and group.state != "Empty"


def _always_expire_on_expiry_day(group: ExpiringGroup, now: int, retention: int) -> list[str]:
    expired_names = _list_expired(group, now, retention)
    names = []
    for name, (_, expiry_day) in group.offsets.items():
        is_due = name in expired_names if expiry_day is None else now >= expiry_day
        if is_due:
            names.append(name)
    return names


EXPIRED = """\
def expired(group, now, retention):
    due = []
    for name, (committed, until) in group.offsets.items():
        topic = name.rpartition("-")[0]
        start = committed                                       # for simple groups and for groups with members
        if group.type and group.state == "Empty":
            start = group.state_start
        elif group.type:
            if group.state != "Stable" or group.type != "consumer" or topic in group.read_topics:
                continue                                        # a rebalance, or members may read this topic
        if now >= (start + retention if until is None else until):
            due.append(name)
    return due"""


EXPIRED_EXERCISE = Exercise(
    "expired",
    _list_expired,
    EXPIRED,
    (
        "When does the retention start? For an Empty group with a type at group.state_start, otherwise at the commit.",
        "A group that has a type and is not Empty keeps all offsets. There is one exception: a Stable consumer group "
        "keeps only the offsets of topics that its members read.",
        "If `until` is not None, ignore the retention: the offset expires if now >= until. Hint 2 still applies.",
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
        "the retention of an Empty group starts when the group became Empty, not at the commit": _make_wrong_function(
            find_start=_count_from_commit
        ),
        "an offset expires on the last day of its retention: >=, not >": _make_wrong_function(includes_last_day=False),
        "an offset stays while a member of the group reads its topic": _make_wrong_function(
            is_kept=_keep_no_offset_of_stable_groups
        ),
        "nothing expires while the group rebalances": _make_wrong_function(is_kept=_keep_only_read_topics_in_rebalance),
        "a group of another type keeps all offsets: the coordinator cannot read its topics": _make_wrong_function(
            is_kept=_keep_no_offset_of_other_types
        ),
        "an offset expires on the day that the client requested": _make_wrong_function(uses_expiry_day=False),
        "first check what may expire: an offset of a topic that the group reads stays, even after its expiry day": (
            _always_expire_on_expiry_day
        ),
        "the retention starts at the commit if the group has members; only if it is Empty, with the state": (
            _make_wrong_function(find_start=_count_from_state_start_of_every_group)
        ),
        "a Stable consumer group does not keep the offsets of topics that it does not read": _make_wrong_function(
            is_kept=_keep_every_offset_of_groups_with_members
        ),
    },
)
