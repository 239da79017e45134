"""The events of a group's own records: generations, epochs, members, and the deletion of the group.

A classic group has one record (type 2) for each generation. A consumer, share or streams group has many records. One
request of a member writes several of them, so one event stands for the records of one request (group_requests.py).

A group of one type can become a group of another type. Then the tombstone of the old group and the first record of the
new group are in one batch, and the tombstone does not delete the group.
Source: GroupCoordinatorRecordHelpers.java, StreamsCoordinatorRecordHelpers.java and GroupMetadataManager.java (4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from kafkagroups.groups.modern import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.event import Event, Member, describe_new_settings
from kafkagroups.history.group_log import GroupRecord
from kafkagroups.history.group_requests import (
    CLASSIC_GROUP,
    EPOCHS,
    MEMBERS,
    Change,
    converts,
    find_replaced_instances,
    read_assigned,
    read_member,
    read_request,
    split_requests,
)
from kafkagroups.history.words import LISTED_NAMES, count_of, list_names, time_or_none
from kafkagroups.records.group_metadata import GroupMetadataValue


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


class Subscriptions:
    """The topics to which a group subscribes, and since when it no longer subscribes to others.

    `lost_at` has the topics that a member subscribed to before, and to which no present member subscribes. Its values
    are the offsets of the records since which this is so.
    """

    def __init__(self) -> None:
        self.lost_at: dict[str, int] = {}
        self._topics: frozenset[str] = frozenset()

    def update(
        self, members: Mapping[str, Member], patterns: Mapping[str, frozenset[str]], record_offset: int
    ) -> list[str]:
        """Set the members after a record. Return the topics to which no member subscribes any longer, sorted.

        If the group has no members, nothing changes until the next member joins. If a subscription is not readable, the
        group may subscribe to any topic.
        """
        if not members:
            return []
        topics: set[str] = set()
        for member in members.values():
            if member.topics is None:
                self.lost_at.clear()
                self._topics = frozenset()
                return []
            topics |= member.topics
            if member.pattern is not None:
                topics |= patterns.get(member.pattern, frozenset())
        lost = sorted(self._topics - topics)
        self.lost_at |= dict.fromkeys(lost, record_offset)
        for topic in topics:
            self.lost_at.pop(topic, None)
        self._topics = frozenset(topics)
        return lost


@dataclass
class GroupState:
    """The group after some records of the log.

    `type` is "classic", "consumer", "share" or "streams"; None if no record of the group is in effect. `generation` is
    the generation or the group epoch. `empty_since_ms` is the time since which a classic group has no members.
    `patterns` are the topics that each pattern of topic names matches. `lost_at` has the topics to which no member
    subscribes any longer, and since which record (subscriptions.py). `assigned` are the partitions that each member
    has: topic names (classic group) or topic ids, with partition numbers. `topic_ids` are the ids of topics, as far as
    the group's own records tell.
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
        self._subscriptions = Subscriptions()
        self._seen_members: set[str] = set()
        """The ids of the members of which the log had a member record before."""

    def apply(self, records: list[GroupRecord]) -> Iterator[Event]:
        """Yield the events of consecutive group records in one batch."""
        requests = list(split_requests(records))
        for request, following in zip(requests, [*requests[1:], None], strict=True):
            last = request[-1]
            is_first_generation = not self._has_generation
            self._has_generation |= last.type == CLASSIC_GROUP
            if last.value is None and last.type in (CLASSIC_GROUP, *EPOCHS):
                if following is not None and converts(last, following):
                    self._old_type = self.state.type or "classic"
                else:
                    yield self._delete(last)
            elif last.type == CLASSIC_GROUP:
                value = cast(GroupMetadataValue, last.value)
                # Generation 1 is the first one with members. A group of another type keeps its members.
                is_new = value.generation <= 1 or self._old_type is not None
                has_known_past = is_new or not (self.has_hole and is_first_generation)
                yield self._apply_generation(last, value, has_known_past=has_known_past)
            else:
                yield from self._apply_request(request)

    def _delete(self, record: GroupRecord) -> Event:
        members_left = tuple(self.state.members)
        generation = self.state.generation
        self._deleted_type = self.state.type
        self.state = GroupState()
        self._subscriptions = Subscriptions()
        return self._event(record, "deleted", "The group was deleted.", generation, members_left=members_left)

    def _apply_generation(self, record: GroupRecord, value: GroupMetadataValue, *, has_known_past: bool) -> Event:
        old = self.state
        members = {member.member_id: read_member(member, value.protocol_type) for member in value.members}
        joined = tuple(member_id for member_id in members if member_id not in old.members)
        left = tuple(member_id for member_id in old.members if member_id not in members)
        empty_since_ms = None
        if not members:
            has_time = value.current_state_timestamp != -1
            empty_since_ms = value.current_state_timestamp if has_time else None
        assigned = {member.member_id: read_assigned(member, value.protocol_type) for member in value.members}
        self.state = GroupState(
            "classic", value.generation, value.protocol_type, members, empty_since_ms, assigned=assigned
        )
        subscriptions = self._describe_subscriptions(old.members, record.offset)
        # The coordinator of Kafka 4 writes generation 0 when the first member joins a new group.
        is_empty = not members and value.generation > 0
        what = self._describe_generation(old, value, joined, left)
        if joined and not has_known_past:
            names = list_names([member.description for member in members.values()])
            what = f"Generation {value.generation}: members {names}; who joined is unknown."
            joined = ()
        what = _add_to_sentence(what, subscriptions)
        self._old_type = None
        if members:
            self._deleted_type = None
        name = "empty" if is_empty else "generation"
        return self._event(
            record,
            name,
            what,
            value.generation,
            members_joined=joined,
            members_left=left,
            leader=value.leader,
            protocol=value.protocol,
            replaced_instances=self._find_replaced(old.members, joined, left),
        )

    def _describe_generation(
        self, old: GroupState, value: GroupMetadataValue, joined: tuple[str, ...], left: tuple[str, ...]
    ) -> str:
        generation = value.generation
        if self._old_type is not None or (value.members and self._has_other_type_than_before("classic")):
            return f"Generation {generation}: now a classic group, {self._describe_members(old, joined, left)}."
        if not value.members:
            if generation == 0:
                return "Generation 0: the group was created, a member joins."
            return f"Generation {generation}: no member is left."
        if old.type == "classic" and old.generation == generation:
            return self._describe_same_generation(old, generation, joined, left)
        protocol = f" ({value.protocol})" if value.protocol else ""
        text = f"Generation {generation}{protocol}: {self._describe_members(old, joined, left)}"
        if old.type == "classic" and old.generation is not None and generation > old.generation + 1:
            # The cleaner keeps the newest record of a key. So between two records of the group, none was removed.
            text += f"; no generation between {old.generation} and {generation} was written"
        return f"{text}."

    def _describe_same_generation(
        self, old: GroupState, generation: int, joined: tuple[str, ...], left: tuple[str, ...]
    ) -> str:
        replaced = self._find_replaced(old.members, joined, left)
        if replaced:
            return f"Generation {generation}: {self._describe_replaced(replaced, old.members, joined, left)}."
        return f"Generation {generation} was written again: {self._describe_members(old, joined, left)}."

    def _describe_members(self, old: GroupState, joined: tuple[str, ...], left: tuple[str, ...]) -> str:
        """Return who joined, who left, and how many members the group has now."""
        parts = []
        if joined:
            parts.append(f"{list_names([self.state.members[member_id].description for member_id in joined])} joined")
        if left:
            parts.append(f"{list_names([old.members[member_id].name for member_id in left])} left")
        parts.append(count_of(len(self.state.members), "member"))
        return ", ".join(parts)

    def _has_other_type_than_before(self, group_type: str | None) -> bool:
        """Return whether the group was deleted, and had another type before."""
        return self._deleted_type not in (None, group_type)

    def _find_replaced(
        self, old_members: Mapping[str, Member], joined: tuple[str, ...], left: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Return the instance ids of the members that joined, if each of them replaces a member that left."""
        old = [old_members[member_id] for member_id in left if member_id in old_members]
        return tuple(find_replaced_instances([self.state.members[member_id] for member_id in joined], old))

    def _describe_replaced(
        self,
        replaced: tuple[str, ...],
        old_members: Mapping[str, Member],
        joined: tuple[str, ...],
        left: tuple[str, ...],
    ) -> str:
        """Return which static members have new ids, and which of their settings changed."""
        old_by_instance = {old_members[m].instance_id: old_members[m] for m in left if m in old_members}
        members = [self.state.members[member_id] for member_id in joined]
        names = list_names([f"{member.instance_id}{member.host_text}" for member in members])
        texts = [f"static member {names} has a new id"]
        for member in members[:LISTED_NAMES]:
            settings = describe_new_settings(old_by_instance[member.instance_id], member)
            if settings:
                texts.append(settings if len(replaced) == 1 else f"{member.instance_id}: {settings}")
        return "; ".join(texts)

    def _apply_request(self, request: list[GroupRecord]) -> Iterator[Event]:
        """Yield the events of the records that one request of a consumer, share or streams group wrote."""
        group_type = GROUP_TYPE_BY_RECORD_TYPE[request[0].type]
        if self.state.type != group_type:
            kept_members = self.state.members if self._old_type is not None else {}
            self.state = GroupState(group_type, None, group_type, dict(kept_members))
        old_members = dict(self.state.members)
        change = read_request(request)
        member_offset = next((each.offset for each in request if each.type in MEMBERS), change.first.offset)
        if change.epoch is not None:
            self.state.generation = change.epoch
        self.state.patterns |= change.patterns
        self.state.topic_ids |= change.topic_ids
        self.state.assigned |= change.assigned
        for member_id, member in change.members.items():
            if member is None:
                self.state.members.pop(member_id, None)
                self.state.assigned.pop(member_id, None)
            else:
                self.state.members[member_id] = member
        subscriptions = self._describe_subscriptions(old_members, member_offset)
        unknown = set(change.members) - self._seen_members if self.has_hole else set()
        self._seen_members |= set(change.members)
        joined = tuple(
            member_id
            for member_id, member in change.members.items()
            if member is not None and member_id not in old_members and member_id not in unknown
        )
        left = tuple(member_id for member_id, member in change.members.items() if member is None)
        what = self._describe_request(change, old_members, joined, left)
        what = _add_to_sentence(what, subscriptions)
        is_routine = not (change.members or change.away or change.targets or change.has_group_record)
        generation = self.state.generation
        yield self._event(
            change.first,
            "epoch",
            what,
            generation,
            members_joined=joined,
            members_left=left,
            replaced_instances=self._find_replaced(old_members, joined, left),
            is_routine=is_routine,
        )
        if left and not self.state.members:
            yield self._event(change.first, "empty", "No member is left.", generation)

    def _describe_request(
        self, change: Change, old_members: dict[str, Member], joined: tuple[str, ...], left: tuple[str, ...]
    ) -> str:
        known = old_members | self.state.members

        def names(member_ids: list[str] | tuple[str, ...]) -> str:
            return list_names([known[member_id].name if member_id in known else member_id for member_id in member_ids])

        # After a hole, it is unknown whether a member with its first record in the log joined at this time.
        changed = [m for m, member in change.members.items() if member is not None and m not in joined]
        replaced = self._find_replaced(known, joined, left)
        parts = []
        if self._old_type is not None:
            parts.append(f"now a {self.state.type} group")
            self._old_type = None
            changed = []
        elif self._has_other_type_than_before(self.state.type):
            parts.append(f"now a {self.state.type} group")
        self._deleted_type = None
        if replaced:
            parts.append(self._describe_replaced(replaced, known, joined, left))
        elif joined:
            parts.append(f"{list_names([self.state.members[member_id].description for member_id in joined])} joined")
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
        text = f"Epoch {epoch}: {', '.join(parts)}" if parts else f"Epoch {epoch}"
        return f"{text}."

    def _describe_subscriptions(self, old_members: dict[str, Member], record_offset: int) -> list[str]:
        """Return what changed in the subscriptions of the members, and of the group as a whole."""
        members = self.state.members
        lost = self._subscriptions.update(members, self.state.patterns, record_offset)
        self.state.lost_at = dict(self._subscriptions.lost_at)
        changed = describe_changed(old_members, members)
        texts = changed[:LISTED_NAMES]
        if len(changed) > len(texts):
            texts.append(f"{count_of(len(changed) - len(texts), 'more member')} with other topics")
        if lost:
            texts.append(f"no member subscribes to {list_names(lost)} any longer")
        return texts

    def _event(self, record: GroupRecord, name: str, what: str, generation: int | None, **fields: Any) -> Event:
        """Return an event at a record. `fields` are further fields of Event."""
        joined = fields.get("members_joined", ())
        members = tuple((member_id, self.state.members[member_id]) for member_id in joined)
        time_ms = time_or_none(record.timestamp)
        return Event(self.partition, record.offset, time_ms, name, what, generation, members=members, **fields)


def _add_to_sentence(sentence: str, texts: list[str]) -> str:
    """Return a sentence with further parts before its period."""
    return f"{sentence.removesuffix('.')}; {'; '.join(texts)}." if texts else sentence
