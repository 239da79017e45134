"""What the records of one log show without a load: markers, steps back in time, and static members.

The native engine finds them while it counts a log. For the readable engine, the log is read a second time.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import read_control_type
from kafkagroups.history.clock_jumps import ClockJumps, StepBack, find_jump
from kafkagroups.history.finding import Finding
from kafkagroups.history.static_members import StaticMembers
from kafkagroups.loading import native
from kafkagroups.loading.engines import Engine
from kafkagroups.log.batch import Batch
from kafkagroups.log.segments import Log
from kafkagroups.records.control import ControlType
from kafkagroups.records.dialects import Dialect

_GROUP_KEY = b"\0\2"
"""The first two bytes of the keys of group records: their type."""


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


def read_signs(log: Log, dialect: Dialect, engine: Engine) -> LogSigns:
    """Read a log again."""
    reading = None
    if engine.name == "compiled":
        reading = native.read_if_possible(log, dialect, follow=native.COUNTS)
    if reading is not None:
        return signs_of(reading.totals(False), dialect)
    signs = LogSigns(dialect)
    for batch in log:
        signs.add_batch(batch)
    return signs


def signs_of(totals: dict[str, Any], dialect: Dialect) -> LogSigns:
    """Return the signs in what the native engine has counted (`Reading.totals`)."""
    signs = LogSigns(dialect)
    signs.abort_markers, signs.commit_markers = totals["markers"]
    signs.jumps.steps = [StepBack(*step) for step in totals["time_steps"]]
    for replacement in totals["static_replacements"]:
        signs.static_members.add_replaced(*replacement)
    return signs
