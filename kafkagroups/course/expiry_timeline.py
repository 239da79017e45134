"""Lesson 09: a widget that shows on which day each of two Kafka versions deletes an offset.

The retention (how long an offset stays) is seven days. For each version, a coordinator runs for 14 days on a simulated
clock. To delete an offset, it appends a tombstone to its log. The tombstone's time is the time of the deletion.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import ipywidgets as widgets

from kafkagroups.coordinator import GroupCoordinator, OffsetCommit, TopicPartition
from kafkagroups.course.broker import start_broker
from kafkagroups.course.group_life import GroupLife
from kafkagroups.course.incident_groups import join_alone
from kafkagroups.course.lesson_clock import DAY_MS, START_MS
from kafkagroups.course.widgets import StaticWidget, format_html
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.offset_commit import OffsetCommitKey
from kafkagroups.records.serde import decode

LAST_DAY = 14
"""The day on which the simulation ends. The first day is 0."""
KAFKA_VERSIONS = ("1.0.1", "3.9.2")


class ExpiringItem(NamedTuple):
    """An offset or a group that the coordinator may delete.

    Attributes
    ----------
    group
        The group's id.
    partition
        The offset's partition, or "" for the group itself.
    stored_day
        The day on which the offset or group was stored. The first day is 0.
    description
        The facts that decide about the deletion, for example that the group never has members.
    outcomes
        One text for each version in `KAFKA_VERSIONS`: when the offset or group is deleted, or why it stays.
    """

    group: str
    partition: str
    stored_day: int
    description: str
    outcomes: tuple[str, str]


ITEMS = (
    ExpiringItem(
        "dashboard",
        "orders-0",
        0,
        "a simple group: it never has members",
        (
            "7 days after its commit",
            "7 days after its commit: the retention starts at the commit",
        ),
    ),
    ExpiringItem(
        "dashboard", "orders-1", 3, "committed on day 3", ("7 days after its commit", "7 days after its commit")
    ),
    ExpiringItem(
        "billing",
        "orders-0",
        0,
        "a member reads orders",
        ("7 days after its commit, although the group has a member", "stays: a member of the group reads orders"),
    ),
    ExpiringItem(
        "billing",
        "payments-0",
        0,
        "no member reads payments any longer",
        ("7 days after its commit", "7 days after its commit: no member of the group reads payments"),
    ),
    ExpiringItem(
        "mailer",
        "orders-0",
        0,
        "its last member leaves on day 4",
        (
            "7 days after its commit; the group is deleted too",
            "7 days after the group became Empty; the group is deleted too",
        ),
    ),
    ExpiringItem(
        "stock-audit",
        "stock-0",
        0,
        "the commit has its own retention of one day",
        ("after that day", "after that day"),
    ),
    ExpiringItem(
        "promo",
        "",
        0,
        "joined, never committed, leaves on day 4",
        (
            "Empty without an offset: the next expiration deletes it",
            "Empty without an offset: the next expiration deletes it",
        ),
    ),
)


@cache
def find_deletion_days(kafka: str) -> dict[tuple[str, str], float]:
    """Return the day on which a Kafka version deletes each item, by group id and partition (see `ExpiringItem`).

    The dict does not contain the items that stay. The days are not rounded: 7.5 is the middle of day 7.
    """
    coordinator = _run_coordinator_for_14_days(kafka)
    return read_deletion_days(coordinator, {item.group for item in ITEMS})


def read_deletion_days(coordinator: GroupCoordinator, groups: Iterable[str]) -> dict[tuple[str, str], float]:
    """Return the day of each tombstone in the partitions that store the groups.

    The keys are group ids and partitions, as in `find_deletion_days`.
    """
    days = {}
    for partition in {coordinator.manager.partition_for(group) for group in groups}:
        for batch in coordinator.manager.logs.read(partition):
            for record in batch.records:
                is_tombstone = record.value is None
                if not is_tombstone or record.key is None:
                    continue
                key = decode(record.key, None).key
                day = (record.timestamp - START_MS) / DAY_MS
                if isinstance(key, OffsetCommitKey):
                    days[key.group, f"{key.topic}-{key.partition}"] = day
                elif isinstance(key, GroupMetadataKey):
                    days[key.group, ""] = day
    return days


def _run_coordinator_for_14_days(kafka: str) -> GroupCoordinator:
    """Let the groups of `ITEMS` join, commit and leave during 14 simulated days. Return the coordinator.

    The members send no heartbeats. Their session timeout is longer than the 14 days, so they stay until they leave.
    """
    coordinator = start_broker(
        kafka=kafka,
        offsets_retention_ms=7 * DAY_MS,
        group_max_session_timeout_ms=2**31 - 1,
        group_initial_rebalance_delay_ms=0,
    )
    coordinator.start_expiration()
    dashboard = GroupLife("dashboard", verbose=False, broker=coordinator)
    billing = GroupLife("billing", verbose=False, broker=coordinator)
    mailer = GroupLife("mailer", verbose=False, broker=coordinator)
    promo = GroupLife("promo", verbose=False, broker=coordinator)
    for life in (billing, mailer, promo):
        twenty_days_s = 20 * 86_400
        join_alone(life, session_s=twenty_days_s)
    # The empty name means a client that is not a member.
    dashboard.commit("", {"orders-0": 10})
    billing.commit("billing", {"orders-0": 20, "payments-0": 21})
    mailer.commit("mailer", {"orders-0": 30})
    coordinator.offset_commit("stock-audit", {TopicPartition("stock", 0): OffsetCommit(40)}, retention_ms=DAY_MS)
    coordinator.clock.advance_to(START_MS + 3 * DAY_MS)
    dashboard.commit("", {"orders-1": 11})
    coordinator.clock.advance_to(START_MS + 4 * DAY_MS)
    mailer.leave("mailer")
    promo.leave("promo")
    coordinator.clock.advance_to(START_MS + LAST_DAY * DAY_MS)
    return coordinator


class ExpiryTimeline(StaticWidget):
    """A slider for a day, and a view of the offsets and groups that exist on this day in Kafka 1.0.1 and in 3.9.2.

    Parameters
    ----------
    day
        The initial day, from 0 to 14.
    """

    def __init__(self, day: int = LAST_DAY) -> None:
        self.day_slider = widgets.IntSlider(
            value=day, min=0, max=LAST_DAY, description="day", layout=widgets.Layout(width="500px")
        )
        self.view = widgets.HTML()
        self.day_slider.observe(lambda _: self._draw(), names="value")
        self._draw()
        super().__init__([self.day_slider, self.view])

    def _draw(self) -> None:
        self.view.value = self.static_html()

    def _format_lines(self) -> list[str]:
        today = self.day_slider.value
        lines = [f"day {today}      ● stored   ─ exists   ✗ deleted", f"{'':10}0    5    10  14"]
        for item in ITEMS:
            if item.stored_day > today:
                continue
            lines.append(f"{item.group} {item.partition or '(the group)'}: {item.description}")
            for kafka, outcome in zip(KAFKA_VERSIONS, item.outcomes, strict=True):
                # An item that stays has no deletion day: `LAST_DAY + 1` draws it as existing on every day.
                deletion_day = find_deletion_days(kafka).get((item.group, item.partition), LAST_DAY + 1)
                bar = _draw_bar(item.stored_day, int(deletion_day), today)
                shows_outcome = deletion_day <= today or outcome.startswith("stays")
                status = outcome if shows_outcome else "exists"
                lines.append(f"   {kafka}  {bar:<{LAST_DAY + 2}} {status}")
        return lines

    def static_html(self) -> str:
        return format_html("kg-expiry", self._format_lines())

    def static_text(self) -> str:
        return "\n".join(self._format_lines())


def _draw_bar(stored_day: int, deletion_day: int, today: int) -> str:
    """Return one character for each day, from day 0 to `today`, the day of the slider.

    The first line of the widget explains the characters.
    """
    bar = " " * stored_day + "●"
    for day in range(stored_day + 1, today + 1):
        if day < deletion_day:
            bar += "─"
        else:
            bar += "✗" if day == deletion_day else " "
    return bar
