"""Record types 3 to 8 and 16: a consumer group of the new protocol (KIP-848).

In the new protocol, the broker computes the assignments of a group. The new coordinator writes these records since 4.0,
and as a preview since 3.7. A classic group has one record, which the broker writes as a whole. A group of the new
protocol has many records, so that the broker writes only the records that changed:

    3       the group's epoch
    4       the topics of the group, up to 4.0
    5       the subscription of each member
    6, 7    the target assignment: the partitions that each member should have
    8       the current assignment: the partitions that each member has now
    16      the topics that match a pattern (a member can subscribe to a pattern of topic names), since 4.0

A tombstone is a record with a null value. Other records can come in any order, because any of them creates the group
(except in the releases that releases.py lists). The tombstone of a member must come before the tombstone of the group,
because a coordinator refuses to delete a group that has members.

The group epoch is a number that increases with each change of the group. The epoch of a member is the group epoch that
the member has reached.
Source: ConsumerGroup….json (4.3.1); GroupCoordinatorRecordHelpers.java; GroupMetadataManager.replay.
"""

from __future__ import annotations

from kafkagroups.records.structs import Message, Struct, field
from kafkagroups.records.wire import BYTES, INT8, INT32, INT64, STRING, UUID, Array


class GroupIdKey(Message):
    """The key of a record about a group."""

    group_id: str = field(STRING, "the group's id")


class MemberIdKey(GroupIdKey):
    """The key of a record about a member."""

    member_id: str = field(STRING, "the member's id")


class MemberEpochs(Message, flexible="0+"):
    """The first fields of a member's current assignment."""

    member_epoch: int = field(INT32, "the epoch that the member has reached")
    previous_member_epoch: int = field(INT32, "the previous epoch, in case the last response was lost")


class ConsumerGroupMetadataValue(Message, flexible="0+"):
    """Type 3: the group and its epoch.

    Since 3.7. The record is written whenever the epoch increases: a member joins, leaves or changes its subscription,
    or a topic of the group changes. A tombstone deletes the group. It comes after the tombstones of the members and of
    the target assignment. `metadata_hash` was added in 4.1 and replaces the records of type 4.
    """

    epoch: int = field(INT32, "the group's epoch: increases when members, subscriptions or topics change")
    metadata_hash: int = field(INT64, "a hash of the topics that the group reads", tag=0, since="4.1")


class PartitionMetadata(Message, flexible="0+"):
    """One partition of a topic in a value of type 4 or 9."""

    partition: int = field(INT32, "a partition of the topic")
    racks: tuple[str, ...] = field(Array(STRING), "the racks where the replicas of the partition are")


class TopicMetadata(Message, flexible="0+"):
    """One topic in a value of type 4 or 9."""

    topic_id: str = field(UUID, "the topic's id")
    topic_name: str = field(STRING, "the topic's name")
    num_partitions: int = field(INT32, "how many partitions the topic has")
    partition_metadata: tuple[PartitionMetadata, ...] = field(PartitionMetadata, "its partitions")


class ConsumerGroupPartitionMetadataValue(Message, flexible="0+"):
    """Type 4: the partitions and racks of the subscribed topics.

    Kafka 3.7 to 4.0 write the record when the topics of the group change. Since 4.1, `metadata_hash` in type 3 replaces
    the record. When a group is deleted, a tombstone is written. Kafka 4.3 still writes the tombstone, even if the log
    has no other record of type 4 for the group.
    """

    topics: tuple[TopicMetadata, ...] = field(TopicMetadata, "the topics that the group reads")


class ClassicProtocol(Message, flexible="0+"):
    """An assignor that a classic member supports, with the member's subscription for this assignor."""

    name: str = field(STRING, "an assignor that the member offers")
    metadata: bytes = field(BYTES, "the member's subscription for that assignor, in the client's format")


class ClassicMemberMetadata(Message, flexible="0+"):
    """Data from the JoinGroup request of a member that still uses the classic protocol."""

    session_timeout_ms: int = field(INT32, "ms without a heartbeat until the member is removed")
    supported_protocols: tuple[ClassicProtocol, ...] = field(ClassicProtocol, "the assignors that the member offers")


class ConsumerGroupMemberMetadataValue(Message, flexible="0+"):
    """Type 5: a member and its subscription.

    Since 3.7. The record is written when the member joins and when its data changes. A tombstone means that the member
    left. It comes after the tombstones of the member's current assignment (type 8) and target assignment (type 7).

    The tagged field `classic_member_metadata` says which protocol the member uses:

    - null: the new protocol.
    - a struct, or missing: the classic protocol. Kafka's default of a missing field is an empty struct.
    """

    instance_id: str | None = field(STRING, "a static member's name; null = dynamic")
    rack_id: str | None = field(STRING, "the rack where the client runs")
    client_id: str = field(STRING, "the client's id")
    client_host: str = field(STRING, "the host that the client connected from")
    subscribed_topic_names: tuple[str, ...] = field(Array(STRING), "the topics that the member subscribed to by name")
    subscribed_topic_regex: str | None = field(STRING, "the pattern that the member subscribed to (RE2J)")
    rebalance_timeout_ms: int = field(INT32, "ms within which the member must give partitions back", default=-1)
    server_assignor: str | None = field(STRING, "the assignor that the member asks for")
    classic_member_metadata: ClassicMemberMetadata | None = field(
        Struct(ClassicMemberMetadata, is_tagged=True),
        "only for a member that uses the classic protocol",
        tag=0,
        default=ClassicMemberMetadata(),
    )


class ConsumerGroupTargetAssignmentMetadataValue(Message, flexible="0+"):
    """Type 6: the group epoch that the target assignment was computed for.

    Since 3.7. The record is written after the members' records (type 7) of a new target assignment. When a group is
    deleted, a tombstone is written. `assignment_timestamp` was added in 4.3.
    """

    assignment_epoch: int = field(INT32, "the group epoch that the assignment was computed for")
    assignment_timestamp: int = field(INT64, "when the assignment was computed, ms since 1970", tag=0, since="4.3")


class TopicPartition(Message, flexible="0+"):
    """Partitions of one topic in an assignment."""

    topic_id: str = field(UUID, "the topic's id")
    partitions: tuple[int, ...] = field(Array(INT32), "its partitions")


class ConsumerGroupTargetAssignmentMemberValue(Message, flexible="0+"):
    """Type 7: the partitions that a member should have.

    The member gets a partition only after its previous owner has given the partition back.

    Since 3.7. The record is written for each member whose target changed. A tombstone means that the member left.
    """

    topic_partitions: tuple[TopicPartition, ...] = field(TopicPartition, "the partitions that the member should have")


class TopicPartitions(TopicPartition, flexible="0+"):
    """Partitions of one topic in a current assignment, with their epochs."""

    assignment_epochs: tuple[int, ...] | None = field(
        Array(INT32), "the epoch since which the member has each partition", tag=0, since="4.3"
    )


MEMBER_STATES = {0: "Stable", 1: "UnrevokedPartitions", 2: "UnreleasedPartitions"}
"""Kafka's names of the states in type 8. Source: MemberState.java in modern/ (4.3.1)."""


class ConsumerGroupCurrentMemberAssignmentValue(MemberEpochs, flexible="0+"):
    """Type 8: the partitions that a member has now, and its state on the way to the target assignment.

    Since 3.7. The record is written whenever these partitions or the state change. A tombstone means that the member
    left. `MEMBER_STATES` has Kafka's names of the states; 127 is unknown.
    `assignment_epochs` in TopicPartitions was added in 4.3.
    """

    state: int = field(INT8, "0 stable, 1 has to give partitions back, 2 waits for partitions of others")
    assigned_partitions: tuple[TopicPartitions, ...] = field(TopicPartitions, "the partitions that the member has")
    partitions_pending_revocation: tuple[TopicPartitions, ...] = field(
        TopicPartitions, "the partitions that the member has to give back"
    )


class ConsumerGroupRegularExpressionKey(GroupIdKey):
    """Type 16."""

    regular_expression: str = field(STRING, "a pattern that a member subscribed to")


class ConsumerGroupRegularExpressionValue(Message, flexible="0+"):
    """Type 16, since 4.0: the topics that match a pattern.

    The record is written when a member subscribes to a new pattern, or when the matching topics change. A tombstone
    means that no member uses the pattern any longer.
    """

    topics: tuple[str, ...] = field(Array(STRING), "the topics that the pattern matches")
    version: int = field(INT64, "the version of the cluster's metadata that was searched for topics")
    timestamp: int = field(INT64, "when the metadata was searched, ms since 1970")
