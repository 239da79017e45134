"""Lesson 01: the fields of a record as blocks with their bytes."""

from __future__ import annotations

from collections.abc import Mapping

from kafkagroups.course.figures.byte_blocks import find_name
from kafkagroups.course.figures.byte_ribbon import ByteChange, ByteRibbon, Reading
from kafkagroups.records.spans import Span, annotate


class RecordRibbon(ByteRibbon):
    """The key and the value of a record. Without a value, it is a tombstone."""

    def __init__(self, key: bytes, value: bytes | None) -> None:
        parts = {"key": key} if value is None else {"key": key, "value": value}
        super().__init__("One record, byte by byte", parts)

    def read_spans(self, bytes_by_part: Mapping[str, bytes]) -> list[Span]:
        return list(annotate(bytes_by_part["key"], bytes_by_part.get("value")))

    def choose_changes(self) -> list[ByteChange]:
        changes = []
        for span in self.spans:
            name = find_name(span)
            last = self.bytes_by_part[span.part][span.end - 1]
            if name in ("type", "partition", "version", "offset", "length of metadata"):
                changes.append(ByteChange(span.part, span.end - 1, (last + 1) % 256))
            if name == "version" and last:
                changes.append(ByteChange(span.part, span.end - 1, last - 1))
        return changes

    def explain_change(self, reading: Reading, *, has_other_values: bool) -> str:
        if reading.error is not None:
            return "The reader refuses the record. A broker that finds it stops its load."
        if not has_other_values:
            return "The reader still reads the same values."
        return "A record has no checksum of its own, so the reader believes the new values."
