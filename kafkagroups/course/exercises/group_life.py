"""Exercises of lesson 06: the vote for a protocol, the join phase, a duplicate member.

A protocol is the name of an assignor, for example "range". The join phase is the first phase of a rebalance: the
coordinator waits for a JoinGroup of each member.

The keys of `known_mistakes` are the corrections that the learner sees. The values are the wrong answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.classic_member import ClassicMember

ProtocolLists = list[list[str]]
"""For each member: the protocols that the member supports, with the preferred protocol first."""
Members = list[tuple[str, int, int | None, str | None]]
"""For each member: its name, its rebalance timeout, the time of its JoinGroup, and its group instance id.

The rebalance timeout is in seconds. The time of the JoinGroup is in seconds since the join phase began, or None if the
member sends no JoinGroup. The group instance id is None if the member is not static.
"""
JoinEnd = tuple[int, list[str]]
"""The duration of the join phase in seconds, and the names of the members that are then removed."""

# Exercise `select_protocol`: which protocol do the members choose? Each member votes for one candidate. The candidates
# are the protocols that every member supports.
# `_select_protocol` is correct. The functions after it contain mistakes of learners, or are helpers.


def _select_protocol(members: ProtocolLists) -> str:
    group = ClassicGroup(group_id="g", kafka=(3, 9, 2), state_timestamp=None)
    for number, names in enumerate(members):
        member = ClassicMember(
            member_id=f"m{number}",
            group_instance_id=None,
            client_id="",
            client_host="",
            rebalance_timeout_ms=0,
            session_timeout_ms=0,
            protocol_type="consumer",
            protocols=[(name, b"") for name in names],
        )
        group.add(member)
    return group.select_protocol()


def _find_most_common(votes: Iterable[str]) -> str:
    [(name, _)] = Counter(votes).most_common(1)
    return name


def _list_candidates(members: ProtocolLists) -> list[str]:
    return [name for name in members[0] if all(name in names for names in members)]


def _list_votes(members: ProtocolLists) -> Iterator[str]:
    candidates = _list_candidates(members)
    return (next(name for name in names if name in candidates) for names in members)


def _accept_any_protocol(members: ProtocolLists) -> str:
    return _find_most_common(names[0] for names in members)


def _use_vote_of_first_member(members: ProtocolLists) -> str:
    return _list_candidates(members)[0]


def _count_only_preferred_protocols(members: ProtocolLists) -> str:
    candidates = _list_candidates(members)
    votes = [names[0] for names in members if names[0] in candidates]
    return _find_most_common(votes) if votes else candidates[0]


def _return_vote_count(members: ProtocolLists) -> int:
    return max(Counter(_list_votes(members)).values())


# Exercise `join_over`: when does the join phase end, and which members are removed then?
# `_find_join_end` is correct. The functions after it contain mistakes of learners, or are helpers.


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
    choose_timeout
        A function of the rebalance timeouts of all members. It returns the longest possible duration of the join phase.
    ends_early
        Whether the join phase ends as soon as all members have joined.
    keeps_static_members
        Whether a static member stays in the group although it has not joined.
    """
    end = choose_timeout([timeout for _, timeout, _, _ in members])
    join_times = [time for _, _, time, _ in members if time is not None and time <= end]
    if ends_early and len(join_times) == len(members):
        end = max(join_times)
    removed_names = []
    for name, _, time, instance in members:
        has_joined = time is not None and time <= end
        is_kept = keeps_static_members and instance is not None
        if not has_joined and not is_kept:
            removed_names.append(name)
    return end, removed_names


def _always_wait_for_timeout(members: Members) -> JoinEnd:
    return _end_join_phase(members, max, ends_early=False)


def _use_smallest_timeout(members: Members) -> JoinEnd:
    return _end_join_phase(members, min)


def _use_timeouts_of_absent_members(members: Members) -> JoinEnd:
    absent_timeouts = [timeout for _, timeout, time, _ in members if time is None]
    return _end_join_phase(members, lambda timeouts: max(absent_timeouts or timeouts))


def _remove_static_members(members: Members) -> JoinEnd:
    return _end_join_phase(members, max, keeps_static_members=False)


def _keep_late_members(members: Members) -> JoinEnd:
    """Remove only members that send no JoinGroup. Kafka also removes a member whose JoinGroup comes after the end."""
    end, _ = _find_join_end(members)
    return end, [name for name, _, time, instance in members if time is None and instance is None]


def _return_joined_members(members: Members) -> JoinEnd:
    end, _ = _find_join_end(members)
    return end, [name for name, _, time, _ in members if time is not None and time <= end]


_SELECT_PROTOCOL_SOLUTION = """\
def select_protocol(members):
    candidates = [name for name in members[0] if all(name in names for names in members)]
    votes = [next(name for name in names if name in candidates) for names in members]
    return max(candidates, key=votes.count)"""

_JOIN_OVER_SOLUTION = """\
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
        name="select_protocol",
        correct=_select_protocol,
        solution=_SELECT_PROTOCOL_SOLUTION,
        hints=(
            "First find the candidates: the names that every member's list contains.",
            "Then each member votes once, for the first name in its list that is a candidate.",
            "max(candidates, key=votes.count) returns the candidate with the most votes.",
        ),
        # Each case is the lists of protocols of all members.
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
            "the chosen protocol must be supported by every member": _accept_any_protocol,
            "every member votes, not only the first member or the leader": _use_vote_of_first_member,
            "a member votes for the first candidate in its list, even if another protocol comes first": (
                _count_only_preferred_protocols
            ),
            "return the name, not the number of votes": _return_vote_count,
        },
    ),
    Exercise(
        name="join_over",
        correct=_find_join_end,
        solution=_JOIN_OVER_SOLUTION,
        hints=(
            "The coordinator waits at most as long as the largest timeout.",
            "If every member joins before this time, the join phase ends when the last member joins.",
            "Return the members that have not joined at the end of the join phase and have no instance id.",
        ),
        # Each case is a list of members (`Members`).
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
            "the timeout of a member that joins counts too": _use_timeouts_of_absent_members,
            "a static member stays until its session times out": _remove_static_members,
            "a member that joins after the end of the join phase is removed too": _keep_late_members,
            "return the members that did not join, not the members that joined": _return_joined_members,
        },
    ),
    # Exercise `copied`: which group instance id do two processes use? The learner sees the group records that
    # `course.run_duplicate_static_member` writes.
    Exercise(
        name="copied",
        correct="van-2",
        solution='copied = "van-2"',
        hints=(
            "The records have the same generation, so there was no rebalance. What differs between two records?",
            "Which instance id has a new member id in each of these records?",
        ),
        known_mistakes={
            "the member id of van-1 is the same in every record: no other process joins as van-1": "van-1",
            "van-3 joined later, but only once, and its member id does not change": "van-3",
        },
    ),
)
