"""What the records of one log show without a load: markers, steps back in time, and static members.

The log is read a second time. If the compiled engine has folded the log, its reader gives whole columns, so that only
the group records are read in Python.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import read_control_type
from kafkagroups.history.clock_jumps import ClockJumps, find_jump
from kafkagroups.history.finding import Finding
from kafkagroups.history.static_members import StaticMembers
from kafkagroups.loading.groups import Groups
from kafkagroups.log.batch import Batch
from kafkagroups.log.segments import Log
from kafkagroups.records.control import ControlType
from kafkagroups.records.dialects import Dialect

GROUP_TYPE = 2
_GROUP_KEY = b"\0\2"
"""The first two bytes of the keys of group records: their type."""
_ROWS = 1 << 16
_BYTES = 1 << 24
"""The size of a chunk of the compiled reader: records, and bytes of keys and values."""


class LogSigns:
    """What the records of one log show. `commit_markers` and `abort_markers` count the markers of transactions."""

    def __init__(self, dialect: Dialect) -> None:
        self.commit_markers = 0
        self.abort_markers = 0
        self.jumps = ClockJumps()
        self.static_members = StaticMembers(dialect)

    def find(self, log: Log, dialect: Dialect) -> list[Finding]:
        """Return the findings about the log that was read."""
        return [*find_jump(log, self.jumps, dialect), *self.static_members.find(log.partition)]

    def add_batch(self, batch: Batch) -> None:
        """Add the next batch of the log."""
        try:
            records = batch.records
        except BadBytes:
            return
        for record in records:
            self.jumps.add(record.offset, record.timestamp)
            if batch.is_control:
                try:
                    self.add_markers([read_control_type(record).value])
                except BadBytes:
                    continue
            elif record.key is not None and record.key[:2] == _GROUP_KEY:
                self.static_members.add(record.offset, record.timestamp, record.key, record.value)

    def add_markers(self, control_types: list[int]) -> None:
        self.commit_markers += control_types.count(ControlType.COMMIT.value)
        self.abort_markers += control_types.count(ControlType.ABORT.value)


def read_signs(log: Log, dialect: Dialect, groups: Groups) -> LogSigns:
    """Read a log again. `groups` is the load of all logs."""
    signs = LogSigns(dialect)
    if log.partition in groups.compiled_partitions:
        _read_columns(log, dialect, groups.partitions[log.partition].batches, signs)
    else:
        for batch in log:
            signs.add_batch(batch)
    return signs


def _read_columns(log: Log, dialect: Dialect, batch_count: int, signs: LogSigns) -> None:
    """Read a log with the compiled reader. `batch_count` is how many batches the load has read."""
    from kafkagroups.kernels import record_columns as names
    from kafkagroups.kernels.read_records import KernelColumnReader

    places = [names.KEY_START, names.KEY_SIZE, names.VALUE_START, names.VALUE_SIZE]
    of_group_records = [names.OFFSET, names.TIMESTAMP, *places]
    for chunk in KernelColumnReader(log, dialect, batch_count, _ROWS, _BYTES).read():
        columns = chunk.columns
        signs.jumps.add_columns(columns[names.OFFSET], columns[names.TIMESTAMP])
        types = columns[names.TYPE]
        signs.add_markers(columns[names.CONTROL_TYPE, types == names.NO_TYPE].tolist())
        memory: Any = memoryview(chunk.data.data)
        rows = columns[of_group_records][:, types == GROUP_TYPE].T.tolist()
        for offset, timestamp, key_start, key_size, value_start, value_size in rows:
            value = None if value_size < 0 else bytes(memory[value_start : value_start + value_size])
            key = bytes(memory[key_start : key_start + key_size])
            signs.static_members.add(offset, timestamp, key, value)
