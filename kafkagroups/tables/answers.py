"""Groups as JSON: what `load --json` prints of a group, and what other commands print of one."""

from __future__ import annotations

import base64
from typing import Any

from kafkagroups.groups.group import Group
from kafkagroups.groups.member import Member
from kafkagroups.groups.modern_group import AnyGroup, ModernGroup, ModernMember, by_subtopology, by_topic
from kafkagroups.groups.offsets import KnownOffsets, OffsetAndMetadata, PartitionOffsets
from kafkagroups.groups.states import ClassicState
from kafkagroups.records.consumer_protocol import TopicPartitions
from kafkagroups.records.structs import to_json


def group_json(group: AnyGroup) -> dict[str, Any]:
    """What a coordinator answers about a group. Members are sorted by id."""
    return described_json(group) | {"offsets": offsets_json(group.offsets), "pending": pending_json(group.pending)}


def described_json(group: AnyGroup) -> dict[str, Any]:
    """The same without offsets."""
    return _classic_json(group) if isinstance(group, Group) else _modern_json(group)


def _classic_json(group: Group) -> dict[str, Any]:
    return {
        "partition": group.partition,
        "type": group.type,
        "state": group.state.value,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol if group.state is ClassicState.STABLE else "",
        "generation": group.generation,
        "leader": group.leader,
        "members": [member_json(group.members[member_id]) for member_id in sorted(group.members)],
    }


def _modern_json(group: ModernGroup) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "partition": group.partition,
        "type": group.type,
        "state": group.state.value,
        "protocol_type": group.type,
        "protocol": group.assignor,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.assignor,
        "members": [modern_member_json(group, group.members[member_id]) for member_id in sorted(group.members)],
    }
    if group.type == "streams":
        shown["topology"] = _topology(group)
    return shown


def modern_member_json(group: ModernGroup, member: ModernMember) -> dict[str, Any]:
    """A member of a consumer, share or streams group. Topics stand by their ids: the log has no names of them."""
    metadata, assigned, target = member.metadata, member.assignment, group.targets.get(member.member_id)

    def said(name: str, default: Any = None) -> Any:
        return getattr(metadata, name, default)

    shown = {
        "member_id": member.member_id,
        "group_instance_id": said("instance_id"),
        "rack_id": said("rack_id"),
        "client_id": said("client_id", ""),
        "client_host": said("client_host", ""),
        "rebalance_timeout_ms": said("rebalance_timeout_ms"),
        "member_epoch": member.member_epoch,
        "member_type": 0 if member.uses_classic_protocol else 1,
    }
    if group.type == "streams":
        shown |= {"topology_epoch": said("topology_epoch"), "process_id": said("process_id")}
        return shown | {"assignment": _tasks(assigned), "target_assignment": _tasks(target)}
    return shown | {
        "subscribed_topic_names": list(dict.fromkeys(said("subscribed_topic_names", ()))),
        "subscribed_topic_regex": said(
            "subscribed_topic_regex", "" if group.type == "consumer" and not metadata else None
        ),
        "assignment": assigned_partitions(group, member),
        "target_assignment": by_topic(getattr(target, "topic_partitions", ())),
    }


def assigned_partitions(group: ModernGroup, member: ModernMember) -> dict[str, list[int]]:
    """What a member of a consumer or share group holds; since 4.3 also what it still has to give back."""
    held = by_topic(getattr(member.assignment, "assigned_partitions", ()))
    if group.type == "consumer" and group.kafka >= (4, 3):
        for topic_id, partitions in by_topic(getattr(member.assignment, "partitions_pending_revocation", ())).items():
            held[topic_id] = sorted({*held.get(topic_id, ()), *partitions})
    return held


def subscribed_and_assigned(group: AnyGroup, shown: dict[str, Any]) -> tuple[list[str] | None, list[str] | None]:
    """Topics and partitions of a member (`shown` is its JSON) as texts; None where they cannot be told.

    Partitions of a consumer or share group are `topic id-partition`, active tasks of a streams group
    `subtopology_task`.
    """
    assignment = shown["assignment"] or {}
    if isinstance(group, Group):
        return (shown["subscription"] or {}).get("topics"), assignment.get("partitions")
    if group.type == "streams":
        return None, [f"{part}_{task}" for part, tasks in assignment["active"].items() for task in tasks]
    partitions = [f"{topic_id}-{partition}" for topic_id, those in assignment.items() for partition in those]
    return shown["subscribed_topic_names"], partitions


def _tasks(assignment: Any) -> dict[str, dict[str, list[int]]]:
    return {kind: by_subtopology(getattr(assignment, f"{kind}_tasks", ())) for kind in ("active", "standby", "warmup")}


def _topology(group: ModernGroup) -> dict[str, Any] | None:
    if group.topology is None:
        return None
    shown = to_json(group.topology, 0)
    return {
        "epoch": shown["epoch"],
        "subtopologies": sorted(shown["subtopologies"], key=lambda part: str(part["subtopologyId"])),
    }


def member_json(member: Member) -> dict[str, Any]:
    """A member, its subscription and assignment read where they can be."""
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "subscription": _subscription(member),
        "assignment": _assignment(member),
        "subscription_hex": member.subscription_bytes.hex(),
        "assignment_hex": member.assignment_bytes.hex(),
    }


def _subscription(member: Member) -> dict[str, Any] | None:
    if (subscription := member.subscription) is None:
        return None
    read = subscription.message
    return {
        "version": subscription.version,
        "topics": list(read.topics),
        "user_data": _base64(read.user_data),
        "owned_partitions": _partitions(read.owned_partitions),
        # Kafka's ConsumerProtocol takes a negative generation and an empty rack as none.
        "generation_id": read.generation_id if read.generation_id >= 0 else None,
        "rack_id": read.rack_id or None,
    }


def _assignment(member: Member) -> dict[str, Any] | None:
    if (assignment := member.assignment) is None:
        return None
    read = assignment.message
    return {
        "version": assignment.version,
        "partitions": _partitions(read.assigned_partitions),
        "user_data": _base64(read.user_data),
    }


def offsets_json(offsets: KnownOffsets) -> dict[str, Any]:
    """Committed offsets by topic-partition, in order."""
    return {str(partition): offset_json(offsets[partition]) for partition in sorted(offsets)}


def offset_json(offset: OffsetAndMetadata) -> dict[str, Any]:
    return {
        "offset": offset.offset,
        "leader_epoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "commit_timestamp": offset.commit_timestamp,
        "expire_timestamp": offset.expire_timestamp,
        "topic_id": offset.topic_id,
        "record_offset": offset.record_offset,
    }


def pending_json(pending: dict[int, PartitionOffsets]) -> dict[str, Any]:
    """Commits that wait for their transaction's end, by topic-partition, in order."""
    out: dict[str, list[dict[str, Any]]] = {}
    waiting = [(tp, producer, offset) for producer, offsets in pending.items() for tp, offset in offsets.items()]
    for partition, producer, offset in sorted(waiting, key=lambda entry: (entry[0], entry[1])):
        out.setdefault(str(partition), []).append(
            {
                "producer_id": producer,
                "offset": offset.offset,
                "metadata": offset.metadata,
                "record_offset": offset.record_offset,
            }
        )
    return out


def _partitions(topics: tuple[TopicPartitions, ...]) -> list[str]:
    pairs = sorted((topic.topic, partition) for topic in topics for partition in topic.partitions)
    return [f"{topic}-{partition}" for topic, partition in pairs]


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
