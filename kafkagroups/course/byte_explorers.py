"""Lessons 01 and 03: widgets that show every byte of a record or batch with its field."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import ipywidgets as widgets

from kafkagroups.anatomy.annotate import Annotation, annotate
from kafkagroups.anatomy.batches import list_batch_fields
from kafkagroups.anatomy.spans import Span
from kafkagroups.course.widgets import MONO, Stepper


class _Explorer(Stepper):
    """The bytes with the chosen field in brackets, and the field's type, value and meaning below."""

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
            f'<div class="kg-bytes" style="{MONO}">{_mark_bytes(self.spans.bytes_of, span)}</div>'
            f"<p><b>{escape(span.field or 'rest')}</b> = {escape(span.text)}<br>"
            f"{escape(span.type)}: {escape(span.meaning)}</p>"
        )

    def static_html(self) -> str:
        return self.spans._repr_html_()

    def static_text(self) -> str:
        return str(self.spans)


class RecordExplorer(_Explorer):
    """Steps through every field of one record.

    Parameters
    ----------
    key, value
        The record's bytes. The value None is a tombstone.
    """

    def __init__(self, key: bytes, value: bytes | None) -> None:
        super().__init__(annotate(key, value))


class BatchExplorer(_Explorer):
    """Steps through every field of one batch, its header and its records.

    Parameters
    ----------
    data
        The bytes of a segment.
    position
        The byte at which the batch begins.
    """

    def __init__(self, data: bytes, position: int = 0) -> None:
        spans = list_batch_fields(data, position)
        super().__init__(Annotation(spans, {"batch": data[position : position + spans[-1].end]}))


def _mark_bytes(bytes_of: Mapping[str, bytes], chosen: Span) -> str:
    """Return a hexdump, 16 bytes per line, with the chosen bytes in brackets and in bold."""
    lines = []
    for part, data in bytes_of.items():
        lines.append(f"{part}\n")
        for start in range(0, len(data), 16):
            cells = []
            for position in range(start, min(start + 16, len(data))):
                is_chosen = chosen.part == part and chosen.start <= position < chosen.end
                is_first = is_chosen and position in (chosen.start, start)
                is_last = is_chosen and position in (chosen.end - 1, start + 15)
                byte = f"<b>{data[position]:02x}</b>" if is_chosen else f"{data[position]:02x}"
                cells.append(("[" if is_first else " ") + byte + ("]" if is_last else " "))
            lines.append(f"{start:>5} {''.join(cells)}\n")
    return "".join(lines)
