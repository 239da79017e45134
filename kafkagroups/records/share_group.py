"""Record types 9 to 15: a share group (KIP-932), whose members read the same partitions.

The new coordinator writes these records since 4.0. In 4.0, share groups were a preview, and their records were
different. Types 11 and 15 had other fields, but the same value version, and type 9 existed only in 4.0.

A share group never commits offsets to `__consumer_offsets`. Its progress in each partition is in another topic,
`__share_group_state`. consumer_group.py explains epochs.
Source: ShareGroup….json (4.3.1, and 4.0.2 for the older layouts); GroupCoordinatorRecordHelpers.java.
"""

from __future__ import annotations

from kafkagroups.records import consumer_group
from kafkagroups.records.consumer_group import MemberEpochs, TopicPartition
from kafkagroups.records.structs import Message, field
from kafkagroups.records.wire import INT8, INT32, INT64, STRING, UUID, Array


class ShareGroupPartitionMetadataValue(consumer_group.ConsumerGroupPartitionMetadataValue, flexible="0+"):
    """Type 9, only in 4.0: the partitions and racks of the subscribed topics.

    The record was written when the topics of the group changed. When a group was deleted, a tombstone was written. The
    new coordinators of all other versions skip the record.
    """


class ShareGroupMemberMetadataValue(Message, flexible="0+"):
    """Type 10: a member and its subscription.

    Since 4.0. The record is written when the member joins and when its data changes. A tombstone means that the member
    left. The member's tombstone of type 14 comes before the tombstone of type 10.
    """

    rack_id: str | None = field(STRING, "the rack where the client runs")
    client_id: str = field(STRING, "the client's id")
    client_host: str = field(STRING, "the host that the client connected from")
    subscribed_topic_names: tuple[str, ...] = field(Array(STRING), "the topics that the member subscribed to by name")


class ShareGroupMetadataValue(Message, flexible="0+"):
    """Type 11: the group and its epoch.

    Since 4.0. The record is written whenever the epoch increases. A tombstone deletes the group. `metadata_hash` was
    added in 4.1 as an untagged field. Later versions cannot read a value that 4.0 wrote: it is too short.
    """

    epoch: int = field(INT32, "the group's epoch: increases when members, subscriptions or topics change")
    metadata_hash: int = field(INT64, "a hash of the topics that the group reads", since="4.1")


class ShareGroupTargetAssignmentMetadataValue(consumer_group.ConsumerGroupTargetAssignmentMetadataValue, flexible="0+"):
    """Type 12: the group epoch that the target assignment was computed for.

    Since 4.0. The record is written with a new assignment. When a group is deleted, a tombstone is written.
    `assignment_timestamp` was added in 4.3.
    """


class ShareGroupTargetAssignmentMemberValue(consumer_group.ConsumerGroupTargetAssignmentMemberValue, flexible="0+"):
    """Type 13, since 4.0: the partitions that a member should have.

    The record is written when these partitions change. A tombstone means that the member left.
    """


class ShareGroupCurrentMemberAssignmentValue(MemberEpochs, flexible="0+"):
    """Type 14: the partitions that a member has now.

    Since 4.0. The record is written when these partitions change. A tombstone means that the member left. `state` is
    always 0 (stable): several members can have the same partition, so no member waits for a partition.
    """

    state: int = field(INT8, "0 stable")
    assigned_partitions: tuple[TopicPartition, ...] = field(TopicPartition, "the partitions that the member has")


class TopicInfo(Message, flexible="0+"):
    """The id and the name of a topic."""

    topic_id: str = field(UUID, "the topic's id")
    topic_name: str = field(STRING, "the topic's name")


class TopicPartitionsInfo(TopicInfo, flexible="0+"):
    """Partitions of one topic, with the topic's name."""

    partitions: tuple[int, ...] = field(Array(INT32), "its partitions")


class ShareGroupStatePartitionMetadataValue(Message, flexible="0+"):
    """Type 15: the partitions whose state in `__share_group_state` exists, or is being created or deleted.

    The state of a partition is the group's progress in it. The share coordinator, a part of the broker, stores this
    state. Since 4.1, a record is written before and after each request to the share coordinator. When a group is
    deleted, a tombstone is written. In Kafka 4.0, the record has no `initializing_topics`. Kafka 4.0 never writes the
    record, and refuses to load it.
    """

    initializing_topics: tuple[TopicPartitionsInfo, ...] = field(
        TopicPartitionsInfo, "partitions whose state is being created", since="4.1"
    )
    initialized_topics: tuple[TopicPartitionsInfo, ...] = field(TopicPartitionsInfo, "partitions whose state exists")
    deleting_topics: tuple[TopicInfo, ...] = field(TopicInfo, "topics whose state is being deleted")
