"""The five states of a classic group, with what the coordinator does in each and where it can go from there.

Only Empty and Stable come out of a log: a rebalance is never written.
Source: GroupMetadata.scala (3.9), "GroupState"; ClassicGroupState.java (4.3.1).
"""

from __future__ import annotations

from enum import Enum


class ClassicState(Enum):
    """The value is Kafka's name of the state.

    EMPTY has no members; it lives on until its offsets are gone. Joins begin a rebalance, commits without a
    generation are taken. To PreparingRebalance (a member joins) or Dead (offsets expired, deleted, unloaded).

    PREPARING_REBALANCE waits for all members to join again, at most for the largest of their rebalance timeouts. To
    CompletingRebalance (all joined, or the time is over), Empty (nobody did) or Dead (unloaded).

    COMPLETING_REBALANCE waits for the leader's assignment; called AwaitingSync before Kafka 1.1. To Stable (the
    leader synced), PreparingRebalance (a member joins, leaves or fails) or Dead (unloaded).

    STABLE serves heartbeats and commits. To PreparingRebalance (a member joins, leaves or fails) or Dead (unloaded).

    DEAD is a group that is being removed: it answers UNKNOWN_MEMBER_ID, and is never left.
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
"""From which states a state may be entered."""
