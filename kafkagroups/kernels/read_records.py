"""Reads all records from a log that the compiled engine has loaded without an error, as chunks of columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kafkagroups.groups.log_records import find_group_id
from kafkagroups.kernels import record_columns
from kafkagroups.kernels.record_columns import (
    COLUMN_COUNT,
    GROUP_SIZE,
    GROUP_START,
    KEY_SIZE,
    KEY_START,
    MEMBER_SIZE,
    MEMBER_START,
    NO_TYPE,
    TYPE,
    VALUE_SIZE,
    VALUE_START,
    VALUE_VERSION,
    copy_texts,
)
from kafkagroups.kernels.second_reading import Array, SecondReading
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.group_keys import MemberIdKey
from kafkagroups.records.record_types import newest_value_version
from kafkagroups.records.serde import UnknownContent, decode
from kafkagroups.records.text import encode_utf8

MAX_CACHED_KEYS = 100_000
"""How many decoded keys the reader keeps."""


class Texts(NamedTuple):
    """Texts in Arrow's layout, and which of them are not null.

    `content` contains the bytes of all texts, one after another. The first element of `ends` is 0. The other elements
    are the positions in `content` where the texts end.
    """

    ends: Array
    content: Array
    is_present: Array


class RecordChunk(NamedTuple):
    """Consecutive records of a log.

    `columns` has the columns of record_columns.py. `data` are the bytes of the segment, and `added_texts` are texts
    that the columns refer to. `is_read` says for each record whether the coordinator reads its record type.
    """

    data: Array
    added_texts: Array
    columns: Array
    is_read: Array

    def __len__(self) -> int:
        return int(self.columns.shape[1])

    def texts(self, start_column: int) -> Texts:
        """Return the texts whose starts are in this column, and whose sizes are in the next column."""
        starts = self.columns[start_column]
        sizes = self.columns[start_column + 1]
        ends = np.zeros(len(self) + 1, np.int32)
        np.cumsum(np.maximum(sizes, 0), out=ends[1:])
        content = np.empty(int(ends[-1]), np.uint8)
        copy_texts(self.data, self.added_texts, starts, sizes, content)
        return Texts(ends, content, sizes >= 0)


class _Key(NamedTuple):
    """A decoded key: the group id and the member id as UTF-8 (None: there is none), and whether the type is read."""

    group: bytes | None
    member: bytes | None
    is_read: bool


class RecordReader(SecondReading[RecordChunk]):
    """The reader of all records.

    `batch_count` is how many batches the load of the log has read: later batches are not read. A chunk has about
    `max_rows` records and `max_bytes` bytes of keys and values, or one larger batch.
    """

    def __init__(self, log: Log, dialect: Dialect, batch_count: int, max_rows: int, max_bytes: int) -> None:
        super().__init__(log)
        self.dialect = dialect
        self._batches_left = np.array([batch_count], np.int64)
        self._max_bytes = max_bytes
        self._columns = np.empty((COLUMN_COUNT, max_rows), np.int64)
        self._keys: dict[bytes, _Key] = {}

    @property
    def has_more(self) -> bool:
        return bool(self._batches_left[0])

    def scan(self, data: Array, position: int) -> tuple[int, int, int]:
        status, next_position, count = record_columns.read_records(
            data, position, self._batches_left, self._max_bytes, self._columns
        )
        return status, next_position, count

    def grow(self) -> None:
        self._columns = np.empty((COLUMN_COUNT, 2 * self._columns.shape[1]), np.int64)

    def collect(self, data: Array, count: int, segment: str) -> Iterator[RecordChunk]:
        if not count:
            return
        columns = self._columns[:, :count].copy()
        types = columns[TYPE]
        is_read = types != NO_TYPE
        added_texts = bytearray()
        memory = memoryview(data)
        # The kernel reads offset records and control records completely. The other records are few.
        for row in np.flatnonzero((types != 0) & (types != 1) & (types != NO_TYPE)).tolist():
            key_start = int(columns[KEY_START, row])
            key = self._decode_key(bytes(memory[key_start : key_start + int(columns[KEY_SIZE, row])]))
            for text, start_column, size_column in (
                (key.group, GROUP_START, GROUP_SIZE),
                (key.member, MEMBER_START, MEMBER_SIZE),
            ):
                if text is not None:
                    columns[start_column, row] = ~len(added_texts)
                    columns[size_column, row] = len(text)
                    added_texts += text
            is_read[row] = key.is_read
            if key.is_read and columns[VALUE_SIZE, row] >= 0:
                value_start = int(columns[VALUE_START, row])
                version = int.from_bytes(memory[value_start : value_start + 2], "big", signed=True)
                newest_version = newest_value_version(self.dialect, int(types[row]))
                columns[VALUE_VERSION, row] = min(max(version, 0), newest_version)
        # A group id can be empty, but numpy cannot make an array from 0 bytes.
        yield RecordChunk(data, np.frombuffer(bytes(added_texts) or b"\0", np.uint8), columns, is_read)

    def _decode_key(self, key_bytes: bytes) -> _Key:
        key = self._keys.get(key_bytes)
        if key is None:
            record = decode(key_bytes, None, self.dialect)
            group = find_group_id(record)
            member = record.key.member_id if isinstance(record.key, MemberIdKey) else None
            key = _Key(
                None if group is None else encode_utf8(group),
                None if member is None else encode_utf8(member),
                not isinstance(record.key, UnknownContent),
            )
            if len(self._keys) >= MAX_CACHED_KEYS:
                self._keys.clear()
            self._keys[key_bytes] = key
        return key


class KernelColumnReader(RecordReader):
    """The reader of only those columns that the kernel fills: it decodes no keys, and a chunk has no added texts.

    A chunk is valid until the next one is read.
    """

    def collect(self, data: Array, count: int, segment: str) -> Iterator[RecordChunk]:
        if count:
            columns = self._columns[:, :count]
            yield RecordChunk(data, np.empty(0, np.uint8), columns, columns[TYPE] != NO_TYPE)
