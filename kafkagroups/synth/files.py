"""The segments of a partition: batches are copied from templates and compressed.

A template (templates.py) is an encoded batch of one type and width, with placeholders for the values that differ
between batches, which are events (request_batches.py). A column has the values for one placeholder, one for each batch:
for example all base offsets. Some columns have several slots, because a batch contains several values: the n-th offset
that a batch commits is in slot n of the column "offset".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from crc32c import crc32c

from kafkagroups.log.batch import ATTRIBUTES_POSITION, CRC_FROM, CRC_POSITION, HEADER_SIZE
from kafkagroups.log.batch_frames import LENGTH_POSITION, LOG_OVERHEAD
from kafkagroups.log.compression import CompressionType, compress
from kafkagroups.log.outputs import name_file
from kafkagroups.log.segment_file import segment_name
from kafkagroups.synth.group_names import TOPICS, Array, format_digits
from kafkagroups.synth.request_batches import COMMIT_MARKER, TOMBSTONES, count_batch_records
from kafkagroups.synth.templates import Template, build_template
from kafkagroups.synth.topic_settings import TOPIC_PARTITIONS, Settings

FIRST_TIMESTAMP_MS = 1_700_000_000_000
"""The timestamp (ms) of the first request."""
_PART_BYTES = 64 * 1024 * 1024
"""The batches are built in memory in parts of about this size."""
_WIDTH_LIMIT = 64
"""All widths are below this limit. The id of a template is `batch_type * _WIDTH_LIMIT + width`."""
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
    events["base_offset"] = np.cumsum(counts) - counts
    template_ids = events["batch_type"].astype(np.int16) * _WIDTH_LIMIT + events["width"]
    ids, numbers = np.unique(template_ids, return_inverse=True)
    templates = [build_template(*divmod(template_id, _WIDTH_LIMIT), settings) for template_id in ids.tolist()]
    sizes = np.array([len(template.data) for template in templates], np.int64)[numbers]
    written = {"segments": 0, "batches": len(events), "records": int(counts.sum()), "bytes": 0}
    free_bytes = 0
    place = folder
    with ExitStack() as segments:
        try:
            for part in _split_parts(sizes):
                bodies = _build_batches(settings, events[part], templates, numbers[part], group_digits)
                for base_offset, batch in zip(events["base_offset"][part].tolist(), bodies, strict=True):
                    # A segment contains at least one batch, even if this batch is larger than a segment.
                    if not written["segments"] or len(batch) > free_bytes:
                        segments.close()
                        place = folder / segment_name(base_offset)
                        file = segments.enter_context(open(place, "wb"))
                        written["segments"] += 1
                        free_bytes = settings.segment_bytes
                    file.write(batch)
                    free_bytes -= len(batch)
                    written["bytes"] += len(batch)
                report(int(counts[part].sum()))
        except OSError as error:
            raise name_file(error, place) from None
    return written


def _split_parts(sizes: Array) -> Iterator[slice]:
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        stop = int(np.searchsorted(ends, ends[first] + _PART_BYTES, "right"))
        yield slice(first, stop)
        first = stop


def _build_batches(
    settings: Settings, events: Array, templates: Sequence[Template], numbers: Array, group_digits: Array
) -> Iterator[memoryview]:
    """Yield the bytes of each batch, in log order. `numbers` has the index of each batch's template."""
    ends = np.cumsum(np.array([len(template.data) for template in templates])[numbers])
    starts = np.concatenate([[0], ends[:-1]])
    out = np.empty(ends[-1], "u1")
    for number, template in enumerate(templates):
        chosen = np.flatnonzero(numbers == number)
        if not len(chosen):
            continue
        copies = _fill_template(template, _build_columns(settings, events[chosen], group_digits))
        copy_type = f"V{len(template.data)}"  # numpy then treats the bytes of a copy as one value.
        # Element n of this view is the value that begins at byte n.
        places = np.ndarray((len(out) - len(template.data) + 1,), copy_type, out, strides=(1,))
        places[starts[chosen]] = copies.view(copy_type)
    codec = CompressionType[settings.codec.upper()]
    is_marker = events["batch_type"] >= COMMIT_MARKER
    for start, end, is_uncompressed in zip(starts.tolist(), ends.tolist(), is_marker.tolist(), strict=True):
        batch = out.data[start:end]
        if codec and not is_uncompressed:  # As in Kafka, markers are not compressed.
            batch = _compress_batch(codec, batch)
        batch[CRC_POSITION : CRC_POSITION + 4] = crc32c(batch[CRC_FROM:]).to_bytes(4, "big")
        yield batch


def _build_columns(settings: Settings, events: Array, group_digits: Array) -> dict[str, list[Array]]:
    """Return the values of each column for these events, which all have the same type and width.

    A column is a list with one array for each slot. Each array contains one value for each event.
    """
    group = events["group"]
    time = events["time"]
    columns = {
        "base_offset": [events["base_offset"]],
        "time": [FIRST_TIMESTAMP_MS + time],
        "producer": [events["producer"]],
        "generation": [events["generation"]],
        "group": [group_digits[group]],
    }
    # Group n consumes topic n and the following topics.
    if events["batch_type"][0] <= TOMBSTONES:
        width = int(events["width"][0])
        keys = [(events["first_key"] + slot) % settings.keys for slot in range(width)]
        columns["topic"] = [_TOPIC_DIGITS[(group + key // TOPIC_PARTITIONS) % TOPICS] for key in keys]
        columns["partition"] = [key % TOPIC_PARTITIONS for key in keys]
        columns["offset"] = [10 * time + slot % 10 for slot in range(width)]  # Later commits have larger offsets.
    else:
        columns["topic"] = [_TOPIC_DIGITS[(group + slot) % TOPICS] for slot in range(settings.topics_of_group)]
    return columns


def _fill_template(template: Template, columns: dict[str, list[Array]]) -> Array:
    batch_count = len(columns["time"][0])
    size = len(template.data)
    copies = np.tile(template.data, batch_count)
    for column, slot, position, dtype in template.variables:
        # This array contains the value at `position` of each copy.
        placeholders = np.ndarray(batch_count, dtype, buffer=copies, offset=position, strides=(size,))
        placeholders[:] = columns[column][slot]
    return copies


def _compress_batch(codec: CompressionType, batch: memoryview) -> memoryview:
    body = compress(codec, bytes(batch[HEADER_SIZE:]))
    header = bytearray(batch[:HEADER_SIZE])
    # The field `length` counts the bytes of the batch after the fields `offset` and `length` (LOG_OVERHEAD).
    header[LENGTH_POSITION : LENGTH_POSITION + 4] = (HEADER_SIZE - LOG_OVERHEAD + len(body)).to_bytes(4, "big")
    header[ATTRIBUTES_POSITION + 1] |= codec  # The attributes are two bytes. The codec is in the second byte.
    return memoryview(header + body)
