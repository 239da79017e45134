"""What a coordinator answers about a group's offsets, beside what it knows: asked in all four ways."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import ipywidgets as widgets

from kafkagroups.coordinator import FetchedOffset, GroupCoordinator, TopicPartition
from kafkagroups.course.widgets import MONO, Stepper
from kafkagroups.errors import UsageError

_HEAD = ("partition", "cached", "on its way", "all", "by name", "all, stable", "by name, stable")


class FetchTable(Stepper):
    """Steps through groups: of each partition what is cached and what is on its way, and what a fetch is answered.

    Asked for all offsets or for partitions by name, each without and with requireStable. Its static form shows the
    group `at` (None: the first). UsageError when there is no group, or not that one.
    """

    def __init__(self, broker: GroupCoordinator, groups: Sequence[str], at: str | None = None) -> None:
        self.broker, self.groups = broker, list(groups)
        if not self.groups or (at is not None and at not in self.groups):
            raise UsageError(f"one of the groups {self.groups} was expected, not {at!r}")
        self.group = widgets.Dropdown(
            options=[(name, number) for number, name in enumerate(self.groups)],
            value=0 if at is None else self.groups.index(at),
            description="group",
        )
        super().__init__(self.group, len(self.groups), "group")

    def _draw(self) -> None:
        self.view.value = self.static_html()

    def _lines(self) -> list[str]:
        name = self.groups[self.group.value]
        group = self.broker.manager.get_group(name)
        pending: dict[TopicPartition, list[int]] = {}
        known: list[TopicPartition] = []
        if group is not None:
            offsets = group.offsets
            for waiting in (offsets.pending, *offsets.transactions.values()):
                for partition, there in waiting.items():
                    pending.setdefault(partition, []).append(there.offset)
            known = sorted({*offsets.committed, *pending})
        topics = self.broker.topics or {}
        rest = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
        named = [*known, *[each for each in rest if each not in known][:1]]
        answers = [
            self.broker.offset_fetch(name, partitions, require_stable=stable).offsets
            for stable in (False, True)
            for partitions in (None, named)
        ]
        rows: list[tuple[str, ...]] = [_HEAD]
        for partition in named:
            committed = None if group is None else group.offsets.committed.get(partition)
            cells = [_told(answer.get(partition)) for answer in answers]
            way = ", ".join(map(str, pending.get(partition, ()))) or "–"
            rows.append((str(partition), "–" if committed is None else str(committed.offset), way, *cells))
        widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(_HEAD))]
        state = "not known" if group is None else group.state.value
        table = ["".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return [f"{name}: {state}", "", *table, "", "· is not mentioned in the answer"]

    def static_html(self) -> str:
        return f'<div class="kg-fetches" style="{MONO}">{escape(chr(10).join(self._lines()))}</div>'

    def static_text(self) -> str:
        return "\n".join(self._lines())


def _told(there: FetchedOffset | None) -> str:
    if there is None:
        return "·"
    return there.error.name.removesuffix("_OFFSET_COMMIT") if there.error else str(there.offset)
