"""The tables `offsets`, `records` and `fates` from the columns of the native engine, without an object for each row.

The engine gives each column in Arrow's layout: the bits that say which values are not null (None: all), where the texts
end (None for numbers), and the numbers or texts. Only functions import this module, because it imports pyarrow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkagroups.errors import InvalidLog
from kafkagroups.groups.offsets import Fate, GroupOffsets
from kafkagroups.loading.columns import (
    BATCH_BYTES,
    BATCH_ROWS,
    MIN_TIMESTAMP_MS,
    TIMESTAMP_END_MS,
    Column,
    arrow_schema,
    partition_number,
)
from kafkagroups.loading.groups import GroupParts
from kafkagroups.records.record_json import to_json
from kafkagroups.records.releases import Dialect
from kafkagroups.records.serde import RECORD_TYPES, ControlType, decode
from kafkagroups.records.wire import decode_utf8

_CHANGED = "the log has changed while it was read: read it again"
_CONTROL_NAMES = [kind.text for kind in ControlType]
"""The texts of the column `control`, by number; the last one stands for every other number."""
_LAST_TYPE = max(RECORD_TYPES)
_TYPE_NAMES = [*(RECORD_TYPES[n].name if n in RECORD_TYPES else "Unknown" for n in range(_LAST_TYPE + 1)), "Unknown"]
"""The texts of the column `name`, by record type; the last one stands for types that are not read."""


def split_by_storage(
    groups: Iterable[tuple[str, GroupParts]],
) -> tuple[list[list[GroupParts]], list[tuple[str, GroupParts]]]:
    """Return the groups whose offsets are in columns, in a list for each reading of the engine, and the others."""
    in_columns: dict[int, list[GroupParts]] = {}
    others = []
    for group_id, parts in groups:
        if isinstance(parts.offsets, GroupOffsets):
            in_columns.setdefault(id(parts.offsets.reading), []).append(parts)
        else:
            others.append((group_id, parts))
    return list(in_columns.values()), others


def copy_offsets(groups: list[GroupParts], columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """Copy the offsets of groups from one reading of the engine."""
    partition = partition_number(groups[0].group.partition)
    offsets: list[Any] = [parts.offsets for parts in groups]
    for part in offsets[0].reading.offset_columns([each.number for each in offsets], BATCH_ROWS, BATCH_BYTES):
        yield _make_batch(part, columns, {"partition": _repeat(partition, part["rows"])})


def copy_records(
    parts: Iterable[dict[str, Any]],
    partition: int,
    dialect: Dialect,
    columns: Sequence[Column],
    fates: tuple[bytes, bytes] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Raises InvalidLog if there are not as many records as fates, because the log has changed."""
    start = 0
    for part in parts:
        rows = part["rows"]
        end = start + rows
        made = {"partition": _repeat(partition, rows), "error": pa.nulls(rows, pa.string())}
        if fates is not None:
            if end > len(fates[0]):
                raise InvalidLog(_CHANGED)
            numbers = pa.Array.from_buffers(pa.uint8(), rows, [None, pa.py_buffer(fates[0][start:end])])
            made["fate"] = _name(["", *(fate.value for fate in Fate)], numbers.cast(pa.int32()))
            by = pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(fates[1][8 * start : 8 * end])])
            made["by"] = pc.if_else(pc.greater_equal(by, 0), by, None)
        for column in columns:
            if column.name in ("control", "name", "json"):
                made[column.name] = _MAKERS[column.name](part, dialect)
        yield _make_batch(part, columns, made)
        start = end
    if fates is not None and start != len(fates[0]):
        raise InvalidLog(_CHANGED)


def _make_batch(part: dict[str, Any], columns: Sequence[Column], made: dict[str, pa.Array]) -> pa.RecordBatch:
    schema = arrow_schema(columns)
    arrays = []
    for field in schema:
        if field.name in made:
            arrays.append(made[field.name])
        elif pa.types.is_timestamp(field.type):
            times = _take(part, f"{field.name}_ms", pa.int64())
            is_in_range = pc.and_(pc.greater_equal(times, MIN_TIMESTAMP_MS), pc.less(times, TIMESTAMP_END_MS))
            arrays.append(pc.multiply(pc.if_else(is_in_range, times, None), 1000).cast(field.type))
        else:
            arrays.append(_take(part, field.name, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _take(part: dict[str, Any], name: str, data_type: pa.DataType) -> pa.Array:
    valid, ends, data = part[name]
    buffers = [None if valid is None else pa.py_buffer(valid)]
    if ends is None:
        stored = data_type if data_type == pa.int64() else pa.int32()
        numbers = pa.Array.from_buffers(stored, part["rows"], [*buffers, pa.py_buffer(data)])
        return numbers if stored == data_type else numbers.cast(data_type)
    buffers += [pa.py_buffer(ends), pa.py_buffer(data)]
    if name == "metadata" and not data.isascii():  # Only metadata can be no UTF-8.
        texts = pa.Array.from_buffers(pa.binary(), part["rows"], buffers)
        return pa.array([decode_utf8(text) for text in texts.to_pylist()], pa.string())
    return pa.Array.from_buffers(data_type, part["rows"], buffers)


def _repeat(number: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(number, pa.int32()), count)


def _name(names: list[str], numbers: pa.Array) -> pa.Array:
    return pa.array(names).take(numbers)


def _make_control(part: dict[str, Any], dialect: Dialect) -> pa.Array:
    unknown = len(_CONTROL_NAMES) - 1
    numbers = _take(part, "control_type", pa.int32())
    is_known = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, unknown))
    return _name(_CONTROL_NAMES, pc.if_else(is_known, numbers, unknown))


def _make_name(part: dict[str, Any], dialect: Dialect) -> pa.Array:
    types = _take(part, "type", pa.int32())
    is_read = _take(part, "is_read", pa.bool_())
    numbers = pc.if_else(is_read, types, _LAST_TYPE + 1)
    return _name(_TYPE_NAMES, pc.if_else(pc.is_valid(types), numbers, None))


def _make_json(part: dict[str, Any], dialect: Dialect) -> pa.Array:
    keys, values = (_take(part, name, pa.binary()).to_pylist() for name in ("key", "value"))
    is_control = _take(part, "control_type", pa.int32()).is_valid().to_pylist()
    texts = [
        None if control else json.dumps(to_json(decode(key, value, dialect), dialect))
        for key, value, control in zip(keys, values, is_control, strict=True)
    ]
    return pa.array(texts, pa.string())


_MAKERS = {"control": _make_control, "name": _make_name, "json": _make_json}
