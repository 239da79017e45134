"""What the records of one log show by themselves: markers, steps back in time, static members, where groups are.

Both engines find them while they count a log.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import LogKeys, read_control_type
from kafkagroups.history.clock_jumps import ClockJumps, StepBack
from kafkagroups.history.static_members import StaticMembers
from kafkagroups.loading.native import Extent
from kafkagroups.log.batch import Batch
from kafkagroups.records.control import ControlType
from kafkagroups.records.dialects import Dialect

_GROUP_KEY = b"\0\2"
"""The first two bytes of the keys of group records: their type."""


class LogSigns:
    """What the records of one log show. `commit_markers` and `abort_markers` count the markers of transactions.

    `extents` has for each group the first and the last offset of its records, and their number. `types` are the types
    of the records, apart from offset records.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._keys = LogKeys(dialect)
        self.commit_markers = 0
        self.abort_markers = 0
        self.jumps = ClockJumps()
        self.static_members = StaticMembers(dialect)
        self.extents: dict[str, Extent] = {}
        self.types: set[int] = set()

    def add_batch(self, batch: Batch) -> None:
        """Add the next batch of the log."""
        try:
            records = batch.records
        except BadBytes:
            return
        for record in records:
            self.jumps.add(record.offset, record.timestamp)
            if batch.is_control:
                with suppress(BadBytes):
                    self.add_markers([read_control_type(record).value])
                continue
            if record.key is not None:
                self.types.add(int.from_bytes(record.key[:2], "big", signed=True))
            if record.key is not None and record.key[:2] == _GROUP_KEY:
                self.static_members.add(record.offset, record.timestamp, record.key, record.value)
            with suppress(BadBytes):
                group_id = self._keys[record.key].group_id
                if group_id is not None:
                    self.add_group(group_id, record.offset)

    def add_group(self, group_id: str, offset: int) -> None:
        """Add the next record of a group."""
        extent = self.extents.get(group_id, Extent(offset, offset, 0, None))
        self.extents[group_id] = Extent(extent.first, offset, extent.records + 1, None)

    def add_markers(self, control_types: list[int]) -> None:
        self.commit_markers += control_types.count(ControlType.COMMIT.value)
        self.abort_markers += control_types.count(ControlType.ABORT.value)


def signs_of(totals: dict[str, Any], dialect: Dialect) -> LogSigns:
    """Return the signs in what the native engine has counted (`Reading.totals`)."""
    signs = LogSigns(dialect)
    signs.abort_markers, signs.commit_markers = totals["markers"]
    signs.jumps.steps = [StepBack(*step) for step in totals["time_steps"]]
    for replacement in totals["static_replacements"]:
        signs.static_members.add_replaced(*replacement)
    signs.types = {record_type for _, record_type, _ in totals["other_rows"]}
    signs.extents = {totals["group_ids"][number]: Extent(*extent) for number, *extent in totals["extents"]}
    return signs
