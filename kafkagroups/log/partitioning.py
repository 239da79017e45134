"""On which partition of `__consumer_offsets` a group lives."""

from __future__ import annotations

from kafkagroups.errors import UsageError
from kafkagroups.records.text import java_hash


def partition_for(group: str, partitions: int = 50) -> int:
    """`abs(group.hashCode()) % partitions`, with Java's hash and `abs(MIN_VALUE) = 0`.

    `partitions` is offsets.topic.num.partitions, 50 by default. UsageError below 1.
    Source: GroupMetadataManager.partitionFor (3.9), Utils.abs.
    """
    if partitions < 1:
        raise UsageError(f"a topic has at least 1 partition, not {partitions}")
    value = java_hash(group)
    return 0 if value == -(2**31) else abs(value) % partitions
