"""Lesson 09: a widget that loads a log record by record, and shows the loaded state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import ipywidgets as widgets

from kafkagroups.course.load_steps import list_load_steps
from kafkagroups.course.widgets import Stepper, format_html

_VISIBLE_LINES = 14
_LOG_WIDTH = 46


class LoadStepper(Stepper):
    """A widget that steps through the records of a partition's log and shows what each record changes.

    The static version lists the effect of every record, and the coordinator's state after the record at `shown_offset`.

    Parameters
    ----------
    path
        A partition folder, or a folder of partition folders. In the second case, the widget loads only the first
        partition.
    coordinator
        "classic" or "new".
    kafka
        The coordinator's Kafka version. If it is None, this is the default version of this coordinator.
    first_offset, last_offset
        The offsets of the first and the last record to show. If `last_offset` is None, the last record of the log is
        the last record to show.
    shown_offset
        The offset of the record that is shown initially. If it is None or no record has this offset, the last record
        is shown.
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
        self.steps = [
            step
            for step in list_load_steps(path, coordinator, kafka)
            if first_offset <= step.line.record_offset
            and (last_offset is None or step.line.record_offset <= last_offset)
        ]
        offsets = [step.line.record_offset for step in self.steps]
        self.record_slider = widgets.SelectionSlider(
            options=[(str(offset), index) for index, offset in enumerate(offsets)],
            value=offsets.index(shown_offset) if shown_offset in offsets else len(offsets) - 1,
            description="record",
            layout=widgets.Layout(width="420px"),
        )
        super().__init__(self.record_slider, len(self.steps), "record")

    def _draw(self) -> None:
        self.view.value = format_html("kg-loader", self._format_current())

    def _format_current(self) -> list[str]:
        """Return the effect of the current record, and below it the log next to the coordinator's state."""
        step = self.steps[self.record_slider.value]
        rows = zip_longest(["the log", *self._format_log()], ["the coordinator's state", *step.state], fillvalue="")
        title = [f"record {step.line.record_offset}: {step.effect}", ""]
        return title + [f"{left:<{_LOG_WIDTH}} │ {right}" for left, right in rows]

    def _format_log(self) -> Iterable[str]:
        """Yield a line for each of the records around the current record, at most `_VISIBLE_LINES` lines.

        The mark ▶ means the current record, and · means that the coordinator has not loaded the record yet.
        """
        current = self.record_slider.value
        first_index = max(0, min(current - _VISIBLE_LINES // 2, len(self.steps) - _VISIBLE_LINES))
        for index in range(first_index, min(first_index + _VISIBLE_LINES, len(self.steps))):
            mark = " " if index < current else "·"
            if index == current:
                mark = "▶"
            yield f"{mark} {self.steps[index].line}"

    def _format_all(self) -> Iterator[str]:
        for step in self.steps:
            yield f"{step.line!s:<{_LOG_WIDTH - 2}} → {step.effect}"
        step = self.steps[self.record_slider.value]
        yield ""
        yield f"the coordinator's state after record {step.line.record_offset}"
        yield from step.state

    def static_html(self) -> str:
        return format_html("kg-loader", self._format_all())

    def static_text(self) -> str:
        return "\n".join(self._format_all())
