"""What the records of one log come to, including the static members whose instance id gets new member ids.

Both engines fill the same `Totals`: the native engine counts inside a load, and the readable engine calls an observer
for each record. Which records are live is only known when all logs are loaded.

After a restart, a static member joins without a member id, and the coordinator gives its instance id a new one; the old
one gets FENCED_INSTANCE_ID. If two processes have the same instance id, each of them fences the other one, restarts,
and joins again. While the group is Stable, each replacement writes the group's record again, without a new generation.
A rolling restart replaces each instance id once. So `shared_instance_id` is found if an instance id got
MIN_REPLACEMENTS new member ids within FAST_MS, or as many within ALTERNATING_MS while the records alternate between two
settings: the client id, the host, the timeouts and the rack.

The coordinator keeps the client id and the host of the member that it replaces, so they often do not tell the processes
apart. A group is examined in a record if the first member of the record is static.
Source: GroupMetadata.replaceStaticMember, GroupCoordinator.updateStaticMemberAndRebalance (3.9); ClassicGroup (4.3.1).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress, pairwise
from typing import Any, NamedTuple

from kafkagroups.groups.offsets import CLASSIC_GROUP_TYPE, GROUP_ENDING_TYPES, Fate, TopicPartition
from kafkagroups.groups.replay import Shard, read_keys
from kafkagroups.history.event import MIN_STEP_MS, Position, read_member, split_runs
from kafkagroups.history.fates import Fates, RecordFate
from kafkagroups.history.finding import count_of
from kafkagroups.history.stats import Count, OpenTransaction, SegmentCount
from kafkagroups.history.storms import MIN_REBALANCES, WINDOW_MS
from kafkagroups.loading import native
from kafkagroups.loading.groups import Answers, Groups
from kafkagroups.log.batch import NO_TIMESTAMP, Batch, LogRecord
from kafkagroups.log.segment_file import base_offset_of
from kafkagroups.log.segments import Log, Notes
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkagroups.records.releases import EVERY_VERSION, Dialect, VersionRange
from kafkagroups.records.serde import Record, decode, has_type
from kafkagroups.records.wire import UUID
from kafkagroups.records.written_versions import writers_of

MIN_REPLACEMENTS = 5
FAST_MS = 600_000
ALTERNATING_MS = 3_600_000
MIN_SWITCHES = 3
"""With fewer changes, the settings can be those of one process that got new ones."""
SETTINGS_SHOWN = 4
Settings = tuple[tuple[str, str], ...]
"""What a member record tells about the process of the member (`Member.settings`)."""


class Replacement(NamedTuple):
    offset: int
    timestamp_ms: int
    settings: Settings


class StaticMembers(dict[tuple[str, str], list[Replacement]]):
    """The replacements of each group and instance id."""

    def add(self, offset: int, timestamp_ms: int, record: Record, indexes: Iterable[int]) -> None:
        """Note a record of a group. The members with these indexes have new ids."""
        assert isinstance(record.key, GroupMetadataKey) and isinstance(record.value, GroupMetadataValue)
        for index in indexes:
            member = record.value.members[index]
            settings = (*read_member(member, record.value.protocol_type).settings.items(),)
            replacements = self.setdefault((record.key.group, member.group_instance_id or ""), [])
            replacements.append(Replacement(offset, timestamp_ms, settings))


def find_shared(replacements: Iterable[Replacement]) -> Iterator[list[Replacement]]:
    """Yield replacements, each within ALTERNATING_MS of the one before, that fulfil the rule from the first one on."""
    for run in split_runs(replacements, lambda each, run: each.timestamp_ms - run[-1].timestamp_ms > ALTERNATING_MS):
        for start in range(len(run) - MIN_REPLACEMENTS + 1):
            if _is_shared(run[start : start + MIN_REPLACEMENTS]):
                yield run[start:]
                break


def _is_shared(replacements: Sequence[Replacement]) -> bool:
    span_ms = replacements[-1].timestamp_ms - replacements[0].timestamp_ms
    settings = [replacement.settings for replacement in replacements]
    alternates = len(set(settings)) == 2 and all(earlier != later for earlier, later in pairwise(settings))
    return span_ms <= FAST_MS or (span_ms <= ALTERNATING_MS and alternates)


def describe_settings(replacements: Sequence[Replacement]) -> str:
    """Return what differs between the records, and what it means."""
    settings_of = [replacement.settings for replacement in replacements]
    counts = Counter(settings_of)
    if len(counts) == 1:
        return (
            "All these records have the same settings, and always the client id and the host of the first process. "
            "Either two processes have this instance id and fence each other, or one process starts again and again."
        )
    different = [len(set(values)) > 1 for values in zip(*counts, strict=True)]
    lines = []
    for settings, count in counts.items():
        ends = [name for name, end in (("the first", 0), ("the last", -1)) if settings_of[end] == settings]
        shown = [f"{name} {setting}" for name, setting in compress(settings, different)]
        lines.append(f"{', '.join(shown)} ({', '.join([count_of(count, 'time'), *ends])})")
    switches = sum(before != after for before, after in pairwise(settings_of))
    meaning = "Two processes have this instance id and fence each other. " if switches >= MIN_SWITCHES else ""
    more = "; …" if len(lines) > SETTINGS_SHOWN else ""
    return f"{meaning}The records have different settings: {'; '.join(lines[:SETTINGS_SHOWN])}{more}."


MIN_STEPS_BACK = 2
MAX_STEPS = 100
"""After this number of steps back, the rest of the log is not examined. Its times have no order at all."""
OFFSET_TYPES = (0, 1)
"""The types of offset records."""


class Row(NamedTuple):
    """What records are counted together. A field is None if the records have none."""

    group: str | None = None
    topic: str | None = None
    type: int | None = None


class StepBack(NamedTuple):
    """A record that is at least MIN_STEP_MS earlier than a record before it.

    `newest_ms` is the newest time since the record of the previous step, whose offset is `after` (or -1).
    """

    after: int
    newest_ms: int
    offset: int
    timestamp_ms: int


@dataclass
class Totals:
    """What the records of one log come to.

    `times` are the smallest and the largest timestamp; None if no record has one. `markers` counts the abort and the
    commit markers. `writers` are the Kafka versions that can have written the records. `steps` are the
    steps back in time. `watched_groups` are those whose history is worth a replay (`Watch`), because they had many
    rebalances in an hour, or an offset that can have skipped or gone back.
    After the load of all logs, `read_extents` returns where each group has records, and `count_rows` what the records
    of each row come to.
    """

    count_rows: Callable[[Groups, Answers], Iterable[tuple[Row, Count]]]
    read_extents: Callable[[], Mapping[str, native.Extent]]
    segments: list[SegmentCount]
    static_members: StaticMembers
    times: tuple[int, int] | None = None
    markers: tuple[int, int] = (0, 0)
    open_transactions: list[OpenTransaction] = field(default_factory=list)
    writers: set[VersionRange] = field(default_factory=set)
    steps: list[StepBack] = field(default_factory=list)
    watched_groups: set[str] = field(default_factory=set)


def take_totals(shard: Shard, log: Log, dialect: Dialect) -> Totals:
    """Return what the native engine has counted."""
    counted = native.reading_of(shard).totals(True)
    group_ids = counted["group_ids"]
    segments = zip(log.segments, counted["segments"], strict=True)
    static_members = StaticMembers()
    for offset, timestamp_ms, key, value, indexes in counted["static_replacements"]:
        static_members.add(offset, timestamp_ms, decode(key, value, dialect), indexes)
    return Totals(
        lambda groups, answers: _take_rows(counted, answers, log.partition),
        lambda: {group_ids[number]: native.Extent(*extent) for number, *extent in counted["extents"]},
        [SegmentCount(base_offset_of(name), *numbers) for name, numbers in segments],
        static_members,
        counted["times"],
        counted["markers"],
        [
            OpenTransaction(producer_id, first_offset, since_ms, sorted(group_ids[number] for number in numbers))
            for producer_id, first_offset, since_ms, numbers in counted["open_transactions"]
        ],
        _find_writers(shard, counted, dialect),
        [StepBack(*step) for step in counted["time_steps"]],
        {group_ids[number] for number in counted["watched_groups"]},
    )


def _take_rows(counted: dict[str, Any], answers: Answers, partition: int | None) -> Iterator[tuple[Row, Count]]:
    group_ids = counted["group_ids"]
    found = [None if group_id is None else answers.find(group_id, partition) for group_id in group_ids]
    yield Row(), Count(*counted["control"][:2])
    for number, topic, record_type, counts in counted["rows"]:
        records, size, tombstones, committed_records, committed_bytes, pending_records, pending_bytes = counts
        is_committed = found[number].committed is Fate.WINS
        is_pending = found[number].pending is Fate.PENDING
        live_records = is_committed * committed_records + is_pending * pending_records
        live_bytes = is_committed * committed_bytes + is_pending * pending_bytes
        yield Row(group_ids[number], topic, record_type), Count(records, size, live_records, live_bytes, tombstones)
    for number, record_type, (records, size, tombstones) in counted["other_rows"]:
        group_id = None if number is None else group_ids[number]
        yield Row(group_id, None, record_type), Count(records, size, tombstones=tombstones)
    for number, record_type, size in counted["live_group_records"]:
        if found[number].records is Fate.WINS:
            yield Row(group_ids[number], None, record_type), Count(live_records=1, live_bytes=size)


def _find_writers(shard: Shard, counted: dict[str, Any], dialect: Dialect) -> set[VersionRange]:
    """Return the Kafka versions that can have written each record of a log.

    The engine keeps one example of the records that the same versions write, but each record of the new protocols is
    decoded, because any field can decide.
    """
    examples = counted["examples"]
    writers = {writers_of(decode(key, value, dialect), is_transactional=flag) for key, value, flag in examples}
    others = native.other_records(native.reading_of(shard))
    odd = ((key, value) for _, _, key, value, is_plain in others if not is_plain and value is not None)
    writers |= {writers_of(decode(key, value, dialect)) for key, value in odd}
    if any(not has_type(dialect, record_type) for _, record_type, _ in counted["other_rows"]):
        writers.add(EVERY_VERSION)
    return writers


class Watch:
    """Chooses the groups that are worth a replay: at least those that the native engine chooses (engine/src/follow.rs).

    A commit in a transaction takes effect later, so its group is always chosen.
    """

    def __init__(self) -> None:
        self._rebalances: defaultdict[str | None, deque[int]] = defaultdict(lambda: deque(maxlen=MIN_REBALANCES))
        self._positions: dict[tuple[str | None, TopicPartition], tuple[Position, str, int]] = {}
        """The position of each key, in the order of the records, the id of its topic, and the newest leader epoch."""

    def add(self, entry: RecordFate, record: Record) -> bool:
        """Return whether the group of a record is worth a replay."""
        if entry.key is None:
            return record.type in GROUP_ENDING_TYPES and record.value is not None and self._add_rebalance(entry)
        if entry.committed is None:
            self._positions.pop((entry.group, entry.key), None)
            return False
        topic_id = getattr(record.value, "topic_id", UUID.default)
        leader_epoch = getattr(record.value, "leader_epoch", -1)
        position, known_id, known_epoch = self._positions.get((entry.group, entry.key), (None, "", -1))
        if position is None or topic_id not in (known_id, UUID.default):
            position = Position(entry.key, entry.partition, entry.committed, entry.offset, None)
            self._positions[entry.group, entry.key] = (position, topic_id, leader_epoch)
            return entry.is_transactional
        self._positions[entry.group, entry.key] = (position, known_id, leader_epoch)
        # A tool that sets an offset ahead commits no leader epoch.
        is_set = known_epoch >= 0 > leader_epoch and entry.committed > position.now
        is_skip = is_set or position.skips(entry.committed)
        position.commit(entry.committed, entry.offset, None, is_by_member=False)
        return is_skip or len(position.rereads) >= MIN_STEPS_BACK or entry.is_transactional

    def _add_rebalance(self, entry: RecordFate) -> bool:
        times = self._rebalances[entry.group]
        times.append(entry.timestamp)
        return len(times) == MIN_REBALANCES and entry.timestamp - times[0] <= WINDOW_MS


class Observed(Fates):
    """Counts the records of one log for the readable engine. Load the log with this observer, and then call `finish`.

    To save memory, only records that may still be live are kept.
    """

    def __init__(self, dialect: Dialect, log: Log, notes: Notes) -> None:
        super().__init__(dialect)
        self._notes = notes
        self._bases = [base_offset_of(name) for name in log.segments]
        self._rows: defaultdict[Row, Count] = defaultdict(Count)
        self._extents: dict[str, native.Extent] = {}
        self._open: dict[int, OpenTransaction] = {}
        """The open transactions by producer id."""
        self._next_offset = log.start_offset
        self._members: dict[bytes, dict[str | None, str]] = {}
        """The member id of each instance id in the newest record of a group, by the key of the record."""
        self._watch = Watch()
        self._step_start = -1
        self._newest_ms = NO_TIMESTAMP
        self._numbers = {name: number for number, name in enumerate(log.segments)}
        self._segments = [SegmentCount(base) for base in self._bases]
        self._totals = Totals(self._count_rows, lambda: self._extents, self._segments, StaticMembers())

    def finish(self) -> Totals:
        """Return the totals after the last batch."""
        self._totals.open_transactions = list(self._open.values())
        return self._totals

    def start_batch(self, partition: int | None, batch: Batch) -> None:
        entries = self.add_batch(partition, batch)
        self._count_segment(batch)
        for group_id, _, found in read_keys(batch, self._keys):
            extent = self._extents.get(group_id, native.Extent(found.offset, found.offset, 0, None))
            self._extents[group_id] = native.Extent(extent.first, found.offset, extent.records + 1, None)
        if not entries:
            # The cleaner removed all records of the batch, or the records cannot be read.
            self._rows[Row()].bytes += batch.size
            return
        ends = [*accumulate((entry.size for entry, _ in entries), initial=0)]
        parts = pairwise(batch.size * end // ends[-1] for end in ends)
        for (entry, record), (start, end), log_record in zip(entries, parts, batch.records, strict=True):
            entry.size = end - start
            row = self._row_of(entry)
            row.records += 1
            row.bytes += entry.size
            row.tombstones += entry.fate is Fate.TOMBSTONE
            self._note_time(entry.offset, entry.timestamp)
            if record is not None:
                self._totals.writers.add(writers_of(record, is_transactional=batch.is_transactional))
                is_new = entry.group is not None and entry.group not in self._totals.watched_groups
                if entry.group is not None and is_new and self._watch.add(entry, record):
                    self._totals.watched_groups.add(entry.group)
                if record.type == CLASSIC_GROUP_TYPE:
                    self._note_members(log_record, record)
            if entry.fate is Fate.MARKER:
                aborts, commits = self._totals.markers
                self._totals.markers = (aborts + (entry.note == "abort"), commits + (entry.note == "commit"))
                self._open.pop(batch.producer_id, None)
            # The fate of a tombstone, a marker or an ignored record is already decided: the record is not live.
            if entry.fate is not None:
                self.drop(entry)
        if batch.is_transactional and not batch.is_control:
            transaction = OpenTransaction(batch.producer_id, batch.base_offset, batch.records[0].timestamp)
            transaction = self._open.setdefault(batch.producer_id, transaction)
            groups = {*transaction.groups, *(entry.group for entry, _ in entries if entry.group is not None)}
            transaction.groups = sorted(groups)

    def _count_segment(self, batch: Batch) -> None:
        gaps = self._notes.gaps
        if gaps and gaps[-1].to_offset == batch.base_offset:
            self._next_offset = batch.base_offset  # The offsets before it are damaged, and not cleaned.
        self._segments[self._numbers[batch.file or ""]].add_batch(batch, self._next_offset)
        self._next_offset = batch.next_offset

    def _row_of(self, entry: RecordFate) -> Count:
        return self._rows[Row(entry.group, None if entry.key is None else entry.key.topic, entry.type)]

    def _note_time(self, offset: int, timestamp_ms: int) -> None:
        if timestamp_ms == NO_TIMESTAMP:
            return
        first_ms, last_ms = self._totals.times or (timestamp_ms, timestamp_ms)
        self._totals.times = (min(first_ms, timestamp_ms), max(last_ms, timestamp_ms))
        if timestamp_ms > self._newest_ms:
            self._newest_ms = timestamp_ms
        elif 0 <= timestamp_ms <= self._newest_ms - MIN_STEP_MS and len(self._totals.steps) < MAX_STEPS:
            self._totals.steps.append(StepBack(self._step_start, self._newest_ms, offset, timestamp_ms))
            self._step_start = offset
            self._newest_ms = timestamp_ms

    def _note_members(self, log_record: LogRecord, record: Record) -> None:
        key = log_record.key or b""
        members = record.value.members if isinstance(record.value, GroupMetadataValue) else []
        known = self._members.pop(key, {})
        if not members or members[0].group_instance_id is None:
            return
        ids = [(each.group_instance_id, each.member_id) for each in members]
        indexes = [index for index, (instance, member) in enumerate(ids) if known.get(instance, member) != member]
        if indexes:
            self._totals.static_members.add(log_record.offset, log_record.timestamp, record, indexes)
        self._members[key] = {instance: member for instance, member in ids if instance is not None}

    def decide(self, entry: RecordFate, fate: Fate, by: int, has_same_key: bool = True) -> None:
        if fate is Fate.WINS:
            super().decide(entry, fate, by)
            return
        self.drop(entry)
        if has_same_key:
            places = (bisect_right(self._bases, by) - 1, self._numbers[entry.file or ""])
            self._segments[max(0, *places)].replaced_bytes += entry.size

    def _count_rows(self, groups: Groups, answers: Answers) -> Iterable[tuple[Row, Count]]:
        self.settle(groups)
        for entry in self:
            if entry.fate in (Fate.WINS, Fate.PENDING):
                row = self._row_of(entry)
                row.live_records += 1
                row.live_bytes += entry.size
        return self._rows.items()
