"""The five states of a classic group, and every transition between them.

After a load a group is Empty or Stable, because no record stores the states in between.
Source: GroupMetadata.scala (3.9), "GroupState"; GroupCoordinator.scala (3.9); ClassicGroupState.java (4.3.1).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class ClassicState(Enum):
    """The state of a classic group. Each value is Kafka's name of the state. `CLASSIC_TRANSITIONS` lists what follows.

    EMPTY: the group has no members. The group exists until its offsets are deleted. A join starts a rebalance, and
    commits without a generation are accepted.

    PREPARING_REBALANCE: the coordinator waits until all members have joined again. It waits at most for the largest
    rebalance timeout of the members.

    COMPLETING_REBALANCE: the coordinator waits for the leader's assignment. The state was called AwaitingSync before
    Kafka 1.1.

    STABLE: all members have an assignment.

    DEAD: the group is being removed. Requests of its members get the error COORDINATOR_NOT_AVAILABLE (before 2.3:
    UNKNOWN_MEMBER_ID). No other state follows.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicTransition(NamedTuple):
    """A change of the state of a classic group.

    `trigger` says what happens, and `records` which records the coordinator appends. "" means that it appends none.
    """

    before: ClassicState
    after: ClassicState
    trigger: str
    records: str = ""


_EMPTY = ClassicState.EMPTY
_PREPARING = ClassicState.PREPARING_REBALANCE
_COMPLETING = ClassicState.COMPLETING_REBALANCE
_STABLE = ClassicState.STABLE
_DEAD = ClassicState.DEAD
_UNLOADED = "Another broker becomes the coordinator, so the group is unloaded"
_NO_SYNC = "A member sends no SyncGroup within the rebalance timeout (since 2.8.1)"
_TOMBSTONES = "the tombstones of the offsets (type 1), then the tombstone of the group (type 2)"

CLASSIC_TRANSITIONS = (
    ClassicTransition(_EMPTY, _PREPARING, "A member joins"),
    ClassicTransition(_EMPTY, _DEAD, "DeleteGroups deletes the group", _TOMBSTONES),
    ClassicTransition(
        _EMPTY,
        _DEAD,
        "The last offset is deleted: it expires, OffsetDelete deletes it, or its topic is deleted",
        _TOMBSTONES,
    ),
    ClassicTransition(_EMPTY, _DEAD, _UNLOADED),
    ClassicTransition(_PREPARING, _COMPLETING, "The initial delay of the first rebalance is over"),
    ClassicTransition(_PREPARING, _COMPLETING, "All members have joined again"),
    ClassicTransition(
        _PREPARING, _COMPLETING, "The rebalance timeout is over, and the members that have not joined are removed"
    ),
    ClassicTransition(
        _PREPARING, _EMPTY, "The join phase ends, and no member is left", "the group without members (type 2)"
    ),
    ClassicTransition(_PREPARING, _DEAD, _UNLOADED),
    ClassicTransition(
        _COMPLETING,
        _STABLE,
        "The leader sends SyncGroup, and the group's record is appended",
        "the group with its members and their assignments (type 2)",
    ),
    ClassicTransition(_COMPLETING, _PREPARING, "A new member joins"),
    ClassicTransition(_COMPLETING, _PREPARING, "A member joins again with other protocols"),
    ClassicTransition(_COMPLETING, _PREPARING, "A member leaves, or its session times out"),
    ClassicTransition(_COMPLETING, _PREPARING, "A static member is replaced"),
    ClassicTransition(_COMPLETING, _PREPARING, "The append of the group's record fails"),
    ClassicTransition(_COMPLETING, _PREPARING, _NO_SYNC),
    ClassicTransition(_COMPLETING, _DEAD, _UNLOADED),
    ClassicTransition(_STABLE, _PREPARING, "A new member joins"),
    ClassicTransition(_STABLE, _PREPARING, "The leader joins again"),
    ClassicTransition(_STABLE, _PREPARING, "Another member joins again with other protocols"),
    ClassicTransition(_STABLE, _PREPARING, "A member leaves, or its session times out"),
    ClassicTransition(
        _STABLE, _PREPARING, "A static member is replaced, and the members now agree on another protocol"
    ),
    ClassicTransition(_STABLE, _PREPARING, _NO_SYNC),
    ClassicTransition(_STABLE, _PREPARING, "After a load, the group has more members than group.max.size"),
    ClassicTransition(_STABLE, _DEAD, _UNLOADED),
    ClassicTransition(_DEAD, _DEAD, "A group that was deleted while its partition was not on this broker is unloaded"),
)
"""Every transition of a classic group. The coordinator refuses all other changes of the state."""

VALID_PREVIOUS_STATES: dict[ClassicState, frozenset[ClassicState]] = {
    state: frozenset(transition.before for transition in CLASSIC_TRANSITIONS if transition.after is state)
    for state in ClassicState
}
"""For each state, the states that can come directly before this state."""
