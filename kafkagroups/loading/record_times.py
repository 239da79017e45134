"""The times of the records of some groups in one partition, read a second time after a load.

They are only needed for groups with records in several partitions (topic_partitions.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import LogKeys
from kafkagroups.loading import native
from kafkagroups.loading.engines import PYTHON, Engine
from kafkagroups.loading.topic_partitions import ReadTimes, RecordTimes
from kafkagroups.log.batch import NO_TIMESTAMP
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import Stop, batches_until
from kafkagroups.records.dialects import Dialect

FIRST_BATCHES = 1000
"""How many batches are read from the beginning of a partition."""


class LogTimes(ReadTimes):
    """The times of the records in logs that were loaded.

    `stops` says where reading has ended in each partition (log/stop.py). `engine` reads the times.
    """

    def __init__(
        self,
        logs: Sequence[Log],
        dialect: Dialect,
        stops: Mapping[int | None, Stop],
        engine: Engine = PYTHON,
    ) -> None:
        self._log_of = {log.partition: log for log in logs}
        self._dialect = dialect
        self._stops = stops
        self._engine = engine

    def of_groups(self, partition: int | None, group_ids: Collection[str]) -> dict[str, RecordTimes]:
        if self._engine.name == "compiled" and partition in self._log_of:
            extents = native.read_extents(self._log_of[partition], self._dialect, self._stops[partition])
            if extents is not None:
                found = {group_id: extents[group_id].times for group_id in group_ids if group_id in extents}
                return {group_id: RecordTimes(*times) for group_id, times in found.items() if times is not None}
        return _collect(self._read_records(partition), frozenset(group_ids))

    def of_first_records(self, partition: int | None) -> dict[str, RecordTimes]:
        return _collect(self._read_records(partition, FIRST_BATCHES), None)

    def _read_records(self, partition: int | None, max_batches: int | None = None) -> Iterator[tuple[str, int]]:
        """Yield the group id and the timestamp of each record of a group. Records that cannot be read are left out."""
        if partition not in self._log_of:
            return
        keys = LogKeys(self._dialect)
        try:
            for batch in islice(batches_until(self._log_of[partition], self._stops[partition]), max_batches):
                for record in () if batch.is_control else batch.records:
                    try:
                        group_id = keys[record.key].group_id
                    except BadBytes:
                        continue
                    if group_id is not None:
                        yield group_id, record.timestamp
        except BadBytes:  # The load has ended at this batch, too.
            return


def _collect(records: Iterator[tuple[str, int]], group_ids: Collection[str] | None) -> dict[str, RecordTimes]:
    """Return the times of these groups, or of all groups if `group_ids` is None. The records are those of one log."""
    times: dict[str, RecordTimes] = {}
    for group_id, timestamp in records:
        if timestamp == NO_TIMESTAMP or (group_ids is not None and group_id not in group_ids):
            continue
        known = times.get(group_id)
        if known is None:
            times[group_id] = RecordTimes(timestamp, timestamp)
        elif not known.first_ms <= timestamp <= known.last_ms:
            times[group_id] = RecordTimes(min(known.first_ms, timestamp), max(known.last_ms, timestamp))
    return times
