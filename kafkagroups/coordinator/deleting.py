"""Deleting: DeleteGroups, OffsetDelete, offsets of deleted topics, and the sweeps that find what has expired.

All of it is tombstones, a batch for each group (GroupMetadataManager.cleanup).
Source: GroupCoordinator.handleDeleteGroups, handleDeleteOffsets, handleDeletedPartitions (3.9).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.gate import Gate
from kafkagroups.coordinator.results import OffsetDeleteResult
from kafkagroups.groups.classic_group import CONSUMER
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.groups.states import ClassicState


class Deleting(Gate):
    """Who deletes, and when."""

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, Errors]:
        """Deletes Empty groups with all they have (since 1.1): a batch of tombstones each.

        NON_EMPTY_GROUP while it has members, GROUP_ID_NOT_FOUND when it is unknown or Dead. Source: handleDeleteGroups.
        """
        errors, doomed = {}, []
        for group_id in dict.fromkeys(group_ids):
            error = self._refusal(group_id, "DELETE_GROUPS", "DELETE")
            group = self.manager.get_group(group_id)
            if error is Errors.NONE and (group is None or group.state is ClassicState.DEAD):
                error = self._not_found(group_id)
            elif error is Errors.NONE and group is not None:
                if group.state is ClassicState.EMPTY:
                    group.transition_to(ClassicState.DEAD, self.clock.now_ms)
                    doomed.append(group)
                else:
                    error = Errors.NON_EMPTY_GROUP
            errors[group_id] = error
        self.manager.cleanup(doomed, lambda group: list(group.offsets.committed))
        return errors

    def offset_delete(self, group_id: str, partitions: Sequence[TopicPartition]) -> OffsetDeleteResult:
        """Deletes offsets of a group (since 2.4, KIP-496), of a living consumer group those of topics it does not read.

        GROUP_SUBSCRIBED_TO_TOPIC and UNKNOWN_TOPIC_OR_PARTITION for one partition, NON_EMPTY_GROUP for a living group
        of another type, GROUP_ID_NOT_FOUND. Source: handleDeleteOffsets.
        """
        if not self.authorize("DELETE", "GROUP", group_id):
            return OffsetDeleteResult(Errors.GROUP_AUTHORIZATION_FAILED)
        errors = self._refused_partitions(partitions)
        error = self._status(group_id, "OFFSET_DELETE")
        group = self.manager.get_group(group_id)
        if error is Errors.NONE and (group is None or group.state is ClassicState.DEAD):
            error = self._not_found(group_id)
        if error or group is None:
            return OffsetDeleteResult(error)
        is_empty = group.state is ClassicState.EMPTY
        if not is_empty and group.protocol_type != CONSUMER:
            return OffsetDeleteResult(Errors.NON_EMPTY_GROUP)
        read, doomed = group.subscribed_topics, []
        for each in partitions:
            if each not in errors:
                is_read = not is_empty and (read is None or each.topic in read)
                errors[each] = Errors.GROUP_SUBSCRIBED_TO_TOPIC if is_read else Errors.NONE
                doomed += [] if is_read else [each]
        if doomed:
            self.manager.cleanup([group], lambda group: doomed)
        return OffsetDeleteResult(Errors.NONE, errors)

    def partitions_deleted(self, partitions: Collection[TopicPartition]) -> int:
        """The offsets of partitions whose topic is gone are deleted, of every group; gives how many were committed.

        The same pass ends what is Empty without offsets anyway. Source: handleDeletedPartitions.
        """
        return self.manager.cleanup(self.manager.current_groups(), lambda group: partitions)

    def start_sweeps(self, first_ms: int = 0) -> None:
        """Deletes expired offsets in `first_ms` and then every offsets.retention.check.interval.ms."""
        self.clock.after(max(first_ms, 1), self._sweep_once)

    def _sweep_once(self) -> None:
        self.manager.cleanup_expired()
        self.clock.after(self.settings.offsets_retention_check_interval_ms, self._sweep_once)
