"""The findings about what a broker loads: damage, zeros, and a load that fails.

A broker's load ends at the first record that it refuses. If only this record is removed, the next load can end at
another one. So each failing record is left out, and the load goes on with the record after it. A record that fails only
because an earlier failing record is left out is found as well: without the earlier one, the load does end there.

A classic coordinator also fails at the last step of a load, with "Unexpected unload of active group". The last group
record of the group is a tombstone, so this step removes the group. Two things keep it in the cache: a pending commit of
an open transaction in the same partition, or another partition with the same group. At that time, all groups of the
partition are in the cache, so the broker answers for them.
Source: GroupMetadataManager.loadGroupsAndOffsets (3.9.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from kafkagroups.errors import BadBytes, InvalidLog, LoadFailed
from kafkagroups.groups.fold import create_shard
from kafkagroups.groups.log_records import LogKeys, find_group_ids
from kafkagroups.groups.shard import LoadedPartition
from kafkagroups.history.event import count_of, list_names
from kafkagroups.history.finding import Finding, join_words
from kafkagroups.history.transactions import abort_command
from kafkagroups.loading.caches import read_unloaded_group
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.starts import Outcome, Start, judge_start
from kafkagroups.log.batch import Batch, record_count
from kafkagroups.log.damage import Damage, Gap
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.producer_state import ProducerStates, add_batch
from kafkagroups.log.segments import Log
from kafkagroups.log.zeros import Zeros
from kafkagroups.records.dialects import CHECKED_VERSIONS, Coordinator, Dialect, dialect

HARMLESS_OUTCOMES = (Outcome.CUTS_ZEROS, Outcome.IGNORES_ZEROS)
MAX_SIZE_TO_TRY = 16 * 2**20
"""Up to this size in bytes, a partition that fails is loaded with every checked release, to name those that load it."""
MAX_SIZE_TO_SEARCH = 64 * 2**20
"""The largest log, in bytes, that is searched behind the first failure. The readable engine needs about 10 s for it."""
MAX_FURTHER = 19
"""How many records are named behind the first one."""


def find_bad_bytes(number: int | None, groups: Groups) -> list[Finding]:
    """Return the findings about the damage and the zeros of one partition. `groups` is the load of all logs."""
    loaded = groups.partitions[number]
    findings = [] if loaded.damage is None else [_describe_damage(number, loaded.damage)]
    findings += [_describe_gap(number, gap) for gap in loaded.gaps or []]
    if loaded.zeros is not None:
        findings += _find_zeros(number, loaded, loaded.zeros, groups)
    return findings


def _describe_gap(number: int | None, gap: Gap) -> Finding:
    last = gap.to_offset - 1
    missing = f"; offsets {gap.from_offset} to {last} are missing"
    if last <= gap.from_offset:
        missing = f"; offset {last} is missing" if last == gap.from_offset else ""
    what = f"{gap.bytes} bytes are damaged from byte {gap.position} of {gap.file} on: {gap.reason}{missing}."
    remedy = (
        "A broker that recovers the log cuts it here and loses everything behind it. Copy the partition's folder "
        "first; kafkagroups load PATH --past-damage reads the groups and offsets on both sides of the gap."
    )
    return Finding(number, gap.from_offset, None, None, "damage", what, remedy)


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


def _find_zeros(number: int | None, loaded: LoadedPartition, zeros: Zeros, groups: Groups) -> list[Finding]:
    """Return the finding about zeros at the end of a segment, if a kind of start does not load all batches."""
    outcomes = {start: judge_start(start, zeros, groups.coordinator) for start in Start}
    if all(outcome in HARMLESS_OUTCOMES for outcome in outcomes.values()):
        return []
    starts = "; ".join(f"{start.value}, it {outcome.value}" for start, outcome in outcomes.items())
    what = (
        f"{zeros.file} ends with {count_of(zeros.bytes, 'zero')} from byte {zeros.position} on, and it depends on the "
        f"start what a Kafka {groups.kafka} broker does: {starts}."
    )
    remedy = (
        "Before the broker starts, delete .kafka_cleanshutdown in its log.dirs, so that recovery cuts the zeros off; "
        "before a failover to it, restart it so."
    )
    if zeros.later_segments:
        remedy = (
            "Let the broker copy the partition from another replica: recovery can delete the "
            f"{count_of(zeros.later_segments, 'later segment')}."
        )
    return [Finding(number, loaded.next_offset, None, None, "zeros", what, remedy)]


class FailingRecord(NamedTuple):
    """A record that stops a load: its Kafka offset, the reason, and the group that its key names, if it names one."""

    offset: int
    reason: str
    group: str | None


class FailedLoad:
    """What a broker loses that fails to load a partition, and what can be done. The log is read once.

    `groups` is the load of all logs. `lost` are the ids of the groups with records in the partition that the broker
    does not answer for, sorted.
    """

    def __init__(self, log: Log, groups: Groups) -> None:
        self._log = log.in_memory() if log.size <= MAX_SIZE_TO_TRY else log
        self._groups = groups
        self._rules = dialect(groups.coordinator, groups.kafka)
        self._loaded = groups.partitions[log.partition]
        self._records: list[FailingRecord] = []
        self._group: str | None = None
        self._states = ProducerStates()
        self._cut_records = 0
        self._cut_groups: set[str] = set()
        all_groups = self._read()
        count = groups.topic_partitions.count
        if groups.coordinator == "new" and count is not None and log.partition is not None:
            # The home of a group answers.
            all_groups = {group_id for group_id in all_groups if partition_for(group_id, count) == log.partition}
        self.lost = sorted(group_id for group_id in all_groups if group_id not in groups)

    @property
    def _offset(self) -> int | None:
        return self._loaded.record_offset

    def _read(self) -> set[str]:
        """Read the log. Return the ids of all groups with records, also of those behind the failing record."""
        every_key = LogKeys(dialect("new", CHECKED_VERSIONS["new"][-1]))
        keys = LogKeys(self._rules)
        replay = _Replay(self._log, self._rules)
        is_searched = self._offset is not None and self._log.size <= MAX_SIZE_TO_SEARCH
        group_ids: set[str] = set()
        for batch in self._log:
            group_ids.update(find_group_ids(batch, every_key))
            with suppress(BadBytes):
                add_batch(self._states, batch)
            if is_searched and len(self._records) < MAX_FURTHER + 2:
                self._records += replay.find(batch)
            if self._offset is None or batch.last_offset < self._offset:
                continue
            self._cut_records += record_count(batch)
            self._cut_groups.update(find_group_ids(batch, keys))
            if batch.base_offset <= self._offset:
                self._group = self._group or _find_group(batch, self._offset, every_key)
        return group_ids

    def find(self, kind: str) -> list[Finding]:
        """Return the findings about the records that stop the load. `kind` is the kind of the first one."""
        further, note = self._find_further()
        way_out = self._find_way_out() + note
        return [*further, self._describe_unload(kind, way_out) or self._describe(kind, way_out)]

    def _describe(self, kind: str, remedy: str) -> Finding:
        lost = ""
        if self.lost:
            names = list_names(self.lost)
            lost = f"; {count_of(len(self.lost), 'group')} lost ({names}): {describe_answers(self._rules)}"
        what = f"A Kafka {self._rules.kafka} broker cannot load the partition: {self._loaded.error}{lost}."
        command = self._cut_command()
        return Finding(self._log.partition, self._offset, self._group, None, kind, what, remedy, command)

    def _cut_command(self) -> list[str] | None:
        """Return the words of the command that writes a copy of the log up to the failing record, if there is one."""
        if self._offset is None:
            return None
        return ["kafkagroups", "edit", self._log.path, "--out", "COPY", "--cut", str(self._offset)]

    def _find_way_out(self) -> str:
        """Return the remedy: which releases load the log, and what a copy that is cut would lose."""
        loading = []
        is_tried = self._log.size <= MAX_SIZE_TO_TRY
        for coordinator, versions in CHECKED_VERSIONS.items() if is_tried else ():
            ranges = list(self._find_ranges(coordinator, versions))
            if ranges:
                loading.append(f"the {coordinator} coordinator of {', '.join(ranges)}")
        if loading:
            remedy = (
                f"Releases that load this log: {' and '.join(loading)}. See their answers before you start one of "
                "them: kafkagroups load PATH --coordinator COORDINATOR --kafka VERSION. An older release skips record "
                "types that it does not know, and a cluster cannot always go back to it."
            )
        elif is_tried:
            remedy = "No release that this package knows loads this log."
        else:
            remedy = "Another release can load this log: kafkagroups load PATH --kafka VERSION."
        command = self._cut_command()
        if command is None:
            return remedy
        of_groups = f" of {list_names(sorted(self._cut_groups))}" if self._cut_groups else ""
        return (
            f"{remedy} A copy that ends before offset {self._offset} loads ({join_words(command)}), but it loses "
            f"{count_of(self._cut_records, 'record')}{of_groups}."
        )

    def _find_ranges(self, coordinator: Coordinator, versions: tuple[str, ...]) -> Iterator[str]:
        """Yield the ranges of consecutive checked versions that load the log, for example "4.0.0 to 4.2.1"."""

        def can_load(kafka: str) -> bool:
            return not OpenTopic([self._log], dialect(coordinator, kafka), engine="auto").load().failed

        for loads, run in groupby(versions, can_load):
            if loads:
                names = list(run)
                yield names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"

    def _find_further(self) -> tuple[list[Finding], str]:
        """Return the findings about the records behind the first one, and a sentence for the remedy of the first."""
        first_offset = self._offset
        if first_offset is None:
            return [], ""
        if self._log.size > MAX_SIZE_TO_SEARCH:
            limit = MAX_SIZE_TO_SEARCH // 2**20
            return [], f" The log is larger than {limit} MiB, so the records behind it were not tried."
        further = [record for record in self._records[: MAX_FURTHER + 2] if record.offset != first_offset]
        if not further:
            return [], ""
        named = further[:MAX_FURTHER]
        is_complete = len(named) == len(further)
        offsets = ", ".join(str(offset) for offset in (first_offset, *(record.offset for record in named)))
        total = count_of(len(named) + 1, "record") if is_complete else f"more than {len(named) + 1} records"
        note = f" {total[0].upper()}{total[1:]} stop the load ({offsets}): all of them must go, not only the first one."
        findings = [self._describe_further(record, first_offset) for record in named]
        if not is_complete:
            offset = further[MAX_FURTHER].offset
            what = (
                f"More records than these {len(named) + 1} stop the load; the first one that is not named is at offset "
                f"{offset}."
            )
            remedy = "Cut the log before the first failing record, or use a release that loads it."
            findings.append(Finding(self._log.partition, offset, None, None, "further_failure", what, remedy))
        return findings, note

    def _describe_further(self, record: FailingRecord, first_offset: int) -> Finding:
        rules = self._rules
        what = f"This record also stops the load of a Kafka {rules.kafka} broker: {record.reason}."
        command = ["kafkagroups", "check", "COPY", "--coordinator", rules.coordinator, "--kafka", rules.kafka]
        remedy = (
            f"A repair that removes only the record at offset {first_offset} is not enough. Check the repaired copy "
            f"before a broker loads it: {join_words(command)}"
        )
        kind = "further_failure"
        return Finding(self._log.partition, record.offset, record.group, None, kind, what, remedy, command)

    def _describe_unload(self, kind: str, way_out: str) -> Finding | None:
        """Return the finding about a load that fails with "Unexpected unload of active group"; None for other loads."""
        error = self._loaded.error
        group_id = None if error is None else read_unloaded_group(error)
        if group_id is None:
            return None
        number = self._log.partition
        group = self._groups.groups[group_id]
        what = (
            f"A Kafka {self._groups.kafka} broker fails at the last step of the load ({error}). The log deletes the "
            f"group {group_id}, and "
        )
        first_offset = None
        command = None
        if group.partition == number:
            first_offset = self._find_first_open_offset(set(group.pending))
            command = abort_command(number, first_offset)
            what += "a transaction with offsets of it is still open."
            remedy = f"Before the failover, end the transaction: {join_words(command)}"
        else:
            what += f"partition {group.partition} has a group with the same id."
            remedy = (
                "The partition count of __consumer_offsets was changed: kafkagroups load PATH says which partition "
                "answers for the group. Restart the broker with the partitions in which the group belongs, or use "
                "another release"
            )
        what += " All groups of the partition are in the cache by then, so the broker answers for them."
        return Finding(number, first_offset, group_id, None, kind, what, f"{remedy}. {way_out}", command)

    def _find_first_open_offset(self, producer_ids: set[int]) -> int | None:
        """Return the first offset of the first open transaction of these producers."""
        states = [self._states.producers[number] for number in producer_ids if number in self._states.producers]
        return min((state.txn_first_offset for state in states if state.txn_first_offset is not None), default=None)


class _Replay:
    """Loads a log batch by batch, and leaves out each record at which the load ends."""

    def __init__(self, log: Log, rules: Dialect) -> None:
        self._shard = create_shard(log, rules)
        self._keys = LogKeys(dialect("new", CHECKED_VERSIONS["new"][-1]))

    def find(self, batch: Batch) -> Iterator[FailingRecord]:
        """Load the next batch, and yield its failing records."""
        rest: Batch | None = batch
        while rest is not None:
            try:
                self._shard.replay([rest])
                return
            except (LoadFailed, BadBytes) as error:
                offset = rest.base_offset if error.offset is None else error.offset
                field = error.field if isinstance(error, BadBytes) else None
                reason = error.reason if field is None else f"{field}: {error.reason}"
                yield FailingRecord(offset, reason, _find_group(rest, offset, self._keys))
                rest = _select_after(rest, offset)


def _select_after(batch: Batch, offset: int) -> Batch | None:
    """Return a batch with only the records after an offset. Return None if it has none, or if they are unreadable."""
    try:
        records = tuple(record for record in batch.records if record.offset > offset)
    except InvalidLog:
        return None
    return replace(batch, parse_records=lambda _: records) if records else None


def _find_group(batch: Batch, offset: int, keys: LogKeys) -> str | None:
    """Return the group that the key of a record names. Return None if the record is unreadable or names no group."""
    try:
        records = tuple(record for record in batch.records if record.offset == offset)
    except BadBytes:
        return None
    return next(find_group_ids(replace(batch, parse_records=lambda _: records), keys), None)


def describe_answers(rules: Dialect) -> str:
    """Return what clients get for the groups of a partition whose load has failed, as the end of a sentence."""
    if rules.coordinator == "new":
        return "every request for them is answered NOT_COORDINATOR"
    return (
        "the broker answers as if they had never existed: OffsetFetch returns -1 without an error, so consumers start "
        "at auto.offset.reset"
    )
