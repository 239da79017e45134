"""Things to look at: every byte of a record or a batch, a byte that breaks, groups on their partitions.

Each is an ipywidgets box: live where a kernel runs, with buttons, sliders and the keyboard. Each also says the same as
deterministic text/html and text/plain, so that a page without a kernel teaches too and a test can compare it. Meaning
never rests on colour: brackets and words carry it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from itertools import zip_longest
from typing import Any

import ipywidgets as widgets

from kafkagroups.anatomy.annotate import Annotation, annotate
from kafkagroups.anatomy.batches import annotate_batch
from kafkagroups.anatomy.spans import Span
from kafkagroups.errors import InvalidLog
from kafkagroups.log.batch import Batch
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.segments import read_batches

MONO = "font-family:monospace;white-space:pre;line-height:1.5"


class Shown(widgets.VBox):
    """A box with a static form: `static_html` and `static_text` are what a page without a kernel shows."""

    def static_html(self) -> str:
        raise TypeError(f"{type(self).__name__} has no static form")

    def static_text(self) -> str:
        raise TypeError(f"{type(self).__name__} has no static form")

    def _repr_mimebundle_(self, **arguments: Any) -> dict[str, Any]:
        made = super()._repr_mimebundle_(**arguments)
        bundle: dict[str, Any] = dict(made[0] if isinstance(made, tuple) else made)
        bundle["text/html"], bundle["text/plain"] = self.static_html(), self.static_text()
        return bundle


class Stepper(Shown):
    """One thing after another: previous, next, or any of them by the `chooser`, whose values are their numbers."""

    def __init__(self, chooser: Any, many: int, noun: str) -> None:
        self.chooser, self.many = chooser, many
        self.previous = widgets.Button(description="previous", tooltip=f"the {noun} before this one")
        self.next = widgets.Button(description="next", tooltip=f"the {noun} after this one")
        self.view = widgets.HTML()
        self.previous.on_click(lambda _: self._step(-1))
        self.next.on_click(lambda _: self._step(1))
        chooser.observe(lambda _: self._draw(), names="value")
        self._draw()
        super().__init__([widgets.HBox([self.previous, self.next, chooser]), self.view])

    def _step(self, by: int) -> None:
        self.chooser.value = (self.chooser.value + by) % self.many

    def _draw(self) -> None:
        raise TypeError(f"{type(self).__name__} draws nothing")


class _Explorer(Stepper):
    """Fields on the left, their bytes in brackets on the right; previous, next, or any field by name."""

    def __init__(self, spans: Annotation) -> None:
        self.spans = spans
        names = [f"{span.part} {span.start}: {span.field or 'rest'} ({span.type})" for span in spans]
        self.field = widgets.Dropdown(
            options=[(name, index) for index, name in enumerate(names)],
            description="field",
            layout=widgets.Layout(width="360px"),
        )
        super().__init__(self.field, len(spans), "field")

    def _draw(self) -> None:
        span = self.spans[self.field.value]
        self.view.value = (
            f'<div class="kg-bytes" style="{MONO}">{_bracketed(self.spans.bytes_of, span)}</div>'
            f"<p><b>{escape(span.field or 'rest')}</b> = {escape(span.text)}<br>"
            f"{escape(span.type)}: {escape(span.meaning)}</p>"
        )

    def static_html(self) -> str:
        return self.spans._repr_html_()

    def static_text(self) -> str:
        return str(self.spans)


class RecordExplorer(_Explorer):
    """Every field of one record: key and value as bytes (`kg.annotate`)."""

    def __init__(self, key: bytes, value: bytes | None) -> None:
        super().__init__(annotate(key, value))


class BatchExplorer(_Explorer):
    """Every field of the batch at a byte position of a segment's bytes: header and records."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        spans = annotate_batch(data, position)
        super().__init__(Annotation(spans, {"batch": data[position : position + spans[-1].end]}))


def _bracketed(bytes_of: Mapping[str, bytes], chosen: Span) -> str:
    """Hex, 16 bytes a line, with the chosen bytes in brackets and bold."""
    out = []
    for part, data in bytes_of.items():
        out.append(f"{part}\n")
        for start in range(0, len(data), 16):
            cells = []
            for position in range(start, min(start + 16, len(data))):
                inside = chosen.part == part and chosen.start <= position < chosen.end
                first = inside and position in (chosen.start, start)
                last = inside and position in (chosen.end - 1, start + 15)
                byte = f"<b>{data[position]:02x}</b>" if inside else f"{data[position]:02x}"
                cells.append(("[" if first else " ") + byte + ("]" if last else " "))
            out.append(f"{start:>5} {''.join(cells)}\n")
    return "".join(out)


class ByteBreaker(Shown):
    """A slider that breaks one byte of a segment: what the checksum says, and what recovery would keep."""

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
        if broken >= 0:
            data[broken] ^= 0x01
        found: list[Batch] = []
        reason = None
        try:
            for batch in read_batches(bytes(data)):
                found.append(batch)
        except InvalidLog as error:
            reason = error.reason
        lines = ["no byte is broken"]
        if broken >= 0:
            lines = [f"byte {broken} is {self.data[broken]:02x}, broken to {data[broken]:02x}"]
        for number, batch in enumerate(self.batches):
            line = f"bytes {batch.position:>4} to {batch.position + batch.size - 1:>4}, {_offsets(batch)}: "
            if number >= len(found):
                line += "cut away"
            elif (now := _offsets(found[number])) != _offsets(batch):
                line += f"kept, but a reader now takes it for {now}"
            else:
                line += "kept"
            lines.append(line)
        if broken < 0:
            lines.append("every checksum is right")
        elif reason:
            lines.append(f"recovery stops there: {reason}")
        else:
            lines.append("no checksum guards this byte")
        return lines

    def static_html(self) -> str:
        return f'<div class="kg-break" style="{MONO}">{escape(chr(10).join(self._lines()))}</div>'

    def static_text(self) -> str:
        return "\n".join(self._lines())


def _offsets(batch: Batch) -> str:
    return f"offsets {batch.base_offset} to {batch.last_offset}"


class PartitionHistogram(Shown):
    """How many groups each partition holds. Change the number of partitions, or type a group to see where it goes."""

    def __init__(self, groups: Iterable[str], partitions: int = 50) -> None:
        self.groups = list(groups)
        self.partitions = widgets.IntSlider(value=partitions, min=1, max=100, description="partitions")
        self.group = widgets.Text(value="", description="group", placeholder="type a group id")
        self.view = widgets.HTML()
        for control in (self.partitions, self.group):
            control.observe(lambda _: self._draw(), names="value")
        self._draw()
        super().__init__([widgets.HBox([self.partitions, self.group]), self.view])

    def _draw(self) -> None:
        self.view.value = self.static_html()

    def _counts(self) -> dict[int, int]:
        counts = dict.fromkeys(range(self.partitions.value), 0)
        for group in self.groups:
            counts[partition_for(group, self.partitions.value)] += 1
        return counts

    def _lines(self) -> list[str]:
        counts = self._counts()
        home = partition_for(self.group.value, self.partitions.value) if self.group.value else None
        most = max(counts.values())
        scale = max(1, -(-most // 10))
        empty = sum(not count for count in counts.values())
        first = (
            f"{len(self.groups)} groups on {len(counts)} partitions: at most {most} on one, {empty} partitions empty"
        )
        if home is not None:
            first += f"; {self.group.value} lives on {home}"
        bars = []
        for partition, count in counts.items():
            mark = " ◀" if partition == home else ""
            if count or mark:
                bars.append(f"{partition:>3} {'█' * -(-count // scale):<10} {count}{mark}")
        rows = -(-len(bars) // 3)
        columns = [bars[start : start + rows] for start in range(0, len(bars), rows)]
        return [first] + ["".join(f"{bar:<26}" for bar in row).rstrip() for row in zip_longest(*columns, fillvalue="")]

    def static_html(self) -> str:
        return f'<div class="kg-histogram" style="{MONO}">{escape(chr(10).join(self._lines()))}</div>'

    def static_text(self) -> str:
        return "\n".join(self._lines())
