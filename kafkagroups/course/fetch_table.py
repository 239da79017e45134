"""Lesson 05: a widget that compares cached offsets with the answers to a fetch."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets as widgets

from kafkagroups.coordinator import FetchedOffset, GroupCoordinator, TopicPartition
from kafkagroups.course.widgets import Stepper, format_html
from kafkagroups.errors import UsageError
from kafkagroups.groups.classic_group import ClassicGroup

_HEAD = ("partition", "cached", "pending", "all", "by name", "all, stable", "by name, stable")
_NOTHING = "–"


class FetchTable(Stepper):
    """Steps through groups. For each partition it shows the cached offset, pending commits and the answers to a fetch.

    A fetch asks for all offsets or for partitions by name, without or with requireStable.

    Parameters
    ----------
    broker
        The coordinator that answers.
    groups
        The groups to step through.
    at
        The group that is shown first, also in the static form. None is the first of `groups`.

    Raises
    ------
    UsageError
        If there are no groups, or if `at` is not one of them.
    """

    def __init__(self, broker: GroupCoordinator, groups: Sequence[str], at: str | None = None) -> None:
        self.broker = broker
        self.groups = list(groups)
        if not self.groups:
            raise UsageError("FetchTable needs at least one group")
        if at is not None and at not in self.groups:
            raise UsageError(f"at={at!r} is not one of the groups {self.groups}")
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
        pending = {} if group is None else _list_pending(group)
        committed = {} if group is None else group.offsets.committed
        partitions = self._choose_partitions({*committed, *pending})
        answers = [
            self.broker.offset_fetch(name, asked, require_stable=stable).offsets
            for stable in (False, True)
            for asked in (None, partitions)
        ]
        rows: list[tuple[str, ...]] = [_HEAD]
        for partition in partitions:
            cached = str(committed[partition].offset) if partition in committed else _NOTHING
            waiting = ", ".join(map(str, pending.get(partition, ()))) or _NOTHING
            rows.append((str(partition), cached, waiting, *(_format_answer(each.get(partition)) for each in answers)))
        state = "not known" if group is None else group.state.value
        return [f"{name}: {state}", "", *_format_table(rows), "", "· is not in the answer"]

    def _choose_partitions(self, used: set[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that the group uses, and one that it does not use."""
        topics = self.broker.validator.topics or {}
        all_partitions = (TopicPartition(topic, number) for topic, count in topics.items() for number in range(count))
        unused = [partition for partition in all_partitions if partition not in used]
        return [*sorted(used), *unused[:1]]

    def static_html(self) -> str:
        return format_html("kg-fetches", self._lines())

    def static_text(self) -> str:
        return "\n".join(self._lines())


def _list_pending(group: ClassicGroup) -> dict[TopicPartition, list[int]]:
    """Return the offsets of plain commits and of transactions that are pending, by partition."""
    pending: dict[TopicPartition, list[int]] = {}
    for commits in (group.offsets.pending, *group.offsets.transactions.values()):
        for partition, commit in commits.items():
            pending.setdefault(partition, []).append(commit.offset)
    return pending


def _format_table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(_HEAD))]
    return ["".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _format_answer(answer: FetchedOffset | None) -> str:
    if answer is None:
        return "·"
    return answer.error.name.removesuffix("_OFFSET_COMMIT") if answer.error else str(answer.offset)
