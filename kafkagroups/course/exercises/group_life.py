"""Exercises of lesson 06: the vote for a protocol, the join phase, a duplicate member."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.classic_member import ClassicMember

ProtocolLists = list[list[str]]
"""For each member: the names of the protocols (assignors) that it supports. It prefers the first protocol."""
Members = list[tuple[str, int, int | None, str | None]]
"""For each member: its name, rebalance timeout, the time of its JoinGroup, and its group instance id.

The time is None if the member sends no JoinGroup. The instance id is None if the member is not static. Times are in
seconds since the join phase began.
"""
JoinEnd = tuple[int, list[str]]
"""The time at which the join phase ends, and the names of the removed members."""

# Exercise `select_protocol`: first the correct function, then wrong functions that learners write. They return the
# protocol that the members choose by vote. A candidate is a protocol that every member supports.


def _select_protocol(members: ProtocolLists) -> str:
    group = ClassicGroup("g", (3, 9, 2), None)
    for number, names in enumerate(members):
        protocols = [(name, b"") for name in names]
        group.add(ClassicMember(f"m{number}", None, "", "", 0, 0, "consumer", protocols))
    return group.select_protocol()


def _find_most_common(votes: Iterable[str]) -> str:
    return Counter(votes).most_common(1)[0][0]


def _list_candidates(members: ProtocolLists) -> list[str]:
    return [name for name in members[0] if all(name in names for names in members)]


def _list_votes(members: ProtocolLists) -> Iterator[str]:
    candidates = _list_candidates(members)
    return (next(name for name in names if name in candidates) for names in members)


def _accept_any_protocol(members: ProtocolLists) -> str:
    return _find_most_common(names[0] for names in members)


def _use_first_candidate(members: ProtocolLists) -> str:
    return _list_candidates(members)[0]


def _count_first_choices_only(members: ProtocolLists) -> str:
    candidates = _list_candidates(members)
    votes = [names[0] for names in members if names[0] in candidates]
    return _find_most_common(votes) if votes else candidates[0]


def _return_vote_count(members: ProtocolLists) -> int:
    return max(Counter(_list_votes(members)).values())


# Exercise `join_over`: first the correct function, then wrong functions that learners write. In the join phase of a
# rebalance, the coordinator waits for a JoinGroup of each member.


def _find_join_end(members: Members) -> JoinEnd:
    return _end_join_phase(members, max)


def _end_join_phase(
    members: Members,
    choose_timeout: Callable[[list[int]], int],
    *,
    ends_early: bool = True,
    keeps_static_members: bool = True,
) -> JoinEnd:
    """Return the end of the join phase. With `max` and the defaults, the rules are Kafka's rules.

    Parameters
    ----------
    members
        The members.
    choose_timeout
        Chooses the longest time of the join phase from the rebalance timeouts of all members.
    ends_early
        Whether the join phase ends as soon as all members have joined.
    keeps_static_members
        Whether a static member stays although it has not joined.
    """
    end = choose_timeout([timeout for _, timeout, _, _ in members])
    join_times = [time for _, _, time, _ in members if time is not None and time <= end]
    if ends_early and len(join_times) == len(members):
        end = max(join_times)
    removed_names = [
        name
        for name, _, time, instance in members
        if (time is None or time > end) and not (keeps_static_members and instance is not None)
    ]
    return end, removed_names


def _always_wait_for_timeout(members: Members) -> JoinEnd:
    return _end_join_phase(members, max, ends_early=False)


def _use_smallest_timeout(members: Members) -> JoinEnd:
    return _end_join_phase(members, min)


def _use_timeouts_of_late_members(members: Members) -> JoinEnd:
    late_timeouts = [timeout for _, timeout, time, _ in members if time is None]
    return _end_join_phase(members, lambda timeouts: max(late_timeouts or timeouts))


def _remove_static_members(members: Members) -> JoinEnd:
    return _end_join_phase(members, max, keeps_static_members=False)


def _keep_late_members(members: Members) -> JoinEnd:
    end, _ = _find_join_end(members)
    return end, [name for name, _, time, instance in members if time is None and instance is None]


def _return_joined_members(members: Members) -> JoinEnd:
    end, _ = _find_join_end(members)
    return end, [name for name, _, time, _ in members if time is not None and time <= end]


SELECT_PROTOCOL = """\
def select_protocol(members):
    candidates = [name for name in members[0] if all(name in names for names in members)]
    votes = [next(name for name in names if name in candidates) for names in members]
    return max(candidates, key=votes.count)"""

JOIN_OVER = """\
def join_over(members):
    end = max(timeout for name, timeout, joined, instance in members)
    joins = [joined for name, timeout, joined, instance in members]
    if all(joined is not None and joined <= end for joined in joins):
        end = max(joins)                           # every member has joined, so the wait ends
    removed = []
    for name, timeout, joined, instance in members:
        if (joined is None or joined > end) and instance is None:
            removed.append(name)
    return end, removed"""

EXERCISES = (
    Exercise(
        "select_protocol",
        _select_protocol,
        SELECT_PROTOCOL,
        (
            "First find the candidates: the names that every member's list contains.",
            "Then each member votes once, for the first name in its list that is a candidate.",
            "max(candidates, key=votes.count) returns the candidate with the most votes.",
        ),
        cases=(
            ([["range"]],),
            ([["range", "roundrobin"], ["roundrobin", "range"], ["roundrobin", "range"]],),
            ([["sticky", "range"], ["sticky", "range"], ["range"]],),
            (
                [
                    ["range", "roundrobin"],
                    ["sticky", "roundrobin", "range"],
                    ["sticky", "roundrobin", "range"],
                    ["range", "roundrobin"],
                    ["sticky", "roundrobin", "range"],
                ],
            ),
        ),
        known_mistakes={
            "only a protocol that every member supports can be chosen": _accept_any_protocol,
            "every member votes, not only the first member or the leader": _use_first_candidate,
            "a member votes for the first candidate in its list, even if another protocol comes first": (
                _count_first_choices_only
            ),
            "return the name, not the number of votes": _return_vote_count,
        },
    ),
    Exercise(
        "join_over",
        _find_join_end,
        JOIN_OVER,
        (
            "The wait lasts at most as long as the largest timeout.",
            "If every member joins before that, the wait ends when the last member joins.",
            "Return the members that have not joined by the end and have no instance id.",
        ),
        cases=(
            ([("a", 300, 0, None), ("b", 300, 40, None)],),
            ([("a", 300, 0, None), ("b", 300, None, None)],),
            ([("a", 60, 0, None), ("b", 300, None, None), ("c", 120, 20, None)],),
            ([("a", 900, 0, None), ("b", 60, None, None)],),
            ([("a", 100, 0, None), ("b", 100, 130, None)],),
            ([("a", 300, 0, None), ("b", 300, None, "van-2"), ("c", 300, None, None)],),
        ),
        known_mistakes={
            "the join phase ends as soon as every member has joined": _always_wait_for_timeout,
            "the largest timeout of all members counts, not the smallest timeout": _use_smallest_timeout,
            "the timeouts of all members count, not only the timeouts of late members": _use_timeouts_of_late_members,
            "a static member stays: only its session timeout can remove it": _remove_static_members,
            "a member that joins after the end is removed too": _keep_late_members,
            "return the members that did not join": _return_joined_members,
        },
    ),
    Exercise(
        "copied",
        "van-2",
        'copied = "van-2"',
        (
            "The records have the same generation, so there was no rebalance. What differs between two records?",
            "Which member has a new member id in each of these records?",
        ),
        known_mistakes={
            "the member id of van-1 is the same in every record: no other process joins as van-1": "van-1",
            "van-3 joined later, but only once, and its member id does not change": "van-3",
        },
    ),
)
