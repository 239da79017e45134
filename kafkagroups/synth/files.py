"""A partition's batches as bytes, and the bytes as segments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from crc32c import crc32c

from kafkagroups.log.compression import CompressionType, compress
from kafkagroups.log.record_batch import CRC_FROM, HEADER_SIZE
from kafkagroups.log.segment_file import segment_name
from kafkagroups.synth.events import records
from kafkagroups.synth.names import TOPICS, Array, digits
from kafkagroups.synth.requests import COMMITTED, TOMBSTONES
from kafkagroups.synth.settings import TOPIC_PARTITIONS, Settings
from kafkagroups.synth.templates import Template, template

FIRST_TIME = 1_700_000_000_000
_AT_ONCE = 64 * 1024 * 1024
"""Bytes that are made at once."""
_KINDS = 64
"""A kind of batch is `what * _KINDS + width`."""
_CRC_AT = 17
_TOPIC_DIGITS = digits(np.arange(TOPICS), 4)


def write_partition(
    folder: Path, settings: Settings, events: Array, names: Array, wrote: Callable[[int], None]
) -> dict[str, int]:
    """Writes the segments of one partition; `names` are the groups' digits; `wrote` hears of records."""
    folder.mkdir()
    count = records(settings, events)
    base = np.cumsum(count) - count
    size = _sizes(settings, events)
    written = {"segments": 0, "batches": len(events), "records": int(count.sum()), "bytes": 0}
    used, file = 0, None
    try:
        for part in _parts(size):
            data, ends = _batches(settings, events[part], base[part], size[part], names)
            first = 0
            while first < len(ends):
                start = int(ends[first - 1]) if first else 0
                last = int(np.searchsorted(ends, start + settings.segment_bytes - used, "right"))
                if file is None or (last <= first and used):
                    if file:
                        file.close()
                    file = open(folder / segment_name(int(base[part][first])), "wb")  # noqa: SIM115  # open till the roll
                    written["segments"] += 1
                    used = 0
                    continue
                last = max(last, first + 1)
                file.write(data[start : int(ends[last - 1])])
                used += int(ends[last - 1]) - start
                first = last
            written["bytes"] += len(data)
            wrote(int(count[part].sum()))
    finally:
        if file:
            file.close()
    return written


def _parts(size: Array) -> Iterator[slice]:
    """The batches in parts of about so many bytes."""
    ends, first = np.cumsum(size), 0
    while first < len(size):
        last = int(np.searchsorted(ends, ends[first] + _AT_ONCE, "right"))
        yield slice(first, last)
        first = last


def _kinds(events: Array) -> Array:
    kinds: Array = events["what"].astype(np.int16) * _KINDS + events["width"]
    return kinds


def _sizes(settings: Settings, events: Array) -> Array:
    """Bytes of each batch before compression."""
    kinds = _kinds(events)
    table = np.zeros(16 * _KINDS, np.int64)
    for kind in np.unique(kinds).tolist():
        table[kind] = len(template(*divmod(kind, _KINDS), settings).data)
    return table[kinds]


def _batches(settings: Settings, events: Array, base: Array, size: Array, names: Array) -> tuple[memoryview, Array]:
    """The batches one behind the other, and where each ends."""
    ends = np.cumsum(size)
    out, starts, kinds = np.empty(ends[-1], "u1"), ends - size, _kinds(events)
    for kind in np.unique(kinds).tolist():
        here = np.flatnonzero(kinds == kind)
        what, width = divmod(kind, _KINDS)
        made = template(what, width, settings)
        whole = f"V{len(made.data)}"
        rows = _filled(made, _columns(settings, events[here], base[here], names, width))
        _anywhere(out, whole)[starts[here]] = rows.view(whole)
    codec = CompressionType[settings.codec.upper()]
    if codec:
        out, ends = _compressed(codec, out.data, starts, ends, events["what"] < COMMITTED)
        starts = np.concatenate([[0], ends[:-1]])
    data = out.data
    bounds = zip(starts.tolist(), ends.tolist(), strict=True)
    _anywhere(out, ">u4")[starts + _CRC_AT] = [crc32c(data[start + CRC_FROM : end]) for start, end in bounds]
    return data, ends


def _anywhere(out: Array, dtype: str) -> Array:
    """The bytes as values of that type that begin at every byte."""
    return np.ndarray((len(out) - np.dtype(dtype).itemsize + 1,), dtype, out, strides=(1,))


def _columns(settings: Settings, events: Array, base: Array, names: Array, width: int) -> dict[str, list[Array]]:
    """What stands in the places of these events' template, a list of slots each."""
    group, time = events["group"], events["time"]
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
        columns["offset"] = [10 * time + lane % 10 for lane in range(width)]  # so each key's offsets rise
    else:
        slots = range(-(-settings.keys // TOPIC_PARTITIONS))
        columns["topic"] = [_TOPIC_DIGITS[(group + slot) % TOPICS] for slot in slots]
    return columns


def _filled(made: Template, columns: dict[str, list[Array]]) -> Array:
    """A copy of the template for each value of the columns, with these in its places."""
    rows, size = np.tile(made.data, len(columns["time"][0])), len(made.data)
    for column, slot, at, dtype in made.places:
        np.ndarray(len(rows) // size, dtype, rows, at, (size,))[:] = columns[column][slot]
    return rows


def _compressed(
    codec: CompressionType, data: memoryview, starts: Array, ends: Array, chosen: Array
) -> tuple[Array, Array]:
    """The batches with their records compressed; markers never are."""
    out, places = bytearray(), []
    for start, end, packs in zip(starts.tolist(), ends.tolist(), chosen.tolist(), strict=True):
        head, body = bytearray(data[start : start + HEADER_SIZE]), bytes(data[start + HEADER_SIZE : end])
        if packs:
            body = compress(codec, body)
            head[8:12] = (HEADER_SIZE - 12 + len(body)).to_bytes(4, "big")
            head[22] |= codec
        out += head + body
        places.append(len(out))
    return np.frombuffer(out, "u1"), np.array(places)
