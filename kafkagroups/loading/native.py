"""The native engine: folds one log into a shard, or hands the log over to the readable engine.

The engine is the module `kafkagroups_engine`, which is written in Rust (engine/). It reads segments and returns
columns: committed and pending offsets, the group records that still count, and, on request, counts, fates, and the
batches of some groups. It holds no rule that the readable engine (groups/replay.py) does not have, and it knows no
group: the records that are not offset records are replayed here, by the code of the readable engine.

The engine hands a log over if the log is unusual: batches of magic 0 or 1, damage, an odd layout, offsets that do not
rise, or a record that a coordinator refuses. Rules of Kafka before 0.10.1 are handed over too, because these releases
keep offsets separately from groups.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count, groupby
from operator import itemgetter
from types import SimpleNamespace
from typing import Any, NamedTuple

from kafkagroups.errors import BadBytes, InvalidLog, LoadFailed, UsageError
from kafkagroups.groups import replay
from kafkagroups.groups.group import Group, UndecodedGroup
from kafkagroups.groups.modern_replay import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.groups.offsets import GROUP_ENDING_TYPES, NativeOffsets
from kafkagroups.helpers import MAX_INT64, MIN_INT64
from kafkagroups.loading.columns import BATCH_BYTES, BATCH_ROWS
from kafkagroups.log.batch import NO_TIMESTAMP, Batch, LogRecord, parse_record_batch
from kafkagroups.log.segment_file import base_offset_of, check_regular, segment_errors
from kafkagroups.log.segments import NO_STOP, Log, Notes, Stop, batches_until
from kafkagroups.records.consumer_group import MemberIdKey
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.releases import Dialect
from kafkagroups.records.serde import RECORD_TYPES, has_type, newest_value_version

INTERFACE = 5
REBUILD = "pip install ./engine"
LOADS, COUNTS, KEEPS_FATES = range(3)
"""What `read` follows: nothing; what the records come to; and also the fate of each record."""


OtherRecord = tuple[int, int, bytes, bytes | None, bool]
"""A record that is not an offset record: its offset, the offset of the newest commit of its group since the record
before of this kind (-1: none), its key, its value, and whether it is a group record that can certainly be read."""
GroupChange = tuple[str, int, tuple[bytes, bytes | None] | None, bool]
"""The id of a group, the offset of the record that changes it, the key and the value of this record, and whether no
record before it matters to the group any longer. They are None if a commit creates the group, or if a record of another
kind deletes it: the record of a classic group that does the same would be another one."""


class HandedOver(Exception):
    """The native engine cannot fold a log exactly."""

    def __init__(self, segment: str, position: int, reason: str) -> None:
        super().__init__(f"{segment}: position {position}: {reason}")
        self.segment = segment
        self.position = position
        self.reason = reason


@cache
def find_module() -> Any:
    """KAFKAGROUPS_ENGINE=off means that the engine counts as not installed.

    Raises ImportError if it is not installed, and UsageError if it does not work or has another interface.
    """
    if os.environ.get("KAFKAGROUPS_ENGINE") == "off":
        raise ImportError("KAFKAGROUPS_ENGINE is off", name="kafkagroups_engine")
    try:
        import kafkagroups_engine
    except ModuleNotFoundError:
        raise
    except ImportError as error:
        raise UsageError(
            f"the installed kafkagroups_engine does not work here ({error}): build it again with {REBUILD}"
        ) from None

    found = getattr(kafkagroups_engine, "INTERFACE", None)
    if found != INTERFACE:
        raise UsageError(
            f"the installed kafkagroups_engine has interface {found}, and this kafkagroups needs {INTERFACE}: "
            f"build it again with {REBUILD}"
        )
    return kafkagroups_engine


@cache
def is_available() -> bool:
    """If the engine is installed and does not work, say so once on stderr."""
    try:
        find_module()
    except ImportError:
        return False
    except UsageError as error:
        print(f"{error}; until then, the readable engine answers", file=sys.stderr)
        return False
    return True


class TypeRule(NamedTuple):
    """What the engine knows of a record type: whether its key has a group id, a text after it, and whether this is a
    member id, and whether its tombstone deletes the group.
    """

    is_read: bool = False
    has_group: bool = False
    has_detail: bool = False
    has_member: bool = False
    ends_group: bool = False
    newest_version: int = 0


def make_rules(dialect: Dialect, stop: Stop, log: Log) -> SimpleNamespace:
    is_classic = dialect.coordinator == "classic"
    last_offset = MAX_INT64 if stop.until_offset is None else _limit(stop.until_offset - 1)
    last_time = MAX_INT64 if stop.until_time is None else _limit(stop.until_time)
    if stop.until_time is not None and stop.until_time < MIN_INT64:  # Every timestamp is after this time.
        last_offset = MIN_INT64
    return SimpleNamespace(
        is_classic=is_classic,
        max_offset_version=dialect.max_offset_value_version,
        max_type0_version=dialect.max_type0_value_version,
        max_group_version=dialect.max_group_value_version,
        keeps_topic_ids=not is_classic and dialect.version >= (4, 1),
        needs_marker=is_classic and not dialect.since(2, 0, 1),
        last_offset=last_offset,
        last_time=last_time,
        max_batch_bytes=log.max_batch_bytes,
        start_offset=log.start_offset,
        types=[_describe_type(dialect, number) for number in range(max(RECORD_TYPES) + 1)],
    )


def _limit(number: int) -> int:
    return max(MIN_INT64, min(number, MAX_INT64))


def _describe_type(dialect: Dialect, number: int) -> TypeRule:
    if number not in RECORD_TYPES:
        return TypeRule()
    key = RECORD_TYPES[number].key
    has_member = issubclass(key, MemberIdKey)
    return TypeRule(
        has_type(dialect, number),
        number in (0, 1, 2) or number in GROUP_TYPE_BY_RECORD_TYPE,
        has_member or hasattr(key, "regular_expression"),
        has_member,
        number in GROUP_ENDING_TYPES,
        newest_value_version(dialect, number),
    )


def list_segments(log: Log) -> list[tuple[Any, int, int, int | None]]:
    segments: list[tuple[Any, int, int, int | None]] = []
    for segment in log.segments:
        start, end = log.range_of(segment)
        source: Any = None
        if log.content is not None:
            source = memoryview(log.content[segment]).cast("B")
        else:
            source = os.path.join(log.folder, segment)
            with segment_errors(segment):
                check_regular(os.stat(source), segment)
        segments.append((source, base_offset_of(segment), start, end))
    return segments


def read(
    log: Log,
    dialect: Dialect,
    stop: Stop = NO_STOP,
    *,
    follow: int = LOADS,
    groups: Collection[str] = (),
    producers: Collection[int] = (),
    count_bytes: replay.CountBytes = replay.ignore_bytes,
) -> Any:
    """Fold a log, and return the `Reading` of the engine (python.rs).

    `follow` is LOADS, COUNTS or KEEPS_FATES. The batches of `groups`, or those of `producers`, are found
    (`Reading.found_batches`). Raises HandedOver, UsageError if a segment cannot be read, and InvalidLog if it has
    changed.
    """
    if replay.has_separate_offset_cache(dialect):
        raise HandedOver(log.path, 0, "this release keeps offsets separately from groups")
    uncounted = 0 if count_bytes is replay.ignore_bytes else log.size

    def count(size: int) -> None:
        nonlocal uncounted
        uncounted -= size
        count_bytes(size)

    with engine_errors(log):
        reading = find_module().read(
            list_segments(log),
            make_rules(dialect, stop, log),
            follow=follow,
            groups=[group.encode() for group in groups],
            producers=list(producers),
            progress=None if count_bytes is replay.ignore_bytes else count,
        )
    count_bytes(max(uncounted, 0))  # The bytes after a stop, and zeros.
    return reading


def read_if_possible(log: Log, dialect: Dialect, stop: Stop = NO_STOP, **options: Any) -> Any:
    with suppress(HandedOver):
        return read(log, dialect, stop, **options)
    return None


class Extent(NamedTuple):
    first: int
    last: int
    records: int
    times: tuple[int, int] | None


def read_extents(log: Log, dialect: Dialect, stop: Stop = NO_STOP) -> dict[str, Extent] | None:
    reading = read_if_possible(log, dialect, stop, follow=COUNTS)
    if reading is None:
        return None
    totals = reading.totals(False)
    return {totals["group_ids"][number]: Extent(*extent) for number, *extent in totals["extents"]}


def read_records(log: Log, dialect: Dialect, batch_count: int, *, with_content: bool) -> Iterator[dict[str, Any]]:
    """Yield the records of a log that the engine has folded in `batch_count` batches, as columns (`Records.read`).

    `with_content` adds the bytes of keys and values. Raises InvalidLog if the log has changed since.
    """
    try:
        with engine_errors(log):
            rules = make_rules(dialect, NO_STOP, log)
            records = find_module().Records(list_segments(log), rules, batch_count, with_content)
            while (columns := records.read(BATCH_ROWS, BATCH_BYTES)) is not None:
                yield columns
    except HandedOver as error:
        raise InvalidLog(f"{error.segment}: the file has changed while it was read: read the log again") from None


def read_batches_at(log: Log, places: Iterable[Sequence[Any]]) -> Iterator[Batch]:
    for index, rows in groupby(places, key=itemgetter(0)):
        segment = log.segments[index]
        with log.open(segment) as file:
            for _, position, size, *_ in rows:
                data = file.read_at(position, size)
                batch = parse_record_batch(data, position, segment, log.max_batch_bytes) if len(data) == size else None
                if batch is None or not batch.is_valid:
                    raise InvalidLog(f"{segment}: the file has changed while it was read: read the log again")
                yield batch


@contextmanager
def engine_errors(log: Log) -> Iterator[None]:
    try:
        yield
    except find_module().HandOver as error:
        index, position, reason = error.args
        raise HandedOver(log.segments[index], position, reason) from None
    except OSError as error:
        if not isinstance(error.filename, int):
            raise
        segment = log.segments[error.filename]
        if error.errno is None:
            raise InvalidLog(f"{segment}: {error.strerror}: read it again") from None
        with segment_errors(segment):
            raise OSError(error.errno, os.strerror(error.errno)) from None


def fold(
    log: Log, dialect: Dialect, stop: Stop = NO_STOP, *, count_bytes: replay.CountBytes = replay.ignore_bytes
) -> replay.Shard:
    shard = fold_if_possible(log, dialect, stop, count_bytes=count_bytes)
    return replay.fold(log, dialect, stop, count_bytes=count_bytes) if shard is None else shard


def fold_if_possible(log: Log, dialect: Dialect, stop: Stop = NO_STOP, **options: Any) -> replay.Shard | None:
    with suppress(HandedOver):
        reading = read(log, dialect, stop, **options)
        notes = find_damage(reading, log, stop)
        shard = make_shard(reading, log, dialect)
        shard.loaded.damage = replay.describe_rest(log, notes.damage, dialect)
        notes.zeros = shard.loaded.zeros
        shard.loaded.start = log.start_failure
        if stop == NO_STOP or notes.damage is not None:
            log.keep_notes(notes)
        return shard
    return None


def find_damage(reading: Any, log: Log, stop: Stop) -> Notes:
    """Return the damage at which a reading has ended, as the readable engine does, so that a torn last batch makes no
    load slow.

    Raises HandedOver if the log does not end there.
    """
    notes = Notes()
    if reading.damage is None:
        return notes
    index, position = reading.damage
    rest = log.select_from(log.segments[index], position, reading.next_offset if reading.batches else log.start_offset)
    if log.skips_damage or next(batches_until(rest, stop, notes), None) is not None:
        raise HandedOver(log.segments[index], position, "bytes that are no batch of magic 2")
    return notes


def reading_of(shard: replay.Shard) -> Any:
    assert isinstance(shard.offsets, NativeOffsets)
    return shard.offsets.reading


def make_shard(reading: Any, log: Log, dialect: Dialect) -> replay.Shard:
    """Raises HandedOver if the load fails at a group record."""
    offsets = NativeOffsets(reading)
    shard = replay.create_shard(log, dialect)
    shard.offsets = offsets
    if reading.zeros is not None:
        index, position, size = reading.zeros
        shard.loaded.zeros = log.describe_zeros(log.segments[index], position, size)
    shard.loaded.gaps = [] if log.skips_damage else None
    shard.loaded.batches = reading.batches
    shard.loaded.records = reading.records
    if reading.batches:
        shard.loaded.next_offset = reading.next_offset
    try:
        shard.seen_group_ids.update(dict.fromkeys(offsets.newest_commits))
        for _ in replay_other_records(shard, other_records(reading), offsets.newest_commits):
            pass
    except (LoadFailed, BadBytes) as error:
        # The readable engine must load the log again: only its shard has the exact content at the failure.
        raise HandedOver(log.path, 0, f"the load fails: {error}") from None
    return shard


def other_records(reading: Any) -> Iterator[OtherRecord]:
    for start in count(step=BATCH_ROWS):
        part = reading.other_records(start, BATCH_ROWS)
        yield from part
        if len(part) < BATCH_ROWS:
            return


def replay_other_records(
    shard: replay.Shard, records: Iterable[OtherRecord], newest_commits: Mapping[str, int]
) -> Iterator[GroupChange]:
    """Replay the records that are not offset records, create the groups that only have commits, and yield each change.

    In the new coordinator, a commit creates its group if it does not exist. The classic coordinator creates these
    groups after the load, in the cache (load.py).
    """
    is_classic = isinstance(shard, replay.ClassicShard)
    groups = shard.groups
    keys = replay.LogKeys(shard.dialect)
    last_removals: dict[str, int] = {}
    for offset, commit_before, key, value, is_plain in records:
        if is_plain:
            group_id = key[4 : 4 + int.from_bytes(key[2:4], "big")].decode()
            shard.seen_group_ids[group_id] = None
            undecoded = None if value is None else UndecodedGroup(shard.partition, offset, key, value, shard.dialect)
            shard.keep_group(group_id, undecoded)
            yield group_id, offset, (key, value), True
        else:
            _, group_id, _, record = shard.decode_record(LogRecord(offset, NO_TIMESTAMP, key, value), keys)
            if not is_classic and commit_before >= 0 and group_id not in groups:
                groups[group_id] = Group(group_id, shard.partition)
                yield group_id, commit_before, None, True
            was_known = group_id in groups
            is_of_group = isinstance(record.key, GroupMetadataKey)
            if isinstance(record.key, shard.group_keys):
                shard.replay_group(offset, record, group_id)
                if is_of_group or group_id in groups:
                    yield group_id, offset, (key, value), is_of_group
                elif was_known:
                    yield group_id, offset, None, True
        if group_id not in groups:
            last_removals[group_id] = offset
    for group_id, newest_commit in {} if is_classic else newest_commits.items():
        if group_id not in groups and newest_commit > last_removals.get(group_id, -1):
            groups[group_id] = Group(group_id, shard.partition)
            yield group_id, newest_commit, None, True
