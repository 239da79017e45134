"""The findings about what a broker loads: damage, zeros, a load that fails, and a partition count that was changed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from kafkagroups.groups.log_records import LogKeys, find_group_ids
from kafkagroups.groups.shard import LoadedPartition
from kafkagroups.history.event import count_of, describe_time, list_names
from kafkagroups.history.finding import Finding, join_words
from kafkagroups.history.further_failures import find_further_failures
from kafkagroups.history.unexpected_unload import describe_unload
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.starts import Outcome, Start, judge_start
from kafkagroups.loading.topic_partitions import PartitionCountChange
from kafkagroups.log.batch import record_count
from kafkagroups.log.damage import Damage, Gap
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import CHECKED_VERSIONS, Coordinator, dialect

HARMLESS_OUTCOMES = (Outcome.CUTS_ZEROS, Outcome.IGNORES_ZEROS)
MAX_SIZE_TO_TRY = 16 * 2**20
"""Up to this size in bytes, a partition that fails is loaded with every checked release, to name those that load it."""


def find_in_partition(log: Log, groups: Groups) -> list[Finding]:
    """Return the findings about the bytes and the load of one partition. `groups` is the load of all logs."""
    number = log.partition
    loaded = groups.partitions[number]
    findings = find_damage(number, loaded)
    if loaded.zeros:
        zeros = loaded.zeros
        outcomes = {start: judge_start(start, zeros, groups.coordinator) for start in Start}
        harmful = [start for start, outcome in outcomes.items() if outcome not in HARMLESS_OUTCOMES]
        if harmful:
            what = (
                f"{zeros.file} ends with {zeros.bytes} zeros from byte {zeros.position} on: {harmful[0].value}, a "
                f"Kafka {groups.kafka} broker {outcomes[harmful[0]].value}."
            )
            remedy = (
                "Before the broker starts, delete .kafka_cleanshutdown in its log.dirs, so that recovery cuts the "
                "zeros off."
            )
            if zeros.later_segments:
                remedy = (
                    "Let the broker copy the partition from another replica: recovery can delete the "
                    f"{zeros.later_segments} later segments."
                )
            findings.append(Finding(number, loaded.next_offset, None, None, "zeros", what, remedy))
    if loaded.error:
        what = f"A Kafka {groups.kafka} broker cannot load the partition: {loaded.error}."
        further = find_further_failures(log, dialect(groups.coordinator, groups.kafka), loaded.record_offset)
        findings += further.findings
        remedy = find_way_out(log, groups) + further.note
        command = cut_command(log, loaded.record_offset)
        failure = Finding(number, loaded.record_offset, None, None, "load_failure", what, remedy, command)
        findings.append(describe_unload(log, groups, "load_failure", remedy) or failure)
    return findings


def find_damage(number: int | None, loaded: LoadedPartition) -> list[Finding]:
    """Return the findings about the damage in a partition: where the log ends, and the gaps that were skipped."""
    findings = []
    if loaded.damage:
        findings.append(_describe_damage(number, loaded.damage))
    for gap in loaded.gaps or []:
        what = (
            f"{gap.bytes} bytes are damaged from byte {gap.position} of {gap.file} on: {gap.reason}"
            f"{_describe_missing(gap)}."
        )
        remedy = (
            "A broker that recovers the log cuts it here and loses everything behind it. Copy the partition's folder "
            "first; kafkagroups load PATH --past-damage reads the groups and offsets on both sides of the gap."
        )
        findings.append(Finding(number, gap.from_offset, None, None, "damage", what, remedy))
    return findings


def _describe_missing(gap: Gap) -> str:
    """Return which offsets a gap may have contained, as the end of a sentence; "" if there are none."""
    last = gap.to_offset - 1
    if last < gap.from_offset:
        return ""
    if last == gap.from_offset:
        return f"; offset {last} is missing"
    return f"; offsets {gap.from_offset} to {last} are missing"


def _describe_damage(number: int | None, damage: Damage) -> Finding:
    what = f"The log is damaged at byte {damage.position} of {damage.file}: {damage.reason}."
    copying = "Copy the partition's folder before a broker starts."
    count = damage.readable_batches_after
    if not count:
        remedy = (
            f"A recovery cuts the log here; no readable batch follows. {copying} If there is another replica, compare "
            "the two: kafkagroups diff."
        )
        return Finding(number, damage.offset, None, None, "damage", what, remedy)
    batches = "1 readable batch" if count == 1 else f"{count} readable batches"
    of_groups = f" of {list_names(damage.groups_after)}" if damage.groups_after else ""
    remedy = (
        f"A recovery cuts the log here, and {batches}{of_groups} are lost. {copying} To read what follows the damage, "
        "add --past-damage. If there is another replica, compare the two, and let the whole one lead: kafkagroups diff."
    )
    return Finding(number, damage.offset, None, None, "damage", what, remedy)


def find_way_out(log: Log, groups: Groups) -> str:
    """Return the remedy of a failed load: which releases load the log, and what a copy that is cut would lose."""
    loading = []
    is_tried = log.size <= MAX_SIZE_TO_TRY
    for coordinator, versions in CHECKED_VERSIONS.items() if is_tried else ():
        ranges = list(_find_ranges(log, coordinator, versions))
        if ranges:
            loading.append(f"the {coordinator} coordinator of {', '.join(ranges)}")
    if loading:
        remedy = (
            f"Releases that load this log: {' and '.join(loading)}. See their answers before you start one of them: "
            "kafkagroups load PATH --coordinator COORDINATOR --kafka VERSION. An older release skips record types that "
            "it does not know, and a cluster cannot always go back to it."
        )
    elif is_tried:
        remedy = "No release that this package knows loads this log."
    else:
        remedy = "Another release can load this log: kafkagroups load PATH --kafka VERSION."
    offset = groups.partitions[log.partition].record_offset
    if offset is None:
        return remedy
    lost_count, group_ids = _count_from(log, offset, groups)
    of_groups = f" of {list_names(group_ids)}" if group_ids else ""
    return (
        f"{remedy} A copy that ends before offset {offset} loads ({join_words(cut_command(log, offset) or ())}), but "
        f"it loses {count_of(lost_count, 'record')}{of_groups}."
    )


def cut_command(log: Log, offset: int | None) -> list[str] | None:
    """Return the words of the command that writes a copy of a log up to a record; None if there is no such record."""
    return None if offset is None else ["kafkagroups", "edit", log.path, "--out", "COPY", "--cut", str(offset)]


def _find_ranges(log: Log, coordinator: Coordinator, versions: tuple[str, ...]) -> Iterator[str]:
    """Yield the ranges of consecutive checked versions that load a log, for example "4.0.0 to 4.2.1"."""
    for can_load, run in groupby(versions, lambda kafka: _can_load(log, coordinator, kafka)):
        if can_load:
            names = list(run)
            yield names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _can_load(log: Log, coordinator: Coordinator, kafka: str) -> bool:
    groups = OpenTopic([log], dialect(coordinator, kafka), engine="auto").load()
    return not groups.failed


def _count_from(log: Log, offset: int, groups: Groups) -> tuple[int, list[str]]:
    """Return the number of the records from the batch with an offset on, and the ids of their groups, sorted."""
    keys = LogKeys(dialect(groups.coordinator, groups.kafka))
    count = 0
    group_ids: set[str] = set()
    for batch in log:
        if batch.last_offset >= offset:
            count += record_count(batch)
            group_ids.update(find_group_ids(batch, keys))
    return count, sorted(group_ids)


def find_count_change(change: PartitionCountChange) -> Finding:
    """Return the finding about a partition count that was changed.

    Notes
    -----
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
