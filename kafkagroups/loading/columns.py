"""The columns of a log's tables (`TABLES`), and the conversion of rows to Arrow record batches.

`TABLES` uses Spark's type names; a `?` after the type means that the column can be null. The first column of every
table is the number of the partition of `__consumer_offsets`, or -1 if the name of the log's folder has none.

A column `…_ms` has a time in ms since the epoch, as the log stores it, and the one without `_ms` the same time as a
timestamp, which is null if its year is outside pandas' range.

A row is a dict with a value for each column except the timestamps; a column that is not in it is null. In Arrow, half
of a surrogate pair in a text becomes `?`, because UTF-8 cannot encode it (records/wire.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kafkagroups.errors import UsageError
from kafkagroups.records.wire import encode_utf8

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
"""The values of a row by the names of their columns. Other entries are ignored."""

BATCH_ROWS = 65_536
BATCH_BYTES = 64 * 1024 * 1024
"""An Arrow record batch ends when its strings and lists have more than this number of bytes."""

MIN_TIMESTAMP_MS = -9_214_560_000_000
"""The beginning of 1678 in ms since the epoch: the first time that is converted to a timestamp."""
TIMESTAMP_END_MS = 9_214_646_400_000
"""The beginning of 2262 in ms since the epoch: the first time that is no longer converted to a timestamp."""


class Column(NamedTuple):
    name: str
    type: str
    nullable: bool


def parse_columns(text: str) -> tuple[Column, ...]:
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
    """Raises UsageError if there is no such table or column.

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


def partition_number(partition: int | None) -> int:
    return -1 if partition is None else partition


def schema_ddl(columns: Iterable[Column]) -> str:
    return ", ".join(f"{column.name} {column.type}{'' if column.nullable else ' NOT NULL'}" for column in columns)


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
    import pyarrow as pa

    schema = arrow_schema(columns)
    times = [column.name for column in columns if column.type == "timestamp"]
    names_of_any_size = [column.name for column in columns if column.type in _TYPES_OF_ANY_SIZE]

    def count_bytes(row: Row) -> int:
        contents = (row.get(name) for name in names_of_any_size)
        sizes = (len(each) * _BYTES_PER_ELEMENT if isinstance(each, list) else len(each or "") for each in contents)
        return sum(sizes)

    for chunk in split_by_size(rows, count_bytes, BATCH_ROWS, BATCH_BYTES):
        for row in chunk:
            for name in times:
                row[name] = _to_microseconds(row.get(f"{name}_ms"))
        try:
            batch = pa.RecordBatch.from_pylist(chunk, schema)
        except UnicodeEncodeError:
            batch = pa.RecordBatch.from_pylist(_encode_texts(chunk), schema)
        yield batch


_TYPES_OF_ANY_SIZE = ("string", "binary", "array<string>")
_BYTES_PER_ELEMENT = 32


T = TypeVar("T")


def split_by_size(items: Iterable[T], measure: Callable[[T], int], max_count: int, max_size: int) -> Iterator[list[T]]:
    """Yield lists of at most `max_count` items and at most the size `max_size`, but of one item at least."""
    part: list[T] = []
    size = 0
    for item in items:
        added = measure(item)
        if part and (len(part) == max_count or size + added > max_size):
            yield part
            part = []
            size = 0
        part.append(item)
        size += added
    if part:
        yield part


def _to_microseconds(time_ms: int | None) -> int | None:
    if time_ms is None or not MIN_TIMESTAMP_MS <= time_ms < TIMESTAMP_END_MS:
        return None
    return time_ms * 1000


def _encode_texts(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_encode_texts, value))
    if isinstance(value, dict):
        return {name: _encode_texts(each) for name, each in value.items()}
    return encode_utf8(value) if isinstance(value, str) else value
