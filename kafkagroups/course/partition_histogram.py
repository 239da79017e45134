"""Lesson 02: a widget that counts the groups on each partition.

A group is on one partition of the offsets topic. This partition stores the offsets and the record of the group.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from math import ceil

import ipywidgets as widgets

from kafkagroups.course.widgets import StaticWidget, format_html
from kafkagroups.log.partitioning import partition_for

_COLUMN_COUNT = 3
# A bar has at most this number of blocks (█). A block stands for one or more groups.
_MAX_BLOCK_COUNT = 10


class PartitionHistogram(StaticWidget):
    """A bar for each partition that stores groups. The bar shows the number of groups on the partition.

    A slider changes the number of partitions. If you type a group id, a mark shows the partition of this group.

    Parameters
    ----------
    groups
        The ids of the groups to count.
    partitions
        The number of partitions of the offsets topic before the slider is moved.
    """

    def __init__(self, groups: Iterable[str], partitions: int = 50) -> None:
        self.groups = list(groups)
        self.partition_slider = widgets.IntSlider(value=partitions, min=1, max=100, description="partitions")
        self.group_field = widgets.Text(value="", description="group", placeholder="type a group id")
        self.view = widgets.HTML()
        for control in (self.partition_slider, self.group_field):
            control.observe(lambda _: self._draw(), names="value")
        self._draw()
        super().__init__([widgets.HBox([self.partition_slider, self.group_field]), self.view])

    def _draw(self) -> None:
        self.view.value = self.static_html()

    def _count_groups(self) -> dict[int, int]:
        """Return the number of groups on each partition. The keys are the partitions."""
        counts = dict.fromkeys(range(self.partition_slider.value), 0)
        for group in self.groups:
            counts[partition_for(group, self.partition_slider.value)] += 1
        return counts

    def _format_lines(self) -> list[str]:
        counts = self._count_groups()
        typed_group = self.group_field.value
        marked_partition = partition_for(typed_group, self.partition_slider.value) if typed_group else None
        max_count = max(counts.values())
        groups_per_block = max(1, ceil(max_count / _MAX_BLOCK_COUNT))
        empty_partition_count = list(counts.values()).count(0)
        title = (
            f"{len(self.groups)} groups on {len(counts)} partitions: "
            f"at most {max_count} groups on one partition, {empty_partition_count} partitions empty"
        )
        if marked_partition is not None:
            title += f"; {typed_group} is on partition {marked_partition}"
        bars = []
        for partition, count in counts.items():
            is_marked = partition == marked_partition
            if count > 0 or is_marked:
                blocks = "█" * ceil(count / groups_per_block)
                mark = " ◀" if is_marked else ""
                bars.append(f"{partition:>3} {blocks:<10} {count}{mark}")
        row_count = ceil(len(bars) / _COLUMN_COUNT)
        columns = [bars[start : start + row_count] for start in range(0, len(bars), row_count)]
        table = zip_longest(*columns, fillvalue="")
        return [title] + ["".join(f"{bar:<26}" for bar in row).rstrip() for row in table]

    def static_html(self) -> str:
        return format_html("kg-histogram", self._format_lines())

    def static_text(self) -> str:
        return "\n".join(self._format_lines())
