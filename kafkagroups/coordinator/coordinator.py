"""The group coordinator: the requests about groups, and the start of a broker.

`GroupCoordinator` has one method for each client request. Those about members, offsets and consumer groups are in
classic_requests.py, offset_requests.py and consumer_requests.py. All share the checks in request_validation.py, and one
manager, which holds the groups and writes to the log.
Source: GroupCoordinator.scala, KafkaApis.scala, GroupCoordinatorAdapter.scala (3.9; tags 2.8.2 and 1.0.1);
GroupCoordinatorService.java, GroupCoordinatorShard.java (4.3.1).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Unpack

from msgspec.structs import replace

from kafkagroups.coordinator import messages
from kafkagroups.coordinator.classic_requests import MemberRequests
from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.group_store import Result, is_empty
from kafkagroups.coordinator.logs import AppendListener, DiskLogs, OffsetsLogs, ignore_append
from kafkagroups.coordinator.messages import Errors, Refusal, ResponseFuture, find_error
from kafkagroups.coordinator.offset_requests import OffsetRequests
from kafkagroups.coordinator.request_validation import Surroundings
from kafkagroups.coordinator.settings import Settings
from kafkagroups.errors import UsageError
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.living_groups import ClassicGroup, LivingGroup


class GroupCoordinator(MemberRequests, OffsetRequests):
    """One broker's group coordinator. Call `elect` for its partitions first, or use `start_broker`.

    Most answers are `ResponseFuture` objects. In the new coordinator (since 4.0), they also wait until the log has
    confirmed everything that they rest on; if the append fails, they are its error.

    `settings.kafka` is the Kafka version whose rules the coordinator follows, and its timers run when the caller
    advances the clock. `new_member_id` returns the id of a new member, from its client id, or from the instance id of a
    static member. `Surroundings` (request_validation.py) is what the coordinator asks the rest of the cluster.
    """

    # Groups

    def describe_groups(self, group_ids: Iterable[str]) -> list[messages.DescribedGroup]:
        """Return the state and the members of each group. The state of a group that does not exist is "Dead".

        Source: GroupCoordinator.handleDescribeGroup.
        """
        return [self._describe(group_id) for group_id in group_ids]

    def _describe(self, group_id: str) -> messages.DescribedGroup:
        error = find_error(self.validator.check_request, group_id, "DESCRIBE_GROUPS", "DESCRIBE")
        if error is not Errors.NONE:
            return messages.DescribedGroup(error, group_id)
        with self.manager.committed():
            group = self.manager.find_group(group_id)
        if not isinstance(group, ClassicGroup):
            dead_group = messages.DescribedGroup(error, group_id, ClassicState.DEAD.value)
            if self.settings.is_before(4, 0):
                return dead_group
            reason = "not found" if group is None else "is not a classic group"
            return replace(dead_group, error=Errors.GROUP_ID_NOT_FOUND, message=f"Group {group_id} {reason}.")
        is_stable = group.state is ClassicState.STABLE
        protocol = group.protocol if is_stable else None
        if is_stable and protocol is None:
            # A broker never writes a group with members but no protocol. If Kafka loads it, Kafka throws an exception.
            return messages.DescribedGroup(Errors.UNKNOWN_SERVER_ERROR, group_id)
        return messages.DescribedGroup(
            error,
            group_id,
            self._get_state_name(group),
            group.protocol_type or "",
            protocol or "",
            tuple(
                messages.DescribedMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.find_metadata(protocol),
                    member.assignment if is_stable or self.settings.is_at_least(4, 0) else b"",
                )
                for member in group.ordered_members()
            ),
        )

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> tuple[Errors, list[messages.ListedGroup]]:
        """Return all groups of this coordinator, and COORDINATOR_LOAD_IN_PROGRESS while a partition is loading.

        Only groups that have one of the `states` (since Kafka 2.6) and one of the `types` (since 3.8) are returned; if
        there are none, it is not checked. Up to 3.9, the groups that are already loaded are returned during a load,
        too.
        Source: GroupCoordinator.handleListGroups.
        """
        can_see_all_groups = self.validator.authorize("DESCRIBE", "CLUSTER", "kafka-cluster")
        if not can_see_all_groups and self.settings.is_before(2, 0):
            return Errors.CLUSTER_AUTHORIZATION_FAILED, []
        if not self.validator.is_running:
            return Errors.COORDINATOR_NOT_AVAILABLE, []
        # Since 3.7, upper and lower case make no difference in a state's name; since 4.0, nor does space around it.
        convert_case = str.lower if self.settings.is_at_least(3, 7) else str
        state_filter = {convert_case(state.strip() if self.settings.is_at_least(4, 0) else state) for state in states}
        type_filter = {group_type.lower() for group_type in types}
        with self.manager.committed():
            all_groups = [
                messages.ListedGroup(group.group_id, group.protocol_type or "", self._get_state_name(group), group.type)
                for group in self.manager.current_groups()
            ]
        groups = [
            listed
            for listed in all_groups
            if (not state_filter or convert_case(listed.state) in state_filter)
            and (not type_filter or listed.type in type_filter)
            and (can_see_all_groups or self.validator.authorize("DESCRIBE", "GROUP", listed.group_id))
        ]
        if not self.manager.loading:
            return Errors.NONE, groups
        return Errors.COORDINATOR_LOAD_IN_PROGRESS, groups if self.settings.is_before(4, 0) else []

    def _get_state_name(self, group: LivingGroup) -> str:
        """Before 1.1 the state CompletingRebalance was called AwaitingSync."""
        if group.state is ClassicState.COMPLETING_REBALANCE and self.settings.is_before(1, 1):
            return "AwaitingSync"
        return str(group.state.value)

    def delete_groups(self, group_ids: Iterable[str]) -> ResponseFuture[dict[str, Errors]]:
        """Delete Empty groups and their offsets (since Kafka 1.1).

        The answer has an error code for each group id: for example, NON_EMPTY_GROUP if the group has members,
        GROUP_ID_NOT_FOUND if the group does not exist or is Dead. In 4.x the groups of each partition are deleted by
        one batch, after all records until then are confirmed; up to 3.9, each group has its own batch of tombstones.
        Source: GroupCoordinator.handleDeleteGroups, GroupCoordinatorService.deleteGroups (4.3.1).
        """
        errors = {
            group_id: find_error(self.validator.check_request, group_id, "DELETE_GROUPS", "DELETE")
            for group_id in dict.fromkeys(group_ids)
        }
        accepted_ids = [group_id for group_id, error in errors.items() if error is Errors.NONE]
        responses = [self._delete_together(ids) for ids in self.manager.split_by_partition(accepted_ids)]
        return ResponseFuture.gather(responses).map(lambda answers: dict(ChainMap(*answers, errors)))

    def _delete_together(self, group_ids: Sequence[str]) -> ResponseFuture[dict[str, Errors]]:
        """Delete groups with one write.

        Since 4.1 a write for share groups, which has no records if there are none, comes first. So the groups are not
        looked at before the log has confirmed everything until then, and they stay if it fails.
        """

        def refuse(error: Errors, message: str | None) -> dict[str, Errors]:
            return dict.fromkeys(group_ids, error)

        def delete() -> Result[dict[str, Errors]]:
            deleted_groups: list[LivingGroup] = []
            errors = {group_id: find_error(self._collect_empty, group_id, deleted_groups) for group_id in group_ids}
            return Result(errors, self.manager.delete_groups(deleted_groups))

        nothing: Result[dict[str, Errors]] = Result({})

        def delete_unless_refused(refused: dict[str, Errors]) -> ResponseFuture[dict[str, Errors]]:
            return ResponseFuture.of(refused) if refused else self.manager.write(group_ids[0], delete, refuse)

        return self.manager.write(group_ids[0], lambda: nothing, refuse).bind(delete_unless_refused)

    def _collect_empty(self, group_id: str, deleted_groups: list[LivingGroup]) -> None:
        group = self.validator.find_group(group_id)
        if not is_empty(group):
            raise Refusal(Errors.NON_EMPTY_GROUP)
        deleted_groups.append(group)

    # The broker

    def find_coordinator(self, group_id: str) -> tuple[Errors, int]:
        """Return the partition of the offsets topic whose leader coordinates the group.

        The error is COORDINATOR_NOT_AVAILABLE if this broker is not the leader of the partition. If the client is not
        authorized, it is GROUP_AUTHORIZATION_FAILED, and the partition is -1.
        """
        if not self.validator.authorize("DESCRIBE", "GROUP", group_id):
            return Errors.GROUP_AUTHORIZATION_FAILED, -1
        partition = self.manager.partition_for(group_id)
        return Errors.NONE if partition in self.manager.owned else Errors.COORDINATOR_NOT_AVAILABLE, partition

    def elect(self, partition: int, epoch: int = 0) -> None:
        """Make this broker the leader of a partition of the offsets topic, and load the partition's groups.

        The call is ignored if the coordinator has already received a newer `epoch`, a number that grows with each
        election for the partition.
        """
        count = self.settings.offsets_topic_num_partitions
        if not 0 <= partition < count:
            raise UsageError(f"the offsets topic has the partitions 0 to {count - 1}, not {partition}")
        self.manager.load_partition(partition, epoch)

    def resign(self, partition: int, epoch: int | None = None) -> None:
        """End this broker's leadership of the partition, because another broker is the leader now.

        The call is ignored if the coordinator has already received a newer epoch for the partition, and `epoch` is not
        None.
        """
        self.manager.unload_partition(partition, epoch)

    def shut_down(self) -> None:
        """Answer every later request with COORDINATOR_NOT_AVAILABLE."""
        self.validator.is_running = False


def open_logs(folder: str | Path, settings: Settings, *, on_append: AppendListener = ignore_append) -> DiskLogs:
    """Return the logs in a folder, with the codec that the settings say.

    Up to 2.4, a broker does not refuse an old producer epoch if the group coordinator appends, as in the recorded
    conversation 1.0.1-txnodd.
    Source: ProducerStateManager.prepareUpdate, ReplicaManager.appendRecords with isFromClient = false (1.0.1);
    ProducerAppendInfo.checkProducerEpoch (since 2.5).
    """
    return DiskLogs(
        folder,
        settings.offsets_topic_compression_codec,
        fences_producers=settings.is_at_least(2, 5),
        on_append=on_append,
    )


def start_broker(
    logs: OffsetsLogs | str | Path,
    clock: Clock,
    settings: Settings | None = None,
    *,
    new_member_id: Callable[[str], str] | None = None,
    **surroundings: Unpack[Surroundings],
) -> GroupCoordinator:
    """Start a broker that leads every partition of the offsets topic, and return its coordinator.

    A folder of `logs` may be empty. Without `new_member_id`, an id is the client id and a number, so every run of the
    program has the same ids, and no two members of a group have the same.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     coordinator = start_broker(folder, Clock(0), Settings("2.8.2", offsets_topic_num_partitions=1))
    ...     coordinator.list_groups()
    (<Errors.NONE: 0>, [])
    """
    settings = settings or Settings()
    logs = open_logs(logs, settings) if isinstance(logs, str | Path) else logs

    def is_member(member_id: str) -> bool:
        return any(member_id in group.members for group in coordinator.manager.current_groups())

    new_member_id = new_member_id or number_member_ids(is_member)
    coordinator = GroupCoordinator(logs, clock, settings, new_member_id=new_member_id, **surroundings)
    for partition in range(settings.offsets_topic_num_partitions):
        coordinator.elect(partition)
    return coordinator


def number_member_ids(is_used: Callable[[str], bool] = lambda member_id: False) -> Callable[[str], str]:
    """Return a function that appends a counter: "a" becomes "a-1", and a later "b" becomes "b-2"."""
    numbers = count(1)

    def supply(prefix: str) -> str:
        return next(each for each in (f"{prefix}-{number}" for number in numbers) if not is_used(each))

    return supply
