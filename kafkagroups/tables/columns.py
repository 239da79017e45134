"""The six tables of a log as Arrow columns: one constant says what stands in each, and one function fills them.

`TABLES` is written in Spark's words (`?`: may be null); the Arrow schema and Spark's both follow from it. Every table
begins with `partition`, the number of the log partition (-1 where no folder's name tells it). A time is a column
`…_ms`, exactly as stored; the column of the same name without `_ms` is that time for people, null outside the years
that pandas can hold.

A row (`rows.py`) is a tuple of the columns that are stored, so without the times for people. Strings reach Arrow as
Java would write them: half a surrogate pair (in a path, say) becomes `?`. pyarrow is imported when a column is filled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkagroups.errors import UsageError
from kafkagroups.records.text import encode_utf8

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS, BATCH_BYTES = 65_536, 64 * 1024 * 1024
"""Where a record batch ends: so many rows, or about so many bytes of strings (Arrow's limit is 2 GiB a column)."""

FIRST_MS, END_MS = -9_214_560_000_000, 9_214_646_400_000
"""The years 1678 to 2261 in ms since the epoch; a pandas timestamp holds them whole."""


class Column(NamedTuple):
    """A column; `type` is Spark's word for it."""

    name: str
    type: str
    nullable: bool


def _table(words: str) -> tuple[Column, ...]:
    pairs = (column.split() for column in words.split(","))
    return tuple(Column(name, kind.rstrip("?"), kind.endswith("?")) for name, kind in pairs)


_OFFSET = """partition int, group string, topic string, topic_partition int, committed_offset long, leader_epoch int?,
    metadata string, commit_timestamp_ms long, commit_timestamp timestamp?, expire_timestamp_ms long?,
    expire_timestamp timestamp?, topic_id string?, record_offset long"""

TABLES = {
    "records": _table(
        """partition int, offset long, timestamp_ms long?, timestamp timestamp?, batch_offset long, producer_id long?,
        producer_epoch short?, transactional boolean, control string?, type int?, name string?, group string?,
        topic string?, topic_partition int?, key binary?, value binary?, value_version int?, json string?,
        error string?"""
    ),
    "offsets": _table(_OFFSET),
    "pending": _table(f"{_OFFSET}, producer_id long"),
    "groups": _table(
        """partition int, group string, type string, state string, protocol_type string?, protocol string?,
        generation int?, leader string?, group_epoch int?, members int, offsets int, pending int"""
    ),
    "members": _table(
        """partition int, group string, member_id string, group_instance_id string?, client_id string,
        client_host string, session_timeout_ms int?, rebalance_timeout_ms int?, subscribed_topics array<string>?,
        assigned_partitions array<string>?, member_epoch int?"""
    ),
    "partitions": _table(
        """partition int, segments int, batches int, records int, start_offset long, next_offset long, error string?,
        damage string?"""
    ),
    "ids": _table("partition int, group string"),
}
"""`ids`, which Spark's load needs: every group that has a record in a partition, known or not."""


def columns_of(table: str, names: Iterable[str] | None = None) -> tuple[Column, ...]:
    """The columns of a table, or those of these names, in the order of the names. UsageError: no such table or column.

    >>> columns_of("offsets", ["group"])
    (Column(name='group', type='string', nullable=False),)
    """
    if table not in TABLES:
        raise UsageError(f"the table is one of {', '.join(TABLES)}, not {table!r}")
    by_name = {column.name: column for column in TABLES[table]}
    names = list(by_name if names is None else names)
    if unknown := [name for name in names if name not in by_name]:
        raise UsageError(f"the table {table} has no column {unknown[0]!r}, but {', '.join(by_name)}")
    return tuple(by_name[name] for name in names)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The Arrow schema of these columns: times in microseconds, UTC."""
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


def record_batches(table: str, columns: Sequence[Column], rows: Iterable[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    """Rows of a table as record batches of these of its columns."""
    import pyarrow as pa

    schema = arrow_schema(columns)
    layout = [column for column in TABLES[table] if column.type != "timestamp"]
    stored = {column.name: i for i, column in enumerate(layout)}
    for chunk in _chunks(rows, [i for i, column in enumerate(layout) if column.type in _WIDE]):
        values = list(zip(*chunk, strict=True))
        arrays = []
        for column, field in zip(columns, schema, strict=True):
            if column.type == "timestamp":
                arrays.append(array_of(field.type, [_microseconds(ms) for ms in values[stored[f"{column.name}_ms"]]]))
            else:
                arrays.append(array_of(field.type, values[stored[column.name]]))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


_WIDE = ("string", "binary", "array<string>")


def _chunks(rows: Iterable[tuple[Any, ...]], wide: list[int]) -> Iterator[list[tuple[Any, ...]]]:
    chunk, size = [], 0
    for row in rows:
        chunk.append(row)
        for i in wide:
            size += len(row[i]) * 32 if isinstance(row[i], list) else len(row[i] or "")
        if len(chunk) == BATCH_ROWS or size > BATCH_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _microseconds(ms: int | None) -> int | None:
    return None if ms is None or not FIRST_MS <= ms < END_MS else ms * 1000


def array_of(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """Python values as an Arrow array. Built from buffers, because pa.array would import pandas."""
    import numpy as np
    import pyarrow as pa

    there = np.array([value is not None for value in values])
    nulls = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    if pa.types.is_boolean(kind):
        bits = np.packbits(np.array(values, bool), bitorder="little")
        return pa.Array.from_buffers(kind, len(values), [nulls, pa.py_buffer(bits)])
    if pa.types.is_primitive(kind):
        numbers = np.array([0 if value is None else value for value in values], f"i{kind.bit_width // 8}")
        return pa.Array.from_buffers(kind, len(values), [nulls, pa.py_buffer(numbers)])
    ends = np.cumsum([0, *(0 if value is None else len(value) for value in values)], dtype="i8")
    if pa.types.is_list(kind):
        inner = array_of(kind.value_type, [element for value in values if value for element in value])
        return pa.Array.from_buffers(kind, len(values), [nulls, _offsets(ends)], children=[inner])
    if pa.types.is_string(kind):
        values = [None if value is None else encode_utf8(value) for value in values]
        ends = np.cumsum([0, *(len(value or b"") for value in values)], dtype="i8")
    data = b"".join([value for value in values if value])
    return pa.Array.from_buffers(kind, len(values), [nulls, _offsets(ends), pa.py_buffer(data)])


def _offsets(ends: Any) -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(ends.astype("i4"))
