"""The columns of a log's tables (`TABLES`), and rows as Arrow record batches.

`TABLES` uses Spark's type names. A `?` after the type means that the column can be null. The Arrow schema and Spark's
schema are made from `TABLES`. The first column of every table is `partition`, the partition of `__consumer_offsets`
that the row comes from (-1 if the name of the log's folder has no number).

A column `…_ms` contains a time as the log stores it, in ms since the epoch. The column with the same name without `_ms`
contains the same time as a readable timestamp. The timestamp is null if pandas cannot store the year.

A row (rows.py) is a tuple of the stored columns, i.e. of all columns except the readable timestamps. As in Java, half a
surrogate pair in a string (a path, for example) becomes `?` in Arrow, because UTF-8 cannot encode it. pyarrow is
imported only when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkagroups.errors import UsageError
from kafkagroups.records.text import encode_utf8
from kafkagroups.tables.offset_fields import OFFSET_FIELDS

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 65_536
"""The largest number of rows in an Arrow record batch."""
BATCH_BYTES = 64 * 1024 * 1024
"""About how many bytes of strings and lists an Arrow record batch can contain. Arrow's limit is 2 GiB per column."""

FIRST_MS = -9_214_560_000_000
"""The beginning of 1678 in ms since the epoch. A pandas timestamp can store times from `FIRST_MS` to `END_MS`."""
END_MS = 9_214_646_400_000
"""The end of 2261 in ms since the epoch: the first time that is too late."""


class Column(NamedTuple):
    """A column of a table. `type` is Spark's name of the type."""

    name: str
    type: str
    nullable: bool


def _parse_columns(text: str) -> tuple[Column, ...]:
    """Return the columns in a text like "partition int, topic string?"."""
    pairs = (column.split() for column in text.split(","))
    return tuple(Column(name, type_name.rstrip("?"), type_name.endswith("?")) for name, type_name in pairs)


def _describe_offset() -> str:
    """Return the columns of a committed offset, as a text that `_parse_columns` reads."""
    columns = ["partition int", "group string", "topic string", "topic_partition int"]
    for field in OFFSET_FIELDS:
        columns.append(f"{field.column} {field.type}")
        if field.column.endswith("_ms"):
            columns.append(f"{field.column.removesuffix('_ms')} timestamp?")
    return ", ".join(columns)


TABLES = {
    "records": _parse_columns(
        """partition int, offset long, timestamp_ms long?, timestamp timestamp?, batch_offset long, producer_id long?,
        producer_epoch short?, transactional boolean, control string?, type int?, name string?, group string?,
        topic string?, topic_partition int?, key binary?, value binary?, value_version int?, json string?,
        error string?"""
    ),
    "offsets": _parse_columns(_describe_offset()),
    "pending": _parse_columns(f"{_describe_offset()}, producer_id long"),
    "groups": _parse_columns(
        """partition int, group string, type string, state string, protocol_type string?, protocol string?,
        generation int?, leader string?, group_epoch int?, members int, offsets int, pending int"""
    ),
    "members": _parse_columns(
        """partition int, group string, member_id string, group_instance_id string?, client_id string,
        client_host string, session_timeout_ms int?, rebalance_timeout_ms int?, subscribed_topics array<string>?,
        assigned_partitions array<string>?, member_epoch int?"""
    ),
    "partitions": _parse_columns(
        """partition int, segments int, batches int, records int, start_offset long, next_offset long, error string?,
        damage string?"""
    ),
    "ids": _parse_columns("partition int, group string"),
}
"""The columns of each table. Table `ids` has all group ids in the records of a partition; Spark's load needs it."""


def columns_of(table: str, names: Iterable[str] | None = None) -> tuple[Column, ...]:
    """Return the columns of a table. If `names` is given, return only these columns, in this order.

    Raises UsageError if there is no such table or column.

    >>> columns_of("offsets", ["group"])
    (Column(name='group', type='string', nullable=False),)
    """
    if table not in TABLES:
        raise UsageError(f"the table is one of {', '.join(TABLES)}, not {table!r}")
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


def record_batches(table: str, columns: Sequence[Column], rows: Iterable[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table as Arrow record batches. `columns` are the columns of the result."""
    import pyarrow as pa

    schema = arrow_schema(columns)
    stored = [column for column in TABLES[table] if column.type != "timestamp"]
    indexes = {column.name: index for index, column in enumerate(stored)}
    unlimited = [index for index, column in enumerate(stored) if column.type in _TYPES_OF_ANY_SIZE]
    for chunk in _chunks(rows, unlimited):
        values = list(zip(*chunk, strict=True))
        arrays = []
        for column, field in zip(columns, schema, strict=True):
            if column.type == "timestamp":
                times = values[indexes[f"{column.name}_ms"]]
                arrays.append(array_of(field.type, [_microseconds(ms) for ms in times]))
            else:
                arrays.append(array_of(field.type, values[indexes[column.name]]))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


_TYPES_OF_ANY_SIZE = ("string", "binary", "array<string>")


def _chunks(rows: Iterable[tuple[Any, ...]], unlimited: list[int]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows in chunks that fit into a record batch.

    `unlimited` contains the indexes of the columns whose values can have any size.
    """
    chunk = []
    size = 0
    for row in rows:
        chunk.append(row)
        for index in unlimited:
            content = row[index]
            # An element of a list (a topic or a partition) is counted as 32 bytes.
            size += len(content) * 32 if isinstance(content, list) else len(content or "")
        if len(chunk) == BATCH_ROWS or size > BATCH_BYTES:
            yield chunk
            chunk = []
            size = 0
    if chunk:
        yield chunk


def _microseconds(ms: int | None) -> int | None:
    return None if ms is None or not FIRST_MS <= ms < END_MS else ms * 1000


def array_of(data_type: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """Return Python values as an Arrow array. It is built from buffers, because `pa.array` imports pandas (slow)."""
    import numpy as np
    import pyarrow as pa

    present = np.array([value is not None for value in values])
    nulls = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    if pa.types.is_boolean(data_type):
        bits = np.packbits(np.array(values, bool), bitorder="little")
        return pa.Array.from_buffers(data_type, len(values), [nulls, pa.py_buffer(bits)])
    if pa.types.is_primitive(data_type):
        numbers = np.array([0 if value is None else value for value in values], f"i{data_type.bit_width // 8}")
        return pa.Array.from_buffers(data_type, len(values), [nulls, pa.py_buffer(numbers)])
    if pa.types.is_list(data_type):
        elements = array_of(data_type.value_type, [element for value in values if value for element in value])
        return pa.Array.from_buffers(data_type, len(values), [nulls, _end_offsets(values)], children=[elements])
    if pa.types.is_string(data_type):
        values = [None if value is None else encode_utf8(value) for value in values]
    data = b"".join([value for value in values if value])
    return pa.Array.from_buffers(data_type, len(values), [nulls, _end_offsets(values), pa.py_buffer(data)])


def _end_offsets(values: Sequence[Any]) -> pa.Buffer:
    """Return Arrow's buffer of the positions of lists or strings: 0, and then the position where each value ends."""
    import numpy as np
    import pyarrow as pa

    ends = np.cumsum([0, *(len(value or ()) for value in values)], dtype="i8")
    return pa.py_buffer(ends.astype("i4"))
