"""The rules about what a broker loads: damage, zeros, and a load that fails.

- `damage`, `zeros`: a recovery cuts the log there, or a start loses batches.
- `does_not_start`: the recovery ends the broker.
- `load_failure`: the broker fails to load the partition.
- `load_memory`: the broker can run out of heap while it loads the partition (KAFKA-19716). Releases of `LEAKY_RELEASES`
  keep every step of a load in memory until its end, if the partition has transactions.

A classic coordinator also fails at the last step of a load, with "Unexpected unload of active group". This step removes
a group whose last record is a tombstone. Two things keep the group in the cache: a pending commit of an open
transaction in the same partition, or another partition with the same group. At that time, all groups of the partition
are in the cache, so the broker answers for them.
Source: GroupMetadataManager.loadGroupsAndOffsets (3.9.2).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.groups.replay import LogKeys, find_group_ids, read_keys
from kafkagroups.history.finding import Finding, count_of, list_groups, list_names
from kafkagroups.history.group_log import describe_conflict, load_group_logs
from kafkagroups.history.passes import EVERY_TYPE, Partition
from kafkagroups.history.transactions import abort_command
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic, read_unloaded_group
from kafkagroups.log.batch import record_count
from kafkagroups.log.batches import Outcome, Start, judge_start
from kafkagroups.log.cleaner import CleanerConfig, clean
from kafkagroups.log.folders import open_log
from kafkagroups.log.segment_file import is_segment_name, partition_for, segment_name
from kafkagroups.log.segments import Log
from kafkagroups.records.releases import CHECKED_VERSIONS, Coordinator, Dialect, VersionRange, dialect

LEAKY_RELEASES = (VersionRange((4, 0), (4, 0, 2)), VersionRange((4, 1), (4, 1, 1)))
LARGE_LOAD_RECORDS = 1_000_000
MAX_SIZE_TO_TRY = 16 * 2**20
"""Up to this size in bytes, a partition that fails is cleaned, and loaded with every checked release, to find a cure.
"""


def find_damage(partition: Partition) -> Iterator[Finding]:
    damage = partition.loaded.damage
    if damage is not None:
        yield partition.finding(damage.offset, "damage", f"The log is damaged: {damage}.")
    for gap in partition.loaded.gaps or ():
        yield partition.finding(gap.from_offset, "damage", f"The log is damaged: {gap}.")


def find_zeros(partition: Partition) -> Iterator[Finding]:
    zeros = partition.loaded.zeros
    if zeros is None:
        return
    rules = partition.dialect
    outcomes = {start: judge_start(start, zeros, rules.coordinator) for start in Start}
    if {*outcomes.values()} <= {Outcome.CUTS_ZEROS, Outcome.IGNORES_ZEROS}:
        return
    starts = "; ".join(f"{start.value}, it {outcome.value}" for start, outcome in outcomes.items())
    what = (
        f"{zeros.file} ends with {count_of(zeros.bytes, 'zero')} from byte {zeros.position} on. It depends on the "
        f"start what a Kafka {rules.kafka} broker does with the zeros: {starts}."
    )
    remedy = ""
    if zeros.later_segments:
        later = count_of(zeros.later_segments, "later segment")
        remedy = f"Let the broker copy the partition from another replica: recovery can delete the {later}."
    yield partition.finding(partition.loaded.next_offset, "zeros", what, remedy)


def find_failed_start(partition: Partition) -> Iterator[Finding]:
    failure = partition.loaded.start
    if failure is None:
        return
    what = f"No broker starts with this log: its recovery of {failure.file} ends the process ({failure.reason})."
    command = None
    remedy = f"Move {failure.file} out of the partition's folder."
    if failure.offset is not None:
        without = f"make a copy of the folder without {failure.file}, and check it: it loses what no other segment has."
        if len(partition.log.segments) == 1:
            command = ["kafkagroups", "edit", partition.log.path, "--out", "COPY", "--cut", str(failure.offset)]
            without = f"a copy that ends before offset {failure.offset} can start: {shlex.join(command)}"
        remedy = f"Let the broker copy the partition from another replica. Without one, {without}"
    yield partition.finding(failure.offset, "does_not_start", what, remedy, command=command)


def find_large_heap(partition: Partition) -> Iterator[Finding]:
    counts = partition.counts
    rules = partition.dialect
    markers = counts.commit_markers + counts.abort_markers
    is_large = markers and counts.records >= LARGE_LOAD_RECORDS
    if is_large and any(rules.version in releases for releases in LEAKY_RELEASES):
        what = (
            f"The partition has {counts.records} records with {markers} transaction markers. A Kafka {rules.kafka} "
            "broker keeps every step of a load in memory until its end, and can run out of heap (KAFKA-19716)."
        )
        yield partition.finding(None, "load_memory", what)


class FailedLoad:
    """What a broker loses that fails to load a partition, and what can be done.

    `lost` are the ids of the groups with records in the partition that the broker does not answer for, sorted.
    """

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self._offset = partition.loaded.record_offset
        group_ids: set[str] = set()
        self._group: str | None = None
        self._cut_records = 0
        self._cut_groups: set[str] = set()
        keys = LogKeys(partition.dialect)
        every_key = LogKeys(EVERY_TYPE)
        for batch in () if partition.loaded.error is None else partition.read():
            for group_id, _, record in read_keys(batch, every_key):
                group_ids.add(group_id)
                if record.offset == self._offset:
                    self._group = self._group or group_id
            if self._offset is not None and batch.last_offset >= self._offset:
                self._cut_records += record_count(batch)
                self._cut_groups.update(find_group_ids(batch, keys))
        groups = partition.groups
        number = partition.number
        count = groups.topic_partitions.count if groups.coordinator == "new" and number is not None else None
        # The home of a group answers.
        self.lost = sorted(
            group_id
            for group_id in group_ids
            if not groups.answers_offsets(group_id) and (count is None or partition_for(group_id, count) == number)
        )

    def find(self) -> Iterator[Finding]:
        error = self.partition.loaded.error
        if error is None:
            return
        unloaded = read_unloaded_group(error)
        if unloaded is not None:
            yield self._describe_unload(error, unloaded)
            return
        rules = self.partition.dialect
        answers = "every request for them is answered NOT_COORDINATOR"
        if rules.coordinator == "classic":
            answers = "the broker answers as if they had never existed, so consumers start at auto.offset.reset"
        lost = f"; {count_of(len(self.lost), 'group')} not loaded ({list_groups(self.lost)}): {answers}"
        what = f"A Kafka {rules.kafka} broker cannot load the partition: {error}{lost if self.lost else ''}."
        remedy = self._find_loading_releases()
        command = None
        if self._offset is not None:
            cleaning = self._find_cleaning()
            options = cleaning or ["--cut", str(self._offset)]
            command = ["kafkagroups", "edit", self.partition.log.path, "--out", "COPY", *options]
            if cleaning is None:
                of_groups = f" of {list_names(sorted(self._cut_groups))}" if self._cut_groups else ""
                remedy += (
                    f" A copy that ends before offset {self._offset} loads ({shlex.join(command)}), but it loses "
                    f"{count_of(self._cut_records, 'record')}{of_groups}."
                )
            else:
                remedy += f" A cleaned copy loads, and loses nothing of {self._group} ({shlex.join(command)})."
            if self._group is not None:
                number = self.partition.number
                alone = OpenTopic([self.partition.log], rules, engine="auto")
                what += describe_conflict(load_group_logs(alone, [self._group])[1][self._group], number, self._offset)
        yield self.partition.finding(self._offset, "load_failure", what, remedy, group=self._group, command=command)

    def _find_cleaning(self) -> list[str] | None:
        """Return the options of `kafkagroups edit` for one pass of the cleaner, after which the group is loaded."""
        log = self.partition.log
        has_whole_segments = not log.ranges and all(is_segment_name(os.path.basename(each)) for each in log.segments)
        if not has_whole_segments or log.size > MAX_SIZE_TO_TRY:
            return None
        time_ms = max(self.partition.counts.last_timestamp_ms or 0, 0)
        name = "log" if log.partition is None else f"__consumer_offsets-{log.partition}"
        with TemporaryDirectory() as folder, suppress(UsageError, BadBytes):
            for step in ("", "--roll"):
                copy, target = (Path(folder, f"{kind}{step}", name) for kind in ("copy", "cleaned"))
                for new_folder in (copy, target):
                    new_folder.mkdir(parents=True)
                for segment in log.segments:
                    (copy / os.path.basename(segment)).write_bytes(log.read(segment))
                if step:
                    (copy / segment_name(self.partition.loaded.next_offset)).touch()
                clean(open_log(copy), target, CleanerConfig(time_ms))
                after = load_alone(open_log(target), self.partition.dialect)
                if not after.failed and self._group in after:
                    return [*filter(None, [step]), "--clean", str(time_ms)]
        return None

    def _find_loading_releases(self) -> str:
        if self.partition.log.size > MAX_SIZE_TO_TRY:
            return "Another release can load this log: kafkagroups load PATH --kafka VERSION."
        log = self.partition.log.in_memory()
        found = {coordinator: [*_find_ranges(log, coordinator)] for coordinator in CHECKED_VERSIONS}
        loading = [
            f"the {coordinator} coordinator of {', '.join(ranges)}" for coordinator, ranges in found.items() if ranges
        ]
        if not loading:
            return "No release that this package knows loads this log."
        return (
            f"Releases that load this log: {' and '.join(loading)}. See their answers first (kafkagroups load PATH "
            "--coordinator COORDINATOR --kafka VERSION): an older one skips unknown types; not every downgrade works."
        )

    def _describe_unload(self, error: str, group_id: str) -> Finding:
        number = self.partition.number
        group = self.partition.groups.groups[group_id]
        first_offset = None
        command = None
        open_here = [each for each in self.partition.counts.open_transactions if each.producer_id in group.pending]
        if group.partition == number and open_here:
            first_offset = open_here[0].first_offset
            command = abort_command(number, self.partition.dialect.version, open_here[0])
            why = "a transaction with offsets of it is still open"
            remedy = f"Before the failover, end the transaction: {shlex.join(command)}"
        else:
            why = f"partition {group.partition} has a group with the same id"
            remedy = (
                "The partition count of __consumer_offsets was changed: restart the broker with the partition in which "
                "the group belongs (see kafkagroups load PATH), or use another release"
            )
        what = (
            f"A Kafka {self.partition.dialect.kafka} broker fails at the last step of the load ({error}). The log "
            f"deletes the group {group_id}, and {why}. By then, the cache has all groups, so the broker answers."
        )
        remedy += f". {self._find_loading_releases()}"
        return self.partition.finding(first_offset, "load_failure", what, remedy, group=group_id, command=command)


def load_alone(log: Log, rules: Dialect) -> Groups:
    return OpenTopic([log], rules, engine="auto").load()


def _find_ranges(log: Log, coordinator: Coordinator) -> Iterator[str]:
    def can_load(kafka: str) -> bool:
        return not load_alone(log, dialect(coordinator, kafka)).failed

    for loads, run in groupby(CHECKED_VERSIONS[coordinator], can_load):
        if loads:
            names = list(run)
            yield names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


RULES = (find_damage, find_zeros, find_failed_start, find_large_heap)
