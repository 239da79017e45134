"""Fetching: OffsetFetch, DescribeGroups and ListGroups, all from the cache. The topic is not read.

Source: GroupCoordinator.handleFetchOffsets, handleDescribeGroup, handleListGroups; KafkaApis (3.9; tags 2.8.2, 1.0.1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, MutableMapping

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.gate import Gate
from kafkagroups.coordinator.results import (
    DescribedGroup,
    DescribedMember,
    FetchedOffset,
    ListedGroup,
    OffsetFetchResult,
)
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.groups.states import ClassicState


class Fetching(Gate):
    """`zookeeper` holds what version 0 of the requests committed."""

    zookeeper: MutableMapping[tuple[str, str, int], int]

    def offset_fetch(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> OffsetFetchResult:
        """The committed offsets, all or of the partitions named, whatever the group's state: from the cache.

        TOPIC_AUTHORIZATION_FAILED for one that is named and may not be seen; of all, those are left out.
        UNSTABLE_OFFSET_COMMIT as GroupMetadataManager.get_offsets says. Source: handleFetchOffsets.
        """
        error = self._refusal(group_id, "OFFSET_FETCH", "DESCRIBE")
        if error is not Errors.NONE:
            return OffsetFetchResult(error)
        named = None if partitions is None else list(partitions)
        offsets = self.manager.get_offsets(group_id, require_stable, named)
        denied = {each for each in offsets if not self.authorize("DESCRIBE", "TOPIC", each.topic)}
        refused = FetchedOffset(error=Errors.TOPIC_AUTHORIZATION_FAILED)
        if named is None:
            return OffsetFetchResult(error, {each: there for each, there in offsets.items() if each not in denied})
        return OffsetFetchResult(error, {each: refused if each in denied else there for each, there in offsets.items()})

    def offset_fetch_from_zookeeper(self, group_id: str, partitions: Iterable[TopicPartition]) -> OffsetFetchResult:
        """OffsetFetch v0. A partition that does not exist or has no offset: UNKNOWN_TOPIC_OR_PARTITION."""
        if not self.authorize("DESCRIBE", "GROUP", group_id):
            return OffsetFetchResult(Errors.GROUP_AUTHORIZATION_FAILED)
        found = {}
        for each in partitions:
            exists = self.topics is None or each.topic in self.topics
            offset = self.zookeeper.get((group_id, *each)) if exists else None
            error = Errors.NONE if offset is not None else Errors.UNKNOWN_TOPIC_OR_PARTITION
            if not self.authorize("DESCRIBE", "TOPIC", each.topic):
                offset, error = None, Errors.TOPIC_AUTHORIZATION_FAILED
            if not self.settings.zookeeper:
                error = Errors.UNSUPPORTED_VERSION
            found[each] = FetchedOffset(-1 if offset is None else offset, error=error)
        return OffsetFetchResult(Errors.NONE, found)

    def describe_groups(self, group_ids: Iterable[str]) -> list[DescribedGroup]:
        """Each group's state and members; "Dead" for one that is not known. Source: handleDescribeGroup."""
        return [self._describe(group_id) for group_id in group_ids]

    def _describe(self, group_id: str) -> DescribedGroup:
        error = self._refusal(group_id, "DESCRIBE_GROUPS", "DESCRIBE")
        if error is not Errors.NONE:
            return DescribedGroup(error, group_id)
        group = self.manager.get_group(group_id)
        if group is None:
            return DescribedGroup(error, group_id, ClassicState.DEAD.value)
        protocol = group.protocol if group.state is ClassicState.STABLE else None
        if protocol is None and group.state is ClassicState.STABLE:  # only a strange log makes such a group
            return DescribedGroup(Errors.UNKNOWN_SERVER_ERROR, group_id)
        members = [
            DescribedMember(
                each.member_id, each.group_instance_id, each.client_id, each.client_host,
                *((each.metadata(protocol), each.assignment) if protocol is not None else (b"", b"")),
            )
            for each in group.told()
        ]  # fmt: skip
        state = self._state_name(group)
        return DescribedGroup(error, group_id, state, group.protocol_type or "", protocol or "", tuple(members))

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> tuple[Errors, list[ListedGroup]]:
        """All groups of this coordinator, or those in some states (since 2.6) or of some types (3.8: all are classic).

        While some partition is loading, with COORDINATOR_LOAD_IN_PROGRESS. Source: handleListGroups.
        """
        whole_cluster = self.authorize("DESCRIBE", "CLUSTER", "kafka-cluster")
        if not whole_cluster and not self.settings.since(2, 0):
            return Errors.CLUSTER_AUTHORIZATION_FAILED, []
        if not self.active:
            return Errors.COORDINATOR_NOT_AVAILABLE, []
        fold = str.lower if self.settings.since(3, 7) else str
        wanted = {fold(state) for state in states}
        groups = [
            ListedGroup(group.group_id, group.protocol_type or "", self._state_name(group))
            for group in self.manager.current_groups()
            if (not wanted or fold(self._state_name(group)) in wanted)
            and (not types or "classic" in {each.lower() for each in types})
            and (whole_cluster or self.authorize("DESCRIBE", "GROUP", group.group_id))
        ]
        return Errors.COORDINATOR_LOAD_IN_PROGRESS if self.manager.loading else Errors.NONE, groups

    def _state_name(self, group: ClassicGroup) -> str:
        is_old = group.state is ClassicState.COMPLETING_REBALANCE and not self.settings.since(1, 1)
        return "AwaitingSync" if is_old else group.state.value
