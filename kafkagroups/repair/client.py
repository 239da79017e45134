"""Requests about the partitions of one topic, sent to their leaders: where a log begins and ends, and new topics.

If a leader moves or its broker is down, the request is sent again after a wait. Brokers before 0.11 are not supported,
because they create a missing topic when they receive a Metadata request.
Source (4.3.1): MetadataRequest.json; ListOffsetsRequest.json; KafkaApis.handleListOffsetRequest;
CreateTopicsRequest.json; ProduceRequest.json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from kafkagroups.errors import UsageError
from kafkagroups.log.batch import LogRecord, encode_batch
from kafkagroups.repair.connection import TOPIC, Cluster, connect, describe_code, describe_error, send

UNKNOWN_TOPIC_OR_PARTITION = 3
NO_LEADER = -1
RETRY_DELAYS = (0.1, 0.5, 1.0, 2.0, 4.0)
"""The waits before new attempts, in seconds, if a leader moves or its broker is down."""
# In a ListOffsets request, these timestamps mean the log start offset and the high watermark.
EARLIEST = -2
LATEST = -1
# Values of request fields.
READ_UNCOMMITTED = 0
"""The isolation level that also returns the records of open and aborted transactions."""
NO_LEADER_EPOCH = -1
"""A leader epoch that the broker does not check."""
TIMEOUT_MS = 30_000

T = TypeVar("T")


class NoBroker(UsageError):
    """No broker responds. `errors` has the error of each broker that was asked."""

    def __init__(self, cluster: Cluster, errors: list[Any]) -> None:
        reasons = f": {'; '.join(map(describe_error, errors))}" if errors else ""
        super().__init__(f"no broker responds{reasons}{cluster.waits.explain_end()}")
        self.errors = errors


class TopicRefused(UsageError):
    """The topic does not exist, or the user may not describe or read it."""


class NoSuchTopic(TopicRefused): ...


def ask_any_broker(cluster: Cluster, request: Any, read: Callable[[Any], T]) -> T:
    """Ask one broker after another until `read` can use a response, and return its result.

    If `read` raises a KafkaError, the next broker is asked. Raises NoBroker if no broker responds.
    """
    from kafka.errors import KafkaError

    errors = []
    for broker in [*cluster.manager.cluster.brokers(), *cluster.bootstrap]:
        if cluster.waits.are_over:
            break
        try:
            return read(send(cluster, broker.node_id, request))
        except KafkaError as error:
            errors.append(error)
    raise NoBroker(cluster, errors)


def retry(cluster: Cluster, explain: Callable[[], str]) -> Iterator[None]:
    """Yield for each attempt. Between two, wait, and update the leaders. `explain` says why to wait."""
    yield
    for delay in RETRY_DELAYS:
        if cluster.waits.are_over:
            return
        cluster.waits.sleep(cluster.net, delay, explain())
        with suppress(UsageError):  # If this fails, the next attempt uses the earlier leaders.
            refresh_leaders(cluster)
        yield


def refresh_leaders(cluster: Cluster) -> None:
    """Update the cluster's brokers and leaders. Raises TopicRefused or NoBroker."""
    from kafka.protocol.metadata import MetadataRequest

    topic = MetadataRequest.MetadataRequestTopic(name=cluster.topic)
    # A Metadata request before version 4 would create a missing topic.
    request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False, min_version=4, max_version=9)
    metadata = ask_any_broker(cluster, request, partial(_read_metadata, cluster))
    if metadata.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        explanation = ": no group has ever committed an offset" if cluster.topic == TOPIC else ""
        raise NoSuchTopic(f"the cluster has no topic {cluster.topic}{explanation}")
    if metadata.error_code:
        raise TopicRefused(f"{cluster.topic}: {describe_code(metadata.error_code)}")
    cluster.leaders = {partition.partition_index: partition.leader_id for partition in metadata.partitions}


def _read_metadata(cluster: Cluster, response: Any) -> Any:
    """Return the part of the cluster's topic, and store the response's brokers in kafka-python.

    Raises KafkaConnectionError if a Kafka broker cannot have sent this response.
    """
    from kafka.errors import KafkaConnectionError

    topics = response.topics or []
    if [topic.name for topic in topics] != [cluster.topic]:
        raise KafkaConnectionError(f"expected metadata of the topic {cluster.topic}, found {len(topics)} topics")
    partition_numbers = [partition.partition_index for partition in topics[0].partitions]
    if len(set(partition_numbers)) < len(partition_numbers) or min(partition_numbers, default=0) < 0:
        raise KafkaConnectionError("expected metadata of each partition, found a partition twice or a negative number")
    try:
        cluster.manager.cluster.update_metadata(response)
    except Exception as error:  # kafka-python does not check the response's list of brokers.
        raise KafkaConnectionError(f"the metadata cannot be read: {describe_error(error)}") from None
    return topics[0]


def ask_leaders(
    cluster: Cluster, partitions: list[int], build_request: Callable[[list[int]], Any]
) -> tuple[dict[int, Any], dict[int, str]]:
    """Ask the leaders of partitions. Return two dicts by partition: the responses and the errors.

    `build_request` gets the partitions of one leader. An error that can be temporary is retried. Raises TopicRefused.
    """
    from kafka import errors as kafka_errors

    responses: dict[int, Any] = {}
    errors: dict[int, Any] = {}
    no_leader = kafka_errors.LeaderNotAvailableError()
    pending = sorted(partitions)
    for _ in retry(cluster, lambda: f"partition {pending[0]} has no leader that answers"):
        partitions_of_leader: dict[int, list[int]] = {}
        for partition in pending:
            partitions_of_leader.setdefault(cluster.leaders.get(partition, NO_LEADER), []).append(partition)
        for leader, requested in partitions_of_leader.items():
            if cluster.waits.are_over:
                break
            if leader == NO_LEADER:
                errors |= dict.fromkeys(requested, no_leader)
                continue
            try:
                response = send(cluster, leader, build_request(requested))
            except kafka_errors.NodeNotReadyError:
                continue  # `errors` keeps an earlier error, which explains why the broker is not ready.
            except kafka_errors.KafkaError as error:
                errors |= dict.fromkeys(requested, error)
                continue
            for partition, result in _partition_results(cluster, response):
                if partition not in requested:
                    continue
                if not result.error_code:
                    responses[partition] = result
                    continue
                errors[partition] = kafka_errors.for_code(result.error_code)()
                if isinstance(errors[partition], kafka_errors.AuthorizationError):
                    raise TopicRefused(f"{cluster.topic}: {describe_error(errors[partition])}")
        final = {*responses, *(partition for partition, error in errors.items() if not error.retriable)}
        pending[:] = [partition for partition in pending if partition not in final]
        if not pending:
            break
    no_answer = "no time is left" if cluster.waits.are_over else describe_error(no_leader)
    reasons = {partition: describe_error(error) for partition, error in errors.items()}
    return responses, {number: reasons.get(number, no_answer) for number in partitions if number not in responses}


def _partition_results(cluster: Cluster, response: Any) -> Iterator[tuple[int, Any]]:
    for topic in (response.topics if response.name == "ListOffsetsResponse" else response.responses) or ():
        if (topic.topic if response.name == "FetchResponse" else topic.name) != cluster.topic:
            continue
        if response.name == "ProduceResponse":
            yield from ((result.index, result) for result in topic.partition_responses)
        else:
            yield from ((result.partition_index, result) for result in topic.partitions)


def ask_log_ranges(cluster: Cluster, partitions: list[int]) -> tuple[dict[int, tuple[int, int]], dict[int, str]]:
    """Return two dicts by partition: (log start offset, high watermark), and the text of the error.

    Raises TopicRefused.
    """
    starts, start_errors = ask_leaders(cluster, partitions, partial(_build_list_offsets, cluster.topic, EARLIEST))
    ends, end_errors = ask_leaders(cluster, list(starts), partial(_build_list_offsets, cluster.topic, LATEST))
    errors = start_errors | end_errors
    ranges = {}
    for number in ends:
        start = starts[number].offset
        end = ends[number].offset
        if 0 <= start <= end:
            ranges[number] = (start, end)
        else:
            errors[number] = f"the leader answers that the log begins at offset {start} and ends at offset {end}"
    return ranges, errors


def _build_list_offsets(topic: str, timestamp: int, partitions: list[int]) -> Any:
    from kafka.protocol.consumer import ListOffsetsRequest

    topic_type = ListOffsetsRequest.ListOffsetsTopic
    partition_requests = [
        topic_type.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=NO_LEADER_EPOCH, timestamp=timestamp
        )
        for partition in partitions
    ]
    return ListOffsetsRequest(
        replica_id=-1,  # a consumer; replicas on other brokers send their broker id
        isolation_level=READ_UNCOMMITTED,
        topics=[topic_type(name=topic, partitions=partition_requests)],
        min_version=1,
        max_version=7,
    )


def create_topics(bootstrap: str, partition_counts: Mapping[str, int], records: int) -> None:
    """Create topics with one replica, and append the same number of empty records to each partition.

    A test of a rescue needs topics that reach the committed offsets, because other offsets are refused.

    Parameters
    ----------
    bootstrap
        HOST:PORT of a broker.
    partition_counts
        The partition count of each topic.
    records
        The number of records of each partition.

    Raises
    ------
    UsageError
        If kafka-python is not installed, no broker responds, or a topic cannot be created or written.
    """
    from kafka.errors import KafkaError
    from kafka.protocol.admin import CreateTopicsRequest

    topic_type = CreateTopicsRequest.CreatableTopic
    topics = [
        topic_type(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
        for name, count in partition_counts.items()
    ]
    request = CreateTopicsRequest(
        topics=topics, timeout_ms=TIMEOUT_MS, validate_only=False, min_version=2, max_version=4
    )
    batch = encode_batch([LogRecord(offset, 0, None, b"") for offset in range(records)])
    with connect(bootstrap) as cluster:
        try:
            response = send(cluster, cluster.bootstrap[0].node_id, request)
        except KafkaError as error:
            raise UsageError(describe_error(error)) from None
        for topic in response.topics:
            if topic.error_code:
                raise UsageError(f"{topic.name}: {describe_code(topic.error_code)}")
        for name, count in partition_counts.items():
            # A new topic has no leaders yet, so the first attempt always fails.
            of_topic = replace(cluster, topic=name, leaders={})
            _, errors = ask_leaders(of_topic, list(range(count)), partial(_build_produce, name, batch))
            if errors:
                raise UsageError(f"{name}: {errors[min(errors)]}{cluster.waits.explain_end()}")


def _build_produce(topic: str, batch: bytes, partitions: list[int]) -> Any:
    from kafka.protocol.producer import ProduceRequest

    topic_type = ProduceRequest.TopicProduceData
    data = [topic_type.PartitionProduceData(index=partition, records=batch) for partition in partitions]
    return ProduceRequest(
        transactional_id=None,
        acks=1,  # the leader answers without waiting for other replicas
        timeout_ms=TIMEOUT_MS,
        topic_data=[topic_type(name=topic, partition_data=data)],
        min_version=3,
        max_version=8,
    )
