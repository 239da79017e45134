"""What happens to consumers, and when: every step on the clock, every accident by a seed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from kafkagroups.coordinator import Clock
from kafkagroups.simulation.consumer import Consumer, ConsumerState

HEARTBEAT_INTERVAL_MS = 3_000


def poll_for(consumers: Sequence[Consumer], clock: Clock, ms: int, every_ms: int = HEARTBEAT_INTERVAL_MS) -> None:
    """All consumers poll, one after another, every so often, until that time has passed."""
    until = clock.now_ms + ms
    while clock.now_ms < until:
        for consumer in consumers:
            consumer.poll()
        clock.advance_to(min(clock.now_ms + every_ms, until))


def accidents(consumers: Sequence[Consumer], clock: Clock, seed: int, steps: int) -> list[str]:
    """Lets consumers, chosen by the seed, poll, commit, leave, crash or come back; tells what they did."""
    random, told = Random(seed), []
    for _ in range(steps):
        clock.advance(random.randrange(HEARTBEAT_INTERVAL_MS))
        consumer = random.choice(consumers)
        if consumer.state is ConsumerState.GONE:
            act = "start"
        else:
            act = random.choices(("poll", "commit", "leave", "crash"), (12, 4, 1, 1))[0]
        getattr(consumer, act)()
        told.append(f"{clock.now_ms} {consumer.client_id} {act}")
    return told
