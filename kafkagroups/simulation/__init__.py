"""Simulated consumers that join, commit, leave and crash on a clock that is given."""

from kafkagroups.simulation.assignors import (
    ASSIGNORS,
    Subscriber,
    range_assignor,
    round_robin_assignor,
    sticky_assignor,
)
from kafkagroups.simulation.consumer import Consumer
from kafkagroups.simulation.schedule import accidents, poll_for

__all__ = [
    "ASSIGNORS",
    "Consumer",
    "Subscriber",
    "accidents",
    "poll_for",
    "range_assignor",
    "round_robin_assignor",
    "sticky_assignor",
]
