"""The segments of a partition: batches are copied from templates and compressed.

A template (templates.py) is an encoded batch of one type and width (its number of offset records). A column contains
one value for each batch, for example all base offsets. If a template needs several values of a column, each value has a
slot: the n-th committed offset of a batch is slot n of the column "offset". The batches come from events.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from crc32c import crc32c

from kafkagroups.log.compression import CompressionType, compress
from kafkagroups.log.frames import LOG_OVERHEAD, SIZE_AT
from kafkagroups.log.record_batch import ATTRIBUTES_AT, CRC_AT, CRC_FROM, HEADER_SIZE
from kafkagroups.log.segment_file import segment_name
from kafkagroups.synth.events import count_records
from kafkagroups.synth.names import TOPICS, Array, format_digits
from kafkagroups.synth.requests import COMMIT_MARKER, TOMBSTONES
from kafkagroups.synth.settings import TOPIC_PARTITIONS, Settings
from kafkagroups.synth.templates import Template, build_template

FIRST_TIMESTAMP_MS = 1_700_000_000_000
"""The timestamp (ms) of the first request."""
_PART_BYTES = 64 * 1024 * 1024
"""About this many bytes of batches are built in memory at a time."""
_WIDTH_LIMIT = 64
"""All widths are below this limit. Batches with the same template have the id `batch_type * _WIDTH_LIMIT + width`."""
_TOPIC_DIGITS = format_digits(np.arange(TOPICS), 4)


def write_partition(
    folder: Path, settings: Settings, events: Array, group_digits: Array, report: Callable[[int], None]
) -> dict[str, int]:
    """Write the segments of one partition. Return the numbers of segments, batches, records and bytes.

    `events` are the partition's batches (EVENTs of events.py). `group_digits` contains the digits in each group's name.
    The batches are built in parts; `report` is called with the number of records of each part.
    """
    folder.mkdir()
    counts = count_records(settings, events)
    base_offsets = np.cumsum(counts) - counts
    sizes = _calculate_sizes(settings, events)
    written = {"segments": 0, "batches": len(events), "records": int(counts.sum()), "bytes": 0}
    segment_size = 0
    file = None
    try:
        for part in _split_parts(sizes):
            data, ends = _build_batches(settings, events[part], base_offsets[part], sizes[part], group_digits)
            first = 0
            while first < len(ends):
                start = int(ends[first - 1]) if first else 0
                # The batches from `first` up to, not including, `stop` fit into the segment.
                stop = int(np.searchsorted(ends, start + settings.segment_bytes - segment_size, "right"))
                if file is None or (stop <= first and segment_size):
                    if file:
                        file.close()
                    file = open(folder / segment_name(int(base_offsets[part][first])), "wb")  # noqa: SIM115  # The file stays open until the roll.
                    written["segments"] += 1
                    segment_size = 0
                    continue
                stop = max(stop, first + 1)  # A segment contains at least one batch, even a larger one.
                end = int(ends[stop - 1])
                file.write(data[start:end])
                segment_size += end - start
                first = stop
            written["bytes"] += len(data)
            report(int(counts[part].sum()))
    finally:
        if file:
            file.close()
    return written


def _split_parts(sizes: Array) -> Iterator[slice]:
    """Yield slices of the list of batches, whose sizes are `sizes`. Each slice has about _PART_BYTES bytes."""
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
    size_of_template = np.zeros(16 * _WIDTH_LIMIT, np.int64)
    for template_id in np.unique(template_ids).tolist():
        batch_type, width = divmod(template_id, _WIDTH_LIMIT)
        size_of_template[template_id] = len(build_template(batch_type, width, settings).data)
    return size_of_template[template_ids]


def _build_batches(
    settings: Settings, events: Array, base_offsets: Array, sizes: Array, group_digits: Array
) -> tuple[memoryview, Array]:
    """Return the bytes of the batches one after the other, and the position where each batch ends.

    `sizes` are the sizes of the batches before compression.
    """
    ends = np.cumsum(sizes)
    starts = ends - sizes
    out = np.empty(ends[-1], "u1")
    template_ids = _calculate_template_ids(events)
    for template_id in np.unique(template_ids).tolist():
        chosen = np.flatnonzero(template_ids == template_id)
        batch_type, width = divmod(template_id, _WIDTH_LIMIT)
        template = build_template(batch_type, width, settings)
        row_type = f"V{len(template.data)}"
        columns = _build_columns(settings, events[chosen], base_offsets[chosen], group_digits, width)
        rows = _fill_template(template, columns)
        _view_unaligned(out, row_type)[starts[chosen]] = rows.view(row_type)
    codec = CompressionType[settings.codec.upper()]
    if codec:
        are_data = events["batch_type"] < COMMIT_MARKER
        out, ends = _compress_batches(codec, out.data, starts, ends, are_data)
        starts = np.concatenate([[0], ends[:-1]])
    data = out.data
    bounds = zip(starts.tolist(), ends.tolist(), strict=True)
    _view_unaligned(out, ">u4")[starts + CRC_AT] = [crc32c(data[start + CRC_FROM : end]) for start, end in bounds]
    return data, ends


def _view_unaligned(out: Array, dtype: str) -> Array:
    """Return a view of the bytes `out`: its element n is the value of type `dtype` that begins at byte n."""
    return np.ndarray((len(out) - np.dtype(dtype).itemsize + 1,), dtype, out, strides=(1,))


def _build_columns(
    settings: Settings, events: Array, base_offsets: Array, group_digits: Array, width: int
) -> dict[str, list[Array]]:
    """Return the values to fill into the template of these events, which all have the same type and width.

    For each column, the result has a list with one array per slot. Each array contains one value for each event.
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
    if events["batch_type"][0] <= TOMBSTONES:
        keys = [(events["first_key"] + slot) % settings.keys for slot in range(width)]
        columns["topic"] = [_TOPIC_DIGITS[(group + key // TOPIC_PARTITIONS) % TOPICS] for key in keys]
        columns["partition"] = [key % TOPIC_PARTITIONS for key in keys]
        columns["offset"] = [10 * time + slot % 10 for slot in range(width)]  # Later commits have larger offsets.
    else:
        topic_count = -(-settings.keys // TOPIC_PARTITIONS)
        columns["topic"] = [_TOPIC_DIGITS[(group + slot) % TOPICS] for slot in range(topic_count)]
    return columns


def _fill_template(template: Template, columns: dict[str, list[Array]]) -> Array:
    """Return one copy of the template for each batch, with the values of this batch from the columns filled in."""
    row_count = len(columns["time"][0])
    size = len(template.data)
    copies = np.tile(template.data, row_count)
    for column, slot, position, dtype in template.variables:
        np.ndarray(row_count, dtype, copies, position, (size,))[:] = columns[column][slot]
    return copies


def _compress_batches(
    codec: CompressionType, data: memoryview, starts: Array, ends: Array, are_data: Array
) -> tuple[Array, Array]:
    """Compress the records of each batch. Return the bytes of the batches, and the position where each batch ends.

    `are_data` says which batches are not markers. Markers stay uncompressed.
    """
    out = bytearray()
    new_ends = []
    for start, end, is_data in zip(starts.tolist(), ends.tolist(), are_data.tolist(), strict=True):
        header = bytearray(data[start : start + HEADER_SIZE])
        body = bytes(data[start + HEADER_SIZE : end])
        if is_data:
            body = compress(codec, body)
            header[SIZE_AT : SIZE_AT + 4] = (HEADER_SIZE - LOG_OVERHEAD + len(body)).to_bytes(4, "big")
            header[ATTRIBUTES_AT + 1] |= codec
        out += header + body
        new_ends.append(len(out))
    return np.frombuffer(out, "u1"), np.array(new_ends)
