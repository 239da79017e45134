"""The log of one group: its records, the markers of its transactions, and the holes of the log between them.

A hole is a range of offsets whose records the log cleaner has removed (log/holes.py). The command `timeline` reads the
history of a group from this log.

The native engine loads a log much faster than the readable engine. It finds the batches of the group on the way, and
the readable engine then replays only these. This gives the same fates, because records of other groups never change the
fate of a group's record. A load that fails is the only exception, and then the readable engine replays the whole log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from kafkagroups.errors import BadBytes
from kafkagroups.groups import fold as readable
from kafkagroups.groups.log_records import OFFSET_KEYS, get_topic_partition, read_control_type
from kafkagroups.groups.observer import GROUP_ENDING_TYPES
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.fates import Fates, RecordFate
from kafkagroups.history.passes import ObservedLoad
from kafkagroups.loading import native
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic, WholeTopic
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch, LogRecord
from kafkagroups.log.holes import Hole, HoleFinder, join_holes
from kafkagroups.log.segments import Log
from kafkagroups.records.control import ControlType
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.serde import Record, UnknownContent
from kafkagroups.records.wire import MAX_STRING_BYTES


class GroupRecord(NamedTuple):
    """A record of the group.

    `offset` is the record's offset in the log. `timestamp` is in ms since 1970; -1: the record has none. `batch_offset`
    is the base offset of the batch, and `first_offset` is the offset of the first record in the batch. `producer_id` is
    that of the batch; -1: the batch has none. `is_pending` says whether the coordinator reads the record as part of a
    transaction, so that the record takes effect at the marker.
    """

    offset: int
    timestamp: int
    record: Record
    batch_offset: int
    first_offset: int
    producer_id: int
    is_pending: bool

    @property
    def type(self) -> int:
        return self.record.type

    @property
    def value(self) -> Any:
        """The decoded value; None for a tombstone."""
        return self.record.value

    @property
    def is_offset(self) -> bool:
        return isinstance(self.record.key, OFFSET_KEYS)

    @property
    def ends_group(self) -> bool:
        """Whether the record is the tombstone of the group."""
        return self.value is None and self.type in GROUP_ENDING_TYPES

    @property
    def key(self) -> TopicPartition:
        """The topic partition of an offset record."""
        return get_topic_partition(self.record)


class Marker(NamedTuple):
    """A marker that ends a transaction with offsets of the group. `commits` is False for an aborted transaction."""

    offset: int
    timestamp: int
    producer_id: int
    commits: bool


Step = GroupRecord | Marker | Hole


class GroupLog(Fates):
    """The fates of a group's records, and the log of the group.

    `steps` has the log of the group in each partition, in the order of the log. Two holes never follow each other. To
    get one, call `load_group_log`.
    """

    def __init__(self, dialect: Dialect, group: str) -> None:
        super().__init__(dialect, group)
        self.steps: dict[int | None, list[Step]] = {}
        self._holes = HoleFinder()
        self._open_producers: set[int] = set()
        """The producers of the open transactions with offsets of the group."""

    def start_batch(self, partition: int | None, batch: Batch) -> None:
        for hole in self._holes.find(batch):
            self.add_hole(partition, hole)
        self.add_batch(partition, batch)

    def add_hole(self, partition: int | None, hole: Hole) -> None:
        steps = self.steps.setdefault(partition, [])
        previous = steps[-1] if steps else None
        if isinstance(previous, Hole):
            steps[-1] = join_holes(previous, hole)
        else:
            steps.append(hole)

    def add_batch(self, partition: int | None, batch: Batch) -> list[tuple[RecordFate, Record | None]]:
        entries = super().add_batch(partition, batch)
        steps = self.steps.setdefault(partition, [])
        if batch.is_control and batch.producer_id in self._open_producers:
            steps += self._find_marker(batch)
        has_producer = batch.producer_id != NO_PRODUCER_ID
        is_transactional = batch.is_transactional if self.dialect.coordinator == "classic" else has_producer
        for entry, record in entries:
            if record is None or entry.group != self.wanted_group or isinstance(record.key, UnknownContent):
                continue
            is_pending = is_transactional and isinstance(record.key, OFFSET_KEYS)
            if is_pending:
                self._open_producers.add(batch.producer_id)
            origin = (batch.base_offset, batch.records[0].offset, batch.producer_id)
            steps.append(GroupRecord(entry.offset, entry.timestamp, record, *origin, is_pending))
        return entries

    def _find_marker(self, batch: Batch) -> Iterator[Marker]:
        """Yield the first marker in a control batch, which ends a transaction of the group.

        The classic coordinator reads only the first record of the batch, and each type except COMMIT aborts.
        """
        is_classic = self.dialect.coordinator == "classic"
        with suppress(BadBytes):  # The load fails at this batch.
            for record in batch.records[:1] if is_classic else batch.records:
                control_type = read_control_type(record)
                if is_classic or control_type in (ControlType.COMMIT, ControlType.ABORT):
                    self._open_producers.remove(batch.producer_id)
                    yield Marker(record.offset, record.timestamp, batch.producer_id, control_type is ControlType.COMMIT)
                    return

    def add(self, other: GroupLog) -> None:
        """Add the log of another partition, with the same dialect and group. Neither of the two is settled yet."""
        for name in ("records", "steps", "_stored", "_ended_transactions", "_newest_values", "_tombstone_by_group"):
            getattr(self, name).update(getattr(other, name))


_REPLACEMENT_CHARACTER = "\ufffd"
"""Java's text for bytes that are not UTF-8. So different bytes can be the same group id."""


def load_group_log(topic: OpenTopic, group: str, whole: WholeTopic | None = None) -> tuple[Groups, GroupLog]:
    """Load a topic. Return the result of the load, and the log of a group, in which the fates are settled.

    `whole` is the one of `OpenTopic.load`.
    """
    dialect = topic.dialect
    encoded_id = group.encode("utf-8", "replace")  # Half of a surrogate pair becomes another character.
    has_one_encoding = encoded_id.decode() == group and _REPLACEMENT_CHARACTER not in group
    if not has_one_encoding or len(encoded_id) > MAX_STRING_BYTES:  # A key has no room for it.
        topic = replace(topic, engine="python")
    load = ObservedLoad(topic, lambda log, notes: GroupLog(dialect, group), whole, group=group)
    group_log = GroupLog(dialect, group)
    for log in topic.logs:
        part = load.observers.get(log.partition)
        if part is None:
            part = GroupLog(dialect, group)
            batches = _observe_batches(native.reading_of(load.shards[log.partition]), log, dialect, group, part)
            readable.fold_batches(log.partition, batches, dialect, part)
        group_log.add(part)
    group_log.settle(load.groups)
    return load.groups, group_log


def _observe_batches(reading: Any, log: Log, dialect: Dialect, group: str, group_log: GroupLog) -> Iterator[Batch]:
    """Yield the batches of a group, without the records of other groups. Add them and each hole to `group_log`."""
    encoded_id = group.encode()
    key_part = len(encoded_id).to_bytes(2, "big") + encoded_id
    places, last_hole = reading.found_batches()
    for (_, _, _, hole), batch in zip(places, native.read_batches_at(log, places), strict=True):
        if hole is not None:
            group_log.add_hole(log.partition, Hole(*hole))
        if not batch.is_control:
            batch = select_records(batch, key_part, keeps_first=dialect.coordinator == "classic")
        group_log.add_batch(log.partition, batch)
        yield batch
    if last_hole is not None:
        group_log.add_hole(log.partition, Hole(*last_hole))


def select_records(batch: Batch, key_part: bytes, *, keeps_first: bool) -> Batch:
    """Return a batch with only the records whose key has `key_part` after the record type.

    `keeps_first` also keeps the first record: the classic coordinator compares the offsets of the first records.
    """

    def parse_records(_: Batch) -> tuple[LogRecord, ...]:
        return tuple(
            record
            for index, record in enumerate(batch.records)
            if (keeps_first and index == 0) or (record.key or b"").startswith(key_part, 2)
        )

    return replace(batch, parse_records=parse_records)
