"""The expiry clock: five groups of the shop, a retention of seven days, and what two Kafkas delete on which day.

The days are played on real coordinators with their sweeps; what is told of a day was read from their logs.
"""

from __future__ import annotations

from functools import cache
from html import escape
from typing import NamedTuple

import ipywidgets as widgets

from kafkagroups.coordinator import OffsetCommit, TopicPartition
from kafkagroups.course.broker import coordinator
from kafkagroups.course.lesson_clock import START
from kafkagroups.course.life import Life
from kafkagroups.course.widgets import MONO, StaticWidget
from kafkagroups.records.serde import decode

DAY = 24 * 3_600_000
LAST = 14
KAFKAS = ("1.0.1", "3.9.2")


class Thing(NamedTuple):
    """Something that may be deleted: an offset, or (partition "") a group. `why` is told for 1.0.1 and for 3.9.2."""

    group: str
    partition: str
    since: int
    what: str
    why: tuple[str, str]


THINGS = (
    Thing("dashboard", "orders-0", 0, "simple: no members, ever", (
        "7 days after its commit",
        "7 days after its commit: no member's end could count")),
    Thing("dashboard", "orders-1", 3, "committed on day 3", ("7 days after its commit", "7 days after its commit")),
    Thing("billing", "orders-0", 0, "a member reads orders", (
        "7 days after its commit, although the group lives",
        "stays: the group lives and reads orders")),
    Thing("billing", "payments-0", 0, "nobody reads payments any more", (
        "7 days after its commit",
        "7 days after its commit: nobody in the group reads payments")),
    Thing("mailer", "orders-0", 0, "its last member leaves on day 4", (
        "7 days after its commit; with it the group",
        "7 days after the group became Empty; with it the group")),
    Thing("stock-audit", "stock-0", 0, "committed for one day (an explicit retention)", (
        "after that day",
        "after that day")),
    Thing("promo", "", 0, "joined, never committed, leaves on day 4", (
        "Empty without an offset: the next sweep takes the group",
        "Empty without an offset: the next sweep takes the group")),
)  # fmt: skip


@cache
def gone(kafka: str) -> dict[tuple[str, str], float]:
    """On which day each thing was deleted, by group and partition; what still stands is missing."""
    broker = coordinator(
        kafka=kafka,
        offsets_retention_ms=7 * DAY,
        group_max_session_timeout_ms=2**31 - 1,
        group_initial_rebalance_delay_ms=0,
    )
    broker.start_sweeps()
    groups = {name: Life(name, tells=False, broker=broker) for name in ("dashboard", "billing", "mailer", "promo")}
    for name in ("billing", "mailer", "promo"):
        while groups[name].settled()[0] in ("Dead", "Empty"):
            groups[name].join(name, session=20 * 86_400)
        groups[name].sync(name)
    groups["dashboard"].commit("", {"orders-0": 10})
    groups["billing"].commit("billing", {"orders-0": 20, "payments-0": 21})
    groups["mailer"].commit("mailer", {"orders-0": 30})
    broker.offset_commit("stock-audit", {TopicPartition("stock", 0): OffsetCommit(40)}, retention_ms=DAY)
    broker.clock.advance_to(START + 3 * DAY)
    groups["dashboard"].commit("", {"orders-1": 11})
    broker.clock.advance_to(START + 4 * DAY)
    groups["mailer"].leave("mailer")
    groups["promo"].leave("promo")
    broker.clock.advance_to(START + LAST * DAY)
    out = {}
    for partition in {broker.manager.partition_for(thing.group) for thing in THINGS}:
        for batch in broker.manager.logs.read(partition):
            for record in batch.records:
                if record.value is None and record.key is not None:
                    key = decode(record.key, None).key
                    topic = getattr(key, "topic", None)
                    name = "" if topic is None else f"{topic}-{getattr(key, 'partition', 0)}"
                    out[getattr(key, "group", ""), name] = (record.timestamp - START) / DAY
    return out


class ExpiryClock(StaticWidget):
    """A day to turn to: what of the five groups is there on it, by the rules of 1.0.1 and of 3.9.2."""

    def __init__(self, day: int = LAST) -> None:
        self.day = widgets.IntSlider(
            value=day, min=0, max=LAST, description="day", layout=widgets.Layout(width="500px")
        )
        self.view = widgets.HTML()
        self.day.observe(lambda _: self._draw(), names="value")
        self._draw()
        super().__init__([self.day, self.view])

    def _draw(self) -> None:
        self.view.value = self.static_html()

    def _lines(self) -> list[str]:
        today = self.day.value
        lines = [f"day {today}      ● stored   ─ there   ✗ deleted", f"{'':10}0    5    10  14"]
        for thing in THINGS:
            if thing.since > today:
                continue
            lines.append(f"{thing.group} {thing.partition or '(the group)'}: {thing.what}")
            for kafka, why in zip(KAFKAS, thing.why, strict=True):
                end = gone(kafka).get((thing.group, thing.partition), LAST + 1)
                later = range(thing.since + 1, today + 1)
                marks = ["─" if each < int(end) else "✗" if each == int(end) else " " for each in later]
                bar = " " * thing.since + "●" + "".join(marks)
                said = why if end <= today or "stays" in why else "there"
                lines.append(f"   {kafka}  {bar:<{LAST + 2}} {said}")
        return lines

    def static_html(self) -> str:
        return f'<div class="kg-expiry" style="{MONO}">{escape(chr(10).join(self._lines()))}</div>'

    def static_text(self) -> str:
        return "\n".join(self._lines())
