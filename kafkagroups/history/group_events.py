"""The events of a group's own records: generations, epochs, members, and the deletion of the group.

A classic group has one record (type 2) for each generation. Of a consumer, share or streams group, one request of a
member writes several records, and one event stands for all of them. A batch can contain the records of several
requests; their order tells where those of the next one begin (`_begins_request`).

If a group of one type becomes a group of another type, the tombstone of the old group and the first record of the new
one are in one batch, and the tombstone does not delete the group.
Source: GroupCoordinatorRecordHelpers.java, StreamsCoordinatorRecordHelpers.java and GroupMetadataManager.java (4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

from kafkagroups.errors import BadBytes
from kafkagroups.groups.group import CONSUMER
from kafkagroups.groups.modern_replay import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.groups.offsets import CLASSIC_GROUP_TYPE, TopicPartition
from kafkagroups.history.event import Event, Member, name_members, read_member, split_runs
from kafkagroups.history.finding import LISTED_NAMES, count_of, list_groups, list_names, time_or_none
from kafkagroups.history.group_log import GroupRecord, Marker
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.batch import NO_TIMESTAMP
from kafkagroups.records.consumer_protocol import TopicAndPartitions, decode_assignment
from kafkagroups.records.group_metadata import GroupMetadataValue

EPOCHS = (3, 11, 17)
MEMBERS = (5, 10, 19)
TARGETS = (7, 13, 21)
PARTITION_METADATA = 4
CURRENT_ASSIGNMENTS = (8, 14, 22)
TARGET_EPOCHS = (6, 12, 20)
TOPOLOGY = 23
PATTERN = 16
SHARE_OFFSETS = 15
"""The record types by their role (records/consumer_group.py, share_group.py, streams_group.py)."""
STATIC_LEAVE_EPOCH = -2
"""The epoch of a static member that has left, perhaps only for a while."""
NOTHING = frozenset[tuple[str, int]]()
Place = GroupRecord | Marker
"""Where an event is: the record that it is about, or the marker that made it take effect."""


def get_time(step: Place) -> int | None:
    """A record of magic 0 has no time, but the value of a commit has one."""
    if step.timestamp == NO_TIMESTAMP and isinstance(step, GroupRecord):
        return time_or_none(getattr(step.value, "commit_timestamp", NO_TIMESTAMP))
    return time_or_none(step.timestamp)


@dataclass
class GroupState:
    """The group after some records of the log.

    `type` is "classic", "consumer", "share" or "streams"; None if no record of the group is in effect. `generation` is
    the generation or the group epoch. `empty_since_ms` is the time since which a classic group has no members.
    `patterns` are the topics that each pattern of topic names matches, and under "" those of a topology. `lost_at` has
    the topics to which no member subscribes any longer, and since which record. `assigned` are the partitions that each
    member has, with topic names (classic group) or topic ids, and `targets` those that they should have in a newer
    group. `since` are the records with which the members of a consumer group got their present states. `topics` are the
    topics to which the newest members subscribe. `share_offsets` is the value of the newest record about the offsets of
    a share group.
    """

    type: str | None = None
    generation: int | None = None
    protocol_type: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    empty_since_ms: int | None = None
    patterns: dict[str, frozenset[str]] = field(default_factory=dict)
    lost_at: dict[str, int] = field(default_factory=dict)
    assigned: dict[str, frozenset[tuple[str, int]]] = field(default_factory=dict)
    targets: dict[str, frozenset[tuple[str, int]]] = field(default_factory=dict)
    since: dict[str, GroupRecord] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    share_offsets: Any = None

    def copy(self) -> GroupState:
        copies: dict[str, Any] = {name: {**value} for name, value in vars(self).items() if isinstance(value, dict)}
        return replace(self, **copies)

    def subscribes(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic, as far as the records tell.

        A coordinator acts as if a member with an unreadable subscription subscribes to every topic.
        """
        return any(topics is None or topic in topics for topics in self._list_subscriptions())

    def _list_subscriptions(self) -> list[frozenset[str] | None]:
        known = self.patterns
        return [
            known.get("") if member.topics is None else member.topics | known.get(member.pattern or "", frozenset())
            for member in self.members.values()
        ]

    def note_subscriptions(self, before: GroupState, record_offset: int) -> list[str]:
        """Set `lost_at` after a record. Return the topics to which no member subscribes any longer, sorted.

        Without members, nothing changes until the next one joins. If a subscription is not readable, the group may
        subscribe to any topic.
        """
        self.lost_at = dict(before.lost_at)
        self.topics = before.topics
        if not self.members:
            return []
        subscriptions = self._list_subscriptions()
        readable = [topics for topics in subscriptions if topics is not None]
        topics = frozenset[str]().union(*readable)
        if len(readable) < len(subscriptions):
            self.lost_at = {}
            self.topics = topics = frozenset()
        lost = sorted(self.topics - topics)
        self.lost_at |= dict.fromkeys(lost, record_offset)
        self.lost_at = {topic: offset for topic, offset in self.lost_at.items() if topic not in topics}
        self.topics = topics
        return lost


@dataclass
class Change:
    """What the records of one request change.

    `first` is the record with the new epoch, or else the first record. `members` maps a member that left to None.
    `away` are the static members that left for a while. `notes` say which topics a pattern did not match before, and
    what happens to the offsets of a share group. `targets` counts the members with a new target assignment.
    """

    first: GroupRecord
    epoch: int | None = None
    members: dict[str, Member | None] = field(default_factory=dict)
    away: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    targets: int = 0
    target_epoch: int | None = None
    topology_epoch: int | None = None
    epochs: dict[str, int] = field(default_factory=dict)


def apply_request(request: list[GroupRecord], state: GroupState) -> Change:
    change = Change(request[0])
    for group_record in request:
        record = group_record.record
        value = group_record.value
        member_id = getattr(record.key, "member_id", "")
        if record.type in MEMBERS:
            change.members[member_id] = None if value is None else _read_modern_member(value)
        elif record.type == PATTERN:
            pattern = cast(Any, record.key).regular_expression
            topics = frozenset[str]() if value is None else frozenset(value.topics)
            old = state.patterns.get(pattern, frozenset())
            if new := topics - old:
                matches = "now also matches" if old else "matches"
                change.notes.append(f"pattern {pattern} {matches} {list_names(sorted(new))}")
            state.patterns[pattern] = topics
        elif value is None:
            continue
        elif record.type == SHARE_OFFSETS:
            change.notes += _describe_share_offsets(state.share_offsets, value)
            state.share_offsets = value
        elif record.type in EPOCHS:
            state.generation = change.epoch = value.epoch
            change.first = group_record
        elif record.type in TARGETS:
            change.targets += 1
            state.targets[member_id] = _read_partitions(value, "topic_partitions")
        elif record.type in TARGET_EPOCHS:
            change.target_epoch = value.assignment_epoch
        elif record.type == TOPOLOGY:
            change.topology_epoch = value.epoch
            parts = value.subtopologies
            repartition = (each.name for part in parts for each in part.repartition_source_topics)
            state.patterns[""] = frozenset(repartition).union(*(part.source_topics for part in parts))
        elif record.type in CURRENT_ASSIGNMENTS:
            change.epochs[member_id] = value.member_epoch
            # A streams member has tasks.
            state.assigned[member_id] = _read_partitions(value, "assigned_partitions", "partitions_pending_revocation")
            before = state.since.get(member_id)
            if before is None or _get_progress(before.value) != _get_progress(value):
                state.since[member_id] = group_record
            if value.member_epoch == STATIC_LEAVE_EPOCH:
                change.away.append(member_id)
    for member_id, member in change.members.items():
        if member is None:
            for known in (state.members, state.assigned, state.targets, state.since):
                known.pop(member_id, None)
        else:
            state.members[member_id] = member
    return change


def _describe_share_offsets(old: Any, new: Any) -> list[str]:
    """What happens to the offsets of the topics of a share group. `old` is None in the first record.

    A request deletes them in two steps. Those of a deleted topic go at once.
    Source: GroupMetadataManager.maybeCleanupShareGroupState (4.3.1).
    """
    names = ("initializing_topics", "initialized_topics", "deleting_topics")
    before, now = ([{topic.topic_name for topic in getattr(each, name, ())} for name in names] for each in (old, new))
    had, has = ([_list_partitions(getattr(each, name, ())) for name in names[:2]] for each in (old, new))
    changes = {
        "being initialized": has[0] - had[0] - had[1],
        "initialized": has[1] - had[1],
        "being deleted": now[2] - before[2],
        "deleted": before[2].difference(*now),
        "deleted with the topic": (before[0] | before[1]).difference(before[2], *now),
    }
    return [f"the offsets of {list_groups(topics)} are {what}" for what, topics in changes.items() if topics]


def _list_partitions(topics: Iterable[Any]) -> set[str]:
    return {f"{topic.topic_name}-{number}" for topic in topics for number in topic.partitions}


def _begins_request(group_record: GroupRecord, request: list[GroupRecord]) -> bool:
    """Return whether a record belongs to another request than the records before it.

    A request writes members first, then the epoch, then the new assignments. The tombstones of a member begin with its
    assignments. The tombstone of the group is the last record of a request.
    """
    record = group_record.record
    last = request[-1].record
    if CLASSIC_GROUP_TYPE in (record.type, last.type) or (last.type in EPOCHS and last.value is None):
        return True
    has_assignment_tombstone = record.value is None and record.type in (*TARGETS, *CURRENT_ASSIGNMENTS)
    has_new_epoch = record.value is not None and record.type in EPOCHS
    begins = record.type in MEMBERS or has_assignment_tombstone or has_new_epoch
    after_members = (*EPOCHS, *TARGETS, *TARGET_EPOCHS, *CURRENT_ASSIGNMENTS)
    return begins and any(each.type in after_members and each.value is not None for each in request)


def converts(tombstone: GroupRecord, following: GroupRecord) -> bool:
    """Return whether the next record gives the deleted group another type."""
    types = {tombstone.type, following.type}
    return following.value is not None and CLASSIC_GROUP_TYPE in types and len(types) == 2


def read_assigned(member: Any, protocol_type: str) -> frozenset[tuple[str, int]]:
    """The topics and partitions of a classic member; none if the assignment is not in the consumers' format."""
    topics: Sequence[TopicAndPartitions] = ()
    with suppress(BadBytes):
        if protocol_type == CONSUMER:
            topics = decode_assignment(member.assignment).message.assigned_partitions
    return frozenset((topic.topic, partition) for topic in topics for partition in topic.partitions)


def _get_progress(current_assignment: Any) -> tuple[int | None, object]:
    return (
        getattr(current_assignment, "state", None),
        getattr(current_assignment, "partitions_pending_revocation", None),
    )


def _read_partitions(assignment: Any, *names: str) -> frozenset[tuple[str, int]]:
    topics = [topic for name in names for topic in getattr(assignment, name, ())]
    return frozenset((topic.topic_id, partition) for topic in topics for partition in topic.partitions)


def _read_modern_member(value: Any) -> Member:
    names = getattr(value, "subscribed_topic_names", None)
    topics = None if names is None else frozenset(names)
    pattern = getattr(value, "subscribed_topic_regex", None)
    classic = getattr(value, "classic_member_metadata", None)
    rebalance_ms = getattr(value, "rebalance_timeout_ms", None)
    timeouts = (getattr(classic, "session_timeout_ms", None), None if rebalance_ms == -1 else rebalance_ms)
    process = (value.client_id, value.client_host, getattr(value, "rack_id", None), *timeouts)
    return Member(value.client_id, getattr(value, "instance_id", None), topics, pattern, *process)


Ids = tuple[str, ...]


class Turnover(NamedTuple):
    """Who joined and who left. The instance ids are those of the static members that only have a new id."""

    members_joined: Ids
    members_left: Ids
    replaced_instances: Ids = ()


NOBODY = Turnover((), ())


def describe_changed(old: Mapping[str, Member], new: Mapping[str, Member]) -> Iterator[str]:
    """What changed in the subscriptions of the members that both contain."""
    for member_id, member in new.items():
        before = old.get(member_id)
        if before is None or before.topics is None or member.topics is None:
            continue
        lost = sorted(before.topics - member.topics)
        gained = sorted(member.topics - before.topics)
        parts = [f"no longer subscribes to {list_names(lost)}"] if lost else []
        parts += [f"now subscribes to {list_names(gained)}"] if gained else []
        if (before.pattern or None) != (member.pattern or None):
            parts.append(f"now subscribes to the pattern {member.pattern}" if member.pattern else "has no pattern")
        if parts:
            yield f"{member.name} {' and '.join(parts)}"


class GroupEvents:
    """The events of the group's own records in one partition.

    `state` is the group after the newest record. The caller says in `has_hole` whether the log has a hole before the
    next record. After a hole, the first record of a key does not tell since when the group has its members. The caller
    also puts the names of topics, by id, into `topic_names`, as far as the records of the group contain both; of the
    others, `topic` knows the name. `empty_at` is the record with which the last member left, or -1, and
    `forgotten_at` the one with which a coordinator began anew that had forgotten the group.
    """

    def __init__(self, topic: OpenTopic, partition: int | None) -> None:
        self._topic = topic
        self.partition = partition
        self.topic_names: dict[str, str] = {}
        self.state = GroupState()
        self.has_hole = False
        self.empty_at = -1
        self.forgotten_at = -1
        self._old_type: str | None = None
        """The type of the group before the conversion in the current batch."""
        self._deleted_type: str | None = None
        """The type of the group before it was deleted."""
        self._owners: tuple[GroupState | None, dict[TopicPartition, tuple[str, Member]]] = (None, {})
        """The members by partition of the state for which somebody asked last."""
        self._has_generation = False
        self._seen_members: set[str] = set()
        """The ids of the members of which the log had a member record before."""

    def apply(self, records: list[GroupRecord]) -> Iterator[Event]:
        requests = split_runs(records, _begins_request)
        for request, following in zip(requests, [*requests[1:], []], strict=True):
            last = request[-1]
            is_first = not self._has_generation
            self._has_generation |= last.type == CLASSIC_GROUP_TYPE
            if last.ends_group:
                if following and converts(last, following[0]):
                    self._old_type = self.state.type or "classic"
                else:
                    yield self._delete(last)
            elif last.type == CLASSIC_GROUP_TYPE:
                # Generation 1 is the first one with members. A group of another type keeps its members.
                is_new = last.value.generation <= 1 or self._old_type is not None
                yield self._apply_generation(last, has_known_past=is_new or not (self.has_hole and is_first))
            else:
                yield from self._apply_request(request)

    def _delete(self, record: GroupRecord) -> Event:
        old = self.state
        self._deleted_type = old.type
        self.state = GroupState()
        who = Turnover((), tuple(old.members))
        return self.make_event(record, "deleted", "The group was deleted.", who, generation=old.generation)

    def _apply_generation(self, record: GroupRecord, *, has_known_past: bool) -> Event:
        value: GroupMetadataValue = record.value
        old = self.state
        members = {member.member_id: read_member(member, value.protocol_type) for member in value.members}
        assigned = {member.member_id: read_assigned(member, value.protocol_type) for member in value.members}
        empty_since_ms = None if members else time_or_none(value.current_state_timestamp)
        generation = (value.generation, value.protocol_type)
        self.state = GroupState("classic", *generation, members, empty_since_ms, assigned=assigned)
        joined = tuple(member_id for member_id in members if member_id not in old.members)
        left = tuple(member_id for member_id in old.members if member_id not in members)
        if left and not members:
            self.empty_at = record.offset
        who = self._find_turnover(old.members, joined, left)
        texts = []
        if self._is_forgotten(old, value, who):
            self.forgotten_at = record.offset
            texts = [f"generation {old.generation} was forgotten (by a failed load, or a deletion that is not here)"]
            old = GroupState()
        texts += self._describe_subscriptions(old, record.offset)
        what = self._describe_generation(old, value, who)
        if joined and not has_known_past:
            names = list_names([member.description for member in members.values()])
            what = f"Generation {value.generation}: members {names}; who joined is unknown."
            who = Turnover((), left)
        self._old_type = None
        if members:
            self._deleted_type = None
        what = add_to_sentence(
            what, limit_assigned(self._describe_assigned(old, () if who.replaced_instances else members))
        )
        # The coordinator of Kafka 4 writes generation 0 when the first member joins a new group.
        name = "generation" if members or value.generation <= 0 else "empty"
        what = add_to_sentence(what, texts)
        fields = {"leader": value.leader, "protocol": value.protocol, "lost": self._list_lost(old, left)}
        return self.make_event(record, name, what, who, **fields)

    def _is_forgotten(self, old: GroupState, value: GroupMetadataValue, who: Turnover) -> bool:
        """Return whether a coordinator begins the group anew: each rebalance of a group that it knows has a new number.

        The classic coordinator knows no group of a partition whose load has failed.
        """
        is_known = bool({*old.members} & {*self.state.members}) or bool(who.replaced_instances)
        is_again = value.generation == old.generation == 1 and bool(old.members and value.members) and not is_known
        is_lower = value.generation <= 1 < (old.generation or 0)
        return old.type == "classic" and self._old_type is None and (is_again or is_lower)

    def _describe_generation(self, old: GroupState, value: GroupMetadataValue, who: Turnover) -> str:
        generation = value.generation
        joined, left, replaced = who
        parts = [self._describe_joined(joined)] if joined else []
        old_names = name_members(old.members)
        gone = [old_names[member_id] for member_id in left if member_id in old_names]
        parts += [_describe_gone(gone)] if gone else []
        changes = ", ".join([*parts, count_of(len(self.state.members), "member")])
        if self._old_type is not None or (value.members and self._deleted_type not in (None, "classic")):
            return f"Generation {generation}: now a classic group, {changes}."
        if not value.members:
            what = "no member is left" if generation else "the group was created, a member joins"
            return f"Generation {generation}: {what}."
        if old.type == "classic" and old.generation == generation:
            again = f" was written again: {changes}"
            what = f": {self._describe_replaced(old.members, joined, left)}" if replaced else again
            return f"Generation {generation}{what}."
        text = f"Generation {generation}{f' ({value.protocol})' if value.protocol else ''}: {changes}"
        if old.type == "classic" and old.generation is not None and generation > old.generation + 1:
            # The cleaner keeps the newest record of a key. So between two records of the group, none was removed.
            missing = f"no record of {count_of(generation - old.generation - 1, 'earlier generation')}"
            text += f"; {missing} (a rebalance did not end, an append failed{', or a gap has it' * self.has_hole})"
        return f"{text}."

    def _describe_joined(self, joined: Ids) -> str:
        return f"{list_names([self.state.members[member_id].description for member_id in joined])} joined"

    def _find_turnover(self, old_members: Mapping[str, Member], joined: Ids, left: Ids) -> Turnover:
        """Return who joined and left. Static members have new ids if each that joined replaces one that left."""
        found = [self.state.members[member_id].instance_id for member_id in joined]
        instances = tuple(instance_id for instance_id in found if instance_id is not None)
        old = [old_members[member_id].instance_id for member_id in left if member_id in old_members]
        is_replacement = len(instances) == len(found) == len(old) and set(found) == set(old)
        return Turnover(joined, left, instances if is_replacement else ())

    def _describe_replaced(self, old_members: Mapping[str, Member], joined: Ids, left: Ids) -> str:
        old_by_instance = {old_members[m].instance_id: old_members[m] for m in left if m in old_members}
        members = [self.state.members[member_id] for member_id in joined]
        # The record of a classic group keeps the client id and the host of the first process (replaceStaticMember).
        has_host = self.state.type != "classic"
        names = list_names([f"{member.instance_id}{member.host_text if has_host else ''}" for member in members])
        texts = [f"static member {names} has a new id"]
        for member in members[:LISTED_NAMES]:
            settings = member.describe_changes(old_by_instance[member.instance_id])
            if settings:
                texts.append(settings if len(joined) == 1 else f"{member.instance_id}: {settings}")
        return "; ".join(texts)

    def _apply_request(self, request: list[GroupRecord]) -> Iterator[Event]:
        group_type = GROUP_TYPE_BY_RECORD_TYPE[request[0].type]
        old = self.state
        if old.type != group_type:
            members = old.members if self._old_type is not None else {}
            old = GroupState(group_type, None, group_type, members, lost_at=old.lost_at, topics=old.topics)
        self.state = old.copy()
        change = apply_request(request, self.state)
        changed = change.members
        member_offset = next((each.offset for each in request if each.type in MEMBERS), change.first.offset)
        subscriptions = self._describe_subscriptions(old, member_offset)
        unknown = set(changed) - self._seen_members if self.has_hole else set()
        self._seen_members |= set(changed)
        known = {*old.members, *unknown}
        joined = tuple(name for name, member in changed.items() if member is not None and name not in known)
        left = tuple(name for name, member in changed.items() if member is None)
        who = self._find_turnover(old.members, joined, left)
        what = add_to_sentence(self._describe_request(change, old.members, who), subscriptions)
        assigned = self._describe_assigned(old, change.epochs)
        what = add_to_sentence(what, limit_assigned(assigned))
        epochs = {change.epoch, change.target_epoch, change.topology_epoch}
        is_routine = not (changed or change.away or change.notes or change.targets or epochs != {None})
        lost = self._list_lost(old, left)
        fields = {"is_routine": is_routine, "lost": lost, "assigned": tuple(assigned.items())}
        yield self.make_event(change.first, "epoch", what, who, **fields)
        if left and not self.state.members:
            self.empty_at = change.first.offset
            yield self.make_event(change.first, "empty", "No member is left.")

    def _describe_request(self, change: Change, old_members: dict[str, Member], who: Turnover) -> str:
        joined, left, replaced = who
        known = old_members | self.state.members
        names_of = name_members(old_members) | name_members(self.state.members)

        def names(member_ids: Iterable[str]) -> list[str]:
            return [names_of.get(member_id, member_id) for member_id in member_ids]

        # After a hole, it is unknown whether a member with its first record in the log joined at this time.
        changed = [m for m, member in change.members.items() if member is not None and m not in joined]
        is_converted = self._old_type is not None
        is_new = is_converted or self._deleted_type not in (None, self.state.type)
        self._old_type = None
        self._deleted_type = None
        new = self._describe_joined(joined) if joined else ""
        epoch = "" if change.target_epoch is None else f"assignment epoch {change.target_epoch}"
        texts = (
            f"now a {self.state.type} group" if is_new else "",
            self._describe_replaced(known, joined, left) if replaced else new,
            _describe_gone(names(left)) if left and not replaced else "",
            "" if is_converted else self._describe_new_settings(changed, old_members),
            f"static member {list_names(names(change.away))} left, but keeps its partitions" if change.away else "",
            *change.notes,
            "" if change.topology_epoch is None else f"topology {change.topology_epoch}",
            f"new targets for {count_of(change.targets, 'member')}" if change.targets else epoch,
        )
        parts = list(filter(None, texts))
        if not parts:
            parts = [f"{names([member_id])[0]} is at epoch {epoch}" for member_id, epoch in change.epochs.items()]
        unknown = "unknown" if self.has_hole else "not yet known"
        number = unknown if self.state.generation is None else self.state.generation
        is_told = is_new or old_members or self.state.type == "consumer"
        of_type = "" if is_told else f" of a {self.state.type} group"
        return f"Epoch {number}{of_type}: {', '.join(parts)}." if parts else f"Epoch {number}{of_type}."

    def _describe_new_settings(self, member_ids: Sequence[str], old_members: Mapping[str, Member]) -> str:
        if not member_ids:
            return ""
        what = f"member data of {list_names([self.state.members[member_id].name for member_id in member_ids])}"
        old = old_members.get(member_ids[0])
        changes = "" if old is None else self.state.members[member_ids[0]].describe_changes(old)
        return f"{what} ({changes})" if changes and len(member_ids) == 1 else what

    def _describe_assigned(self, old: GroupState, member_ids: Iterable[str]) -> dict[str, str]:
        """What each of these members has now, if it is not what it had before, by its id."""
        texts = {}
        names = name_members(self.state.members)
        for member_id in member_ids:
            assigned = self.state.assigned.get(member_id, NOTHING)
            if member_id in self.state.members and assigned != old.assigned.get(member_id, NOTHING):
                partitions = sorted(self._name_partitions(assigned))
                texts[member_id] = f"{names[member_id]} has {list_names(partitions) or 'nothing'}"
        return texts

    def name_topic(self, topic: str) -> str:
        """Return the name of a topic in an assignment, which has the id instead in a newer group."""
        if topic not in self.topic_names and self.state.type != "classic":
            self.topic_names[topic] = self._topic.topic_names.get(topic, topic)
        return self.topic_names.get(topic, topic)

    def _name_partitions(self, assigned: frozenset[tuple[str, int]]) -> frozenset[str]:
        return frozenset(f"{self.name_topic(topic)}-{number}" for topic, number in assigned)

    def find_members_by_partition(self) -> dict[TopicPartition, tuple[str, Member]]:
        if self._owners[0] is not self.state:
            owners = {
                TopicPartition(self.name_topic(topic), number): (member_id, self.state.members[member_id])
                for member_id, partitions in self.state.assigned.items()
                if member_id in self.state.members
                for topic, number in partitions
            }
            self._owners = (self.state, owners)
        return self._owners[1]

    def _list_lost(self, old: GroupState, left: Ids) -> tuple[tuple[Member, frozenset[str]], ...]:
        assigned = ((member_id, old.assigned.get(member_id, NOTHING)) for member_id in left if member_id in old.members)
        return tuple(
            (old.members[each], self._name_partitions(partitions)) for each, partitions in assigned if partitions
        )

    def _describe_subscriptions(self, old: GroupState, record_offset: int) -> list[str]:
        lost = self.state.note_subscriptions(old, record_offset)
        changed = _limit([*describe_changed(old.members, self.state.members)], "with other topics")
        return [*changed, f"no member subscribes to {list_names(lost)} any longer"] if lost else changed

    def make_event(self, at: Place, name: str, what: str, who: Turnover = NOBODY, **fields: Any) -> Event:
        members = tuple((member_id, self.state.members[member_id]) for member_id in who.members_joined)
        place = (self.partition, at.offset, get_time(at))
        fields = {"generation": self.state.generation, "members": members} | who._asdict() | fields
        return Event(*place, name, what=what, **fields)


def _limit(texts: list[str], rest: str) -> list[str]:
    """Return the first of some texts, each about one member, and how many members more there are."""
    more = len(texts) - LISTED_NAMES
    return [*texts[:LISTED_NAMES], f"{count_of(more, 'more member')} {rest}"] if more > 0 else texts


def limit_assigned(assigned: Mapping[str, str]) -> list[str]:
    return _limit([*assigned.values()], "with another assignment")


def _describe_gone(names: Sequence[str]) -> str:
    """The coordinator writes the same records for a LeaveGroup request, an expired session and a late rebalance."""
    return f"{list_names(names)} {'is' if len(names) == 1 else 'are'} gone (left, or timed out)"


def add_to_sentence(sentence: str, texts: list[str]) -> str:
    return f"{sentence.removesuffix('.')}; {'; '.join(texts)}." if texts else sentence
