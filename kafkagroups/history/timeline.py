"""The history of one group as events (`timeline`): generations, commits, transactions, deletions, and gaps.

The events come from the records of the group, and not from a broker. So the timeline contains what the log tells. A
rebalance that did not end, or a commit that was refused, left no record.
A gap is a range of offsets in which records are missing (gaps.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkagroups.groups.log_records import OFFSET_KEYS, get_topic_partition
from kafkagroups.history.event import Cause, Event, event_json
from kafkagroups.history.gaps import Gaps, mark_damaged
from kafkagroups.history.group_events import GroupEvents
from kafkagroups.history.group_log import GroupRecord, Marker, Step, load_group_log
from kafkagroups.history.group_requests import CLASSIC_GROUP, EPOCHS
from kafkagroups.history.last_moves import Position, finish_positions, standstill_event
from kafkagroups.history.moved_commits import describe_lower_commits
from kafkagroups.history.offset_events import OffsetEvents
from kafkagroups.history.rewound import RewoundPosition, sort_rewound
from kafkagroups.history.words import count_of, describe_time, list_names, time_or_none
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.topic_partitions import TopicPartitions
from kafkagroups.log.holes import Hole
from kafkagroups.records.dialects import Dialect
from kafkagroups.tables.frames import events_frame

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class Timeline:
    """The history of a group.

    Attributes
    ----------
    group
        The group id.
    coordinator, kafka
        The coordinator ("classic" or "new") and the Kafka version whose rules were applied.
    events
        The events, in the order of the log. Without `all`, commits that only move forward are left out.
    problems
        One line for each partition that is damaged or whose load fails. The partition need not contain records of the
        group.
    left_out
        How many events `all` would add.
    kafka_rules
        The Kafka version whose rules were applied, if this package was not compared with a broker of the version
        `kafka`. Otherwise None.
    topic_partitions
        The partition count of the offsets topic, and how it was found.
    rewound
        The positions that went back: the highest and the current ones, and what the group reads twice.
    positions
        The committed offsets at the end of the log with their last moves, in each partition the oldest move first.
    """

    group: str
    coordinator: str
    kafka: str
    events: list[Event] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    left_out: int = 0
    kafka_rules: str | None = None
    topic_partitions: TopicPartitions = field(default_factory=TopicPartitions)
    rewound: list[RewoundPosition] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the events as JSON: a list of the objects that `timeline --json` prints.

        The last objects have the event "standing_still": one for each position that stands still at the end of the log.
        """
        rules = {} if self.kafka_rules is None else {"kafka_rules": self.kafka_rules}
        standing = [standstill_event(position) for position in self.positions if position.stands_still]
        return [event_json(event) | rules for event in [*self.events, *standing]]

    def events_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each object of `to_json`. The columns are the fields of `to_json`.

        Returns
        -------
        pandas.DataFrame
            Times are in ms since the epoch. `members_joined`, `members_left`, `members` and `replaced_instances`
            are lists.
        """
        return events_frame(self.to_json())


class Selection(NamedTuple):
    """Which events of a group are returned.

    `shows_all` adds the commits that only move forward, and the steps of members towards a new assignment. With
    `topic`, only the events of this topic's offsets are returned, and only those since the time `since_time` (ms since
    the epoch).
    """

    shows_all: bool = False
    topic: str | None = None
    since_time: int | None = None


def build_timeline(topic: OpenTopic, group: str, selection: Selection, retention_ms: int | None = None) -> Timeline:
    """Load a topic and return the history of a group.

    `retention_ms` is the broker's offsets.retention.minutes in ms; None if it is not known.
    """
    dialect = topic.dialect
    groups, group_log = load_group_log(topic, group)
    all_events: list[Event] = []
    rewound: list[RewoundPosition] = []
    positions: list[Position] = []
    for partition in sorted(group_log.steps, key=lambda number: -1 if number is None else number):
        loaded = groups.partitions[partition]
        start_offset = loaded.start_offset
        steps = mark_damaged(group_log.steps[partition], loaded.gaps or [])
        found, partition_history = walk(steps, partition, dialect, start_offset, retention_ms=retention_ms)
        all_events += found
        rewound += partition_history.offsets.find_rewound()
        positions += partition_history.find_positions()
    all_events = describe_lower_commits(all_events)
    all_events = [event for event in all_events if _is_selected(event, selection)]
    events = [event for event in all_events if selection.shows_all or not _is_left_out(event)]
    left_out = len(all_events) - len(events)
    return Timeline(
        group,
        dialect.coordinator,
        dialect.kafka,
        events,
        groups.problems,
        left_out,
        dialect.rules_of,
        groups.topic_partitions,
        sort_rewound(position for position in rewound if selection.topic in (None, position.topic_partition.topic)),
        [position for position in positions if selection.topic in (None, position.topic_partition.topic)],
    )


def _is_selected(event: Event, selection: Selection) -> bool:
    since_time = selection.since_time
    if since_time is not None and (event.timestamp_ms is None or event.timestamp_ms < since_time):
        return False
    topic_partition = event.topic_partition
    return selection.topic is None or (topic_partition is not None and topic_partition.topic == selection.topic)


def _is_left_out(event: Event) -> bool:
    return event.is_routine and event.event in ("commit", "epoch")


def walk(
    steps: list[Step],
    partition: int | None,
    dialect: Dialect,
    start_offset: int,
    *,
    skips_routine: bool = False,
    retention_ms: int | None = None,
) -> tuple[list[Event], PartitionHistory]:
    """Return all events of a group in one partition, in the order of the log, and the group at the end of the log.

    `start_offset` is the first offset of the log. The result is empty if the partition has no record of the group. If
    `skips_routine` is true, commits that only move an offset forward are
    left out. `retention_ms` is the one of `build_timeline`.
    """
    history = PartitionHistory(partition, dialect, skips_routine=skips_routine, retention_ms=retention_ms)
    if not any(isinstance(step, GroupRecord) for step in steps):
        return [], history
    gaps = Gaps(partition, steps, start_offset)
    events: list[tuple[int, Event]] = []
    number_by_record: dict[int, int] = {}
    for number, batch in enumerate(_divide(steps)):
        first = batch[0]
        if isinstance(first, Hole):
            events.append((number, gaps.describe(first)))
            history.offsets.hole_count += 1
            history.group.has_hole = True
        elif isinstance(first, Marker):
            events += [(number, event) for event in history.offsets.end_transaction(first, history.group.state)]
        else:
            records = [step for step in batch if isinstance(step, GroupRecord)]
            events += [(number, event) for event in history.apply_batch(records)]
            number_by_record |= {id(record): number for record in records if record.is_pending}
    # An open transaction is known only at the end of the log, but its event belongs to its first record.
    events += [(number_by_record[id(record)], event) for record, event in history.offsets.find_open_transactions()]
    events.sort(key=lambda pair: pair[0])
    return [event for _, event in events], history


def _divide(steps: list[Step]) -> Iterator[list[Step]]:
    """Yield the group's records of each batch. A hole and a marker are alone."""
    for batch_offset, batch in groupby(steps, key=_get_batch_offset):
        if batch_offset is None:
            yield from ([step] for step in batch)
        else:
            yield list(batch)


def _get_batch_offset(step: Step) -> int | None:
    return step.batch_offset if isinstance(step, GroupRecord) else None


class PartitionHistory:
    """The group and its offsets in one partition, after some records of the log.

    `causes` are the causes of the tombstones, by their offsets in the log.
    """

    def __init__(
        self,
        partition: int | None,
        dialect: Dialect,
        *,
        skips_routine: bool = False,
        retention_ms: int | None = None,
    ) -> None:
        self.group = GroupEvents(partition)
        self.offsets = OffsetEvents(partition, dialect, skips_routine=skips_routine, retention_ms=retention_ms)
        self.causes = self.offsets.causes

    def find_positions(self) -> list[Position]:
        """Return the committed offsets with their last moves, and the members that have them."""
        members = self.group.state.find_members_by_partition(self.offsets.topic_ids)
        return finish_positions(self.offsets.last_moves.values(), members)

    def apply_batch(self, records: list[GroupRecord]) -> Iterator[Event]:
        """Yield the events of the group's records in one batch."""
        runs = [list(run) for _, run in groupby(records, key=_get_kind)]
        deletion = ""
        group_cause = Cause.GROUP_DELETED
        for run, following in zip(runs, [*runs[1:], []], strict=True):
            kind = _get_kind(run[0])
            if kind is _Kind.COMMIT:
                for record in run:
                    yield from self.offsets.commit(record, self.group.state)
            elif kind is _Kind.OFFSET_TOMBSTONE:
                deletes_group = any(_is_group_tombstone(record) for record in following)
                events = list(self._delete_offsets(run, deletes_group=deletes_group))
                yield from events
                deletion = self._describe_deletion_with(run, can_expire=bool(events))
                if any(self.causes[record.offset] is Cause.EXPIRED for record in run):
                    group_cause = Cause.EXPIRED
            else:
                had_state = self.group.state.type is not None
                for event in self.group.apply(run):
                    if event.event == "deleted":
                        event = replace(event, what=deletion or self._describe_deletion(had_state=had_state))
                        tombstones = (record for record in run if record.record.value is None)
                        self.causes |= {record.offset: group_cause for record in tombstones}
                    yield event

    def _delete_offsets(self, tombstones: list[GroupRecord], *, deletes_group: bool) -> Iterator[Event]:
        had_offsets = self.offsets.has_offsets()
        yield from self.offsets.delete(tombstones, self.group.state, deletes_group=deletes_group)
        has_group = self.group.state.type is not None or self.offsets.has_offsets()
        if self.offsets.is_classic and had_offsets and not has_group and not deletes_group:
            last = tombstones[-1]
            what = "The group has no offset and no group record left."
            yield Event(self.group.partition, last.offset, time_or_none(last.timestamp), "deleted", what)

    def _describe_deletion_with(self, tombstones: list[GroupRecord], *, can_expire: bool) -> str:
        keys = [get_topic_partition(record.record) for record in tombstones]
        what = f"The group was deleted with {count_of(len(keys), 'offset')}: {list_names(keys)}"
        topics = {key.topic for key in keys}
        # The classic coordinator deletes the group in the same batch if the topic of its last offsets is deleted.
        can_be_topic = self.offsets.is_classic and len(topics) == 1 and not can_expire
        return f"{what}, or with the topic." if can_be_topic else f"{what}."

    def _describe_deletion(self, *, had_state: bool) -> str:
        if self.offsets.has_offsets():
            return "The group was deleted without its offsets."
        if not had_state:
            return "A tombstone of the group, without a group record in the log."
        return "The group was deleted, and had no offset."


class _Kind(Enum):
    """What a record of a group is about."""

    COMMIT = "commit"
    OFFSET_TOMBSTONE = "offset tombstone"
    GROUP = "group"


def _get_kind(record: GroupRecord) -> _Kind:
    if not isinstance(record.record.key, OFFSET_KEYS):
        return _Kind.GROUP
    return _Kind.OFFSET_TOMBSTONE if record.record.value is None else _Kind.COMMIT


def _is_group_tombstone(record: GroupRecord) -> bool:
    return record.record.value is None and record.record.type in (CLASSIC_GROUP, *EPOCHS)


MIN_FOLDED = 2
"""The smallest number of further new ids that stand in one line."""


def fold_replacements(events: list[Event]) -> list[Event]:
    """Return the events of one or more partitions with one event for repeated new ids of a static member.

    In consecutive events about new ids, the first event of each static member stays, and one event follows that sums up
    the others.
    """
    folded: list[Event] = []
    for has_replaced, run in groupby(events, key=lambda event: bool(event.replaced_instances)):
        same_kind = list(run)
        folded += _fold_run(same_kind) if has_replaced else same_kind
    return folded


def _fold_run(run: list[Event]) -> Iterator[Event]:
    by_instances: dict[tuple[int | None, tuple[str, ...]], list[Event]] = {}
    for event in run:
        by_instances.setdefault((event.partition, event.replaced_instances), []).append(event)
    for event in run:
        same = by_instances[event.partition, event.replaced_instances]
        if len(same) <= MIN_FOLDED or event is same[0]:
            yield event
        elif event is same[1]:
            yield replace(event, what=_describe_repeated(same))


def _describe_repeated(same: list[Event]) -> str:
    """Return a sentence about all events except the first one."""
    last = same[-1]
    place = f"{last.offset}" if last.partition is None else f"{last.partition}:{last.offset}"
    until = "" if last.timestamp_ms is None else f" until {describe_time(last.timestamp_ms)}"
    changes = sum(_get_settings(before) != _get_settings(after) for before, after in pairwise(same))
    count = len(same) - 1
    if changes == count:
        settings = ", each with other settings than the one before"
    else:
        settings = f", {changes} of them with other settings than the one before" if changes else ""
    names = ", ".join(last.replaced_instances)
    return f"static member {names}: {count} more new ids{until} ({place}){settings}. --all shows each."


def _get_settings(event: Event) -> list[dict[str, object]]:
    return [member.settings for _, member in event.members]
