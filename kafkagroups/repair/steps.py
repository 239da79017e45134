"""The steps of an edit: how each is written on the command line, and what it does to the copy of a log.

    commit         GROUP:TOPIC-PARTITION=OFFSET[@MS]
    tombstone      GROUP:TOPIC-PARTITION
    delete-group   GROUP
    marker         commit:PRODUCER_ID or abort:PRODUCER_ID
    roll           no text
    cut            OFFSET
    cut-time       MS
    clean          MS

`run` carries out a step, and raises UsageError if that is not possible.

A group id can contain every character. No topic name contains ":", so the last ":" ends the group id.
`TopicPartition.parse` reads the rest.

New records follow the end of the log. They have the partition leader epoch of the last batch, and the layout of the
records that the log's writer wrote. Nothing here reads a clock: without a time, a record gets the newest timestamp in
the log. Batches are not compressed, and have magic 2 (since Kafka 0.11).

A marker has the producer epoch of the producer's last batch, and the epoch of the transaction coordinator in the
producer's last marker, or 0. A higher epoch could make a broker refuse later markers of the real coordinator.
Source (4.3.1): ProducerAppendInfo.appendEndTxnMarker; OffsetMetadataManager.commitOffset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.helpers import parse_whole_number
from kafkagroups.log.batch import CONTROL, TRANSACTIONAL
from kafkagroups.log.cleaner import Compaction
from kafkagroups.log.segments import Stop
from kafkagroups.records.control import ControlType, encode_control_key, encode_end_transaction_marker
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode
from kafkagroups.repair.deletion import plan_deletion
from kafkagroups.repair.edited_log import EditedLog, KeyAndValue, Removed, find_topic_id

_OFFSET_RECORD_TYPE = 1
_OFFSET_KEY_START = b"\0\1"
_FIRST_VERSION_WITH_TOPIC_ID = 4
_NAMED_PRODUCERS = 5
"""An error names at most this number of producers."""


@dataclass(frozen=True)
class StepResult:
    """What one step did.

    `step` is the step's name. `what` is one sentence. `first_offset` and `last_offset` are the Kafka offsets of the
    records that the step appended or removed; None if it did neither. `compaction` is the result of a cleaning pass,
    and `removed` what a cut removed; None for other steps.
    """

    step: str
    what: str
    first_offset: int | None = None
    last_offset: int | None = None
    compaction: Compaction | None = None
    removed: Removed | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the step as an object of the list `steps` in `Edit.to_json`."""
        row = {name: getattr(self, name) for name in ("step", "first_offset", "last_offset", "what")}
        if self.removed is not None:
            row["removed"] = {name: getattr(self.removed, name) for name in ("segments", "batches", "records")}
        if self.compaction is not None:
            row |= {name: value for name, value in asdict(self.compaction).items() if name != "damage"}
        return row


@dataclass(frozen=True)
class Commit:
    """Append the record of a committed offset.

    `timestamp_ms` is the time of the commit in ms since 1970; None means the newest timestamp in the log.
    `offset` can be negative, because brokers store every offset that a client commits.
    """

    group: str
    partition: TopicPartition
    offset: int
    timestamp_ms: int | None = None

    def run(self, log: EditedLog) -> StepResult:
        time_ms = log.facts.newest_ms if self.timestamp_ms is None else self.timestamp_ms
        if time_ms < 0:
            raise UsageError(f"the log has no timestamp: expected a time at the end of the commit of {self.group}: @MS")
        version = log.offset_value_version
        value = OffsetCommitValue(offset=self.offset, metadata="", commit_timestamp=time_ms)
        if version >= _FIRST_VERSION_WITH_TOPIC_ID:
            value = msgspec.structs.replace(value, topic_id=find_topic_id(log.open(), self.partition.topic))
        record = encode(Record(_OFFSET_RECORD_TYPE, OffsetCommitKey(self.group, *self.partition), value, version))
        what = (
            f"group {self.group} commits offset {self.offset} of {_name(self.partition)} at {time_ms} ms "
            f"(value version {version})"
        )
        return _append(log, "commit", what, [record], time_ms, base_sequence=0)


@dataclass(frozen=True)
class Tombstone:
    """Append a record without a value, which deletes a group's committed offset for one partition."""

    group: str
    partition: TopicPartition

    def run(self, log: EditedLog) -> StepResult:
        record = encode(Record(_OFFSET_RECORD_TYPE, OffsetCommitKey(self.group, *self.partition), None, None))
        what = f"a tombstone deletes the offset of group {self.group} for {_name(self.partition)}"
        return _append(log, "tombstone", what, [record], base_sequence=_tombstone_sequence(log))


@dataclass(frozen=True)
class DeleteGroup:
    """Append the tombstones with which a coordinator deletes a group and its offsets."""

    group: str

    def run(self, log: EditedLog) -> StepResult:
        group, tombstones = plan_deletion(log.open(), self.group, log.dialect)
        if not tombstones:
            what = (
                f"Nothing is appended: the classic coordinator writes no tombstone for group {self.group}, which has "
                "no committed offset and the generation 0."
            )
            return StepResult("delete-group", what)
        content = _count(sum(key.startswith(_OFFSET_KEY_START) for key, _ in tombstones), "offset")
        if group.members:
            members = _count(len(group.members), "member")
            content += f" and {members}; a running coordinator refuses this (NON_EMPTY_GROUP)"
        verb = "deletes" if len(tombstones) == 1 else "delete"
        what = (
            f"{_count(len(tombstones), 'tombstone')} of the {log.dialect.coordinator} coordinator {verb} the "
            f"{group.type} group {self.group} with {content}"
        )
        return _append(log, "delete-group", what, tombstones, base_sequence=_tombstone_sequence(log))


@dataclass(frozen=True)
class Marker:
    """Append the control record that commits or aborts the open transaction of a producer."""

    producer_id: int
    commits: bool

    def run(self, log: EditedLog) -> StepResult:
        facts = log.facts
        producer = facts.open.get(self.producer_id)
        if producer is None:
            names = [str(producer_id) for producer_id in facts.open][:_NAMED_PRODUCERS]
            more = ", …" if len(facts.open) > len(names) else ""
            found = f"open: {', '.join(names)}{more}" if names else "no transaction is open"
            raise UsageError(f"producer {self.producer_id} has no open transaction in the log ({found})")
        kind = ControlType.COMMIT if self.commits else ControlType.ABORT
        epoch = facts.marker_epochs.get(self.producer_id, 0)
        what = (
            f"a marker {kind.name.lower()}s the transaction of producer {self.producer_id} (epoch {producer.epoch}), "
            f"open since offset {producer.first_offset}"
        )
        return _append(
            log,
            "marker",
            what,
            [(encode_control_key(kind), encode_end_transaction_marker(epoch))],
            attributes=TRANSACTIONAL | CONTROL,
            producer_id=self.producer_id,
            producer_epoch=producer.epoch,
        )


@dataclass(frozen=True)
class Roll:
    """Close the active segment, and begin a new segment."""

    def run(self, log: EditedLog) -> StepResult:
        offset = log.facts.next_offset
        if log.roll():
            return StepResult("roll", f"A new active segment begins at offset {offset}.")
        return StepResult("roll", f"Nothing is rolled: the active segment, which begins at offset {offset}, is empty.")


@dataclass(frozen=True)
class Cut:
    """Remove all records from a Kafka offset on."""

    offset: int

    def run(self, log: EditedLog) -> StepResult:
        return _cut(log, "cut", self.offset, f"offset {self.offset}")


@dataclass(frozen=True)
class CutTime:
    """Remove the first batch that contains a timestamp after a time (ms since 1970), and all later batches."""

    time_ms: int

    def run(self, log: EditedLog) -> StepResult:
        stop = Stop(until_time=self.time_ms)
        first = next((batch.base_offset for batch in log.open() if stop.excludes(batch)), None)
        return _cut(log, "cut-time", first, f"{self.time_ms} ms")


@dataclass(frozen=True)
class Clean:
    """Run one pass of the log cleaner at a time (ms since 1970)."""

    now_ms: int

    def run(self, log: EditedLog) -> StepResult:
        result = log.clean(self.now_ms)
        if not result.groups:
            what = "cleans nothing: no dirty record is before the active segment and before the first open transaction"
            return StepResult("clean", f"A pass at {self.now_ms} ms {what}.", compaction=result)
        records = _count(result.before.records - result.after.records, "record")
        size = _count(result.before.bytes - result.after.bytes, "byte")
        what = (
            f"A pass at {self.now_ms} ms removes {records} and {size}. The next pass begins at offset "
            f"{result.next_dirty_offset}."
        )
        return StepResult("clean", what, compaction=result)


Step = Commit | Tombstone | DeleteGroup | Marker | Roll | Cut | CutTime | Clean


def _name(partition: TopicPartition) -> str:
    """Return a topic-partition for a sentence. If its text could be read in two ways, say which one was taken."""
    return f"{partition} ({partition.reading})" if partition.reading else str(partition)


def _append(
    log: EditedLog, step: str, what: str, records: list[KeyAndValue], time_ms: int | None = None, **header: int
) -> StepResult:
    """Append a batch of records with a time, or else with the newest timestamp of the log."""
    first, last = log.append(records, max(0, log.facts.newest_ms) if time_ms is None else time_ms, **header)
    place = f"Offset {first}" if first == last else f"Offsets {first} to {last}"
    return StepResult(step, f"{place}: {what}.", first, last)


def _tombstone_sequence(log: EditedLog) -> int:
    """Return the sequence number that the log's coordinator gives to a batch of tombstones."""
    return 0 if log.dialect.coordinator == "new" else -1


def _cut(log: EditedLog, step: str, offset: int | None, place: str) -> StepResult:
    """Cut a log at an offset, if there is one. Name the producers whose transactions are open without their markers."""
    open_before = log.facts.open
    removed = Removed() if offset is None else log.cut(offset)
    end = log.facts.next_offset
    if removed.first_offset is None:
        empty = f" {_count(removed.segments, 'empty segment')} deleted." if removed.segments else ""
        what = f"No batch is cut: none is at {place} or after. The log ends at offset {end}.{empty}"
        return StepResult(step, what, removed=removed)
    what = (
        f"Cut at {place}: {_count(removed.batches, 'batch')} with {_count(removed.records, 'record')} removed, "
        f"offsets {removed.first_offset} to {removed.last_offset}. The log ends at offset {end}."
    )
    if removed.split is not None:
        what += f" The batch of offsets {removed.split[0]} to {removed.split[1]} is removed as a whole."
    without_marker = [
        str(producer_id)
        for producer_id, producer in log.facts.open.items()
        if producer_id not in open_before or open_before[producer_id].first_offset != producer.first_offset
    ]
    if without_marker:
        what += f" The cut removed the markers of these producers with open transactions: {', '.join(without_marker)}."
    return StepResult(step, what, removed.first_offset, removed.last_offset, removed=removed)


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}es" if noun.endswith("ch") else f"{number} {noun}s"


def parse_step(name: str, text: str | int | None = None) -> Step:
    """Return the step with this name, which the text describes.

    Raises UsageError if no step has this name, or if the text does not have the form that the module describes.
    """
    if name not in _STEPS:
        raise UsageError(f"no step {name!r}: choose one of {', '.join(_STEPS)}")
    form, parse = _STEPS[name]
    try:
        step = None if (text is None) != (name == "roll") else parse(str(text))
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
    if step is None:
        found = "" if text is None else f", found {text!r}"
        raise UsageError(f"{name}: expected {form}{found}")
    return step


def _parse_commit(text: str) -> Step | None:
    key_text, _, number_text = text.rpartition("=")
    key = _parse_key(key_text)
    if key is None:
        return None
    offset_text, at, time_text = number_text.partition("@")
    timestamp_ms = parse_whole_number(time_text) if at else None
    if timestamp_ms is not None and timestamp_ms < 0:
        raise UsageError(f"expected a time of 0 or above, in ms since 1970, found {timestamp_ms}")
    return Commit(*key, parse_whole_number(offset_text), timestamp_ms)


def _parse_tombstone(text: str) -> Step | None:
    key = _parse_key(text)
    return Tombstone(*key) if key else None


def _parse_key(text: str) -> tuple[str, TopicPartition] | None:
    """Return the group id and the partition in GROUP:TOPIC-PARTITION; None if the text has another form."""
    group, colon, partition_text = text.rpartition(":")
    if not colon:
        return None
    try:
        return group, TopicPartition.parse(partition_text)
    except UsageError:
        return None


def _parse_marker(text: str) -> Step | None:
    kind, _, producer_text = text.partition(":")
    if kind not in ("commit", "abort"):
        return None
    return Marker(parse_whole_number(producer_text), kind == "commit")


def _parse_cut(text: str) -> Step:
    offset = parse_whole_number(text)
    if offset < 0:
        raise UsageError(f"expected an offset of 0 or above, found {offset}")
    return Cut(offset)


_STEPS: dict[str, tuple[str, Callable[[str], Step | None]]] = {
    "commit": ("GROUP:TOPIC-PARTITION=OFFSET or GROUP:TOPIC-PARTITION=OFFSET@MS", _parse_commit),
    "tombstone": ("GROUP:TOPIC-PARTITION", _parse_tombstone),
    "delete-group": ("GROUP", DeleteGroup),
    "marker": ("commit:PRODUCER_ID or abort:PRODUCER_ID", _parse_marker),
    "roll": ("no text", lambda text: Roll()),
    "cut": ("OFFSET", _parse_cut),
    "cut-time": ("a time in ms since 1970", lambda text: CutTime(parse_whole_number(text))),
    "clean": ("a time in ms since 1970", lambda text: Clean(parse_whole_number(text))),
}
"""What the text of each step must look like, and its parser, which returns None for a text of another form."""
