"""A group after some records of the log, and the requests behind the records of a consumer, share or streams group.

One request of a member writes several records in one batch, and a batch can contain the records of several requests.
The order of the records tells where those of the next request begin (`split_requests`).
Source: GroupCoordinatorRecordHelpers.java, StreamsCoordinatorRecordHelpers.java and GroupMetadataManager.java (4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

from kafkagroups.errors import BadBytes
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.event import Member
from kafkagroups.history.group_log import GroupRecord
from kafkagroups.records.consumer_protocol import TopicAndPartitions, decode_assignment, decode_subscription

CLASSIC_GROUP = 2
EPOCHS = (3, 11, 17)
MEMBERS = (5, 10, 19)
TARGETS = (7, 13, 21)
PARTITION_METADATA = 4
CURRENT_ASSIGNMENTS = (8, 14, 22)
TARGET_EPOCHS = (6, 12, 20)
TOPOLOGY = 23
PATTERN = 16
"""The record types by their role (records/consumer_group.py, share_group.py, streams_group.py)."""
STATIC_LEAVE_EPOCH = -2
"""The epoch of a static member that has left for a while."""
CONSUMER = "consumer"


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

    def copy(self) -> GroupState:
        assigned = {**self.assigned}
        return replace(
            self, members={**self.members}, patterns={**self.patterns}, assigned=assigned, topic_ids={**self.topic_ids}
        )

    def subscribes(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic, as far as the records tell.

        A coordinator acts as if a member with an unreadable subscription subscribes to every topic.
        """
        return any(topics is None or topic in topics for topics in self._list_subscriptions())

    def _list_subscriptions(self) -> list[frozenset[str] | None]:
        """Return the topics to which each member subscribes; None if they cannot be read."""
        return [
            None if member.topics is None else member.topics | self.patterns.get(member.pattern or "", frozenset())
            for member in self.members.values()
        ]

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

    `first` is the record with the new epoch, or else the first record. `members` has the new data of each member; None
    for a member that left. `away` are the static members that left for a while. `targets` is how many members have a
    new target assignment. `epochs` are the epochs that members have reached.
    """

    first: GroupRecord
    epoch: int | None = None
    members: dict[str, Member | None] = field(default_factory=dict)
    away: list[str] = field(default_factory=list)
    targets: int = 0
    target_epoch: int | None = None
    topology_epoch: int | None = None
    epochs: dict[str, int] = field(default_factory=dict)


def apply_request(request: list[GroupRecord], state: GroupState) -> Change:
    """Apply the records of a request to the group that they are of, and return what they change."""
    change = Change(request[0])
    for group_record in request:
        record = group_record.record
        value = group_record.value
        member_id = getattr(record.key, "member_id", "")
        if record.type in MEMBERS:
            change.members[member_id] = None if value is None else _read_modern_member(value)
        elif record.type == PATTERN:
            pattern = cast(Any, record.key).regular_expression
            state.patterns[pattern] = frozenset() if value is None else frozenset(value.topics)
        elif value is None:
            continue
        elif record.type in EPOCHS:
            state.generation = change.epoch = value.epoch
            change.first = group_record
        elif record.type in TARGETS:
            change.targets += 1
        elif record.type in TARGET_EPOCHS:
            change.target_epoch = value.assignment_epoch
        elif record.type == TOPOLOGY:
            change.topology_epoch = value.epoch
        elif record.type == PARTITION_METADATA:
            state.topic_ids |= {topic.topic_name: topic.topic_id for topic in value.topics}
        elif record.type in CURRENT_ASSIGNMENTS:
            change.epochs[member_id] = value.member_epoch
            state.assigned[member_id] = _read_assigned(value)
            if value.member_epoch == STATIC_LEAVE_EPOCH:
                change.away.append(member_id)
    for member_id, member in change.members.items():
        if member is None:
            state.members.pop(member_id, None)
            state.assigned.pop(member_id, None)
        else:
            state.members[member_id] = member
    return change


def split_requests(records: list[GroupRecord]) -> Iterator[list[GroupRecord]]:
    """Yield the records of each request. The records are group records of one batch."""
    request: list[GroupRecord] = []
    for group_record in records:
        if request and _begins_request(group_record, request):
            yield request
            request = []
        request.append(group_record)
    yield request


def _begins_request(group_record: GroupRecord, request: list[GroupRecord]) -> bool:
    """Return whether a record belongs to another request than the records before it.

    A request writes members first, then the epoch, then the new assignments. The tombstones of a member begin with its
    assignments. The tombstone of the group is the last record of a request.
    """
    record = group_record.record
    last = request[-1].record
    if CLASSIC_GROUP in (record.type, last.type) or (last.type in EPOCHS and last.value is None):
        return True
    has_assignment_tombstone = record.value is None and record.type in (*TARGETS, *CURRENT_ASSIGNMENTS)
    has_new_epoch = record.value is not None and record.type in EPOCHS
    if not (record.type in MEMBERS or has_assignment_tombstone or has_new_epoch):
        return False
    after_members = (*EPOCHS, *TARGETS, *TARGET_EPOCHS, *CURRENT_ASSIGNMENTS)
    return any(each.type in after_members and each.value is not None for each in request)


def converts(tombstone: GroupRecord, following: list[GroupRecord]) -> bool:
    """Return whether the next record gives the deleted group another type."""
    record = following[0].record
    is_classic = record.type == CLASSIC_GROUP
    return record.value is not None and is_classic != (tombstone.type == CLASSIC_GROUP)


def read_member(member: Any, protocol_type: str) -> Member:
    """Return the member of a classic group. Only the coordinator of "consumer" groups reads the subscription."""
    topics = None
    rack = None
    with suppress(BadBytes):
        if protocol_type == CONSUMER:
            subscription = decode_subscription(member.subscription).message
            topics = frozenset(subscription.topics)
            rack = subscription.rack_id
    timeouts = (member.session_timeout, None if member.rebalance_timeout == -1 else member.rebalance_timeout)
    process = (member.client_id, member.client_host, rack, *timeouts)
    return Member(member.client_id or member.member_id, member.group_instance_id, topics, None, *process)


def read_assigned(member: Any, protocol_type: str) -> frozenset[tuple[str, int]]:
    """Return the partitions of a member of a classic group: topic names with partition numbers.

    The result is empty if the assignment is not in the consumers' format.
    """
    topics: Sequence[TopicAndPartitions] = ()
    with suppress(BadBytes):
        if protocol_type == CONSUMER:
            topics = decode_assignment(member.assignment).message.assigned_partitions
    return frozenset((topic.topic, partition) for topic in topics for partition in topic.partitions)


def _read_assigned(current_assignment: Any) -> frozenset[tuple[str, int]]:
    """Return the partitions that a member has, also those that it has to give back. A streams member has tasks."""
    names = ("assigned_partitions", "partitions_pending_revocation")
    topics = [topic for name in names for topic in getattr(current_assignment, name, ())]
    return frozenset((topic.topic_id, partition) for topic in topics for partition in topic.partitions)


def _read_modern_member(value: Any) -> Member:
    topics = frozenset(getattr(value, "subscribed_topic_names", ()))
    pattern = getattr(value, "subscribed_topic_regex", None)
    classic = getattr(value, "classic_member_metadata", None)
    rebalance_ms = getattr(value, "rebalance_timeout_ms", None)
    timeouts = (getattr(classic, "session_timeout_ms", None), None if rebalance_ms == -1 else rebalance_ms)
    process = (value.client_id, value.client_host, getattr(value, "rack_id", None), *timeouts)
    return Member(value.client_id, getattr(value, "instance_id", None), topics, pattern, *process)
