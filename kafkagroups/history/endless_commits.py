"""The findings about commits that the new coordinator treats as pending without end.

The new coordinator treats a commit as pending if its batch has a producer id. Without the transactional bit, the batch
belongs to no transaction, so no coordinator writes a marker for it. The last stable offset does not stop at the batch,
and a restart changes nothing. Only a marker of the producer, or a tombstone of the offset, ends the pending commit.
Kafka's group coordinator does not write such batches. An idempotent producer does if a program writes into the topic
itself. The classic coordinator treats the commit as committed.

Source: the load of the crafted log t-idem by 3.9.2 and 4.3.1 (data/crafted/answers.json); OffsetMetadataManager.replay
(4.3.1); TransactionsCommand.AbortTransactionCommand (4.3.1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kafkagroups.groups.offsets import PartitionOffsets
from kafkagroups.history.event import count_of, list_names
from kafkagroups.history.finding import TRANSACTIONS_TOOL, Finding, join_words
from kafkagroups.history.hanging import read_batches_of
from kafkagroups.loading.engines import Engine
from kafkagroups.loading.groups import Groups
from kafkagroups.log.producer_state import ProducerStates, add_batch
from kafkagroups.log.segments import Log

ENDLESS = "endless_pending_commit"
"""The kind of these findings."""


def find_endless_commits(
    log: Log, groups: Groups, engine: Engine, open_producers: Collection[int] = ()
) -> list[Finding]:
    """Return a finding for each group and producer with such commits in a partition.

    `groups` is the load of all logs. `open_producers` are producers that are known to have an open transaction. The log
    is read a second time only if another producer has pending commits.
    """
    found = _find_pending(log.partition, groups) if groups.coordinator == "new" else ()
    pending = [each for each in found if each[1] not in open_producers]
    if not pending:
        return []
    last_offset = groups.partitions[log.partition].next_offset - 1
    producer_ids = {producer_id for _, producer_id, _ in pending}
    epochs = _find_epochs_outside_transactions(log, producer_ids, last_offset, engine)
    return [
        _describe(log.partition, group_id, producer_id, epochs[producer_id], offsets, is_known=group_id in groups)
        for group_id, producer_id, offsets in pending
        if producer_id in epochs
    ]


def _find_pending(partition: int | None, groups: Groups) -> Iterator[tuple[str, int, PartitionOffsets]]:
    """Yield the group id, the producer id and the offsets of the pending commits in a partition."""
    for group_id, parts in groups.parts():
        if parts.pending and parts.group.partition == partition:
            for producer_id, offsets in parts.pending.items():
                yield group_id, producer_id, offsets
    for group_id, orphan in groups.orphans.items():
        if orphan.partition == partition:
            for producer_id, offsets in orphan.pending.items():
                yield group_id, producer_id, offsets


def _find_epochs_outside_transactions(
    log: Log, producer_ids: set[int], last_offset: int, engine: Engine
) -> dict[int, int]:
    """Return the newest epoch of each of these producers that has no open transaction at the end of the log."""
    states = ProducerStates()
    for batch in read_batches_of(log, producer_ids, last_offset, engine):
        add_batch(states, batch)
    return {
        producer_id: state.epoch for producer_id, state in states.producers.items() if state.txn_first_offset is None
    }


def _describe(
    partition: int | None, group_id: str, producer_id: int, epoch: int, offsets: PartitionOffsets, *, is_known: bool
) -> Finding:
    keys = sorted(offsets, key=lambda key: offsets[key].record_offset)
    first_offset = offsets[keys[0]].record_offset
    what = (
        f"Group {group_id} has {count_of(len(keys), 'pending commit')} ({list_names([str(key) for key in keys])}) of "
        f"producer {producer_id} without a transaction, from offset {first_offset} on. So no marker ends what is "
        "pending: clients that fetch stable offsets get UNSTABLE_OFFSET_COMMIT, also after a restart. The last stable "
        "offset does not show it."
    )
    number = "PARTITION" if partition is None else partition
    place = ("--topic", "__consumer_offsets", "--partition", str(number))
    producer = ("--producer-id", str(producer_id), "--producer-epoch", str(epoch), "--coordinator-epoch", "0")
    command = [*TRANSACTIONS_TOOL, "abort", *place, *producer]
    remedy = "Stop the program that writes into __consumer_offsets itself, because Kafka's clients never do. "
    if is_known:
        remedy += (
            "Stop the group's consumers, delete the offsets with kafka-consumer-groups.sh --delete-offsets, and commit "
            "new ones. Or write"
        )
    else:
        remedy += "Write"
    remedy += f" an abort marker, which drops the pending offsets: {join_words(command)}"
    name = str(keys[0]) if len(keys) == 1 else None
    return Finding(partition, first_offset, group_id, name, ENDLESS, what, remedy, command)
