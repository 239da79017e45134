"""The rules about a partition's records: the cleaner leaves them, or no present broker should have written them.

- `uncleaned`: closed segments with more than MAX_DIRTY_SHARE of the cleanable bytes (min.cleanable.dirty.ratio) are not
  cleaned, although a pass would free half of them. A running cleaner starts seconds after a segment is closed. Either
  the log covers at least MIN_UNCLEANED_MS, with at least MIN_DIRTY_SEGMENTS of them. Or the cleaner ran over another
  partition of the topic at least MIN_LEFT_OUT_MS after they were closed, and before the last record of this one, so
  neither min.compaction.lag.ms nor a cleaner that is off explains them. In a log with transactions, one that has ended
  since can have stopped the cleaner for MAX_TRANSACTION_MS.
- `deleted_segments`: the log does not begin at offset 0, and has no trace of the cleaner, which can empty its first
  segments. So retention or somebody has deleted them, or they were not copied. Or segments between others are missing,
  and the cleaner has not been there (`PartitionStats.lost_before`).
- `foreign_records`: an older Kafka version wrote between records of a newer one, which another program probably did.
- `clock_jump`: a record is at least MIN_STEP_MS later than a later record. Only the largest step is reported.
- `partition_count_changed`: the partition count was changed.
- `misplaced_groups`: files of another partition were put into this folder. If the log begins with the same bytes as the
  log of that partition, its files were copied, and the partition count was not changed.

The times of a partition rise, apart from small differences between brokers, because the coordinator takes them from its
broker's clock, and the leader those of markers. So after a step back, a clock was wrong, a program has produced records
with times of its own, or somebody has copied records of another log. A wrong clock is dangerous for groups without
members: their offsets are deleted as soon as they seem older than offsets.retention.minutes.

The hash of a group id and the partition count decide where the records of a group are written. An unknown count is
assumed only if each group has records in its home partition of it. The number of partitions in the folder and the
default count are tried.
Source: GroupMetadataManager.storeGroup, storeOffsets and cleanupExpiredOffsets (3.9); CoordinatorRuntime (4.3.1);
MemoryRecords.withEndTransactionMarker (4.3.1).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from kafkagroups.errors import InvalidLog
from kafkagroups.groups.replay import LogKeys, read_keys
from kafkagroups.history.event import MIN_STEP_MS
from kafkagroups.history.finding import (
    GROUPS_TOOL,
    REMEDIES,
    Finding,
    count_of,
    describe_count_change,
    describe_duration,
    describe_time,
    list_groups,
    list_names,
    time_or_none,
)
from kafkagroups.history.passes import Misplaced, Partition, list_readable
from kafkagroups.history.stats import PartitionStats, Stats
from kafkagroups.history.totals import StepBack
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.partition_count import PartitionCountChange
from kafkagroups.log.segment_file import DEFAULT_PARTITION_COUNT, base_offset_of, partition_for
from kafkagroups.log.segments import Log
from kafkagroups.records.releases import LARGE_DECOMPRESSED_RECORD, Dialect

MIN_DIRTY_SEGMENTS = 2
MIN_UNCLEANED_MS = 3_600_000
MIN_LEFT_OUT_MS = 60_000
"""Four times the default of log.cleaner.backoff.ms."""
MAX_TRANSACTION_MS = 900_000
"""The default of transaction.max.timeout.ms."""


def read_cleaner_times(log: Log, counts: PartitionStats) -> None:
    """Set when the segments ended that the cleaner has left out, and those that it has cleaned.

    The first batch of a segment closes the one before. A segment behind the last trace still has its first batch.
    """
    segment_by_base = {base_offset_of(segment): segment for segment in log.segments}

    def read_start(base: int | None) -> int | None:
        segment = None if base is None else segment_by_base.get(base)
        batch = None if segment is None else next(iter(log.select_from(segment, 0, base or 0)), None)
        return None if batch is None else time_or_none(batch.max_timestamp)

    counts.left_out_since_ms = read_start(counts.first_uncleanable_offset) if counts.is_left_out else None
    counts.cleaned_after_ms = read_start(counts.cleaned_up_to)


def find_uncleaned(stats: Stats, rules: Dialect) -> Iterator[Finding]:
    """Yield the findings about partitions that the cleaner has left out, also when it cleaned others of the topic."""
    passes = [(each.cleaned_after_ms or 0, number) for number, each in stats.partitions.items()]
    for number, counts in stats.partitions.items():
        closed_ms = counts.left_out_since_ms or 0
        has_transactions = counts.commit_markers or counts.abort_markers
        from_ms = closed_ms + (MAX_TRANSACTION_MS if has_transactions else MIN_LEFT_OUT_MS)
        proofs = [each for each in passes if closed_ms and from_ms <= each[0] <= (counts.last_timestamp_ms or 0)]
        is_long_ago = counts.dirty_segments >= MIN_DIRTY_SEGMENTS and counts.span_ms >= MIN_UNCLEANED_MS
        if not counts.is_left_out or not (is_long_ago or proofs):
            continue
        what = (
            f"The log cleaner has stopped, or it cannot clean this partition{_describe_last_pass(counts)}: it has "
            f"not cleaned {count_of(counts.dirty_segments, 'closed segment')} with {counts.dirty_bytes} bytes, "
            f"{counts.dirty_bytes / (counts.bytes - counts.uncleanable_bytes):.0%} of what it can clean."
        )
        if proofs:
            what += (
                f" They were closed at {describe_time(closed_ms)} at the latest; at {describe_time(proofs[0][0])} or "
                f"later, the cleaner ran over partition {proofs[0][1]}."
            )
        remedy = REMEDIES["uncleaned"]
        if LARGE_DECOMPRESSED_RECORD.applies_to(rules.version):
            remedy += (
                f" Kafka {rules.kafka} also gives a partition up at a record above max.decompressed.message.bytes "
                "(kafkagroups compact --max-decompressed-message-bytes finds it): raise it, and restart the broker."
            )
        yield Finding.make(number, counts.cleaned_up_to or 0, "uncleaned", what, remedy)


def _describe_last_pass(counts: PartitionStats) -> str:
    if counts.cleaned_up_to is None:
        return " (no trace of a pass)"
    if counts.last_cleaned_ms is None:
        return f" (the last pass that left a trace ended at offset {counts.cleaned_up_to})"
    return f" (the last pass that left a trace was at {describe_time(counts.last_cleaned_ms)})"


def find_deleted_segments(partition: Partition) -> Iterator[Finding]:
    log = partition.log
    start = base_offset_of(log.segments[0])
    places = {offset: f"The log continues at offset {offset} after a gap" for offset in partition.counts.lost_before}
    if start > 0 and partition.counts.cleaned_up_to is None and not log.ranges:
        places[start] = f"The log begins at offset {start}"
    command = ["kafka-configs.sh", *GROUPS_TOOL[1:], "--describe", "--entity-type", "topics"]
    command += ["--entity-name", "__consumer_offsets", "--all"]
    for offset, place in places.items():
        what = (
            f"{place}. The segments before it are missing, and not by a cleaning of these files: they were deleted, as "
            "with cleanup.policy=delete, or not copied. A load answers no offset that was only in them: groups go back "
            "to the commits before a gap, and members that left in it are members again until their session times out."
        )
        yield partition.finding(offset, "deleted_segments", what, command=command)


def find_foreign_records(partition: Partition) -> Iterator[Finding]:
    ranges = partition.counts.written_by_ranges
    since = [part.writers.since for part in ranges]
    older_between = [
        part
        for index, part in enumerate(ranges[1:-1], start=1)
        if part.writers.until <= min(max(since[:index]), max(since[index + 1 :]))
    ]
    if not older_between:
        return
    first = older_between[0]
    places = [f"{part.first}" if part.first == part.last else f"{part.first} to {part.last}" for part in older_between]
    what = (
        f"Another program may have written the records at {list_names(places)} into the topic. They have the form "
        f"of an older Kafka version ({first.versions.strip()}), and a newer one wrote before and after them."
    )
    remedy = (
        f"Look at these records: kafkagroups dump PARTITION --from {first.first} --until {first.last + 1}. If "
        "brokers of two versions led this partition in turn, the records are theirs. If not, find the program, and "
        "take away its right to write to __consumer_offsets."
    )
    yield partition.finding(first.first, "foreign_records", what, remedy)


@dataclass
class _OutOfLine:
    """The records around the largest step back in time.

    `late` and `early` are the offsets of neighbouring records whose times are too late, or too early. `returns` says
    whether the times return to those before the step. `leader_epochs` are those of the early records and of their
    neighbours, and `deleted` the groups of which late tombstones delete offsets.
    """

    late: array[int] = field(default_factory=lambda: array("q"))
    early: array[int] = field(default_factory=lambda: array("q"))
    returns: bool = False
    leader_epochs: set[int] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)


def find_clock_jump(partition: Partition) -> Iterator[Finding]:
    """Yield the finding about the largest step back in time.

    Either the records before the step are too late, or those from the step on are too early. If the times return to
    those before the step, the fewer records are out of line.
    """
    step = max(partition.totals.steps, key=lambda step: step.newest_ms - step.timestamp_ms, default=None)
    if step is None:
        return
    found = _read_around(partition, step)
    size = describe_duration(step.newest_ms - step.timestamp_ms)
    if found.returns and len(found.early) < len(found.late):
        yield _describe_early(partition, found, describe_time(step.timestamp_ms), size)
    elif found.late:
        yield _describe_late(partition, found, step, size)


def _read_around(partition: Partition, step: StepBack) -> _OutOfLine:
    found = _OutOfLine()
    keys = LogKeys(partition.dialect)
    limit_ms = step.timestamp_ms + MIN_STEP_MS
    for batch in partition.read(first_offset=step.after, last_offset=2 * step.offset - step.after):
        if not found.late and batch.max_timestamp < limit_ms:
            continue
        for record in list_readable(batch):
            if record.offset >= step.offset:
                found.returns = found.returns or record.timestamp > step.newest_ms - MIN_STEP_MS
                if not found.returns:
                    found.early.append(record.offset)
            elif found.late or (record.offset > step.after and record.timestamp >= limit_ms):
                found.late.append(record.offset)
        if batch.next_offset >= step.offset:
            found.leader_epochs.add(batch.partition_leader_epoch)
        for group_id, key, record in read_keys(batch, keys) if found.late else ():
            if record.value is None and key.partition is not None and found.late[0] <= record.offset <= found.late[-1]:
                found.deleted.add(group_id)
        if found.returns:
            break
    return found


def _describe_early(partition: Partition, found: _OutOfLine, time: str, size: str) -> Finding:
    first = found.early[0]
    last = found.early[-1]
    what = (
        f"The records from offset {first} to {last} have times such as {time}. The records before and after them are "
        f"{size} later. The coordinator sets these times."
    )
    if len(found.leader_epochs) == 1:
        what += (
            " The same leader appended their neighbours, so its clock was right, and another program wrote these "
            "records into the topic, with a time of its own."
        )
        remedy = "Find the program, and take away its right to write to __consumer_offsets. This shows its records:"
    else:
        what += " So the clock of the broker that led the partition then was wrong, or another program wrote them."
        remedy = "Compare the clocks of all brokers, and correct the one that is wrong. This shows the records:"
    command = ["kafkagroups", "dump", partition.log.path, "--from", str(first), "--until", str(last + 1)]
    return partition.finding(first, "clock_jump", what, remedy, command=command)


def _describe_late(partition: Partition, found: _OutOfLine, step: StepBack, size: str) -> Finding:
    first = found.late[0]
    what = (
        f"The records from offset {first} to {found.late[-1]} have times up to {describe_time(step.newest_ms)}. But "
        f"record {step.offset} after them has the time {describe_time(step.timestamp_ms)}, {size} earlier. The "
        "coordinator sets these times. So a broker's clock was wrong, or records of a copied log are here."
    )
    command = None
    remedy = "Compare the clocks of all brokers first, and correct the one that is wrong."
    if found.deleted:
        what += (
            f" In this range, offsets of {count_of(len(found.deleted), 'group')} were deleted "
            f"({list_groups(found.deleted)}): with a wrong clock, the check for expired offsets deletes new ones, too."
        )
        command = ["kafkagroups", "load", partition.log.path, *partition.rule_options, "--until", str(first)]
        remedy += (
            " Before these groups start again, set the offsets that should not have expired, but where a group has "
            "committed since, setting it back repeats what came later (timeline). This shows the offsets before:"
        )
    else:
        remedy += " If a clock is still ahead, the next check can delete the offsets of groups without members."
    return partition.finding(first, "clock_jump", what, remedy, command=command)


def find_misplaced(logs: Sequence[Log], groups: Groups) -> tuple[dict[int | None, Misplaced], bool]:
    """Return what is misplaced in each partition, and whether copied files explain all groups of a change of the
    count.
    """
    count = _find_count(groups)
    places: dict[int | None, Misplaced] = {}
    for group_id, numbers in groups.partitions_of.items() if count is not None else ():
        home = partition_for(group_id, count or 1)
        for number in {*numbers} - {None, home}:
            places.setdefault(number, Misplaced(count or 1)).homes[group_id] = home
    log_of = {log.partition: log for log in logs}
    copied: set[str] = set()
    for number, misplaced in places.items():
        for home in sorted(set(misplaced.homes.values())):
            same_until = _find_same(log_of[number], log_of[home]) if number in log_of and home in log_of else None
            if same_until is not None:
                misplaced.same_until[home] = same_until
        copied |= {group_id for group_id, home in misplaced.homes.items() if home in misplaced.same_until}
    change = groups.topic_partitions.changed
    if change is not None:
        for group_id in set(change.groups) - copied:
            places.get(partition_for(group_id, change.from_count), Misplaced(0)).homes.pop(group_id, None)
    return places, change is not None and set(change.groups) <= copied


def _find_count(groups: Groups) -> int | None:
    topic = groups.topic_partitions
    if topic.count is not None or not topic.shared_groups:
        return topic.count
    numbers = {number for number in groups.partitions if number is not None}
    has_all = groups.topic.is_folder and numbers == set(range(len(groups.partitions)))
    is_below_default = max(numbers, default=0) < DEFAULT_PARTITION_COUNT
    candidates = [*([len(numbers)] if has_all else []), *([DEFAULT_PARTITION_COUNT] if is_below_default else [])]
    places = groups.partitions_of.items()
    fitting = (count for count in candidates if all(partition_for(name, count) in found for name, found in places))
    return next(fitting, None)


def _find_same(log: Log, other: Log) -> int | None:
    last = None
    with suppress(InvalidLog):  # The load has found the damage, too.
        for one, two in zip(log.find_batches(None), other.find_batches(None), strict=False):
            if one.data != two.data:
                break
            last = one.frame.next_offset - 1
    return last


def describe_misplaced(partition: Partition) -> Iterator[Finding]:
    misplaced = partition.misplaced
    all_extents = {} if misplaced is None else partition.totals.read_extents()
    extents = [] if misplaced is None else [all_extents[name] for name in misplaced.homes if name in all_extents]
    if misplaced is None or not extents:
        return
    records = sum(extent.records for extent in extents)
    first = min(extent.first for extent in extents)
    last = max(extent.last for extent in extents)
    homes = sorted(set(misplaced.homes.values()))
    noun = "partition" if len(homes) == 1 else "partitions"
    belong = "belongs" if len(misplaced.homes) == 1 else "belong"
    place = f"(offset {first}) is" if records == 1 else f"(offsets {first} to {last}) are"
    what = (
        f"{count_of(records, 'record')} {place} of {count_of(len(misplaced.homes), 'group')} that {belong} "
        f"to {noun} {list_names(homes)} of {misplaced.count} ({list_groups(misplaced.homes)})."
    )
    old_answers = "their offsets of this partition are not answered"
    if partition.dialect.coordinator == "classic":
        old_answers = "a classic coordinator can answer them with these records"
    if misplaced.same_until:
        home, same_until = max(misplaced.same_until.items(), key=lambda pair: pair[1])
        what += (
            f" Up to offset {same_until}, this log is a copy of the beginning of partition {home}, put into the wrong "
            "folder. The own older records of this partition are missing."
        )
        remedy = (
            f"Do not restart the broker before the folder is right, because {old_answers}. Stop the consumers of both "
            f"partitions and the broker, copy both folders, and restore the files of partition {partition.number}. "
            "Then compare the offsets with kafkagroups load before the consumers start."
        )
    else:
        what += f" Either the partition count was changed, or files of another partition are here: {old_answers}."
        remedy = (
            "Before a broker starts with this folder, look up offsets.topic.num.partitions, and where the folder "
            "came from. Until it is clear, keep the consumers of these groups stopped, and change no file."
        )
    yield partition.finding(first, "misplaced_groups", what, remedy)


def find_count_change(change: PartitionCountChange) -> Finding:
    """Return the finding about a partition count that was changed.

    The classic coordinator has one cache for all partitions: if a group is in two partitions, the one that is loaded
    first answers. The new coordinator answers from the home partition of the new count, also if it has no offset there.
    Source: GroupMetadataManager.loadGroup (3.9); GroupCoordinatorService.topicPartitionFor (4.x).
    """
    what = (
        f"{describe_count_change(change, change.groups)} After a start, a broker with the classic coordinator answers "
        "from the partition that it loads first, which can be the old one; the new coordinator ignores the old one."
    )
    return Finding.make(None, None, "partition_count_changed", what)


def find_moved_offsets(topic: OpenTopic, change: PartitionCountChange) -> Iterator[dict[str, Any]]:
    logs = {log.partition: log for log in topic.logs}
    alone = replace(topic, partitions=None)

    @cache
    def load(number: int) -> Groups | None:
        return alone.part(logs[number]).load() if number in logs else None

    for group in sorted(change.groups):
        loads = [load(partition_for(group, count)) for count in (change.from_count, change.to_count)]
        old, new = ({} if groups is None or group not in groups else groups[group].offsets for groups in loads)
        for key in sorted({*old, *new}):
            is_old = key not in new or (key in old and old[key].commit_timestamp > new[key].commit_timestamp)
            offsets = {name: each[key].offset if key in each else None for name, each in (("old", old), ("new", new))}
            place = {"group": group, "topic_partition": str(key)}
            yield place | offsets | {"newest": "old" if is_old else "new"}


RULES = (describe_misplaced, find_clock_jump, find_deleted_segments, find_foreign_records)
