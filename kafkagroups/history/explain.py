"""The history of a group or of one of its offsets, and a broker's answer (`explain`).

For a load that fails, an explanation names the older record of the group that does not fit to the record there. The
events and the causes are those of the timeline (timeline.py).

The one record of a classic group contains everything, but those of a consumer, share or streams group only what
changed. So the records are applied one after another, as in a load, and each is shown with the group after its batch,
because a broker never answers between two records of one batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.expiration import Expiration, find_expirations, find_protected
from kafkagroups.groups.group import Group, UndecodedGroup
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.offsets import CLASSIC_GROUP_TYPE, GROUP_ENDING_TYPES, Fate, Orphan, TopicPartition
from kafkagroups.groups.replay import LoadedPartition, empty_shard
from kafkagroups.history.event import sort_rewound
from kafkagroups.history.fates import RecordFate, history_json
from kafkagroups.history.group_events import EPOCHS
from kafkagroups.history.group_log import GroupHistory, GroupLog, GroupRecord, describe_conflict, load_group_logs
from kafkagroups.history.offset_events import PartitionHistory
from kafkagroups.history.passes import refuse_foreign_log
from kafkagroups.history.timeline import Question, build_history
from kafkagroups.loading.groups import Groups, description_json, group_json, offset_json, offsets_json, orphan_json
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.partition_count import has_wildcard, match_groups
from kafkagroups.log.batches import Damage
from kafkagroups.log.segment_file import partition_for
from kafkagroups.log.segments import Stop

_SHOWN_EVENTS = ("generation", "empty", "epoch", "deleted", "expired", "offset_deleted")
"""The events whose sentence does not repeat the columns. That of a rewind is shown at the commit, not at the marker."""


def add_details(groups: Groups, group_log: GroupLog, retention_ms: int | None) -> dict[int | None, PartitionHistory]:
    """Set what only `explain` sets in the records of a settled log, and `why` before a tombstone.

    `groups` is the load, and `retention_ms` is the broker's offsets.retention.minutes. Return the history of the group
    in each partition.
    """
    histories: dict[int | None, PartitionHistory] = {}
    for partition, run in groupby(group_log, key=attrgetter("partition")):
        entries = list(run)
        history = build_history(group_log, partition, groups.partitions[partition], retention_ms)
        histories[partition] = history
        sentences: dict[int, list[str]] = {}
        for event in history.events:
            if event.event in _SHOWN_EVENTS:
                sentences.setdefault(event.offset, []).append(event.what)
        contents = read_group_records(group_log, history)
        for key, position in history.positions.items():
            if position.is_of_old_topic:
                what = f"{key}: {position.now} was a position in the topic before, with another id."
                history.committed[key].entry.what = what
        for entry in entries:
            if entry.fate in (Fate.IGNORED, Fate.MARKER):
                continue
            entry.what = " ".join(sentences.get(entry.offset, ())) or entry.what
            if entry.key is None:
                entry.group_record = contents.get(entry.offset)
        _explain_survivors(entries)
    return histories


def _explain_survivors(entries: list[RecordFate]) -> None:
    """Set `why` of the records of one partition that count although a later tombstone has their key or their group."""
    offset_tombstones: dict[TopicPartition, RecordFate] = {}
    group_tombstone: RecordFate | None = None
    for entry in reversed(entries):
        if entry.fate is Fate.TOMBSTONE and entry.key is not None:
            offset_tombstones[entry.key] = entry
        elif entry.fate is Fate.TOMBSTONE and entry.type in GROUP_ENDING_TYPES:
            group_tombstone = entry
        elif entry.fate in (Fate.WINS, Fate.PENDING) and entry.key is not None:
            tombstone = offset_tombstones.get(entry.key)
            if tombstone is not None:
                entry.why = _explain_offset_tombstone(entry, tombstone)
            elif group_tombstone is not None and entry.fate is Fate.WINS:
                entry.why = f"the tombstone at {group_tombstone.offset} deleted the group, and not this offset"


def _explain_offset_tombstone(entry: RecordFate, tombstone: RecordFate) -> str:
    """Only the classic coordinator has records that count although a tombstone has their key.

    A tombstone in a transaction deletes only the pending commit of its own producer. Any other tombstone deletes only
    the committed offset, so a commit that is pending stays.
    """
    place = f"the tombstone at {tombstone.offset}"
    if tombstone.is_transactional:
        return f"{place} is in a transaction of producer {tombstone.producer_id}: it deletes only what is pending there"
    pending = f"this commit was pending, because the transaction of producer {entry.producer_id} was open"
    return f"{place} deleted only the committed offset: {pending}"


_LEFT_OUT = ("assignment", "target_assignment", "subscription", "subscription_hex", "assignment_hex")
"""The fields of a member that are long, and that do not tell who is a member."""


def read_group_records(group_log: GroupLog, history: PartitionHistory) -> dict[int, dict[str, Any]]:
    """Return the content of the group's own records, by their offsets in the log.

    `history` is that of the group in one partition. The content of a record is:

    - "type", "state", "protocol_type", "protocol", and "generation" and "leader" (classic group), or "group_epoch" and
      "assignment_epoch" (other groups): the group after the record's batch. After the tombstone of a group, the state
      is "Dead", and the other fields are null.
    - "members": the members after the batch, without their subscriptions and assignments; at the record of one member,
      only this one.
    - "members_joined", "members_left": who joined and left since the group record before. The records of one request
      share one list, which is at the record with the epoch.

    The record at which a broker's load fails, and the later ones, have no content.
    """
    names = ("generation", "empty", "epoch", "deleted")
    changes = {event.offset: event for event in reversed(history.events) if event.event in names}
    contents: dict[int, dict[str, Any]] = {}
    group_id = group_log.group
    partition = history.group.partition
    shard = empty_shard(partition, group_log.dialect)
    records = [step for step in group_log.steps.get(partition, ()) if isinstance(step, GroupRecord)]
    for _, run in groupby(records, key=attrgetter("batch_offset")):
        batch = list(run)
        try:
            for group_record in batch:
                # The offsets are left out: they do not change the group's description.
                if not group_record.is_offset:
                    shard.replay_group(group_record.offset, group_record.record, group_id)
                elif shard.dialect.coordinator == "new" and group_record.value is not None:
                    shard.groups.setdefault(group_id, Group(group_id, shard.partition))
        except (LoadFailed, BadBytes):
            return contents
        own_records = [group_record for group_record in batch if not group_record.is_offset]
        description = _describe(shard.groups.get(group_id)) if own_records else {}
        for group_record in own_records:
            # The record of a group is about all members, and another one about the member in its key.
            is_of_group = group_record.type in (CLASSIC_GROUP_TYPE, *EPOCHS)
            member_id = getattr(group_record.record.key, "member_id", None)
            change = changes.get(group_record.offset)
            contents[group_record.offset] = description | {
                "members": [each for each in description["members"] if is_of_group or each["member_id"] == member_id],
                "members_joined": [] if change is None else list(change.members_joined),
                "members_left": [] if change is None else list(change.members_left),
            }
    return contents


def _describe(found: UndecodedGroup | AnyGroup | None) -> dict[str, Any]:
    group = found.decode() if isinstance(found, UndecodedGroup) else found
    if group is None:
        return {"type": None, "state": "Dead", "protocol_type": None, "protocol": None, "members": []}
    description = description_json(group)
    for name in ("partition", "topology", "assignor"):
        description.pop(name, None)
    description["members"] = [
        {name: value for name, value in member.items() if name not in _LEFT_OUT} for member in description["members"]
    ]
    return description


@dataclass
class Explanation(GroupHistory):
    """The history of a group, or of one of its offsets.

    Attributes
    ----------
    history
        The records of the group or of the offset, in the order of the log.
    answer
        What a broker returns after the load, as in `load --json`; for a topic without a partition, the offsets by topic
        partition. None if the broker does not have the group or offset.
    waiting
        The commits whose transaction is open. A client that requests stable offsets then gets UNSTABLE_OFFSET_COMMIT.
    partitions
        How much was read from each partition of the topic, and how its load ended.
    expires_next
        The offsets that expire, the first one first: those with an expire timestamp, and if the broker's retention time
        is known, the others.
    protected
        The offsets with an expire timestamp that do not expire because the group has members.
    error, conflicts
        Why the loads of partitions with records of the group fail, and for each of them a sentence about the older
        record of the group without which the one at which the load fails is accepted, if there is one.
    record_partitions
        The partition from which the group is answered; if it is not answered, all partitions with its records.
    """

    history: list[RecordFate] = field(default_factory=list, repr=False)
    answer: Any = field(default=None, repr=False)
    waiting: list[RecordFate] = field(default_factory=list, repr=False)
    partitions: dict[int | None, LoadedPartition] = field(default_factory=dict, repr=False)
    error: str | None = None
    expires_next: list[Expiration] = field(default_factory=list, repr=False)
    record_partitions: frozenset[int | None] = field(default=frozenset(), repr=False)
    conflicts: dict[int | None, str] = field(default_factory=dict, repr=False)
    protected: list[Expiration] = field(default_factory=list, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return what `explain --json` prints, without the path and the rules."""
        read = self.partitions.items()
        gaps = {number: each.gaps for number, each in read if each.gaps is not None}
        partitions = {number: {"gaps": [asdict(gap) for gap in found]} for number, found in gaps.items()}
        damage = {number: asdict(place) for number, place in self.find_damage().items()}
        return {
            "group": self.group,
            "coordinator": self.coordinator,
            "history": [history_json(entry) for entry in self.history],
            "answer": self.answer,
            "error": self.error,
            "expires_next": list(map(_expiration_json, self.expires_next)),
            "rewound": [position.to_json() for position in self.rewound],
            "expires_without_members": list(map(_expiration_json, self.protected)),
            "next_offsets": {number: each.next_offset for number, each in read},
            "topic_partitions": self.topic_partitions.to_json(),
            **({"partitions": partitions} if partitions else {}),
            **({"damage": damage} if damage else {}),
        }

    def find_damage(self) -> dict[int | None, Damage]:
        """Return the damage that the answer depends on, by partition: in the partition of the group, and before its
        records.

        After an unclean start, the log is cut there.
        """
        count = self.topic_partitions.count
        partitions = {*self.record_partitions, *([partition_for(self.group, count)] if count else [])}
        found = ((number, each.damage) for number, each in self.partitions.items() if each.damage is not None)
        return {number: each for number, each in found if number in partitions or self.group in each.groups_after}


def _expiration_json(expiration: Expiration) -> dict[str, Any]:
    offset = {"topic_partition": str(expiration.topic_partition), "offset": expiration.offset}
    return {**offset, "expire_ms": expiration.expire_ms, "from": "record" if expiration.is_from_record else "retention"}


def explain_groups(topic: OpenTopic, group_ids: Collection[str], question: Question) -> Iterator[Explanation]:
    """Load a topic and answer the same question about each of some groups."""
    groups, logs = load_group_logs(topic, group_ids)
    refuse_foreign_log(topic, groups.partitions_of)
    for group_id in group_ids:
        yield explain_log(groups, logs.pop(group_id), question)


def explain_matching(topic: OpenTopic, pattern: str, question: Question) -> list[Explanation]:
    group_ids = [pattern]
    if has_wildcard(pattern):
        group_ids = match_groups(replace(topic, stop=Stop(None, topic.stop.until_time)).load().partitions_of, pattern)
    return list(explain_groups(topic, group_ids, question))


def explain_log(groups: Groups, group_log: GroupLog, question: Question) -> Explanation:
    entries = list(group_log)
    histories = add_details(groups, group_log, question.retention_ms)
    result = Explanation(**group_log.begin_history(groups), partitions=groups.partitions)
    result.record_partitions = frozenset(entry.partition for entry in entries)
    failed = {number: reason for number, reason in groups.failed.items() if number in result.record_partitions}
    for number in failed:
        offset = groups.partitions[number].record_offset
        result.conflicts[number] = "" if offset is None else describe_conflict(group_log, number, offset)
    places = {number: "" if number is None else f"partition {number}: " for number in failed}
    result.error = "; ".join(f"{places[number]}{reason}" for number, reason in failed.items()) or None
    found = groups.find_holder(group_log.group)
    result.answer = None if found is None else _find_answer(found, question)
    if found is not None and not isinstance(found, Orphan):
        result.record_partitions = frozenset((found.partition,))
        expirations = find_expirations(found, group_log.dialect, question.retention_ms)
        protected = find_protected(found, expirations)
        result.protected = [each for each in protected if question.selects(each.topic_partition)]
        result.expires_next = [each for each in expirations if question.selects(each.topic_partition)]
    history = entries if question.topic is None else group_log.records_of(question.selects)
    result.history = [each for each in history if question.since_time is None or each.timestamp >= question.since_time]
    result.waiting = [entry for entry in history if entry.fate is Fate.PENDING]
    positions = [position for story in histories.values() for position in story.positions.values()]
    result.rewound = sort_rewound(each for each in positions if question.selects(each.topic_partition))
    return result


def _find_answer(group: AnyGroup | Orphan, question: Question) -> Any:
    if question.topic is None:
        return orphan_json(group) if isinstance(group, Orphan) else group_json(group)
    offsets = {key: offset for key, offset in group.offsets.items() if question.selects(key)}
    if question.partition is None:
        return offsets_json(offsets) or None
    return next(map(offset_json, offsets.values()), None)
