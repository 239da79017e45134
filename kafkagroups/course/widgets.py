"""The base classes of the lessons' widgets: live controls and a static version.

In a notebook with a kernel (a Python process), a widget has buttons and sliders. Each widget also has a static version
as HTML and as text, for a page without a kernel. The static version is the same in every run, so tests can check it.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import ipywidgets as widgets

MONO = "font-family:monospace;white-space:pre;line-height:1.5"
"""CSS for monospaced text whose columns stay aligned."""


def format_html(css_class: str, lines: Iterable[str]) -> str:
    """Return lines of text as one HTML block with aligned columns and this class."""
    text = escape("\n".join(lines))
    return f'<div class="{css_class}" style="{MONO}">{text}</div>'


class StaticWidget(widgets.VBox):
    """A widget with a static version. A page without a kernel shows `static_html` or `static_text`."""

    def static_html(self) -> str:
        """Return the static version as HTML."""
        raise TypeError(f"{type(self).__name__} must implement static_html")

    def static_text(self) -> str:
        """Return the static version as plain text."""
        raise TypeError(f"{type(self).__name__} must implement static_text")

    def _repr_mimebundle_(self, **arguments: Any) -> dict[str, Any]:
        """Return the live widget and its static version, by MIME type. Jupyter calls this method."""
        live_bundle = super()._repr_mimebundle_(**arguments)
        # IPython also allows a tuple: the bundle, and metadata of the bundle.
        bundle: dict[str, Any] = dict(live_bundle[0] if isinstance(live_bundle, tuple) else live_bundle)
        bundle["text/html"] = self.static_html()
        bundle["text/plain"] = self.static_text()
        return bundle


class Stepper(StaticWidget):
    """A widget that shows one item of a list. A subclass shows the chosen item in `_draw`.

    The buttons "previous" and "next" choose another item. They do nothing at the first and the last item.

    Parameters
    ----------
    chooser
        An ipywidgets slider or drop-down list with which the user chooses an item. Its values are the indexes of the
        items, from 0.
    item_count
        The number of items.
    noun
        The word for an item in the tooltips of the buttons, for example "record".
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
        """Show the chosen item in `view`."""
        raise TypeError(f"{type(self).__name__} must implement _draw")
