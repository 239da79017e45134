"""The exercises of lesson 06."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.groups.classic_group import ClassicGroup, ClassicMember

ProtocolLists = list[list[str]]
"""For each member: the protocols that it supports, the preferred one first."""
Members = list[tuple[str, int, int | None, str | None]]
"""For each member: its name, its rebalance timeout in seconds, the time of its JoinGroup in seconds since the join
phase began (None if it sends none), and its group instance id (None if it is not static).
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


# Exercise `end_of_join`: when does the join phase end, and which members are removed then?


def find_join_end(members: Members) -> JoinEnd:
    end = max(timeout for _, timeout, _, _ in members)
    join_times = [time for _, _, time, _ in members if time is not None and time <= end]
    if len(join_times) == len(members):
        end = max(join_times)
    removed_names = []
    for name, _, time, instance in members:
        has_joined = time is not None and time <= end
        if not has_joined and instance is None:
            removed_names.append(name)
    return end, removed_names


_END_S, [_REMOVED] = find_join_end([("a", 60, 0, None), ("b", 300, None, None), ("c", 120, 20, None)])

_SELECT_PROTOCOL_SOLUTION = """\
def select_protocol(members):
    candidates = [name for name in members[0] if all(name in names for names in members)]
    votes = [next(name for name in names if name in candidates) for names in members]
    return max(candidates, key=votes.count)"""

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
        name="end_of_join",
        correct=(_END_S, _REMOVED),
        solution='end_of_join = (300, "b")   # the largest timeout counts, also the one of b',
        hints=(
            "The coordinator waits until all members have joined, at most for the largest rebalance timeout.",
            "Heartbeats do not help a member that does not join.",
        ),
        known_mistakes={
            "The largest timeout of all members counts, not the smallest": (60, "b"),
            "The timeout of b counts, too, although b does not join": (120, "b"),
            "Not all members have joined after 20 s, so the coordinator still waits": (20, "b"),
            "A member that sends heartbeats but no JoinGroup is removed": (300, "a"),
        },
    ),
    Exercise(
        name="after_the_failover",
        correct="A",
        solution='after_the_failover = "A"   # no record says that the members are gone, or how old their sessions are',
        hints=(
            "Did the coordinator write a record in these ten seconds?",
            "A deadline is not in the log. So when does the next coordinator start the session of a member?",
        ),
        known_mistakes={
            "The log has no deadlines. So a loaded member gets a full session": "B",
            "The coordinator writes that members are gone only when their sessions have ended": "C",
        },
    ),
)
