"""The exercises of lesson 09.

All times are days.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkagroups.course.exercises.exercise import Exercise, make_commit
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.expiration import find_expired_offsets
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.offsets import TopicPartition


class ExpiringGroup(NamedTuple):
    """A group and its offsets before the coordinator deletes expired offsets.

    `type` is the protocol type, "" for a simple group, which has never had a member. `state_start` is the day on which
    the group entered its state. `offsets` has, for each partition, the day of the commit, and the expiry day that the
    client requested, or None.
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


# Exercise `expired`: which offsets are expired on the day `now`? The functions return the names of their partitions.


def _list_expired(group: ExpiringGroup, now: int, retention: int) -> list[str]:
    classic_group = ClassicGroup(
        group_id="g",
        kafka=(3, 9, 2),
        state_timestamp=group.state_start,
        state=ClassicState(group.state),
        protocol_type=group.type or None,
    )
    committed = {
        TopicPartition.parse(name): make_commit(1, commit_time=commit_day, expire_time=expiry_day)
        for name, (commit_day, expiry_day) in group.offsets.items()
    }
    classic_group.subscribed_topics = frozenset(group.read_topics) if group.type == "consumer" else None
    return [str(partition) for partition in find_expired_offsets(classic_group, committed, (), now, retention)]


def _find_retention_start(group: ExpiringGroup, commit_day: int) -> int:
    return group.state_start if group.state == "Empty" and group.type else commit_day


def _keeps_topic(group: ExpiringGroup, topic: str) -> bool:
    if group.state == "Stable" and group.type == "consumer":
        return topic in group.read_topics
    return _has_members(group)


def _has_members(group: ExpiringGroup) -> bool:
    return group.type != "" and group.state != "Empty"


def _make_wrong_function(
    find_start: Callable[[ExpiringGroup, int], int] = _find_retention_start,
    keeps_topic: Callable[[ExpiringGroup, str], bool] = _keeps_topic,
    *,
    uses_requested_day: bool = True,
    includes_expiry_day: bool = True,
) -> Callable[[ExpiringGroup, int, int], list[str]]:
    def expired(group: ExpiringGroup, now: int, retention: int) -> list[str]:
        names = []
        for name, (commit_day, requested_day) in group.offsets.items():
            expiry_day = find_start(group, commit_day) + retention
            if requested_day is not None and uses_requested_day:
                expiry_day = requested_day
            is_due = now >= expiry_day if includes_expiry_day else now > expiry_day
            topic = TopicPartition.parse(name).topic
            if is_due and not keeps_topic(group, topic):
                names.append(name)
        return names

    return expired


# Functions for `find_start` that contain mistakes of learners.


def _start_at_commit(group: ExpiringGroup, commit_day: int) -> int:
    return commit_day


def _start_at_state_start(group: ExpiringGroup, commit_day: int) -> int:
    return group.state_start if group.type else commit_day


def _start_each_empty_group_at_state_start(group: ExpiringGroup, commit_day: int) -> int:
    return group.state_start if group.state == "Empty" else commit_day


# Functions for `keeps_topic` that contain mistakes of learners.


def _keep_nothing_if_stable(group: ExpiringGroup, topic: str) -> bool:
    return _keeps_topic(group, topic) and group.state != "Stable"


def _keep_only_read_topics_in_rebalance(group: ExpiringGroup, topic: str) -> bool:
    if group.state == "PreparingRebalance" and topic not in group.read_topics:
        return False
    return _keeps_topic(group, topic)


def _keep_nothing_of_connect_groups(group: ExpiringGroup, topic: str) -> bool:
    return _keeps_topic(group, topic) and group.type != "connect"


def _keep_everything_of_groups_with_members(group: ExpiringGroup, topic: str) -> bool:
    return _has_members(group)


def _expire_read_topics_on_expiry_day(group: ExpiringGroup, now: int, retention: int) -> list[str]:
    correct_names = _list_expired(group, now, retention)
    names = []
    for name, (_, expiry_day) in group.offsets.items():
        is_expired = name in correct_names if expiry_day is None else now >= expiry_day
        if is_expired:
            names.append(name)
    return names


_EXPIRED_SOLUTION = """\
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
    name="expired",
    correct=_list_expired,
    solution=_EXPIRED_SOLUTION,
    hints=(
        "When does the retention start? For an Empty group with a type: at group.state_start. Otherwise at the commit.",
        "A group that has a type and is not Empty keeps all offsets. There is one exception: a Stable consumer group "
        "keeps only the offsets of topics that its members read.",
        "An offset that hint 2 keeps does not expire. If `until` of another offset is not None, ignore the retention: "
        "the offset expires if now >= until.",
    ),
    # Each case is a group, the day `now`, and the retention.
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
            find_start=_start_at_commit
        ),
        "a simple group (type '') never had members, so the retention of each offset starts at its commit": (
            _make_wrong_function(find_start=_start_each_empty_group_at_state_start)
        ),
        "an offset expires on the last day of its retention: use >=, not >": _make_wrong_function(
            includes_expiry_day=False
        ),
        "an offset stays while a member of the group reads its topic": _make_wrong_function(
            keeps_topic=_keep_nothing_if_stable
        ),
        "nothing expires while the group rebalances": _make_wrong_function(
            keeps_topic=_keep_only_read_topics_in_rebalance
        ),
        "a group with members keeps all offsets if its type is not consumer": _make_wrong_function(
            keeps_topic=_keep_nothing_of_connect_groups
        ),
        "an offset expires on the day that the client requested": _make_wrong_function(uses_requested_day=False),
        "a Stable group keeps the offsets of topics that its members read, even after the expiry day of the offsets": (
            _expire_read_topics_on_expiry_day
        ),
        "if the group is not Empty, the retention starts at the commit": _make_wrong_function(
            find_start=_start_at_state_start
        ),
        "a Stable consumer group does not keep the offsets of topics that it does not read": _make_wrong_function(
            keeps_topic=_keep_everything_of_groups_with_members
        ),
    },
)


EXERCISES = (
    # Exercise `records_of_dashboard`: how many records does the deletion of a simple group with two offsets write, in
    # 4.3.1 and in 3.9.2?
    Exercise(
        name="records_of_dashboard",
        correct=(3, 2),
        solution="records_of_dashboard = (3, 2)   # 4.3.1 also writes a tombstone for the group",
        hints=(
            "Each offset has one tombstone, with both coordinators.",
            "The generation of a simple group is 0. Which coordinator writes a tombstone for the group?",
        ),
        known_mistakes={
            "3.9.2 writes no tombstone for a group whose generation is 0": (3, 3),
            "4.3.1 writes a tombstone for the group, although the log has no group record": (2, 2),
            "It is the other way round: 4.3.1 writes the tombstone for the group": (2, 3),
        },
    ),
    EXPIRED_EXERCISE,
    # Exercise `weekend`: which of three groups loses its offsets from Friday to Monday, with a retention of one day?
    Exercise(
        name="weekend",
        correct="dashboard",
        solution='weekend = "dashboard"',
        hints=(
            "Two of the three groups have a member, at least at night. When does the retention of these groups start?",
            "A consumer that assigns its partitions itself is never a member, no matter how often it commits.",
        ),
        known_mistakes={
            "mailer is Stable all the time and reads its topic: since Kafka 2.1 its offsets do not expire": "mailer",
            "nightly is never Empty for a whole day: a member joins each night": "nightly",
        },
    ),
)
