"""The checks before every request: authorization, the group id, and the group's partition.

    the client is not authorized                 GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED
    the group id is invalid                      INVALID_GROUP_ID
    the coordinator is not running               COORDINATOR_NOT_AVAILABLE
    the group's partition is being loaded        COORDINATOR_LOAD_IN_PROGRESS
    another broker owns the group's partition    NOT_COORDINATOR

Source: GroupCoordinator.validateGroupStatus, isValidGroupId; KafkaApis.scala (3.9). In tag 1.0.1, each handler has its
own checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import TypedDict

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.group_store import GroupStore
from kafkagroups.coordinator.results import CommitErrors
from kafkagroups.groups.offsets import TopicPartition

Authorizer = Callable[[str, str, str], bool]
"""A function (operation, resource type, resource name) that returns whether the client is allowed to do the operation.

Operations are READ, DESCRIBE, …; resource types are GROUP, TOPIC, …
"""

TransactionVerifier = Callable[[str, int, int, int], Errors]
"""A function that returns NONE if a transaction includes a partition of the offsets topic, otherwise an error.

The arguments are the transactional id, the producer id, the producer epoch, and the partition of the offsets topic.
"""

ZooKeeperOffsets = MutableMapping[tuple[str, str, int], int]
"""The offsets that OffsetCommit requests of version 0 have stored. The keys are (group id, topic, partition)."""


class Surroundings(TypedDict, total=False):
    """What a coordinator asks the rest of the cluster. Everything may be left out.

    - `topics`: the partition count of each topic that exists. None: every topic exists.
    - `topic_ids`: the ids of topics, by name, as base64url text. Since 4.1, commits contain them.
    - `authorize`: a function that says whether a client is allowed to do something. Without it, everything is allowed.
    - `verify`: a function that replaces the transaction coordinator: it returns NONE if a transaction includes a
      partition of the offsets topic, otherwise an error. Before 3.7, group coordinators do not verify transactions.
    - `zookeeper`: the offsets that OffsetCommit requests of version 0 have stored in ZooKeeper. The keys are (group id,
      topic, partition). None: no offsets are stored yet.
    - `group_configs`: the settings of single groups, by group id, with Kafka's names (`consumer.session.timeout.ms`).
    """

    topics: Mapping[str, int] | None
    topic_ids: Mapping[str, str]
    authorize: Authorizer
    verify: TransactionVerifier
    zookeeper: ZooKeeperOffsets | None
    group_configs: Mapping[str, Mapping[str, str]]


APIS_WITH_REQUIRED_GROUP_ID = (
    "JOIN_GROUP",
    "SYNC_GROUP",
    "HEARTBEAT",
    "LEAVE_GROUP",
    "TXN_OFFSET_COMMIT",
    "OFFSET_DELETE",
)
"""The requests that refuse the group id "". Other requests accept it, because old clients committed offsets with it."""


def allow_all(operation: str, resource_type: str, name: str) -> bool:
    """Return True for every call, so that every client is allowed to do everything."""
    return True


def verify_all(transactional_id: str, producer_id: int, producer_epoch: int, partition: int) -> Errors:
    """Return NONE for every call, as if every transaction included every partition."""
    return Errors.NONE


class RequestValidator:
    """The checks that do not depend on a member."""

    def __init__(self, manager: GroupStore, surroundings: Surroundings) -> None:
        self.manager = manager
        self.settings = manager.settings
        self.topics = surroundings.get("topics")
        self.topic_ids = surroundings.get("topic_ids", {})
        self.authorize = surroundings.get("authorize", allow_all)
        self.is_running = True

    def check_request(self, group_id: str, api: str, operation: str) -> Errors:
        """Return NONE if the client is authorized and `check_group` finds no error, otherwise the error.

        `api` is the name of the request ("JOIN_GROUP"). `operation` is what the client wants to do ("READ").
        """
        if not self.authorize(operation, "GROUP", group_id):
            return Errors.GROUP_AUTHORIZATION_FAILED
        return self.check_group(group_id, api)

    def check_group(self, group_id: str, api: str) -> Errors:
        """Return NONE if this broker can answer requests for the group, otherwise the error.

        Before 2.0, only JoinGroup needs a group id, and the check for NOT_COORDINATOR comes before the check for
        COORDINATOR_LOAD_IN_PROGRESS. Since 4.0, a coordinator that is not running does not look at the group id.
        """
        if not self.is_running and self.settings.is_at_least(4, 0):
            return Errors.COORDINATOR_NOT_AVAILABLE
        is_before_2_0 = self.settings.is_before(2, 0)
        needs_group_id = api == "JOIN_GROUP" if is_before_2_0 else api in APIS_WITH_REQUIRED_GROUP_ID
        if not group_id and needs_group_id:
            return Errors.INVALID_GROUP_ID
        if not self.is_running:
            return Errors.COORDINATOR_NOT_AVAILABLE
        if is_before_2_0 and not self.manager.is_local(group_id):
            return Errors.NOT_COORDINATOR
        if self.manager.is_loading(group_id):
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        return Errors.NONE if self.manager.is_local(group_id) else Errors.NOT_COORDINATOR

    def find_refused_partitions(self, partitions: Iterable[TopicPartition]) -> CommitErrors:
        """Return an error for each partition that does not exist, or that the client is not authorized to read.

        Before 2.0, Kafka checks whether the topic exists, but does not check the partition number.
        """
        errors = {}
        for partition in partitions:
            if not self.authorize("READ", "TOPIC", partition.topic):
                errors[partition] = Errors.TOPIC_AUTHORIZATION_FAILED
            elif not self._exists(partition):
                errors[partition] = Errors.UNKNOWN_TOPIC_OR_PARTITION
        return errors

    def choose_error_without_group(self, group_id: str) -> Errors:
        """Return the error of a request whose group is not in the cache or is Dead.

        If this broker owns the group's partition, the group does not exist. Otherwise another broker may have the
        group, and the error is NOT_COORDINATOR.
        """
        return Errors.GROUP_ID_NOT_FOUND if self.manager.is_missing(group_id) else Errors.NOT_COORDINATOR

    def _exists(self, partition: TopicPartition) -> bool:
        if self.topics is None:
            return True
        partition_count = self.topics.get(partition.topic)
        if partition_count is None:
            return False
        return self.settings.is_before(2, 0) or 0 <= partition.partition < partition_count
