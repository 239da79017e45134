"""The fates of a log's records: each wins, or is superseded, deleted, aborted, …

`Fates` observes the readable engine (groups/offsets.py). During the load, a later record can supersede, delete or
abort a record. The fates of the remaining records are decided after the load:

- Wins: a broker's answers depend on the record.
- Pending: the transaction of the record is open.
- Hidden: the coordinator has the offset, but not its group, because a tombstone deleted the group.
- Ignored: the load of the partition fails. Or: several partitions contain records of the group, and the broker uses
  only the records of another partition.

The readable engine makes a row of the tables `records` and `fates` for each record. The native engine loads a log, and
then reads it a second time into columns, because a load keeps no records.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafkagroups.errors import BadBytes, InvalidLog
from kafkagroups.groups import replay as readable
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.offsets import Fate, GroupKey, NewestValues, Observer, OffsetAndMetadata, Orphan, TopicPartition
from kafkagroups.groups.replay import CountBytes, LogKeys, Shard
from kafkagroups.history.event import Cause
from kafkagroups.history.finding import time_or_none
from kafkagroups.loading import native
from kafkagroups.loading.columns import Column, Row, partition_number, record_batches
from kafkagroups.loading.groups import Answers, Groups
from kafkagroups.loading.load import Engine, OpenTopic, WholeTopic
from kafkagroups.loading.rows import record_rows
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch, LogRecord
from kafkagroups.log.segments import Log, Notes, Stop
from kafkagroups.records.releases import Dialect
from kafkagroups.records.serde import ControlType, Record, UnknownContent, decode_control_key, decode_with_key

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class RecordFate:
    """One record and its fate. An attribute that does not fit the kind of record is None.

    Attributes
    ----------
    partition, offset
        The partition of the offsets topic (None if the log's folder has no partition number), and the record's offset.
    type, group
        The record type and the group id. Both are None for markers and for records that cannot be read.
    key
        The topic partition in the key of an offset record.
    member_id
        The member id in the key of a member's record.
    fate, by
        What happened to the record (None until that is decided), and the offset of the record that decided it: the
        newer record, the tombstone or the marker.
    why
        Why the record is ignored, or why it counts although a tombstone follows it.
    size
        The record's uncompressed size in bytes. In `stats`: how many bytes of the batch on disk belong to the record.
    timestamp
        The record's timestamp, in ms since the epoch; -1 if it has none.
    file
        The path of the segment; None if the batch was not read from a file.
    committed
        The offset that an offset record commits; None for tombstones.
    replaced
        The offset that was committed right before an offset record took effect (in a transaction, at the marker), if it
        took effect. Only `explain` sets this attribute and the next two.
    went_back
        Whether an offset record commits a smaller offset than before, which can have been a pending one.
    skipped
        Whether an offset record can skip records that nobody has read, as far as the log tells.
    note
        Offset record: the commit's metadata. Marker: "commit" or "abort".
    producer_id, producer_epoch
        Those of the record's batch; None if the batch has no producer.
    is_transactional
        Whether the record's batch has the transactional bit.
    is_unreadable
        Whether the coordinator cannot read the record's value, or does not read its type.
    is_unloaded
        Whether the record is ignored because the load of the partition fails.
    group_record
        Group record: the group after the record's batch (explain.py). Only `explain` sets this and the next two.
    cause
        Tombstone: how the record came to be, as far as the log tells.
    what
        One sentence about what the record changed, as in `timeline`, if there is something to say.
    """

    partition: int | None
    offset: int
    type: int | None = None
    group: str | None = None
    key: TopicPartition | None = None
    member_id: str | None = None
    fate: Fate | None = Fate.IGNORED
    by: int | None = None
    why: str | None = None
    size: int = 0
    timestamp: int = -1
    file: str | None = None
    committed: int | None = None
    replaced: int | None = None
    went_back: bool = False
    skipped: bool = False
    note: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    is_transactional: bool = False
    is_unreadable: bool = False
    is_unloaded: bool = False
    group_record: dict[str, Any] | None = None
    cause: Cause | None = None
    what: str | None = None


def history_json(entry: RecordFate) -> dict[str, Any]:
    assert entry.fate is not None
    names = ("partition", "offset", "type", "key", "fate", "by", "timestamp")
    fields: dict[str, Any] = {name: getattr(entry, name) for name in names}
    fields |= {"key": None if entry.key is None else str(entry.key), "fate": entry.fate.value}
    fields |= {"timestamp_ms": time_or_none(entry.timestamp), "group_record": entry.group_record}
    if entry.committed is not None:
        fields |= {"committed_offset": entry.committed, "from": entry.replaced, "went_back": entry.went_back}
        fields["metadata"] = entry.note
    optional = {
        "control": entry.note if entry.fate is Fate.MARKER else None,
        "producer_id": entry.producer_id,
        "producer_epoch": entry.producer_epoch,
        "member_id": entry.member_id,
        "cause": (entry.cause or Cause.UNKNOWN).value if entry.fate is Fate.TOMBSTONE else None,
        "what": entry.what,
        "why": entry.why,
    }
    return fields | {name: value for name, value in optional.items() if value is not None}


_ANSWERED_ELSEWHERE = "the group is answered from another partition: its home, or the first partition with its records"
_NOT_REACHED = "the load does not get this far"


class Fates(Observer):
    """The fates of a log's records, as an observer of their load. Then call `settle` with its result.

    An entry is the RecordFate of one record. If `groups` is not None, only the records of these groups have one.
    """

    def __init__(self, dialect: Dialect, groups: Container[str | None] | None = None) -> None:
        self.dialect = dialect
        self._wanted = groups
        self.records: dict[int, RecordFate] = {}
        """The entries by Python's `id`. An offset names no entry, because offsets in a batch can be equal."""
        self.partition: int | None = None
        self._keys = LogKeys(dialect)
        self._batch_entries: list[RecordFate] = []
        self._current: RecordFate | None = None
        self._stored: dict[int, tuple[OffsetAndMetadata, RecordFate]] = {}
        """By Python's `id` of a stored offset: the entry of its record, and the offset itself, so that the `id`
        is not reused.
        """
        self._newest_values: dict[tuple[int | None, str], NewestValues[RecordFate]] = {}
        """The entries of the newest group records with a value, by (partition, group id)."""
        self._tombstone_by_group: dict[tuple[int | None, str], int] = {}
        """The offsets of the tombstones that deleted groups, by (partition, group id)."""

    def start_batch(self, partition: int | None, batch: Batch) -> None:
        self.add_batch(partition, batch)

    def add_batch(self, partition: int | None, batch: Batch) -> list[tuple[RecordFate, Record | None]]:
        """Add the records of a batch, if it can be read. For each, return its entry and the decoded record.

        The decoded record is None for markers and for records that cannot be read.
        """
        self.partition = partition
        self._batch_entries = []
        try:
            records = batch.records
        except BadBytes:
            return []
        of_batch: dict[str, Any] = {"file": batch.file, "is_transactional": batch.is_transactional}
        if batch.producer_id != NO_PRODUCER_ID:
            of_batch |= {"producer_id": batch.producer_id, "producer_epoch": batch.producer_epoch}
        decoded: list[tuple[RecordFate, Record | None]] = []
        for log_record in records:
            entry = RecordFate(partition, log_record.offset, size=log_record.size, **of_batch)
            entry.timestamp = log_record.timestamp
            read = _read_marker if batch.is_control else self._read_record
            record = read(entry, log_record)
            if self._is_wanted(entry.group):
                self._keep(entry)
            decoded.append((entry, record))
        self._batch_entries = [entry for entry, _ in decoded]
        return decoded

    def _keep(self, entry: RecordFate) -> None:
        self.records[id(entry)] = entry

    def _is_wanted(self, group: str | None) -> bool:
        return self._wanted is None or group in self._wanted

    def drop(self, entry: RecordFate) -> None:
        self.records.pop(id(entry), None)

    def _read_record(self, entry: RecordFate, log_record: LogRecord) -> Record | None:
        record = None
        try:
            key = self._keys[log_record.key]
        except BadBytes as error:
            entry.why = str(error)
            return None
        is_wanted = self._wanted is not None and key.group_id in self._wanted
        try:
            record = decode_with_key(key.decoded, log_record.value)
        except BadBytes as error:
            entry.why = str(error)
            # Only the history of a group shows a record that has a group, but that cannot be read.
            if not is_wanted:
                return None
        entry.type = key.decoded.type
        entry.group = key.group_id
        entry.key = key.partition
        entry.member_id = getattr(key.decoded.content, "member_id", None)
        if isinstance(key.decoded.content, UnknownContent):
            entry.why = f"this coordinator does not read record type {entry.type}"
        if entry.why is None and record is not None:
            entry.committed = getattr(record.value, "offset", None) if entry.key is not None else None
            entry.note = getattr(record.value, "metadata", None) if entry.key is not None else None
            entry.fate = None if record.value is not None else Fate.TOMBSTONE
        elif is_wanted:
            entry.is_unreadable = True
        return record

    def start_record(self, index: int) -> None:
        self._current = self._batch_entries[index] if index < len(self._batch_entries) else None

    def store_offset(self, offset: OffsetAndMetadata) -> None:
        entry = self._current
        if entry is not None and self._is_wanted(entry.group):
            self._stored[id(offset)] = (offset, entry)

    def set_fate(self, offset: OffsetAndMetadata, fate: Fate, by: int) -> None:
        entry = self._find_entry(offset)
        if entry is None:
            return
        self.decide(entry, fate, by)
        if fate is not Fate.WINS:
            del self._stored[id(offset)]

    def _find_entry(self, offset: OffsetAndMetadata) -> RecordFate | None:
        stored = self._stored.get(id(offset))
        return None if stored is None else stored[1]

    def end_group_record(self, group_id: str, record: Record, offset: int, was_known: bool, is_known: bool) -> None:
        if not self._is_wanted(group_id):
            return
        newest_values = self._newest_values.setdefault((self.partition, group_id), NewestValues(self.decide))
        key = GroupKey.of(record)
        if record.value is not None:
            assert self._current is not None
            newest_values.put(key, self._current, offset)
            return
        newest_values.delete(key, offset)
        if was_known and not is_known:
            self._tombstone_by_group[self.partition, group_id] = offset

    def decide(self, entry: RecordFate, fate: Fate, by: int, has_same_key: bool = True) -> None:
        """Set the fate of a record, which can change again, for example from WINS to SUPERSEDED.

        `by` is the offset of the record that decides it. `has_same_key` says whether that record has the key of this
        one, so that the log cleaner removes this one. Only the subclass `Observed` (totals.py) uses it.
        """
        entry.fate = fate
        entry.by = by

    def settle(self, loaded: Groups) -> None:
        failed = loaded.failed
        for entry in self:
            if entry.fate not in (None, Fate.WINS) or entry.group is None:
                continue
            group = loaded.groups.get(entry.group)
            known = group or loaded.orphans.get(entry.group)
            if group is not None and group.partition != entry.partition:
                _ignore(entry, f"the group is answered from partition {group.partition}")
            elif known is not None:
                self._settle_group(entry, known)
            elif entry.partition in failed:
                _ignore(entry, f"the load fails: {failed[entry.partition]}")
                entry.is_unloaded = True
            else:
                _ignore(entry, _ANSWERED_ELSEWHERE)

    def _settle_group(self, entry: RecordFate, group: AnyGroup | Orphan) -> None:
        is_orphan = isinstance(group, Orphan)
        place = (entry.partition, entry.group or "")
        if entry.key is None:
            newest = self._newest_values[place].records.values() if place in self._newest_values else ()
            if not is_orphan and any(value is entry for value in newest):
                entry.fate = Fate.WINS
            else:
                _ignore(entry, _NOT_REACHED)
            return
        pending = group.pending.get(NO_PRODUCER_ID if entry.producer_id is None else entry.producer_id, {})
        if self._is_entry_of(entry, group.offsets.get(entry.key), group.partition):
            is_hidden = isinstance(group, Orphan) and not group.is_answered
            entry.fate = Fate.HIDDEN if is_hidden else Fate.WINS
            entry.by = self._tombstone_by_group.get(place) if is_hidden else entry.by
        elif self._is_entry_of(entry, pending.get(entry.key), group.partition):
            entry.fate = Fate.PENDING
        else:
            entry.by = None
            is_of_share = not isinstance(group, Orphan) and group.type == "share"
            _ignore(entry, "a share group has no offsets" if is_of_share else _NOT_REACHED)

    def _is_entry_of(self, entry: RecordFate, offset: OffsetAndMetadata | None, partition: int | None) -> bool:
        stored_entry = None if offset is None else self._find_entry(offset)
        if stored_entry is None and offset is not None:
            # The native engine made this offset. In the logs that it loads, each record has its own offset.
            return offset.record_offset == entry.offset and partition == entry.partition
        return stored_entry is entry

    def __iter__(self) -> Iterator[RecordFate]:
        return iter(sorted(self.records.values(), key=log_order))


def log_order(entry: RecordFate) -> tuple[int, int]:
    return -1 if entry.partition is None else entry.partition, entry.offset


def _read_marker(entry: RecordFate, log_record: LogRecord) -> Record | None:
    entry.why = "a control record that is not a transaction marker"
    try:
        marker_type = decode_control_key(log_record.key)
        if marker_type in (ControlType.COMMIT, ControlType.ABORT):
            entry.fate = Fate.MARKER
            entry.note = marker_type.name.lower()
            entry.why = None
    except BadBytes as error:
        entry.why = str(error)
    return None


def _ignore(entry: RecordFate, why: str) -> None:
    entry.fate = Fate.IGNORED
    entry.why = why


ObserverT = TypeVar("ObserverT", bound=Observer)


class ObservedLoad(Generic[ObserverT]):
    """A load of a topic. `groups` is its result.

    By partition number, `shards` has what the native engine has folded, and `observers` the observers of the other
    logs, each made by `observe` for a log and the notes of its reading. `options` say what the native engine
    notes (`native.read`). `whole` is the one of `OpenTopic.load`.
    """

    def __init__(
        self,
        topic: OpenTopic,
        observe: Callable[[Log, Notes], ObserverT],
        whole: WholeTopic | None = None,
        **options: Any,
    ) -> None:
        self.shards: dict[int | None, Shard] = {}
        self.observers: dict[int | None, ObserverT] = {}
        name = topic.chosen_engine.name

        def fold(log: Log, dialect: Dialect, stop: Stop, *, count_bytes: CountBytes) -> Shard:
            shard = None
            if name == "compiled":
                shard = native.fold_if_possible(log, dialect, stop, count_bytes=count_bytes, **options)
            if shard is not None:
                self.shards[log.partition] = shard
                return shard
            notes = Notes()
            observer = self.observers[log.partition] = observe(log, notes)
            return readable.fold(log, dialect, stop, count_bytes=count_bytes, observer=observer, notes=notes)

        self.groups = topic.load(engine=Engine(name, fold), whole=whole)


RECORD_TABLES = ("fates", "records")
_UNREADABLE = RecordFate(None, 0)
"""Stands for the records of a batch that cannot be split into records."""


def read_record_table(
    log: Log, dialect: Dialect, columns: Sequence[Column], engine: Engine
) -> Iterator[pa.RecordBatch]:
    if engine.name == "compiled":
        shard = native.fold_if_possible(log, dialect, follow=native.COUNTS)
        if shard is not None:
            return _copy(log, dialect, shard, columns)
    with_json = any(column.name == "json" for column in columns)
    return record_batches(columns, record_rows(log, log.partition, dialect, with_json=with_json))


def read_fate_table(topic: OpenTopic, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """Load a topic as one coordinator does, and yield the table `fates` as Arrow record batches."""
    load = ObservedLoad(topic, lambda log, notes: Fates(topic.dialect), follow=native.COUNTS)
    groups = load.groups
    answers = Answers(groups.groups.unbuilt(), groups.orphans.unbuilt())
    for log in topic.logs:
        fates = load.observers.pop(log.partition, None)
        if fates is None:
            yield from _read_followed(log, topic.dialect, columns, answers)
        else:
            fates.settle(groups)
            yield from record_batches(columns, _fate_rows(log, topic.dialect, fates))


def _read_followed(log: Log, dialect: Dialect, columns: Sequence[Column], answers: Answers) -> Iterator[pa.RecordBatch]:
    shard = native.fold_if_possible(log, dialect, follow=native.KEEPS_FATES)
    if shard is None:
        raise InvalidLog(f"{log.path}: the log has changed while it was read: read it again")
    reading = native.reading_of(shard)
    found = [answers.find(group_id, log.partition) for group_id in reading.totals(False)["group_ids"]]
    numbers = {fate: number for number, fate in enumerate(Fate, start=1)}
    fates = reading.settle([(*map(numbers.__getitem__, each[:3]), each.has_read) for each in found])
    yield from _copy(log, dialect, shard, columns, fates)


def _copy(
    log: Log, dialect: Dialect, shard: Shard, columns: Sequence[Column], fates: tuple[bytes, bytes] | None = None
) -> Iterator[pa.RecordBatch]:
    from kafkagroups.loading.engine_columns import copy_records

    with_content = any(column.name in ("key", "value", "json") for column in columns)
    parts = native.read_records(log, dialect, shard.loaded.batches, with_content=with_content)
    return copy_records(parts, partition_number(log.partition), dialect, columns, fates)


def _fate_rows(log: Log, dialect: Dialect, fates: Fates) -> Iterator[Row]:
    """Yield the rows of the table `fates` of a log, whose fates are settled.

    A batch that cannot be split into records has one row, as in the table `records`; its fate is "ignored".
    """
    entries: defaultdict[object, deque[RecordFate]] = defaultdict(deque)
    for entry in fates:
        entries[entry.offset].append(entry)
    for row in record_rows(log, log.partition, dialect, with_json=False):
        # Several records of an odd log can have the same offset, and so can a batch that cannot be split into records.
        same_offset = entries.get(row["offset"])
        is_other_record = row["key"] is None and same_offset and same_offset[0].type is not None
        entry = same_offset.popleft() if same_offset and not is_other_record else _UNREADABLE
        yield row | {
            "member_id": entry.member_id,
            "committed_offset": entry.committed,
            "key_bytes": len(row["key"] or b""),
            "value_bytes": None if row["value"] is None else len(row["value"]),
            "fate": (entry.fate or Fate.IGNORED).value,
            "by": entry.by,
        }
