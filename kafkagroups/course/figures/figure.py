"""The base class of the course's figures: pictures that move, with and without a kernel.

Python computes every scene from the package's own code, and `figure.js` draws the scenes and switches between them. A
figure has four forms:

- live in JupyterLab, as an anywidget. The kernel can compute new scenes if the reader types a value.
- on a page without a kernel: `page_html`, with the same JavaScript module and all scenes.
- in a saved notebook that JupyterLab does not trust: an image of the first scene.
- as text: `text`, for tests and screen readers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import product
from typing import Any, NamedTuple

import anywidget
import traitlets

from kafkagroups.course.figures.marks import (
    WIDTH,
    Box,
    Mark,
    Scene,
    draw_svg,
    encode_data_address,
    find_hue,
    style_sheet,
)
from kafkagroups.errors import UsageError

_FOLDER = files("kafkagroups.course.figures")
_METADATA_KEY = "kafkagroups_figure"
_PLACES = ("x", "y", "x1", "y1", "x2", "y2", "width", "height")


@dataclass(frozen=True)
class Control:
    """A control of a figure, which `Box.choice` names.

    The options of a sequence are steps, which the reader plays or goes through; otherwise they are alternatives.
    `initial` is the option that the figure shows first. `jumps` has, for each option, None, or another control and its
    option, which the figure then chooses as well. With `is_answer`, new content from the free input shows the initial
    option, while other controls stay.
    """

    name: str
    label: str
    options: tuple[str, ...]
    is_sequence: bool = True
    initial: int = 0
    jumps: tuple[tuple[str, int] | None, ...] = ()
    is_answer: bool = False


@dataclass(frozen=True)
class FreeInput:
    """A text field whose value goes to the kernel.

    A page without a kernel does not show it. `example` stands in it in grey.
    """

    label: str
    example: str


NARROW_WIDTH = 340
"""The width of what fits into a narrow column, such as that of a phone."""


class Part(NamedTuple):
    """A part of a picture, from `left` and `top` to `right` and `bottom`, in a narrow column.

    Its upper left corner is at `place` there, and its marks are narrower by the factor `squeeze`, except those that
    keep their width.
    """

    left: float
    top: float
    right: float
    bottom: float
    place: tuple[float, float]
    squeeze: float = 1


def squeeze_right(left: float, height: float, factor: float) -> tuple[Part, ...]:
    """Return the layout of a picture whose names, which are left of `left`, keep their width."""
    return (Part(0, 0, left, height, (0, 0)), Part(left, 0, WIDTH, height, (left, 0), factor))


@dataclass(frozen=True)
class Content:
    """Everything that a figure shows.

    Every scene has the same `height`, so that the page below the figure does not move. `scenes` has one for each
    combination of options, in the order of `controls`, of which there is at least one. In a narrow column, the picture
    has the layout `narrow`. The kernel answers a value of `free_input` with new scenes. `legend` has boxes that stand
    below the picture. Their keys say what they mean. With `has_bytes`, all characters of a box have the same width,
    except those of its first line.
    """

    title: str
    height: float
    controls: tuple[Control, ...]
    scenes: Mapping[tuple[int, ...], Scene]
    narrow: tuple[Part, ...]
    free_input: FreeInput | None = None
    legend: tuple[Box, ...] = ()
    has_bytes: bool = False

    @classmethod
    def draw(
        cls, title: str, height: float, controls: tuple[Control, ...], draw: Callable[..., Scene], **others: Any
    ) -> Content:
        """Return the content whose scenes `draw` makes of the numbers of the options."""
        return cls(title, height, controls, {numbers: draw(*numbers) for numbers in _combine(controls)}, **others)


def _combine(controls: Sequence[Control]) -> Iterator[tuple[int, ...]]:
    return product(*(range(len(control.options)) for control in controls))


class Figure(anywidget.AnyWidget):
    """A figure with its four forms. A subclass computes the content."""

    _esm = (_FOLDER / "figure.js").read_text(encoding="utf-8")
    _css = (_FOLDER / "figure.css").read_text(encoding="utf-8") + style_sheet()
    shown = traitlets.Dict().tag(sync=True)
    message = traitlets.Unicode("").tag(sync=True)
    """What is wrong with the value in the free input, or ""."""

    def __init__(self, content: Content) -> None:
        self.content = content
        super().__init__(shown=_to_json(content))
        self.on_msg(self._answer)

    def compute_content(self, value: str) -> Content:
        """Return new content for a value that the reader typed; the figure shows the text of a UsageError."""
        raise UsageError(f"{self.content.title}: no free input")

    def _answer(self, _widget: Any, message: Any, _buffers: Any) -> None:
        try:
            self.content = self.compute_content(str(message["value"]))
        except UsageError as error:
            self.message = str(error)
            return
        self.message = ""
        self.shown = _to_json(self.content)

    @property
    def first_scene(self) -> Scene:
        return self.content.scenes[tuple(control.initial for control in self.content.controls)]

    @property
    def fingerprint(self) -> str:
        return sha256(json.dumps(_to_json(self.content), sort_keys=True).encode()).hexdigest()[:16]

    def text(self, *options: int) -> list[str]:
        return list(self.content.scenes[options].text if options else self.first_scene.text)

    def image_html(self) -> str:
        scene = self.first_scene
        content = self.content
        address = encode_data_address(draw_svg(scene, content.height, content.title, content.legend, content.has_bytes))
        alternative = escape("\n".join([content.title, *scene.text]), quote=True)
        style = f"width:{WIDTH}px;max-width:100%"
        above = "".join(f"<p>{escape(line.text)}</p>" for line in scene.lines)
        return f'{above}<img src="{address}" alt="{alternative}" style="{style}"><p>{escape(scene.caption)}</p>'

    def page_html(self) -> str:
        """Return the figure for a page without a kernel. The page needs `page_script` once."""
        # "</" would end the script element.
        data = json.dumps(_to_json(self.content), ensure_ascii=False).replace("</", "<\\/")
        return f'<div class="kg-figure-page"><script type="application/json">{data}</script></div>'

    def _repr_mimebundle_(self, **arguments: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
        bundle, metadata = super()._repr_mimebundle_(**arguments) or ({}, {})
        words = "\n".join([self.content.title, *self.first_scene.text, self.first_scene.caption])
        texts = {"text/html": self.image_html(), "text/plain": words}
        return {**bundle, **texts}, {**metadata, _METADATA_KEY: self.fingerprint}


def read_fingerprint(metadata: Mapping[str, Any]) -> str | None:
    return metadata.get(_METADATA_KEY)


def page_script() -> str:
    return f'<style>{Figure._css}</style>\n<script type="module">\n{Figure._esm}\nmountAll(document);\n</script>'


def _to_json(content: Content) -> dict[str, Any]:
    """Many scenes share marks, so the marks stand in one list and a scene contains their numbers."""
    number_by_mark: dict[Mark, int] = {}
    scenes = [_scene_to_json(content.scenes[numbers], number_by_mark) for numbers in _combine(content.controls)]
    return {
        **vars(content),
        "width": WIDTH,
        "controls": [asdict(control) for control in content.controls],
        "free_input": asdict(content.free_input) if content.free_input else None,
        "marks": [_mark_to_json(mark) for mark in number_by_mark],
        "scenes": scenes,
        "legend": [_mark_to_json(box) for box in content.legend],
    }


def _scene_to_json(scene: Scene, number_by_mark: dict[Mark, int]) -> dict[str, Any]:
    numbers = [number_by_mark.setdefault(mark, len(number_by_mark)) for mark in scene.marks]
    return {**vars(scene), "marks": numbers, "lines": [asdict(line) for line in scene.lines]}


def _mark_to_json(mark: Mark) -> dict[str, Any]:
    data = {"kind": type(mark).__name__.lower(), **asdict(mark)}
    if isinstance(mark, Box) and mark.hue:
        data["hue"] = f"kg-hue-{find_hue(mark.hue)}"
    # Apart from places, only what differs from the default, because a figure has thousands of marks.
    return {name: value for name, value in data.items() if value or name in _PLACES}
