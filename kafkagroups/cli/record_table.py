"""The table of `explain`: a row for each record, with as many columns as fit the width.

Names, for example topic-partitions, are never broken. If the rows are too wide, the table becomes narrower in these
steps, until every name fits:

- The columns are closer together.
- The date is in the caption, if all records have the same date.
- The metadata and the producers are in lines below the rows.
- A name that does not fit is in a line below its row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from kafkagroups.cli import options
from kafkagroups.cli.output import escape
from kafkagroups.groups.observer import Fate
from kafkagroups.history.record_fate import RecordFate
from kafkagroups.records.record_types import RECORD_TYPES

_MIN_NAME_WIDTH = 8
_DATE_LENGTH = len("2026-11-21")
_CUT = "…"
_NUMBERS = ("record", "committed", "by")
"""The columns that are aligned to the right."""


@dataclass(frozen=True)
class _Layout:
    """A choice of columns. `gap` is the number of spaces between two columns."""

    has_producer: bool
    has_metadata: bool
    has_date: bool
    gap: int


class RecordTable:
    """Rows of records that fit the width.

    If all records are in one partition of the offsets topic, the caption names the partition. Otherwise each record is
    shown as partition:offset.

    Attributes
    ----------
    has_metadata, has_producer
        Whether the metadata of commits and the producers of transactions have a column.
    """

    def __init__(self, entries: list[RecordFate], width: int) -> None:
        self._partitions = {entry.partition for entry in entries}
        self._entries = entries
        self._cells = [self._find_cells(entry) for entry in entries]
        dates = {cells["written (UTC)"][:_DATE_LENGTH] for cells in self._cells}
        self._date = next(iter(dates)) if len(dates) == 1 else ""
        has_date_in_rows = (True, False) if self._date.count("-") == 2 else (True,)
        layouts = [_Layout(*choice) for choice in product((True, False), (True, False), has_date_in_rows, (2, 1))]
        # The last layout is the narrowest one.
        fitting = (layout for layout in layouts if self._find_name_width(layout) <= self._room(layout, width))
        layout = next(fitting, layouts[-1])
        self._layout = layout
        self._name_width = max(_MIN_NAME_WIDTH, min(self._find_name_width(layout), self._room(layout, width)))
        self._widths = self._find_widths(layout) | {"about": self._name_width}
        self.has_metadata = "metadata" in self._widths
        self.has_producer = "producer" in self._widths

    def _find_cells(self, entry: RecordFate) -> dict[str, str]:
        """Return the texts of a row by the titles of the columns, in the order of the columns."""
        assert entry.fate is not None
        offset = str(entry.offset)
        if len(self._partitions) > 1:
            offset = f"{'-' if entry.partition is None else entry.partition}:{offset}"
        committed = "" if entry.committed is None else str(entry.committed)
        return {
            "record": offset,
            "written (UTC)": options.format_time_ms(entry.timestamp),
            "about": escape(name_subject(entry)),
            "committed": f"▼ {committed}" if entry.went_back else committed,
            "metadata": "" if entry.fate is Fate.MARKER else escape(entry.note or ""),
            "producer": _name_producer(entry),
            "fate": entry.fate.value,
            "by": "" if entry.by is None else str(entry.by),
        }

    def _find_widths(self, layout: _Layout) -> dict[str, int]:
        """Return the widths of the columns that a layout has. The width of the names is not decided yet: 0."""
        widths: dict[str, int] = {}
        for title in ("record", "written (UTC)", "about", "committed", "metadata", "producer", "fate", "by"):
            longest = max((len(cells[title]) for cells in self._cells), default=0)
            is_left_out = (title == "metadata" and not layout.has_metadata) or (
                title == "producer" and not layout.has_producer
            )
            if title == "written (UTC)" and not layout.has_date:
                longest -= _DATE_LENGTH + 1
            if title == "about":
                widths[title] = 0
            elif longest and not is_left_out:
                widths[title] = max(longest, len(title))
        return widths

    def _room(self, layout: _Layout, width: int) -> int:
        """Return how many characters of a row are left for a name."""
        widths = self._find_widths(layout)
        return width - sum(widths.values()) - layout.gap * (len(widths) - 1)

    def _find_name_width(self, layout: _Layout) -> int:
        """Return the width of the column of names in which every name fits."""
        widths = self._find_widths(layout)
        return max(
            len("about"),
            *(len(cells["about"]) - _find_free_room(cells, widths, layout.gap) for cells in self._cells),
        )

    def lines(self) -> Iterator[str]:
        """Yield the lines above the rows: the caption and the titles."""
        place = ""
        if len(self._partitions) == 1 and None not in self._partitions:
            place = f" in partition {next(iter(self._partitions))} of __consumer_offsets"
        date = "" if self._layout.has_date else f", written on {self._date}"
        if place or date:
            yield f"Records{place}{date}:"
        yield self._format({title: title for title in self._widths})

    def rows(self) -> Iterator[tuple[RecordFate, str, str]]:
        """Yield each record, its row, and its name if the row has no room for the name (otherwise "")."""
        for entry, cells in zip(self._entries, self._cells, strict=True):
            if not self._layout.has_date:
                cells["written (UTC)"] = cells["written (UTC)"][_DATE_LENGTH + 1 :]
            free = _find_free_room(cells, self._widths, self._layout.gap)
            is_cut = len(cells["about"]) > self._name_width + free
            yield entry, self._format(cells), cells["about"] if is_cut else ""

    def _format(self, cells: dict[str, str]) -> str:
        free = _find_free_room(cells, self._widths, self._layout.gap)
        texts = []
        uses_next = False
        for title, column_width in self._widths.items():
            text = cells[title]
            if title == "about":
                room = column_width + free
                texts.append((text if len(text) <= room else text[: room - 1] + _CUT).ljust(room))
                uses_next = free > 0
                continue
            # A name also uses the empty columns next to it.
            uses_next = uses_next and not text
            if not uses_next:
                texts.append(text.rjust(column_width) if title in _NUMBERS else text.ljust(column_width))
        return (" " * self._layout.gap).join(texts).rstrip()


def _find_free_room(cells: dict[str, str], widths: dict[str, int], gap: int) -> int:
    """Return how many characters are free next to the name of a record: the empty columns right after it."""
    titles = list(widths)
    free = 0
    for title in titles[titles.index("about") + 1 :]:
        if cells[title]:
            break
        free += widths[title] + gap
    return free


def name_subject(entry: RecordFate) -> str:
    """Return what a record is about: a topic-partition, the type of a group record, or a marker."""
    if entry.fate is Fate.MARKER:
        return f"{entry.note} marker"
    if entry.key is not None:
        return str(entry.key)
    if entry.type is None:
        return "-"
    return name_type(entry.type)


def name_type(record_type: int) -> str:
    """Return the name of a record type, for example GroupMetadata."""
    return RECORD_TYPES[record_type].name if record_type in RECORD_TYPES else f"type {record_type}"


def _name_producer(entry: RecordFate) -> str:
    """Return the producer id and the producer epoch of a record in a transaction. Otherwise return ""."""
    if entry.producer_id is None or not (entry.is_transactional or entry.fate is Fate.MARKER):
        return ""
    return f"{entry.producer_id}/{entry.producer_epoch}"
