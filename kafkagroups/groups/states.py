"""The five states of a classic group: what the coordinator does in each, and what follows.

After a load a group is Empty or Stable, because no record stores the states in between.
Source: GroupMetadata.scala (3.9), "GroupState"; ClassicGroupState.java (4.3.1).
"""

from __future__ import annotations

from enum import Enum


class ClassicState(Enum):
    """The state of a classic group. Each value is Kafka's name of the state.

    A group is unloaded if another broker becomes the coordinator.

    EMPTY: the group has no members. The group exists until its offsets are deleted. A join starts a rebalance, and
    commits without a generation are accepted. Next: PreparingRebalance (a member joins) or Dead (the last offset
    expired, or the group is deleted or unloaded).

    PREPARING_REBALANCE: the coordinator waits until all members have joined again. It waits at most for the largest
    rebalance timeout of the members. Next: CompletingRebalance (all members joined, or the time is over), Empty (no
    member joined) or Dead (unloaded).

    COMPLETING_REBALANCE: the coordinator waits for the leader's assignment. The state was called AwaitingSync before
    Kafka 1.1. Next: Stable (the leader sent SyncGroup), PreparingRebalance (a member joins, leaves or fails) or Dead
    (unloaded).

    STABLE: all members have an assignment. Next: PreparingRebalance (a member joins, leaves or fails) or Dead
    (unloaded).

    DEAD: the group is being removed. Requests of its members get the error COORDINATOR_NOT_AVAILABLE (before 2.3:
    UNKNOWN_MEMBER_ID). No other state follows.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES: dict[ClassicState, frozenset[ClassicState]] = {
    ClassicState.DEAD: frozenset(ClassicState),
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.STABLE: frozenset({ClassicState.COMPLETING_REBALANCE}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY}
    ),
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE}),
}
"""For each state, the states that can come directly before this state."""
