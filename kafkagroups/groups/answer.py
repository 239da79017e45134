"""Groups as JSON: what `load --json` prints of a group, and what other commands print of one."""

from __future__ import annotations

import base64
from typing import Any

from kafkagroups.groups.group import Group
from kafkagroups.groups.member import Member
from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets
from kafkagroups.groups.states import ClassicState
from kafkagroups.records.consumer_protocol import TopicPartitions


def group_json(group: Group) -> dict[str, Any]:
    """What a coordinator answers about a group. Members are sorted by id."""
    return {
        "partition": group.partition,
        "type": group.type,
        "state": group.state.value,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol if group.state is ClassicState.STABLE else "",
        "generation": group.generation,
        "leader": group.leader,
        "members": [member_json(group.members[member_id]) for member_id in sorted(group.members)],
        "offsets": offsets_json(group.offsets),
        "pending": pending_json(group.pending),
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


def offsets_json(offsets: PartitionOffsets) -> dict[str, Any]:
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
