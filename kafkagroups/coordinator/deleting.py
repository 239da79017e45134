"""DeleteGroups, OffsetDelete, and the deletion of expired offsets and of offsets whose topic was deleted.

A deletion appends one batch of tombstones (records without a value) for each group; the new coordinator appends one for
each partition of the offsets topic.
Source: GroupCoordinator.handleDeleteGroups, handleDeleteOffsets, handleDeletedPartitions (3.9);
GroupMetadataManager.cleanupGroupMetadata (3.9).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kafkagroups.coordinator.consumer_coordinator import Requests
from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.messages import CommitErrors, OffsetDeleteResult
from kafkagroups.groups.classic_group import CONSUMER, ClassicGroup
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.living_shard import LivingGroup
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.offsets import TopicPartition


class DeleteRequests(Requests):
    """The requests that delete groups and offsets, and the task that deletes expired offsets."""

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, Errors]:
        """Delete the groups that are Empty, and their offsets. Return an error code for each group id."""
        errors: dict[str, Errors] = {}
        deleted_groups: list[LivingGroup] = []
        for group_id in dict.fromkeys(group_ids):
            group = self.manager.get_group(group_id)
            modern_group = self.manager.find_modern_group(group_id)
            error = self.validator.check_request(group_id, "DELETE_GROUPS", "DELETE")
            if error is not Errors.NONE:
                errors[group_id] = error
            elif modern_group is not None:
                errors[group_id] = Errors.NON_EMPTY_GROUP if modern_group.members else Errors.NONE
                deleted_groups += () if modern_group.members else (modern_group,)
            elif group is None or group.state is ClassicState.DEAD:
                errors[group_id] = self.validator.choose_error_without_group(group_id)
            elif group.state is not ClassicState.EMPTY:
                errors[group_id] = Errors.NON_EMPTY_GROUP
            else:
                errors[group_id] = Errors.NONE
                deleted_groups.append(group)
        return errors | self.manager.delete_groups(deleted_groups)

    def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition]) -> OffsetDeleteResult:
        """Delete a group's offsets for these partitions. Offsets of topics to which a member subscribes stay."""
        if not self.validator.authorize("DELETE", "GROUP", group_id):
            return OffsetDeleteResult(Errors.GROUP_AUTHORIZATION_FAILED)
        errors = self.validator.find_refused_partitions(partitions)
        error = self.validator.check_group(group_id, "OFFSET_DELETE")
        modern_group = self.manager.find_modern_group(group_id)
        if error is Errors.NONE and modern_group is not None:
            return self._delete_modern_offsets(modern_group, partitions, errors)
        group = self.manager.get_group(group_id)
        if error is Errors.NONE and (group is None or group.state is ClassicState.DEAD):
            error = self.validator.choose_error_without_group(group_id)
        if error is not Errors.NONE or group is None:
            return OffsetDeleteResult(error)
        if group.state is not ClassicState.EMPTY and group.protocol_type != CONSUMER:
            return OffsetDeleteResult(Errors.NON_EMPTY_GROUP)
        deleted_partitions = []
        for partition in partitions:
            if partition in errors:
                continue
            if _is_subscribed(group, partition.topic):
                errors[partition] = Errors.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                errors[partition] = Errors.NONE
                deleted_partitions.append(partition)
        error = self.manager.delete_offsets(group, deleted_partitions)
        return OffsetDeleteResult(error, {} if error else errors)

    def _delete_modern_offsets(
        self, group: ModernGroup, partitions: Sequence[TopicPartition], errors: CommitErrors
    ) -> OffsetDeleteResult:
        if group.type == "share":
            return OffsetDeleteResult(Errors.GROUP_ID_NOT_FOUND)
        topics = group.subscribed_topics
        for partition in partitions:
            is_subscribed = partition.topic in topics
            errors.setdefault(partition, Errors.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else Errors.NONE)
        deleted = [partition for partition in partitions if errors[partition] is Errors.NONE]
        error = self.manager.delete_offsets(group, deleted)
        return OffsetDeleteResult(error, {} if error else errors)

    def delete_partitions(self, partitions: Collection[TopicPartition]) -> int:
        """Delete all groups' offsets for these partitions. Return the number of deleted committed offsets."""
        return self.manager.delete_partitions(partitions, self.validator.topic_ids)

    def start_expiration(self, first_ms: int) -> None:
        """Delete expired offsets after `first_ms` ms, then every `settings.offsets_retention_check_interval_ms` ms.

        A `first_ms` below 1 counts as 1, because a timer without a delay would run immediately.
        """
        self.clock.after(max(first_ms, 1), self._delete_expired)

    def _delete_expired(self) -> None:
        self.manager.delete_expired()
        self.clock.after(self.settings.offsets_retention_check_interval_ms, self._delete_expired)


def _is_subscribed(group: ClassicGroup, topic: str) -> bool:
    """Return whether a member subscribes to the topic. If a subscription cannot be read, return True."""
    if group.state is ClassicState.EMPTY:
        return False
    return group.subscribed_topics is None or topic in group.subscribed_topics
