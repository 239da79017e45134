"""The change of a group between the classic and the consumer protocol.

- An Empty group changes its type with the first member of the other protocol.
- Upgrade: the first member with the new protocol turns a classic group into a consumer group. Its classic members stay.
- Downgrade: when only classic members are left, the consumer group becomes a classic group.

Source: GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup, classicGroupJoinToConsumerGroup and its
neighbours; ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup (4.3.1).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafkagroups.coordinator.consumer_groups import ConsumerGroups
from kafkagroups.coordinator.consumer_members import (
    STABLE,
    ConsumerMember,
    Epochs,
    Partitions,
    read_members,
    sort_names,
)
from kafkagroups.coordinator.consumer_targets import find_target
from kafkagroups.coordinator.error_codes import Errors, Refusal
from kafkagroups.coordinator.group_records import (
    assignment_epoch_record,
    assignment_record,
    build_group_tombstone,
    build_modern_tombstones,
    epoch_record,
    member_record,
    target_record,
)
from kafkagroups.coordinator.messages import JoinGroupResult, SyncGroupResult, answer_join, answer_sync
from kafkagroups.coordinator.rebalance import Rebalances
from kafkagroups.errors import InvalidRecord
from kafkagroups.groups.classic_group import CONSUMER, ClassicGroup, ClassicMember
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.living_shard import LivingShard
from kafkagroups.groups.map_orders import timeline_map_order
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.modern_replay import apply_record, create_group
from kafkagroups.records.consumer_group import ClassicMemberMetadata, ClassicProtocol, ConsumerGroupMemberMetadataValue
from kafkagroups.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicAndPartitions,
    VersionedMessage,
    decode_assignment,
    decode_subscription,
    encode_versioned,
)
from kafkagroups.records.serde import Record


class Migration:
    """The conversions of groups. A downgrade needs `rebalances`, because the classic group begins with one."""

    def __init__(self, groups: ConsumerGroups, rebalances: Rebalances) -> None:
        self.groups = groups
        self.rebalances = rebalances
        self.image = groups.image
        self.settings = groups.settings
        groups.downgrade = self.downgrade_without

    def find_or_create(self, shard: LivingShard, group_id: str, records: list[Record]) -> ModernGroup:
        """Return the consumer group that a member joins. Convert a classic group, or create the group."""
        group = shard.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            if group.state is not ClassicState.EMPTY:
                return self._upgrade(shard, group, records)
            records.append(build_group_tombstone(group_id))
        elif group is not None:
            return require_consumer_group(group, group_id)
        return create_group(group_id, shard.partition, CONSUMER, shard.dialect)

    # Upgrade

    def _upgrade(self, shard: LivingShard, classic: ClassicGroup, records: list[Record]) -> ModernGroup:
        self._check_upgrade(classic)
        group_id = classic.group_id
        epoch = classic.generation
        for waiting in classic.ordered_members():
            answer_join(waiting, JoinGroupResult(Errors.REBALANCE_IN_PROGRESS, waiting.member_id))
            answer_sync(waiting, SyncGroupResult(Errors.REBALANCE_IN_PROGRESS))
        if classic.protocol is None:
            raise Refusal(Errors.UNKNOWN_SERVER_ERROR, None)
        members: dict[str, ConsumerMember] = {}
        try:
            for classic_member in classic.ordered_members():
                member = self._convert_member(classic, classic_member)
                members[member.member_id] = member
        except InvalidRecord as error:
            if error.cause and self.settings.is_before(4, 4):
                raise Refusal(Errors.UNKNOWN_SERVER_ERROR, None) from None
            text = "the embedded consumer protocol is malformed"
            raise _refuse(f"Cannot upgrade classic group {group_id} to consumer group because {text}.") from None
        ordered = [members[member_id] for member_id in timeline_map_order(members)]
        names = {name for member in ordered for name in member.metadata.subscribed_topic_names}
        upgrade = [
            *(member_record(group_id, member) for member in ordered),
            epoch_record(group_id, epoch, self.image.hash_of(names)),
            *(target_record(group_id, member.member_id, member.assigned) for member in ordered),
            assignment_epoch_record(group_id, epoch, 0),
            *(assignment_record(group_id, member) for member in ordered),
        ]
        records += [build_group_tombstone(group_id), *upgrade]
        group = create_group(group_id, shard.partition, CONSUMER, shard.dialect)
        for record in upgrade:
            apply_record(group, record)

        def start_sessions() -> None:
            if shard.groups.get(group_id) is classic:
                return
            for member in ordered:
                if not self.groups.timers.is_running(("session", group_id, member.member_id)):
                    self.groups.restart_session(group_id, member)

        self.groups.after_write.append(start_sessions)
        return group

    def _check_upgrade(self, group: ClassicGroup) -> None:
        text = None
        if not self.settings.consumer.can_upgrade:
            text = "online upgrade is disabled"
        elif group.protocol_type != CONSUMER:
            text = "the group does not use the consumer embedded protocol"
        elif len(group.members) > self.settings.consumer.max_size:
            text = "the group size exceeds the consumer group maximum size"
        if text is not None:
            raise _refuse(f"Cannot upgrade classic group {group.group_id} to consumer group because {text}.")

    def _convert_member(self, group: ClassicGroup, member: ClassicMember) -> ConsumerMember:
        """Raises InvalidRecord for malformed bytes."""
        assigned: Epochs = {}
        if member.assignment:
            assignment = decode_assignment(member.assignment).message
            if assignment.user_data:
                raise _refuse(
                    f"Cannot upgrade classic group {group.group_id} to consumer group because an unsupported custom "
                    "assignor is in use. Please refer to the documentation or switch to a default assignor before "
                    "re-attempting the upgrade."
                )
            for topic in assignment.assigned_partitions:
                topic_id = self.image.id_of(topic.topic)
                if topic_id is not None:
                    assigned[topic_id] = dict.fromkeys(topic.partitions, group.generation)
        metadata = build_metadata(member, member.find_metadata(group.protocol))
        return ConsumerMember(member.member_id, metadata, group.generation, group.generation, STABLE, assigned)

    # Downgrade

    def downgrade_without(self, group: ModernGroup, removed_ids: Collection[str], records: list[Record]) -> bool:
        """Add the records of a downgrade if only classic members remain and it is allowed. Return whether it is."""
        remaining = [member for member in read_members(group).values() if member.member_id not in removed_ids]
        if not remaining or not self._can_downgrade(remaining):
            return False
        self.downgrade(group, remaining, records, rebalances=True)
        return True

    def can_replace(self, group: ModernGroup, replaced: ConsumerMember | None) -> bool:
        if replaced is None or replaced.uses_classic_protocol:
            return False
        others = [member for member in read_members(group).values() if member.member_id != replaced.member_id]
        return len(others) < self.settings.group_max_size and self._can_downgrade(others)

    def _can_downgrade(self, remaining: Collection[ConsumerMember]) -> bool:
        all_classic = all(member.uses_classic_protocol for member in remaining)
        return all_classic and self.settings.consumer.can_downgrade and len(remaining) <= self.settings.group_max_size

    def downgrade(
        self,
        group: ModernGroup,
        members: Collection[ConsumerMember],
        records: list[Record],
        *,
        rebalances: bool,
        replaced_ids: Mapping[str, str] | None = None,
    ) -> None:
        """Add the records that turn the group into a classic group with these members.

        `replaced_ids` are the new member ids of replaced static members, by their old ids.
        """
        group_id = group.group_id
        by_id = {member.member_id: member for member in members}
        old_ids = {new_id: old_id for old_id, new_id in (replaced_ids or {}).items()}
        joining = [member_id for member_id in by_id if member_id in old_ids]
        order = [*(each for each in group.ordered_member_ids() if each in by_id and each not in joining), *joining]
        classic = ClassicGroup(
            group_id,
            self.settings.version,
            self.groups.clock.now_ms,
            generation=group.group_epoch,
            protocol_type=CONSUMER,
        )
        for member_id in order:
            classic.add(_to_classic_member(by_id[member_id]))
        classic.state = ClassicState.STABLE
        classic.protocol = classic.select_protocol()
        classic.compute_subscribed_topics()
        for member in classic.members.values():
            target = find_target(group, old_ids.get(member.member_id, member.member_id))
            member.assignment = self.encode_target(target, member.find_metadata(classic.protocol))
        assignments = {member.member_id: member.assignment for member in classic.members.values()}
        records += build_modern_tombstones(group, replaced_ids)
        records.append(self.groups.store.build_group_record(classic, assignments))

        def start_classic_group() -> None:
            shard = self.groups.store.find_runtime(group_id).shard
            if not isinstance(shard.groups.get(group_id), ClassicGroup):
                return
            self.groups.stop_group(group)
            shard.groups[group_id] = classic
            for member in classic.members.values():
                self.groups.timers.cancel(group_id, member.member_id)
                self.rebalances.restart_session(classic, member)
            if rebalances:
                self.rebalances.prepare(classic)

        self.groups.after_write.append(start_classic_group)

    def encode_target(self, target: Partitions, subscription: bytes) -> bytes:
        """Return partitions as a classic member reads them, in the version of its subscription."""
        names = self.image.names_by_id()
        assignment = ConsumerProtocolAssignment(
            assigned_partitions=tuple(
                TopicAndPartitions(names[topic_id], tuple(partitions))
                for topic_id, partitions in target.items()
                if topic_id in names
            ),
            user_data=None,
        )
        return encode_versioned(VersionedMessage(int.from_bytes(subscription[:2], "big"), assignment))


def require_consumer_group(group: object, group_id: str) -> ModernGroup:
    if isinstance(group, ModernGroup) and group.type == CONSUMER:
        return group
    raise _refuse(f"Group {group_id} is not a consumer group.")


def build_metadata(member: ClassicMember, subscription_bytes: bytes) -> ConsumerGroupMemberMetadataValue:
    """Return the member's record in a consumer group. Raises InvalidRecord if its subscription is malformed."""
    subscription = decode_subscription(subscription_bytes).message
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sort_names(subscription.topics),
        subscribed_topic_regex="",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic_member_metadata=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=tuple(ClassicProtocol(name, metadata) for name, metadata in member.protocols),
        ),
    )


def _to_classic_member(member: ConsumerMember) -> ClassicMember:
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


def _refuse(text: str) -> Refusal:
    return Refusal(Errors.GROUP_ID_NOT_FOUND, text)
