"""Groups as JSON: what `load --json` prints of a group, its members and its offsets."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from kafkagroups.groups.group import ClassicState, Group, Member
from kafkagroups.groups.modern_group import (
    MEMBER_STATES,
    AnyGroup,
    ModernGroup,
    ModernMember,
    partitions_by_topic,
    tasks_by_subtopology,
)
from kafkagroups.groups.offsets import OffsetAndMetadata, Orphan, PartitionOffsets, ReadOnlyOffsets, TopicPartition
from kafkagroups.records.consumer_protocol import TopicAndPartitions
from kafkagroups.records.structs import to_json

_MEMBER_FIELDS = "member_id group_instance_id client_id client_host rebalance_timeout_ms session_timeout_ms"
_OFFSET_FIELDS = "offset leader_epoch metadata commit_timestamp expire_timestamp topic_id record_offset"


def _read_fields(source: object, names: str) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names.split()}


def group_json(group: AnyGroup) -> dict[str, Any]:
    return description_json(group) | {"offsets": offsets_json(group.offsets), "pending": pending_json(group.pending)}


def orphan_json(orphan: Orphan) -> dict[str, Any]:
    return {"offsets": offsets_json(orphan.offsets), "pending": pending_json(orphan.pending)}


def description_json(group: AnyGroup) -> dict[str, Any]:
    description = {"partition": group.partition, "type": group.type, "state": group.state.value}
    return description | (_classic_json(group) if isinstance(group, Group) else _modern_json(group))


def _classic_json(group: Group) -> dict[str, Any]:
    return {
        "protocol_type": group.protocol_type,
        "protocol": group.protocol if group.state is ClassicState.STABLE else "",
        "generation": group.generation,
        "leader": group.leader,
        "members": [_member_json(group.members[member_id]) for member_id in sorted(group.members)],
    }


def _modern_json(group: ModernGroup) -> dict[str, Any]:
    description: dict[str, Any] = {
        "protocol_type": group.type,
        "protocol": group.assignor,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.assignor,
        "members": [modern_member_json(group, group.members[member_id]) for member_id in sorted(group.members)],
    }
    if group.type == "streams":
        description["topology"] = _topology(group)
    return description


def modern_member_json(group: ModernGroup, member: ModernMember) -> dict[str, Any]:
    """The records of such a member have topic ids instead of topic names."""
    metadata = member.metadata
    target = group.targets.get(member.member_id)

    def read_metadata(name: str, default: Any = None) -> Any:
        return getattr(metadata, name, default)

    member_fields = {
        "member_id": member.member_id,
        "group_instance_id": read_metadata("instance_id"),
        "rack_id": read_metadata("rack_id"),
        "client_id": read_metadata("client_id", ""),
        "client_host": read_metadata("client_host", ""),
        "rebalance_timeout_ms": read_metadata("rebalance_timeout_ms"),
        "member_epoch": member.member_epoch,
        "member_type": 0 if member.uses_classic_protocol else 1,
    }
    if group.type in MEMBER_STATES:
        member_fields["state"] = group.name_state(member)
        member_fields["previous_member_epoch"] = group.find_previous_epoch(member)
    if group.type == "streams":
        return member_fields | {
            "topology_epoch": read_metadata("topology_epoch"),
            "process_id": read_metadata("process_id"),
            "assignment": _tasks_by_role(member.assignment),
            "pending_revocation": _tasks_by_role(member.assignment, "_pending_revocation"),
            "target_assignment": _tasks_by_role(target),
        }
    # Without metadata, a member of a consumer group has the regex "" instead of null.
    default_regex = "" if group.type == "consumer" and not metadata else None
    if group.type == "consumer":
        revoking = getattr(member.assignment, "partitions_pending_revocation", ())
        member_fields["pending_revocation"] = partitions_by_topic(revoking)
    return member_fields | {
        "subscribed_topic_names": list(dict.fromkeys(read_metadata("subscribed_topic_names", ()))),
        "subscribed_topic_regex": read_metadata("subscribed_topic_regex", default_regex),
        "assignment": assigned_partitions(group, member),
        "target_assignment": partitions_by_topic(getattr(target, "topic_partitions", ())),
    }


def assigned_partitions(group: ModernGroup, member: ModernMember) -> dict[str, list[int]]:
    """In a consumer group of Kafka 4.3 or newer, the partitions include those that the member has not revoked yet, as
    in a broker's answers.
    """
    assigned = partitions_by_topic(getattr(member.assignment, "assigned_partitions", ()))
    if group.type == "consumer" and group.kafka >= (4, 3):
        revoking = partitions_by_topic(getattr(member.assignment, "partitions_pending_revocation", ()))
        for topic_id, partitions in revoking.items():
            assigned[topic_id] = sorted({*assigned.get(topic_id, ()), *partitions})
    return assigned


def member_rows(group: AnyGroup) -> Iterator[dict[str, Any]]:
    """Yield the JSON of each member, with `group`, `generation`, `subscribed_topics` and `assigned_partitions`.

    A classic group has partitions as `topic-partition`, and a list is None if its bytes cannot be read. A streams group
    has no topics, and its active tasks as `subtopology_task`. Others have partitions as `topic id-partition`.
    """
    description = description_json(group)
    for member in description["members"]:
        assignment = member["assignment"] or {}
        if isinstance(group, Group):
            topics = (member["subscription"] or {}).get("topics")
            assigned = assignment.get("partitions")
        else:
            topics = member.get("subscribed_topic_names")
            separator, numbers_of = ("_", assignment["active"]) if group.type == "streams" else ("-", assignment)
            assigned = [f"{name}{separator}{number}" for name, numbers in numbers_of.items() for number in numbers]
        yield member | {
            "group": group.group_id,
            "generation": description.get("generation"),
            "subscribed_topics": topics,
            "assigned_partitions": assigned,
        }


def _tasks_by_role(assignment: Any, suffix: str = "") -> dict[str, dict[str, list[int]]]:
    roles = ("active", "standby", "warmup")
    return {role: tasks_by_subtopology(getattr(assignment, f"{role}_tasks{suffix}", ())) for role in roles}


def _topology(group: ModernGroup) -> dict[str, Any] | None:
    if group.topology is None:
        return None
    topology = to_json(group.topology, 0)
    return {
        "epoch": topology["epoch"],
        "subtopologies": sorted(topology["subtopologies"], key=lambda subtopology: str(subtopology["subtopologyId"])),
    }


def _member_json(member: Member) -> dict[str, Any]:
    """A subscription or assignment that cannot be read is null."""
    return _read_fields(member, _MEMBER_FIELDS) | {
        "subscription": _subscription(member),
        "assignment": _assignment(member),
        "subscription_hex": member.subscription_bytes.hex(),
        "assignment_hex": member.assignment_bytes.hex(),
    }


def _subscription(member: Member) -> dict[str, Any] | None:
    subscription = member.subscription
    if subscription is None:
        return None
    message = subscription.message
    return {
        "version": subscription.version,
        "topics": list(message.topics),
        "user_data": _base64(message.user_data),
        "owned_partitions": _partition_texts(message.owned_partitions),
        # Kafka's ConsumerProtocol treats a negative generation and an empty rack as missing.
        "generation_id": message.generation_id if message.generation_id >= 0 else None,
        "rack_id": message.rack_id or None,
    }


def _assignment(member: Member) -> dict[str, Any] | None:
    assignment = member.assignment
    if assignment is None:
        return None
    message = assignment.message
    return {
        "version": assignment.version,
        "partitions": _partition_texts(message.assigned_partitions),
        "user_data": _base64(message.user_data),
    }


def offset_json(offset: OffsetAndMetadata) -> dict[str, Any]:
    return _read_fields(offset, _OFFSET_FIELDS)


def offsets_json(offsets: ReadOnlyOffsets) -> dict[str, Any]:
    return {str(partition): offset_json(offsets[partition]) for partition in sorted(offsets)}


def sorted_pending(pending: dict[int, PartitionOffsets]) -> list[tuple[TopicPartition, int, OffsetAndMetadata]]:
    commits = [
        (partition, producer_id, offset)
        for producer_id, offsets in pending.items()
        for partition, offset in offsets.items()
    ]
    return sorted(commits, key=lambda commit: commit[:2])


def pending_json(pending: dict[int, PartitionOffsets]) -> dict[str, Any]:
    """Return the commits of open transactions by topic-partition, for which several producers can have one."""
    commits_by_partition: dict[str, list[dict[str, Any]]] = {}
    for partition, producer_id, offset in sorted_pending(pending):
        commit = {"producer_id": producer_id} | _read_fields(offset, "offset metadata record_offset")
        commits_by_partition.setdefault(str(partition), []).append(commit)
    return commits_by_partition


def _partition_texts(topics: tuple[TopicAndPartitions, ...]) -> list[str]:
    pairs = sorted((topic.topic, partition) for topic in topics for partition in topic.partitions)
    return [f"{topic}-{partition}" for topic, partition in pairs]


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
