"""The consumers of an incident: members of a group that read one topic, named like the group."""

from __future__ import annotations

from collections.abc import Mapping

from kafkagroups.coordinator import Consumer, GroupCoordinator

_SESSION_TIMEOUT_MS = 30 * 60_000
"""Longer than usual, because the logs of the incidents have a heartbeat only every few minutes."""


def make_consumer(broker: GroupCoordinator, group: str, number: int, partitions: Mapping[str, int]) -> Consumer:
    """Return a consumer that has not joined yet. The group "oven-sync" reads the topic "oven".

    `number` distinguishes the members of a group. `partitions` has the partition count of each topic.
    """
    topic = group.split("-")[0]
    return Consumer(
        broker,
        group,
        f"{group}-{number}",
        (topic,),
        partitions,
        session_timeout_ms=_SESSION_TIMEOUT_MS,
        protocol_version=1,
    )
