"""The figure of lesson 13: the epochs of the shop's consumer group, record by record."""

import pytest

from kafkagroups.course import Epochs, find_data, read_answers

LOG = "harbour/4.3.1/__consumer_offsets-24"


@pytest.fixture(scope="module")
def figure():
    return Epochs(find_data(LOG), "loyalty")


def test_the_last_scene_is_what_the_broker_answered_after_its_restart(figure):
    """ConsumerGroupDescribe of the 4.3.1 broker: epochs of the group and of its members."""
    answer = read_answers("harbour/4.3.1")["groups"]["loyalty"]
    last = figure.text(max(figure.content.scenes)[0])
    assert f"group epoch: {answer['group_epoch']}" in last
    assert f"assignment epoch: {answer['assignment_epoch']}" in last
    for member in answer["members"]:
        assert f"epoch of {member['client_id']}: {member['epoch']}" in last


def test_a_partition_has_one_owner_in_every_scene(figure):
    """A member receives orders-2 only after the other member has revoked it (FACTS: rebalance 9 to 20)."""
    for scene in figure.content.scenes.values():
        owned = [line for line in scene.text if " has: " in line or " must revoke: " in line]
        partitions = [line.partition(": ")[2] for line in owned]
        assert len(partitions) == len(set(partitions))


def test_the_group_epoch_is_never_below_the_assignment_epoch(figure):
    for scene in figure.content.scenes.values():
        epochs = dict(line.split(": ") for line in scene.text if line.startswith(("group epoch", "assignment epoch")))
        assert int(epochs["group epoch"]) >= int(epochs["assignment epoch"])


def test_a_member_has_no_state_before_its_first_current_assignment(figure):
    """Record 0 is the member (5), and record 4 its current assignment (8). Only type 8 contains a state."""
    assert "state of loyalty-1: no record 8 yet" in figure.text(1)
    assert "state of loyalty-1: no record 8 yet" in figure.text(4)
    assert "state of loyalty-1: 0: Stable" in figure.text(5)
