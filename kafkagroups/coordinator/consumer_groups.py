"""Consumer groups (KIP-848): the broker computes the assignments, and each member follows its target by heartbeats.

    heartbeat ──▶ subscription changed? ──▶ new group epoch ──▶ new targets ──▶ one step of this member
                  records 5, 16             3                   7, 6            8

A handler reads the replayed group, and returns the records of everything that the heartbeat changes. What is not in the
log lives here: the timers of the members, and which groups have patterns that are being resolved.

Simpler than Kafka: tombstones of type 4, which a log of Kafka 4.0 can need, are not written.
Source: GroupMetadataManager.consumerGroupHeartbeat, consumerGroupLeave, maybeUpdateRegularExpressions,
consumerGroupFenceMembers (4.3.1). What 4.4 does otherwise is known from recorded conversations.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import msgspec

from kafkagroups.coordinator import consumer_members, consumer_targets, group_store, messages
from kafkagroups.coordinator.clock import MemberTimers, TimerKey
from kafkagroups.coordinator.consumer_members import ConsumerMember, MemberChange, Partitions
from kafkagroups.coordinator.consumer_targets import PatternResolver, Subscriptions, TopicImage
from kafkagroups.coordinator.group_store import Result
from kafkagroups.coordinator.messages import Errors, Refusal
from kafkagroups.coordinator.partitioned_groups import PartitionedGroups
from kafkagroups.coordinator.rebalance import Rebalances
from kafkagroups.groups.map_orders import java_map_order
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.records.serde import Record

TIMER_RETRY_MS = 500
"""After a failed append, a timer runs again this much later (CoordinatorTimerImpl, 4.3.1)."""

logger = logging.getLogger("kafkagroups.coordinator")


class ConsumerGroups(ABC):
    """`group_configs` are the settings of single groups, by group id, with Kafka's names. A downgrade needs
    `rebalances`, because the classic group begins with one.
    """

    def __init__(
        self,
        store: PartitionedGroups,
        rebalances: Rebalances,
        image: TopicImage,
        group_configs: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.store = store
        self.rebalances = rebalances
        self.image = image
        self.group_configs = group_configs
        self.settings = store.settings
        self.clock = store.clock
        self.timers = MemberTimers(store.clock, self._expire)
        refresh_interval_ms = self.settings.consumer.regex_refresh_interval_ms
        self.patterns = PatternResolver(store, image, refresh_interval_ms, self.note_topics)
        self._default_assignor = self.settings.consumer.assignors[0]
        self._noted_topics: dict[str, tuple[int, dict[str, tuple[str, int]]]] = {}

    # ConsumerGroupHeartbeat

    def heartbeat(
        self, request: messages.ConsumerHeartbeat, group: ModernGroup, records: list[Record]
    ) -> Result[messages.ConsumerHeartbeatResult]:
        before = self._find_member(group, request, records)
        metadata = consumer_members.update_metadata(before.metadata, request)
        after = replace(before, metadata=msgspec.structs.replace(metadata, classic_member_metadata=None))
        change = MemberChange(group, before, after, records)
        self.store_subscription(change)
        self.update_target(change)
        self.reconcile(change, request.topic_partitions)
        self.restart_session(group.group_id, change.after)
        is_new_assignment = before.assigned != change.after.assigned
        shows_assignment = request.member_epoch == messages.JOIN_EPOCH or request.is_full or is_new_assignment
        result = messages.ConsumerHeartbeatResult(
            member_id=change.after.member_id,
            member_epoch=change.after.epoch,
            heartbeat_interval_ms=self._find_setting(group.group_id, "heartbeat_interval_ms"),
            assignment=change.after.assigned if shows_assignment else None,
        )
        return Result(result, records)

    def leave(
        self, request: messages.ConsumerHeartbeat, group: ModernGroup
    ) -> Result[messages.ConsumerHeartbeatResult]:
        member = consumer_members.find_member(group, request.member_id, request.instance_id)
        result = messages.ConsumerHeartbeatResult(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.instance_id is None or request.member_epoch == messages.LEAVE_EPOCH:
            return Result(result, self.remove_members(group, [member]))
        absent = replace(
            member,
            epoch=messages.LEAVE_STATIC_EPOCH,
            assigned={topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()},
            revoking={},
        )
        return Result(result, [group_store.assignment_record(group.group_id, absent)])

    def check_size(self, group: ModernGroup, member_id: str, instance_id: str | None) -> None:
        """Raise Refusal if the group is full and the member is new. Since 4.4 a static member may return."""
        limit = self.settings.consumer.max_size
        is_known = member_id in group.members
        if self.settings.is_at_least(4, 4):
            is_known |= consumer_members.find_static_member(group, instance_id) is not None
        if len(group.members) >= limit and not is_known:
            message = f"The consumer group has reached its maximum capacity of {limit} members."
            raise Refusal(Errors.GROUP_MAX_SIZE_REACHED, message)

    def _find_member(
        self, group: ModernGroup, request: messages.ConsumerHeartbeat, records: list[Record]
    ) -> ConsumerMember:
        joins = request.member_epoch == messages.JOIN_EPOCH
        self.check_size(group, request.member_id, request.instance_id)
        if not joins:
            member = consumer_members.find_member(group, request.member_id, request.instance_id)
        elif request.instance_id is None:
            member = consumer_members.find_or_create_member(group, request.member_id)
        else:
            holder = consumer_members.find_static_member(group, request.instance_id)
            if holder is not None and not holder.uses_classic_protocol and holder.epoch != messages.LEAVE_STATIC_EPOCH:
                raise Refusal(
                    Errors.UNRELEASED_INSTANCE_ID,
                    f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group "
                    f"because the instance id is owned by {holder.member_id} member.",
                )
            return self.join_static(group, request.member_id, holder, records)
        consumer_members.check_epoch(member, request.member_epoch, request.topic_partitions)
        return member

    def join_static(
        self, group: ModernGroup, member_id: str, holder: ConsumerMember | None, records: list[Record]
    ) -> ConsumerMember:
        """Return a joining static member, which takes over everything from the holder of its instance id."""
        if holder is None:
            return consumer_members.find_or_create_member(group, member_id)
        member = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)
        target = consumer_targets.find_target(group, holder.member_id)
        records += group_store.removal_records(group.group_id, holder.member_id)
        records.append(group_store.member_record(group.group_id, member))
        records.append(group_store.target_record(group.group_id, member_id, target))
        records.append(group_store.assignment_record(group.group_id, member))
        return member

    # The steps of a change

    def store_subscription(self, change: MemberChange) -> None:
        """Write the member, its pattern, and a new group epoch if the group needs new targets.

        The topics' hash is only computed for a new subscription, or if a topic has changed.
        """
        group = change.group
        before = change.before
        after = change.after
        if before.metadata != after.metadata:
            change.records.append(group_store.member_record(group.group_id, after))
        has_new_names = before.metadata.subscribed_topic_names != after.metadata.subscribed_topic_names
        has_new_regex = before.metadata.subscribed_topic_regex != after.metadata.subscribed_topic_regex
        is_resolved = has_new_regex and self.patterns.change(group, before, after, change.records)
        self.patterns.maybe_resolve(group, before, after)
        change.has_new_subscription = has_new_names or has_new_regex
        needs_epoch = has_new_names or is_resolved or (has_new_regex and after.uses_classic_protocol)
        if self.settings.is_at_least(4, 4) and not after.uses_classic_protocol:
            assignor = consumer_targets.find_assignor(group, self._default_assignor)
            needs_epoch |= assignor != self._choose_assignor(change)
        subscriptions = Subscriptions(consumer_members.read_members(group).values(), group.resolved)
        change.has_same_topics = replace(subscriptions, resolved=group.earlier_resolved).are_equal()
        if needs_epoch or self._has_changed_topic(group, subscriptions):
            subscriptions = consumer_targets.change_subscriptions(group, before, after)
            metadata_hash = self.image.hash_of(subscriptions.topic_names())
            needs_epoch |= metadata_hash != group.metadata_hash
            if needs_epoch:
                change.records.append(group_store.epoch_record(group.group_id, group.group_epoch + 1, metadata_hash))
            if self.store.find_modern_group(group.group_id) is group:
                self.note_topics(group.group_id, group.group_epoch + needs_epoch)
            change.has_same_topics = subscriptions.are_equal()
        change.epoch = group.group_epoch + needs_epoch

    def note_topics(self, group_id: str, epoch: int) -> None:
        """Note that the group's topics were compared with the present topics, for this group epoch.

        Kafka keeps this in the group. The group that a request has just made is not the one that its records make.
        """
        self._noted_topics[group_id] = (epoch, self.image.snapshot())

    def _has_changed_topic(self, group: ModernGroup, subscriptions: Subscriptions) -> bool:
        """Return whether a topic has changed since `note_topics`, or the group was loaded since."""
        epoch, noted = self._noted_topics.get(group.group_id, (group.group_epoch + 1, {}))
        topics = self.image.snapshot()
        has_other_topic = any(noted.get(name) != topics.get(name) for name in subscriptions.topic_names())
        return group.group_epoch < epoch or has_other_topic

    def update_target(self, change: MemberChange) -> None:
        group = change.group
        after = change.after
        interval_ms = self._find_setting(group.group_id, "assignment_interval_ms")
        due_ms = group.assignment_timestamp + interval_ms if group.assignment_timestamp else 0
        if group.assignment_epoch >= change.epoch or self.clock.now_ms < due_ms:
            owner: ConsumerMember | None = after
            if after.metadata.instance_id is not None:
                owner = consumer_members.find_static_member(group, after.metadata.instance_id)
            change.target_epoch = group.assignment_epoch
            change.target = {} if owner is None else consumer_targets.find_target(group, owner.member_id)
            return
        targets = consumer_targets.compute_targets(
            group, self.image, after, self._choose_assignor(change), has_same_topics=change.has_same_topics
        )
        change.records += consumer_targets.target_records(group, targets, change.epoch, self.clock.now_ms)
        change.target_epoch = change.epoch
        change.target = targets[after.member_id]

    def reconcile(self, change: MemberChange, owned: Partitions | None) -> None:
        group = change.group
        member = change.after
        names = consumer_targets.find_topic_names(member, group.resolved)
        change.after = consumer_members.reconcile(change, owned, self.image.ids_of(names) if names else None)
        if change.after == member:
            return
        change.records.append(group_store.assignment_record(group.group_id, change.after))
        if member.uses_classic_protocol:
            return
        if change.after.state == consumer_members.UNREVOKED:
            self._restart_rebalance(group.group_id, change.after)
        else:
            self.timers.cancel(group.group_id, member.member_id, ["rebalance"])

    def _choose_assignor(self, change: MemberChange) -> str:
        return consumer_targets.choose_assignor(change.group, change.before, change.after, self._default_assignor)

    # Removing members

    @abstractmethod
    def downgrade_without(self, group: ModernGroup, removed_ids: Collection[str], records: list[Record]) -> bool:
        """Add the records of a downgrade if only classic members remain and it is allowed. Return whether it is."""

    def remove_members(self, group: ModernGroup, members: Sequence[ConsumerMember]) -> list[Record]:
        """Return the records of the removal. If only classic members remain, the group may become classic."""
        group_id = group.group_id
        records: list[Record] = []
        removed_ids = {member.member_id for member in members}
        if not members or self.downgrade_without(group, removed_ids, records):
            return records
        for member in members:
            records += group_store.removal_records(group_id, member.member_id)
        present = consumer_members.read_members(group)
        if self._has_changed_topic(group, Subscriptions(present.values(), group.resolved)):
            self._noted_topics.pop(group_id, None)  # Kafka has noted the change already, so it outlasts the member.
        remaining = {member_id: each for member_id, each in present.items() if member_id not in removed_ids}
        given_up = java_map_order(
            each.regex
            for each in reversed(members)
            if each.regex and not consumer_targets.count_subscribers(remaining, each.regex)
        )
        records += [group_store.pattern_record(group_id, pattern, None) for pattern in given_up]
        resolved = {pattern: value for pattern, value in group.resolved.items() if pattern not in given_up}
        metadata_hash = self.image.hash_of(Subscriptions(remaining.values(), resolved).topic_names())
        epoch = group.group_epoch + 1
        records.append(group_store.epoch_record(group_id, epoch, metadata_hash))
        if not remaining and self.settings.is_at_least(4, 4):
            records.append(group_store.assignment_epoch_record(group_id, epoch, 0))
        for member_id in removed_ids:
            self.timers.cancel(group_id, member_id)
        return records

    # Timers

    def restart_session(self, group_id: str, member: ConsumerMember) -> None:
        """A classic member has a timeout of its own."""
        own = member.metadata.classic_member_metadata
        timeout_ms = self._find_setting(group_id, "session_timeout_ms") if own is None else own.session_timeout_ms
        self.timers.restart(("session", group_id, member.member_id), timeout_ms)

    def start_group(self, group: ModernGroup) -> None:
        """Start the timers of a loaded group. Classic members have the group's timeout until they ask."""
        timeout_ms = self._find_setting(group.group_id, "session_timeout_ms")
        for member_id in group.ordered_member_ids():
            member = consumer_members.read_member(group.members[member_id])
            self.timers.restart(("session", group.group_id, member_id), timeout_ms)
            if member.state == consumer_members.UNREVOKED:
                self._restart_rebalance(group.group_id, member)

    def stop_group(self, group: ModernGroup) -> None:
        for member_id in group.members:
            self.timers.cancel(group.group_id, member_id)
        self.forget(group.group_id)

    def forget(self, group_id: str) -> None:
        """Forget what belongs to the group alone. The timers of a group that becomes classic go on, as in Kafka."""
        self.patterns.forget(group_id)
        self._noted_topics.pop(group_id, None)

    def find_member(self, group_id: str, member_id: str) -> ConsumerMember | None:
        group = self.store.find_modern_group(group_id)
        member = None if group is None else group.members.get(member_id)
        return None if member is None else consumer_members.read_member(member)

    def _restart_rebalance(self, group_id: str, member: ConsumerMember) -> None:
        key = ("rebalance", group_id, member.member_id)
        self.timers.restart(key, member.metadata.rebalance_timeout_ms, member.epoch)

    def _expire(self, key: TimerKey, epoch: int | None) -> None:
        kind, group_id, member_id = key
        logger.info("Member %s fenced from group %s because its %s time-out is over", member_id, group_id, kind)

        def remove() -> Result[None]:
            group = self.store.find_modern_group(group_id)
            member = self.find_member(group_id, member_id)
            if group is None or member is None or epoch not in (None, member.epoch):
                return Result(None)
            return Result(None, self.remove_members(group, [member]))

        def retry(error: Errors, message: str | None) -> None:
            if self.store.is_local(group_id):
                self.timers.restart(key, TIMER_RETRY_MS, epoch)

        self.store.write(group_id, remove, retry)

    def _find_setting(self, group_id: str, name: str) -> int:
        return self.settings.consumer.find(name, self.group_configs.get(group_id, {}))
