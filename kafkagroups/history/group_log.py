"""The logs of some groups: the records of each, the markers of its transactions, and the holes between them.

A hole is a range of offsets whose records the log cleaner has removed. One pass over the partitions gives the logs of
any number of groups.

The native engine, which is much faster, finds the batches of the groups while it loads the log, and the readable engine
replays only these. This gives the same fates, because records of other groups never change the fate of a group's
record. Only for a load that fails, the readable engine replays the whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups import replay as readable
from kafkagroups.groups.offsets import GROUP_ENDING_TYPES, Fate, OffsetAndMetadata, TopicPartition
from kafkagroups.groups.replay import get_topic_partition, read_control_type, read_keys
from kafkagroups.history.event import Position
from kafkagroups.history.fates import Fates, ObservedLoad, RecordFate, log_order
from kafkagroups.history.writers import Stretches
from kafkagroups.loading import native
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic, WholeTopic
from kafkagroups.loading.partition_count import TopicPartitions
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch, LogRecord
from kafkagroups.log.batches import Hole, OffsetGaps
from kafkagroups.log.segments import Log
from kafkagroups.records.releases import FIRST_WITH_NEW_COORDINATOR, Dialect, VersionRange, parse_newest_patch
from kafkagroups.records.serde import RECORD_TYPES, ControlType, Record, UnknownContent
from kafkagroups.records.wire import MAX_STRING_BYTES
from kafkagroups.records.written_versions import describe_writers, writers_of

MAX_OLDER_RECORDS = 200
"""How many older records of a group are left out in turn, to find the one that conflicts."""


class GroupRecord(NamedTuple):
    """A record of the group, whose fate is in `entry`.

    `timestamp` is in ms since 1970; -1: the record has none. `batch_offset` is the base offset of the batch, and
    `first_offset` that of its first record. `producer_id` is -1 if the batch has none. `is_pending` says whether the
    coordinator reads the record as part of a transaction, so that it takes effect at the marker. `leader_epoch` is that
    of the batch. `deleted_with` are the other groups whose offsets of the topic the batch of a tombstone also deletes.
    """

    entry: RecordFate
    offset: int
    timestamp: int
    record: Record
    batch_offset: int
    first_offset: int
    producer_id: int
    is_pending: bool
    leader_epoch: int
    deleted_with: tuple[str, ...] = ()

    @property
    def type(self) -> int:
        return self.record.type

    @property
    def value(self) -> Any:
        """The decoded value; None for a tombstone."""
        return self.record.value

    @property
    def is_offset(self) -> bool:
        return self.type in (0, 1)

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


@dataclass
class GroupHistory:
    """What each answer about the history of a group has.

    Attributes
    ----------
    group
        The group id.
    coordinator, kafka
        The coordinator ("classic" or "new") and the Kafka version whose rules were applied.
    problems
        One line for each partition that is damaged or whose load fails, with records of the group or without.
    writers
        A line if several Kafka versions wrote the group's records, or a newer one than that of the rules.
    topic_partitions
        The partition count of the offsets topic, and how it was found.
    rewound
        The positions that went back, and what the group reads twice.
    """

    group: str
    coordinator: str
    kafka: str = ""
    problems: list[str] = field(default_factory=list, repr=False)
    writers: str | None = None
    topic_partitions: TopicPartitions = field(default_factory=TopicPartitions, repr=False)
    rewound: list[Position] = field(default_factory=list, repr=False)


class GroupLog:
    """The log of one group: its records with their fates, and its steps in each partition, in the order of the log.

    Two holes never follow each other. To get one, call `load_group_logs`.
    """

    def __init__(self, topic: OpenTopic, group: str) -> None:
        self.topic = topic
        self.dialect = topic.dialect
        self.group = group
        self.steps: dict[int | None, list[Step]] = {}
        self._records: dict[int, RecordFate] = {}
        """The records, and the markers that ended their transactions, by Python's `id`."""
        self._ended: dict[int, set[TopicPartition]] = {}
        """The topic partitions in each ended transaction, by Python's `id` of its marker."""

    def add(self, entry: RecordFate) -> None:
        self._records[id(entry)] = entry

    def add_end(self, commit: RecordFate, marker: RecordFate) -> None:
        """Add the marker that ended the transaction of a commit."""
        if commit.key is not None:
            self.add(marker)
            self._ended.setdefault(id(marker), set()).add(commit.key)

    def begin_history(self, groups: Groups) -> dict[str, Any]:
        """The first fields of a GroupHistory. `groups` is the load."""
        place = {"group": self.group, "coordinator": groups.coordinator, "kafka": groups.kafka}
        found = {"problems": groups.problems, "topic_partitions": groups.topic_partitions}
        return place | found | {"writers": self.describe_writers()}

    @property
    def _group_records(self) -> list[GroupRecord]:
        return [each for each in chain.from_iterable(self.steps.values()) if isinstance(each, GroupRecord)]

    @property
    def has_only_offsets(self) -> bool:
        """Whether all records of the group are offset records: members would have made its coordinator write others,
        also of types that the coordinator of the rules does not read.
        """
        return bool(self._group_records) and all(entry.type in (0, 1, None) for entry in self)

    def __iter__(self) -> Iterator[RecordFate]:
        """Iterate over the records in the order of the log."""
        return iter(sorted(self._records.values(), key=log_order))

    def records_of(self, selects: Callable[[TopicPartition], bool]) -> list[RecordFate]:
        """Return the offset records of the topic partitions that `selects` accepts, and the markers that ended
        their transactions.
        """
        ended = self._ended
        return [entry for entry in self if any(map(selects, [entry.key] if entry.key else ended.get(id(entry), ())))]

    @cached_property
    def _writers(self) -> dict[int | None, list[tuple[int, list[VersionRange]]]]:
        """The ranges of the group's records in each partition, with the versions that can have written each of them.

        The log is complete when somebody asks for them.
        """
        return {partition: _find_writers(steps) for partition, steps in self.steps.items()}

    def find_classic_ranges(self, partition: int | None) -> list[tuple[int, bool]]:
        """Return the first offset of each range, and whether the classic coordinator wrote it.

        That is the coordinator of the rules, if their Kafka version can have written the range. Otherwise, it is the
        classic one, if a version without the new coordinator can have written the range.
        """
        kafka = parse_newest_patch(self.dialect.kafka)
        is_classic = self.dialect.coordinator == "classic"
        return [
            (first, is_classic if any(kafka in each for each in versions) else _is_old(versions))
            for first, versions in self._writers.get(partition, ())
        ] or [(0, is_classic)]

    def describe_writers(self) -> str | None:
        """Return a line if several Kafka versions wrote the group's records, or one that the rules do not fit: a newer
        one, or one whose coordinator ends transactions in another way.
        """
        ranges = {each for found in self._writers.values() for _, versions in found for each in versions}
        common = VersionRange.common_to(ranges)
        rules = f"the rules of Kafka {self.dialect.kafka}"
        newest = max((each.since for each in ranges), default=(0,))
        newer = [each for each in ranges if each.since == newest > parse_newest_patch(self.dialect.kafka)]
        if not common.is_empty() and not self._has_foreign_transactions():
            return _describe_newer([common], "These records", rules) if newer else None
        several = "Several Kafka versions" if common.is_empty() else "Another Kafka version"
        line = (
            f"{several} wrote these records ({_name_versions(ranges)}). Deletions and ends of transactions are told by "
            f"the coordinator that wrote each, fates and answer by Kafka {self.dialect.kafka}, which loads all of them."
        )
        return f"{line} {_describe_newer(newer, 'Some of them', rules)}" if newer else line

    def _has_foreign_transactions(self) -> bool:
        """Return whether the other coordinator than that of the rules wrote transactional commits."""
        is_classic = self.dialect.coordinator == "classic"
        return any(
            any(each.is_pending for each in steps if isinstance(each, GroupRecord))
            and any(written_by_classic != is_classic for _, written_by_classic in self.find_classic_ranges(partition))
            for partition, steps in self.steps.items()
        )


def _find_writers(steps: Iterable[Step]) -> list[tuple[int, list[VersionRange]]]:
    stretches = Stretches()
    for each in steps:
        if isinstance(each, GroupRecord):
            possible = writers_of(each.record, is_transactional=each.is_pending)
            if not possible.is_empty():
                stretches.add(each.offset, each.leader_epoch, possible)
    return stretches.join()


def _is_old(versions: Iterable[VersionRange]) -> bool:
    return any(each.since < FIRST_WITH_NEW_COORDINATOR for each in versions)


def _describe_newer(ranges: Iterable[VersionRange], which: str, rules: str) -> str:
    return f"{which} were written by Kafka {_name_versions(ranges)}, and not by one that {rules} fit: see --kafka."


def _name_versions(ranges: Iterable[VersionRange]) -> str:
    text = describe_writers(ranges)
    return text.replace(" – ", " to ") if text[-1:].isdigit() else text.replace(" – ", " or newer")


class GroupLogs(Fates):
    """Fills the logs of groups with the records of one partition, as an observer of its load."""

    def __init__(self, dialect: Dialect, logs: Mapping[str, GroupLog]) -> None:
        super().__init__(dialect, logs)
        self._logs = logs
        self._gaps = OffsetGaps()
        self._holes: list[Hole] = []
        """The holes of the partition; `missing` counts those before, too."""
        self._seen_holes: dict[str, int] = {}
        """How many of the holes the log of each group contains."""
        self._open_groups: dict[int, set[str]] = {}
        """The groups with offsets in the open transaction of each producer."""
        self._deleted: set[tuple[str, str]] = set()
        """The groups and topics of the offsets that the current batch deletes."""

    def start_batch(self, partition: int | None, batch: Batch) -> None:
        self._note_deleted(batch)
        for hole in self._gaps.find_holes(batch):
            self.add_hole(hole)
        self.add_batch(partition, batch)

    def add_hole(self, hole: Hole) -> None:
        missing_before = self._holes[-1].missing if self._holes else 0
        self._holes.append(hole._replace(missing=missing_before + hole.missing))

    def add_found(self, partition: int | None, batch: Batch) -> Batch:
        """Add a batch, without the records of other groups, and return it."""
        self._note_deleted(batch)
        if not batch.is_control:
            batch = self._select_records(batch)
        self.add_batch(partition, batch)
        return batch

    def _note_deleted(self, batch: Batch) -> None:
        self._deleted = set()
        with suppress(BadBytes):
            if any(record.value is None for record in batch.records):
                keys = read_keys(batch, self._keys)
                found = ((group, key.partition) for group, key, record in keys if record.value is None)
                self._deleted = {(group, partition.topic) for group, partition in found if partition is not None}

    def add_batch(self, partition: int | None, batch: Batch) -> list[tuple[RecordFate, Record | None]]:
        entries = super().add_batch(partition, batch)
        if batch.is_control and batch.producer_id in self._open_groups:
            self._add_marker(batch)
        has_producer = batch.producer_id != NO_PRODUCER_ID
        is_transactional = batch.is_transactional if self.dialect.coordinator == "classic" else has_producer
        for entry, record in entries:
            if record is None or isinstance(record.key, UnknownContent):
                continue
            if entry.group is None or entry.group not in self._logs:
                continue
            is_pending = is_transactional and entry.key is not None
            if is_pending:
                self._open_groups.setdefault(batch.producer_id, set()).add(entry.group)
            origin = (batch.base_offset, batch.records[0].offset, batch.producer_id)
            place = (entry, entry.offset, entry.timestamp, record, *origin, is_pending, batch.partition_leader_epoch)
            others = {group for group, topic in self._deleted if entry.key and topic == entry.key.topic} - {entry.group}
            self._add_step(entry.group, GroupRecord(*place, tuple(sorted(others))))
        return entries

    def _keep(self, entry: RecordFate) -> None:
        super()._keep(entry)
        if entry.group is not None:
            self._logs[entry.group].add(entry)

    def _add_step(self, group: str, *step: Step) -> None:
        steps = self._logs[group].steps.setdefault(self.partition, [])
        seen = self._seen_holes.get(group, 0)
        if seen < len(self._holes):
            missing_before = self._holes[seen - 1].missing if seen else 0
            last = self._holes[-1]
            steps.append(Hole(self._holes[seen].first, last.last, last.missing - missing_before))
        self._seen_holes[group] = len(self._holes)
        steps += step

    def _add_marker(self, batch: Batch) -> None:
        """Add the first marker in a control batch, which ends a transaction of groups.

        The classic coordinator reads only the first record of the batch, and each type except COMMIT aborts.
        """
        is_classic = self.dialect.coordinator == "classic"
        with suppress(BadBytes):  # The load fails at this batch.
            for record in batch.records[:1] if is_classic else batch.records:
                control_type = read_control_type(record)
                if is_classic or control_type in (ControlType.COMMIT, ControlType.ABORT):
                    commits = control_type is ControlType.COMMIT
                    for group in self._open_groups.pop(batch.producer_id):
                        self._add_step(group, Marker(record.offset, record.timestamp, batch.producer_id, commits))
                    return

    def set_fate(self, offset: OffsetAndMetadata, fate: Fate, by: int) -> None:
        entry = self._find_entry(offset)
        super().set_fate(offset, fate, by)
        marker = self._current
        if entry is None or entry.group is None or marker is None or marker.fate is not Fate.MARKER:
            return
        if fate in (Fate.WINS, Fate.ABORTED):
            self._logs[entry.group].add_end(entry, marker)

    def settle(self, loaded: Groups) -> None:
        for group in self._seen_holes:
            self._add_step(group)
        super().settle(loaded)

    def _select_records(self, batch: Batch) -> Batch:
        """Return a batch with only the records of the groups, and its first record, whose offset the classic
        coordinator compares.
        """
        keeps_first = self.dialect.coordinator == "classic"

        def parse_records(_: Batch) -> tuple[LogRecord, ...]:
            return tuple(
                record
                for index, record in enumerate(batch.records)
                if (keeps_first and index == 0) or _read_group(record.key or b"") in self._logs
            )

        return replace(batch, parse_records=parse_records)


def _read_group(key: bytes) -> str:
    """Return the group id in a key. What is no UTF-8 gives an id that no log has (`_has_one_encoding`)."""
    return key[4 : 4 + int.from_bytes(key[2:4], "big")].decode("utf-8", "replace")


def load_group_logs(
    topic: OpenTopic, groups: Iterable[str], whole: WholeTopic | None = None
) -> tuple[Groups, dict[str, GroupLog]]:
    """Load a topic. Return the result, and the log of each of the groups, in which the fates are settled.

    `whole` is the one of `OpenTopic.load`.
    """
    dialect = topic.dialect
    topic = topic.in_memory()
    logs = {group: GroupLog(topic, group) for group in groups}
    if not all(map(_has_one_encoding, logs)):
        topic = replace(topic, engine="python")
    load = ObservedLoad(topic, lambda log, notes: GroupLogs(dialect, logs), whole, groups=list(logs))
    for log in topic.logs:
        fates = load.observers.get(log.partition)
        if fates is None:
            fates = GroupLogs(dialect, logs)
            batches = _read_found(native.reading_of(load.shards[log.partition]), log, fates)
            readable.fold_batches(log.partition, batches, dialect, fates)
        fates.settle(load.groups)
    return load.groups, logs


def describe_conflict(log: GroupLog, partition: int | None, offset: int) -> str:
    """Name the newest older record of a group without which the record at which a load fails is accepted.

    If one record is not enough, it is the newest of those that conflict together. There is none if the failure depends
    on other groups, or on commits.
    """
    steps = log.steps.get(partition, ())
    own = [each for each in steps if isinstance(each, GroupRecord) and not each.is_offset and each.offset <= offset]

    def is_accepted(records: Iterable[GroupRecord]) -> bool:
        shard = readable.empty_shard(partition, log.dialect)
        with suppress(LoadFailed, BadBytes):
            for each in records:
                shard.replay_group(each.offset, each.record, log.group)
            return True
        return False

    older = [] if is_accepted(own) else own[-2 : -MAX_OLDER_RECORDS - 2 : -1]
    together = older[:1] if is_accepted(own[-1:]) else []
    alone = (each for each in older if is_accepted(other for other in own if other is not each))
    found = next(chain(alone, together), None)
    if found is None:
        return ""
    member_id = getattr(found.record.key, "member_id", "")
    name = f"{RECORD_TYPES[found.type].name}{f' of member {member_id}' if member_id else ''}"
    return f" Record {offset} conflicts with the older record {found.offset} ({name})."


def _has_one_encoding(group: str) -> bool:
    """Return whether a key can have the id of a group, and only in the same bytes as this text.

    U+FFFD is Java's text for bytes that are not UTF-8, so different bytes can be the same group id.
    """
    encoded_id = group.encode("utf-8", "replace")
    return encoded_id.decode() == group and "\ufffd" not in group and len(encoded_id) <= MAX_STRING_BYTES


def _read_found(reading: Any, log: Log, fates: GroupLogs) -> Iterator[Batch]:
    places, last_hole = reading.found_batches()
    for (_, _, _, hole), batch in zip(places, native.read_batches_at(log, places), strict=True):
        if hole is not None:
            fates.add_hole(Hole(*hole))
        yield fates.add_found(log.partition, batch)
    if last_hole is not None:
        fates.add_hole(Hole(*last_hole))
