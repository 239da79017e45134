"""Lesson 10: a widget that shows what a pass of the cleaner did with each record.

A tombstone or a transaction marker is removed only after a waiting time. The end of this time is the delete horizon.
The first pass that could remove the record stores the delete horizon in the header of the record's batch. A later pass
removes the record if the delete horizon has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import ipywidgets as widgets

from kafkagroups.course.cleaner_passes import CleanerPass
from kafkagroups.course.pass_results import find_results
from kafkagroups.course.widgets import StaticWidget, format_html
from kafkagroups.log.folders import open_log

_ROW_LENGTH = 60
"""The number of offsets in one row of letters."""
_LETTER_AND_REASON_BY_RESULT = {
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
    """Return lines with the log's sizes, a legend with counts, and one letter for each record.

    A dot stands for an offset without a record: an earlier pass removed the record, or the log ends before this offset.
    """
    results = find_results(cleaner_pass)
    lines = [
        cleaner_pass.title,
        f"  before  {_format_size(cleaner_pass.log_before)}",
        f"  after   {_format_size(cleaner_pass.log_after)}",
        "",
    ]
    for result, (letter, reason) in _LETTER_AND_REASON_BY_RESULT.items():
        count = list(results.values()).count(result)
        if count:
            lines.append(f"  {letter} {'dropped' if letter.islower() else 'kept':<8} {count:>4}  {reason}")
    lines.append("")
    letter_by_result = {result: letter for result, (letter, _) in _LETTER_AND_REASON_BY_RESULT.items()}
    for first_offset in range(0, max(results) + 1, _ROW_LENGTH):
        offsets = range(first_offset, first_offset + _ROW_LENGTH)
        row = "".join(letter_by_result[results[offset]] if offset in results else "·" for offset in offsets)
        if row.strip("·"):
            lines.append(f"  {first_offset:>5}  {row}")
    return lines


def _format_size(log: Path) -> str:
    batches = list(open_log(log))
    byte_count = sum(batch.size for batch in batches)
    record_count = sum(len(batch.records) for batch in batches)
    segment_count = len({batch.file for batch in batches})
    return f"{byte_count:>6,} bytes, {record_count:>3} records, {segment_count} segments"
