"""The rules of the log cleaner, in the order in which a pass applies them.

A pass is one run of the cleaner over one partition (cleaner.py). The dirty range of the log has not been cleaned yet. A
tombstone is a record without a value. A marker is the control record that ends a transaction. It is unused if the pass
has read no data batch of its transaction.
"""

from __future__ import annotations

from typing import NamedTuple


class CleanerRule(NamedTuple):
    """A rule of the cleaner.

    `subject` is what the rule is about. `source` is the place in Kafka 4.3.1. `code` is the function in this folder
    that follows the rule, as "module.function".
    """

    subject: str
    rule: str
    source: str
    code: str


CLEANER_RULES = (
    CleanerRule(
        "Range",
        "The dirty range begins where the earlier passes ended. If this offset is not in the log, all of it is dirty.",
        "LogCleanerManager.cleanableOffsets",
        "log_to_clean.choose_range",
    ),
    CleanerRule(
        "Range",
        "A pass never touches the active segment, which is the last one of the log. The dirty range also ends before "
        "the first open transaction.",
        "LogCleanerManager.cleanableOffsets",
        "log_to_clean.choose_range",
    ),
    CleanerRule(
        "Range",
        "A segment is cleaned as a whole or not at all. The segment that contains the end of the dirty range stays.",
        "LogToClean; Cleaner.doClean",
        "log_to_clean.select_segments",
    ),
    CleanerRule(
        "Offset map",
        "The pass first reads the dirty range, and stores the newest offset of each key in the offset map. A key is "
        "stored as an MD5 hash. Records in control batches and in aborted transactions are not in the map.",
        "Cleaner.buildOffsetMap; SkimpyOffsetMap",
        "offset_map.fill_map",
    ),
    CleanerRule(
        "Offset map",
        "When the map is full, the pass cleans only up to the last offset in it. The next pass begins there.",
        "Cleaner.buildOffsetMapForSegment",
        "offset_map.fill_map",
    ),
    CleanerRule(
        "Records",
        "A record stays if the map has no newer record of its key. All earlier records of the key are removed.",
        "Cleaner.shouldRetainRecord",
        "record_filter._is_kept",
    ),
    CleanerRule(
        "Records",
        "Records after the last offset of the map stay, except data of aborted transactions.",
        "Cleaner.shouldRetainRecord",
        "record_filter._is_kept",
    ),
    CleanerRule(
        "Records",
        "A record without a key is removed.",
        "Cleaner.shouldRetainRecord",
        "record_filter._is_kept",
    ),
    CleanerRule(
        "Tombstones",
        "The first pass that keeps a tombstone sets the delete horizon of its batch: the time of the pass plus "
        "delete.retention.ms (24 hours by default). Attribute bit 6 is set, and the base timestamp holds the horizon. "
        "The horizon never changes.",
        "MemoryRecords.filterTo; KIP-534",
        "record_filter.filter_batch",
    ),
    CleanerRule(
        "Tombstones",
        "The first pass at or after the delete horizon removes the tombstones of the batch.",
        "Cleaner.shouldRetainRecord",
        "record_filter.filter_batch",
    ),
    CleanerRule(
        "Transactions",
        "Data of an aborted transaction is removed by the first pass that reads it.",
        "CleanedTransactionMetadata.onBatchRead",
        "cleaned_transactions.CleanedTransactions",
    ),
    CleanerRule(
        "Transactions",
        "A marker stays while data of its transaction is in the log. An unused marker gets a delete horizon like a "
        "tombstone, and is removed at this horizon.",
        "CleanedTransactionMetadata.onControlBatchRead; Cleaner.cleanInto",
        "cleaned_transactions.CleanedTransactions",
    ),
    CleanerRule(
        "Batches",
        "A batch that loses no record is copied byte for byte.",
        "MemoryRecords.filterTo",
        "record_filter.filter_batch",
    ),
    CleanerRule(
        "Batches",
        "A rewritten batch keeps its offsets, producer, sequence, leader epoch, codec and timestamp type. The offsets "
        "of the records never change.",
        "MemoryRecords.filterTo; buildRetainedRecordsInto",
        "record_filter._rewrite_batch",
    ),
    CleanerRule(
        "Batches",
        "A batch that loses all its records is removed, except in the three cases below.",
        "Cleaner.cleanInto; MemoryRecords.filterTo",
        "record_filter._is_kept_when_empty",
    ),
    CleanerRule(
        "Batches",
        "It stays empty if it has the last data of an active producer. A producer is active for "
        "producer.id.expiration.ms after its last batch.",
        "Cleaner.cleanInto; ProducerStateManager",
        "producer_state.find_active_producers",
    ),
    CleanerRule(
        "Batches",
        "It stays empty if it is the control batch with the newest epoch of an active producer without data in this "
        "epoch.",
        "Cleaner.cleanInto; ProducerStateManager",
        "record_filter._is_kept_when_empty",
    ),
    CleanerRule(
        "Batches",
        "It stays empty if it is the last batch of the cleaned part.",
        "Cleaner.cleanInto",
        "record_filter._is_kept_when_empty",
    ),
    CleanerRule(
        "Batches",
        "An empty batch has no codec, no delete horizon and no base timestamp.",
        "MemoryRecords.filterTo; DefaultRecordBatch.writeEmptyHeader",
        "record_filter._encode_empty_batch",
    ),
    CleanerRule(
        "Old formats",
        "Messages of magic 0 and 1 (before Kafka 0.11) become batches of magic 2.",
        "MemoryRecords.filterTo",
        "record_filter._rewrite_batch",
    ),
    CleanerRule(
        "Old formats",
        "Their tombstones have no delete horizon. The age of the segment's file decides when they are removed.",
        "Cleaner.doClean (legacyDeleteHorizonMs)",
        "cleaner._find_old_tombstone_limit",
    ),
    CleanerRule(
        "Segments",
        "Neighbouring segments become one segment if together they are not larger than segment.bytes, and if their "
        "offsets are close enough.",
        "Cleaner.groupSegmentsBySize",
        "log_to_clean.group_by_size",
    ),
    CleanerRule(
        "Segments",
        "The new segment has the base offset of the group's first segment, and the modification time of the last one.",
        "Cleaner.cleanSegments",
        "cleaner._clean_group",
    ),
    CleanerRule(
        "Result",
        "Offsets have gaps after a pass. The next offset of the log does not change.",
        "Cleaner.cleanSegments",
        "cleaner._clean_group",
    ),
)
"""Every rule that decides what a pass leaves of a partition."""
