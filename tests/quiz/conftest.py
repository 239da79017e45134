"""A group whose coordinator answers some questions."""

import pytest

from kafkagroups import course


@pytest.fixture
def billing():
    """A group with one member that reads `orders`. It has committed offsets of two topics."""
    life = course.GroupLife("billing")
    life.join("billing-1")
    life.join("billing-1")
    life.wait(3)
    life.sync("billing-1")
    life.commit("billing-1", {"orders-0": 5, "orders-1": 5, "payments-0": 8})
    return life
