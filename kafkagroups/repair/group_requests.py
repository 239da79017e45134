"""Requests about groups, sent to their coordinators: describe a group, fetch its offsets, commit offsets.

FindCoordinator names the broker that is a group's coordinator. If the coordinator moves, is loading or is down, the
request is sent again after a wait.

Offsets are committed without a membership: generation -1 and an empty member id, as Kafka's admin client does. A
coordinator refuses this commit if the group has members, so a group that got one after the last check is safe.
Source (4.3.1): FindCoordinatorRequest.json; DescribeGroupsRequest.json; ListGroupsRequest.json;
OffsetFetchRequest.json; OffsetCommitRequest.json; validateOffsetCommit in ClassicGroup and in ConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.repair.client import (
    NO_LEADER_EPOCH,
    Cluster,
    NoBroker,
    ask_any_broker,
    describe_code,
    describe_error,
    retry,
    send,
)

NO_OFFSET = -1
MAX_COMMIT_PARTITIONS = 1000
MAX_COMMIT_BYTES = 256 * 1024
"""The limit of the names and metadata in one commit, so that its batch fits into the topic."""
# Kafka's error codes.
LOADING = 14
NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
UNKNOWN_MEMBER_ID = 25
UNSTABLE_OFFSET_COMMIT = 88
_RETRIABLE = (LOADING, NOT_AVAILABLE, NOT_COORDINATOR)
NOT_ANSWERED = "the coordinator did not answer for this partition"

_REASONS = {
    UNKNOWN_MEMBER_ID: "the group has members: stop its consumers",
    UNSTABLE_OFFSET_COMMIT: "a transaction has a pending commit for this partition: wait until it ends",
}


class GroupRefused(Exception):
    """A request about a group failed. The message is the reason in one line."""


class GroupState(NamedTuple):
    """The state and the type of a group, with Kafka's names. A group that does not exist is Dead and has no type."""

    state: str
    type: str


class FetchedOffset(NamedTuple):
    offset: int | None
    metadata: str = ""
    error: str | None = None


class Coordinators:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._coordinator_of: dict[str, int] = {}

    def describe(self, group: str) -> GroupState:
        """Return the state and the type of a group. Raises GroupRefused."""
        from kafka.errors import KafkaConnectionError
        from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest

        def find(response: Any) -> Any:
            found = [described for described in response.groups or () if described.group_id == group]
            if len(found) != 1:  # A Kafka broker cannot have sent this response.
                raise KafkaConnectionError(f"expected one group in a {response.name}, found {len(found)}")
            return found[0]

        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False, max_version=5)
        described = find(self._ask(group, request, lambda response: int(find(response).error_code)))
        if described.group_state != "Dead":
            return GroupState(described.group_state, "classic")
        # To this request, a group of a newer protocol is Dead too. Only ListGroups and newer requests know it.
        response = self._ask(group, ListGroupsRequest(states_filter=[], types_filter=[], max_version=5))
        for listed in response.groups or ():
            if listed.group_id == group:
                return GroupState(listed.group_state or "Dead", listed.group_type or "classic")
        return GroupState("Dead", "")

    def fetch_offsets(self, group: str, keys: Iterable[TopicPartition]) -> dict[TopicPartition, FetchedOffset]:
        """Return the committed offsets of some partitions. Raises GroupRefused."""
        from kafka.protocol.consumer import OffsetFetchRequest

        keys = list(keys)
        topic_type = OffsetFetchRequest.OffsetFetchRequestTopic
        topics = [
            topic_type(name=topic, partition_indexes=[key.partition for key in keys_of_topic])
            for topic, keys_of_topic in _by_topic(keys)
        ]
        # Since version 8, a request names several groups in another form. Every broker still answers version 7.
        request = OffsetFetchRequest(group_id=group, topics=topics, require_stable=True, min_version=2, max_version=7)
        offsets = dict.fromkeys(keys, FetchedOffset(None, error=NOT_ANSWERED))
        for key, partition in _partitions(self._ask(group, request)):
            if partition.error_code:
                offsets[key] = FetchedOffset(None, error=explain_code(partition.error_code))
            elif partition.committed_offset == NO_OFFSET:
                offsets[key] = FetchedOffset(None)
            else:
                offsets[key] = FetchedOffset(partition.committed_offset, partition.metadata or "")
        return {key: offsets[key] for key in keys}

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]]
    ) -> Iterator[tuple[TopicPartition, str | None]]:
        """Yield for each partition why it was refused; None if it is committed.

        Large groups need several requests, so after an interruption some of the offsets are committed.
        """
        for part in _split(offsets):
            try:
                codes = self._commit_part(group, part)
            except GroupRefused as error:
                yield from ((key, str(error)) for key in part)
                continue
            for key in part:
                why = explain_code(codes[key]) if codes.get(key) else None
                yield key, why if key in codes else NOT_ANSWERED

    def _commit_part(self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]]) -> dict[TopicPartition, int]:
        from kafka.protocol.consumer import OffsetCommitRequest

        topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
        topics = []
        for topic, keys in _by_topic(offsets):
            partitions = [
                topic_type.OffsetCommitRequestPartition(
                    partition_index=key.partition,
                    committed_offset=offsets[key][0],
                    committed_leader_epoch=NO_LEADER_EPOCH,
                    committed_metadata=offsets[key][1],
                )
                for key in keys
            ]
            topics.append(topic_type(name=topic, partitions=partitions))
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,  # Without a membership.
            member_id="",
            topics=topics,
            # Since version 10, a request contains topic ids instead of names.
            min_version=2,
            max_version=9,
        )

        def read_error(response: Any) -> int:
            codes = [partition.error_code for _, partition in _partitions(response)]
            return next((code for code in codes if code in _RETRIABLE), 0)

        response = self._ask(group, request, read_error)
        return {key: partition.error_code for key, partition in _partitions(response)}

    def _ask(
        self, group: str, request: Any, read_error: Callable[[Any], int] = lambda response: int(response.error_code)
    ) -> Any:
        from kafka.errors import KafkaError, NodeNotReadyError, for_code

        error: Any = None
        for _ in retry(self.cluster, lambda: f"the coordinator of group {group!r} does not answer yet"):
            try:
                response = send(self.cluster, self._find_coordinator(group), request)
                code = read_error(response)
                if not code:
                    return response
                if code not in _RETRIABLE:
                    raise GroupRefused(explain_code(code))
                error = for_code(code)()
            except NodeNotReadyError as not_ready:
                error = error or not_ready  # An earlier error explains why the broker is not ready.
            except KafkaError as failure:
                error = failure
            self._coordinator_of.pop(group, None)
            if not error.retriable:
                break
        raise GroupRefused(f"{describe_error(error)}{self.cluster.waits.explain_end()}")

    def _find_coordinator(self, group: str) -> int:
        from kafka.errors import KafkaConnectionError, for_code
        from kafka.protocol.metadata import FindCoordinatorRequest

        if group in self._coordinator_of:
            return self._coordinator_of[group]
        # The key type 0 is a group id.
        request = FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=[group], max_version=3)
        try:
            response = ask_any_broker(self.cluster, request, lambda response: response)
        except NoBroker as failure:
            raise (failure.errors or [KafkaConnectionError("no broker responds")])[-1] from None
        if response.error_code:
            raise for_code(response.error_code)()
        if self.cluster.manager.cluster.broker_metadata(response.node_id) is None:
            raise KafkaConnectionError(f"the coordinator is broker {response.node_id}, which is not in the cluster")
        self._coordinator_of[group] = int(response.node_id)
        return self._coordinator_of[group]


def explain_code(code: int) -> str:
    name = describe_code(code)
    return f"{_REASONS[code]} ({name})" if code in _REASONS else name


def _partitions(response: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in response.topics or ():
        for partition in topic.partitions or ():
            yield TopicPartition(topic.name, partition.partition_index), partition


def _by_topic(keys: Iterable[TopicPartition]) -> Iterator[tuple[str, list[TopicPartition]]]:
    for topic, partitions in groupby(sorted(keys), lambda key: key.topic):
        yield topic, list(partitions)


def _split(offsets: Mapping[TopicPartition, tuple[int, str]]) -> Iterator[dict[TopicPartition, tuple[int, str]]]:
    part: dict[TopicPartition, tuple[int, str]] = {}
    size = 0
    for key, (offset, metadata) in offsets.items():
        size_of_key = len(key.topic.encode()) + len(metadata.encode())
        if part and (len(part) == MAX_COMMIT_PARTITIONS or size + size_of_key > MAX_COMMIT_BYTES):
            yield part
            part = {}
            size = 0
        part[key] = (offset, metadata)
        size += size_of_key
    if part:
        yield part
