"""The partition of `__consumer_offsets` that stores a group."""

from __future__ import annotations

from kafkagroups.errors import UsageError
from kafkagroups.helpers import MIN_INT32
from kafkagroups.records.text import java_hash


def partition_for(group: str, partitions: int = 50) -> int:
    """Return the partition that stores a group.

    Parameters
    ----------
    group
        The group id.
    partitions
        The number of partitions of the topic (offsets.topic.num.partitions).

    Returns
    -------
    int
        The partition: `Utils.abs(group.hashCode()) % partitions`, with Java's hash code. Kafka's `Utils.abs` returns 0
        for the smallest int32.

    Raises
    ------
    UsageError
        `partitions` is below 1.

    Notes
    -----
    Source: GroupMetadataManager.partitionFor (3.9), Utils.abs.

    Examples
    --------
    >>> partition_for("my-group", partitions=50)
    12
    """
    if partitions < 1:
        raise UsageError(f"a topic has at least 1 partition, not {partitions}")
    return hash_group(group) % partitions


def hash_group(group: str) -> int:
    """Return `Utils.abs(group.hashCode())`, from which `partition_for` computes the partition.

    Kafka's `Utils.abs` returns 0 for the smallest int32.
    """
    hash_code = java_hash(group)
    return 0 if hash_code == MIN_INT32 else abs(hash_code)
