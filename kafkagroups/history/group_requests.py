"""The requests behind the records of a consumer, share or streams group, and what each request changed.

One request of a member writes several records in one batch, and a batch can contain the records of several requests.
The order of the records tells where those of the next request begin (`split_requests`).
Source: GroupCoordinatorRecordHelpers.java, StreamsCoordinatorRecordHelpers.java and GroupMetadataManager.java (4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from kafkagroups.errors import BadBytes
from kafkagroups.history.event import Member
from kafkagroups.history.group_log import GroupRecord
from kafkagroups.records.consumer_protocol import decode_assignment, decode_subscription
from kafkagroups.records.group_keys import MemberIdKey

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
class Change:
    """What the records of one request change.

    `first` is the record with the new epoch, or else the first record. `members` has the new data of each member; None
    for a member that left. `away` are the static members that left for a while. `targets` is how many members have a
    new target assignment. `epochs` are the epochs that members have reached. `patterns` are the topics of each pattern.
    `assigned` are the partitions that members have: topic ids with partition numbers. `topic_ids` are the topics' ids.
    """

    first: GroupRecord
    epoch: int | None = None
    members: dict[str, Member | None] = field(default_factory=dict)
    away: list[str] = field(default_factory=list)
    targets: int = 0
    target_epoch: int | None = None
    topology_epoch: int | None = None
    epochs: dict[str, int] = field(default_factory=dict)
    patterns: dict[str, frozenset[str]] = field(default_factory=dict)
    assigned: dict[str, frozenset[tuple[str, int]]] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)

    @property
    def has_group_record(self) -> bool:
        return any(value is not None for value in (self.epoch, self.target_epoch, self.topology_epoch))


def read_request(request: list[GroupRecord]) -> Change:
    change = Change(request[0])
    for group_record in request:
        record = group_record.record
        value = group_record.value
        member_id = record.key.member_id if isinstance(record.key, MemberIdKey) else ""
        if record.type in MEMBERS:
            change.members[member_id] = None if value is None else _read_modern_member(value)
        elif record.type == PATTERN:
            pattern = cast(Any, record.key).regular_expression
            change.patterns[pattern] = frozenset() if value is None else frozenset(value.topics)
        elif value is None:
            continue
        elif record.type in EPOCHS:
            change.epoch = value.epoch
            change.first = group_record
        elif record.type in TARGETS:
            change.targets += 1
        elif record.type in TARGET_EPOCHS:
            change.target_epoch = value.assignment_epoch
        elif record.type == TOPOLOGY:
            change.topology_epoch = value.epoch
        elif record.type == PARTITION_METADATA:
            change.topic_ids |= {topic.topic_name: topic.topic_id for topic in value.topics}
        elif record.type in CURRENT_ASSIGNMENTS:
            change.epochs[member_id] = value.member_epoch
            change.assigned[member_id] = _read_assigned(value)
            if value.member_epoch == STATIC_LEAVE_EPOCH:
                change.away.append(member_id)
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
    if protocol_type == CONSUMER:
        try:
            subscription = decode_subscription(member.subscription).message
            topics = frozenset(subscription.topics)
            rack = subscription.rack_id
        except BadBytes:
            topics = None
    return Member(
        member.client_id or member.member_id,
        member.group_instance_id,
        topics,
        client_id=member.client_id,
        host=member.client_host,
        rack=rack,
        session_timeout_ms=member.session_timeout,
        rebalance_timeout_ms=None if member.rebalance_timeout == -1 else member.rebalance_timeout,
    )


def read_assigned(member: Any, protocol_type: str) -> frozenset[tuple[str, int]]:
    """Return the partitions of a member of a classic group: topic names with partition numbers.

    The result is empty if the assignment is not in the consumers' format.
    """
    if protocol_type != CONSUMER:
        return frozenset()
    try:
        topics = decode_assignment(member.assignment).message.assigned_partitions
    except BadBytes:
        return frozenset()
    return frozenset((topic.topic, partition) for topic in topics for partition in topic.partitions)


def _read_assigned(current_assignment: Any) -> frozenset[tuple[str, int]]:
    """Return the partitions that a member has, also those that it has to give back. A streams member has tasks."""
    topics = (
        *getattr(current_assignment, "assigned_partitions", ()),
        *getattr(current_assignment, "partitions_pending_revocation", ()),
    )
    return frozenset((topic.topic_id, partition) for topic in topics for partition in topic.partitions)


def _read_modern_member(value: Any) -> Member:
    topics = frozenset(getattr(value, "subscribed_topic_names", ()))
    pattern = getattr(value, "subscribed_topic_regex", None)
    classic = getattr(value, "classic_member_metadata", None)
    rebalance_timeout_ms = getattr(value, "rebalance_timeout_ms", None)
    return Member(
        value.client_id,
        getattr(value, "instance_id", None),
        topics,
        pattern,
        client_id=value.client_id,
        host=value.client_host,
        rack=getattr(value, "rack_id", None),
        session_timeout_ms=getattr(classic, "session_timeout_ms", None),
        rebalance_timeout_ms=None if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
    )
