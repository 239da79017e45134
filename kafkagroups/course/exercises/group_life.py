"""The exercises of lesson 06: the vote for a protocol, the end of the join phase, and a copied static member."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.classic_member import ClassicMember

Ballots = list[list[str]]
Joining = list[tuple[str, int, int | None, str | None]]
Over = tuple[int, list[str]]


def _select_protocol(members: Ballots) -> str:
    group = ClassicGroup("g", (3, 9, 2), None)
    for number, names in enumerate(members):
        protocols = [(name, b"") for name in names]
        group.add(ClassicMember(f"m{number}", None, "", "", 0, 0, "consumer", protocols))
    return group.select_protocol()


def _most(votes: Iterable[str]) -> str:
    return Counter(votes).most_common(1)[0][0]


def _common(members: Ballots) -> list[str]:
    return [name for name in members[0] if all(name in names for names in members)]


def _join_over(members: Joining) -> Over:
    return _over(members, lambda timeouts: max(timeouts))


def _over(
    members: Joining, wait: Callable[[list[int]], int], *, early: bool = True, spares_static: bool = True
) -> Over:
    end = wait([timeout for _, timeout, _, _ in members])
    joined = [at for _, _, at, _ in members if at is not None and at <= end]
    if early and len(joined) == len(members):
        end = max(joined)
    out = [
        name
        for name, _, at, instance in members
        if (at is None or at > end) and not (spares_static and instance is not None)
    ]
    return end, out


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
        end = max(joins)                           # everybody is there: no need to wait
    out = []
    for name, timeout, joined, instance in members:
        if (joined is None or joined > end) and instance is None:
            out.append(name)
    return end, out"""

EXERCISES = (
    Exercise(
        "select_protocol",
        _select_protocol,
        SELECT_PROTOCOL,
        (
            "First the candidates: the names that stand in every member's list.",
            "Then each member votes once: for the first name of its list that is a candidate.",
            "max(candidates, key=votes.count) gives the one with the most votes.",
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
            "only what every member supports can be chosen": lambda members: _most(names[0] for names in members),
            "everybody votes, not only the first member (or the leader)": lambda members: _common(members)[0],
            "a member votes for its first *candidate*, also when that is not the first of its list": lambda members: (
                _most(names[0] for names in members if names[0] in _common(members))
                if any(names[0] in _common(members) for names in members)
                else _common(members)[0]
            ),
            "the name is wanted, not the votes": lambda members: max(
                Counter(next(name for name in names if name in _common(members)) for names in members).values()
            ),
        },
    ),
    Exercise(
        "join_over",
        _join_over,
        JOIN_OVER,
        (
            "The wait lasts at most as long as the largest of the time-outs.",
            "If nobody's `joined` is None or later than that, it ends when the last one joins.",
            "Out is who has not joined by the end, unless it has an instance id.",
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
            "it is over as soon as everybody has joined": lambda members: _over(members, max, early=False),
            "the *largest* time-out of all members counts, not the smallest": lambda members: _over(members, min),
            "the time-outs of all members count, not only of those who are late": lambda members: _over(
                members,
                lambda _: max(
                    (t for _, t, joined, _ in members if joined is None), default=max(t for _, t, *_ in members)
                ),
            ),
            "a static member stays: only its session can end it": lambda members: _over(
                members, max, spares_static=False
            ),
            "who joins after the end is out as well": lambda members: (
                _join_over(members)[0],
                [name for name, _, joined, instance in members if joined is None and instance is None],
            ),
            "the ones who did *not* join are out": lambda members: (
                _join_over(members)[0],
                [name for name, _, joined, _ in members if joined is not None and joined <= _join_over(members)[0]],
            ),
        },
    ),
    Exercise(
        "copied",
        "van-2",
        'copied = "van-2"',
        (
            "A record of the same generation: so no rebalance wrote it. What differs from the record before it?",
            "Whose member id is a new one in each of them?",
        ),
        known_mistakes={
            "its member id is the same in every record: nobody takes its place": "van-1",
            "that one came later, once, and has kept its member id since": "van-3",
        },
    ),
)
