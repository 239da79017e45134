"""The events of a group's own records: generations, epochs, members, and the deletion of the group.

A classic group has one record (type 2) for each generation. A consumer, share or streams group has many records. One
request of a member writes several of them, so one event stands for the records of one request (group_requests.py).

A group of one type can become a group of another type. Then the tombstone of the old group and the first record of the
new group are in one batch, and the tombstone does not delete the group.
Source: GroupCoordinatorRecordHelpers.java, StreamsCoordinatorRecordHelpers.java and GroupMetadataManager.java (4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kafkagroups.groups.modern import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.groups.newest_values import GROUP_ENDING_TYPES
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.event import Event, Member
from kafkagroups.history.group_log import GroupRecord
from kafkagroups.history.group_requests import (
    CLASSIC_GROUP,
    MEMBERS,
    Change,
    converts,
    read_assigned,
    read_member,
    read_request,
    split_requests,
)
from kafkagroups.history.words import LISTED_NAMES, count_of, list_names, time_or_none
from kafkagroups.records.group_metadata import GroupMetadataValue

Ids = tuple[str, ...]
"""The ids of members, or instance ids."""


def describe_changed(old: Mapping[str, Member], new: Mapping[str, Member]) -> list[str]:
    """Return what changed in the subscriptions of the members that `old` and `new` both contain."""
    texts = []
    for member_id, member in new.items():
        before = old.get(member_id)
        if before is None or before.topics is None or member.topics is None:
            continue
        parts = []
        if before.topics - member.topics:
            parts.append(f"no longer subscribes to {list_names(sorted(before.topics - member.topics))}")
        if member.topics - before.topics:
            parts.append(f"now subscribes to {list_names(sorted(member.topics - before.topics))}")
        if (before.pattern or None) != (member.pattern or None):
            parts.append(f"now subscribes to the pattern {member.pattern}" if member.pattern else "has no pattern")
        if parts:
            texts.append(f"{member.name} {' and '.join(parts)}")
    return texts


@dataclass
class GroupState:
    """The group after some records of the log.

    `type` is "classic", "consumer", "share" or "streams"; None if no record of the group is in effect. `generation` is
    the generation or the group epoch. `empty_since_ms` is the time since which a classic group has no members.
    `patterns` are the topics that each pattern of topic names matches. `lost_at` has the topics to which no member
    subscribes any longer, and since which record. `assigned` are the partitions that each member
    has: topic names (classic group) or topic ids, with partition numbers. `topic_ids` are the ids of topics, as far as
    the group's own records tell. `topics` are the topics to which the newest members subscribe.
    """

    type: str | None = None
    generation: int | None = None
    protocol_type: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    empty_since_ms: int | None = None
    patterns: dict[str, frozenset[str]] = field(default_factory=dict)
    lost_at: dict[str, int] = field(default_factory=dict)
    assigned: dict[str, frozenset[tuple[str, int]]] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()

    def subscribes(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic, as far as the records tell.

        A coordinator acts as if a member with an unreadable subscription subscribes to every topic.
        """
        for member in self.members.values():
            matched = frozenset() if member.pattern is None else self.patterns.get(member.pattern, frozenset())
            if member.topics is None or topic in member.topics or topic in matched:
                return True
        return False

    def find_members_by_partition(self, topic_ids: Mapping[str, str]) -> dict[TopicPartition, tuple[str, Member]]:
        """Return the member that has each topic partition: its id and its data.

        `topic_ids` are the ids of topics. The result does not contain topics whose name is not known.
        """
        names_by_id = {topic_id: name for name, topic_id in {**self.topic_ids, **topic_ids}.items()}
        found = {}
        for member_id, partitions in self.assigned.items():
            for topic, partition in partitions:
                name = topic if self.type == "classic" else names_by_id.get(topic)
                if name is not None and member_id in self.members:
                    found[TopicPartition(name, partition)] = (member_id, self.members[member_id])
        return found

    def note_subscriptions(self, before: GroupState, record_offset: int) -> list[str]:
        """Set `lost_at` after a record. Return the topics to which no member subscribes any longer, sorted.

        `before` is the group before the record. If the group has no members, nothing changes until the next member
        joins. If a subscription is not readable, the group may subscribe to any topic.
        """
        self.lost_at = dict(before.lost_at)
        self.topics = before.topics
        if not self.members:
            return []
        topics: set[str] = set()
        for member in self.members.values():
            if member.topics is None:
                self.lost_at = {}
                self.topics = frozenset()
                return []
            topics |= member.topics | self.patterns.get(member.pattern or "", frozenset())
        lost = sorted(self.topics - topics)
        self.lost_at |= dict.fromkeys(lost, record_offset)
        self.lost_at = {topic: offset for topic, offset in self.lost_at.items() if topic not in topics}
        self.topics = frozenset(topics)
        return lost


class GroupEvents:
    """The events of the group's own records in one partition.

    `state` is the group after the newest record. `has_hole` says whether the log has a hole before the next record. The
    caller sets it. After a hole, the first record of a key does not tell since when the group has its members.
    """

    def __init__(self, partition: int | None) -> None:
        self.partition = partition
        self.state = GroupState()
        self.has_hole = False
        self._old_type: str | None = None
        """The type of the group before the conversion in the current batch."""
        self._deleted_type: str | None = None
        """The type of the group before it was deleted; None if it was not deleted."""
        self._has_generation = False
        """Whether the log had a record of type 2 before."""
        self._seen_members: set[str] = set()
        """The ids of the members of which the log had a member record before."""

    def apply(self, records: list[GroupRecord]) -> Iterator[Event]:
        """Yield the events of consecutive group records in one batch."""
        requests = list(split_requests(records))
        for request, following in zip(requests, [*requests[1:], None], strict=True):
            last = request[-1]
            is_first_generation = not self._has_generation
            self._has_generation |= last.type == CLASSIC_GROUP
            if last.value is None and last.type in GROUP_ENDING_TYPES:
                if following is not None and converts(last, following):
                    self._old_type = self.state.type or "classic"
                else:
                    yield self._delete(last)
            elif last.type == CLASSIC_GROUP:
                # Generation 1 is the first one with members. A group of another type keeps its members.
                is_new = last.value.generation <= 1 or self._old_type is not None
                yield self._apply_generation(last, has_known_past=is_new or not (self.has_hole and is_first_generation))
            else:
                yield from self._apply_request(request)

    def _delete(self, record: GroupRecord) -> Event:
        old = self.state
        self._deleted_type = old.type
        self.state = GroupState()
        what = "The group was deleted."
        return self._event(record, "deleted", what, generation=old.generation, members_left=tuple(old.members))

    def _apply_generation(self, record: GroupRecord, *, has_known_past: bool) -> Event:
        value: GroupMetadataValue = record.value
        old = self.state
        members = {member.member_id: read_member(member, value.protocol_type) for member in value.members}
        assigned = {member.member_id: read_assigned(member, value.protocol_type) for member in value.members}
        empty_since_ms = None if members else time_or_none(value.current_state_timestamp)
        self.state = GroupState(
            "classic", value.generation, value.protocol_type, members, empty_since_ms, assigned=assigned
        )
        joined = tuple(member_id for member_id in members if member_id not in old.members)
        left = tuple(member_id for member_id in old.members if member_id not in members)
        replaced = self._find_replaced(old.members, joined, left)
        subscriptions = self._describe_subscriptions(old, record.offset)
        what = self._describe_generation(old, value, joined, left, replaced)
        if joined and not has_known_past:
            names = list_names([member.description for member in members.values()])
            what = f"Generation {value.generation}: members {names}; who joined is unknown."
            joined = ()
            replaced = ()
        self._old_type = None
        if members:
            self._deleted_type = None
        return self._event(
            record,
            # The coordinator of Kafka 4 writes generation 0 when the first member joins a new group.
            "generation" if members or value.generation <= 0 else "empty",
            _add_to_sentence(what, subscriptions),
            members_joined=joined,
            members_left=left,
            leader=value.leader,
            protocol=value.protocol,
            replaced_instances=replaced,
        )

    def _describe_generation(
        self, old: GroupState, value: GroupMetadataValue, joined: Ids, left: Ids, replaced: Ids
    ) -> str:
        """Return what a generation changes: who joined, who left, and how many members the group has now."""
        generation = value.generation
        parts = [self._describe_joined(joined)] if joined else []
        parts += [f"{list_names([old.members[member_id].name for member_id in left])} left"] if left else []
        changes = ", ".join([*parts, count_of(len(self.state.members), "member")])
        if self._old_type is not None or (value.members and self._deleted_type not in (None, "classic")):
            return f"Generation {generation}: now a classic group, {changes}."
        if not value.members and generation == 0:
            return "Generation 0: the group was created, a member joins."
        if not value.members:
            return f"Generation {generation}: no member is left."
        if old.type == "classic" and old.generation == generation:
            if replaced:
                return f"Generation {generation}: {self._describe_replaced(old.members, joined, left)}."
            return f"Generation {generation} was written again: {changes}."
        text = f"Generation {generation}{f' ({value.protocol})' if value.protocol else ''}: {changes}"
        if old.type == "classic" and old.generation is not None and generation > old.generation + 1:
            # The cleaner keeps the newest record of a key. So between two records of the group, none was removed.
            text += f"; no generation between {old.generation} and {generation} was written"
        return f"{text}."

    def _describe_joined(self, joined: Ids) -> str:
        return f"{list_names([self.state.members[member_id].description for member_id in joined])} joined"

    def _find_replaced(self, old_members: Mapping[str, Member], joined: Ids, left: Ids) -> Ids:
        """Return the instance ids of the members that joined, if each of them replaces a member that left."""
        found = [self.state.members[member_id].instance_id for member_id in joined]
        instances = tuple(instance_id for instance_id in found if instance_id is not None)
        old = [old_members[member_id].instance_id for member_id in left if member_id in old_members]
        return instances if len(instances) == len(found) == len(old) and set(found) == set(old) else ()

    def _describe_replaced(self, old_members: Mapping[str, Member], joined: Ids, left: Ids) -> str:
        """Return which static members have new ids, and which of their settings changed."""
        old_by_instance = {old_members[m].instance_id: old_members[m] for m in left if m in old_members}
        members = [self.state.members[member_id] for member_id in joined]
        names = list_names([f"{member.instance_id}{member.host_text}" for member in members])
        texts = [f"static member {names} has a new id"]
        for member in members[:LISTED_NAMES]:
            settings = member.describe_changes(old_by_instance[member.instance_id])
            if settings:
                texts.append(settings if len(joined) == 1 else f"{member.instance_id}: {settings}")
        return "; ".join(texts)

    def _apply_request(self, request: list[GroupRecord]) -> Iterator[Event]:
        """Yield the events of the records that one request of a consumer, share or streams group wrote."""
        group_type = GROUP_TYPE_BY_RECORD_TYPE[request[0].type]
        old = self.state
        if old.type != group_type:
            self.state = GroupState(group_type, None, group_type, old.members if self._old_type is not None else {})
            old = replace(self.state, lost_at=old.lost_at, topics=old.topics)
        change = read_request(request)
        changed = change.members
        self.state = replace(
            self.state,
            generation=old.generation if change.epoch is None else change.epoch,
            members={name: member for name, member in (old.members | changed).items() if member is not None},
            patterns=old.patterns | change.patterns,
            assigned={
                name: partitions
                for name, partitions in (old.assigned | change.assigned).items()
                if changed.get(name, name) is not None
            },
            topic_ids=old.topic_ids | change.topic_ids,
        )
        member_offset = next((each.offset for each in request if each.type in MEMBERS), change.first.offset)
        subscriptions = self._describe_subscriptions(old, member_offset)
        unknown = set(changed) - self._seen_members if self.has_hole else set()
        self._seen_members |= set(changed)
        known = {*old.members, *unknown}
        joined = tuple(name for name, member in changed.items() if member is not None and name not in known)
        left = tuple(name for name, member in changed.items() if member is None)
        replaced = self._find_replaced(old.members, joined, left)
        what = self._describe_request(change, old.members, joined, left, replaced)
        yield self._event(
            change.first,
            "epoch",
            _add_to_sentence(what, subscriptions),
            members_joined=joined,
            members_left=left,
            replaced_instances=replaced,
            is_routine=not (changed or change.away or change.targets or change.has_group_record),
        )
        if left and not self.state.members:
            yield self._event(change.first, "empty", "No member is left.")

    def _describe_request(
        self, change: Change, old_members: dict[str, Member], joined: Ids, left: Ids, replaced: Ids
    ) -> str:
        known = old_members | self.state.members

        def names(member_ids: Iterable[str]) -> str:
            return list_names([known[member_id].name if member_id in known else member_id for member_id in member_ids])

        # After a hole, it is unknown whether a member with its first record in the log joined at this time.
        changed = [m for m, member in change.members.items() if member is not None and m not in joined]
        parts = []
        if self._old_type is not None or self._deleted_type not in (None, self.state.type):
            parts.append(f"now a {self.state.type} group")
            changed = changed if self._old_type is None else []
        self._old_type = None
        self._deleted_type = None
        if replaced:
            parts.append(self._describe_replaced(known, joined, left))
        elif joined:
            parts.append(self._describe_joined(joined))
        if left and not replaced:
            parts.append(f"{names(left)} left")
        if changed:
            parts.append(f"member data of {names(changed)}")
        if change.away:
            parts.append(f"static member {names(change.away)} left for a while")
        if change.topology_epoch is not None:
            parts.append(f"topology {change.topology_epoch}")
        if change.targets:
            parts.append(f"new targets for {count_of(change.targets, 'member')}")
        elif change.target_epoch is not None:
            parts.append(f"assignment epoch {change.target_epoch}")
        if not parts:
            parts = [f"{names([member_id])} is at epoch {epoch}" for member_id, epoch in change.epochs.items()]
        epoch = "unknown" if self.state.generation is None else self.state.generation
        return f"Epoch {epoch}: {', '.join(parts)}." if parts else f"Epoch {epoch}."

    def _describe_subscriptions(self, old: GroupState, record_offset: int) -> list[str]:
        """Return what changed in the subscriptions of the members, and of the group as a whole."""
        lost = self.state.note_subscriptions(old, record_offset)
        changed = describe_changed(old.members, self.state.members)
        texts = changed[:LISTED_NAMES]
        if len(changed) > len(texts):
            texts.append(f"{count_of(len(changed) - len(texts), 'more member')} with other topics")
        if lost:
            texts.append(f"no member subscribes to {list_names(lost)} any longer")
        return texts

    def _event(self, record: GroupRecord, name: str, what: str, **fields: Any) -> Event:
        """Return an event at a record. `fields` are further fields of Event."""
        joined = fields.get("members_joined", ())
        members = tuple((member_id, self.state.members[member_id]) for member_id in joined)
        place = (self.partition, record.offset, time_or_none(record.timestamp))
        return Event(*place, name, what, **{"generation": self.state.generation, "members": members} | fields)


def _add_to_sentence(sentence: str, texts: list[str]) -> str:
    """Return a sentence with further parts before its period."""
    return f"{sentence.removesuffix('.')}; {'; '.join(texts)}." if texts else sentence
