"""Classic members of consumer groups, and the change of a group between the classic and the consumer protocol.

- An Empty group changes its type with the first member of the other protocol.
- Upgrade: the first member with the new protocol turns a classic group into a consumer group. Its classic members stay.
- Downgrade: when only classic members are left, the consumer group becomes a classic group.

The functions at the end say what members and their records become; the others when it happens, and who is told.

The broker computes the assignments of classic members, too, and they learn them in two rounds: Heartbeat tells a member
to join again; JoinGroup takes it one step towards its target, and SyncGroup returns its assignment. Its generation is
its member epoch.
Source: GroupMetadataManager.validateOnlineUpgrade, convertToConsumerGroup, convertToClassicGroup,
classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup and their neighbours; ConsumerGroup.fromClassicGroup,
ClassicGroup.fromConsumerGroup (4.3.1).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from kafkagroups.coordinator import group_store, messages
from kafkagroups.coordinator.consumer_groups import ConsumerGroups
from kafkagroups.coordinator.consumer_members import (
    STABLE,
    UNRELEASED,
    UNREVOKED,
    ConsumerMember,
    Epochs,
    MemberChange,
    Partitions,
    find_member,
    find_or_create_member,
    find_static_member,
    read_members,
    sort_names,
    update_metadata,
)
from kafkagroups.coordinator.consumer_targets import TopicImage, find_target
from kafkagroups.coordinator.group_store import Result
from kafkagroups.coordinator.messages import Errors, Refusal, ResponseFuture, find_error
from kafkagroups.errors import InvalidRecord
from kafkagroups.groups.group import CONSUMER, ClassicState
from kafkagroups.groups.living_groups import ClassicGroup, ClassicMember
from kafkagroups.groups.map_orders import timeline_map_order
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.modern_replay import apply_record, create_group
from kafkagroups.records import consumer_protocol
from kafkagroups.records.consumer_group import ClassicMemberMetadata, ClassicProtocol, ConsumerGroupMemberMetadataValue
from kafkagroups.records.serde import Record


class ConvertibleGroups(ConsumerGroups):
    """Consumer groups that can have classic members, with the requests of these, and the conversions of groups."""

    def find_or_create(self, group_id: str, records: list[Record]) -> ModernGroup:
        group = self.store.find_group(group_id)
        if isinstance(group, ClassicGroup):
            if group.state is not ClassicState.EMPTY:
                return self._upgrade(group, records)
            records.append(group_store.build_group_tombstone(group_id))
        elif group is not None:
            return require_consumer_group(group, group_id)
        return self._create_group(group_id)

    def _create_group(self, group_id: str) -> ModernGroup:
        return create_group(group_id, self.store.partition_for(group_id), CONSUMER, self.store.dialect)

    # Upgrade

    def _upgrade(self, classic: ClassicGroup, records: list[Record]) -> ModernGroup:
        self._check_upgrade(classic)
        group_id = classic.group_id
        for waiting in classic.ordered_members():
            messages.answer_join(waiting, messages.JoinGroupResult(Errors.REBALANCE_IN_PROGRESS, waiting.member_id))
            messages.answer_sync(waiting, messages.SyncGroupResult(Errors.REBALANCE_IN_PROGRESS))
        if classic.members and classic.protocol is None:
            raise Refusal(Errors.UNKNOWN_SERVER_ERROR)
        try:
            members = convert_to_consumer_members(classic, self.image)
        except InvalidRecord as error:
            if error.cause and self.settings.is_before(4, 4):
                raise Refusal(Errors.UNKNOWN_SERVER_ERROR) from None
            raise refuse_upgrade(group_id, "the embedded consumer protocol is malformed") from None
        upgrade = self._build_upgrade(group_id, classic.generation, members)
        records += [group_store.build_group_tombstone(group_id), *upgrade]
        group = self._create_group(group_id)
        for record in upgrade:
            apply_record(group, record)

        for member in members:
            self.restart_session(group_id, member)
        return group

    def _check_upgrade(self, group: ClassicGroup) -> None:
        """Raise Refusal if the group may not become a consumer group, whatever its members' bytes are."""
        settings = self.settings.consumer
        if settings.migration_policy not in ("bidirectional", "upgrade"):
            raise refuse_upgrade(group.group_id, "online upgrade is disabled")
        if group.protocol_type != CONSUMER:
            raise refuse_upgrade(group.group_id, "the group does not use the consumer embedded protocol")
        if len(group.members) > settings.max_size:
            raise refuse_upgrade(group.group_id, "the group size exceeds the consumer group maximum size")

    def _build_upgrade(self, group_id: str, epoch: int, members: list[ConsumerMember]) -> list[Record]:
        names = {name for member in members for name in member.metadata.subscribed_topic_names}
        return [
            *(group_store.member_record(group_id, member) for member in members),
            group_store.epoch_record(group_id, epoch, self.image.hash_of(names)),
            *(group_store.target_record(group_id, member.member_id, member.assigned) for member in members),
            group_store.assignment_epoch_record(group_id, epoch, 0),
            *(group_store.assignment_record(group_id, member) for member in members),
        ]

    # Downgrade

    def downgrade_without(self, group: ModernGroup, removed_ids: Collection[str], records: list[Record]) -> bool:
        remaining = self._find_classic_rest(group, removed_ids, self.settings.group_max_size)
        if remaining:
            self.downgrade(group, remaining, records, rebalances=True)
        return bool(remaining)

    def _find_classic_rest(
        self, group: ModernGroup, removed_ids: Collection[str], limit: int
    ) -> list[ConsumerMember] | None:
        """Return the other members; None if the group may not become a classic group with them."""
        remaining = [member for member in read_members(group).values() if member.member_id not in removed_ids]
        all_classic = all(member.uses_classic_protocol for member in remaining)
        is_allowed = self.settings.consumer.migration_policy in ("bidirectional", "downgrade")
        return remaining if all_classic and is_allowed and len(remaining) <= limit else None

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
        classic = self._build_classic(group, members, replaced_ids or {})
        assignments = {member.member_id: member.assignment for member in classic.members.values()}
        records += group_store.build_modern_tombstones(group, replaced_ids)
        records.append(self.store.build_group_record(classic, assignments))

        def start_classic_group() -> None:
            shard = self.store.find_runtime(group_id).shard
            if not isinstance(shard.groups.get(group_id), ClassicGroup):
                return
            self.forget(group_id)
            shard.groups[group_id] = classic
            for member in classic.members.values():
                self.rebalances.restart_session(classic, member)
            if rebalances:
                self.rebalances.prepare(classic)

        self.store.after_write.append(start_classic_group)

    def _build_classic(
        self, group: ModernGroup, members: Collection[ConsumerMember], replaced_ids: Mapping[str, str]
    ) -> ClassicGroup:
        """Return a classic group with these members of the consumer group, with their targets as assignments."""
        classic = self.store.build_group(group.group_id)
        classic.generation = group.group_epoch
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
            member.assignment = encode_target(self.image, target, member.find_metadata(classic.protocol))
        return classic

    # Requests of classic members to a consumer group

    def join_classic(
        self, group: ModernGroup, joining: ClassicMember, *, is_unknown: bool, requires_known_id: bool
    ) -> ResponseFuture[messages.JoinGroupResult]:
        """Answer a JoinGroup. An unknown member has the id that the coordinator chose."""

        def handle() -> Result[messages.JoinGroupResult]:
            self._check_joining(group, joining)
            if is_unknown and requires_known_id and joining.group_instance_id is None:
                raise Refusal(Errors.MEMBER_ID_REQUIRED)
            records: list[Record] = []
            member = self._join(group, joining, records, is_unknown=is_unknown)
            protocol, _ = joining.protocols[0]
            result = messages.JoinGroupResult(Errors.NONE, member.member_id, member.epoch, CONSUMER, protocol)
            return Result(result, records)

        def refuse(error: Errors, message: str | None) -> messages.JoinGroupResult:
            return messages.JoinGroupResult(error, joining.member_id if error is Errors.MEMBER_ID_REQUIRED else "")

        def start_timers(result: messages.JoinGroupResult) -> None:
            if result.error is not Errors.NONE:
                return
            self.timers.cancel(group.group_id, result.member_id, ["join"])
            member = self.find_member(group.group_id, result.member_id)
            if member is not None:  # Otherwise the group has become a classic group.
                self.restart_session(group.group_id, member)
                self.timers.restart(("sync", group.group_id, member.member_id), joining.rebalance_timeout_ms)

        response = self.store.write(group.group_id, handle, refuse)
        response.then(start_timers)
        return response

    def _check_joining(self, group: ModernGroup, joining: ClassicMember) -> None:
        if self.settings.consumer.migration_policy == "disabled":
            raise Refusal(Errors.INCONSISTENT_GROUP_PROTOCOL)
        self.check_size(group, joining.member_id, joining.group_instance_id)
        classic = [
            member.metadata.classic_member_metadata
            for member in read_members(group).values()
            if member.metadata.classic_member_metadata is not None
        ]
        names = [{protocol.name for protocol in each.supported_protocols} for each in classic]
        has_common_protocol = any(all(name in each for each in names) for name, _ in joining.protocols)
        if joining.protocol_type != CONSUMER or not has_common_protocol:
            raise Refusal(Errors.INCONSISTENT_GROUP_PROTOCOL)

    def _join(
        self, group: ModernGroup, joining: ClassicMember, records: list[Record], *, is_unknown: bool
    ) -> ConsumerMember:
        """Return the member after the JoinGroup, with which the group can become a classic group."""
        holder = find_static_member(group, joining.group_instance_id)
        if joining.group_instance_id is None:
            before = find_or_create_member(group, joining.member_id)
        elif is_unknown:
            before = self.join_static(group, joining.member_id, holder, records)
        else:
            before = find_member(group, joining.member_id, joining.group_instance_id)
        subscription = self._read_subscription(joining)
        metadata = build_metadata(joining, joining.protocols[0][1])
        after = replace(before, metadata=update_metadata(before.metadata, metadata))
        change = MemberChange(group, before, after, records)
        self.store_subscription(change)
        owned = {
            topic_id: topic.partitions
            for topic in subscription.owned_partitions
            if (topic_id := self.image.id_of(topic.topic)) is not None
        }
        others = None
        if holder is not None and not holder.uses_classic_protocol:
            others = self._find_classic_rest(group, [holder.member_id], self.settings.group_max_size - 1)
        if holder is None or others is None:
            self.update_target(change)
            self.reconcile(change, owned)
            return change.after
        is_stale = group.assignment_epoch < change.epoch
        if not is_stale:
            change.target_epoch = group.assignment_epoch
            change.target = find_target(group, holder.member_id)
            self.reconcile(change, owned)
        self.downgrade(
            group,
            [*others, change.after],
            records,
            rebalances=is_stale,
            replaced_ids={holder.member_id: change.after.member_id},
        )
        return change.after

    def _read_subscription(self, joining: ClassicMember) -> consumer_protocol.ConsumerProtocolSubscription:
        try:
            return consumer_protocol.decode_subscription(joining.protocols[0][1]).message
        except InvalidRecord:
            if self.settings.is_at_least(4, 4):
                raise Refusal(Errors.INCONSISTENT_GROUP_PROTOCOL) from None
            raise Refusal(Errors.UNKNOWN_SERVER_ERROR) from None

    def sync_classic(self, group: ModernGroup, request: messages.SyncGroupRequest) -> Result[messages.SyncGroupResult]:
        member, classic = self._find_classic(group, request)
        has_other_name = request.protocol not in (None, classic.supported_protocols[0].name)
        if request.protocol_type not in (None, CONSUMER) or has_other_name:
            raise Refusal(Errors.INCONSISTENT_GROUP_PROTOCOL)
        if group.assignment_epoch > member.epoch and member.state != UNREVOKED:
            self._await_join(group, member)
            raise Refusal(Errors.REBALANCE_IN_PROGRESS)
        self.timers.cancel(group.group_id, member.member_id, ["sync"])
        self.restart_session(group.group_id, member)
        data = encode_target(self.image, member.assigned, classic.supported_protocols[0].metadata)
        return Result(messages.SyncGroupResult(Errors.NONE, request.protocol_type, request.protocol, data))

    def heartbeat_classic(self, group: ModernGroup, request: messages.HeartbeatRequest) -> Result[Errors]:
        """REBALANCE_IN_PROGRESS: the member must join again to come nearer to its target."""
        member, _ = self._find_classic(group, request)
        self.restart_session(group.group_id, member)
        waits_for_others = member.state == UNRELEASED and self._waits_for_others(group, member)
        is_behind = member.epoch < group.assignment_epoch or member.state == UNREVOKED
        if not is_behind and (member.state != UNRELEASED or waits_for_others):
            return Result(Errors.NONE)
        self._await_join(group, member)
        return Result(Errors.REBALANCE_IN_PROGRESS)

    def leave_classic(
        self, group: ModernGroup, identities: Sequence[messages.MemberIdentity]
    ) -> Result[messages.LeaveGroupResult]:
        members: dict[str, ConsumerMember] = {}
        results = tuple((identity, find_error(self._collect, group, identity, members)) for identity in identities)
        records = self.remove_members(group, list(members.values()))
        return Result(messages.LeaveGroupResult(Errors.NONE, results), records)

    def _collect(
        self, group: ModernGroup, identity: messages.MemberIdentity, members: dict[str, ConsumerMember]
    ) -> None:
        member = find_static_member(group, identity.group_instance_id)
        if member is None or identity.member_id:
            member = find_member(group, identity.member_id, identity.group_instance_id)
        members[member.member_id] = member

    def _find_classic(
        self, group: ModernGroup, request: messages.HeartbeatRequest
    ) -> tuple[ConsumerMember, ClassicMemberMetadata]:
        member = find_member(group, request.member_id, request.group_instance_id)
        classic = member.metadata.classic_member_metadata
        if classic is None:
            raise Refusal(Errors.UNKNOWN_MEMBER_ID)
        if member.epoch != request.generation:
            raise Refusal(Errors.ILLEGAL_GENERATION)
        return member, classic

    def _await_join(self, group: ModernGroup, member: ConsumerMember) -> None:
        key = ("join", group.group_id, member.member_id)
        if not self.timers.is_running(key):
            self.timers.restart(key, member.metadata.rebalance_timeout_ms)

    def _waits_for_others(self, group: ModernGroup, member: ConsumerMember) -> bool:
        target = find_target(group, member.member_id)
        return any(
            partition not in member.assigned.get(topic_id, ()) and partition in group.owners.epochs.get(topic_id, {})
            for topic_id, partitions in target.items()
            for partition in partitions
        )


def require_consumer_group(group: object, group_id: str) -> ModernGroup:
    if isinstance(group, ModernGroup) and group.type == CONSUMER:
        return group
    raise Refusal(Errors.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def refuse_upgrade(group_id: str, reason: str) -> Refusal:
    text = f"Cannot upgrade classic group {group_id} to consumer group because {reason}."
    return Refusal(Errors.GROUP_ID_NOT_FOUND, text)


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
    by_name = {names[topic_id]: partitions for topic_id, partitions in target.items() if topic_id in names}
    return write_assignment(by_name, int.from_bytes(subscription[:2], "big"))


def write_assignment(partitions: Partitions, version: int) -> bytes:
    """`partitions` are by topic name. `version` is that of the byte layout."""
    topics = tuple(consumer_protocol.TopicAndPartitions(topic, tuple(partitions[topic])) for topic in partitions)
    assignment = consumer_protocol.ConsumerProtocolAssignment(topics)
    return consumer_protocol.encode_versioned(consumer_protocol.VersionedMessage(version, assignment))
