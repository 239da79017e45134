"""The five states of a classic group, and which of them may follow which.

After a load a group is Empty or Stable, because no record stores the states in between.
Source: GroupMetadata.scala (3.9), "GroupState"; GroupCoordinator.scala (3.9); ClassicGroupState.java (4.3.1).
"""

from __future__ import annotations

from enum import Enum


class ClassicState(Enum):
    """The state of a classic group. Each value is Kafka's name of the state.

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


VALID_PREVIOUS_STATES = {
    ClassicState.EMPTY: {ClassicState.PREPARING_REBALANCE},
    ClassicState.PREPARING_REBALANCE: {ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY},
    ClassicState.COMPLETING_REBALANCE: {ClassicState.PREPARING_REBALANCE},
    ClassicState.STABLE: {ClassicState.COMPLETING_REBALANCE},
    ClassicState.DEAD: set(ClassicState),
}
"""For each state, the states that can come directly before it. The coordinator refuses all other changes."""
