"""The history of one group as events (`timeline`): generations, commits, transactions, deletions, and gaps.

The events come from the records of the group, so a rebalance that did not end, or a commit that was refused, has none.
A gap is a range of offsets in which records are missing.

A missing offset does not tell to which group its record belonged, but the log limits what can be missing. The cleaner
keeps the newest record of each key and removes all older ones at the same time. So if an older record of a key is still
there, no later one was removed, except records of aborted transactions. What can be missing before the first remaining
record of a key are its older values. And if a record before the gap was replaced before the gap, too, no pass over
these files came so far.
Source: Cleaner.cleanSegments and Cleaner.shouldRetainRecord (4.3.1).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, islice, takewhile
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.groups.group import CONSUMER
from kafkagroups.groups.modern_group import MEMBER_STATES, AnyGroup
from kafkagroups.groups.offsets import GROUP_ENDING_TYPES, TopicPartition
from kafkagroups.groups.replay import LoadedPartition, LogKeys, read_keys
from kafkagroups.helpers import MAX_INT64
from kafkagroups.history.event import Event, Position, event_json, finish_positions, sort_rewound
from kafkagroups.history.finding import count_of, describe_duration, describe_time, list_groups, list_names, name_record
from kafkagroups.history.group_events import NOTHING, PARTITION_METADATA, add_to_sentence, limit_assigned
from kafkagroups.history.group_log import GroupHistory, GroupLog, GroupRecord, Marker, Step, load_group_logs
from kafkagroups.history.group_rules import find_expiry_in_use, find_unowned
from kafkagroups.history.offset_events import PartitionHistory
from kafkagroups.history.passes import refuse_foreign_log
from kafkagroups.history.storms import add_storms
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.partition_count import refuse_pattern
from kafkagroups.log.batch import NO_TIMESTAMP
from kafkagroups.log.batches import Gap, Hole, Position as LogPosition
from kafkagroups.log.segments import batches_until
from kafkagroups.records.releases import rules_to_json
from kafkagroups.records.wire import UUID

_EMPTY_SHARE_GROUP = (
    "An Empty share group keeps its id: until it is deleted, consumers that join get INCONSISTENT_GROUP_PROTOCOL or "
    "GROUP_ID_NOT_FOUND."
)
DELETED_TOGETHER_MS = 60_000
"""A script that starts a tool for each group needs some seconds for each."""

MAX_LATER_BATCHES = 10_000
MIN_SILENCE_MS = 30_000
"""Six intervals of a consumer that commits automatically (auto.commit.interval.ms)."""


def describe_gap(
    partition: int | None, hole: Hole, later: Collection[object], loaded: LoadedPartition, replaced: int | None
) -> Event:
    """Return the event of a hole.

    `later` are the keys that are only behind it, and `replaced` is the offset of a record that another one before the
    hole has replaced.
    """
    gone = "" if later else "; if cleaned, of this group only deleted or aborted ones"
    what = f"{_describe_range(hole, loaded.start_offset)}{gone}."
    if replaced is not None:
        what = (
            f"{count_of(hole.missing, 'record')} missing in {hole.first} to {hole.last}, and not by a cleaning of "
            f"these files, which would have removed {name_record(partition, replaced)} first: they were deleted, or "
            "never copied (pull --follow misses what a broker cleans between two runs), also any of this group."
        )
    inside = [gap for gap in loaded.gaps or () if hole.first <= gap.from_offset < gap.to_offset <= hole.last + 1]
    if inside:
        places = list_names([_name_offsets(gap) for gap in inside])
        damage = f"The bytes of {places} are damaged; any record of this group can be there."
        is_all = hole.missing == sum(gap.to_offset - gap.from_offset for gap in inside)
        what = damage if is_all else f"{what} {damage}"
    return Event(partition, hole.first, None, "gap", what=what, from_offset=hole.first, to_offset=hole.last)


def _describe_range(hole: Hole, start_offset: int) -> str:
    before_start = max(0, min(start_offset, hole.last + 1) - hole.first)
    removed = hole.missing - before_start
    begin = f"The log begins at {start_offset}" if before_start else ""
    cleaned = f"{count_of(removed, 'record')} cleaned or not copied in {max(hole.first, start_offset)} to {hole.last}"
    return ", ".join(filter(None, [begin, cleaned if removed else ""]))


def _name_offsets(gap: Gap) -> str:
    last = gap.to_offset - 1
    return f"offset {last}" if last == gap.from_offset else f"the offsets {gap.from_offset} to {last}"


@dataclass
class Timeline(GroupHistory):
    """The history of a group as events.

    Attributes
    ----------
    events
        The events, in the order of the log. Without `all`, commits that only move forward are left out.
    left_out
        How many events `all` would add.
    kafka_rules
        The Kafka version whose rules were applied, if this package was not compared with a broker of `kafka`.
    positions
        The committed offsets at the end of the log with their last moves, in each partition the oldest move first.
    waiting
        A line for each member of a consumer group that has not reached its target at the end of the log, and for the
        partitions that nobody has, or that were never committed.
    expiry, memberless
        A line if offsets will expire although the group still commits, and one if the group never had a member, as far
        as the records say, or is an Empty share group.
    next_offsets
        The offset after the last one that was read, by the partitions with records of the group.
    """

    events: list[Event] = field(default_factory=list, repr=False)
    left_out: int = 0
    kafka_rules: str | None = None
    positions: list[Position] = field(default_factory=list, repr=False)
    waiting: list[str] = field(default_factory=list, repr=False)
    expiry: str | None = None
    memberless: str | None = None
    next_offsets: dict[int | None, int] = field(default_factory=dict, repr=False)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the objects that `timeline --json` prints.

        The last ones have the event "standing_still": one for each position that stands still at the end of the log.
        """
        rules = rules_to_json(self.kafka_rules)
        standing = [position.to_event() for position in self.positions if position.stands_still]
        return [event_json(event) | rules for event in [*self.events, *standing]]


@dataclass(frozen=True)
class Question:
    """What an explanation or a timeline of a group is about.

    `topic` and `partition` limit the history to one topic or to one topic-partition, and `since_time` (ms since the
    epoch) to records with this time or a later one. `retention_ms` is the retention time of the broker, which decides
    when offsets expire. Raises UsageError if there is a partition without a topic, or a negative retention time.
    """

    topic: str | None = None
    partition: int | None = None
    since_time: int | None = None
    retention_ms: int | None = None

    def __post_init__(self) -> None:
        if self.topic is None and self.partition is not None:
            raise UsageError("a partition identifies an offset only together with a topic")
        if self.retention_ms is not None and self.retention_ms < 0:
            raise UsageError(f"a retention time is at least 0, not {self.retention_ms} ms")

    def selects(self, key: TopicPartition) -> bool:
        return self.topic in (None, key.topic) and self.partition in (None, key.partition)

    def selects_event(self, event: Event) -> bool:
        key = event.topic_partition
        time_ms = event.timestamp_ms
        is_late = self.since_time is None or (time_ms is not None and time_ms >= self.since_time)
        return is_late and (self.topic is None or (key is not None and self.selects(key)))


def build_timeline(topic: OpenTopic, group: str, question: Question, *, shows_all: bool = False) -> Timeline:
    """Load a topic and return the history of a group.

    `shows_all` adds the commits that only move forward, and the steps of members towards a new assignment.
    """
    groups, logs = load_group_logs(topic, [group])
    refuse_foreign_log(topic, groups.partitions_of)
    group_log = logs[group]
    refuse_pattern(group, is_known=bool(group_log.steps))
    timeline = Timeline(**group_log.begin_history(groups), kafka_rules=topic.dialect.rules_of)
    all_events: list[Event] = []
    for partition in sorted(group_log.steps, key=lambda number: -1 if number is None else number):
        history = build_history(group_log, partition, groups.partitions[partition], question.retention_ms)
        timeline.next_offsets[partition] = groups.partitions[partition].next_offset
        _name_deleted_with(topic, group, history.events)
        events = add_storms(history.events)
        all_events += events if shows_all else _add_assignments(events)
        positions = finish_positions(history.positions.values(), history.group.find_members_by_partition())
        timeline.positions += [each for each in positions if question.selects(each.topic_partition)]
        timeline.waiting += [each.what for each in find_waiting_members(history)]
    timeline.rewound = sort_rewound(timeline.positions)
    newest_ms = max(map(_time_of, all_events), default=0)
    all_events = list(filter(question.selects_event, describe_first_commits(all_events)))
    timeline.events = [
        each for each in all_events if shows_all or not each.is_routine or each.event not in ("commit", "epoch")
    ]
    timeline.left_out = len(all_events) - len(timeline.events)
    if group_log.has_only_offsets:
        has_gap = any(event.event == "gap" for event in all_events)
        timeline.memberless = (
            f"No record says that {group} ever had a member: a program that assigns its partitions itself (assign), or "
            f"an admin tool, has committed these offsets{', or its members are in a gap' if has_gap else ''}."
        )
    found_group = groups.get(group)
    if found_group is not None:
        timeline.waiting += _describe_unowned(found_group)
        timeline.waiting += _describe_silence(all_events, found_group)
        if found_group.type == "share" and not found_group.members:
            timeline.memberless = _EMPTY_SHARE_GROUP
        expiry = find_expiry_in_use(found_group, topic.dialect, newest_ms)
        timeline.expiry = None if expiry is None else expiry[1]
    return timeline


def _add_assignments(events: Iterable[Event]) -> Iterator[Event]:
    """Add who had which partitions before a deletion or a storm, as far as only routine events have told it so far."""
    untold: dict[str, str] = {}
    for event in events:
        for member_id in (*event.members_left, *dict(event.assigned)):
            untold.pop(member_id, None)
        untold |= event.assigned if event.is_routine else ()
        if untold and event.event in ("expired", "offset_deleted", "storm"):
            what = f"By then, {'; '.join(limit_assigned(untold))}."
            yield Event(event.partition, event.offset, event.timestamp_ms, "assignment", event.generation, what=what)
            untold.clear()
        yield event


def _name_deleted_with(topic: OpenTopic, group: str, events: list[Event]) -> None:
    """Let the last deletion of the group name the groups that were deleted within DELETED_TOGETHER_MS of it, also those
    that were created again.
    """
    for number in [number for number, event in enumerate(events) if event.event == "deleted"][-1:]:
        event = events[number]
        delays = {} if event.timestamp_ms is None else _find_deleted(topic, event, event.timestamp_ms)
        delays.pop(group, None)
        seconds = max((-(-delay_ms // 1000) for delay_ms in delays.values()), default=0) or 1
        what = f"with it, {count_of(len(delays), 'other group')} went within {seconds} s: {list_groups(delays)}"
        events[number] = replace(event, what=add_to_sentence(event.what, [what] if delays else []))


def _find_deleted(topic: OpenTopic, event: Event, time_ms: int) -> dict[str, int]:
    """Return the groups that were deleted within DELETED_TOGETHER_MS of an event, each with its distance in ms; none if
    later records of the partition are older, because the time does not tell then.

    In the batch that deletes a group, the tombstone of the group is its last record.
    """
    keys = LogKeys(topic.dialect)
    delays: dict[str, int] = {}
    for log in topic.logs:
        with suppress(InvalidLog):  # The load has ended at this batch, too.
            for batch in batches_until(log, topic.stop):
                delay_ms = abs(batch.max_timestamp - time_ms)
                records = read_keys(batch, keys) if delay_ms <= DELETED_TOGETHER_MS else ()
                is_after = log.partition == event.partition and batch.base_offset > event.offset
                if is_after and batch.max_timestamp < time_ms - DELETED_TOGETHER_MS:
                    return {}
                last = {group: (key.decoded.type, record.value) for group, key, record in records}
                ended = [group for group, (kind, value) in last.items() if kind in GROUP_ENDING_TYPES and value is None]
                delays |= dict.fromkeys(ended, delay_ms)
    return delays


def _describe_unowned(group: AnyGroup) -> Iterator[str]:
    unassigned, uncommitted = find_unowned(group)
    for key in unassigned:
        committed = group.offsets[key].offset
        yield f"{key}: no member has it, although the group subscribes to {key.topic} (committed: {committed})."
    if uncommitted:
        yield f"Assigned but never committed: {list_names(uncommitted)}. An idle partition can look the same."


def _time_of(event: Event) -> int:
    return event.timestamp_ms or 0


def _describe_silence(events: list[Event], group: AnyGroup) -> Iterator[str]:
    """Say since when a group with members does not commit. A refused commit has no record, either."""
    commits = [event for event in events if event.event.startswith(("commit", "transaction"))]
    newest = max(commits, key=_time_of, default=None)
    if newest is None or not group.members:
        return
    since_ms = _time_of(newest)
    later = [event for event in events if _time_of(event) > since_ms]
    names = list(dict.fromkeys(member.name for event in later for _, member in event.members))
    if names and max(map(_time_of, later)) - since_ms >= MIN_SILENCE_MS:
        yield (
            f"No commit since {name_record(newest.partition, newest.offset)} ({describe_time(since_ms)}); since then, "
            f"{list_names(names)} joined, and a new owner begins at the offsets of that time. A program that does not "
            "commit, refused commits, and topics without new records look the same."
        )


class WaitingMember(NamedTuple):
    """A member that has to give `partitions` back, or that waits for those of others. It got this state at `offset`."""

    offset: int
    since_ms: int
    partitions: list[str]
    what: str


def find_waiting_members(history: PartitionHistory) -> Iterator[WaitingMember]:
    """Yield each member of a consumer group that has not reached its target.

    The broker waits for the rebalance timeout of the member, from the record on with which it got this state
    (GroupMetadataManager.scheduleConsumerGroupRebalanceTimeout, 4.3.1).
    """
    group = history.group.state
    owners = {key: member_id for member_id, keys in group.assigned.items() for key in keys}
    moved = {str(key): each.moved_ms for key, each in history.positions.items() if each.moved_ms is not None}

    def name_partition(topic_id: str, number: int) -> str:
        return f"{history.group.name_topic(topic_id)}-{number}"

    def name_held(key: tuple[str, int]) -> str:
        owner = group.members.get(owners[key])
        return f"{name_partition(*key)} ({owners[key] if owner is None else owner.name})"

    for member_id, begin in group.since.items() if group.type == CONSUMER else ():
        member = group.members.get(member_id)
        if member is None or MEMBER_STATES[CONSUMER].get(begin.value.state) == "Stable":
            continue
        what = f"{member.description}, since {describe_time(begin.timestamp)} (record {begin.offset}): "
        pending = begin.value.partitions_pending_revocation
        partitions = [name_partition(each.topic_id, number) for each in pending for number in each.partitions]
        named = [f"{each} (last move {describe_time(moved[each])})" if each in moved else each for each in partitions]
        timeout_ms = member.rebalance_timeout_ms
        if partitions:
            what += f"has to give back {list_names(named)}."
        if partitions and timeout_ms is not None:
            end = describe_time(begin.timestamp + timeout_ms)
            what += f" If it has not, the broker removes it at {end}, or {describe_duration(timeout_ms)} after a load."
            kept = [name_partition(*key) for key in group.assigned.get(member_id, NOTHING)]
            what += f" Until then, it keeps {list_groups(kept)}."
        elif not partitions:
            missing = group.targets.get(member_id, NOTHING) - group.assigned.get(member_id, NOTHING)
            held = [name_held(key) for key in sorted(missing & owners.keys())]
            waits = f"waits for partitions that other members still have{': ' if held else ''}{list_names(held)}."
            what += "its partitions are free: it gets them with its next heartbeat." if missing and not held else waits
        yield WaitingMember(begin.offset, begin.timestamp, partitions, what)


def build_history(
    log: GroupLog, partition: int | None, loaded: LoadedPartition, retention_ms: int | None = None
) -> PartitionHistory:
    """Return the history of a group in one partition, from its log.

    `retention_ms` is the broker's offsets.retention.minutes, if it is known. There are no events if the partition has
    no record of the group. What a record did is told by the coordinator that wrote it.
    """
    steps = log.steps.get(partition, [])
    history = PartitionHistory(log.topic, partition, retention_ms)
    classic_ranges = log.find_classic_ranges(partition)
    later: set[object] = set()
    """The keys that have no record so far."""
    seen: dict[object, int] = {}
    """The offset of the newest record of each key, without those of transactions, which can have been aborted."""
    replaced: int | None = None
    for step in steps:
        if isinstance(step, GroupRecord):
            later.add((step.type, step.record.key))
            if step.type == PARTITION_METADATA and step.value is not None:
                history.group.topic_names |= {topic.topic_id: topic.topic_name for topic in step.value.topics}
            topic_id = getattr(step.value, "topic_id", UUID.default)
            if topic_id != UUID.default:
                history.group.topic_names[topic_id] = step.key.topic
    if not later:
        return history
    events: list[Event] = []
    times = [getattr(step, "timestamp", NO_TIMESTAMP) for step in steps]
    known_times = (MAX_INT64 if time == NO_TIMESTAMP else time for time in reversed(times))
    earliest = [*accumulate(known_times, min, initial=_find_later_time(log.topic, partition, steps[-1]))]
    for _, run in groupby(steps, key=lambda step: getattr(step, "batch_offset", id(step))):
        first, *_ = batch = list(run)
        history.next_ms = earliest[-1]
        del earliest[-len(batch) :]
        place = first.first if isinstance(first, Hole) else first.offset
        history.is_classic = classic_ranges[max(0, bisect_right(classic_ranges, place, key=itemgetter(0)) - 1)][1]
        if isinstance(first, Hole):
            events.append(describe_gap(partition, first, later, loaded, replaced))
            history.note_hole()
        elif isinstance(first, Marker):
            events += history.end_transaction(first)
        else:
            records = [step for step in batch if isinstance(step, GroupRecord)]
            for record in records:
                key = (record.type, record.record.key)
                later.discard(key)
                if not record.is_pending:
                    replaced = seen.get(key, replaced)
                    seen[key] = record.offset
            events += history.apply_batch(records)
    # An open transaction is known only at the end of the log, but its event belongs to its first record.
    opened = list(history.find_open_transactions())
    events = sorted([*events, *opened], key=attrgetter("offset")) if opened else events
    for each in events:
        decided = history.decided.get(each.offset)
        history.events.append(each if decided is None else replace(each, what=decided))
    return history


def _find_later_time(topic: OpenTopic, partition: int | None, last: Step) -> int:
    """Return the earliest time after a group's last record, if this is a tombstone: of MAX_LATER_BATCHES batches."""
    if not isinstance(last, GroupRecord) or last.value is not None:
        return MAX_INT64
    times = []
    with suppress(InvalidLog):  # The load has ended at this batch, too.
        for log in topic.logs:
            found = log.read_new_batches(LogPosition(last.offset + 1)) if log.partition == partition else ()
            later = (each.parse() for each in islice(found, MAX_LATER_BATCHES))
            times += [batch.max_timestamp for batch in takewhile(lambda batch: not topic.stop.excludes(batch), later)]
    return min((time for time in times if time != NO_TIMESTAMP), default=MAX_INT64)


def describe_first_commits(events: Sequence[Event]) -> list[Event]:
    """Return the events of all partitions. Those of first commits say how they differ from those in another partition.

    If the partition count of the offsets topic grows, groups move to other partitions. There, a group has no offsets at
    first, and its first commits can be far behind its offsets in the old partition, or beyond them. `events` must
    contain each commit, also those that only move forward.
    """
    if len({event.partition for event in events}) < 2:
        return list(events)
    described = list(events)
    newest: dict[TopicPartition, dict[int | None, Event]] = {}
    """The newest commit of each topic partition, by the partition of the offsets topic."""
    for number in order_by_time(events):
        event = events[number]
        if event.event == "deleted":
            for commits in newest.values():
                commits.pop(event.partition, None)
        key = event.topic_partition
        if key is None:
            continue
        commits = newest.setdefault(key, {})
        if event.event in ("expired", "offset_deleted"):
            commits.pop(event.partition, None)
        elif event.event in ("commit", "transaction_committed") and event.to_offset is not None:
            # The last commit is the newest one in another partition.
            other = next(reversed(commits.values()), event)
            before = other.to_offset or 0
            if event.from_offset is None and before != event.to_offset:
                lower = "lower than" if before > event.to_offset else "above"
                consequence = "is read again" if before > event.to_offset else "can be skipped"
                place = f"{before} ({other.partition}:{other.offset}), its offset in partition {other.partition}"
                what = f"{lower} {place} of __consumer_offsets: what lies between {consequence}."
                described[number] = replace(event, what=f"{event.what.removesuffix('.')}; {what}")
            commits.pop(event.partition, None)
            commits[event.partition] = event
    return described


def order_by_time(events: Sequence[Event]) -> list[int]:
    """Return the numbers of the events in the order of their times. Each partition keeps its order."""
    latest_ms: dict[int | None, int] = {}
    keys = []
    for event in events:
        time_ms = -1 if event.timestamp_ms is None else event.timestamp_ms
        latest_ms[event.partition] = max(time_ms, latest_ms.get(event.partition, -1))
        keys.append(latest_ms[event.partition])
    return sorted(range(len(events)), key=keys.__getitem__)


def fold_replacements(events: Sequence[Event]) -> list[Event]:
    """Return the events with one event for repeated new ids of a static member.

    Of the events about new ids of a static member, the first one stays, and one event sums up the others if there are
    at least two.
    """
    by_instances: dict[tuple[int | None, tuple[str, ...]], list[Event]] = {}
    for event in events:
        if event.replaced_instances:
            by_instances.setdefault((event.partition, event.replaced_instances), []).append(event)
    folded: dict[int, Event | None] = {}
    for (partition, instances), (_, *later) in by_instances.items():
        if len(later) > 1:
            last = later[-1]
            until = "" if last.timestamp_ms is None else f" until {describe_time(last.timestamp_ms)}"
            new_ids = f"{len(later)} more new ids{until} ({name_record(partition, last.offset)})"
            what = f"static member {', '.join(instances)}: {new_ids}. --all shows each."
            folded |= dict.fromkeys(map(id, later)) | {id(later[0]): replace(later[0], what=what)}
    return [each for event in events if (each := folded.get(id(event), event)) is not None]
