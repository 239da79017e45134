"""Lessons 11 and 13: a widget that loads a log record by record, and shows the loaded state.

Each widget also has a static version as HTML and as text, for a page without a kernel. It is the same in every run, so
tests can check it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import zip_longest
from typing import Any

import ipywidgets as widgets

from kafkagroups.course.load_steps import list_load_steps

MONO = "font-family:monospace;white-space:pre;line-height:1.5"


def format_html(css_class: str, lines: Iterable[str]) -> str:
    text = escape("\n".join(lines))
    return f'<div class="{css_class}" style="{MONO}">{text}</div>'


class StaticWidget(widgets.VBox):
    """A widget with a static version for a page without a kernel."""

    def static_html(self) -> str:
        raise TypeError(f"{type(self).__name__} must implement static_html")

    def static_text(self) -> str:
        raise TypeError(f"{type(self).__name__} must implement static_text")

    def _repr_mimebundle_(self, **arguments: Any) -> dict[str, Any]:
        live_bundle = super()._repr_mimebundle_(**arguments)
        # IPython also allows a tuple: the bundle, and metadata of the bundle.
        bundle: dict[str, Any] = dict(live_bundle[0] if isinstance(live_bundle, tuple) else live_bundle)
        bundle["text/html"] = self.static_html()
        bundle["text/plain"] = self.static_text()
        return bundle


class Stepper(StaticWidget):
    """A widget with the buttons "previous" and "next". A subclass shows the chosen item in `_draw`.

    `chooser` is an ipywidgets slider or drop-down list whose values are the indexes of the items. `noun` is the word
    for an item in the tooltips.
    """

    def __init__(self, chooser: Any, item_count: int, noun: str) -> None:
        self.chooser = chooser
        self.item_count = item_count
        self.previous = widgets.Button(description="previous", tooltip=f"the {noun} before this one")
        self.next = widgets.Button(description="next", tooltip=f"the {noun} after this one")
        self.view = widgets.HTML()
        self.previous.on_click(lambda _: self._step(-1))
        self.next.on_click(lambda _: self._step(1))
        chooser.observe(lambda _: self._draw(), names="value")
        self._draw()
        super().__init__([widgets.HBox([self.previous, self.next, chooser]), self.view])

    def _step(self, distance: int) -> None:
        self.chooser.value = min(max(self.chooser.value + distance, 0), self.item_count - 1)

    def _draw(self) -> None:
        raise TypeError(f"{type(self).__name__} must implement _draw")


_VISIBLE_LINE_COUNT = 14
# In characters.
_MIN_LOG_COLUMN_WIDTH = 46


class LoadStepper(Stepper):
    """A widget that steps through the records of a partition's log and shows what each record changes.

    The static version shows the effect of every record, and the coordinator's state after the record at `shown_offset`.

    Parameters
    ----------
    path
        A partition folder. From a folder of partition folders, the widget loads only the first partition.
    coordinator
        "classic" (up to Kafka 3.9) or "new" (since Kafka 3.7).
    kafka
        None means 3.9.2 for the classic coordinator and 4.3.1 for the new coordinator.
    shown_offset
        The record that is shown first. Without such a record, the last one is shown.
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
        step = self.steps[self.record_slider.value]
        rows = zip_longest(["the log", *self._format_log()], ["the coordinator's state", *step.state], fillvalue="")
        title = [f"record {step.line.record_offset}: {step.effect}", ""]
        return title + [f"{left:<{self._log_column_width}} │ {right}" for left, right in rows]

    def _format_log(self) -> Iterable[str]:
        """Yield at most `_VISIBLE_LINE_COUNT` lines around the current record (▶).

        Records with · are not loaded yet.
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
