"""Who may ask, and whether this broker may answer: what stands before every request.

The client must be allowed to (`GROUP_` and `TOPIC_AUTHORIZATION_FAILED`), the group id must be one
(`INVALID_GROUP_ID`), the coordinator must run (`COORDINATOR_NOT_AVAILABLE`), and the group's partition must be loaded
(`COORDINATOR_LOAD_IN_PROGRESS`) and owned (`NOT_COORDINATOR`).
Source: GroupCoordinator.validateGroupStatus, isValidGroupId; KafkaApis.scala (3.9; tag 1.0.1: each handler's own).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.manager import GroupMetadataManager
from kafkagroups.coordinator.results import CommitErrors
from kafkagroups.groups.offsets import TopicPartition

Authorizer = Callable[[str, str, str], bool]
"""Whether the client may: an operation (READ, DESCRIBE, DELETE, WRITE) on a kind (GROUP, TOPIC, ...) of a name."""

NEED_A_GROUP_ID = ("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP", "TXN_OFFSET_COMMIT", "OFFSET_DELETE")
"""The requests for which "" is no group id; the others take it, for what was committed under it long ago."""


def allow_all(operation: str, kind: str, name: str) -> bool:
    return True


class Gate:
    """`topics` are those that exist, with their partition counts; None: all do."""

    def __init__(self, manager: GroupMetadataManager, topics: Mapping[str, int] | None, authorize: Authorizer) -> None:
        self.manager, self.settings, self.clock = manager, manager.settings, manager.clock
        self.topics, self.authorize = topics, authorize
        self.active = True

    def _refusal(self, group_id: str, api: str, operation: str) -> Errors:
        if not self.authorize(operation, "GROUP", group_id):
            return Errors.GROUP_AUTHORIZATION_FAILED
        return self._status(group_id, api)

    def _status(self, group_id: str, api: str) -> Errors:
        """Why the group cannot be answered for; NONE when it can."""
        modern = self.settings.since(2, 0)
        needs_id = api in NEED_A_GROUP_ID if modern else api == "JOIN_GROUP"
        if not group_id and needs_id:
            return Errors.INVALID_GROUP_ID
        if not self.active:
            return Errors.COORDINATOR_NOT_AVAILABLE
        if not modern and not self.manager.is_local(group_id):
            return Errors.NOT_COORDINATOR
        if self.manager.is_loading(group_id):
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        return Errors.NONE if self.manager.is_local(group_id) else Errors.NOT_COORDINATOR

    def _refused_partitions(self, partitions: Iterable[TopicPartition]) -> CommitErrors:
        """Which partitions the client may not read, and which do not exist (up to 1.1 only the topic is looked for)."""
        refused = {}
        for each in partitions:
            if not self.authorize("READ", "TOPIC", each.topic):
                refused[each] = Errors.TOPIC_AUTHORIZATION_FAILED
            elif self.topics is not None:
                count = self.topics.get(each.topic)
                if count is None or (self.settings.since(2, 0) and not 0 <= each.partition < count):
                    refused[each] = Errors.UNKNOWN_TOPIC_OR_PARTITION
        return refused

    def _not_found(self, group_id: str) -> Errors:
        return Errors.GROUP_ID_NOT_FOUND if self.manager.not_exists(group_id) else Errors.NOT_COORDINATOR
