"""Lessons 11 and 13: a widget that loads a log record by record, and shows the loaded state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import ipywidgets as widgets

from kafkagroups.course.load_steps import list_load_steps
from kafkagroups.course.widgets import Stepper, format_html

_VISIBLE_LINE_COUNT = 14
# In characters.
_MIN_LOG_COLUMN_WIDTH = 46


class LoadStepper(Stepper):
    """A widget that steps through the records of a partition's log and shows what each record changes.

    A page without a kernel shows the static version: the effect of every record, and the coordinator's state after the
    record at `shown_offset`.

    Parameters
    ----------
    path
        A partition folder. From a folder of partition folders, the widget loads only the first partition.
    coordinator
        The coordinator that loads the log: "classic" (up to Kafka 3.9) or "new" (since Kafka 3.7).
    kafka
        The coordinator's Kafka version. None means 3.9.2 for the classic coordinator and 4.3.1 for the new coordinator.
    first_offset, last_offset
        The offsets of the first and the last record to show. If `last_offset` is None, the last record to show is the
        last record of the log.
    shown_offset
        The offset of the record that is shown initially. If `shown_offset` is None or no record has this offset, the
        last record is shown.
    """

    def __init__(
        self,
        path: str,
        coordinator: str = "classic",
        kafka: str | None = None,
        *,
        first_offset: int = 0,
        last_offset: int | None = None,
        shown_offset: int | None = None,
    ) -> None:
        def is_in_range(record_offset: int) -> bool:
            if record_offset < first_offset:
                return False
            return last_offset is None or record_offset <= last_offset

        all_steps = list_load_steps(path, coordinator, kafka)
        self.steps = [step for step in all_steps if is_in_range(step.line.record_offset)]
        # Two more characters for the mark of the line.
        self._log_column_width = max(_MIN_LOG_COLUMN_WIDTH, *(len(str(step.line)) + 2 for step in self.steps))
        offsets = [step.line.record_offset for step in self.steps]
        last_index = len(offsets) - 1
        self.record_slider = widgets.SelectionSlider(
            options=[(str(offset), index) for index, offset in enumerate(offsets)],
            value=offsets.index(shown_offset) if shown_offset in offsets else last_index,
            description="record",
            layout=widgets.Layout(width="420px"),
        )
        super().__init__(self.record_slider, len(self.steps), "record")

    def _draw(self) -> None:
        self.view.value = format_html("kg-loader", self._format_current())

    def _format_current(self) -> list[str]:
        """Return lines with the effect of the current record, and a table with the log and the coordinator's state."""
        step = self.steps[self.record_slider.value]
        rows = zip_longest(["the log", *self._format_log()], ["the coordinator's state", *step.state], fillvalue="")
        title = [f"record {step.line.record_offset}: {step.effect}", ""]
        return title + [f"{left:<{self._log_column_width}} │ {right}" for left, right in rows]

    def _format_log(self) -> Iterable[str]:
        """Yield the lines of the current record and of the records around it, at most `_VISIBLE_LINE_COUNT` lines.

        The mark ▶ means the current record. The mark · means that the coordinator has not loaded the record yet.
        """
        current_index = self.record_slider.value
        first_index_if_centered = current_index - _VISIBLE_LINE_COUNT // 2
        first_index = max(0, min(first_index_if_centered, len(self.steps) - _VISIBLE_LINE_COUNT))
        for index in range(first_index, min(first_index + _VISIBLE_LINE_COUNT, len(self.steps))):
            if index == current_index:
                mark = "▶"
            elif index < current_index:
                mark = " "
            else:
                mark = "·"
            yield f"{mark} {self.steps[index].line}"

    def _format_static_lines(self) -> Iterator[str]:
        for step in self.steps:
            yield f"{step.line!s:<{self._log_column_width - 2}} → {step.effect}"
        step = self.steps[self.record_slider.value]
        yield ""
        yield f"the coordinator's state after record {step.line.record_offset}"
        yield from step.state

    def static_html(self) -> str:
        return format_html("kg-loader", self._format_static_lines())

    def static_text(self) -> str:
        return "\n".join(self._format_static_lines())
