"""Lesson 07: a widget that shows on which day two Kafka versions delete an offset.

The retention is seven days. The days are simulated on real coordinators with their own expiration, and each deletion
is read from their logs.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import ipywidgets as widgets

from kafkagroups.coordinator import GroupCoordinator, OffsetCommit, TopicPartition
from kafkagroups.course.broker import start_broker
from kafkagroups.course.incidents import join_alone
from kafkagroups.course.lesson_clock import DAY, START
from kafkagroups.course.life import Life
from kafkagroups.course.widgets import StaticWidget, format_html
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.offset_commit import OffsetCommitKey
from kafkagroups.records.serde import decode

LAST_DAY = 14
KAFKA_VERSIONS = ("1.0.1", "3.9.2")


class Item(NamedTuple):
    """An offset or a group that may be deleted.

    Attributes
    ----------
    group
        The group's id.
    partition
        The offset's partition, or "" for the group itself.
    since
        The day on which it was stored.
    description
        What is special about it.
    reasons
        The reason why it is deleted or stays, one text per version in `KAFKA_VERSIONS`.
    """

    group: str
    partition: str
    since: int
    description: str
    reasons: tuple[str, str]


ITEMS = (
    Item(
        "dashboard",
        "orders-0",
        0,
        "a simple group: it never has members",
        ("7 days after its commit", "7 days after its commit: a simple group has no other date"),
    ),
    Item("dashboard", "orders-1", 3, "committed on day 3", ("7 days after its commit", "7 days after its commit")),
    Item(
        "billing",
        "orders-0",
        0,
        "a member reads orders",
        ("7 days after its commit, although the group has a member", "stays: a member of the group reads orders"),
    ),
    Item(
        "billing",
        "payments-0",
        0,
        "no member reads payments any longer",
        ("7 days after its commit", "7 days after its commit: no member of the group reads payments"),
    ),
    Item(
        "mailer",
        "orders-0",
        0,
        "its last member leaves on day 4",
        ("7 days after its commit, with its group", "7 days after the group became Empty, with its group"),
    ),
    Item(
        "stock-audit",
        "stock-0",
        0,
        "committed for one day (an explicit retention)",
        ("after that day", "after that day"),
    ),
    Item(
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
    """Return the day on which a Kafka version deletes each item, by group and partition.

    An item that is not deleted is missing.
    """
    broker = _simulate_days(kafka)
    days = {}
    for partition in {broker.manager.partition_for(item.group) for item in ITEMS}:
        for batch in broker.manager.logs.read(partition):
            for record in batch.records:
                if record.value is not None or record.key is None:
                    continue
                key = decode(record.key, None).key
                day = (record.timestamp - START) / DAY
                if isinstance(key, OffsetCommitKey):
                    days[key.group, f"{key.topic}-{key.partition}"] = day
                elif isinstance(key, GroupMetadataKey):
                    days[key.group, ""] = day
    return days


def _simulate_days(kafka: str) -> GroupCoordinator:
    """Return a coordinator after 14 days with the groups of `ITEMS`."""
    broker = start_broker(
        kafka=kafka,
        offsets_retention_ms=7 * DAY,
        group_max_session_timeout_ms=2**31 - 1,
        group_initial_rebalance_delay_ms=0,
    )
    broker.start_expiration()
    dashboard = Life("dashboard", verbose=False, broker=broker)
    billing = Life("billing", verbose=False, broker=broker)
    mailer = Life("mailer", verbose=False, broker=broker)
    promo = Life("promo", verbose=False, broker=broker)
    for life in (billing, mailer, promo):
        join_alone(life, session_s=20 * 86_400)
    dashboard.commit("", {"orders-0": 10})
    billing.commit("billing", {"orders-0": 20, "payments-0": 21})
    mailer.commit("mailer", {"orders-0": 30})
    broker.offset_commit("stock-audit", {TopicPartition("stock", 0): OffsetCommit(40)}, retention_ms=DAY)
    broker.clock.advance_to(START + 3 * DAY)
    dashboard.commit("", {"orders-1": 11})
    broker.clock.advance_to(START + 4 * DAY)
    mailer.leave("mailer")
    promo.leave("promo")
    broker.clock.advance_to(START + LAST_DAY * DAY)
    return broker


class ExpiryClock(StaticWidget):
    """A slider that chooses a day and shows which items exist on it, by the rules of 1.0.1 and of 3.9.2.

    Parameters
    ----------
    day
        The day at first, from 0 to 14.
    """

    def __init__(self, day: int = LAST_DAY) -> None:
        self.day = widgets.IntSlider(
            value=day, min=0, max=LAST_DAY, description="day", layout=widgets.Layout(width="500px")
        )
        self.view = widgets.HTML()
        self.day.observe(lambda _: self._draw(), names="value")
        self._draw()
        super().__init__([self.day, self.view])

    def _draw(self) -> None:
        self.view.value = self.static_html()

    def _lines(self) -> list[str]:
        today = self.day.value
        lines = [f"day {today}      ● stored   ─ exists   ✗ deleted", f"{'':10}0    5    10  14"]
        for item in ITEMS:
            if item.since > today:
                continue
            lines.append(f"{item.group} {item.partition or '(the group)'}: {item.description}")
            for kafka, reason in zip(KAFKA_VERSIONS, item.reasons, strict=True):
                end = find_deletion_days(kafka).get((item.group, item.partition), LAST_DAY + 1)
                bar = _draw_bar(item.since, int(end), today)
                status = reason if end <= today or reason.startswith("stays") else "exists"
                lines.append(f"   {kafka}  {bar:<{LAST_DAY + 2}} {status}")
        return lines

    def static_html(self) -> str:
        return format_html("kg-expiry", self._lines())

    def static_text(self) -> str:
        return "\n".join(self._lines())


def _draw_bar(since: int, end: int, today: int) -> str:
    """Return one character per day, from day 0 to today."""
    bar = " " * since + "●"
    for day in range(since + 1, today + 1):
        if day < end:
            bar += "─"
        else:
            bar += "✗" if day == end else " "
    return bar
