"""Lesson 03: a widget that breaks one byte and shows what checksum and recovery do."""

from __future__ import annotations

import ipywidgets as widgets

from kafkagroups.course.widgets import StaticWidget, format_html
from kafkagroups.errors import InvalidLog
from kafkagroups.log.batch import Batch
from kafkagroups.log.batches import read_batches


class ByteBreaker(StaticWidget):
    """A slider that chooses the byte to break.

    Parameters
    ----------
    data
        The bytes of a segment.
    broken
        The position of the broken byte at first. None breaks no byte.
    """

    def __init__(self, data: bytes, broken: int | None = None) -> None:
        self.data = data
        self.batches = list(read_batches(data))
        self.byte = widgets.IntSlider(
            value=-1 if broken is None else broken,
            min=-1,
            max=len(data) - 1,
            description="break byte",
            layout=widgets.Layout(width="600px"),
        )
        self.view = widgets.HTML()
        self.byte.observe(lambda _: self._draw(), names="value")
        self._draw()
        super().__init__([self.byte, self.view])

    def _draw(self) -> None:
        self.view.value = self.static_html()

    def _lines(self) -> list[str]:
        broken = self.byte.value
        data = bytearray(self.data)
        first_line = "no byte is broken"
        if broken >= 0:
            data[broken] ^= 0x01
            first_line = f"byte {broken} is {self.data[broken]:02x}, broken to {data[broken]:02x}"
        kept, reason = _read_until_damage(bytes(data))
        lines = [first_line]
        for number, batch in enumerate(self.batches):
            fate = _describe_fate(batch, kept[number]) if number < len(kept) else "cut away"
            last_byte = batch.position + batch.size - 1
            lines.append(f"bytes {batch.position:>4} to {last_byte:>4}, {_format_offsets(batch)}: {fate}")
        if broken < 0:
            lines.append("every checksum is right")
        elif reason:
            lines.append(f"recovery stops there: {reason}")
        else:
            lines.append("no checksum guards this byte")
        return lines

    def static_html(self) -> str:
        return format_html("kg-break", self._lines())

    def static_text(self) -> str:
        return "\n".join(self._lines())


def _read_until_damage(data: bytes) -> tuple[list[Batch], str | None]:
    """Return the batches before the first damage, and a description of the damage, if any."""
    batches: list[Batch] = []
    try:
        for batch in read_batches(data):
            batches.append(batch)
    except InvalidLog as error:
        return batches, error.reason
    return batches, None


def _describe_fate(original: Batch, kept: Batch) -> str:
    if _format_offsets(original) != _format_offsets(kept):
        return f"kept, but now read as {_format_offsets(kept)}"
    return "kept"


def _format_offsets(batch: Batch) -> str:
    return f"offsets {batch.base_offset} to {batch.last_offset}"
