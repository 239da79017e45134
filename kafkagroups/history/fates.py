"""The fates of a log's records: each wins, or is superseded, deleted, aborted, …

`Fates` is an observer (groups/observer.py) of the readable engine, the loader in plain Python. The verbs explain and
stats are based on `Fates`. During the load, a record can be superseded, deleted or aborted by a later record. The fates
of the remaining records are decided after the load. A remaining record wins if a broker answers from it; it is pending
if its transaction is open. Otherwise:

- Offsets of a group that the coordinator does not have are hidden by the tombstone that deleted the group.
- If the load of a partition fails, the remaining records in this partition are ignored.
- If the broker answers for a group from another log partition, the group's remaining records in this log partition are
  ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import OFFSET_KEYS, find_group_id
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.observer import Fate, Observer, StoredOffset
from kafkagroups.groups.offsets import KnownOffsets, Orphan, TopicPartition
from kafkagroups.history.record_fate import RecordFate
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch, LogRecord
from kafkagroups.records.control import ControlType, decode_control_key
from kafkagroups.records.group_keys import MemberIdKey
from kafkagroups.records.serde import Record, UnknownContent, decode
from kafkagroups.records.versions import Dialect

_GROUP_ENDING_TYPES = (2, 3, 11, 17)
"""A tombstone of one of these record types deletes its group."""
_ELSEWHERE = "the group is answered from another partition: its home, or the first partition with its records"
_NOT_REACHED = "the load does not get this far"

_RecordPosition = tuple[int | None, int]
"""A partition of the offsets topic and a record's offset in it."""
_GroupKey = tuple[int, str]
"""A group record's type, and what its key contains besides the group: a member id, a pattern, or "" for nothing."""


class Fates(Observer):
    """The fates of a log's records, or only of the records of one `group`. An entry is the RecordFate of one record.

    Load logs with this observer, then call `settle` with the result of the load.
    """

    def __init__(self, dialect: Dialect, group: str | None = None) -> None:
        self.dialect = dialect
        self.wanted_group = group
        self.records: dict[_RecordPosition, list[RecordFate]] = {}
        """The entries by position. A valid batch can contain several records with the same offset."""
        self.partition: int | None = None
        self._batch_entries: list[RecordFate] = []
        """The entries of the current batch."""
        self._current: RecordFate | None = None
        """The entry of the record that the engine is applying now."""
        self._stored: dict[int, tuple[StoredOffset, RecordFate]] = {}
        """By Python's `id` of a stored offset: the offset, and the entry of its record.

        The offset is kept here, because Python could otherwise give its `id` to another object.
        """
        self._ended_transactions: dict[int, set[TopicPartition]] = {}
        """By Python's `id` of a marker's entry: the topic-partitions whose pending commits the marker ended."""
        self._newest_values: dict[tuple[int | None, str], dict[_GroupKey, RecordFate]] = {}
        """By partition and group: for each key of a group record, the entry of its newest value."""
        self._group_ends: dict[tuple[int | None, str], int] = {}
        """By partition and group: the offset of the tombstone that deleted the group."""

    def batch(self, partition: int | None, batch: Batch) -> None:
        self.add_batch(partition, batch)

    def add_batch(self, partition: int | None, batch: Batch) -> list[tuple[RecordFate, Record | None]]:
        """Add the records of a batch. Return an entry and a decoded record for each of them.

        The decoded record is None for markers and for records that cannot be read.
        """
        self.partition = partition
        self._batch_entries = []
        try:
            records = batch.records
        except BadBytes:
            return []
        entries = [self._marker_entry(record) if batch.is_control else self._entry(record) for record in records]
        for entry, _ in entries:
            entry.file = batch.file
            entry.producer_id = None if batch.producer_id == NO_PRODUCER_ID else batch.producer_id
            # A marker is not wanted yet: `set_fate` adds it if it ends a transaction of the wanted group.
            if self.wanted_group is None or entry.group == self.wanted_group:
                self._keep(entry)
            self._batch_entries.append(entry)
        return entries

    def _keep(self, entry: RecordFate) -> None:
        self.records.setdefault((entry.partition, entry.offset), []).append(entry)

    def _marker_entry(self, record: LogRecord) -> tuple[RecordFate, None]:
        entry = _new_entry(self.partition, record)
        try:
            marker_type = decode_control_key(record.key)
        except BadBytes as error:
            entry.why = str(error)
            return entry, None
        if marker_type in (ControlType.COMMIT, ControlType.ABORT):
            entry.fate = Fate.MARKER
            entry.note = marker_type.name.lower()
        else:
            entry.why = "a control record that is not a transaction marker"
        return entry, None

    def _entry(self, log_record: LogRecord) -> tuple[RecordFate, Record | None]:
        entry = _new_entry(self.partition, log_record)
        try:
            record = decode(log_record.key, log_record.value, self.dialect)
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

    def start_record(self, index: int) -> None:
        self._current = self._batch_entries[index] if index < len(self._batch_entries) else None

    def store_offset(self, offset: StoredOffset) -> None:
        entry = self._current
        if entry is not None and (self.wanted_group is None or entry.group == self.wanted_group):
            self._stored[id(offset)] = (offset, entry)

    def set_fate(self, offset: StoredOffset, fate: Fate, by: int) -> None:
        entry = self._find_entry(offset)
        if entry is None:
            return
        self.decide(entry, fate, by)
        if fate is not Fate.WINS:
            del self._stored[id(offset)]
        # If only one group is wanted, a marker is kept only if it ends a transaction of this group.
        marker = self._current
        ends_transaction = fate in (Fate.WINS, Fate.ABORTED)
        if ends_transaction and self.wanted_group is not None and marker is not None and marker.fate is Fate.MARKER:
            if id(marker) not in self._ended_transactions:
                self._ended_transactions[id(marker)] = set()
                self._keep(marker)
            assert entry.key is not None
            self._ended_transactions[id(marker)].add(entry.key)

    def _find_entry(self, offset: StoredOffset) -> RecordFate | None:
        """Return the entry of a stored offset's record; None if this record is not wanted."""
        stored = self._stored.get(id(offset))
        return None if stored is None else stored[1]

    def group(self, group_id: str, record: Record, offset: int, was_known: bool, is_known: bool) -> None:
        if self.wanted_group is not None and group_id != self.wanted_group:
            return
        live = self._newest_values.setdefault((self.partition, group_id), {})
        key = (record.type, _key_detail(record))
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
        assert self._current is not None
        live[key] = self._current

    def _end_records(
        self, live: dict[_GroupKey, RecordFate], keys: list[_GroupKey], fate: Fate, by: int, *, same_key: bool = True
    ) -> None:
        """Set the fate of the newest values of `keys`, and remove these values from `live`.

        `by` is the offset of the record that ends them.
        """
        for key in keys:
            if key in live:
                self.decide(live.pop(key), fate, by, same_key=same_key)

    def decide(self, entry: RecordFate, fate: Fate, by: int, *, same_key: bool = True) -> None:
        """Set the fate of a record. A later record can still change it.

        `by` is the offset of the record that decides the fate. `same_key` says that this record has the same key. The
        log cleaner then removes the older record, too.
        """
        entry.fate = fate
        entry.by = by

    def settle(
        self, groups: Mapping[str, AnyGroup], orphans: Mapping[str, Orphan], failed: dict[int | None, str]
    ) -> None:
        """Decide the fate of every remaining record from the result of the load.

        `groups` are the coordinator's groups. `orphans` are offsets in memory without a group, by group id. `failed`
        maps each partition whose load fails to the reason.
        """
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
            live = self._newest_values.get((entry.partition, group.group_id), {})
            if any(newest is entry for newest in live.values()):
                entry.fate = Fate.WINS
            else:
                _ignore(entry, _NOT_REACHED)
        elif self._is_stored(entry, group.offsets):
            entry.fate = Fate.WINS
        elif any(self._is_stored(entry, offsets) for offsets in group.pending.values()):
            entry.fate = Fate.PENDING
        else:
            entry.by = None
            _ignore(entry, "a share group has no offsets" if group.type == "share" else _NOT_REACHED)

    def _settle_orphan(self, entry: RecordFate, orphan: Orphan) -> None:
        """Decide the fate of a record of a group whose offsets remain in memory without the group."""
        if entry.key is None:
            _ignore(entry, _NOT_REACHED)
        elif self._is_stored(entry, orphan.offsets):
            entry.fate = Fate.HIDDEN
            entry.by = self._group_ends.get((entry.partition, entry.group or ""))
        elif any(self._is_stored(entry, offsets) for offsets in orphan.pending.values()):
            entry.fate = Fate.PENDING
        else:
            entry.by = None
            _ignore(entry, _NOT_REACHED)

    def _is_stored(self, entry: RecordFate, offsets: KnownOffsets) -> bool:
        """Return whether one of these offsets comes from this record."""
        offset = None if entry.key is None else offsets.get(entry.key)
        return offset is not None and self._find_entry(offset) is entry

    def records_of(self, key: TopicPartition) -> list[RecordFate]:
        """Return the records of one offset, and the markers that ended the transactions of these records."""
        return [entry for entry in self if entry.key == key or key in self._ended_transactions.get(id(entry), ())]

    def __iter__(self) -> Iterator[RecordFate]:
        """Iterate over the records in the order of the log."""
        positions = sorted(self.records, key=lambda position: (-1 if position[0] is None else position[0], position[1]))
        return (entry for position in positions for entry in self.records[position])


def _new_entry(partition: int | None, record: LogRecord) -> RecordFate:
    """Return a new entry for a record. Its fate is IGNORED until the record has been decoded."""
    entry = RecordFate(partition, record.offset, None, None, None, None, Fate.IGNORED)
    entry.size = record.size
    entry.timestamp = record.timestamp
    return entry


def _ignore(entry: RecordFate, why: str) -> None:
    entry.fate = Fate.IGNORED
    entry.why = why


def _key_detail(record: Record) -> str:
    return str(getattr(record.key, "member_id", getattr(record.key, "regular_expression", "")))
