"""Lesson 05: a widget that compares cached offsets with the answers to OffsetFetch requests.

A cached offset is a committed offset in the coordinator's memory. A commit is pending until the replicas have its
record, or until its transaction ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets as widgets

from kafkagroups.coordinator import FetchedOffset, GroupCoordinator, TopicPartition
from kafkagroups.course.widgets import Stepper, format_html
from kafkagroups.errors import UsageError
from kafkagroups.groups.classic_group import ClassicGroup

_COLUMN_TITLES = ("partition", "cached", "pending", "all", "by name", "all, stable", "by name, stable")
_NO_OFFSET = "–"


class FetchTable(Stepper):
    """A widget that steps through groups and shows their offsets.

    Each row shows a topic-partition: its cached offset, its pending commits, and the answers to four OffsetFetch
    requests. The column titles describe the requests:

    - "all": the request asks for all offsets of the group;
    - "by name": the request names the partitions;
    - "stable": the request has requireStable, so the answer for a partition with a pending commit is an error.

    Parameters
    ----------
    broker
        The coordinator that answers the requests.
    groups
        The ids of the groups to step through.
    shown_group
        The group that is shown first. The static version shows only this group. None means the first group in `groups`.

    Raises
    ------
    UsageError
        If `groups` is empty, or does not contain `shown_group`.
    """

    def __init__(self, broker: GroupCoordinator, groups: Sequence[str], shown_group: str | None = None) -> None:
        self.broker = broker
        self.groups = list(groups)
        if not self.groups:
            raise UsageError("FetchTable needs at least one group")
        if shown_group is not None and shown_group not in self.groups:
            raise UsageError(f"shown_group={shown_group!r} is not one of the groups {self.groups}")
        self.group_chooser = widgets.Dropdown(
            options=[(name, number) for number, name in enumerate(self.groups)],
            value=0 if shown_group is None else self.groups.index(shown_group),
            description="group",
        )
        super().__init__(self.group_chooser, len(self.groups), "group")

    def _draw(self) -> None:
        self.view.value = self.static_html()

    def _format_lines(self) -> list[str]:
        name = self.groups[self.group_chooser.value]
        group = self.broker.manager.get_group(name)
        pending = {} if group is None else _list_pending(group)
        committed = {} if group is None else group.offsets.committed
        partitions = self._list_row_partitions({*committed, *pending})
        answers = [
            self.broker.offset_fetch(name, requested_partitions, require_stable=require_stable).offsets
            for require_stable in (False, True)
            for requested_partitions in (None, partitions)
        ]
        rows: list[tuple[str, ...]] = [_COLUMN_TITLES]
        for partition in partitions:
            cached_offset = str(committed[partition].offset) if partition in committed else _NO_OFFSET
            pending_offsets = ", ".join(map(str, pending.get(partition, ()))) or _NO_OFFSET
            answer_texts = (_format_answer(answer.get(partition)) for answer in answers)
            rows.append((str(partition), cached_offset, pending_offsets, *answer_texts))
        state = "unknown" if group is None else group.state.value
        return [
            f"{name}: {state}",
            "",
            *_format_table(rows),
            "",
            "· means that the answer does not contain the partition",
        ]

    def _list_row_partitions(self, used_partitions: set[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions of the rows: `used_partitions`, and one partition that the group does not use.

        The group uses a partition if it has a committed offset or a pending commit for the partition.
        """
        topics = self.broker.validator.topics or {}
        all_partitions = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
        unused_partitions = [partition for partition in all_partitions if partition not in used_partitions]
        return [*sorted(used_partitions), *unused_partitions[:1]]

    def static_html(self) -> str:
        return format_html("kg-fetches", self._format_lines())

    def static_text(self) -> str:
        return "\n".join(self._format_lines())


def _list_pending(group: ClassicGroup) -> dict[TopicPartition, list[int]]:
    """Return the offsets of the group's pending commits, by partition."""
    pending: dict[TopicPartition, list[int]] = {}
    # Commits without a transaction, and the commits of each open transaction.
    for commits in (group.offsets.pending, *group.offsets.transactions.values()):
        for partition, commit in commits.items():
            pending.setdefault(partition, []).append(commit.offset)
    return pending


def _format_table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(_COLUMN_TITLES))]
    return ["".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _format_answer(answer: FetchedOffset | None) -> str:
    if answer is None:
        return "·"
    if answer.error:
        return answer.error.name.removesuffix("_OFFSET_COMMIT")  # UNSTABLE_OFFSET_COMMIT is too long for the column.
    return str(answer.offset)
