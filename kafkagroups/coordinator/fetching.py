"""OffsetFetch, DescribeGroups and ListGroups, which are answered from the cache.

Source: GroupCoordinator.handleFetchOffsets, handleDescribeGroup, handleListGroups; KafkaApis (3.9; tags 2.8.2, 1.0.1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import nullcontext

from kafkagroups.coordinator.consumer_coordinator import ModernRequests, Requests
from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.messages import (
    DescribedGroup,
    DescribedMember,
    FetchedOffset,
    ListedGroup,
    OffsetFetchRequest,
    OffsetFetchResult,
)
from kafkagroups.coordinator.rebalance import Rebalances
from kafkagroups.coordinator.request_validation import RequestValidator, ZooKeeperOffsets
from kafkagroups.groups.classic_group import ClassicGroup, ClassicMember
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.offsets import TopicPartition


class FetchRequests(Requests):
    def __init__(
        self,
        validator: RequestValidator,
        rebalances: Rebalances,
        modern: ModernRequests | None,
        zookeeper_offsets: ZooKeeperOffsets,
    ) -> None:
        super().__init__(validator, rebalances, modern)
        self.zookeeper_offsets = zookeeper_offsets

    def fetch(self, request: OffsetFetchRequest) -> OffsetFetchResult:
        """If the request names topics by id, leave out offsets that were committed for another topic of the name."""
        error = self.validator.check_request(request.group_id, "OFFSET_FETCH", "DESCRIBE")
        if error is Errors.NONE and self.settings.is_at_least(4, 0):
            error = self._check_member(request)
        if error is not Errors.NONE:
            return OffsetFetchResult(error)
        requested_partitions = None if request.partitions is None else list(request.partitions)
        offsets = self.manager.get_offsets(request.group_id, request.require_stable, requested_partitions)
        for partition, offset in list(offsets.items()):
            present_id = self.validator.topic_ids.get(partition.topic)
            is_other_topic = request.by_topic_id and offset.topic_id not in (None, present_id)
            if is_other_topic and requested_partitions is not None:
                offsets[partition] = FetchedOffset()
            if self.validator.authorize("DESCRIBE", "TOPIC", partition.topic):
                continue
            if requested_partitions is None:
                del offsets[partition]
            else:
                offsets[partition] = FetchedOffset(error=Errors.TOPIC_AUTHORIZATION_FAILED)
        return OffsetFetchResult(error, offsets)

    def _check_member(self, request: OffsetFetchRequest) -> Errors:
        """An unstable fetch sees only what the log has confirmed."""
        with nullcontext() if request.require_stable else self.manager.committed():
            group = self.manager.find_modern_group(request.group_id)
            if group is None:
                return Errors.NONE
            return self.modern.validate_fetch(group, request.member_id, request.member_epoch)

    def fetch_from_zookeeper(self, group_id: str, partitions: Iterable[TopicPartition]) -> OffsetFetchResult:
        if not self.validator.authorize("DESCRIBE", "GROUP", group_id):
            return OffsetFetchResult(Errors.GROUP_AUTHORIZATION_FAILED)
        offsets = {partition: self._fetch_offset_from_zookeeper(group_id, partition) for partition in partitions}
        return OffsetFetchResult(Errors.NONE, offsets)

    def _fetch_offset_from_zookeeper(self, group_id: str, partition: TopicPartition) -> FetchedOffset:
        topics = self.validator.topics
        topic_exists = topics is None or partition.topic in topics
        offset = self.zookeeper_offsets.get((group_id, *partition)) if topic_exists else None
        error = Errors.UNKNOWN_TOPIC_OR_PARTITION if offset is None else Errors.NONE
        if not self.validator.authorize("DESCRIBE", "TOPIC", partition.topic):
            offset = None
            error = Errors.TOPIC_AUTHORIZATION_FAILED
        if not self.settings.zookeeper:
            error = Errors.UNSUPPORTED_VERSION
        return FetchedOffset(-1 if offset is None else offset, error=error)

    def describe(self, group_id: str) -> DescribedGroup:
        error = self.validator.check_request(group_id, "DESCRIBE_GROUPS", "DESCRIBE")
        if error is not Errors.NONE:
            return DescribedGroup(error, group_id)
        with self.manager.committed():
            group = self.manager.get_group(group_id)
            is_modern = self.manager.find_modern_group(group_id) is not None
        if group is None and self.settings.is_at_least(4, 0):
            message = f"Group {group_id} is not a classic group." if is_modern else f"Group {group_id} not found."
            return DescribedGroup(Errors.GROUP_ID_NOT_FOUND, group_id, ClassicState.DEAD.value, message=message)
        if group is None:
            return DescribedGroup(error, group_id, ClassicState.DEAD.value)
        is_stable = group.state is ClassicState.STABLE
        protocol = group.protocol if is_stable else None
        if is_stable and protocol is None:
            # A broker never writes a group with members but no protocol. If Kafka loads it, Kafka throws an exception.
            return DescribedGroup(Errors.UNKNOWN_SERVER_ERROR, group_id)
        return DescribedGroup(
            error,
            group_id,
            self._get_state_name(group),
            group.protocol_type or "",
            protocol or "",
            tuple(
                _describe_member(member, protocol, shows_assignment=is_stable or self.settings.is_at_least(4, 0))
                for member in group.ordered_members()
            ),
        )

    def list_groups(self, states: Collection[str], types: Collection[str]) -> tuple[Errors, list[ListedGroup]]:
        can_see_all_groups = self.validator.authorize("DESCRIBE", "CLUSTER", "kafka-cluster")
        if not can_see_all_groups and self.settings.is_before(2, 0):
            return Errors.CLUSTER_AUTHORIZATION_FAILED, []
        if not self.validator.is_running:
            return Errors.COORDINATOR_NOT_AVAILABLE, []
        # Since 3.7, upper and lower case make no difference in a state's name; since 4.0, nor does space around it.
        convert_case = str.lower if self.settings.is_at_least(3, 7) else str
        state_filter = {convert_case(state.strip() if self.settings.is_at_least(4, 0) else state) for state in states}
        type_filter = {group_type.lower() for group_type in types}
        groups = []
        with self.manager.committed():
            all_groups = [
                ListedGroup(group.group_id, group.protocol_type or "", self._get_state_name(group))
                for group in self.manager.current_groups()
            ]
            all_groups += [
                ListedGroup(group.group_id, group.type, group.state.value, group.type)
                for group in self.manager.current_modern_groups()
            ]
        for listed in all_groups:
            accepts_state = not state_filter or convert_case(listed.state) in state_filter
            if not accepts_state or (type_filter and listed.type not in type_filter):
                continue
            if can_see_all_groups or self.validator.authorize("DESCRIBE", "GROUP", listed.group_id):
                groups.append(listed)
        if not self.manager.loading:
            return Errors.NONE, groups
        return Errors.COORDINATOR_LOAD_IN_PROGRESS, groups if self.settings.is_before(4, 0) else []

    def _get_state_name(self, group: ClassicGroup) -> str:
        """Before 1.1 the state CompletingRebalance was called AwaitingSync."""
        if group.state is ClassicState.COMPLETING_REBALANCE and self.settings.is_before(1, 1):
            return "AwaitingSync"
        return group.state.value


def _describe_member(member: ClassicMember, protocol: str | None, *, shows_assignment: bool) -> DescribedMember:
    return DescribedMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        b"" if protocol is None else member.find_metadata(protocol),
        member.assignment if shows_assignment else b"",
    )
