"""The segments of a partition: batches are copied from templates, compressed and written."""

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
from kafkagroups.synth.requests import COMMITTED, TOMBSTONES
from kafkagroups.synth.settings import TOPIC_PARTITIONS, Settings
from kafkagroups.synth.templates import Template, build_template

FIRST_TIME = 1_700_000_000_000
_PART_BYTES = 64 * 1024 * 1024
"""How many bytes of batches are in memory."""
_KINDS = 64
"""The number of a kind of batch is `what * _KINDS + width`."""
_TOPIC_DIGITS = format_digits(np.arange(TOPICS), 4)


def write_partition(
    folder: Path, settings: Settings, events: Array, names: Array, report: Callable[[int], None]
) -> dict[str, int]:
    """Write the segments of one partition, and return their sizes.

    `names` contains the digits of the groups' names. `report` is called with the number of records of each part.
    """
    folder.mkdir()
    count = count_records(settings, events)
    base = np.cumsum(count) - count
    size = _calculate_sizes(settings, events)
    written = {"segments": 0, "batches": len(events), "records": int(count.sum()), "bytes": 0}
    used = 0
    file = None
    try:
        for part in _split_parts(size):
            data, ends = _build_batches(settings, events[part], base[part], size[part], names)
            first = 0
            while first < len(ends):
                start = int(ends[first - 1]) if first else 0
                last = int(np.searchsorted(ends, start + settings.segment_bytes - used, "right"))
                if file is None or (last <= first and used):
                    if file:
                        file.close()
                    file = open(folder / segment_name(int(base[part][first])), "wb")  # noqa: SIM115  # The file stays open until the roll.
                    written["segments"] += 1
                    used = 0
                    continue
                last = max(last, first + 1)
                file.write(data[start : int(ends[last - 1])])
                used += int(ends[last - 1]) - start
                first = last
            written["bytes"] += len(data)
            report(int(count[part].sum()))
    finally:
        if file:
            file.close()
    return written


def _split_parts(size: Array) -> Iterator[slice]:
    """Yield parts of the batches that have about _PART_BYTES bytes."""
    ends = np.cumsum(size)
    first = 0
    while first < len(size):
        last = int(np.searchsorted(ends, ends[first] + _PART_BYTES, "right"))
        yield slice(first, last)
        first = last


def _number_kinds(events: Array) -> Array:
    kinds: Array = events["what"].astype(np.int16) * _KINDS + events["width"]
    return kinds


def _calculate_sizes(settings: Settings, events: Array) -> Array:
    """Return the bytes of each batch before compression."""
    kinds = _number_kinds(events)
    table = np.zeros(16 * _KINDS, np.int64)
    for kind in np.unique(kinds).tolist():
        table[kind] = len(build_template(*divmod(kind, _KINDS), settings).data)
    return table[kinds]


def _build_batches(
    settings: Settings, events: Array, base: Array, size: Array, names: Array
) -> tuple[memoryview, Array]:
    """Return the bytes of the batches, and where each batch ends."""
    ends = np.cumsum(size)
    starts = ends - size
    out = np.empty(ends[-1], "u1")
    kinds = _number_kinds(events)
    for kind in np.unique(kinds).tolist():
        of_kind = np.flatnonzero(kinds == kind)
        what, width = divmod(kind, _KINDS)
        template = build_template(what, width, settings)
        row_type = f"V{len(template.data)}"
        rows = _fill_template(template, _build_columns(settings, events[of_kind], base[of_kind], names, width))
        _view_unaligned(out, row_type)[starts[of_kind]] = rows.view(row_type)
    codec = CompressionType[settings.codec.upper()]
    if codec:
        out, ends = _compress_batches(codec, out.data, starts, ends, events["what"] < COMMITTED)
        starts = np.concatenate([[0], ends[:-1]])
    data = out.data
    bounds = zip(starts.tolist(), ends.tolist(), strict=True)
    _view_unaligned(out, ">u4")[starts + CRC_AT] = [crc32c(data[start + CRC_FROM : end]) for start, end in bounds]
    return data, ends


def _view_unaligned(out: Array, dtype: str) -> Array:
    """Return a view of the bytes: element n is the value of this type that begins at byte n."""
    return np.ndarray((len(out) - np.dtype(dtype).itemsize + 1,), dtype, out, strides=(1,))


def _build_columns(settings: Settings, events: Array, base: Array, names: Array, width: int) -> dict[str, list[Array]]:
    """Return the values for the places of these events' template: one list of slots per column."""
    group = events["group"]
    time = events["time"]
    columns = {
        "base_offset": [base],
        "time": [FIRST_TIME + time],
        "producer": [events["producer"]],
        "generation": [events["generation"]],
        "group": [names[group]],
    }
    if events["what"][0] <= TOMBSTONES:
        keys = [(events["start"] + lane) % settings.keys for lane in range(width)]
        columns["topic"] = [_TOPIC_DIGITS[(group + key // TOPIC_PARTITIONS) % TOPICS] for key in keys]
        columns["partition"] = [key % TOPIC_PARTITIONS for key in keys]
        columns["offset"] = [10 * time + lane % 10 for lane in range(width)]  # The offsets of each key rise.
    else:
        slots = range(-(-settings.keys // TOPIC_PARTITIONS))
        columns["topic"] = [_TOPIC_DIGITS[(group + slot) % TOPICS] for slot in slots]
    return columns


def _fill_template(template: Template, columns: dict[str, list[Array]]) -> Array:
    """Return copies of the template, one for each row of the columns, with the values in its places."""
    rows = np.tile(template.data, len(columns["time"][0]))
    size = len(template.data)
    for column, slot, at, dtype in template.places:
        np.ndarray(len(rows) // size, dtype, rows, at, (size,))[:] = columns[column][slot]
    return rows


def _compress_batches(
    codec: CompressionType, data: memoryview, starts: Array, ends: Array, is_data: Array
) -> tuple[Array, Array]:
    """Return the batches with their records compressed, and where each batch ends. Markers stay uncompressed."""
    out = bytearray()
    new_ends = []
    for start, end, compresses in zip(starts.tolist(), ends.tolist(), is_data.tolist(), strict=True):
        head = bytearray(data[start : start + HEADER_SIZE])
        body = bytes(data[start + HEADER_SIZE : end])
        if compresses:
            body = compress(codec, body)
            head[SIZE_AT : SIZE_AT + 4] = (HEADER_SIZE - LOG_OVERHEAD + len(body)).to_bytes(4, "big")
            head[ATTRIBUTES_AT + 1] |= codec
        out += head + body
        new_ends.append(len(out))
    return np.frombuffer(out, "u1"), np.array(new_ends)
