"""The columns of a log's tables (`TABLES`), and the conversion of rows and of the native engine's columns to Arrow.

`TABLES` uses Spark's type names; a `?` after the type means that the column can be null. Arrow's schema and Spark's are
made from it. The first column of every table is `partition`: the number of the partition of `__consumer_offsets`, or -1
if the name of the log's folder has no number.

A column `…_ms` has a time in ms since the epoch, as the log stores it. The column with the same name but without `_ms`
has the same time as a timestamp, which is null if its year is outside pandas' range.

A row is a dict with a value for each column except the timestamps, which come from the `…_ms` columns. A column that is
not in a row is null. In Arrow, half of a surrogate pair in a text becomes `?`, because UTF-8 cannot encode it
(records/wire.py). The native engine gives each column in Arrow's layout: the bits that say which values are not null
(None: all), where the texts end (None for numbers), and the numbers or texts. pyarrow is imported only when it is
needed.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.groups.group_parts import GroupParts
from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offset_columns import GroupOffsets
from kafkagroups.records.control import ControlType
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.record_json import to_json
from kafkagroups.records.serde import RECORD_TYPES, decode
from kafkagroups.records.wire import decode_utf8, encode_utf8

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
"""The values of a row by the names of their columns. Other entries are ignored."""

BATCH_ROWS = 65_536
"""The largest number of rows in an Arrow record batch."""
BATCH_BYTES = 64 * 1024 * 1024
"""An Arrow record batch ends when its strings and lists have more than this number of bytes."""

MIN_TIMESTAMP_MS = -9_214_560_000_000
"""The beginning of 1678 in ms since the epoch: the first time that is converted to a timestamp."""
TIMESTAMP_END_MS = 9_214_646_400_000
"""The beginning of 2262 in ms since the epoch: the first time that is no longer converted to a timestamp."""


class Column(NamedTuple):
    """A column of a table. `type` is Spark's name of the type. `nullable` says whether the column can be null."""

    name: str
    type: str
    nullable: bool


def parse_columns(text: str) -> tuple[Column, ...]:
    """Return the columns in a text like "partition int, topic string?"."""
    pairs = (column.split() for column in text.split(","))
    return tuple(Column(name, type_name.rstrip("?"), type_name.endswith("?")) for name, type_name in pairs)


_OFFSET_COLUMNS = """partition int, group string, topic string, topic_partition int, committed_offset long,
    leader_epoch int?, metadata string, commit_timestamp_ms long, commit_timestamp timestamp?,
    expire_timestamp_ms long?, expire_timestamp timestamp?, topic_id string?, record_offset long"""
_RECORD_COLUMNS = """partition int, offset long, timestamp_ms long?, timestamp timestamp?, batch_offset long,
    producer_id long?, producer_epoch short?, transactional boolean, control string?, type int?, name string?,
    group string?, topic string?, topic_partition int?"""

TABLES = {
    "records": parse_columns(
        f"{_RECORD_COLUMNS}, key binary?, value binary?, value_version int?, json string?, error string?"
    ),
    "fates": parse_columns(
        f"""{_RECORD_COLUMNS}, value_version int?, error string?, member_id string?, committed_offset long?,
        key_bytes int, value_bytes int?, fate string, by long?"""
    ),
    "offsets": parse_columns(_OFFSET_COLUMNS),
    "pending": parse_columns(f"{_OFFSET_COLUMNS}, producer_id long"),
    "groups": parse_columns(
        """partition int, group string, type string, state string, protocol_type string?, protocol string?,
        generation int?, leader string?, group_epoch int?, members int, offsets int, pending int"""
    ),
    "members": parse_columns(
        """partition int, group string, member_id string, group_instance_id string?, client_id string,
        client_host string, session_timeout_ms int?, rebalance_timeout_ms int?, subscribed_topics array<string>?,
        assigned_partitions array<string>?, member_epoch int?"""
    ),
    "partitions": parse_columns(
        """partition int, segments long, batches long, records long, start_offset long, next_offset long,
        error string?, damage string?"""
    ),
}
"""The columns of each table."""


def columns_of(table: str, names: Iterable[str] | None = None) -> tuple[Column, ...]:
    """Return the columns of a table. If `names` is not None, return only the columns with these names, in this order.

    Raises UsageError if there is no such table or column.

    >>> columns_of("offsets", ["group"])
    (Column(name='group', type='string', nullable=False),)
    """
    if table not in TABLES:
        raise UsageError(f"no table {table!r}: expected one of {', '.join(TABLES)}")
    by_name = {column.name: column for column in TABLES[table]}
    chosen_names = list(by_name if names is None else names)
    for name in chosen_names:
        if name not in by_name:
            raise UsageError(f"the table {table} has no column {name!r}; expected one of {', '.join(by_name)}")
    return tuple(by_name[name] for name in chosen_names)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of these columns. Timestamps are in microseconds, UTC."""
    import pyarrow as pa

    types = {
        "short": pa.int16(),
        "int": pa.int32(),
        "long": pa.int64(),
        "boolean": pa.bool_(),
        "string": pa.string(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", "UTC"),
        "array<string>": pa.list_(pa.string()),
    }
    return pa.schema([pa.field(column.name, types[column.type], column.nullable) for column in columns])


def record_batches(columns: Sequence[Column], rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Yield rows as Arrow record batches with these columns."""
    import pyarrow as pa

    schema = arrow_schema(columns)
    for chunk in _split_rows(rows, [column.name for column in columns if column.type in _TYPES_OF_ANY_SIZE]):
        arrays = []
        for column, field in zip(columns, schema, strict=True):
            if column.type == "timestamp":
                values = [_to_microseconds(row.get(f"{column.name}_ms")) for row in chunk]
            else:
                values = [row.get(column.name) for row in chunk]
            arrays.append(to_arrow_array(field.type, values))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


_TYPES_OF_ANY_SIZE = ("string", "binary", "array<string>")
_BYTES_PER_ELEMENT = 32
"""The size that is assumed for an element of a list (a topic or a partition)."""


def _split_rows(rows: Iterable[Row], names_of_any_size: Sequence[str]) -> Iterator[list[Row]]:
    """Yield the rows in lists that fit into a record batch. Only the named columns have values of any size."""
    chunk: list[Row] = []
    size = 0
    for row in rows:
        chunk.append(row)
        for name in names_of_any_size:
            content = row.get(name)
            size += len(content) * _BYTES_PER_ELEMENT if isinstance(content, list) else len(content or "")
        if len(chunk) == BATCH_ROWS or size > BATCH_BYTES:
            yield chunk
            chunk = []
            size = 0
    if chunk:
        yield chunk


def _to_microseconds(time_ms: int | None) -> int | None:
    if time_ms is None or not MIN_TIMESTAMP_MS <= time_ms < TIMESTAMP_END_MS:
        return None
    return time_ms * 1000


def to_arrow_array(data_type: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """Return values as an Arrow array, built from buffers: `pa.array` would import pandas, which takes a second."""
    import pyarrow as pa

    present = [value is not None for value in values]
    nulls = None if all(present) else _pack_bits(present)
    if pa.types.is_boolean(data_type):
        return pa.Array.from_buffers(data_type, len(values), [nulls, _pack_bits([bool(value) for value in values])])
    if pa.types.is_primitive(data_type):
        numbers = array(_ARRAY_CODES[data_type.bit_width], [0 if value is None else value for value in values])
        return pa.Array.from_buffers(data_type, len(values), [nulls, pa.py_buffer(numbers)])
    if pa.types.is_list(data_type):
        elements = to_arrow_array(data_type.value_type, [element for value in values if value for element in value])
        return pa.Array.from_buffers(data_type, len(values), [nulls, _end_offsets(values)], children=[elements])
    if pa.types.is_string(data_type):
        values = [None if value is None else encode_utf8(value) for value in values]
    data = b"".join([value for value in values if value])
    return pa.Array.from_buffers(data_type, len(values), [nulls, _end_offsets(values), pa.py_buffer(data)])


_ARRAY_CODES = {16: "h", 32: "i", 64: "q"}
"""The code of a signed number in the module `array`, by its bits."""


def _pack_bits(bits: Sequence[bool]) -> pa.Buffer:
    """Return the Arrow buffer of bits; the first one is the lowest bit of the first byte."""
    import pyarrow as pa

    text = "".join("1" if bit else "0" for bit in reversed(bits))
    return pa.py_buffer(int(text or "0", 2).to_bytes((len(bits) + 7) // 8, "little"))


def _end_offsets(values: Sequence[Any]) -> pa.Buffer:
    """Return the Arrow buffer that says where each list or string ends: 0 (the start), and then each end."""
    import pyarrow as pa

    return pa.py_buffer(array("i", accumulate((len(value or ()) for value in values), initial=0)))


NativeOffsetsOfGroups = dict[int, list[tuple[int | None, GroupOffsets]]]
"""By Python's `id` of the engine's result: the log partition and the offsets of each group."""
_CHANGED = "the log has changed while it was read: read it again"
_MARKERS = (ControlType.COMMIT, ControlType.ABORT)
_CONTROL_NAMES = [kind.name.lower() if kind in _MARKERS else kind.name for kind in ControlType]
"""The texts of the column `control`, by number; the last one stands for every other number."""
_LAST_TYPE = max(RECORD_TYPES)
_TYPE_NAMES = [*(RECORD_TYPES[n].name if n in RECORD_TYPES else "Unknown" for n in range(_LAST_TYPE + 1)), "Unknown"]
"""The texts of the column `name`, by record type; the last one stands for types that are not read."""


def split_by_storage(
    groups: Iterable[tuple[str, GroupParts]],
) -> tuple[NativeOffsetsOfGroups, list[tuple[str, GroupParts]]]:
    """Return the offsets that are in columns of the engine, and the groups whose offsets are not."""
    in_columns: NativeOffsetsOfGroups = {}
    others = []
    for group_id, parts in groups:
        if isinstance(parts.offsets, GroupOffsets):
            of_reading = in_columns.setdefault(id(parts.offsets.reading), [])
            of_reading.append((parts.group.partition, parts.offsets))
        else:
            others.append((group_id, parts))
    return in_columns, others


def copy_offsets(in_columns: NativeOffsetsOfGroups, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """Yield the committed offsets as Arrow record batches with these columns."""
    for groups in in_columns.values():
        partition, offsets = groups[0]
        numbers = [each.number for _, each in groups]
        for part in offsets.reading.offset_columns(numbers, BATCH_ROWS, BATCH_BYTES):
            yield _make_batch(
                part, columns, {"partition": _repeat(-1 if partition is None else partition, part["rows"])}
            )


def copy_records(
    parts: Iterable[dict[str, Any]],
    partition: int,
    dialect: Dialect,
    columns: Sequence[Column],
    fates: tuple[bytes, bytes] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the table `records` or `fates`. `parts` are the engine's columns of consecutive records.

    For the table `fates`, `fates` has the number of each record's fate and the offset of the record that decided it.
    Raises InvalidLog if it has another number of records, because the log has changed.
    """
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
            made["by"] = _null_unless(pc.greater_equal(by, 0), by)
        for column in columns:
            if column.name in ("control", "name", "json"):
                made[column.name] = _MAKERS[column.name](part, dialect)
        yield _make_batch(part, columns, made)
        start = end
    if fates is not None and start != len(fates[0]):
        raise InvalidLog(_CHANGED)


def _make_batch(part: dict[str, Any], columns: Sequence[Column], made: dict[str, pa.Array]) -> pa.RecordBatch:
    """Return a record batch. `made` has the columns that are not among the engine's."""
    schema = arrow_schema(columns)
    arrays = []
    for field in schema:
        if field.name in made:
            arrays.append(made[field.name])
        elif pa.types.is_timestamp(field.type):
            times = _take(part, f"{field.name}_ms", pa.int64())
            is_in_range = pc.and_(pc.greater_equal(times, MIN_TIMESTAMP_MS), pc.less(times, TIMESTAMP_END_MS))
            arrays.append(pc.multiply(_null_unless(is_in_range, times), 1000).cast(field.type))
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
        return to_arrow_array(pa.string(), [decode_utf8(text) for text in texts.to_pylist()])
    return pa.Array.from_buffers(data_type, part["rows"], buffers)


def _repeat(number: int, count: int) -> pa.Array:
    """Return a column with one number. `pa.repeat` would import pandas."""
    data = number.to_bytes(4, "little", signed=True) * count
    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(data)])


def _name(names: list[str], numbers: pa.Array) -> pa.Array:
    return to_arrow_array(pa.string(), names).take(numbers)


def _null_unless(is_kept: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(is_kept, values, pa.scalar(None, values.type))


def _make_control(part: dict[str, Any], dialect: Dialect) -> pa.Array:
    unknown = len(_CONTROL_NAMES) - 1
    numbers = _take(part, "control_type", pa.int32())
    is_known = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, unknown))
    return _name(_CONTROL_NAMES, pc.if_else(is_known, numbers, pa.scalar(unknown, pa.int32())))


def _make_name(part: dict[str, Any], dialect: Dialect) -> pa.Array:
    types = _take(part, "type", pa.int32())
    is_read = _take(part, "is_read", pa.bool_())
    numbers = pc.if_else(is_read, types, pa.scalar(_LAST_TYPE + 1, pa.int32()))
    return _name(_TYPE_NAMES, _null_unless(pc.is_valid(types), numbers))


def _make_json(part: dict[str, Any], dialect: Dialect) -> pa.Array:
    keys, values = (_take(part, name, pa.binary()).to_pylist() for name in ("key", "value"))
    is_control = _take(part, "control_type", pa.int32()).is_valid().to_pylist()
    texts = [
        None if control else json.dumps(to_json(decode(key, value, dialect), dialect))
        for key, value, control in zip(keys, values, is_control, strict=True)
    ]
    return to_arrow_array(pa.string(), texts)


_MAKERS = {"control": _make_control, "name": _make_name, "json": _make_json}
