"""Lesson 03: the fields of a batch as blocks with their bytes."""

from __future__ import annotations

from collections.abc import Mapping

from kafkagroups.course.figures.byte_ribbon import ByteChange, ByteRibbon, Reading
from kafkagroups.log.batches import list_batch_fields, parse_valid_batch
from kafkagroups.log.segment_file import find_frame
from kafkagroups.records.spans import Span


class BatchRibbon(ByteRibbon):
    """The header and the records of the batch that begins at `position` of a segment's bytes."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        spans = list_batch_fields(data, position)
        end = position + spans[-1].end
        self._before = data[:position]
        self._after = data[end:]
        super().__init__("One batch, byte by byte", {"batch": data[position:end]})

    def read_spans(self, bytes_by_part: Mapping[str, bytes]) -> list[Span]:
        segment = self._before + bytes_by_part["batch"] + self._after
        position = len(self._before)
        frame = find_frame(segment, position)
        parse_valid_batch(frame, segment[position : frame.end])
        return list_batch_fields(segment, position)

    def choose_changes(self) -> list[ByteChange]:
        changes = []
        batch = self.bytes_by_part["batch"]
        for span in self.spans:
            if span.field in ("baseOffset", "batchLength", "partitionLeaderEpoch", "magic", "crc"):
                changes.append(ByteChange("batch", span.end - 1, batch[span.end - 1] ^ 1))
        values = [span for span in self.spans if span.field.endswith("value") and span.type == "bytes"]
        if values:
            # The tenth byte of a commit is the last byte of its offset.
            position = min(values[0].start + 9, values[0].end - 1)
            changes.append(ByteChange("batch", position, batch[position] ^ 1))
        return changes

    def explain_change(self, reading: Reading, *, has_other_values: bool) -> str:
        if reading.error is not None:
            return "The reader notices it and refuses the batch."
        if not has_other_values:
            return "The reader still reads the same values."
        return "The checksum does not cover this byte, so the change goes unnoticed."
