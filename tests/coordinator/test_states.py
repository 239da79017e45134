"""E06: which state may follow which. Source: GroupMetadata.validPreviousStates, GroupMetadataTest's 20 tests (3.9)."""

import pytest

from kafkagroups.groups.classic_group import ClassicGroup, IllegalTransition
from kafkagroups.groups.group import ClassicState as State

FROM = {
    State.PREPARING_REBALANCE: {State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY},
    State.COMPLETING_REBALANCE: {State.PREPARING_REBALANCE},
    State.STABLE: {State.COMPLETING_REBALANCE},
    State.EMPTY: {State.PREPARING_REBALANCE},
    State.DEAD: set(State),
}


@pytest.mark.parametrize("after", State)
@pytest.mark.parametrize("before", State)
def test_a_state_may_be_entered_from_these_only(before, after):
    """The matrix of 5 by 5; a group in a new state knows since when."""
    group = ClassicGroup("g", (3, 9, 2), 1, before)
    if before in FROM[after]:
        group.transition_to(after, 2)
        assert (group.state, group.state_timestamp) == (after, 2)
    else:
        with pytest.raises(IllegalTransition):
            group.transition_to(after, 2)
        assert (group.state, group.state_timestamp) == (before, 1)


@pytest.mark.parametrize("state", State)
def test_a_rebalance_begins_where_the_matrix_says(state):
    """GroupMetadata.canRebalance."""
    assert ClassicGroup("g", (3, 9, 2), 1, state).can_rebalance == (state in FROM[State.PREPARING_REBALANCE])
