"""New topics of a cluster, with records whose content does not matter.

A committed offset can only be set in a cluster whose topic has a log that reaches this offset. So a test of a rescue
needs topics that are long enough.
Source: CreateTopicsRequest.json (4.3.1); ProduceRequest.json (4.3.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.live.client import (
    NO_LEADER,
    RETRY_DELAYS,
    Cluster,
    NoSuchTopic,
    connect,
    describe_error,
    refresh_leaders,
    send,
)
from kafkagroups.live.security import Security
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.record_batch import encode_batch

TIMEOUT_MS = 30_000
LEADER_IS_ENOUGH = 1
"""The `acks` of a produce request that the leader answers without waiting for other replicas."""
_TIMESTAMP = 0


def create_topics(bootstrap: str, partition_counts: Mapping[str, int], records: int) -> None:
    """Create topics with one replica, and append the same number of records to each partition.

    Parameters
    ----------
    bootstrap
        HOST:PORT of a broker.
    partition_counts
        The partition count of each topic.
    records
        The number of records of each partition. Their offsets are 0 to `records` - 1, and they are empty.

    Raises
    ------
    UsageError
        If kafka-python is not installed, no broker responds, or a topic cannot be created or written.
    """
    batch = encode_batch([LogRecord(offset, _TIMESTAMP, None, b"") for offset in range(records)])
    with connect(bootstrap, Security()) as cluster:
        _create(cluster, partition_counts)
        for topic, count in partition_counts.items():
            _append(replace(cluster, topic=topic, leaders={}), count, batch)


def _create(cluster: Cluster, partition_counts: Mapping[str, int]) -> None:
    from kafka.errors import KafkaError, for_code
    from kafka.protocol.admin import CreateTopicsRequest

    topic_type = CreateTopicsRequest.CreatableTopic
    topics = [
        topic_type(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
        for name, count in partition_counts.items()
    ]
    request = CreateTopicsRequest(
        topics=topics, timeout_ms=TIMEOUT_MS, validate_only=False, min_version=2, max_version=4
    )
    try:
        response = send(cluster, cluster.bootstrap[0].node_id, request)
    except KafkaError as error:
        raise UsageError(describe_error(error)) from None
    for topic in response.topics:
        if topic.error_code:
            raise UsageError(f"{topic.name}: {describe_error(for_code(topic.error_code)())}")


def _append(cluster: Cluster, count: int, batch: bytes) -> None:
    """Append a batch to each partition of the cluster's topic. After its creation, a topic has no leaders yet."""
    pending = set(range(count))
    reason = "no partition has a leader"
    for delay in RETRY_DELAYS:
        with suppress(NoSuchTopic):
            refresh_leaders(cluster)
        for partition in sorted(pending):
            leader = cluster.leaders.get(partition, NO_LEADER)
            if leader != NO_LEADER:
                error = _produce(cluster, leader, partition, batch)
                if error is None:
                    pending.remove(partition)
                else:
                    reason = error
        if not pending:
            return
        cluster.waits.sleep(cluster.net, delay, f"{cluster.topic}: {reason}")
    raise UsageError(f"{cluster.topic}: {reason}{cluster.waits.explain_end()}")


def _produce(cluster: Cluster, leader: int, partition: int, batch: bytes) -> str | None:
    """Append a batch to a partition. Return the error that the leader answers; None if the batch is in the log."""
    from kafka.errors import KafkaError, for_code

    try:
        response = send(cluster, leader, _build_produce(cluster.topic, batch, partition))
    except KafkaError as error:
        raise UsageError(describe_error(error)) from None
    [topic] = response.responses
    [result] = topic.partition_responses
    return describe_error(for_code(result.error_code)()) if result.error_code else None


def _build_produce(topic: str, batch: bytes, partition: int) -> Any:
    from kafka.protocol.producer import ProduceRequest

    topic_type = ProduceRequest.TopicProduceData
    data = [topic_type.PartitionProduceData(index=partition, records=batch)]
    return ProduceRequest(
        transactional_id=None,
        acks=LEADER_IS_ENOUGH,
        timeout_ms=TIMEOUT_MS,
        topic_data=[topic_type(name=topic, partition_data=data)],
        min_version=3,
        max_version=8,
    )
