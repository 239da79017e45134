"""The members of a consumer group that still use the classic protocol.

The broker computes the assignments of classic members, too, and they learn them in two rounds: Heartbeat tells a member
to join again; JoinGroup takes it one step towards its target, and SyncGroup returns its assignment. Its generation is
its member epoch.
Source: GroupMetadataManager.classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup and their neighbours
(4.3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from kafkagroups.coordinator.consumer_groups import ConsumerGroups, MemberChange
from kafkagroups.coordinator.consumer_members import (
    UNRELEASED,
    UNREVOKED,
    ConsumerMember,
    find_member,
    find_or_create_member,
    find_static_member,
    read_members,
    update_metadata,
)
from kafkagroups.coordinator.consumer_migration import Migration, build_metadata
from kafkagroups.coordinator.consumer_targets import find_target
from kafkagroups.coordinator.error_codes import Errors, Refusal, convert_heartbeat_error
from kafkagroups.coordinator.group_store import Result
from kafkagroups.coordinator.messages import (
    HeartbeatRequest,
    JoinGroupResult,
    LeaveGroupResult,
    MemberIdentity,
    ResponseFuture,
    SyncGroupRequest,
    SyncGroupResult,
)
from kafkagroups.errors import InvalidRecord
from kafkagroups.groups.classic_group import CONSUMER, ClassicMember
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.records.consumer_group import ClassicMemberMetadata
from kafkagroups.records.consumer_protocol import ConsumerProtocolSubscription, decode_subscription
from kafkagroups.records.serde import Record


class ClassicMembers:
    def __init__(self, groups: ConsumerGroups, migration: Migration) -> None:
        self.groups = groups
        self.migration = migration
        self.settings = groups.settings

    def join(
        self, group: ModernGroup, joining: ClassicMember, *, is_unknown: bool, requires_known_id: bool
    ) -> ResponseFuture[JoinGroupResult]:
        """Answer a JoinGroup. An unknown member has the id that the coordinator chose."""
        is_downgrade = False

        def handle(_: object) -> Result[JoinGroupResult]:
            nonlocal is_downgrade
            self._check_joining(group, joining)
            if is_unknown and requires_known_id and joining.group_instance_id is None:
                raise Refusal(Errors.MEMBER_ID_REQUIRED, "the member must join again with its id")
            records: list[Record] = []
            change, is_downgrade = self._join(group, joining, records, is_unknown=is_unknown)
            result = JoinGroupResult(
                Errors.NONE, change.member_id, change.epoch, CONSUMER, protocol=joining.protocols[0][0]
            )
            return Result(result, records)

        def refuse(error: Errors, message: str | None) -> JoinGroupResult:
            return JoinGroupResult(error, joining.member_id if error is Errors.MEMBER_ID_REQUIRED else "")

        def start_timers(result: JoinGroupResult) -> None:
            if result.error is not Errors.NONE:
                return
            self.groups.timers.cancel(group.group_id, result.member_id, ["join"])
            if is_downgrade:
                return
            member = self.groups.find_member(group.group_id, result.member_id)
            if member is not None:
                self.groups.restart_session(group.group_id, member)
                self.groups.timers.restart(("sync", group.group_id, member.member_id), joining.rebalance_timeout_ms)

        response = self.groups.write(group.group_id, handle, refuse)
        response.then(start_timers)
        return response

    def _check_joining(self, group: ModernGroup, joining: ClassicMember) -> None:
        if self.settings.consumer.migration_policy == "disabled":
            raise Refusal(Errors.INCONSISTENT_GROUP_PROTOCOL, "the group migration is disabled")
        self.groups.check_size(group, joining.member_id, joining.group_instance_id)
        classic = [
            member.metadata.classic_member_metadata
            for member in read_members(group).values()
            if member.metadata.classic_member_metadata is not None
        ]
        names = [{protocol.name for protocol in each.supported_protocols} for each in classic]
        has_common_protocol = any(all(name in each for each in names) for name, _ in joining.protocols)
        if joining.protocol_type != CONSUMER or not has_common_protocol:
            raise Refusal(Errors.INCONSISTENT_GROUP_PROTOCOL, "the member's protocols are not supported")

    def _join(
        self, group: ModernGroup, joining: ClassicMember, records: list[Record], *, is_unknown: bool
    ) -> tuple[ConsumerMember, bool]:
        """Return the member after the JoinGroup, and whether the group becomes a classic group."""
        holder = find_static_member(group, joining.group_instance_id)
        if joining.group_instance_id is None:
            before = find_or_create_member(group, joining.member_id)
        elif is_unknown:
            before = self.groups.join_static(group, joining.member_id, holder, records)
        else:
            before = find_member(group, joining.member_id, joining.group_instance_id)
        subscription = self._read_subscription(joining)
        metadata = build_metadata(joining, joining.protocols[0][1])
        after = replace(before, metadata=update_metadata(before.metadata, **msgspec.structs.asdict(metadata)))
        change = MemberChange(group, before, after, records)
        self.groups.store_subscription(change)
        owned = {
            topic_id: topic.partitions
            for topic in subscription.owned_partitions
            if (topic_id := self.groups.image.id_of(topic.topic)) is not None
        }
        if not self.migration.can_replace(group, holder):
            self.groups.update_target(change)
            self.groups.reconcile(change, owned)
            return change.after, False
        assert holder is not None
        is_stale = group.assignment_epoch < change.epoch
        if not is_stale:
            change.target_epoch = group.assignment_epoch
            change.target = find_target(group, holder.member_id)
            self.groups.reconcile(change, owned)
        others = [each for each in read_members(group).values() if each.member_id != holder.member_id]
        self.migration.downgrade(
            group,
            [*others, change.after],
            records,
            rebalances=is_stale,
            replaced_ids={holder.member_id: change.after.member_id},
        )
        return change.after, True

    def _read_subscription(self, joining: ClassicMember) -> ConsumerProtocolSubscription:
        try:
            return decode_subscription(joining.protocols[0][1]).message
        except InvalidRecord:
            if self.settings.is_at_least(4, 4):
                raise Refusal(Errors.INCONSISTENT_GROUP_PROTOCOL, "the subscription is malformed") from None
            raise Refusal(Errors.UNKNOWN_SERVER_ERROR, None) from None

    def sync(self, group: ModernGroup, request: SyncGroupRequest) -> ResponseFuture[SyncGroupResult]:
        def handle(_: object) -> Result[SyncGroupResult]:
            member, classic = self._find_classic(group, request)
            has_other_name = request.protocol not in (None, classic.supported_protocols[0].name)
            if request.protocol_type not in (None, CONSUMER) or has_other_name:
                raise Refusal(Errors.INCONSISTENT_GROUP_PROTOCOL, "the protocol is not the group's")
            if group.assignment_epoch > member.epoch and member.state != UNREVOKED:
                self._await_join(group, member)
                raise Refusal(Errors.REBALANCE_IN_PROGRESS, "a new rebalance has begun")
            self.groups.timers.cancel(group.group_id, member.member_id, ["sync"])
            self.groups.restart_session(group.group_id, member)
            data = self.migration.encode_target(member.assigned, classic.supported_protocols[0].metadata)
            return Result(SyncGroupResult(Errors.NONE, request.protocol_type, request.protocol, data))

        return self.groups.write(group.group_id, handle, lambda error, _: SyncGroupResult(error))

    def heartbeat(self, group: ModernGroup, request: HeartbeatRequest) -> ResponseFuture[Errors]:
        """REBALANCE_IN_PROGRESS: the member must join again to come nearer to its target."""

        def handle(_: object) -> Result[Errors]:
            member, _classic = self._find_classic(group, request)
            self.groups.restart_session(group.group_id, member)
            waits_for_others = member.state == UNRELEASED and self._waits_for_others(group, member)
            is_behind = member.epoch < group.assignment_epoch or member.state == UNREVOKED
            if not is_behind and (member.state != UNRELEASED or waits_for_others):
                return Result(Errors.NONE)
            self._await_join(group, member)
            return Result(Errors.REBALANCE_IN_PROGRESS)

        return self.groups.write(group.group_id, handle, convert_heartbeat_error)

    def leave(self, group: ModernGroup, identities: Sequence[MemberIdentity]) -> ResponseFuture[LeaveGroupResult]:
        def handle(_: object) -> Result[LeaveGroupResult]:
            results = []
            members: dict[str, ConsumerMember] = {}
            for identity in identities:
                try:
                    member = self._find_leaving(group, identity)
                except Refusal as refusal:
                    results.append((identity, refusal.error))
                else:
                    results.append((identity, Errors.NONE))
                    members[member.member_id] = member
            records = self.groups.remove_members(group, list(members.values()))
            return Result(LeaveGroupResult(Errors.NONE, tuple(results)), records)

        return self.groups.write(group.group_id, handle, lambda error, _: LeaveGroupResult(error))

    def _find_leaving(self, group: ModernGroup, identity: MemberIdentity) -> ConsumerMember:
        if identity.group_instance_id is not None and not identity.member_id:
            member = find_static_member(group, identity.group_instance_id)
            if member is None:
                raise Refusal(Errors.UNKNOWN_MEMBER_ID, "")
            return member
        return find_member(group, identity.member_id, identity.group_instance_id)

    def _find_classic(
        self, group: ModernGroup, request: HeartbeatRequest
    ) -> tuple[ConsumerMember, ClassicMemberMetadata]:
        member = find_member(group, request.member_id, request.group_instance_id)
        classic = member.metadata.classic_member_metadata
        if classic is None:
            raise Refusal(Errors.UNKNOWN_MEMBER_ID, "the member does not use the classic protocol")
        if member.epoch != request.generation:
            raise Refusal(Errors.ILLEGAL_GENERATION, "the generation is not the member's epoch")
        return member, classic

    def _await_join(self, group: ModernGroup, member: ConsumerMember) -> None:
        """Start the timer within which the member must join again, unless it runs already."""
        key = ("join", group.group_id, member.member_id)
        if not self.groups.timers.is_running(key):
            self.groups.timers.restart(key, member.metadata.rebalance_timeout_ms)

    def _waits_for_others(self, group: ModernGroup, member: ConsumerMember) -> bool:
        target = find_target(group, member.member_id)
        return any(
            partition not in member.assigned.get(topic_id, ()) and partition in group.owners.epochs.get(topic_id, {})
            for topic_id, partitions in target.items()
            for partition in partitions
        )
