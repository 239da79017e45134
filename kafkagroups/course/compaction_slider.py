"""Lesson 08: a widget that shows what a pass of the cleaner did with each record.

A pass removes a tombstone or a transaction marker only after a waiting time. The first pass that could remove the
record stores the end of this time, the delete horizon, in the header of the record's batch. A later pass removes the
record if the horizon has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import ipywidgets as widgets

from kafkagroups.course.cleaner_passes import OFFSET_MAP_CLASSES, CleanerPass, classify_records
from kafkagroups.course.widgets import StaticWidget, format_html
from kafkagroups.log.segments import open_log

# How many records one row shows: one letter for each record.
_ROW_LENGTH = 60
_RESULTS = {
    "value kept": ("V", "the newest record of its key"),
    "value gone": ("v", "the log has a newer record of its key"),
    "aborted gone": ("a", "its transaction was aborted"),
    "tombstone set": ("T", "a tombstone: its batch gets a delete horizon"),
    "tombstone kept": ("T", "a tombstone whose delete horizon has not passed"),
    "tombstone gone": ("t", "a tombstone whose delete horizon has passed"),
    "marker kept": ("M", "a marker: its transaction had a record when the pass began"),
    "marker set": ("M", "a marker without records: its batch gets a delete horizon"),
    "marker waits": ("M", "a marker whose delete horizon has not passed"),
    "marker gone": ("m", "a marker whose delete horizon has passed"),
    "unchanged": ("=", "in the active segment, or after the start of an open transaction"),
}
"""What a pass can do with a record: for each result, a letter and the reason. A lower-case letter means "removed"."""


class CompactionSlider(StaticWidget):
    """A slider for the number of a pass, and a view of this pass. The static version shows all passes.

    Parameters
    ----------
    passes
        The passes of the cleaner in their order.
    """

    def __init__(self, passes: Sequence[CleanerPass]) -> None:
        self.passes = list(passes)
        self.pass_slider = widgets.IntSlider(value=1, min=1, max=len(self.passes), description="pass")
        self.view = widgets.HTML()
        self.pass_slider.observe(lambda _: self._draw(), names="value")
        self._draw()
        super().__init__([self.pass_slider, self.view])

    def _draw(self) -> None:
        self.view.value = _format_block(self.passes[self.pass_slider.value - 1])

    def static_html(self) -> str:
        return "".join(_format_block(cleaner_pass) for cleaner_pass in self.passes)

    def static_text(self) -> str:
        return "\n\n".join("\n".join(_format_pass(cleaner_pass)) for cleaner_pass in self.passes)


def _format_block(cleaner_pass: CleanerPass) -> str:
    return format_html("kg-passes", [*_format_pass(cleaner_pass), ""])


def _format_pass(cleaner_pass: CleanerPass) -> list[str]:
    """Return lines with the log's sizes, a legend with counts, and one letter per record.

    A dot stands for an offset without a record: an earlier pass has removed this record, or the log ends before it.
    """
    results = _find_results(cleaner_pass)
    lines = [
        cleaner_pass.title,
        f"  before  {_format_size(cleaner_pass.log_before)}",
        f"  after   {_format_size(cleaner_pass.log_after)}",
        "",
    ]
    for result, (letter, reason) in _RESULTS.items():
        count = sum(record_result == result for record_result in results.values())
        if count:
            lines.append(f"  {letter} {'dropped' if letter.islower() else 'kept':<8} {count:>4}  {reason}")
    lines.append("")
    for first_offset in range(0, max(results) + 1, _ROW_LENGTH):
        offsets = range(first_offset, first_offset + _ROW_LENGTH)
        row = "".join(_RESULTS[results[offset]][0] if offset in results else "·" for offset in offsets)
        if row.strip("·"):
            lines.append(f"  {first_offset:>5}  {row}")
    return lines


def _find_results(cleaner_pass: CleanerPass) -> dict[int, str]:
    """Return what the pass did with each record that the log had before the pass.

    The keys are the offsets of the records, and the values are keys of `_RESULTS`.
    """
    horizons_before = _read_horizons(cleaner_pass.log_before)
    horizons_after = _read_horizons(cleaner_pass.log_after)
    records = list(classify_records(cleaner_pass.log_before))
    newest_offsets = {
        record.key: record.offset
        for record_class, record in records
        if record_class in OFFSET_MAP_CLASSES and record.offset < cleaner_pass.end_offset
    }
    results = {}
    for record_class, record in records:
        offset = record.offset
        if offset >= cleaner_pass.end_offset:
            results[offset] = "unchanged"
            continue
        change = "kept" if offset in horizons_after else "gone"
        if record_class in ("tombstone", "marker") and horizons_after.get(offset) is not None:
            waiting_change = "waits" if record_class == "marker" else "kept"
            change = "set" if horizons_before[offset] is None else waiting_change
        if record_class == "tombstone" and offset < newest_offsets.get(record.key, -1):
            record_class = "value"  # A newer record superseded this tombstone, so its horizon does not matter.
        results[offset] = f"{record_class} {change}"
    return results


def _read_horizons(log: Path) -> dict[int, int | None]:
    """Return the delete horizon of each record's batch, by record offset, in ms since the epoch.

    The delete horizon is None if the batch has no horizon.
    """
    return {record.offset: batch.delete_horizon_ms for batch in open_log(log) for record in batch.records}


def _format_size(log: Path) -> str:
    batches = list(open_log(log))
    size = sum(batch.size for batch in batches)
    records = sum(len(batch.records) for batch in batches)
    segments = len({batch.file for batch in batches})
    return f"{size:>6,} bytes, {records:>3} records, {segments} segments"
