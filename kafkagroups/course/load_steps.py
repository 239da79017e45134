"""Lessons 11 and 13: what each record of a log changes while a coordinator loads the log.

`Fate` in groups/observer.py is what happened to a record, for example that a newer record superseded it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafkagroups.course.log_lines import Line, read_batch_lines
from kafkagroups.course.protocol_lines import Names, collect_names, describe_current
from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.group import Group
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.observer import Fate, Observer, StoredOffset
from kafkagroups.groups.replay import fold_batches
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import collect_groups, create_cache
from kafkagroups.log.batch import Batch
from kafkagroups.log.folders import open_logs
from kafkagroups.records.dialects import dialect


class _FateEvent(NamedTuple):
    """The offset of a record, its fate, and the offset of the record that caused the fate."""

    record_offset: int
    fate: Fate
    cause_offset: int


class _FateRecorder(Observer):
    def __init__(self) -> None:
        self.events: list[_FateEvent] = []

    def set_fate(self, offset: StoredOffset, fate: Fate, by: int) -> None:
        self.events.append(_FateEvent(offset.record_offset, fate, by))


@dataclass(frozen=True)
class Step:
    """One record of a load, with the state of a coordinator that has loaded the log up to it.

    `effect` is what the record changed, for example "counts, replaces record 22". Each number is the offset of a
    record.
    """

    line: Line
    effect: str
    state: tuple[str, ...]


def list_load_steps(path: str, coordinator: str, kafka: str | None) -> Iterator[Step]:
    """Yield one step for each record of a partition. `LoadStepper` explains the parameters.

    Each step loads the log again from its beginning, so use this function only for small logs.
    """
    reading_rules = dialect(coordinator, kafka)
    log = open_logs(path)[0]
    names = collect_names(path)
    earlier_batches: list[Batch] = []
    # Each load first repeats the fates of the load before it. This is the number of these fates.
    repeated_event_count = 0
    for batch in log:
        for record_count, line in enumerate(read_batch_lines(batch, names), 1):
            recorder = _FateRecorder()
            cache = create_cache(reading_rules)
            batches = [*earlier_batches, keep_first_records(batch, record_count)]
            error = None
            try:
                # To fold batches means to compute groups and offsets from the records of the batches.
                cache.add(fold_batches(log.partition, batches, reading_rules, recorder))
            except (LoadFailed, BadBytes) as failure:
                error = failure.reason if isinstance(failure, BadBytes) else str(failure)
            groups = collect_groups(cache, {})
            new_events = recorder.events[repeated_event_count:]
            effect = _describe_effect(line, new_events, groups) if error is None else "the load fails"
            yield Step(line, effect, tuple(_format_state(groups.values(), error, names)))
            repeated_event_count = len(recorder.events)
        earlier_batches.append(batch)


def keep_first_records(batch: Batch, count: int) -> Batch:
    records = batch.records[:count]
    return replace(batch, parse_records=lambda _: records)


def _describe_effect(line: Line, events: list[_FateEvent], groups: Groups) -> str:
    if line.record_type in ("commit", "abort"):
        return _describe_marker(line, events)
    if line.record_type == "group" and line.group is not None:
        group = groups.get(line.group)
        return "the group is deleted" if line.value is None or group is None else _count_members(group)
    if line.record_type != "offset":
        return _describe_group_state(line.group, groups)
    replaced_records = _find_replaced_records(events)
    if line.value is None:
        return f"deletes {_join_offsets(replaced_records)}" if replaced_records else "deletes nothing"
    verb = "waits for its marker" if _is_pending(line, groups) else "counts"
    # The line also contains a committed offset, so the word "record" says what the number is.
    if not replaced_records:
        return verb
    noun = "record" if len(replaced_records) == 1 else "records"
    return f"{verb}, replaces {noun} {_join_offsets(replaced_records)}"


def _describe_group_state(group_id: str | None, groups: Groups) -> str:
    if group_id is None:
        return "nothing"
    return f"the group is {groups[group_id].state.value}" if group_id in groups else "the group is deleted"


def _find_replaced_records(events: list[_FateEvent]) -> dict[int, int]:
    replacing_fates = (Fate.SUPERSEDED, Fate.DELETED)
    return {event.record_offset: event.cause_offset for event in events if event.fate in replacing_fates}


def _is_pending(line: Line, groups: Groups) -> bool:
    pending_by_producer = (offsets for group in groups.values() for offsets in group.pending.values())
    pending_offsets = (offset for offsets in pending_by_producer for offset in offsets.values())
    return any(offset.record_offset == line.record_offset for offset in pending_offsets)


def _describe_marker(line: Line, events: list[_FateEvent]) -> str:
    """Return what a transaction marker changed. All offsets in this function are record offsets."""
    transaction_offsets = [event.record_offset for event in events if event.fate in (Fate.WINS, Fate.ABORTED)]
    if not transaction_offsets:
        return "no offset waits for this marker"
    if line.record_type == "abort":
        return f"{_join_offsets(transaction_offsets)} will never count"
    replaced_records = _find_replaced_records(events)
    effects = []
    winning_offsets = [offset for offset in transaction_offsets if offset not in replaced_records]
    if winning_offsets:
        verb = "counts" if len(winning_offsets) == 1 else "count"
        older_offsets = [offset for offset in replaced_records if offset not in transaction_offsets]
        effects.append(f"{_join_offsets(winning_offsets)} now {verb}{_describe_replaced(older_offsets)}")
    for offset in transaction_offsets:
        if offset in replaced_records:
            effects.append(f"{offset} does not count: {replaced_records[offset]} is newer")
    return "; ".join(effects)


def _describe_replaced(offsets: Iterable[int]) -> str:
    text = _join_offsets(offsets)
    return f", replaces {text}" if text else ""


def _join_offsets(offsets: Iterable[int]) -> str:
    return " and ".join(map(str, sorted(offsets)))


def _count_members(group: AnyGroup) -> str:
    return "1 member" if len(group.members) == 1 else f"{len(group.members)} members"


def _format_members(group: AnyGroup, names: Names) -> Iterator[str]:
    if isinstance(group, Group):
        return
    yield f"  group epoch {group.group_epoch}, assignment epoch {group.assignment_epoch}"
    for member in group.members.values():
        name = names.clients.get(member.member_id, member.member_id)
        first, *others = [""] if member.assignment is None else describe_current(member.assignment, names)
        yield f"  {name}: {first}"
        yield from (f"    {text}" for text in others)


def _format_state(groups: Iterable[AnyGroup], error: str | None, names: Names) -> Iterator[str]:
    if error is not None:
        yield f"the load fails: {error}"
    for group in sorted(groups, key=lambda listed_group: listed_group.group_id):
        generation = f", generation {group.generation}" if isinstance(group, Group) and group.generation else ""
        yield f"{group.group_id}: {group.state.value}{generation}, {_count_members(group)}"
        yield from _format_members(group, names)
        for partition in sorted(group.offsets):
            offset = group.offsets[partition]
            yield f"  {partition!s:<12}{offset.offset:>3}  by {offset.record_offset}"
        for offsets in group.pending.values():
            for partition in sorted(offsets):
                offset = offsets[partition]
                yield f"  {partition!s:<12}{offset.offset:>3}  by {offset.record_offset}, waits"
