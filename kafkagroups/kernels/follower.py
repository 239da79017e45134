"""Follows the records that are not offset records: counts, bytes and fates.

The kernels follow the fates of offset records (fates.py). This module follows the other records, which are few, in
plain Python with the rules of groups/newest_values.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafkagroups.anatomy.written_by import writers_of
from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import find_group_id
from kafkagroups.groups.newest_values import CLASSIC_GROUP_TYPE, GROUP_ENDING_TYPES, GroupKey, NewestValues
from kafkagroups.groups.observer import Fate
from kafkagroups.kernels import layout
from kafkagroups.kernels.arrays import Array
from kafkagroups.kernels.state import FoldState
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.group_keys import GroupIdKey
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.serde import UnknownContent, decode
from kafkagroups.records.versions import EVERY_VERSION, VersionRange

MAX_CACHED_KEYS = 100_000
"""How many decoded keys the follower keeps."""
FATE_NUMBERS = {fate: number for number, fate in enumerate(Fate, start=1)}
"""The number of each fate in the array `fates` (layout.py)."""


class _LiveRecord(NamedTuple):
    """A group record that is the newest one of its key."""

    number: int
    bytes: int
    segment: int
    type: int


class _Key(NamedTuple):
    """A decoded key of a record that is not an offset record.

    `group` is None if the record has no group. `group_key` is None if the record is not a group record. `is_read` says
    whether the coordinator reads the record type.
    """

    type: int
    group: str | None
    group_key: GroupKey | None
    is_read: bool


class RecordFollower:
    """Follows the records of one log that are not offset records. Give it to a FoldState before the log is read."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.writers: set[VersionRange] = set()
        self.counts: dict[tuple[str | None, int], list[int]] = {}
        """Records, bytes and tombstones, by group id and record type."""
        self.newest: dict[str, NewestValues[_LiveRecord]] = {}
        """The newest group records with a value, by group id."""
        self.group_changes: dict[str, list[tuple[int, bool]]] = {}
        """By group id: the offset of each group record, and whether the group exists after it.

        It is filled only if each fate is kept. Records that change nothing are left out.
        """
        self._keys: dict[bytes, _Key] = {}
        self._writers_of_version: dict[int, VersionRange] = {}
        self._state: FoldState | None = None

    def follow(self, state: FoldState, data: Array, other_positions: Array) -> None:
        """Follow records, as RecordFollower in state.py says.

        Records that cannot be decoded are skipped: the engine will hand over their log.
        """
        self._state = state
        memory = memoryview(data)
        segment = int(state.counts[layout.SEGMENT])
        for position in other_positions.tolist():
            try:
                self._follow_record(state, memory, position, segment)
            except BadBytes:
                break
        self._note_kinds(memory, state.kinds)

    def _note_kinds(self, memory: memoryview, kinds: Array) -> None:
        """Add the writers of the new kinds of offset records. `memory` contains an example of each new kind."""
        is_new = (kinds[:, layout.KIND_IS_SEEN] == 1) & (kinds[:, layout.KIND_KEY_SIZE] > 0)
        for number in np.flatnonzero(is_new).tolist():
            _, key_start, key_size, value_start, value_size = kinds[number].tolist()
            kinds[number, layout.KIND_KEY_SIZE] = 0
            key = bytes(memory[key_start : key_start + key_size])
            value = None if value_size < 0 else bytes(memory[value_start : value_start + value_size])
            try:
                record = decode(key, value, self.dialect)
            except BadBytes:
                continue
            self.writers.add(writers_of(record, is_transactional=bool(number & 1)))

    def _follow_record(self, state: FoldState, memory: memoryview, position: list[int], segment: int) -> None:
        offset, key_start, key_size, _, value_size, number, size = position
        key = self._decode_key(bytes(memory[key_start : key_start + key_size]))
        is_tombstone = value_size < 0
        count = self.counts.get((key.group, key.type))
        if count is None:
            count = [0, 0, 0]
            self.counts[key.group, key.type] = count
        count[0] += 1
        count[1] += size
        if not key.is_read:
            self.writers.add(EVERY_VERSION)
            self._note_fate(number, layout.IGNORED)
            return
        if is_tombstone:
            count[2] += 1
            self._note_fate(number, layout.TOMBSTONE)
        self._note_writers(memory, position, key, is_tombstone)
        if key.group is None or key.group_key is None:
            return
        newest = self.newest.get(key.group)
        if newest is None:
            newest = NewestValues(self._decide)
            self.newest[key.group] = newest
        self._current_segment = segment
        if state.keeps_each_fate and not (is_tombstone and key.type not in GROUP_ENDING_TYPES):
            self.group_changes.setdefault(key.group, []).append((offset, not is_tombstone))
        if is_tombstone:
            newest.delete(key.group_key, offset)
        else:
            newest.put(key.group_key, _LiveRecord(number, size, segment, key.type), offset)

    def _decode_key(self, key_bytes: bytes) -> _Key:
        key = self._keys.get(key_bytes)
        if key is None:
            record = decode(key_bytes, None, self.dialect)
            is_group_key = isinstance(record.key, GroupMetadataKey | GroupIdKey)
            is_read = not isinstance(record.key, UnknownContent)
            key = _Key(record.type, find_group_id(record), GroupKey.of(record) if is_group_key else None, is_read)
            if len(self._keys) >= MAX_CACHED_KEYS:
                self._keys.clear()
            self._keys[key_bytes] = key
        return key

    def _note_writers(self, memory: memoryview, position: list[int], key: _Key, is_tombstone: bool) -> None:
        """Add the Kafka versions that can have written a record.

        The fields of a classic group's value were all added together with a value version. So its value version alone
        says which versions can have written it.
        """
        _, key_start, key_size, value_start, value_size, *_ = position
        if is_tombstone:
            version = -1 - key.type
        elif key.type == CLASSIC_GROUP_TYPE:
            version = int.from_bytes(memory[value_start : value_start + 2], "big")
        else:
            version = None
        writers = None if version is None else self._writers_of_version.get(version)
        if writers is None:
            key_bytes = bytes(memory[key_start : key_start + key_size])
            value = None if is_tombstone else bytes(memory[value_start : value_start + value_size])
            writers = writers_of(decode(key_bytes, value, self.dialect))
            if version is not None:
                self._writers_of_version[version] = writers
        self.writers.add(writers)

    def _decide(self, record: _LiveRecord, fate: Fate, by: int, has_same_key: bool) -> None:
        assert self._state is not None
        if has_same_key:
            later_segment = max(record.segment, self._current_segment)
            self._state.segments[later_segment, layout.REPLACED_BYTES] += record.bytes
        self._note_fate(record.number, FATE_NUMBERS[fate], by)

    def _note_fate(self, number: int, fate: int, by: int = layout.NO_RECORD) -> None:
        assert self._state is not None
        if self._state.keeps_each_fate:
            self._state.fates[number] = fate
            self._state.by[number] = by
