"""The public functions `edit`, `append`, `roll` and `cut`: changes of a copy of one partition's log, in steps.

`_STEPS` has the text of each step on the command line, and the function that carries it out, or raises UsageError. The
last ":" ends a group id, because no topic name contains one.

New records follow the end of the log, with the partition leader epoch of the last batch and the layout of the log's
writer. Without a time, a record gets the newest timestamp in the log. Batches are not compressed, and have magic 2
(since Kafka 0.11).

A marker has the producer epoch of the producer's last batch, and the epoch of the transaction coordinator in the
producer's last marker, or 0. A higher epoch could make a broker refuse later markers of the real coordinator.
Source (4.3.1): ProducerAppendInfo.appendEndTxnMarker; OffsetMetadataManager.commitOffset.

A group is deleted with the tombstones that a coordinator writes, in the order of Kafka's code (`DELETED_TYPES` in
coordinator/group_store.py). The classic coordinator writes one for the group only if the log has a record of it; the
new one deletes pending commits, too. A running coordinator deletes only a group without members. Here, a group with
members is deleted as well, with the tombstones that Kafka writes when it converts such a group to another type. Three
parts are different from Kafka's:

- Kafka deletes a resolved regular expression (type 16) when its last member leaves. Here, the tombstone follows those
  of the members.
- The classic coordinator deletes a group with pending commits, and a later load of its log fails. Here, this is
  refused.
- Before Kafka deletes a share group, it writes a value of type 15, and the share coordinator deletes the group's state,
  which is in another topic, and stays here.

Source (4.3.1): GroupCoordinatorShard.deleteGroups; OffsetMetadataManager.deleteAllOffsets; createGroupTombstoneRecords
of ConsumerGroup, ShareGroup, StreamsGroup.
Source (3.9): GroupMetadataManager.cleanupGroupMetadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

from kafkagroups.errors import UsageError
from kafkagroups.groups.map_orders import hash_map_order, topic_partition_hash
from kafkagroups.groups.modern_group import AnyGroup, ModernGroup
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.helpers import parse_whole_number
from kafkagroups.history.finding import count_of
from kafkagroups.loading.load import OpenTopic, read_topic_names
from kafkagroups.log.batch import CONTROL, TRANSACTIONAL
from kafkagroups.log.batches import Damage
from kafkagroups.log.cleaner import Compaction
from kafkagroups.log.folders import new_folder, open_logs
from kafkagroups.log.segment_file import base_offset_of
from kafkagroups.log.segments import Log, Stop
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.releases import Dialect, dialect
from kafkagroups.records.serde import ControlType, Record, encode, encode_control_key, encode_end_transaction_marker
from kafkagroups.records.wire import UUID
from kafkagroups.repair.edited_log import EditedLog, KeyAndValue, Removed


def plan_deletion(log: Log, group_id: str, dialect: Dialect) -> tuple[AnyGroup, list[KeyAndValue]]:
    """Return a group of this log, and the tombstones with which the dialect's coordinator deletes it.

    Raises UsageError if the load of the log fails, or if the log has no such group.
    """
    from kafkagroups.coordinator import group_store  # It is imported slowly, and only one step needs it.

    groups = OpenTopic([log], dialect, engine="auto").load()
    error = groups.partitions[log.partition].error
    if error is not None:
        raise UsageError(f"group {group_id} cannot be deleted, because the load of the log fails: {error}")
    if group_id not in groups:
        coordinator = f"{dialect.coordinator} coordinator of Kafka {dialect.kafka}"
        raise UsageError(f"the log has no group {group_id}, as the {coordinator} loads it")
    group = groups[group_id]
    if dialect.coordinator == "classic":
        offsets = hash_map_order(group.offsets, dialect.version, topic_partition_hash)
    else:
        pending = {partition: None for partitions in group.pending.values() for partition in partitions}
        only_pending = [partition for partition in pending if partition not in group.offsets]
        offsets = [*group_store.order_offsets(group.offsets), *group_store.order_offsets(only_pending)]
    tombstones = [_encode_tombstone(group_id, key) for key in offsets]
    if isinstance(group, ModernGroup):
        # A target of a member that does not exist would make the load fail at the tombstone of the epoch.
        records = group_store.build_modern_tombstones(group, targets=group.targets)
        tombstones += [encode(record) for record in records]
    elif dialect.coordinator == "new" or group.generation > 0:
        _check_pending(group, dialect)
        tombstones.append(encode(group_store.build_group_tombstone(group_id)))
    return group, tombstones


def _check_pending(group: AnyGroup, dialect: Dialect) -> None:
    """Raise UsageError if the classic coordinator could not load the log after the tombstone of the group's record.

    The load creates a group for the pending commits, and fails at a group that it creates and that has a tombstone.
    Source: GroupMetadataManager.doLoadGroupsAndOffsets (3.9).
    """
    if dialect.coordinator == "classic" and group.pending:
        producers = ", ".join(map(str, sorted(group.pending)))
        raise UsageError(
            f"group {group.group_id} has pending commits of producer {producers}: after a tombstone of the group, the "
            "load of the classic coordinator would fail (Unexpected unload of active group); end the transaction first"
        )


def _encode_tombstone(group_id: str, partition: TopicPartition) -> KeyAndValue:
    return encode(Record(_OFFSET_RECORD_TYPE, OffsetCommitKey(group_id, *partition), None, None))


_OFFSET_RECORD_TYPE = 1
_OFFSET_KEY_START = b"\0\1"
_FIRST_VERSION_WITH_TOPIC_ID = 4
_NAMED_PRODUCERS = 5


@dataclass(frozen=True)
class StepResult:
    what: str
    first_offset: int | None = None
    last_offset: int | None = None
    compaction: Compaction | None = None
    removed: Removed | None = None
    step: str = ""

    def to_json(self) -> dict[str, Any]:
        row = {name: getattr(self, name) for name in ("step", "first_offset", "last_offset", "what")}
        if self.removed is not None:
            row["removed"] = {name: getattr(self.removed, name) for name in ("segments", "batches", "records")}
        if self.compaction is not None:
            row |= {name: value for name, value in asdict(self.compaction).items() if name != "damage"}
        return row


def _commit(log: EditedLog, group: str, partition: TopicPartition, offset: int, timestamp_ms: int | None) -> StepResult:
    """`offset` can be negative, because brokers store every offset that a client commits."""
    time_ms = log.facts.newest_ms if timestamp_ms is None else timestamp_ms
    if time_ms < 0:
        raise UsageError(f"the log has no timestamp: expected a time at the end of the commit of {group}: @MS")
    version = log.offset_value_version
    named = read_topic_names([log.open()]) if version >= _FIRST_VERSION_WITH_TOPIC_ID else ()
    topic_id = [str(UUID.default), *(topic_id for topic_id, name in named if name == partition.topic)][-1]
    value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=time_ms, topic_id=topic_id)
    record = encode(Record(_OFFSET_RECORD_TYPE, OffsetCommitKey(group, *partition), value, version))
    what = f"group {group} commits offset {offset} of {_name(partition)} at {time_ms} ms (value version {version})"
    return _append(log, what, [record], time_ms, base_sequence=0)


def _delete_offset(log: EditedLog, group: str, partition: TopicPartition) -> StepResult:
    record = _encode_tombstone(group, partition)
    what = f"a tombstone deletes the offset of group {group} for {_name(partition)}"
    return _append(log, what, [record], base_sequence=_tombstone_sequence(log))


def _delete_group(log: EditedLog, group: str) -> StepResult:
    deleted, tombstones = plan_deletion(log.open(), group, log.dialect)
    if not tombstones:
        return StepResult(
            f"Nothing is appended: the classic coordinator writes no tombstone for group {group}, which has no "
            "committed offset and the generation 0."
        )
    content = count_of(sum(key.startswith(_OFFSET_KEY_START) for key, _ in tombstones), "offset")
    if deleted.members:
        members = count_of(len(deleted.members), "member")
        content += f" and {members}; a running coordinator refuses this (NON_EMPTY_GROUP)"
    verb = "deletes" if len(tombstones) == 1 else "delete"
    coordinator = f"{count_of(len(tombstones), 'tombstone')} of the {log.dialect.coordinator} coordinator"
    what = f"{coordinator} {verb} the {deleted.type} group {group} with {content}"
    return _append(log, what, tombstones, base_sequence=_tombstone_sequence(log))


def _end_transaction(log: EditedLog, kind: str, producer_id: int) -> StepResult:
    facts = log.facts
    producer = facts.open.get(producer_id)
    if producer is None:
        names = [str(each) for each in facts.open][:_NAMED_PRODUCERS]
        more = ", …" if len(facts.open) > len(names) else ""
        found = f"open: {', '.join(names)}{more}" if names else "no transaction is open"
        raise UsageError(f"producer {producer_id} has no open transaction in the log ({found})")
    since = f"open since offset {producer.first_offset}"
    what = f"a marker {kind}s the transaction of producer {producer_id} (epoch {producer.epoch}), {since}"
    marker = encode_end_transaction_marker(facts.marker_epochs.get(producer_id, 0))
    return _append(
        log,
        what,
        [(encode_control_key(ControlType[kind.upper()]), marker)],
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer.epoch,
    )


def _roll(log: EditedLog) -> StepResult:
    offset = log.facts.next_offset
    if log.roll():
        return StepResult(f"A new active segment begins at offset {offset}.")
    return StepResult(f"Nothing is rolled: the active segment, which begins at offset {offset}, is empty.")


def _cut_after(log: EditedLog, time_ms: int) -> StepResult:
    """Remove the first batch with a timestamp after a time (ms since 1970), and what follows."""
    stop = Stop(until_time=time_ms)
    first = next((batch.base_offset for batch in log.open() if stop.excludes(batch)), None)
    return _cut(log, first, f"{time_ms} ms")


def _clean(log: EditedLog, now_ms: int) -> StepResult:
    result = log.clean(now_ms)
    if not result.groups:
        what = "cleans nothing: no dirty record is before the active segment and before the first open transaction"
        return StepResult(f"A pass at {now_ms} ms {what}.", compaction=result)
    records = count_of(result.before.records - result.after.records, "record")
    size = count_of(result.before.bytes - result.after.bytes, "byte")
    what = f"A pass at {now_ms} ms removes {records} and {size}. The next pass begins at offset "
    return StepResult(f"{what}{result.next_dirty_offset}.", compaction=result)


def _name(partition: TopicPartition) -> str:
    return f"{partition} ({partition.reading})" if partition.reading else str(partition)


def _append(
    log: EditedLog, what: str, records: list[KeyAndValue], time_ms: int | None = None, **header: int
) -> StepResult:
    first, last = log.append(records, max(0, log.facts.newest_ms) if time_ms is None else time_ms, **header)
    place = f"Offset {first}" if first == last else f"Offsets {first} to {last}"
    return StepResult(f"{place}: {what}.", first, last)


def _tombstone_sequence(log: EditedLog) -> int:
    return 0 if log.dialect.coordinator == "new" else -1


def _cut(log: EditedLog, offset: int | None, place: str = "") -> StepResult:
    place = place or f"offset {offset}"
    open_before = log.facts.open
    removed = Removed() if offset is None else log.cut(offset)
    end = log.facts.next_offset
    if removed.first_offset is None:
        empty = f" {count_of(removed.segments, 'empty segment')} deleted." if removed.segments else ""
        what = f"No batch is cut: none is at {place} or after. The log ends at offset {end}.{empty}"
        return StepResult(what, removed=removed)
    batches = count_of(removed.batches, "batch", "es")
    what = (
        f"Cut at {place}: {batches} with {count_of(removed.records, 'record')} removed, "
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
    return StepResult(what, removed.first_offset, removed.last_offset, removed=removed)


class StepKind(NamedTuple):
    """`form` is the text of a step for people, and `pattern` has the arguments of `run` in it by their names."""

    form: str
    pattern: str
    run: Callable[..., StepResult]


_KEY = "(?P<group>.*):(?P<partition>[^:]*)"
_STEPS = {
    "commit": StepKind(
        "GROUP:TOPIC-PARTITION=OFFSET or GROUP:TOPIC-PARTITION=OFFSET@MS",
        f"{_KEY}=(?P<offset>[^=@]*)(@(?P<timestamp_ms>[^-=][^=]*))?",
        _commit,
    ),
    "tombstone": StepKind("GROUP:TOPIC-PARTITION", _KEY, _delete_offset),
    "delete-group": StepKind("GROUP", "(?P<group>.*)", _delete_group),
    "marker": StepKind(
        "commit:PRODUCER_ID or abort:PRODUCER_ID", "(?P<kind>commit|abort):(?P<producer_id>.*)", _end_transaction
    ),
    "roll": StepKind("no text", "", _roll),
    "cut": StepKind("OFFSET", "(?P<offset>[^-].*)", _cut),
    "cut-time": StepKind("a time in ms since 1970", "(?P<time_ms>.*)", _cut_after),
    "clean": StepKind("a time in ms since 1970", "(?P<now_ms>.*)", _clean),
}
_PARSERS: dict[str, Callable[[str], Any]] = {"group": str, "partition": TopicPartition.parse, "kind": str}


def _parse_step(step: tuple[str, str | int | None] | str) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of a step. Raises UsageError if the text does not have the form of its step."""
    pair = (step, None) if isinstance(step, str) else step
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise UsageError(f"expected a step, for example ('cut', 42), found {step!r}")
    name, text = pair
    if name not in _STEPS:
        raise UsageError(f"no step {name!r}: choose one of {', '.join(_STEPS)}")
    match = re.fullmatch(_STEPS[name].pattern, "" if text is None else str(text), re.DOTALL)
    if match is None or (text is None) != (name == "roll"):
        found = "" if text is None else f", found {text!r}"
        raise UsageError(f"{name}: expected {_STEPS[name].form}{found}")
    try:
        return name, {
            argument: None if part is None else _PARSERS.get(argument, parse_whole_number)(part)
            for argument, part in match.groupdict().items()
        }
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


class WriterOptions(TypedDict, total=False):
    coordinator: str | None
    kafka: str | None


@dataclass(frozen=True)
class Edit:
    """`segments` are the base offsets of the segments in the folder `out`, and `next_offset` follows the last batch.
    Only what is before `damage` was copied from `path`.
    """

    path: str
    out: str
    steps: tuple[StepResult, ...]
    segments: tuple[int, ...]
    start_offset: int
    next_offset: int
    damage: Damage | None

    def to_json(self) -> dict[str, Any]:
        names = ("file", "position", "offset", "reason")
        return vars(self) | {
            "steps": [step.to_json() for step in self.steps],
            "segments": list(self.segments),
            "damage": self.damage and {name: getattr(self.damage, name) for name in names},
        }


def edit(
    path: str | Path,
    out: str | Path,
    steps: Iterable[tuple[str, str | int | None] | str],
    *,
    coordinator: str | None = None,
    kafka: str | None = None,
) -> Edit:
    """Copy the log of one partition, carry out steps on the copy in order, and return what they did.

    Only what is before the first damaged batch is copied, as a broker's recovery would keep it.

    Parameters
    ----------
    path, out
        A partition directory, which is never changed, and a new or empty folder for the segments.
    steps
        Each step is a pair of the name and the text of an option of the command `edit`, for example ("commit",
        "billing:orders-0=42"). The name alone is enough for "roll".
    coordinator, kafka
        The coordinator, "classic" or "new", and the Kafka version that would write the new records. None means the
        coordinator that wrote the log, and the layout of the log's records.

    Raises
    ------
    UsageError
        The path is not one partition, `out` is not empty or is inside the path, a step cannot be carried out, or a
        number is out of range. `out` is then empty.
    InvalidLog, InvalidRecord
        Kafka's cleaner would fail in a pass. `out` is then empty.

    Examples
    --------
    >>> import tempfile
    >>> out = tempfile.mkdtemp()
    >>> steps = [("commit", "billing:invoices-0=42"), "roll"]
    >>> result = edit("data/harbour/3.9.2/__consumer_offsets-9", out, steps)
    >>> [step.step for step in result.steps]
    ['commit', 'roll']
    """
    parsed_steps = [_parse_step(step) for step in steps]
    if not parsed_steps:
        raise UsageError("an edit needs at least one step")
    writer = None if coordinator is None and kafka is None else dialect(coordinator, kafka)
    logs = open_logs(path)
    if len(logs) > 1:
        raise UsageError(f"an edit needs one partition, but {path} has {len(logs)}")
    folder = Path(out)
    if folder.resolve().is_relative_to(Path(path).resolve()):
        raise UsageError(f"{out}: expected a folder outside {path}, which an edit never changes")
    with new_folder(folder) as copy:
        edited = EditedLog(copy, logs[0], writer, kafka)
        try:
            results = [replace(_STEPS[name].run(edited, **arguments), step=name) for name, arguments in parsed_steps]
        finally:
            edited.close()
        segments = tuple(base_offset_of(segment) for segment in edited.open().segments)
        return Edit(str(path), str(out), tuple(results), segments, segments[0], edited.facts.next_offset, edited.damage)


def append(
    path: str | Path,
    out: str | Path,
    *,
    commit: str | Sequence[str] = (),
    tombstone: str | Sequence[str] = (),
    delete_group: str | Sequence[str] = (),
    marker: str | Sequence[str] = (),
    **writer: Unpack[WriterOptions],
) -> Edit:
    """Append records to a copy of a partition's log: commits, tombstones, group deletions and markers, in this order.

    The paths, the writer, the errors and the result are those of `edit`, which also carries out steps in another order.
    Each parameter takes one text or several: `commit` is "GROUP:TOPIC-PARTITION=OFFSET", or with "@MS" behind it, a
    commit with this time in ms since 1970 instead of the newest timestamp in the log; `tombstone` is
    "GROUP:TOPIC-PARTITION", `delete_group` a group id, and `marker` "commit:PRODUCER_ID" or "abort:PRODUCER_ID".

    Examples
    --------
    >>> import tempfile
    >>> result = append("data/harbour/3.9.2/__consumer_offsets-9", tempfile.mkdtemp(), commit="billing:invoices-0=42")
    >>> result.next_offset - result.steps[0].first_offset
    1
    """
    options = {"commit": commit, "tombstone": tombstone, "delete-group": delete_group, "marker": marker}
    steps = [
        (name, text)
        for name, texts in options.items()
        for text in ((texts,) if isinstance(texts, str) else tuple(texts))
    ]
    return edit(path, out, steps, **writer)


def roll(path: str | Path, out: str | Path) -> Edit:
    """Copy a log and begin a new segment, as `edit` does. The log cleaner can then clean the one before."""
    return edit(path, out, ["roll"])


def cut(path: str | Path, out: str | Path, offset: int | None = None, *, time: int | None = None) -> Edit:
    """Copy a partition's log up to an offset, or up to a time in ms since 1970, as `edit` does.

    Whole batches are removed, as when a broker truncates its log: the first batch that contains this offset or a higher
    one, or a timestamp after this time, and everything after it. Raises UsageError as `edit` does, or if `offset` and
    `time` are both given or both missing.
    """
    if offset is not None and time is None:
        return edit(path, out, [("cut", offset)])
    if time is not None and offset is None:
        return edit(path, out, [("cut-time", time)])
    raise UsageError("a cut needs an offset or a time, and not both")
