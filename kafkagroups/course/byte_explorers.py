"""Lessons 01 and 03: widgets that show the bytes of a record or batch, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import ipywidgets as widgets

from kafkagroups.anatomy.annotate import Annotation, annotate
from kafkagroups.anatomy.batches import list_batch_fields
from kafkagroups.anatomy.spans import Span
from kafkagroups.course.widgets import MONO, Stepper

_BYTES_PER_LINE = 16
_NAME_OF_REST = "rest"
"""The name of the span of the bytes after the last field, which a broker ignores."""


class _Explorer(Stepper):
    """A hexdump with the chosen field in brackets. The type, value and meaning of the field are below the hexdump.

    A span is a range of bytes with one field. The `part` of a span says where the range is: in the "key", in the
    "value" or in the "batch".

    Parameters
    ----------
    annotation
        A list with one span for each field, which also contains the bytes of each part.
    """

    def __init__(self, annotation: Annotation) -> None:
        self.annotation = annotation
        labels = [f"{span.part} {span.start}: {span.field or _NAME_OF_REST} ({span.type})" for span in annotation]
        dropdown = widgets.Dropdown(
            options=[(label, index) for index, label in enumerate(labels)],
            description="field",
            layout=widgets.Layout(width="360px"),
        )
        super().__init__(dropdown, len(annotation), "field")

    def _draw(self) -> None:
        span = self.annotation[self.chooser.value]
        self.view.value = (
            f'<div class="kg-bytes" style="{MONO}">{_mark_bytes(self.annotation.bytes_by_part, span)}</div>'
            f"<p><b>{escape(span.field or _NAME_OF_REST)}</b> = {escape(span.text)}<br>"
            f"{escape(span.type)}: {escape(span.meaning)}</p>"
        )

    def static_html(self) -> str:
        return self.annotation._repr_html_()

    def static_text(self) -> str:
        return str(self.annotation)


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


def _mark_bytes(bytes_by_part: Mapping[str, bytes], chosen_span: Span) -> str:
    """Return a hexdump as HTML. The bytes of the chosen span are in brackets and in bold.

    `bytes_by_part` contains the bytes of the "key" and the "value", or of the "batch".
    """
    lines = []
    for part, data in bytes_by_part.items():
        lines.append(f"{part}\n")
        for line_start in range(0, len(data), _BYTES_PER_LINE):
            line_end = line_start + _BYTES_PER_LINE
            cells = []
            for position in range(line_start, min(line_end, len(data))):
                is_chosen = chosen_span.part == part and chosen_span.start <= position < chosen_span.end
                # If the span continues on the next line, each line has its own brackets.
                opens_bracket = is_chosen and position in (chosen_span.start, line_start)
                closes_bracket = is_chosen and position in (chosen_span.end - 1, line_end - 1)
                byte = f"<b>{data[position]:02x}</b>" if is_chosen else f"{data[position]:02x}"
                cells.append(("[" if opens_bracket else " ") + byte + ("]" if closes_bracket else " "))
            lines.append(f"{line_start:>5} {''.join(cells)}\n")
    return "".join(lines)
