"""Lessons 01 and 03: widgets that show the fields of a record or batch with their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import ipywidgets as widgets

from kafkagroups.anatomy.annotate import Annotation, annotate
from kafkagroups.anatomy.batches import list_batch_fields
from kafkagroups.anatomy.spans import Span
from kafkagroups.course.widgets import MONO, Stepper


class _Explorer(Stepper):
    """A hexdump with the chosen field in brackets. The type, value and meaning of the field are below the hexdump.

    `spans` contains one span for each field: the position of its bytes, its name, type, value and meaning. The `part`
    of a span says in which bytes the position is: "key", "value" or "batch".
    """

    def __init__(self, spans: Annotation) -> None:
        self.spans = spans
        field_names = [f"{span.part} {span.start}: {span.field or 'rest'} ({span.type})" for span in spans]
        self.field = widgets.Dropdown(
            options=[(name, index) for index, name in enumerate(field_names)],
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
    """A widget that steps through the fields of one record.

    Parameters
    ----------
    key, value
        The bytes of the record's key and value. If `value` is None, the record is a tombstone.
    """

    def __init__(self, key: bytes, value: bytes | None) -> None:
        super().__init__(annotate(key, value))


class BatchExplorer(_Explorer):
    """A widget that steps through the fields of one batch: its header and its records.

    Parameters
    ----------
    data
        The bytes of a segment (one file of a log).
    position
        The position in `data` at which the batch begins.
    """

    def __init__(self, data: bytes, position: int = 0) -> None:
        spans = list_batch_fields(data, position)
        super().__init__(Annotation(spans, {"batch": data[position : position + spans[-1].end]}))


def _mark_bytes(bytes_of: Mapping[str, bytes], chosen_span: Span) -> str:
    """Return a hexdump with 16 bytes per line. The bytes of the chosen span are in brackets and in bold.

    `bytes_of` contains the bytes of each part: "key" and "value", or "batch".
    """
    lines = []
    for part, data in bytes_of.items():
        lines.append(f"{part}\n")
        for start in range(0, len(data), 16):
            cells = []
            for position in range(start, min(start + 16, len(data))):
                is_chosen = chosen_span.part == part and chosen_span.start <= position < chosen_span.end
                is_first = is_chosen and position in (chosen_span.start, start)
                is_last = is_chosen and position in (chosen_span.end - 1, start + 15)
                byte = f"<b>{data[position]:02x}</b>" if is_chosen else f"{data[position]:02x}"
                cells.append(("[" if is_first else " ") + byte + ("]" if is_last else " "))
            lines.append(f"{start:>5} {''.join(cells)}\n")
    return "".join(lines)
