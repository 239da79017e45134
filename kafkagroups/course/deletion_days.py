"""Lesson 09: the days on which a coordinator of this package, with a simulated clock, deletes offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

from kafkagroups.coordinator import GroupCoordinator
from kafkagroups.course.broker import start_broker
from kafkagroups.course.group_life import GroupLife
from kafkagroups.course.small_logs import DAY_MS, HOUR_MS, START_MS
from kafkagroups.records.offset_commit import OffsetCommitKey
from kafkagroups.records.serde import decode

LAST_DAY = 21
"""The day on which the simulation ends. The first day is 0."""
_PARTITION = "orders-0"


@dataclass(frozen=True)
class Members:
    """How the group's only member behaves, which joins on day 0. It reads `topic` ("": the group never has members),
    and leaves on the day `leaves_on` (None: it stays).
    """

    topic: str
    leaves_on: int | None = None


def find_deletion_day(kafka: str, *, commit_day: int, leaves_on: int, retention: int) -> int | None:
    """Return the day on which a Kafka version deletes an offset, or None if it stays until day 21.

    The only member commits on `commit_day` the offset of a topic that it reads, and leaves on `leaves_on`.
    """
    return find_deletion_days(kafka, (commit_day,), (Members("orders", leaves_on),), retention)[0, 0]


@cache
def find_deletion_days(
    kafka: str, commit_days: Sequence[int], members: Sequence[Members], retention: int
) -> dict[tuple[int, int], int | None]:
    """Return the day of the deletion, or None, for each commit day and each choice of members, by their numbers.

    The members send no heartbeats, but their session timeout is longer than the simulation, so they stay until they
    leave.
    """
    broker = start_broker(
        kafka=kafka,
        offsets_retention_ms=retention * DAY_MS,
        # Kafka's default is ten minutes. The result is a day, and a rare check is faster.
        offsets_retention_check_interval_ms=6 * HOUR_MS,
        group_max_session_timeout_ms=2**31 - 1,
        group_initial_rebalance_delay_ms=0,
    )
    broker.start_expiration()
    lives: dict[tuple[int, int], GroupLife] = {}
    for key in product(range(len(commit_days)), range(len(members))):
        lives[key] = GroupLife(f"group {key}", broker=broker)
    for day in range(LAST_DAY + 1):
        broker.clock.advance_to(START_MS + day * DAY_MS)
        for (commit_number, members_number), life in lives.items():
            _act(life, day, commit_days[commit_number], members[members_number])
    days: dict[tuple[int, int], int | None] = {}
    for key, life in lives.items():
        days[key] = _read_deletion_day(broker, life.group_id)
    return days


def _act(life: GroupLife, day: int, commit_day: int, members: Members) -> None:
    if day == 0 and members.topic:
        # The response to the first JoinGroup may contain only a member id. Then a second JoinGroup is needed.
        while life.read_state_name() in ("Dead", "Empty"):
            life.join("member", topics=[members.topic], session_s=(LAST_DAY + 1) * 86_400)
        life.sync("member")
    if day == commit_day:
        life.commit("member" if members.topic else "", {_PARTITION: 10})
    if day == members.leaves_on:
        life.leave("member")


def _read_deletion_day(broker: GroupCoordinator, group: str) -> int | None:
    for batch in broker.manager.logs.read(broker.manager.partition_for(group)):
        for record in batch.records:
            if record.value is not None or record.key is None:
                continue
            key = decode(record.key, None).key
            if isinstance(key, OffsetCommitKey) and key.group == group:
                return (record.timestamp - START_MS) // DAY_MS
    return None
