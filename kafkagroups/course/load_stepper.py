"""Lesson 09: a widget that loads a log record by record and shows the state next to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import ipywidgets as widgets

from kafkagroups.course.load_steps import load_steps
from kafkagroups.course.widgets import Stepper, format_html

_VISIBLE_LINES = 14
_LOG_WIDTH = 46


class LoadStepper(Stepper):
    """Steps through the records of a partition and shows what each one changes.

    The static form lists what every record did, and the coordinator's state after record `at`.

    Parameters
    ----------
    path
        A partition folder, or a folder of partition folders; then the first partition counts.
    coordinator
        "classic" or "new".
    kafka
        The coordinator's Kafka version. None is the default version of that coordinator.
    first, last
        The offsets of the first and the last record to show. `last=None` shows all records to the end.
    at
        The offset of the record that is shown first. None is the last record.
    """

    def __init__(
        self,
        path: str,
        coordinator: str = "classic",
        kafka: str | None = None,
        *,
        first: int = 0,
        last: int | None = None,
        at: int | None = None,
    ) -> None:
        self.steps = [
            step
            for step in load_steps(path, coordinator, kafka)
            if first <= step.line.at and (last is None or step.line.at <= last)
        ]
        offsets = [step.line.at for step in self.steps]
        self.record = widgets.SelectionSlider(
            options=[(str(offset), index) for index, offset in enumerate(offsets)],
            value=offsets.index(at) if at in offsets else len(offsets) - 1,
            description="record",
            layout=widgets.Layout(width="420px"),
        )
        super().__init__(self.record, len(self.steps), "record")

    def _draw(self) -> None:
        self.view.value = format_html("kg-loader", self._format_current())

    def _format_current(self) -> list[str]:
        """Return the current record, the log around it, and next to the log the coordinator's state."""
        step = self.steps[self.record.value]
        rows = zip_longest(["the log", *self._format_log()], ["the coordinator's state", *step.state], fillvalue="")
        title = [f"record {step.line.at}: {step.effect}", ""]
        return title + [f"{left:<{_LOG_WIDTH}} │ {right}" for left, right in rows]

    def _format_log(self) -> Iterable[str]:
        """Yield the lines around the current record."""
        current = self.record.value
        begin = max(0, min(current - _VISIBLE_LINES // 2, len(self.steps) - _VISIBLE_LINES))
        for index in range(begin, min(begin + _VISIBLE_LINES, len(self.steps))):
            mark = " " if index < current else "·"
            if index == current:
                mark = "▶"
            yield f"{mark} {self.steps[index].line}"

    def _format_all(self) -> Iterator[str]:
        for step in self.steps:
            yield f"{step.line!s:<{_LOG_WIDTH - 2}} → {step.effect}"
        step = self.steps[self.record.value]
        yield ""
        yield f"the coordinator's state after record {step.line.at}"
        yield from step.state

    def static_html(self) -> str:
        return format_html("kg-loader", self._format_all())

    def static_text(self) -> str:
        return "\n".join(self._format_all())
