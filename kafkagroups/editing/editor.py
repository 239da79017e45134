"""Carries out the steps of an edit on the copy of a log.

New records follow the end of the log. They have the partition leader epoch of the last batch, and the layout of the
records that the log's writer wrote. Nothing here reads a clock: without a time, a record gets the newest timestamp in
the log. Batches are not compressed, and have magic 2 (since Kafka 0.11).

A marker has the producer epoch of the producer's last batch, and the epoch of the transaction coordinator in the
producer's last marker, or 0. A higher epoch could make a broker refuse later markers of the real coordinator.
Source (4.3.1): ProducerAppendInfo.appendEndTxnMarker; OffsetMetadataManager.commitOffset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafkagroups.editing.deletion import plan_deletion
from kafkagroups.editing.edited_log import EditedLog, Removed
from kafkagroups.editing.log_facts import find_topic_id
from kafkagroups.editing.results import StepResult
from kafkagroups.editing.steps import Clean, Commit, Cut, CutTime, DeleteGroup, Marker, Roll, Step, Tombstone
from kafkagroups.errors import UsageError
from kafkagroups.log.batch import CONTROL, TRANSACTIONAL
from kafkagroups.records import dialects
from kafkagroups.records.control import ControlType, encode_control_key, encode_end_transaction_marker
from kafkagroups.records.dialects import Coordinator
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode
from kafkagroups.records.versions import FIRST_WITHOUT_CLASSIC_COORDINATOR, parse_release
from kafkagroups.records.written_values import value_version

_OFFSET_RECORD_TYPE = 1
_FIRST_VERSION_WITH_TOPIC_ID = 4
_NAMED_PRODUCERS = 5
"""An error names at most this number of producers."""


@dataclass(frozen=True)
class Writer:
    """The writer of new records. None means that the log decides."""

    coordinator: Coordinator | None
    kafka: str | None


def choose_writer(coordinator: str | None, kafka: str | None) -> Writer:
    """Return the writer for the options. Raises UsageError if the coordinator or the version does not exist."""
    if coordinator is None and kafka is not None:
        coordinator = "classic" if parse_release(kafka) < FIRST_WITHOUT_CLASSIC_COORDINATOR else "new"
    if coordinator is None:
        return Writer(None, None)
    return Writer(dialects.dialect(coordinator, kafka).coordinator, kafka)


class Editor:
    """Carries out steps on the copy of a log. `delete_retention_ms` is the setting delete.retention.ms of the topic."""

    def __init__(self, log: EditedLog, writer: Writer, delete_retention_ms: int) -> None:
        self.log = log
        self.writer = writer
        self.delete_retention_ms = delete_retention_ms

    @property
    def coordinator(self) -> Coordinator:
        """The coordinator that would write new records."""
        return self.writer.coordinator or self.log.facts.choose_coordinator()

    def run(self, step: Step) -> StepResult:
        """Carry out a step. Raises UsageError if that is not possible."""
        match step:
            case Commit():
                return self._commit(step)
            case Tombstone():
                return self._delete_offset(step)
            case DeleteGroup():
                return self._delete_group(step.group)
            case Marker():
                return self._end_transaction(step)
            case Roll():
                return self._roll()
            case Cut():
                return self._cut(step.offset)
            case CutTime():
                return self._cut_at_time(step.time_ms)
            case Clean():
                return self._clean(step.now_ms)

    def _commit(self, step: Commit) -> StepResult:
        facts = self.log.facts
        time_ms = facts.newest_ms if step.timestamp_ms is None else step.timestamp_ms
        if time_ms < 0:
            raise UsageError(f"the log has no timestamp: expected a time at the end of the commit of {step.group}: @MS")
        version = facts.choose_offset_value_version()
        if self.writer.kafka is not None:
            version = value_version(_OFFSET_RECORD_TYPE, self.writer.kafka)
        value = OffsetCommitValue(offset=step.offset, metadata="", commit_timestamp=time_ms)
        if version >= _FIRST_VERSION_WITH_TOPIC_ID:
            value = replace(value, topic_id=find_topic_id(self.log.open(), step.partition.topic))
        record = encode(Record(_OFFSET_RECORD_TYPE, _make_offset_key(step), value, version))
        first, last = self.log.append([record], time_ms, base_sequence=0)
        what = (
            f"group {step.group} commits offset {step.offset} of {step.partition} at {time_ms} ms (value version "
            f"{version})"
        )
        return StepResult("commit", _at(first, last, what), first, last)

    def _delete_offset(self, step: Tombstone) -> StepResult:
        record = encode(Record(_OFFSET_RECORD_TYPE, _make_offset_key(step), None, None))
        first, last = self._append_tombstones([record])
        what = f"a tombstone deletes the offset of group {step.group} for {step.partition}"
        return StepResult("tombstone", _at(first, last, what), first, last)

    def _delete_group(self, group: str) -> StepResult:
        dialect = dialects.dialect(self.coordinator, self.writer.kafka)
        deletion = plan_deletion(self.log.open(), group, dialect)
        members = ""
        if deletion.members:
            members = f" and {_count(deletion.members, 'member')}; a running coordinator refuses this (NON_EMPTY_GROUP)"
        content = f"{_count(deletion.offsets, 'offset')}{members}"
        if not deletion.records:
            what = (
                f"Nothing is appended: the classic coordinator writes no tombstone for group {group}, which has no "
                "committed offset and the generation 0."
            )
            return StepResult("delete-group", what)
        first, last = self._append_tombstones(deletion.records)
        what = f"{_count(len(deletion.records), 'tombstone')} of the {self.coordinator} coordinator delete"
        what += f"{'s' if len(deletion.records) == 1 else ''} the {deletion.type} group {group} with {content}"
        return StepResult("delete-group", _at(first, last, what), first, last)

    def _append_tombstones(self, records: Sequence[tuple[bytes, bytes | None]]) -> tuple[int, int]:
        """Append tombstones with the newest timestamp of the log, as one batch. Return its first and last offset."""
        base_sequence = 0 if self.coordinator == "new" else -1
        return self.log.append(records, max(0, self.log.facts.newest_ms), base_sequence=base_sequence)

    def _end_transaction(self, step: Marker) -> StepResult:
        facts = self.log.facts
        producer = facts.open.get(step.producer_id)
        if producer is None:
            names = [str(producer_id) for producer_id in facts.open][:_NAMED_PRODUCERS]
            more = ", …" if len(facts.open) > len(names) else ""
            found = f"open: {', '.join(names)}{more}" if names else "no transaction is open"
            raise UsageError(f"producer {step.producer_id} has no open transaction in the log ({found})")
        kind = ControlType.COMMIT if step.commits else ControlType.ABORT
        epoch = facts.marker_epochs.get(step.producer_id, 0)
        first, last = self.log.append(
            [(encode_control_key(kind), encode_end_transaction_marker(epoch))],
            max(0, facts.newest_ms),
            attributes=TRANSACTIONAL | CONTROL,
            producer_id=step.producer_id,
            producer_epoch=producer.epoch,
        )
        what = (
            f"a marker {kind.name.lower()}s the transaction of producer {step.producer_id} (epoch {producer.epoch}), "
            f"open since offset {producer.first_offset}"
        )
        return StepResult("marker", _at(first, last, what), first, last)

    def _roll(self) -> StepResult:
        offset = self.log.facts.next_offset
        if self.log.roll():
            return StepResult("roll", f"A new active segment begins at offset {offset}.")
        return StepResult("roll", f"Nothing is rolled: the active segment, which begins at offset {offset}, is empty.")

    def _cut(self, offset: int) -> StepResult:
        open_before = self._find_first_offsets()
        return self._describe_cut("cut", self.log.cut(offset), f"offset {offset}", open_before)

    def _cut_at_time(self, time_ms: int) -> StepResult:
        open_before = self._find_first_offsets()
        offset = self.log.find_first_after(time_ms)
        removed = Removed() if offset is None else self.log.cut(offset)
        return self._describe_cut("cut-time", removed, f"{time_ms} ms", open_before)

    def _describe_cut(self, name: str, removed: Removed, place: str, open_before: dict[int, int]) -> StepResult:
        end = self.log.facts.next_offset
        if removed.first_offset is None:
            empty = f" {_count(removed.segments, 'empty segment')} deleted." if removed.segments else ""
            what = f"No batch is cut: none is at {place} or after. The log ends at offset {end}.{empty}"
            return StepResult(name, what, removed=removed)
        what = (
            f"Cut at {place}: {_count(removed.batches, 'batch')} with {_count(removed.records, 'record')} removed, "
            f"offsets {removed.first_offset} to {removed.last_offset}. The log ends at offset {end}."
        )
        if removed.split is not None:
            what += f" The batch of offsets {removed.split[0]} to {removed.split[1]} is removed as a whole."
        open_now = self._find_first_offsets().items()
        without_marker = [str(producer_id) for producer_id, first in open_now if open_before.get(producer_id) != first]
        if without_marker:
            what += (
                f" The cut removed the markers of these producers with open transactions: {', '.join(without_marker)}."
            )
        return StepResult(name, what, removed.first_offset, removed.last_offset, removed=removed)

    def _find_first_offsets(self) -> dict[int, int]:
        """Return where the open transaction of each producer begins."""
        return {producer_id: producer.first_offset for producer_id, producer in self.log.facts.open.items()}

    def _clean(self, now_ms: int) -> StepResult:
        result = self.log.clean(now_ms, self.delete_retention_ms)
        if not result.groups:
            what = f"A pass at {now_ms} ms cleans nothing: no dirty record is before the active segment and before the "
            return StepResult("clean", what + "first open transaction.", compaction=result)
        records = result.before.records - result.after.records
        size = result.before.bytes - result.after.bytes
        what = (
            f"A pass at {now_ms} ms removes {_count(records, 'record')} and {_count(size, 'byte')}. The next pass "
            f"begins at offset {result.next_dirty_offset}."
        )
        return StepResult("clean", what, compaction=result)


def _make_offset_key(step: Commit | Tombstone) -> OffsetCommitKey:
    return OffsetCommitKey(step.group, step.partition.topic, step.partition.partition)


def _at(first: int, last: int, what: str) -> str:
    """Return a sentence about appended records."""
    place = f"Offset {first}" if first == last else f"Offsets {first} to {last}"
    return f"{place}: {what}."


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}es" if noun.endswith("ch") else f"{number} {noun}s"
