"""What the compiled engine finds out about the records of one log: counts, bytes, fates, and open transactions.

The caller decides, after all logs are loaded, from which partition each group is answered. So the counts of live
records are kept per group until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kafkagroups.groups.answers import Answers
from kafkagroups.groups.log_records import find_group_id
from kafkagroups.groups.observer import Fate
from kafkagroups.kernels import layout
from kafkagroups.kernels.arrays import Array
from kafkagroups.kernels.follower import RecordFollower
from kafkagroups.kernels.open_keys import OpenKeyReader
from kafkagroups.kernels.state import FoldState
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.serde import decode
from kafkagroups.records.text import decode_utf8
from kafkagroups.records.versions import VersionRange

_COMMITTED, _PENDING = range(2)
_TYPE_COUNT = 2
"""The number of types of offset records."""


class RowCount(NamedTuple):
    """How many records belong to a group, a topic and a record type, and their bytes on disk.

    `group`, `topic` and `type` are None if the records have none. `live_records` and `live_bytes` count the records
    from which a broker answers, and the commits whose transaction is open.
    """

    group: str | None
    topic: str | None
    type: int | None
    records: int
    bytes: int
    tombstones: int
    live_records: int
    live_bytes: int


@dataclass
class FollowedLog:
    """What was found out about one log.

    Attributes
    ----------
    partition
        The partition of the offsets topic; None if the log's folder has no partition number.
    disk_bytes
        The size of all batches on disk.
    first_timestamp, last_timestamp
        The smallest and the largest timestamp of a record, in ms; None if no record has a timestamp.
    segment_bytes, replaced_bytes
        For each segment: the size of its batches on disk, and the bytes of replaced records (REPLACED_BYTES).
    traces
        For each segment: the end, the horizon and the newest timestamp of the cleaner's traces (TRACE_END).
    open_transactions
        For each open transaction, in the order of the first offsets: the producer id, the first offset, the timestamp
        of its first record in ms, and the ids of its groups.
    writers
        The Kafka versions that can have written the records.
    """

    partition: int | None
    disk_bytes: int
    first_timestamp: int | None
    last_timestamp: int | None
    segment_bytes: list[int]
    replaced_bytes: list[int]
    traces: list[list[int]]
    open_transactions: list[tuple[int, int, int, list[str]]]
    writers: set[VersionRange]
    _control_records: int
    _control_bytes: int
    _state: FoldState
    _follower: RecordFollower
    _group_ids: list[str]
    _group_of_name: Array
    _live: Array
    """Shape (names, types, 2, 2): for each name and type, the records and bytes of committed and of pending offsets."""

    @classmethod
    def finish(cls, log: Log, dialect: Dialect, state: FoldState, follower: RecordFollower) -> FollowedLog:
        """Return what was found out about a log, after the compiled engine has folded it."""
        live = _count_live(state)
        group_ids, group_of_name = state.list_group_ids()
        counts = state.counts.tolist()
        has_timestamp = counts[layout.FIRST_TIME] <= counts[layout.LATEST_TIME]
        followed = cls(
            log.partition,
            counts[layout.DISK_BYTES],
            counts[layout.FIRST_TIME] if has_timestamp else None,
            counts[layout.LATEST_TIME] if has_timestamp else None,
            state.segments[:, layout.SEGMENT_BYTES].tolist(),
            state.segments[:, layout.REPLACED_BYTES].tolist(),
            state.segments[:, layout.TRACE_END :].tolist(),
            _list_open_transactions(log, dialect, state),
            follower.writers,
            counts[layout.CONTROL_RECORDS],
            counts[layout.CONTROL_BYTES],
            state,
            follower,
            group_ids,
            group_of_name,
            live,
        )
        state.release_fate_arrays()
        return followed

    def count_rows(self, by: str, answers: Answers) -> Iterator[RowCount]:
        """Yield the counts of all records of the log.

        `by` says which fields of the rows are needed: "group", "topic", "type" or "partition". The other fields can be
        None, so that there are fewer rows.
        """
        yield RowCount(None, None, None, self._control_records, self._control_bytes, 0, 0, 0)
        yield from self._count_other_rows(answers)
        yield from self._count_offset_rows(by, answers)
        for name_bytes, totals in self._state.totals_of_dropped_names.items():
            group, topic = _decode_name(name_bytes)
            for record_type, row in enumerate(totals.reshape(_TYPE_COUNT, layout.TOTAL_COLUMNS).tolist()):
                if row[layout.TOTAL_RECORDS]:
                    yield RowCount(group, topic, record_type, *row, 0, 0)

    def _count_other_rows(self, answers: Answers) -> Iterator[RowCount]:
        """Yield the counts of the records that are neither offset records nor control records."""
        for (group, record_type), count in self._follower.counts.items():
            yield RowCount(group, None, record_type, *count, 0, 0)
        for group, newest in self._follower.newest.items():
            if newest.records and answers.find(group, self.partition).records is Fate.WINS:
                for record in newest.records.values():
                    yield RowCount(group, None, record.type, 0, 0, 0, 1, record.bytes)

    def _count_offset_rows(self, by: str, answers: Answers) -> Iterator[RowCount]:
        """Yield the counts of the offset records. In a row of several topics, the topic is None."""
        found_answers = [answers.find(group, self.partition) for group in self._group_ids]
        is_live = np.array(
            [(answer.committed is Fate.WINS, answer.pending is Fate.PENDING) for answer in found_answers], np.int64
        ).reshape(-1, 2)
        live = (self._live * is_live[self._group_of_name][:, None, :, None]).sum(axis=2)
        name_count = len(self._group_of_name)
        totals = self._state.name_totals[:name_count].reshape(-1, _TYPE_COUNT, layout.TOTAL_COLUMNS)
        columns = np.concatenate([totals, live], axis=2)
        if by == "topic":
            names = self._state.names[:name_count, layout.NAME_TEXT].tolist()
            for text_reference, rows in zip(names, columns.tolist(), strict=True):
                group, topic = _decode_name(self._state.read_text(text_reference))
                for record_type, row in enumerate(rows):
                    if any(row):
                        yield RowCount(group, topic, record_type, *row)
            return
        group_columns = np.zeros((len(self._group_ids), *columns.shape[1:]), np.int64)
        np.add.at(group_columns, self._group_of_name, columns)
        for group, rows in zip(self._group_ids, group_columns.tolist(), strict=True):
            for record_type, row in enumerate(rows):
                if any(row):
                    yield RowCount(group, None, record_type, *row)


def _count_live(state: FoldState) -> Array:
    """Return the array `_live` of a FollowedLog."""
    name_count = int(state.counts[layout.NAMES])
    entry_count = int(state.counts[layout.ENTRIES])
    live = np.zeros((name_count, _TYPE_COUNT, 2, 2), np.int64)
    names = state.entries[:entry_count, layout.NAME_AND_PARTITION] >> layout.PARTITION_BITS
    committed = np.flatnonzero(state.entries[:entry_count, layout.RECORD_OFFSET] >= 0)
    _add_live(live, _COMMITTED, names[committed], state.key_records[committed])
    pending = state.list_pending_nodes()
    _add_live(live, _PENDING, names[state.nodes[pending, layout.ENTRY]], state.node_records[pending])
    return live


def _add_live(live: Array, kind: int, names: Array, records: Array) -> None:
    """Add records to the committed or pending ones in `live`. `names` are the numbers of the records' names."""
    types = records[:, layout.RECORD_TYPE]
    np.add.at(live, (names, types, kind, 0), 1)
    np.add.at(live, (names, types, kind, 1), records[:, layout.RECORD_BYTES])


def _list_open_transactions(log: Log, dialect: Dialect, state: FoldState) -> list[tuple[int, int, int, list[str]]]:
    rows = state.list_open_transactions()
    groups: dict[int, set[str]] = {producer_id: set() for producer_id in rows[:, layout.NUMBER].tolist()}
    if len(rows):
        batch_count = int(state.counts[layout.BATCHES])
        for producer_id, key in set(OpenKeyReader(log, state.transactions, batch_count).read()):
            group = find_group_id(decode(key, None, dialect))
            if group is not None:
                groups[producer_id].add(group)
    return [
        (producer_id, first_offset, since_ms, sorted(groups[producer_id]))
        for producer_id, _, first_offset, since_ms, _ in rows.tolist()
    ]


def _decode_name(name_bytes: bytes) -> tuple[str, str]:
    """Return the group id and the topic of a name."""
    group_end = 2 + int.from_bytes(name_bytes[:2], "big")
    return decode_utf8(name_bytes[2:group_end]), decode_utf8(name_bytes[group_end + 2 :])
