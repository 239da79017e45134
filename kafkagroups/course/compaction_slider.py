"""Lesson 10: a widget that shows what a pass of the cleaner did with each record.

A tombstone or a transaction marker is removed only after a waiting time. The end of this time is the delete horizon.
The first pass that could remove the record stores the delete horizon in the header of the record's batch. A later pass
removes the record if the delete horizon has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import ipywidgets as widgets

from kafkagroups.course.cleaner_passes import OFFSET_MAP_CLASSES, CleanerPass, classify_records
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
"""What a pass can do with a record. A result is the record's class (`classify_records`) and one of these words:

- kept: the record stays
- set: the record stays, and the pass stored a delete horizon
- waits, or of a tombstone "kept": the record stays, because the delete horizon has not passed
- gone: the record was removed (the letter is in lower case)
"""


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
    results = _find_results(cleaner_pass)
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


def _find_results(cleaner_pass: CleanerPass) -> dict[int, str]:
    """Return the result of each record (`_LETTER_AND_REASON_BY_RESULT`), by record offset."""
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
        if offset not in horizons_after:
            change = "gone"
        else:
            change = _describe_kept(record_class, horizons_before[offset], horizons_after[offset])
        is_superseded = offset < newest_offsets.get(record.key, -1)
        if record_class == "tombstone" and is_superseded:
            record_class = "value"  # The cleaner removes this tombstone like a value, without a delete horizon.
        results[offset] = f"{record_class} {change}"
    return results


def _describe_kept(record_class: str, horizon_before: int | None, horizon_after: int | None) -> str:
    """Return the word for a record that stays after a pass: "kept", "set" or "waits"."""
    if record_class not in ("tombstone", "marker") or horizon_after is None:
        return "kept"
    if horizon_before is None:
        return "set"
    return "waits" if record_class == "marker" else "kept"


def _read_horizons(log: Path) -> dict[int, int | None]:
    """Return the delete horizon of the batch of each record, by record offset.

    A delete horizon is in ms since 1970. None means that the batch has no delete horizon.
    """
    return {record.offset: batch.delete_horizon_ms for batch in open_log(log) for record in batch.records}


def _format_size(log: Path) -> str:
    batches = list(open_log(log))
    byte_count = sum(batch.size for batch in batches)
    record_count = sum(len(batch.records) for batch in batches)
    segment_count = len({batch.file for batch in batches})
    return f"{byte_count:>6,} bytes, {record_count:>3} records, {segment_count} segments"
