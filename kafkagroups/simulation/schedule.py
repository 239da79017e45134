"""The actions of simulated consumers: regular polls, or random actions from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from kafkagroups.coordinator import Clock
from kafkagroups.simulation.consumer import Consumer, ConsumerState

HEARTBEAT_INTERVAL_MS = 3_000
_ACTIONS = ("poll", "commit", "leave", "crash")
_ACTION_WEIGHTS = (12, 4, 1, 1)
"""How often each action is chosen: 12 polls for each leave, for example."""


def poll_regularly(consumers: Sequence[Consumer], clock: Clock, ms: int, every_ms: int = HEARTBEAT_INTERVAL_MS) -> None:
    """Let the consumers poll one after another, and repeat this every `every_ms` milliseconds.

    The function returns when the clock has advanced by `ms` milliseconds.
    """
    end_ms = clock.now_ms + ms
    while clock.now_ms < end_ms:
        for consumer in consumers:
            consumer.poll()
        clock.advance_to(min(clock.now_ms + every_ms, end_ms))


def run_random_actions(consumers: Sequence[Consumer], clock: Clock, seed: int, steps: int) -> list[str]:
    """Let a random consumer poll, commit, leave, crash or start, and repeat this `steps` times.

    The same `seed` produces the same actions. Returns a line of text for each step: the time (in ms since the epoch),
    the client id and the action.
    """
    random = Random(seed)
    lines = []
    for _ in range(steps):
        clock.advance(random.randrange(HEARTBEAT_INTERVAL_MS))
        consumer = random.choice(consumers)
        if consumer.state is ConsumerState.GONE:
            action = "start"
        else:
            (action,) = random.choices(_ACTIONS, _ACTION_WEIGHTS)
        getattr(consumer, action)()
        lines.append(f"{clock.now_ms} {consumer.client_id} {action}")
    return lines
