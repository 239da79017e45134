"""A group coordinator: a method for each request of a client, validated in Kafka's order, with Kafka's error codes.

The course's verbs are its files: storing, fetching, deleting, and membership, the group's life; loading and unloading
a partition stand here. JoinGroup and SyncGroup are answered when the rebalance allows it.

`settings.kafka` chooses the rules: those of 3.9 (member ids are handed out first, static members, KIP-211), of 2.8 or
of 1.0.1, which the articles read.
Source: GroupCoordinator.scala, KafkaApis.scala, GroupCoordinatorAdapter.scala (3.9; tags 2.8.2 and 1.0.1).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.deleting import Deleting
from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.fetching import Fetching
from kafkagroups.coordinator.gate import Authorizer, allow_all
from kafkagroups.coordinator.logs import OffsetsLogs
from kafkagroups.coordinator.manager import GroupMetadataManager
from kafkagroups.coordinator.results import JoinGroupResult, SyncGroupResult, answer_join, answer_sync
from kafkagroups.coordinator.settings import Settings
from kafkagroups.coordinator.storing import Storing, Verifier, verified
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.states import ClassicState

logger = logging.getLogger("kafkagroups.coordinator")


class GroupCoordinator(Storing, Fetching, Deleting):
    """One broker's coordinator, with its cache in `manager`.

    `topics` are the topics that exist with their partition counts (None: all do), `new_member_id` supplies the ids of
    new members from a client id or instance id, `verify` asks the transaction coordinator (since 3.6), `zookeeper`
    holds the offsets of version 0 requests, by group, topic and partition. `elect` its partitions first.
    """

    def __init__(
        self,
        logs: OffsetsLogs,
        clock: Clock,
        settings: Settings | None = None,
        *,
        new_member_id: Callable[[str], str],
        topics: Mapping[str, int] | None = None,
        authorize: Authorizer = allow_all,
        verify: Verifier = verified,
    ) -> None:
        manager = GroupMetadataManager(settings or Settings(), logs, clock)
        super().__init__(manager, topics, authorize, new_member_id)
        self.verify = verify
        self.zookeeper = {}

    def elect(self, partition: int, epoch: int = 0) -> None:
        """This broker now leads the partition: its log is loaded, and its groups are answered for."""
        self.manager.load_partition(partition, epoch, self._loaded)

    def resign(self, partition: int, epoch: int | None = None) -> None:
        """Somebody else leads the partition now."""
        self.manager.unload_partition(partition, epoch, self._unloaded)

    def find_coordinator(self, group_id: str) -> tuple[Errors, int]:
        """The partition whose leader coordinates the group; COORDINATOR_NOT_AVAILABLE when that is not this broker."""
        if not self.authorize("DESCRIBE", "GROUP", group_id):
            return Errors.GROUP_AUTHORIZATION_FAILED, -1
        partition = self.manager.partition_for(group_id)
        return Errors.NONE if partition in self.manager.owned else Errors.COORDINATOR_NOT_AVAILABLE, partition

    def _loaded(self, group: ClassicGroup) -> None:
        """A group came from the log: each member is to be heard of; a group that is too large is to shrink."""
        logger.info("Loading group metadata for %s with generation %d", group.group_id, group.generation)
        if len(group.members) > self.settings.group_max_size:
            self.rebalances.prepare(group)
        for member in group.members.values():
            self.rebalances.expect_heartbeat(group, member)

    def _unloaded(self, group: ClassicGroup) -> None:
        """The group's partition moves away: whoever waits is sent to its new coordinator."""
        logger.info("Unloading group metadata for %s with generation %d", group.group_id, group.generation)
        joins = group.state is ClassicState.PREPARING_REBALANCE
        group.transition_to(ClassicState.DEAD, self.clock.now_ms)
        for member in group.told():  # a static member's JoinGroup in Stable is answered by its append
            if joins:
                answer_join(member, JoinGroupResult(Errors.NOT_COORDINATOR, member.member_id))
            answer_sync(member, SyncGroupResult(Errors.NOT_COORDINATOR))
            if member.heartbeat:
                member.heartbeat.cancel()
        for timer in (group.delayed_join, group.delayed_sync, *group.pending_members.values()):
            if timer:
                timer.cancel()
