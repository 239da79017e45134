"""What became of each record of a log: it wins, is superseded, deleted, aborted, ignored, …

`Fates` listens to the readable loader. explain and stats are queries on it. A fate is final when the whole log has
been read: a record that still stands then wins if a broker answers from it.

- Offsets of a group that its coordinator does not have are hidden by the tombstone that ended the group.
- If the load of a partition fails, everything that still stands in it is ignored.
- If a group is answered from another partition, everything that still stands here is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import OFFSET_KEYS, find_group_id
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.observer import Fate, Observer
from kafkagroups.groups.offsets import KnownOffsets, Orphan, TopicPartition
from kafkagroups.history.record_fate import RecordFate
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch, LogRecord
from kafkagroups.records.control import ControlType, decode_control_key
from kafkagroups.records.group_keys import MemberIdKey
from kafkagroups.records.serde import Record, UnknownContent, decode
from kafkagroups.records.versions import Dialect

_GROUP_ENDING_TYPES = (2, 3, 11, 17)
"""The record types whose tombstone deletes a group."""
_ELSEWHERE = "the group is answered from another partition: its home, or the first partition with its records"
_NOT_REACHED = "the load does not get this far"

_Place = tuple[int | None, int]
"""A partition of the offsets topic and a record's offset in it."""
_GroupKey = tuple[int, str]
"""A record type, and the rest of a group record's key: a member id, a pattern, or "" for the group itself."""


class Fates(Observer):
    """The fates of a log's records, or of the records of one `group`.

    Give it to a loader, then call `settle` with the loader's result.
    """

    def __init__(self, rules: Dialect, group: str | None = None) -> None:
        self.rules = rules
        self.wanted = group
        self.records: dict[_Place, list[RecordFate]] = {}
        """By place. A valid batch can hold several records with the same offset."""
        self.partition: int | None = None
        self._markers: dict[int, RecordFate] = {}
        """The markers of the current batch, by offset."""
        self._ended_by: dict[_Place, set[int]] = {}
        """By marker: the offset records whose transaction it ended."""
        self._live: dict[tuple[int | None, str], dict[_GroupKey, int]] = {}
        """By partition and group: the offset of the newest value of each group record key."""
        self._group_ends: dict[tuple[int | None, str], int] = {}
        """By partition and group: the offset of the tombstone that ended it."""

    def batch(self, partition: int | None, batch: Batch) -> None:
        self.add_batch(partition, batch)

    def add_batch(self, partition: int | None, batch: Batch) -> list[tuple[RecordFate, Record | None]]:
        """Add the records of a batch. Return an entry for each record, wanted or not, with its decoded record.

        The decoded record is None for markers and for records that cannot be read.
        """
        self.partition = partition
        self._markers.clear()
        try:
            records = batch.records
        except BadBytes:
            return []
        entries = [self._marker_entry(record) if batch.is_control else self._entry(record) for record in records]
        for entry, _ in entries:
            entry.file = batch.file
            entry.producer_id = None if batch.producer_id == NO_PRODUCER_ID else batch.producer_id
            if entry.fate is Fate.MARKER and self.wanted is not None:
                # A marker is kept only if it ends a transaction of the wanted group.
                self._markers[entry.offset] = entry
            elif self.wanted is None or entry.group == self.wanted:
                self.records.setdefault((partition, entry.offset), []).append(entry)
        return entries

    def _marker_entry(self, record: LogRecord) -> tuple[RecordFate, None]:
        entry = _new_entry(self.partition, record)
        try:
            kind = decode_control_key(record.key)
        except BadBytes as error:
            entry.why = str(error)
            return entry, None
        if kind in (ControlType.COMMIT, ControlType.ABORT):
            entry.fate = Fate.MARKER
            entry.note = kind.name.lower()
        else:
            entry.why = "a control record that is not a transaction marker"
        return entry, None

    def _entry(self, log_record: LogRecord) -> tuple[RecordFate, Record | None]:
        entry = _new_entry(self.partition, log_record)
        try:
            record = decode(log_record.key, log_record.value, self.rules)
        except BadBytes as error:
            entry.why = str(error)
            return entry, None
        entry.type = record.type
        entry.group = find_group_id(record)
        if isinstance(record.key, UnknownContent):
            entry.why = f"this coordinator does not read record type {record.type}"
            return entry, record
        if isinstance(record.key, OFFSET_KEYS):
            entry.key = TopicPartition(record.key.topic, record.key.partition)
            entry.committed = getattr(record.value, "offset", None)
            entry.note = getattr(record.value, "metadata", None)
        elif isinstance(record.key, MemberIdKey):
            entry.member_id = record.key.member_id
        entry.fate = None if record.value is not None else Fate.TOMBSTONE
        return entry, record

    def set_fate(self, offset: int, fate: Fate, by: int) -> None:
        if not self.decide(offset, fate, by):
            return
        if fate in (Fate.WINS, Fate.ABORTED) and by in self._markers:
            self.records[self.partition, by] = [self._markers[by]]
            self._ended_by.setdefault((self.partition, by), set()).add(offset)

    def group(self, group_id: str, record: Record, offset: int, was_known: bool, is_known: bool) -> None:
        if self.wanted is not None and group_id != self.wanted:
            return
        live = self._live.setdefault((self.partition, group_id), {})
        key = (record.type, _rest_of_key(record))
        if record.value is None:
            self._end_records(live, [key], Fate.DELETED, offset)
            if record.type in _GROUP_ENDING_TYPES and was_known and not is_known:
                self._end_records(live, list(live), Fate.DELETED, offset, same_key=False)
                self._group_ends[self.partition, group_id] = offset
            return
        # A classic value replaces a group of a newer type, and a value of a newer type replaces a simple group.
        replaced = [other for other in live if other != key and (other[0] == 2) != (record.type == 2)]
        self._end_records(live, replaced, Fate.SUPERSEDED, offset, same_key=False)
        self._end_records(live, [key], Fate.SUPERSEDED, offset)
        live[key] = offset

    def _end_records(
        self, live: dict[_GroupKey, int], keys: list[_GroupKey], fate: Fate, by: int, *, same_key: bool = True
    ) -> None:
        for key in keys:
            if key in live:
                self.decide(live.pop(key), fate, by, same_key=same_key)

    def decide(self, offset: int, fate: Fate, by: int, *, same_key: bool = True) -> bool:
        """Set the fate of a record. A later record can still change it. Return False if the record is not kept.

        `same_key` says that the record at `by` has the same key. The log cleaner would then drop the older one, too.
        """
        entries = self.entries_at(offset, by)
        for entry in entries:
            entry.fate = fate
            entry.by = by
        return bool(entries)

    def entries_at(self, offset: int, by: int) -> list[RecordFate]:
        """Return the entries at an offset. If there are several, only those with the key of the record at `by`."""
        entries = self.records.get((self.partition, offset), [])
        if len(entries) < 2:
            return entries
        keys = {_identity(entry) for entry in self.records.get((self.partition, by), ())}
        return [entry for entry in entries if _identity(entry) in keys] or entries

    def settle(
        self, groups: Mapping[str, AnyGroup], orphans: Mapping[str, Orphan], failed: dict[int | None, str]
    ) -> None:
        """Decide the fate of every record that still stands. `failed` maps partitions to why their load fails."""
        for entry in self:
            if entry.fate not in (None, Fate.WINS) or entry.group is None:
                continue
            group = groups.get(entry.group)
            orphan = orphans.get(entry.group)
            if group is not None and group.partition != entry.partition:
                _ignore(entry, f"the group is answered from partition {group.partition}")
            elif group is not None:
                self._settle_known(entry, group)
            elif orphan is not None:
                self._settle_orphan(entry, orphan)
            elif entry.partition in failed:
                _ignore(entry, f"the load fails: {failed[entry.partition]}")
            else:
                _ignore(entry, _ELSEWHERE)

    def _settle_known(self, entry: RecordFate, group: AnyGroup) -> None:
        """Decide the fate of a record of a group that the coordinator has."""
        if entry.key is None:
            live = self._live.get((entry.partition, group.group_id), {})
            if entry.offset in live.values():
                entry.fate = Fate.WINS
            else:
                _ignore(entry, _NOT_REACHED)
        elif _holds(group.offsets, entry.key, entry.offset):
            entry.fate = Fate.WINS
        elif any(_holds(offsets, entry.key, entry.offset) for offsets in group.pending.values()):
            entry.fate = Fate.PENDING
        else:
            entry.by = None
            _ignore(entry, "a share group has no offsets" if group.type == "share" else _NOT_REACHED)

    def _settle_orphan(self, entry: RecordFate, orphan: Orphan) -> None:
        """Decide the fate of a record of a group whose offsets remain in memory without the group."""
        if entry.key is None:
            _ignore(entry, _NOT_REACHED)
        elif _holds(orphan.offsets, entry.key, entry.offset):
            entry.fate = Fate.HIDDEN
            entry.by = self._group_ends.get((entry.partition, entry.group or ""))
        elif any(_holds(offsets, entry.key, entry.offset) for offsets in orphan.pending.values()):
            entry.fate = Fate.PENDING
        else:
            entry.by = None
            _ignore(entry, _NOT_REACHED)

    def records_of(self, key: TopicPartition) -> list[RecordFate]:
        """Return the records of one offset, and the markers that ended their transactions."""
        return [entry for entry in self if entry.key == key or self._ends_transaction_of(entry, key)]

    def _ends_transaction_of(self, marker: RecordFate, key: TopicPartition) -> bool:
        ended = self._ended_by.get((marker.partition, marker.offset), ())
        return any(entry.key == key for offset in ended for entry in self.records[marker.partition, offset])

    def __iter__(self) -> Iterator[RecordFate]:
        """Iterate over the records in the order of the log."""
        places = sorted(self.records, key=lambda place: (-1 if place[0] is None else place[0], place[1]))
        return (entry for place in places for entry in self.records[place])


def _new_entry(partition: int | None, record: LogRecord) -> RecordFate:
    """Return an entry of a record that nothing is known of yet: it is ignored."""
    entry = RecordFate(partition, record.offset, None, None, None, None, Fate.IGNORED)
    entry.size = record.size
    entry.timestamp = record.timestamp
    return entry


def _ignore(entry: RecordFate, why: str) -> None:
    entry.fate = Fate.IGNORED
    entry.why = why


def _identity(entry: RecordFate) -> tuple[object, ...]:
    return (entry.group, entry.key, entry.member_id)


def _rest_of_key(record: Record) -> str:
    return str(getattr(record.key, "member_id", getattr(record.key, "regular_expression", "")))


def _holds(offsets: KnownOffsets, key: TopicPartition, record_offset: int) -> bool:
    """Whether the offset of a key comes from the record at this log offset."""
    offset = offsets.get(key)
    return offset is not None and offset.record_offset == record_offset
