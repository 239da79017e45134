"""The log start offsets and the high watermarks of partitions, which their leaders return for ListOffsets requests.

Source: ListOffsetsRequest.json (4.3.1); KafkaApis.handleListOffsetRequest (4.3.1).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kafkagroups.live.client import Cluster, ask_leaders, describe_error

# In a ListOffsets request, these timestamps mean the log start offset and the high watermark.
EARLIEST = -2
LATEST = -1
# Values of request fields.
CONSUMER_REPLICA_ID = -1
"""The replica id of a consumer. Replicas on other brokers send their broker id."""
READ_UNCOMMITTED = 0
"""The isolation level in which a broker also returns the records of open and aborted transactions."""
NO_LEADER_EPOCH = -1
"""A leader epoch that the broker does not check."""


def ask_log_ranges(cluster: Cluster, partitions: list[int]) -> tuple[dict[int, tuple[int, int]], dict[int, str]]:
    """Return two dicts by partition: (log start offset, high watermark), and the text of the error.

    The partitions are those of the cluster's topic. Raises TopicRefused if the user has no permission.
    """
    starts, start_errors = ask_leaders(cluster, partitions, partial(_build_list_offsets, cluster.topic, EARLIEST))
    ends, end_errors = ask_leaders(cluster, list(starts), partial(_build_list_offsets, cluster.topic, LATEST))
    errors = {number: describe_error(error) for number, error in (start_errors | end_errors).items()}
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
    """Return a ListOffsets request for some partitions of a topic. `timestamp` is EARLIEST or LATEST."""
    from kafka.protocol.consumer import ListOffsetsRequest

    topic_type = ListOffsetsRequest.ListOffsetsTopic
    partition_requests = [
        topic_type.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=NO_LEADER_EPOCH, timestamp=timestamp
        )
        for partition in partitions
    ]
    return ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=READ_UNCOMMITTED,
        topics=[topic_type(name=topic, partitions=partition_requests)],
        min_version=1,
        max_version=7,
    )
