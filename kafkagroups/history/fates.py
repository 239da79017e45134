"""What became of each record of a log: one walk that listens to the loader, of which explain and stats are views.

A fate is settled when the log has been read: then the records that still stand win if a broker answers from them.
Offsets of a group that its coordinator does not know are hidden by the tombstone that ended the group; of a load that
failed, and of a group that is answered from another partition, everything that stands is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.errors import BadBytes
from kafkagroups.groups.loading import OFFSET_KEYS, Orphan, group_of
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.observer import Fate, Observer
from kafkagroups.groups.offsets import KnownOffsets, TopicPartition
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch, LogRecord
from kafkagroups.records.control import ControlType, decode_control_key
from kafkagroups.records.dialect import Dialect
from kafkagroups.records.group_keys import MemberIdKey
from kafkagroups.records.serde import Record, Unread, decode

_ENDS_A_GROUP = (2, 3, 11, 17)
_ELSEWHERE = "the group is asked for in another partition: its home, or the first that has it"


@dataclass(slots=True)
class RecordFate:
    """One record and its fate. `key` is an offset's topic-partition, `member_id` that of a member's record.

    `by` is the offset of the record (of the same log partition) that superseded, deleted, committed, aborted or hid
    it. `why` says why a record is ignored. `committed` is the offset in an offset's value, `note` its metadata, or
    what a marker says. `producer_id` is the batch's, `timestamp` the record's in ms; `size` is its bytes, uncompressed,
    `file` the segment.
    """

    partition: int | None
    offset: int
    type: int | None
    group: str | None
    key: TopicPartition | None
    member_id: str | None
    fate: Fate | None
    by: int | None = None
    why: str | None = None
    size: int = 0
    timestamp: int = -1
    file: str | None = None
    committed: int | None = None
    note: str | None = None
    producer_id: int | None = None


class Fates(Observer):
    """The fates of a log's records, or of those of one `group`; hand it to a loader, then `settle` with its result."""

    def __init__(self, rules: Dialect, group: str | None = None) -> None:
        self.rules = rules
        self.wanted = group
        self.records: dict[tuple[int | None, int], RecordFate] = {}
        self.partition: int | None = None
        self._markers: dict[int, RecordFate] = {}
        self._ends: dict[tuple[int | None, int], set[int]] = {}
        """By partition and marker: the offset records whose transaction it ended."""
        self._live: dict[tuple[int | None, str], dict[tuple[int, str], int]] = {}
        """By partition and group: the offset of the newest value of each of its group records' keys."""
        self._ended: dict[tuple[int | None, str], int] = {}
        """By partition and group: the offset of the tombstone that ended it."""

    def batch(self, partition: int | None, batch: Batch) -> None:
        self.entries(partition, batch)

    def entries(self, partition: int | None, batch: Batch) -> list[tuple[RecordFate, Record | None]]:
        """Takes a batch in; an entry for each of its records, wanted or not, with the record where it can be read."""
        self.partition = partition
        self._markers.clear()
        try:
            records = batch.records
        except BadBytes:
            return []
        made = [self._marker(record) if batch.is_control else self._entry(record) for record in records]
        for log_record, (entry, _) in zip(records, made, strict=True):
            entry.file = batch.file
            entry.producer_id = None if batch.producer_id == NO_PRODUCER_ID else batch.producer_id
            if entry.fate is Fate.MARKER and self.wanted is not None:
                self._markers[log_record.offset] = entry  # kept when it ends something of the wanted group
                continue
            if self.wanted is not None and entry.group != self.wanted:
                continue
            self.records[partition, log_record.offset] = entry
        return made

    def _marker(self, record: LogRecord) -> tuple[RecordFate, None]:
        try:
            kind = decode_control_key(record.key)
        except BadBytes as error:
            return _new(self.partition, record, Fate.IGNORED, str(error)), None
        if kind not in (ControlType.COMMIT, ControlType.ABORT):
            return _new(self.partition, record, Fate.IGNORED, "no marker of a transaction"), None
        made = _new(self.partition, record, Fate.MARKER)
        made.note = kind.name.lower()
        return made, None

    def _entry(self, log_record: LogRecord) -> tuple[RecordFate, Record | None]:
        made = _new(self.partition, log_record, Fate.IGNORED)
        try:
            record = decode(log_record.key, log_record.value, self.rules)
        except BadBytes as error:
            made.why = str(error)
            return made, None
        made.type, made.group = record.type, group_of(record)
        if isinstance(record.key, Unread):
            made.why = f"record type {record.type} is not read by this coordinator"
            return made, record
        if isinstance(record.key, OFFSET_KEYS):
            made.key = TopicPartition(record.key.topic, record.key.partition)
            made.committed = getattr(record.value, "offset", None)
            made.note = getattr(record.value, "metadata", None)
        elif isinstance(record.key, MemberIdKey):
            made.member_id = record.key.member_id
        made.fate = None if record.value is not None else Fate.TOMBSTONE
        return made, record

    def told(self, offset: int, fate: Fate, by: int) -> None:
        if not self.decide(offset, fate, by):
            return
        if fate in (Fate.WINS, Fate.ABORTED) and by in self._markers:
            self.records[self.partition, by] = self._markers[by]
            self._ends.setdefault((self.partition, by), set()).add(offset)

    def group(self, group_id: str, record: Record, offset: int, was_known: bool, is_known: bool) -> None:
        if self.wanted is not None and group_id != self.wanted:
            return
        live = self._live.setdefault((self.partition, group_id), {})
        key = (record.type, _rest_of_the_key(record))
        if record.value is None:
            self._lose(live, [key], Fate.DELETED, offset)
            if record.type in _ENDS_A_GROUP and was_known and not is_known:
                self._lose(live, list(live), Fate.DELETED, offset, same_key=False)
                self._ended[self.partition, group_id] = offset
            return
        # A classic value replaces a group of a newer type, and the other way round a simple group.
        others = [other for other in live if other != key and (other[0] == 2) != (record.type == 2)]
        self._lose(live, others, Fate.SUPERSEDED, offset, same_key=False)
        self._lose(live, [key], Fate.SUPERSEDED, offset)
        live[key] = offset

    def _lose(
        self,
        live: dict[tuple[int, str], int],
        keys: list[tuple[int, str]],
        fate: Fate,
        by: int,
        *,
        same_key: bool = True,
    ) -> None:
        for key in keys:
            if key in live:
                self.decide(live.pop(key), fate, by, same_key=same_key)

    def decide(self, offset: int, fate: Fate, by: int, *, same_key: bool = True) -> bool:
        """A record's fate, as far as it is known now; False when the record is not kept.

        `same_key`: the record that does it has its key, so that the cleaner would drop it too.
        """
        entry = self.records.get((self.partition, offset))
        if entry is None:
            return False
        entry.fate, entry.by = fate, by
        return True

    def settle(self, groups: dict[str, AnyGroup], orphans: dict[str, Orphan], failed: dict[int | None, str]) -> None:
        """Gives every record that still stands its fate; `failed` are the partitions whose load fails, and why."""
        for (partition, _), entry in self.records.items():
            if entry.fate not in (None, Fate.WINS) or entry.group is None:
                continue
            group, orphan = groups.get(entry.group), orphans.get(entry.group)
            holder = group or orphan
            if group is not None and group.partition != partition:
                entry.fate, entry.why = Fate.IGNORED, f"the group is answered from partition {group.partition}"
            elif holder is None:
                reason = f"the load fails: {failed[partition]}" if partition in failed else _ELSEWHERE
                entry.fate, entry.why = Fate.IGNORED, reason
            elif entry.key is None:
                wins = group is not None and entry.offset in self._live.get((partition, entry.group), {}).values()
                entry.fate = Fate.WINS if wins else Fate.IGNORED
                entry.why = None if wins else "the load does not come that far"
            elif holder is not None and _stands(holder.offsets, entry):
                entry.fate = Fate.WINS if group is not None else Fate.HIDDEN
                if group is None:
                    entry.by = self._ended.get((partition, entry.group))
            elif holder is not None and any(_stands(offsets, entry) for offsets in holder.pending.values()):
                entry.fate = Fate.PENDING
            else:
                entry.fate, entry.by = Fate.IGNORED, None
                entry.why = "a share group has no offsets" if group is not None else "the load does not come that far"

    def of(self, key: TopicPartition) -> list[RecordFate]:
        """The records of one offset, and the markers that ended their transactions."""
        return [
            entry
            for entry in self
            if entry.key == key
            or any(self.records[entry.partition, offset].key == key for offset in self._ends_of(entry))
        ]

    def _ends_of(self, entry: RecordFate) -> set[int]:
        return self._ends.get((entry.partition, entry.offset), set())

    def __iter__(self) -> Iterator[RecordFate]:
        """All of them in the order of the log."""
        numbers = sorted(self.records, key=lambda place: (-1 if place[0] is None else place[0], place[1]))
        return (self.records[place] for place in numbers)


def _new(partition: int | None, record: LogRecord, fate: Fate, why: str | None = None) -> RecordFate:
    made = RecordFate(partition, record.offset, None, None, None, None, fate, why=why)
    made.size, made.timestamp = record.size, record.timestamp
    return made


def _rest_of_the_key(record: Record) -> str:
    return str(getattr(record.key, "member_id", getattr(record.key, "regular_expression", "")))


def _stands(offsets: KnownOffsets, entry: RecordFate) -> bool:
    assert entry.key is not None
    there = offsets.get(entry.key)
    return there is not None and there.record_offset == entry.offset


@dataclass
class Explanation:
    """The life of a group, or of one of its offsets. `answer` is what a broker says now, None when nothing."""

    group: str
    coordinator: str
    kafka: str = ""
    history: list[RecordFate] = field(default_factory=list)
    answer: Any = None
    waiting: list[RecordFate] = field(default_factory=list)
    """The commits whose transaction is open: asked for stable offsets, a broker answers UNSTABLE_OFFSET_COMMIT."""
    problems: list[str] = field(default_factory=list)
    """A line for each partition whose bytes are damaged or whose load fails."""


def history_json(entry: RecordFate) -> dict[str, Any]:
    """One record of a history as JSON."""
    assert entry.fate is not None
    shown: dict[str, Any] = {
        "partition": entry.partition,
        "offset": entry.offset,
        "type": entry.type,
        "key": None if entry.key is None else str(entry.key),
        "fate": entry.fate.value,
        "by": entry.by,
        "timestamp": entry.timestamp,
    }
    if entry.committed is not None:
        shown |= {"committed_offset": entry.committed, "metadata": entry.note}
    if entry.fate is Fate.MARKER:
        shown["control"] = entry.note
    if entry.producer_id is not None:
        shown["producer_id"] = entry.producer_id
    if entry.member_id is not None:
        shown["member_id"] = entry.member_id
    if entry.why is not None:
        shown["why"] = entry.why
    return shown
