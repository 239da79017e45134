"""Simulated consumers that join, commit, leave and crash. The caller advances the clock."""

from kafkagroups.simulation.assignors import (
    ASSIGNORS,
    Subscriber,
    range_assignor,
    round_robin_assignor,
    sticky_assignor,
)
from kafkagroups.simulation.consumer import Consumer, poll_regularly, run_random_actions

__all__ = [
    "ASSIGNORS",
    "Consumer",
    "Subscriber",
    "poll_regularly",
    "range_assignor",
    "round_robin_assignor",
    "run_random_actions",
    "sticky_assignor",
]
