"""Transactions that do not end: hanging ones, and commits that the new coordinator treats as pending without end.

A transaction hangs if no coordinator will end it. The log does not contain the state of the transaction coordinator, so
it never proves this. Two signs are findings:

- The transaction is open HANGING_MS (the default of the producer's transaction.timeout.ms) or longer before the newest
  record of all logs. Clients write offsets right before they end a transaction, so usually it is open for milliseconds.
- The transaction is open LATE_OPEN_MS or longer, and began within LATE_START_MS (the default of the producer's
  request.timeout.ms) after a marker that aborted another transaction of the same producer id and epoch. This is how a
  commit looks that arrives after the end of its transaction. A marker of a coordinator that aborts after its time-out
  would have a higher epoch, and so has each marker with transaction version 2 (Kafka 4.0), where there is no such sign.

A younger transaction that is open for LATE_OPEN_MS is a finding without urgency (`open_transaction`) if a group with
members has offsets in it, because its consumers cannot start meanwhile.

The new coordinator treats a commit as pending if its batch has a producer id. Without the transactional bit, no
coordinator writes a marker for it, so the commit is pending until a marker of the producer or a tombstone of the offset
comes. Kafka's group coordinator writes no such batches, but an idempotent producer does if a program writes into the
topic itself. The classic coordinator treats the commit as committed.

Source: TransactionsCommand (4.x); KIP-890; OffsetMetadataManager.replay (4.3.1); the load of the crafted log t-idem by
3.9.2 and 4.3.1 (data/crafted/answers.json).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from kafkagroups.errors import BadBytes
from kafkagroups.groups.group import Group
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.history.finding import TRANSACTIONS_TOOL, Finding, count_of, describe_time, list_names
from kafkagroups.history.passes import Partition
from kafkagroups.history.stats import OpenTransaction, Stats
from kafkagroups.log.batch import Batch
from kafkagroups.records.releases import Version
from kafkagroups.records.serde import ControlType, decode_control_key, decode_end_transaction_marker

HANGING_MS = 60_000
LATE_OPEN_MS = 10_000
LATE_START_MS = 30_000
FIRST_WITH_DESCRIBE_PRODUCERS: Version = (2, 8)


def add_details(partition: Partition) -> None:
    """Set what the open transactions of a log have apart from their totals: their epochs, aborts and members.

    Only the batches of their producers count, up to the last first batch of them.
    """
    transactions = partition.counts.open_transactions
    for each in transactions:
        known = {name: partition.parts[name].decode_group() for name in each.groups if name in partition.parts}
        each.groups_with_members = [name for name in known if _has_had_members(known[name], each.since_ms)]
    open_transactions = {transaction.producer_id: transaction for transaction in transactions}
    offsets = [transaction.first_offset for transaction in transactions]
    epochs: dict[int, int] = {}
    """By producer: the epoch of the transaction that is open at this place of the log."""
    aborts: dict[int, Batch] = {}
    """By producer: the newest marker, if it aborted a transaction of the same epoch."""
    for batch in partition.read(open_transactions, min(offsets), max(offsets)) if offsets else ():
        number = batch.producer_id
        transaction = open_transactions[number]
        if batch.base_offset == transaction.first_offset:
            transaction.producer_epoch = batch.producer_epoch
            abort = aborts.get(number)
            if abort is not None and abort.producer_epoch == batch.producer_epoch:
                transaction.aborted_at = abort.base_offset
                transaction.aborted_ms = abort.max_timestamp
        elif batch.is_control and batch.base_offset < transaction.first_offset:
            aborts.pop(number, None)
            is_abort = False
            transaction.coordinator_epoch = 0
            with suppress(BadBytes):
                for marker in batch.records[:1]:  # The cleaner can have removed it.
                    is_abort = decode_control_key(marker.key) is ControlType.ABORT
                    transaction.coordinator_epoch = decode_end_transaction_marker(marker.value)
            if epochs.pop(number, None) == batch.producer_epoch and is_abort:
                aborts[number] = batch
        elif batch.is_transactional and batch.base_offset < transaction.first_offset:
            epochs.setdefault(number, batch.producer_epoch)


def _has_had_members(group: AnyGroup, since_ms: int) -> bool:
    """Return whether a group has members, or lost the last one after a time (ms since the epoch)."""
    return bool(group.members) or (isinstance(group, Group) and (group.current_state_timestamp or 0) > since_ms)


def find_hanging(stats: Stats, version: Version) -> Iterator[Finding]:
    """Yield the findings about open transactions. Their age is that at the newest record of all logs."""
    pairs = [(number, counts, each) for number, counts in stats.partitions.items() for each in counts.open_transactions]
    for number, counts, transaction in pairs:
        age_ms = stats.newest_ms - transaction.since_ms
        delay_ms = -1 if transaction.aborted_ms is None else transaction.since_ms - transaction.aborted_ms
        # Such a transaction looks like a commit that arrived after the end of its transaction.
        is_late = age_ms >= LATE_OPEN_MS and 0 <= delay_ms <= LATE_START_MS
        is_hanging = age_ms >= HANGING_MS or is_late
        is_blocking = age_ms >= LATE_OPEN_MS and bool(transaction.groups_with_members)
        if transaction.since_ms < 0 or not (is_hanging or is_blocking):
            continue
        first_offset = transaction.first_offset
        names = f" with offsets of {', '.join(transaction.groups)}" if transaction.groups else ""
        cleaner = "The cleaner cannot pass it, and clients" if first_offset < counts.active_base_offset else "Clients"
        is_early = (counts.last_timestamp_ms or 0) - transaction.since_ms < min(age_ms, HANGING_MS)
        end = "all partitions, if they were copied at the same time" if is_early else "the log"
        what = (
            f"The transaction of producer {transaction.producer_id} from offset {first_offset}{names} is "
            f"still open {age_ms / 1000:.0f} s later, at the newest record of {end}. {cleaner} that fetch stable "
            "offsets get UNSTABLE_OFFSET_COMMIT."
        )
        group = transaction.groups[0] if len(transaction.groups) == 1 else None
        if not is_hanging:
            end = describe_time(transaction.since_ms + HANGING_MS)
            remedy = (
                "Usually this ends by itself: by the producer, by one that starts with its transactional.id, or after "
                f"its transaction.timeout.ms, which is not in the log (by default at {end}). Until then, consumers of "
                f"{list_names(transaction.groups_with_members)} that start or get other partitions wait."
            )
            yield Finding.make(number, first_offset, "open_transaction", what, remedy, group=group)
            continue
        if is_late:
            what += (
                f" It began {delay_ms / 1000:.1f} s after the marker at offset {transaction.aborted_at}, which aborted "
                f"another transaction of the same producer and epoch ({transaction.producer_epoch}): so this commit "
                "can have arrived after the end of that transaction, and then no coordinator ends it."
            )
        command = abort_command(number, version, transaction)
        yield Finding.make(number, first_offset, "hanging_transaction", what, group=group, command=command)


def abort_command(partition: int | None, version: Version, transaction: OpenTransaction) -> list[str]:
    """Return the words of the command that ends a hanging transaction.

    Brokers before Kafka 2.8 cannot say which producer has a transaction open at an offset, so they need the producer
    and the epoch of its coordinator.
    Source: TransactionsCommand.AbortTransactionCommand (4.x), DescribeProducersRequest.json.
    """
    if version >= FIRST_WITH_DESCRIBE_PRODUCERS:
        return _abort(partition, "--start-offset", transaction.first_offset)
    epochs = ("--producer-epoch", transaction.producer_epoch or 0, "--coordinator-epoch", transaction.coordinator_epoch)
    return _abort(partition, "--producer-id", transaction.producer_id, *epochs)


def _abort(partition: int | None, *words: object) -> list[str]:
    place = ("--topic", "__consumer_offsets", "--partition", "PARTITION" if partition is None else partition)
    return [*TRANSACTIONS_TOOL, "abort", *map(str, (*place, *words))]


def find_endless_commits(partition: Partition) -> Iterator[Finding]:
    """Yield a finding for each group and producer with pending commits that belong to no open transaction."""
    open_producers = {transaction.producer_id for transaction in partition.counts.open_transactions}
    holders = [(name, parts.group.partition, parts.pending) for name, parts in sorted(partition.parts.items())]
    holders += [(name, each.partition, each.pending) for name, each in partition.groups.orphans.items()]
    endless = [
        (group_id, producer_id, offsets)
        for group_id, number, pending in holders
        if number == partition.number and partition.dialect.coordinator == "new"
        for producer_id, offsets in pending.items()
        if producer_id not in open_producers
    ]
    producers = {producer_id for _, producer_id, _ in endless}
    batches = partition.read(producers, last_offset=partition.loaded.next_offset - 1) if endless else ()
    epochs = {batch.producer_id: batch.producer_epoch for batch in batches}
    for group_id, producer_id, offsets in endless:
        keys = sorted(offsets, key=lambda key: offsets[key].record_offset)
        first_offset = offsets[keys[0]].record_offset
        what = (
            f"Group {group_id} has {count_of(len(keys), 'pending commit')} ({list_names(keys)}) of producer "
            f"{producer_id} without a transaction, from offset {first_offset} on. So no marker ends what is pending: "
            "clients that fetch stable offsets get UNSTABLE_OFFSET_COMMIT, also after a restart."
        )
        epoch = epochs.get(producer_id, 0)
        words = ("--producer-id", producer_id, "--producer-epoch", epoch, "--coordinator-epoch", 0)
        command = _abort(partition.number, *words)
        deletion = "Stop the group's consumers, delete its offsets (kafka-consumer-groups.sh), commit again. Or write"
        remedy = (
            "Stop the program that writes into __consumer_offsets itself, because Kafka's clients never do. "
            f"{deletion if group_id in partition.groups else 'Write'} an abort marker, which drops the commits:"
        )
        about = {"group": group_id, "topic_partition": keys[0] if len(keys) == 1 else None, "command": command}
        yield partition.finding(first_offset, "endless_pending_commit", what, remedy, **about)
