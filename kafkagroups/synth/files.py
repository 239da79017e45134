"""The segments of a partition: batches are copied from templates and compressed.

An event (events.py) describes one batch. The width of a batch is its number of offset records. It is 1 for group
records, and 0 for a marker. A template (templates.py) is an encoded batch of one type and width, with placeholders for
the values that differ between batches.

A column contains the values for one placeholder, one value for each batch: for example all base offsets. Some columns
have several slots, because a batch contains several values: the n-th offset that a batch commits is in slot n of the
column "offset".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from crc32c import crc32c

from kafkagroups.log.batch_frames import LENGTH_POSITION, LOG_OVERHEAD
from kafkagroups.log.compression import CompressionType, compress
from kafkagroups.log.outputs import name_file
from kafkagroups.log.record_batch import ATTRIBUTES_POSITION, CRC_FROM, CRC_POSITION, HEADER_SIZE
from kafkagroups.log.segment_file import segment_name
from kafkagroups.synth.events import count_batch_records
from kafkagroups.synth.names import TOPICS, Array, format_digits
from kafkagroups.synth.requests import COMMIT_MARKER, TOMBSTONES
from kafkagroups.synth.settings import TOPIC_PARTITIONS, Settings
from kafkagroups.synth.templates import Template, build_template

FIRST_TIMESTAMP_MS = 1_700_000_000_000
"""The timestamp (ms) of the first request."""
_PART_BYTES = 64 * 1024 * 1024
"""The batches are built in memory in parts of about this size."""
_WIDTH_LIMIT = 64
"""All widths are below this limit. The id of a template is `batch_type * _WIDTH_LIMIT + width`."""
_TEMPLATE_ID_LIMIT = 16 * _WIDTH_LIMIT
"""All template ids are below this limit, because all batch types are below 16."""
_TOPIC_DIGITS = format_digits(np.arange(TOPICS), 4)
"""The digits in the name of each topic."""


def write_partition(
    folder: Path, settings: Settings, events: Array, group_digits: Array, report: Callable[[int], None]
) -> dict[str, int]:
    """Write the segments of one partition. Return the numbers of segments, batches, records and bytes.

    `events` describes the batches of the partition. `group_digits` contains the digits in each group's name. The
    batches are built and written in parts. After each part, `report` is called with the part's number of records.
    """
    folder.mkdir()
    counts = count_batch_records(settings, events)
    base_offsets = np.cumsum(counts) - counts
    sizes = _calculate_sizes(settings, events)
    written = {"segments": 0, "batches": len(events), "records": int(counts.sum()), "bytes": 0}
    segment_size = 0
    file = None
    try:
        for part in _split_parts(sizes):
            data, ends = _build_batches(settings, events[part], base_offsets[part], sizes[part], group_digits)
            first = 0  # The index of the part's first batch that is not written yet.
            while first < len(ends):
                start = int(ends[first - 1]) if first else 0
                free_bytes = settings.segment_bytes - segment_size
                # The batches from index `first` up to, not including, `stop` fit into the segment.
                stop = int(np.searchsorted(ends, start + free_bytes, "right"))
                is_full = segment_size > 0 and stop <= first
                if file is None or is_full:
                    if file:
                        file.close()
                    # The file stays open until the segment is full, so there is no `with`.
                    file = open(folder / segment_name(int(base_offsets[part][first])), "wb")  # noqa: SIM115
                    written["segments"] += 1
                    segment_size = 0
                    continue
                # A segment contains at least one batch, even if this batch is larger than a segment.
                stop = max(stop, first + 1)
                end = int(ends[stop - 1])
                file.write(data[start:end])
                segment_size += end - start
                first = stop
            written["bytes"] += len(data)
            report(int(counts[part].sum()))
    except OSError as error:
        raise name_file(error, file.name if file else folder) from None
    finally:
        if file:
            file.close()
    return written


def _split_parts(sizes: Array) -> Iterator[slice]:
    """Divide the batches into parts of about _PART_BYTES bytes. `sizes` contains the size of each batch in bytes."""
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        stop = int(np.searchsorted(ends, ends[first] + _PART_BYTES, "right"))
        yield slice(first, stop)
        first = stop


def _calculate_template_ids(events: Array) -> Array:
    """For each batch, return the id of its template (see _WIDTH_LIMIT)."""
    template_ids: Array = events["batch_type"].astype(np.int16) * _WIDTH_LIMIT + events["width"]
    return template_ids


def _calculate_sizes(settings: Settings, events: Array) -> Array:
    """For each batch, return its size in bytes before compression."""
    template_ids = _calculate_template_ids(events)
    size_of_template = np.zeros(_TEMPLATE_ID_LIMIT, np.int64)
    for template_id in np.unique(template_ids).tolist():
        batch_type, width = divmod(template_id, _WIDTH_LIMIT)
        size_of_template[template_id] = len(build_template(batch_type, width, settings).data)
    return size_of_template[template_ids]


def _build_batches(
    settings: Settings, events: Array, base_offsets: Array, sizes: Array, group_digits: Array
) -> tuple[memoryview, Array]:
    """Return the bytes of all batches in log order, and the position in these bytes at which each batch ends.

    `sizes` contains the size of each batch in bytes before compression.
    """
    ends = np.cumsum(sizes)
    starts = ends - sizes
    out = np.empty(ends[-1], "u1")
    template_ids = _calculate_template_ids(events)
    for template_id in np.unique(template_ids).tolist():
        same_template = np.flatnonzero(template_ids == template_id)
        batch_type, width = divmod(template_id, _WIDTH_LIMIT)
        template = build_template(batch_type, width, settings)
        columns = _build_columns(settings, events[same_template], base_offsets[same_template], group_digits, width)
        copies = _fill_template(template, columns)
        copy_type = f"V{len(template.data)}"  # numpy then treats the bytes of a copy as one value.
        _view_unaligned(out, copy_type)[starts[same_template]] = copies.view(copy_type)
    codec = CompressionType[settings.codec.upper()]
    if codec:
        is_marker = events["batch_type"] >= COMMIT_MARKER
        out, ends = _compress_batches(codec, out.data, starts, ends, is_marker)
        starts = np.concatenate([[0], ends[:-1]])
    data = out.data
    bounds = zip(starts.tolist(), ends.tolist(), strict=True)
    _view_unaligned(out, ">u4")[starts + CRC_POSITION] = [crc32c(data[start + CRC_FROM : end]) for start, end in bounds]
    return data, ends


def _view_unaligned(out: Array, dtype: str) -> Array:
    """Return a view of the bytes `out`: element n is the value of type `dtype` that begins at byte n."""
    return np.ndarray((len(out) - np.dtype(dtype).itemsize + 1,), dtype, out, strides=(1,))


def _build_columns(
    settings: Settings, events: Array, base_offsets: Array, group_digits: Array, width: int
) -> dict[str, list[Array]]:
    """Return the values of each column for these events, which all have the same type and width.

    A column is a list with one array for each slot. Each array contains one value for each event.
    """
    group = events["group"]
    time = events["time"]
    columns = {
        "base_offset": [base_offsets],
        "time": [FIRST_TIMESTAMP_MS + time],
        "producer": [events["producer"]],
        "generation": [events["generation"]],
        "group": [group_digits[group]],
    }
    # Group n consumes topic n and the following topics.
    if events["batch_type"][0] <= TOMBSTONES:
        keys = [(events["first_key"] + slot) % settings.keys for slot in range(width)]
        columns["topic"] = [_TOPIC_DIGITS[(group + key // TOPIC_PARTITIONS) % TOPICS] for key in keys]
        columns["partition"] = [key % TOPIC_PARTITIONS for key in keys]
        columns["offset"] = [10 * time + slot % 10 for slot in range(width)]  # Later commits have larger offsets.
    else:
        columns["topic"] = [_TOPIC_DIGITS[(group + slot) % TOPICS] for slot in range(settings.topics_of_group)]
    return columns


def _fill_template(template: Template, columns: dict[str, list[Array]]) -> Array:
    """Return one copy of the template for each batch, with the values of this batch from the columns."""
    batch_count = len(columns["time"][0])
    size = len(template.data)
    copies = np.tile(template.data, batch_count)
    for column, slot, position, dtype in template.variables:
        # This array contains the value at `position` of each copy.
        placeholders = np.ndarray(batch_count, dtype, buffer=copies, offset=position, strides=(size,))
        placeholders[:] = columns[column][slot]
    return copies


def _compress_batches(
    codec: CompressionType, data: memoryview, starts: Array, ends: Array, is_marker: Array
) -> tuple[Array, Array]:
    """Compress the records of each batch. Return the bytes of all batches, and the position at which each batch ends.

    `is_marker` has a bool for each batch. As in Kafka, markers are not compressed.
    """
    out = bytearray()
    new_ends = []
    for start, end, is_uncompressed in zip(starts.tolist(), ends.tolist(), is_marker.tolist(), strict=True):
        header = bytearray(data[start : start + HEADER_SIZE])
        body = bytes(data[start + HEADER_SIZE : end])
        if not is_uncompressed:
            body = compress(codec, body)
            # The field `length` counts the bytes of the batch after the fields `offset` and `length` (LOG_OVERHEAD).
            header[LENGTH_POSITION : LENGTH_POSITION + 4] = (HEADER_SIZE - LOG_OVERHEAD + len(body)).to_bytes(4, "big")
            header[ATTRIBUTES_POSITION + 1] |= codec  # The attributes are two bytes. The codec is in the second byte.
        out += header + body
        new_ends.append(len(out))
    return np.frombuffer(out, "u1"), np.array(new_ends)
