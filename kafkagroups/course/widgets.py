"""The base classes of the lessons' widgets: live controls and a static form.

With a kernel, a widget is an ipywidgets box with buttons, sliders and keyboard control. Each widget also has a
deterministic text/html and text/plain form, so that a page without a kernel shows the same facts and tests can compare
them. Brackets and words carry the meaning, never colour alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import ipywidgets as widgets

MONO = "font-family:monospace;white-space:pre;line-height:1.5"
"""The style of text that keeps its columns."""


def format_html(css_class: str, lines: Iterable[str]) -> str:
    """Return lines of text as HTML that keeps their columns. `css_class` lets a browser test find the block."""
    return f'<div class="{css_class}" style="{MONO}">{escape(chr(10).join(lines))}</div>'


class StaticWidget(widgets.VBox):
    """A box with a static form: a page without a kernel shows `static_html` or `static_text`."""

    def static_html(self) -> str:
        """Return the static form as HTML."""
        raise TypeError(f"{type(self).__name__} has no static form")

    def static_text(self) -> str:
        """Return the static form as plain text."""
        raise TypeError(f"{type(self).__name__} has no static form")

    def _repr_mimebundle_(self, **arguments: Any) -> dict[str, Any]:
        live_form = super()._repr_mimebundle_(**arguments)
        bundle: dict[str, Any] = dict(live_form[0] if isinstance(live_form, tuple) else live_form)
        bundle["text/html"] = self.static_html()
        bundle["text/plain"] = self.static_text()
        return bundle


class Stepper(StaticWidget):
    """A widget that shows one of many items, with the buttons "previous" and "next" and a `chooser` for any item.

    The values of the chooser are the numbers of the items, from 0 on. A subclass draws the item in `_draw`.
    """

    def __init__(self, chooser: Any, count: int, noun: str) -> None:
        self.chooser = chooser
        self.count = count
        self.previous = widgets.Button(description="previous", tooltip=f"the {noun} before this one")
        self.next = widgets.Button(description="next", tooltip=f"the {noun} after this one")
        self.view = widgets.HTML()
        self.previous.on_click(lambda _: self._step(-1))
        self.next.on_click(lambda _: self._step(1))
        chooser.observe(lambda _: self._draw(), names="value")
        self._draw()
        super().__init__([widgets.HBox([self.previous, self.next, chooser]), self.view])

    def _step(self, by: int) -> None:
        self.chooser.value = (self.chooser.value + by) % self.count

    def _draw(self) -> None:
        raise TypeError(f"{type(self).__name__} draws nothing")
