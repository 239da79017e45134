"""The history of a group or of one of its offsets, and a broker's answer (`explain`).

For a load that fails, an explanation names the older record of the group that does not fit to the record there. For
group records, tombstones, and commits that survive a tombstone, the events and the causes are those of the timeline
(timeline.py).

A classic group has one record, which contains everything. The records of a consumer, share or streams group contain
only what changed. So the records of the group are applied one after another, as in a load, and each record is shown
with the group after its batch. A broker never answers between two records of one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, NamedTuple

from kafkagroups.errors import BadBytes, LoadFailed, UsageError
from kafkagroups.groups.expire_times import Expiration, find_expirations, find_protected
from kafkagroups.groups.fold import fold_batches
from kafkagroups.groups.group import Group, GroupRecord as UndecodedGroup
from kafkagroups.groups.modern import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.newest_values import GROUP_ENDING_TYPES
from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.groups.shard import Shard
from kafkagroups.history.event import Event
from kafkagroups.history.fates import RecordFate
from kafkagroups.history.group_log import GroupLog, GroupRecord, Step, load_group_log
from kafkagroups.history.group_requests import CLASSIC_GROUP, EPOCHS
from kafkagroups.history.positions import Position, sort_rewound
from kafkagroups.history.timeline import PartitionHistory, walk
from kafkagroups.loading.group_choice import choose_log
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.topic_partitions import TopicPartitions
from kafkagroups.log.damage import Damage, Gap
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.stop import NO_STOP
from kafkagroups.records.dialects import Dialect
from kafkagroups.tables.group_json import description_json, group_json, offsets_json
from kafkagroups.tables.offset_fields import offset_json

_SHOWN_EVENTS = ("generation", "empty", "epoch", "deleted", "expired", "offset_deleted")
"""The events whose sentence is shown at their record. The others repeat what the record's columns contain.

The sentence of a rewind is shown at the commit (`OffsetEvents.rewinds`), and not at the marker of its transaction."""
_COUNTING = (Fate.WINS, Fate.PENDING)


@dataclass(frozen=True)
class LoadFailure:
    """Why the load of a partition fails.

    Attributes
    ----------
    partition
        The partition of the offsets topic; None if the log's folder has no partition number.
    reason
        The reason, as in `load --json`.
    offset
        The offset of the record at which the load fails; None if the load fails at no single record.
    conflict
        The newest epoch record of the group before, if its group type is not that of the record at `offset`, and no
        tombstone deleted the group. Otherwise None.
    """

    partition: int | None
    reason: str
    offset: int | None = None
    conflict: RecordFate | None = None


def find_load_failures(groups: Groups, entries: list[RecordFate]) -> Iterator[LoadFailure]:
    """Yield the failures of the partitions with records of a group. `entries` are its records."""
    for partition, reason in groups.failed.items():
        own = [entry for entry in entries if entry.partition == partition]
        if own:
            offset = groups.partitions[partition].record_offset
            yield LoadFailure(partition, reason, offset, None if offset is None else _find_conflict(own, offset))


def _find_conflict(entries: list[RecordFate], offset: int) -> RecordFate | None:
    newest: RecordFate | None = None
    for entry in entries:
        if entry.offset < offset and entry.type in EPOCHS:
            newest = entry
        if entry.offset != offset or newest is None or newest.fate is Fate.TOMBSTONE:
            continue
        group_type = GROUP_TYPE_BY_RECORD_TYPE.get(entry.type or 0)
        if group_type not in (None, GROUP_TYPE_BY_RECORD_TYPE[newest.type or 0]):
            return newest
    return None


def add_details(
    group_log: GroupLog, all_entries: list[RecordFate], retention_ms: int | None = None
) -> dict[int | None, PartitionHistory]:
    """Set `replaced`, `went_back`, `group_record`, `cause` and `what` of the records in a settled log.

    If a tombstone follows a record that counts, also set its `why`.
    `all_entries` are the records of the log, in its order. `retention_ms` is the broker's offsets.retention.minutes.
    Return the history of the group in each partition of the log.
    """
    histories: dict[int | None, PartitionHistory] = {}
    dialect = group_log.dialect
    entries: dict[int | None, list[RecordFate]] = {}
    for entry in all_entries:
        entries.setdefault(entry.partition, []).append(entry)
    for partition, partition_entries in entries.items():
        steps = group_log.steps.get(partition, [])
        history = walk(steps, partition, dialect, start_offset=0, skips_routine=True, retention_ms=retention_ms)
        histories[partition] = history
        sentences = _join_sentences(history.events)
        contents = read_group_records(steps, partition, dialect, group_log.wanted_group or "", history.events)
        for entry in partition_entries:
            if entry.committed is not None and not entry.is_unreadable:
                entry.replaced = history.offsets.replaced.get(entry.offset)
                entry.what = history.offsets.rewinds.get(entry.offset)
                entry.went_back = entry.what is not None
            if entry.fate is Fate.IGNORED or entry.fate is Fate.MARKER:
                continue
            entry.what = sentences.get(entry.offset, entry.what)
            if entry.key is None:
                entry.group_record = contents.get(entry.offset)
            if entry.fate is Fate.TOMBSTONE:
                entry.cause = history.causes.get(entry.offset)
        _explain_survivors(partition_entries, is_classic=dialect.coordinator == "classic")
    return histories


def _join_sentences(events: Iterable[Event]) -> dict[int, str]:
    """Return what the events at each offset say."""
    sentences: dict[int, str] = {}
    for event in events:
        if event.event in _SHOWN_EVENTS:
            earlier = sentences.get(event.offset)
            sentences[event.offset] = event.what if earlier is None else f"{earlier} {event.what}"
    return sentences


def _explain_survivors(entries: list[RecordFate], *, is_classic: bool) -> None:
    """Set `why` of the records that count although a later tombstone has their key or their group.

    `entries` are the records of one partition, in the order of the log.
    """
    offset_tombstones: dict[TopicPartition, RecordFate] = {}
    group_tombstone: RecordFate | None = None
    for entry in reversed(entries):
        if entry.fate is Fate.TOMBSTONE and entry.key is not None:
            offset_tombstones[entry.key] = entry
        elif entry.fate is Fate.TOMBSTONE and entry.type in GROUP_ENDING_TYPES:
            group_tombstone = entry
        elif entry.fate in _COUNTING and entry.key is not None:
            tombstone = offset_tombstones.get(entry.key)
            if tombstone is not None:
                entry.why = _explain_offset_tombstone(entry, tombstone)
            elif group_tombstone is not None and entry.fate is Fate.WINS:
                entry.why = _explain_group_tombstone(group_tombstone, is_classic=is_classic)


def _explain_offset_tombstone(entry: RecordFate, tombstone: RecordFate) -> str:
    """Return why a record counts although the tombstone has its key. Only the classic coordinator has such records.

    A tombstone in a transaction deletes only the pending commit of its own producer. Any other tombstone deletes only
    the committed offset, so a commit that is pending at this time stays.
    """
    if not tombstone.is_transactional:
        return (
            f"the tombstone at {tombstone.offset} deleted only the committed offset: this commit was pending, because "
            f"the transaction of producer {entry.producer_id} was open"
        )
    if entry.producer_id != tombstone.producer_id or not entry.is_transactional:
        return (
            f"the tombstone at {tombstone.offset} is in a transaction of producer {tombstone.producer_id}: it deletes "
            "only pending commits of this producer"
        )
    return (
        f"the tombstone at {tombstone.offset} is in a later transaction of producer {tombstone.producer_id}: it "
        "deletes only pending commits, and this commit was no longer pending"
    )


def _explain_group_tombstone(tombstone: RecordFate, *, is_classic: bool) -> str:
    if is_classic:
        return (
            f"the tombstone at {tombstone.offset} deleted only the group's own record: a load keeps the group's "
            "offsets, and creates a group without members for them"
        )
    return (
        f"the tombstone at {tombstone.offset} deleted the group, but not this offset: a later record created the group "
        "again"
    )


_LEFT_OUT = ("assignment", "target_assignment", "subscription", "subscription_hex", "assignment_hex")
"""The fields of a member that are long, and that do not tell who is a member."""


def read_group_records(
    steps: list[Step], partition: int | None, dialect: Dialect, group_id: str, events: list[Event]
) -> dict[int, dict[str, Any]]:
    """Return the content of the group's own records, by their offsets in the log.

    `steps` is the log of the group in one partition, and `events` are its events. The content of a record is:

    - "type", "state", "protocol_type", "protocol", and "generation" and "leader" (classic group), or "group_epoch" and
      "assignment_epoch" (other groups): the group after the record's batch. After the tombstone of a group, the state
      is "Dead", and the other fields are null.
    - "members": a list of the members after the batch, without their subscriptions and assignments. For the record of
      one member, only this member.
    - "members_joined", "members_left": the ids of the members that joined and left since the group record before. The
      records of one request share one list, which is at the record with the epoch.

    If a broker's load fails at a record, this record and the later ones have no content.
    """
    changes = {
        event.offset: event for event in reversed(events) if event.event in ("generation", "empty", "epoch", "deleted")
    }
    contents: dict[int, dict[str, Any]] = {}
    shard = fold_batches(partition, [], dialect)
    for batch in _group_records_by_batch(steps):
        try:
            for group_record in batch:
                _apply(shard, group_record, group_id)
        except (LoadFailed, BadBytes):
            return contents
        if all(group_record.is_offset for group_record in batch):
            continue
        found = shard.groups.get(group_id)
        group = found.decode() if isinstance(found, UndecodedGroup) else found
        description = _describe(group)
        for group_record in batch:
            if group_record.is_offset:
                continue
            change = changes.get(group_record.offset)
            contents[group_record.offset] = description | {
                "members": _select_members(group_record, description["members"]),
                "members_joined": [] if change is None else list(change.members_joined),
                "members_left": [] if change is None else list(change.members_left),
            }
    return contents


def _group_records_by_batch(steps: list[Step]) -> Iterator[list[GroupRecord]]:
    group_records = (step for step in steps if isinstance(step, GroupRecord))
    for _, batch in groupby(group_records, key=lambda record: record.batch_offset):
        yield list(batch)


def _apply(shard: Shard, group_record: GroupRecord, group_id: str) -> None:
    """Apply a record to the group in a shard. The offsets are left out: they do not change the group's description."""
    if not group_record.is_offset:
        shard.replay_group(group_record.offset, group_record.record, group_id)
    elif shard.dialect.coordinator == "new" and group_record.value is not None:
        shard.groups.setdefault(group_id, Group(group_id, shard.partition))


def _describe(group: AnyGroup | None) -> dict[str, Any]:
    """Return the description of a group, with short members."""
    if group is None:
        return {"type": None, "state": "Dead", "protocol_type": None, "protocol": None, "members": []}
    description = description_json(group)
    for name in ("partition", "topology", "assignor"):
        description.pop(name, None)
    description["members"] = [
        {name: value for name, value in member.items() if name not in _LEFT_OUT} for member in description["members"]
    ]
    return description


def _select_members(group_record: GroupRecord, members: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the members that a record is about: all members for the record of a group, else the member in its key."""
    if group_record.type in (CLASSIC_GROUP, *EPOCHS):
        return members
    member_id = getattr(group_record.record.key, "member_id", None)
    return [member for member in members if member["member_id"] == member_id]


@dataclass
class Explanation:
    """The history of a group, or of one of its offsets.

    The number of a partition is None if the name of the log's folder has no number.

    Attributes
    ----------
    group
        The group id.
    coordinator, kafka
        The coordinator ("classic" or "new") and the Kafka version whose rules were applied.
    history
        The records of the group or of the offset, in the order of the log.
    answer
        The group or offset that a broker returns after the load, as in `load --json`. For a topic without a partition:
        the offsets by topic-partition. None if the broker does not have the group or offset.
    waiting
        The commits whose transaction is open. If there are any, a client that requests stable offsets gets the error
        UNSTABLE_OFFSET_COMMIT.
    problems
        One line for each partition that is damaged or whose load fails. The partition need not contain records of the
        group.
    next_offsets
        For each partition that was read: the offset after the last batch that was read.
    expires_next
        The offsets that expire, in the order of their times: offsets with an expire timestamp, and with the broker's
        retention time also the others.
    error
        Why loads of partitions with records of the group fail. None if the load of each of these partitions succeeds.
    damage
        For each partition whose bytes are damaged: where reading ended.
    record_partitions
        The partitions that decide the answer: the partition from which the group is answered. If the group is not
        answered: all partitions with its records.
    failures
        For each partition with records of the group whose load fails: where, and why.
    protected
        The offsets with an expire timestamp that do not expire because the group has members.
    topic_partitions
        The partition count of the offsets topic, and how it was found.
    gaps
        For each partition that was read: the damaged bytes that the reader has skipped. Empty without
        `past_damage`.
    rewound
        The positions that went back: the highest and the current ones, and what the group reads twice.
    """

    group: str
    coordinator: str
    kafka: str = ""
    history: list[RecordFate] = field(default_factory=list)
    answer: Any = None
    waiting: list[RecordFate] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    next_offsets: dict[int | None, int] = field(default_factory=dict)
    error: str | None = None
    expires_next: list[Expiration] = field(default_factory=list)
    topic_partitions: TopicPartitions = field(default_factory=TopicPartitions)
    gaps: dict[int | None, list[Gap]] = field(default_factory=dict)
    damage: dict[int | None, Damage] = field(default_factory=dict)
    record_partitions: frozenset[int | None] = frozenset()
    failures: list[LoadFailure] = field(default_factory=list)
    protected: list[Expiration] = field(default_factory=list)
    rewound: list[Position] = field(default_factory=list)

    def find_damage(self) -> dict[int | None, Damage]:
        """Return the damage that the answer depends on, by partition: the log is cut there after an unclean start.

        This is the damage in the partition of the group, and damage before readable records of the group.
        """
        partitions = set(self.record_partitions)
        if self.topic_partitions.count:
            partitions.add(partition_for(self.group, self.topic_partitions.count))
        return {
            number: damage
            for number, damage in self.damage.items()
            if number in partitions or self.group in damage.groups_after
        }


class Question(NamedTuple):
    """What an explanation is about.

    `group` is the group id. `topic` and `partition` limit the history to one topic or to one topic-partition. Only
    records with the time `since_time` or a later one are in the history (ms since the epoch). `retention_ms` is the
    retention time of the broker in ms, which decides when offsets expire; None: not known.
    """

    group: str
    topic: str | None = None
    partition: int | None = None
    since_time: int | None = None
    retention_ms: int | None = None

    def check(self) -> None:
        """Raise UsageError if there is a partition without a topic, or a negative retention time."""
        if self.topic is None and self.partition is not None:
            raise UsageError("a partition identifies an offset only together with a topic")
        if self.retention_ms is not None and self.retention_ms < 0:
            raise UsageError(f"a retention time is at least 0, not {self.retention_ms} ms")

    def selects(self, key: TopicPartition) -> bool:
        """Return whether the history contains the records of this topic partition."""
        return self.topic in (None, key.topic) and self.partition in (None, key.partition)


def explain_group(topic: OpenTopic, question: Question) -> Explanation:
    """Load a topic and answer a question about a group.

    If reading ends at an offset, only the partition with the group's records is read.
    """

    def find_numbers() -> set[int | None]:
        _, group_log = load_group_log(replace(topic, stop=NO_STOP), question.group)
        return {entry.partition for entry in group_log}

    if topic.stop.until_offset is not None and len(topic.logs) > 1:
        chosen = choose_log(topic.logs, question.group, topic.partitions, find_numbers, path=topic.path)
        topic = topic.part(*chosen)
    return explain_log(*load_group_log(topic, question.group), question)


def explain_log(groups: Groups, group_log: GroupLog, question: Question) -> Explanation:
    """Return the answer to a question after a load. `groups` and `group_log` are the results of `load_group_log`."""
    entries = list(group_log)
    histories = add_details(group_log, entries, question.retention_ms)
    found = groups.get(question.group)
    answer: Any = None
    expirations: list[Expiration] = []
    protected: list[Expiration] = []
    if found is not None:
        answer = _find_answer(found, question)
        story = histories.get(found.partition)
        subscribes = None if story is None else story.group.state.subscribes
        expirations = find_expirations(found, group_log.dialect, question.retention_ms, subscribes)
        protected = find_protected(found, expirations)
    history = entries if question.topic is None else group_log.records_of(question.selects)
    waiting = [entry for entry in history if entry.fate is Fate.PENDING]
    return Explanation(
        question.group,
        groups.coordinator,
        groups.kafka,
        [entry for entry in history if question.since_time is None or entry.timestamp >= question.since_time],
        answer,
        waiting,
        groups.problems,
        {number: loaded.next_offset for number, loaded in groups.partitions.items()},
        _describe_failures(groups.failed, {entry.partition for entry in entries}),
        [expiration for expiration in expirations if question.selects(expiration.topic_partition)],
        groups.topic_partitions,
        {number: loaded.gaps for number, loaded in groups.partitions.items() if loaded.gaps is not None},
        {number: loaded.damage for number, loaded in groups.partitions.items() if loaded.damage is not None},
        frozenset(entry.partition for entry in entries) if found is None else frozenset((found.partition,)),
        list(find_load_failures(groups, entries)),
        [expiration for expiration in protected if question.selects(expiration.topic_partition)],
        sort_rewound(
            position
            for story in histories.values()
            for key, position in story.offsets.positions.items()
            if question.selects(key)
        ),
    )


def _find_answer(group: AnyGroup, question: Question) -> Any:
    """Return what a broker answers: the group, the offset, or the offsets of one topic. None: nothing."""
    if question.topic is None:
        return group_json(group)
    offsets = {key: offset for key, offset in group.offsets.items() if question.selects(key)}
    if question.partition is None:
        return offsets_json(offsets) or None
    return next(map(offset_json, offsets.values()), None)


def _describe_failures(failed: Mapping[int | None, str], partitions: set[int | None]) -> str | None:
    """Return why loads of these partitions fail, or None if the load of each of these partitions succeeds.

    `failed` contains the reason for each partition of the topic whose load fails. The number of a partition is None if
    the name of the log's folder has no number.
    """
    failures = [
        error if partition is None else f"partition {partition}: {error}"
        for partition, error in failed.items()
        if partition in partitions
    ]
    return "; ".join(failures) or None
