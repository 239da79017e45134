"""The tables `records` and `fates` as Arrow record batches, copied directly from the columns of the compiled engine.

The compiled engine must have loaded the log without an error. So every record can be decoded, and the column `error` is
null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kafkagroups.errors import InvalidLog
from kafkagroups.groups.observer import Fate
from kafkagroups.log.batch import NO_PRODUCER_ID
from kafkagroups.log.segments import Log
from kafkagroups.records.control import ControlType
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.record_json import to_json
from kafkagroups.records.record_types import RECORD_TYPES
from kafkagroups.records.serde import decode
from kafkagroups.tables.arrow_values import (
    make_booleans,
    make_names,
    make_nulls,
    make_numbers,
    make_strings,
    make_timestamps,
)
from kafkagroups.tables.columns import BATCH_BYTES, BATCH_ROWS, Column, arrow_schema, to_arrow_array
from kafkagroups.tables.rows import partition_number

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkagroups.kernels.read_records import RecordChunk

_CONTROL_NAMES = [
    member.name.lower() if member in (ControlType.COMMIT, ControlType.ABORT) else member.name for member in ControlType
]
"""The texts of the column `control`, in the order of ControlType. Only the types of markers are in lower case."""
_UNKNOWN_CONTROL = list(ControlType).index(ControlType.UNKNOWN)
_UNKNOWN_TYPE = 0
_TYPE_NAMES = ["Unknown", *(record_type.name for record_type in RECORD_TYPES.values())]
"""The texts of the column `name`."""
_FATE_NAMES = [fate.value for fate in Fate]


def read_record_arrays(
    log: Log, dialect: Dialect, batch_count: int, columns: Sequence[Column], fates: Any = None, by: Any = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the table `records` or `fates` as Arrow record batches.

    `batch_count` is how many batches the load of the log has read. `columns` are the columns of the result. For the
    table `fates`, `fates` and `by` have an element for each record of the log: the index of the fate in `Fate`, and the
    offset of the record that decided the fate (-1: none).
    """
    import pyarrow as pa

    from kafkagroups.kernels.read_records import RecordReader

    schema = arrow_schema(columns)
    row_count = 0
    for chunk in RecordReader(log, dialect, batch_count, BATCH_ROWS, BATCH_BYTES).read():
        end = row_count + len(chunk)
        if fates is not None and end > len(fates):
            raise InvalidLog(f"{log.path}: the log has changed while it was read: read it again")
        chunk_fates = None if fates is None else fates[row_count:end]
        chunk_by = None if by is None else by[row_count:end]
        row_count = end
        rows = _ArrowColumns(chunk, partition_number(log.partition), dialect, chunk_fates, chunk_by)
        content = [getattr(rows, column.name)() for column in columns]
        yield pa.RecordBatch.from_arrays(content, schema=schema)


class _ArrowColumns:
    """Rows of the table `records` or `fates`. Each method returns the Arrow column that has the method's name."""

    def __init__(self, chunk: RecordChunk, partition: int, dialect: Dialect, fates: Any, by: Any) -> None:
        from kafkagroups.kernels import record_columns

        self._names = record_columns
        self._chunk = chunk
        self._columns = chunk.columns
        self._partition = partition
        self._dialect = dialect
        self._fates = fates
        self._by = by
        self._has_type = self._columns[record_columns.TYPE] != record_columns.NO_TYPE

    def partition(self) -> pa.Array:
        import numpy as np

        return make_numbers("int32", np.full(len(self._chunk), self._partition))

    def offset(self) -> pa.Array:
        return make_numbers("int64", self._columns[self._names.OFFSET])

    def timestamp_ms(self) -> pa.Array:
        return make_numbers("int64", self._columns[self._names.TIMESTAMP])

    def timestamp(self) -> pa.Array:
        return make_timestamps(self._columns[self._names.TIMESTAMP])

    def batch_offset(self) -> pa.Array:
        return make_numbers("int64", self._columns[self._names.BATCH_OFFSET])

    def producer_id(self) -> pa.Array:
        producer_ids = self._columns[self._names.PRODUCER_ID]
        return make_numbers("int64", producer_ids, producer_ids != NO_PRODUCER_ID)

    def producer_epoch(self) -> pa.Array:
        has_producer = self._columns[self._names.PRODUCER_ID] != NO_PRODUCER_ID
        return make_numbers("int16", self._columns[self._names.PRODUCER_EPOCH], has_producer)

    def transactional(self) -> pa.Array:
        return make_booleans(self._columns[self._names.IS_TRANSACTIONAL])

    def control(self) -> pa.Array:
        import numpy as np

        index_of_number = {member.value: index for index, member in enumerate(ControlType)}
        numbers = self._columns[self._names.CONTROL_TYPE]
        indexes = np.full(len(numbers), _UNKNOWN_CONTROL)
        for number in np.unique(numbers).tolist():
            indexes[numbers == number] = index_of_number.get(number, _UNKNOWN_CONTROL)
        return make_names(_CONTROL_NAMES, indexes, ~self._has_type)

    def type(self) -> pa.Array:
        return make_numbers("int32", self._columns[self._names.TYPE], self._has_type)

    def name(self) -> pa.Array:
        import numpy as np

        types = self._columns[self._names.TYPE]
        indexes = np.full(len(types), _UNKNOWN_TYPE)
        for index, number in enumerate(RECORD_TYPES, start=1):
            indexes[self._chunk.is_read & (types == number)] = index
        return make_names(_TYPE_NAMES, indexes, self._has_type)

    def group(self) -> pa.Array:
        return self._texts(self._names.GROUP_START)

    def topic(self) -> pa.Array:
        return self._texts(self._names.TOPIC_START)

    def topic_partition(self) -> pa.Array:
        has_topic = self._columns[self._names.TOPIC_SIZE] >= 0
        return make_numbers("int32", self._columns[self._names.TOPIC_PARTITION], has_topic)

    def key(self) -> pa.Array:
        return self._texts(self._names.KEY_START, "binary")

    def value(self) -> pa.Array:
        return self._texts(self._names.VALUE_START, "binary")

    def value_version(self) -> pa.Array:
        versions = self._columns[self._names.VALUE_VERSION]
        return make_numbers("int32", versions, versions >= 0)

    def json(self) -> pa.Array:
        import pyarrow as pa

        memory: Any = memoryview(self._chunk.data.data)
        places = self._columns[self._names.KEY_START : self._names.VALUE_SIZE + 1].T.tolist()
        texts: list[str | None] = []
        for has_type, (key_start, key_size, value_start, value_size) in zip(
            self._has_type.tolist(), places, strict=True
        ):
            if not has_type:
                texts.append(None)
                continue
            value = None if value_size < 0 else bytes(memory[value_start : value_start + value_size])
            record = decode(bytes(memory[key_start : key_start + key_size]), value, self._dialect)
            texts.append(json.dumps(to_json(record, self._dialect)))
        return to_arrow_array(pa.string(), texts)

    def error(self) -> pa.Array:
        return make_nulls("string", len(self._chunk))

    def member_id(self) -> pa.Array:
        return self._texts(self._names.MEMBER_START)

    def committed_offset(self) -> pa.Array:
        has_offset = (self._columns[self._names.TOPIC_SIZE] >= 0) & (self._columns[self._names.VALUE_SIZE] >= 0)
        return make_numbers("int64", self._columns[self._names.COMMITTED_OFFSET], has_offset)

    def key_bytes(self) -> pa.Array:
        return make_numbers("int32", self._columns[self._names.KEY_SIZE])

    def value_bytes(self) -> pa.Array:
        sizes = self._columns[self._names.VALUE_SIZE]
        return make_numbers("int32", sizes, sizes >= 0)

    def fate(self) -> pa.Array:
        return make_names(_FATE_NAMES, self._fates)

    def by(self) -> pa.Array:
        return make_numbers("int64", self._by, self._by >= 0)

    def _texts(self, start_column: int, type_name: str = "string") -> pa.Array:
        texts = self._chunk.texts(start_column)
        return make_strings(texts, texts.is_present, type_name=type_name)
