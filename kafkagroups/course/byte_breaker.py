"""Lesson 03: a widget that changes one byte of a segment, and shows what a broker's recovery does.

A segment is one file of a log. After a crash, a broker recovers the newest segment: the broker checks the checksum of
each batch, and removes the first damaged batch and everything after this batch.
"""

from __future__ import annotations

import ipywidgets as widgets

from kafkagroups.course.widgets import StaticWidget, format_html
from kafkagroups.errors import InvalidLog
from kafkagroups.log.batch import Batch
from kafkagroups.log.batches import read_batches


class ByteBreaker(StaticWidget):
    """A slider for the position of the byte to break, and a line that says what recovery does with each batch.

    The widget changes the lowest bit of this byte. If the slider is at -1, no byte is broken.

    Parameters
    ----------
    data
        The bytes of a segment.
    broken_position
        The initial value of the slider. None means -1.
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
            old_byte = self.data[broken_position]
            new_byte = data[broken_position]
            first_line = f"byte {broken_position} is {old_byte:02x}, broken to {new_byte:02x}"
        readable_batches, damage = _read_until_damage(bytes(data))
        lines = [first_line]
        for index, batch in enumerate(self.batches):
            is_readable = index < len(readable_batches)
            result = _describe_kept(batch, readable_batches[index]) if is_readable else "cut away"
            last_byte = batch.position + batch.size - 1
            lines.append(f"bytes {batch.position:>4} to {last_byte:>4}, {_format_offsets(batch)}: {result}")
        if broken_position < 0:
            lines.append("every checksum is correct")
        elif damage:
            lines.append(f"first damaged batch: {damage}")
        else:
            lines.append("no checksum covers this byte")
        return lines

    def static_html(self) -> str:
        return format_html("kg-break", self._format_lines())

    def static_text(self) -> str:
        return "\n".join(self._format_lines())


def _read_until_damage(data: bytes) -> tuple[list[Batch], str | None]:
    """Return the batches before the first damaged batch, and what is damaged. None means that nothing is damaged."""
    batches: list[Batch] = []
    try:
        for batch in read_batches(data):
            batches.append(batch)
    except InvalidLog as error:
        return batches, error.reason
    return batches, None


def _describe_kept(original: Batch, broken: Batch) -> str:
    """Return the text for a batch that recovery keeps. A broken byte can change the offsets of the batch."""
    if _format_offsets(original) != _format_offsets(broken):
        return f"kept, but now read as {_format_offsets(broken)}"
    return "kept"


def _format_offsets(batch: Batch) -> str:
    return f"offsets {batch.base_offset} to {batch.last_offset}"
