"""Lesson 08: a widget that shows what a pass of the cleaner did with each record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import ipywidgets as widgets

from kafkagroups.course.cleaner_passes import COUNTED_KINDS, Pass, classify_records
from kafkagroups.course.widgets import StaticWidget, format_html
from kafkagroups.log.segments import open_log

_ROW_LENGTH = 60
_VERDICTS = {
    "value kept": ("V", "the newest of its key"),
    "value gone": ("v", "the log has a newer record of its key"),
    "aborted gone": ("a", "its transaction was aborted"),
    "tombstone set": ("T", "a tombstone: its batch gets a delete horizon"),
    "tombstone kept": ("T", "a tombstone whose delete horizon has not passed"),
    "tombstone gone": ("t", "a tombstone whose delete horizon has passed"),
    "marker kept": ("M", "a marker: its transaction had a record when the pass began"),
    "marker set": ("M", "a marker without records: its batch gets a delete horizon"),
    "marker waits": ("M", "a marker whose delete horizon has not passed"),
    "marker gone": ("m", "a marker whose delete horizon has passed"),
    "untouched": ("=", "in the active segment, or after the start of an open transaction"),
}
"""For each verdict about a record, its letter (lower case if the record is removed) and the rule."""


class CompactionSlider(StaticWidget):
    """A slider that chooses one of several passes. The static form shows all of them.

    Parameters
    ----------
    passes
        The passes in their order.
    """

    def __init__(self, passes: Sequence[Pass]) -> None:
        self.passes = list(passes)
        self.number = widgets.IntSlider(value=1, min=1, max=len(self.passes), description="pass")
        self.view = widgets.HTML()
        self.number.observe(lambda _: self._draw(), names="value")
        self._draw()
        super().__init__([self.number, self.view])

    def _draw(self) -> None:
        self.view.value = _format_block(self.passes[self.number.value - 1])

    def static_html(self) -> str:
        return "".join(_format_block(each) for each in self.passes)

    def static_text(self) -> str:
        return "\n\n".join("\n".join(_format_pass(each)) for each in self.passes)


def _format_block(each: Pass) -> str:
    return format_html("kg-passes", [*_format_pass(each), ""])


def _format_pass(each: Pass) -> list[str]:
    """Return sizes, a legend with counts, and one letter per record."""
    verdicts = _judge_records(each)
    lines = [each.title, f"  before  {_format_size(each.before)}", f"  after   {_format_size(each.after)}", ""]
    for verdict, (letter, rule) in _VERDICTS.items():
        count = sum(other == verdict for other in verdicts.values())
        if count:
            lines.append(f"  {letter} {'dropped' if letter.islower() else 'kept':<8} {count:>4}  {rule}")
    lines.append("")
    for first in range(0, max(verdicts) + 1, _ROW_LENGTH):
        offsets = range(first, first + _ROW_LENGTH)
        row = "".join(_VERDICTS[verdicts[offset]][0] if offset in verdicts else "·" for offset in offsets)
        if row.strip("·"):
            lines.append(f"  {first:>5}  {row}")
    return lines


def _judge_records(each: Pass) -> dict[int, str]:
    """Return a verdict (a key of `_VERDICTS`) for each offset that had a record before the pass."""
    horizons_before = _read_horizons(each.before)
    horizons_after = _read_horizons(each.after)
    records = list(classify_records(each.before))
    newest = {
        record.key: record.offset for kind, record in records if kind in COUNTED_KINDS and record.offset < each.end
    }
    verdicts = {}
    for kind, record in records:
        offset = record.offset
        if offset >= each.end:
            verdicts[offset] = "untouched"
            continue
        fate = "kept" if offset in horizons_after else "gone"
        if kind in ("tombstone", "marker") and horizons_after.get(offset) is not None:
            waits = "waits" if kind == "marker" else "kept"
            fate = "set" if horizons_before[offset] is None else waits
        if kind == "tombstone" and offset < newest.get(record.key, -1):
            kind = "value"  # A newer record superseded this tombstone, so its horizon does not matter.
        verdicts[offset] = f"{kind} {fate}"
    return verdicts


def _read_horizons(log: Path) -> dict[int, int | None]:
    """Return the delete horizon of each record's batch, None if the batch has none."""
    return {record.offset: batch.delete_horizon_ms for batch in open_log(log) for record in batch.records}


def _format_size(log: Path) -> str:
    batches = list(open_log(log))
    size = sum(batch.size for batch in batches)
    records = sum(len(batch.records) for batch in batches)
    segments = len({batch.file for batch in batches})
    return f"{size:>6,} bytes, {records:>3} records, {segments} segments"
