"""Groups with records in a partition that is not their home partition: the findings, and their positions in both.

The hash of a group id and the partition count of the topic decide where the records of a group are written. Records
elsewhere have one of two reasons:

- `partition_count_changed`: the partition count was changed. Its groups are left out of the other finding.
- `misplaced_groups`: files of another partition were put into this folder. If the log begins with the same bytes as the
  log of that partition, its files were copied, and the partition count was not changed.

An unknown partition count is assumed only if groups have records in several partitions, and each group has records in
its home partition. The number of partitions in the folder and the default count are tried.

If the count was changed, the old and the new home partition of a group both contain offset records. Each is loaded
alone, so both positions are known, although a broker answers only one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

from kafkagroups.errors import InvalidLog
from kafkagroups.history.finding import Finding
from kafkagroups.history.passes import Misplaced, Partition
from kafkagroups.history.stats import MovedOffset
from kafkagroups.history.words import count_of, describe_time, list_groups, list_names
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.topic_partitions import DEFAULT_PARTITION_COUNT, PartitionCountChange
from kafkagroups.log.segment_file import partition_for
from kafkagroups.log.segments import Log


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
            f" Up to offset {same_until}, this log is a copy of the beginning of partition {home}: somebody has "
            "put its files into the wrong folder. The own older records of this partition are missing."
        )
        remedy = (
            f"Do not restart the broker before the folder is right, because {old_answers} after each start. Stop the "
            "consumers of all groups of both partitions, stop the broker, copy both folders, and restore the files of "
            f"partition {partition.number}. Then compare the offsets with kafkagroups load before the consumers start."
        )
    else:
        what += (
            " Either the partition count was changed, or files of another partition were put into this folder: "
            f"{old_answers}."
        )
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
        f"The topic's partition count was changed from {change.describe_old_counts()} to {change.to_count}, at the "
        f"latest at {describe_time(change.since_ms)}. "
        f"The records of {count_of(len(change.groups), 'group')} ({list_names(change.groups)}) are in two partitions. "
        "After a start, a broker with the classic coordinator answers from the partition that it loads first, which "
        "can be the old one; the new coordinator ignores offsets that are only in the old one."
    )
    remedy = (
        "Before a broker starts, stop the consumers of these groups, and note their newest positions (kafkagroups "
        "stats PATH and kafkagroups report PATH --out FILE list the old and the new ones). After the start, compare "
        "these positions with what the broker answers, and set older offsets to them with kafka-consumer-groups.sh "
        "--reset-offsets. The count cannot be lowered, and the newest offsets are in the new partitions: do not delete "
        "them."
    )
    return Finding(None, None, None, None, "partition_count_changed", what, remedy)


def find_moved_offsets(topic: OpenTopic, change: PartitionCountChange) -> list[MovedOffset]:
    logs = {log.partition: log for log in topic.logs}
    alone = replace(topic, partitions=None)

    @cache
    def load(number: int) -> Groups | None:
        return alone.part(logs[number]).load() if number in logs else None

    moved = []
    for group in sorted(change.groups):
        loads = [load(partition_for(group, count)) for count in (change.from_count, change.to_count)]
        old, new = ({} if groups is None or group not in groups else groups[group].offsets for groups in loads)
        moved += [MovedOffset(group, key, old.get(key), new.get(key)) for key in sorted({*old, *new})]
    return moved
