"""Why a classic coordinator fails a load with "Unexpected unload of active group", and what to do about it.

The last group record of the group is a tombstone, so the last step of the load removes the group. Two things keep it in
the cache: a pending commit of an open transaction in the same partition, or another partition with the same group. Then
the step fails. At that time, all groups of the partition are in the cache, so the broker answers for them.
Source: GroupMetadataManager.loadGroupsAndOffsets (3.9.2).
"""

from __future__ import annotations

from kafkagroups.errors import BadBytes
from kafkagroups.history.finding import Finding, join_words
from kafkagroups.history.hanging import abort_command
from kafkagroups.loading.caches import read_unloaded_group
from kafkagroups.loading.groups import Groups
from kafkagroups.log.producer_state import ProducerStates, add_batch
from kafkagroups.log.segments import Log


def describe_unload(log: Log, groups: Groups, kind: str, way_out: str) -> Finding | None:
    """Return the finding about a load that fails with "Unexpected unload of active group"; None for other loads.

    `kind` is the finding's kind. `way_out` is the remedy that any failed load has.
    """
    error = groups.partitions[log.partition].error
    group_id = None if error is None else read_unloaded_group(error)
    if group_id is None:
        return None
    group = groups.groups[group_id]
    what = (
        f"A Kafka {groups.kafka} broker fails at the last step of the load ({error}). The log deletes the group "
        f"{group_id}, and "
    )
    if group.partition == log.partition:
        first_offset = _find_first_open_offset(log, set(group.pending))
        what += "a transaction with offsets of it is still open."
        command = abort_command(log.partition, first_offset)
        remedy = f"Before the failover, end the transaction: {join_words(command)}"
    else:
        first_offset = None
        command = None
        what += f"partition {group.partition} has a group with the same id."
        remedy = (
            "The partition count of __consumer_offsets was changed: kafkagroups load PATH says which partition answers "
            "for the group. Restart the broker with the partitions in which the group belongs, or use another release"
        )
    what += " All groups of the partition are in the cache by then, so the broker answers for them."
    return Finding(log.partition, first_offset, group_id, None, kind, what, f"{remedy}. {way_out}", command)


def _find_first_open_offset(log: Log, producer_ids: set[int]) -> int | None:
    """Return the first offset of the first open transaction of these producers."""
    states = ProducerStates()
    for batch in log:
        try:
            add_batch(states, batch)
        except BadBytes:
            continue
    first_offsets = [states.producers[number].txn_first_offset for number in producer_ids if number in states.producers]
    return min((offset for offset in first_offsets if offset is not None), default=None)
