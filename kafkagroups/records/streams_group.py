"""Record types 17 and 19 to 23: a streams group (KIP-1071), one Kafka Streams application.

The new coordinator writes these records since 4.1. A topology is the graph of an application's processors, and a
subtopology is a connected part of this graph. The application sends its topology (type 23) to the broker. The broker
assigns tasks instead of partitions. A task is a subtopology together with a partition number. There is no type 18.

A process is one running instance of the application. Each stream thread of a process is a member of the group.
consumer_group.py explains epochs.
Source: StreamsGroup….json (4.3.1, and 4.4.0 for the two tags that were added in 4.4);
StreamsCoordinatorRecordHelpers.java.
"""

from __future__ import annotations

from kafkagroups.records.consumer_group import ConsumerGroupTargetAssignmentMetadataValue, MemberEpochs
from kafkagroups.records.structs import Message, Struct, field
from kafkagroups.records.wire import INT8, INT16, INT32, INT64, STRING, UINT16, Array


class LastAssignmentConfig(Message, flexible="0+"):
    """A setting of the assignor."""

    key: str = field(STRING, "a setting's name")
    value: str = field(STRING, "the setting's value")


class StreamsGroupMetadataValue(Message, flexible="0+"):
    """Type 17: the group, its epoch, and the last topology that the coordinator validated.

    Since 4.1. The record is written whenever the epoch increases. A tombstone deletes the group.
    `validated_topology_epoch` and `last_assignment_configs` were added in 4.2. `stored_description_topology_epoch` and
    `failed_description_topology_epoch` were added in 4.4. A topology epoch of -1 means "no topology".
    """

    epoch: int = field(INT32, "the group's epoch: increases when members, topology or topics change")
    metadata_hash: int = field(INT64, "a hash of the topics that the group reads")
    validated_topology_epoch: int = field(
        INT32, "epoch of the topology whose topics exist", tag=0, default=-1, since="4.2"
    )
    last_assignment_configs: tuple[LastAssignmentConfig, ...] | None = field(
        LastAssignmentConfig, "the assignor's settings", tag=1, since="4.2"
    )
    stored_description_topology_epoch: int = field(
        INT32, "epoch of the topology whose description is stored", tag=2, default=-1, since="4.4"
    )
    failed_description_topology_epoch: int = field(
        INT32, "epoch of the topology whose description could not be stored", tag=3, default=-1, since="4.4"
    )


class Endpoint(Message, flexible="0+"):
    """The address of one process of the application."""

    host: str = field(STRING, "where the instance answers queries")
    port: int = field(UINT16, "the port of the instance")


class KeyValue(Message, flexible="0+"):
    """A client tag: its name and its value."""

    key: str = field(STRING, "a client tag's name")
    value: str = field(STRING, "the value")


class StreamsGroupMemberMetadataValue(Message, flexible="0+"):
    """Type 19: a member, which is one stream thread of the application.

    Since 4.1. The record is written when the member joins and when its data changes. A tombstone means that the member
    left. The member's tombstone of type 22 comes before the tombstone of type 19.
    """

    instance_id: str | None = field(STRING, "a static member's name; null = dynamic")
    rack_id: str | None = field(STRING, "the rack where the client runs")
    client_id: str = field(STRING, "the client's id")
    client_host: str = field(STRING, "the host that the client connected from")
    rebalance_timeout_ms: int = field(INT32, "ms within which the member must give tasks back", default=-1)
    topology_epoch: int = field(INT32, "the epoch of the topology that the member runs")
    process_id: str = field(STRING, "the member's process; members of one process share their state")
    user_endpoint: Endpoint | None = field(
        Struct(Endpoint), "where the member answers queries; null = nowhere", default=None
    )
    client_tags: tuple[KeyValue, ...] = field(KeyValue, "tags for rack aware assignment")


class StreamsGroupTargetAssignmentMetadataValue(ConsumerGroupTargetAssignmentMetadataValue, flexible="0+"):
    """Type 20: the group epoch that the target assignment was computed for.

    Since 4.1. The record is written with a new assignment. When a group is deleted, a tombstone is written.
    `assignment_timestamp` was added in 4.3.
    """


class TargetTaskIds(Message, flexible="0+"):
    """The tasks of one subtopology in a target assignment. Kafka calls this struct TaskIds."""

    subtopology_id: str = field(STRING, "a part of the topology")
    partitions: tuple[int, ...] = field(Array(INT32), "the numbers of the tasks")


class StreamsGroupTargetAssignmentMemberValue(Message, flexible="0+"):
    """Type 21, since 4.1: the tasks that a member should have.

    The record is written when these tasks change. A tombstone means that the member left.
    """

    active_tasks: tuple[TargetTaskIds, ...] = field(TargetTaskIds, "tasks that the member runs")
    standby_tasks: tuple[TargetTaskIds, ...] = field(TargetTaskIds, "tasks whose state the member copies")
    warmup_tasks: tuple[TargetTaskIds, ...] = field(TargetTaskIds, "tasks that the member prepares to run")


class TaskIds(TargetTaskIds, flexible="0+"):
    """The tasks of one subtopology in a current assignment, with the epoch of each task."""

    assignment_epochs: tuple[int, ...] | None = field(
        Array(INT32), "the epoch since which the member has each task", tag=0, since="4.2"
    )


MEMBER_STATES = {1: "Stable", 2: "UnrevokedTasks", 3: "UnreleasedTasks"}
"""Kafka's names of the states in type 22. Source: MemberState.java in streams/ (4.3.1)."""


class StreamsGroupCurrentMemberAssignmentValue(MemberEpochs, flexible="0+"):
    """Type 22: the tasks that a member has now, and its state on the way to the target assignment.

    Since 4.1. The record is written whenever these tasks or the state change. A tombstone means that the member left.
    """

    state: int = field(INT8, "1 stable, 2 has to give tasks back, 3 waits for tasks of others")
    active_tasks: tuple[TaskIds, ...] = field(TaskIds, "tasks that the member runs")
    standby_tasks: tuple[TaskIds, ...] = field(TaskIds, "tasks whose state the member copies")
    warmup_tasks: tuple[TaskIds, ...] = field(TaskIds, "tasks that the member prepares to run")
    active_tasks_pending_revocation: tuple[TaskIds, ...] = field(
        TaskIds, "active tasks that the member has to give back"
    )
    standby_tasks_pending_revocation: tuple[TaskIds, ...] = field(
        TaskIds, "standby tasks that the member has to give back"
    )
    warmup_tasks_pending_revocation: tuple[TaskIds, ...] = field(
        TaskIds, "warm-up tasks that the member has to give back"
    )


class TopicConfig(Message, flexible="0+"):
    """A setting of a topic."""

    key: str = field(STRING, "a topic setting's name")
    value: str = field(STRING, "the value")


class TopicInfo(Message, flexible="0+"):
    """An internal topic of the application."""

    name: str = field(STRING, "an internal topic of the application")
    partitions: int = field(INT32, "how many partitions the topic should have; 0 = as many as its source")
    replication_factor: int = field(INT16, "how many replicas; 0 = the broker's default")
    topic_configs: tuple[TopicConfig, ...] = field(TopicConfig, "its settings")


class CopartitionGroup(Message, flexible="0+"):
    """Topics of a subtopology that need the same number of partitions.

    Each field contains indices into the field of Subtopology with the same name.
    """

    source_topics: tuple[int, ...] = field(Array(INT16), "indices of source topics")
    source_topic_regex: tuple[int, ...] = field(Array(INT16), "indices of patterns")
    repartition_source_topics: tuple[int, ...] = field(Array(INT16), "indices of repartition topics")


class Subtopology(Message, flexible="0+"):
    """A connected part of the topology."""

    subtopology_id: str = field(STRING, "a connected part of the topology")
    source_topics: tuple[str, ...] = field(Array(STRING), "the topics that it reads")
    source_topic_regex: tuple[str, ...] = field(Array(STRING), "the patterns of topics that it reads")
    state_changelog_topics: tuple[TopicInfo, ...] = field(TopicInfo, "topics that store its state")
    repartition_sink_topics: tuple[str, ...] = field(Array(STRING), "repartition topics that it writes")
    repartition_source_topics: tuple[TopicInfo, ...] = field(TopicInfo, "repartition topics that it reads")
    copartition_groups: tuple[CopartitionGroup, ...] = field(
        CopartitionGroup, "which of its topics need the same number of partitions"
    )


class StreamsGroupTopologyValue(Message, flexible="0+"):
    """Type 23, since 4.1: the application's topology.

    The record is written when a member sends a newer topology. A tombstone means that the group was deleted.
    """

    epoch: int = field(INT32, "counts the topologies of the application")
    subtopologies: tuple[Subtopology, ...] = field(Subtopology, "its parts")
