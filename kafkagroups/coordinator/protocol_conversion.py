"""What members and their records become when a group changes between the classic and the consumer protocol.

Source: GroupMetadataManager.validateOnlineUpgrade (4.3.1); ConsumerGroup.fromClassicGroup,
ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafkagroups.coordinator import group_store
from kafkagroups.coordinator.consumer_members import (
    STABLE,
    ConsumerMember,
    Epochs,
    Partitions,
    sort_names,
)
from kafkagroups.coordinator.consumer_targets import TopicImage, find_target
from kafkagroups.coordinator.messages import Errors, Refusal
from kafkagroups.coordinator.settings import ConsumerSettings
from kafkagroups.groups.group import CONSUMER, ClassicState
from kafkagroups.groups.living_groups import ClassicGroup, ClassicMember
from kafkagroups.groups.map_orders import timeline_map_order
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.records import consumer_protocol
from kafkagroups.records.consumer_group import ClassicMemberMetadata, ClassicProtocol, ConsumerGroupMemberMetadataValue
from kafkagroups.records.serde import Record

# Upgrade


def refuse_upgrade(group_id: str, reason: str) -> Refusal:
    text = f"Cannot upgrade classic group {group_id} to consumer group because {reason}."
    return Refusal(Errors.GROUP_ID_NOT_FOUND, text)


def check_upgrade(group: ClassicGroup, settings: ConsumerSettings) -> None:
    """Raise Refusal if the group may not become a consumer group, whatever its members' bytes are."""
    if settings.migration_policy not in ("bidirectional", "upgrade"):
        raise refuse_upgrade(group.group_id, "online upgrade is disabled")
    if group.protocol_type != CONSUMER:
        raise refuse_upgrade(group.group_id, "the group does not use the consumer embedded protocol")
    if len(group.members) > settings.max_size:
        raise refuse_upgrade(group.group_id, "the group size exceeds the consumer group maximum size")


def convert_to_consumer_members(group: ClassicGroup, image: TopicImage) -> list[ConsumerMember]:
    """Return the members in the order of their records. Raises InvalidRecord for malformed bytes, or Refusal."""
    members = {
        member.member_id: _convert_to_consumer_member(group, member, image) for member in group.ordered_members()
    }
    return [members[member_id] for member_id in timeline_map_order(members)]


def _convert_to_consumer_member(group: ClassicGroup, member: ClassicMember, image: TopicImage) -> ConsumerMember:
    assigned: Epochs = {}
    if member.assignment:
        assignment = consumer_protocol.decode_assignment(member.assignment).message
        if assignment.user_data:
            raise refuse_upgrade(
                group.group_id,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade",
            )
        for topic in assignment.assigned_partitions:
            topic_id = image.id_of(topic.topic)
            if topic_id is not None:
                assigned[topic_id] = dict.fromkeys(topic.partitions, group.generation)
    metadata = build_metadata(member, member.find_metadata(group.protocol))
    return ConsumerMember(member.member_id, metadata, group.generation, group.generation, STABLE, assigned)


def build_metadata(member: ClassicMember, subscription_bytes: bytes) -> ConsumerGroupMemberMetadataValue:
    """Return the member's record in a consumer group. Raises InvalidRecord if its subscription is malformed."""
    subscription = consumer_protocol.decode_subscription(subscription_bytes).message
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sort_names(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic_member_metadata=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=tuple(ClassicProtocol(name, metadata) for name, metadata in member.protocols),
        ),
    )


def build_upgrade_records(group_id: str, epoch: int, members: list[ConsumerMember], image: TopicImage) -> list[Record]:
    names = {name for member in members for name in member.metadata.subscribed_topic_names}
    return [
        *(group_store.member_record(group_id, member) for member in members),
        group_store.epoch_record(group_id, epoch, image.hash_of(names)),
        *(group_store.target_record(group_id, member.member_id, member.assigned) for member in members),
        group_store.assignment_epoch_record(group_id, epoch, 0),
        *(group_store.assignment_record(group_id, member) for member in members),
    ]


# Downgrade


def add_classic_members(
    classic: ClassicGroup,
    group: ModernGroup,
    members: Collection[ConsumerMember],
    replaced_ids: Mapping[str, str],
    image: TopicImage,
) -> None:
    """Give the new classic group these members of the consumer group, with their targets as assignments.

    `replaced_ids` are the new member ids of replaced static members, by their old ids.
    """
    by_id = {member.member_id: member for member in members}
    old_ids = {new_id: old_id for old_id, new_id in replaced_ids.items()}
    joining = [member_id for member_id in by_id if member_id in old_ids]
    staying = [each for each in group.ordered_member_ids() if each in by_id and each not in joining]
    for member_id in [*staying, *joining]:
        classic.add(_convert_to_classic_member(by_id[member_id]))
    classic.state = ClassicState.STABLE
    classic.protocol = classic.select_protocol()
    classic.compute_subscribed_topics()
    for member in classic.members.values():
        target = find_target(group, old_ids.get(member.member_id, member.member_id))
        member.assignment = encode_target(image, target, member.find_metadata(classic.protocol))


def _convert_to_classic_member(member: ConsumerMember) -> ClassicMember:
    metadata = member.metadata
    classic = metadata.classic_member_metadata
    assert classic is not None
    return ClassicMember(
        member.member_id,
        metadata.instance_id,
        metadata.client_id,
        metadata.client_host,
        metadata.rebalance_timeout_ms,
        classic.session_timeout_ms,
        CONSUMER,
        [(protocol.name, protocol.metadata) for protocol in classic.supported_protocols],
    )


def encode_target(image: TopicImage, target: Partitions, subscription: bytes) -> bytes:
    """Return partitions as a classic member reads them, in the version of its subscription."""
    names = image.names_by_id()
    assignment = consumer_protocol.ConsumerProtocolAssignment(
        assigned_partitions=tuple(
            consumer_protocol.TopicAndPartitions(names[topic_id], tuple(partitions))
            for topic_id, partitions in target.items()
            if topic_id in names
        ),
    )
    return consumer_protocol.encode_versioned(
        consumer_protocol.VersionedMessage(int.from_bytes(subscription[:2], "big"), assignment)
    )
