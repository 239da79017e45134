"""The rules about what a broker loads: damage, zeros, and a load that fails.

- `damage`, `zeros`: a recovery cuts the log there, or a start loses batches.
- `load_failure`: the broker fails to load the partition.

A classic coordinator also fails at the last step of a load, with "Unexpected unload of active group". The last group
record of the group is a tombstone, so this step removes the group. Two things keep it in the cache: a pending commit of
an open transaction in the same partition, or another partition with the same group. At that time, all groups of the
partition are in the cache, so the broker answers for them.
Source: GroupMetadataManager.loadGroupsAndOffsets (3.9.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby

from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import LogKeys, find_group_ids, read_keys
from kafkagroups.history.finding import Finding, join_words
from kafkagroups.history.passes import Partition, Rule
from kafkagroups.history.transactions import abort_command
from kafkagroups.history.words import count_of, list_names
from kafkagroups.loading.caches import read_unloaded_group
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


class DamagedBytes(Rule):
    """Finds damage, and zeros at the end of a segment."""

    def find(self) -> Iterator[Finding]:
        loaded = self.partition.loaded
        if loaded.damage is not None:
            yield self._describe_damage(loaded.damage)
        for gap in loaded.gaps or ():
            yield self._describe_gap(gap)
        if loaded.zeros is not None:
            yield from self._find_zeros(loaded.zeros)

    def _describe_gap(self, gap: Gap) -> Finding:
        last = gap.to_offset - 1
        missing = f"; offsets {gap.from_offset} to {last} are missing"
        if last <= gap.from_offset:
            missing = f"; offset {last} is missing" if last == gap.from_offset else ""
        what = f"{gap.bytes} bytes are damaged from byte {gap.position} of {gap.file} on: {gap.reason}{missing}."
        remedy = (
            "A broker that recovers the log cuts it here and loses everything behind it. Copy the partition's folder "
            "first; kafkagroups load PATH --past-damage reads the groups and offsets on both sides of the gap."
        )
        return self.finding(gap.from_offset, "damage", what, remedy)

    def _describe_damage(self, damage: Damage) -> Finding:
        what = f"The log is damaged at byte {damage.position} of {damage.file}: {damage.reason}."
        copying = "Copy the partition's folder before a broker starts."
        count = damage.readable_batches_after
        if not count:
            remedy = (
                f"A recovery cuts the log here; no readable batch follows. {copying} If there is another replica, "
                "compare the two: kafkagroups diff."
            )
            return self.finding(damage.offset, "damage", what, remedy)
        batches = "1 readable batch" if count == 1 else f"{count} readable batches"
        of_groups = f" of {list_names(damage.groups_after)}" if damage.groups_after else ""
        remedy = (
            f"A recovery cuts the log here, and {batches}{of_groups} are lost. {copying} To read what follows the "
            "damage, add --past-damage. If there is another replica, compare the two, and let the whole one lead: "
            "kafkagroups diff."
        )
        return self.finding(damage.offset, "damage", what, remedy)

    def _find_zeros(self, zeros: Zeros) -> Iterator[Finding]:
        """Yield the finding about zeros at the end of a segment, if a kind of start does not load all batches."""
        outcomes = {start: judge_start(start, zeros, self.partition.dialect.coordinator) for start in Start}
        if all(outcome in HARMLESS_OUTCOMES for outcome in outcomes.values()):
            return
        starts = "; ".join(f"{start.value}, it {outcome.value}" for start, outcome in outcomes.items())
        what = (
            f"{zeros.file} ends with {count_of(zeros.bytes, 'zero')} from byte {zeros.position} on, and it depends on "
            f"the start what a Kafka {self.partition.dialect.kafka} broker does: {starts}."
        )
        remedy = (
            "Before the broker starts, delete .kafka_cleanshutdown in its log.dirs, so that recovery cuts the zeros "
            "off; before a failover to it, restart it so."
        )
        if zeros.later_segments:
            remedy = (
                "Let the broker copy the partition from another replica: recovery can delete the "
                f"{count_of(zeros.later_segments, 'later segment')}."
            )
        yield self.finding(self.partition.loaded.next_offset, "zeros", what, remedy)


class FailedLoad(Rule):
    """What a broker loses that fails to load a partition, and what can be done.

    `lost` are the ids of the groups with records in the partition that the broker does not answer for, sorted.
    """

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition)
        self._offset = partition.loaded.record_offset
        self._keys = LogKeys(partition.dialect)
        self._every_key = LogKeys(dialect("new", CHECKED_VERSIONS["new"][-1]))
        self._group_ids: set[str] = set()
        self._group: str | None = None
        self._states = ProducerStates()
        self._cut_records = 0
        self._cut_groups: set[str] = set()
        if partition.loaded.error is not None:
            self.producers = None

    def follow(self, batch: Batch) -> None:
        for group_id, _, record in read_keys(batch, self._every_key):
            self._group_ids.add(group_id)
            if record.offset == self._offset:
                self._group = self._group or group_id
        with suppress(BadBytes):
            add_batch(self._states, batch)
        if self._offset is not None and batch.last_offset >= self._offset:
            self._cut_records += record_count(batch)
            self._cut_groups.update(find_group_ids(batch, self._keys))

    @property
    def lost(self) -> list[str]:
        groups = self.partition.groups
        number = self.partition.number
        count = groups.topic_partitions.count if groups.coordinator == "new" and number is not None else None
        # The home of a group answers.
        return sorted(
            group_id
            for group_id in self._group_ids
            if group_id not in groups and (count is None or partition_for(group_id, count) == number)
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
        lost = ""
        if self.lost:
            names = list_names(self.lost)
            lost = f"; {count_of(len(self.lost), 'group')} lost ({names}): {describe_answers(rules)}"
        what = f"A Kafka {rules.kafka} broker cannot load the partition: {error}{lost}."
        command = self._cut_command()
        yield self.finding(
            *(self._offset, "load_failure", what, self._find_way_out()), group=self._group, command=command
        )

    def _cut_command(self) -> list[str] | None:
        """Return the words of the command that writes a copy of the log up to the failing record, if there is one."""
        if self._offset is None:
            return None
        return ["kafkagroups", "edit", self.partition.log.path, "--out", "COPY", "--cut", str(self._offset)]

    def _find_way_out(self) -> str:
        """Return the remedy: which releases load the log, and what a copy that is cut would lose."""
        loading = []
        is_tried = self.partition.log.size <= MAX_SIZE_TO_TRY
        log = self.partition.log.in_memory() if is_tried else self.partition.log
        for coordinator, versions in CHECKED_VERSIONS.items() if is_tried else ():
            ranges = list(_find_ranges(log, coordinator, versions))
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

    def _describe_unload(self, error: str, group_id: str) -> Finding:
        """Return the finding about a load that fails with "Unexpected unload of active group"."""
        number = self.partition.number
        group = self.partition.groups.groups[group_id]
        what = (
            f"A Kafka {self.partition.dialect.kafka} broker fails at the last step of the load ({error}). The log "
            f"deletes the group {group_id}, and "
        )
        first_offset = None
        command = None
        if group.partition == number:
            states = [self._states.producers.get(producer_id) for producer_id in group.pending]
            firsts = [None if state is None else state.txn_first_offset for state in states]
            first_offset = min((first for first in firsts if first is not None), default=None)
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
        remedy += f". {self._find_way_out()}"
        return self.finding(first_offset, "load_failure", what, remedy, group=group_id, command=command)


def _find_ranges(log: Log, coordinator: Coordinator, versions: tuple[str, ...]) -> Iterator[str]:
    """Yield the ranges of consecutive checked versions that load the log, for example "4.0.0 to 4.2.1"."""

    def can_load(kafka: str) -> bool:
        return not OpenTopic([log], dialect(coordinator, kafka), engine="auto").load().failed

    for loads, run in groupby(versions, can_load):
        if loads:
            names = list(run)
            yield names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def describe_answers(rules: Dialect) -> str:
    """Return what clients get for the groups of a partition whose load has failed, as the end of a sentence."""
    if rules.coordinator == "new":
        return "every request for them is answered NOT_COORDINATOR"
    return (
        "the broker answers as if they had never existed: OffsetFetch returns -1 without an error, so consumers start "
        "at auto.offset.reset"
    )
