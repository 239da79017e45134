"""Lesson 03: a widget that changes one byte, and shows what checksum and recovery do.

Recovery is what a broker does with a segment (one file of a log) after a crash: it checks the checksum of each batch,
and removes the first damaged batch and everything after it.
"""

from __future__ import annotations

import ipywidgets as widgets

from kafkagroups.course.widgets import StaticWidget, format_html
from kafkagroups.errors import InvalidLog
from kafkagroups.log.batch import Batch
from kafkagroups.log.batches import read_batches


class ByteBreaker(StaticWidget):
    """A slider for the position of the byte to break, with a line about each batch.

    One bit of the broken byte is changed. At the slider's position -1, no byte is broken.

    Parameters
    ----------
    data
        The bytes of a segment (one file of a log).
    broken_position
        The initial position of the broken byte. If it is None, no byte is broken at first.
    """

    def __init__(self, data: bytes, broken_position: int | None = None) -> None:
        self.data = data
        self.batches = list(read_batches(data))
        self.position = widgets.IntSlider(
            value=-1 if broken_position is None else broken_position,
            min=-1,
            max=len(data) - 1,
            description="break byte",
            layout=widgets.Layout(width="600px"),
        )
        self.view = widgets.HTML()
        self.position.observe(lambda _: self._draw(), names="value")
        self._draw()
        super().__init__([self.position, self.view])

    def _draw(self) -> None:
        self.view.value = self.static_html()

    def _format_lines(self) -> list[str]:
        broken_position = self.position.value
        data = bytearray(self.data)
        first_line = "no byte is broken"
        if broken_position >= 0:
            data[broken_position] ^= 0x01
            first_line = (
                f"byte {broken_position} is {self.data[broken_position]:02x}, broken to {data[broken_position]:02x}"
            )
        readable_batches, damage = _read_until_damage(bytes(data))
        lines = [first_line]
        for number, batch in enumerate(self.batches):
            is_readable = number < len(readable_batches)
            result = _describe_result(batch, readable_batches[number]) if is_readable else "cut away"
            last_byte = batch.position + batch.size - 1
            lines.append(f"bytes {batch.position:>4} to {last_byte:>4}, {_format_offsets(batch)}: {result}")
        if broken_position < 0:
            lines.append("every checksum is correct")
        elif damage:
            lines.append(f"recovery stops there: {damage}")
        else:
            lines.append("no checksum covers this byte")
        return lines

    def static_html(self) -> str:
        return format_html("kg-break", self._format_lines())

    def static_text(self) -> str:
        return "\n".join(self._format_lines())


def _read_until_damage(data: bytes) -> tuple[list[Batch], str | None]:
    """Return the batches before the first damaged byte, and a description of the damage (None without damage)."""
    batches: list[Batch] = []
    try:
        for batch in read_batches(data):
            batches.append(batch)
    except InvalidLog as error:
        return batches, error.reason
    return batches, None


def _describe_result(original: Batch, readable: Batch) -> str:
    if _format_offsets(original) != _format_offsets(readable):
        return f"kept, but now read as {_format_offsets(readable)}"
    return "kept"


def _format_offsets(batch: Batch) -> str:
    return f"offsets {batch.base_offset} to {batch.last_offset}"
