"""The exercises of lesson 13."""

from __future__ import annotations

from collections.abc import Iterable

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.groups.modern_group import ModernGroup, ModernMember

Members = list[tuple[int, int]]
"""The epoch and the state of each member of a consumer group, as in its record of type 8."""

_STABLE_MEMBER = 0

# Exercise `group_state`: the state of a consumer group. No record contains it, so a coordinator computes it.
# `_compute_state` is correct. The functions after it contain mistakes of learners.


def _compute_state(group_epoch: int, assignment_epoch: int, members: Members) -> str:
    group = ModernGroup("g", None, "consumer", group_epoch, assignment_epoch)
    for number, (epoch, state) in enumerate(members):
        member_id = str(number)
        group.members[member_id] = ModernMember(member_id, member_epoch=epoch, state=state)
    return group.state.value


def _summarize(are_reached: Iterable[bool]) -> str:
    return "Stable" if all(are_reached) else "Reconciling"


def _compare_epochs_first(group_epoch: int, assignment_epoch: int, members: Members) -> str:
    if group_epoch > assignment_epoch:
        return "Assigning"
    return _compute_state(group_epoch, assignment_epoch, members)


def _treat_as_stable_without_members(group_epoch: int, assignment_epoch: int, members: Members) -> str:
    return _compute_state(group_epoch, assignment_epoch, members) if members else "Stable"


def _ignore_epochs_of_members(group_epoch: int, assignment_epoch: int, members: Members) -> str:
    if not members or group_epoch > assignment_epoch:
        return _compute_state(group_epoch, assignment_epoch, members)
    return _summarize(state == _STABLE_MEMBER for _, state in members)


def _ignore_states_of_members(group_epoch: int, assignment_epoch: int, members: Members) -> str:
    if not members or group_epoch > assignment_epoch:
        return _compute_state(group_epoch, assignment_epoch, members)
    return _summarize(epoch == assignment_epoch for epoch, _ in members)


def _accept_one_stable_member(group_epoch: int, assignment_epoch: int, members: Members) -> str:
    if not members or group_epoch > assignment_epoch:
        return _compute_state(group_epoch, assignment_epoch, members)
    reached = any(epoch == assignment_epoch and state == _STABLE_MEMBER for epoch, state in members)
    return "Stable" if reached else "Reconciling"


def _look_at_members_first(group_epoch: int, assignment_epoch: int, members: Members) -> str:
    state = _compute_state(assignment_epoch, assignment_epoch, members)
    return _compute_state(group_epoch, assignment_epoch, members) if state == "Stable" else state


_STATE_SOLUTION = """\
def group_state(group_epoch, assignment_epoch, members):
    if not members:
        return "Empty"
    if group_epoch > assignment_epoch:
        return "Assigning"
    for epoch, state in members:
        if epoch != assignment_epoch or state != 0:
            return "Reconciling"
    return "Stable\""""

EXERCISES = (
    # Exercise `member_in_hex`: the record at offset 60 of the group `up` (4.4.0-migration).
    Exercise(
        name="member_in_hex",
        correct=(8, 4, 1),
        solution="member_in_hex = (8, 4, 1)   # 0008 in the key; 00000004 and 01 in the value",
        hints=(
            "The record type is in the first two bytes of the key.",
            "In the value, skip the version (two bytes). Each epoch has four bytes, and the state has one byte.",
        ),
        known_mistakes={
            "The state is the single byte after the two epochs. The byte after it begins the list of topics": (8, 4, 2),
            "The value begins with its version. The member epoch comes after these two bytes": (8, 0, 1),
            "The record type is in the key. The value begins with its version, which is 0": (0, 4, 1),
        },
    ),
    Exercise(
        name="group_state",
        correct=_compute_state,
        solution=_STATE_SOLUTION,
        hints=(
            "Check the states in the order of the list above: Empty, Assigning, Reconciling, Stable.",
            "A group is Reconciling if one of its members has not reached its target. Compare the member's epoch with "
            "the assignment epoch, and its state with 0.",
        ),
        # Each case is the group epoch, the assignment epoch, and the members.
        cases=(
            (3, 3, [(3, 0), (3, 0)]),
            (3, 3, [(2, 1), (3, 2)]),
            (3, 3, [(3, 0), (3, 2)]),
            (3, 3, [(3, 0), (2, 0)]),
            (4, 3, [(3, 0)]),
            (4, 3, [(2, 1), (3, 2)]),
            (4, 3, []),
            (4, 4, []),
        ),
        known_mistakes={
            "a group without members is Empty, no matter which epochs it has": _compare_epochs_first,
            "without members, no member can be in a wrong state, but the group is Empty": (
                _treat_as_stable_without_members
            ),
            "a member that is still in an older epoch has not reached its target": _ignore_epochs_of_members,
            "a member in the newest epoch can still wait or have to revoke: its state is not 0": (
                _ignore_states_of_members
            ),
            "every member must have reached its target; one is not enough": _accept_one_stable_member,
            "compare group epoch and assignment epoch before the members: their targets are too old": (
                _look_at_members_first
            ),
        },
    ),
    # Exercise `correct_tombstones`: the logs n-3t-6live, n-5t-before-8t and n-del-compacted, which real brokers loaded.
    Exercise(
        name="correct_tombstones",
        correct="C",
        solution='correct_tombstones = "C"   # no member, no target and no assignment epoch is left',
        hints=(
            "Read each list from left to right. At each tombstone, what of the group is still there?",
            "The cleaner removes an older record only if a newer one with the same key exists. What can the tombstones "
            "in C still find?",
        ),
        known_mistakes={
            "In A, the tombstone of the group epoch comes while the assignment epoch is still there": "A",
            "In B, the tombstone of the member comes while the current assignment is still there": "B",
        },
    ),
)
