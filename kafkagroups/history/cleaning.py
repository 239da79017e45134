"""The rules about the log cleaner: it has stopped, or the log is much larger than what lives in it.

- `uncleaned`: at least MIN_DIRTY_SEGMENTS closed segments can be cleaned and have not been cleaned, they have more than
  MAX_DIRTY_SHARE of the cleanable bytes (min.cleanable.dirty.ratio of the topic), a pass would free at least half of
  these bytes, and the log covers at least MIN_UNCLEANED_MS. A running cleaner starts seconds after a segment is closed.
- `too_large`: the partition has at least LARGE_BYTES, and less than a tenth of them are live.
- `tombstones_stay`: more than half of at least MIN_TOMBSTONES records are tombstones, although the log is older than
  twice delete.retention.ms.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkagroups.history.finding import Finding
from kafkagroups.history.rule import Rule
from kafkagroups.history.stats import DELETE_RETENTION_MS, RECORDS_LOADED_PER_SECOND, PartitionStats
from kafkagroups.history.words import describe_time
from kafkagroups.records.refusals import LARGE_DECOMPRESSED_RECORD

MIN_DIRTY_SEGMENTS = 2
MAX_DIRTY_SHARE = 0.5
MIN_UNCLEANED_MS = 3_600_000
LARGE_BYTES = 300 * 2**20
"""Three segments of the default size."""
MIN_TOMBSTONES = 1000


class Uncleaned(Rule):
    def find(self) -> Iterator[Finding]:
        counts = self.partition.counts
        cleanable_bytes = counts.bytes - counts.uncleanable_bytes
        is_dirty = (
            counts.dirty_segments >= MIN_DIRTY_SEGMENTS and counts.dirty_bytes > MAX_DIRTY_SHARE * cleanable_bytes
        )
        if is_dirty and counts.span_ms >= MIN_UNCLEANED_MS and 2 * counts.freed_bytes >= counts.dirty_bytes:
            what = (
                f"The log cleaner has stopped, or it cannot clean this partition{_describe_last_pass(counts)}: it has "
                f"left out {counts.dirty_segments} closed segments with {counts.dirty_bytes} bytes, "
                f"{counts.dirty_bytes / cleanable_bytes:.0%} of what it can clean."
            )
            remedy = (
                "Look for uncleanable partitions and a stopped thread in the broker's log-cleaner.log, check "
                "log.cleaner.enable=true and cleanup.policy=compact, and restart the broker if its cleaner has stopped."
            )
            if LARGE_DECOMPRESSED_RECORD.applies_to(self.partition.dialect.version):
                remedy += (
                    f" Kafka {self.partition.dialect.kafka} also gives a partition up at a record in a compressed "
                    "batch that is larger than max.decompressed.message.bytes (kafkagroups compact "
                    "--max-decompressed-message-bytes finds it): raise this setting, and restart the broker."
                )
            yield self.finding(counts.cleaned_up_to or 0, "uncleaned", what, remedy)


def _describe_last_pass(counts: PartitionStats) -> str:
    """Return what the log tells about the last pass of the cleaner, as an aside in a sentence."""
    if counts.cleaned_up_to is None:
        return " (no trace of a pass)"
    if counts.last_cleaned_ms is None:
        return f" (the last pass that left a trace ended at offset {counts.cleaned_up_to})"
    return f" (the last pass that left a trace was at {describe_time(counts.last_cleaned_ms)})"


class TooLarge(Rule):
    def find(self) -> Iterator[Finding]:
        counts = self.partition.counts
        if counts.bytes >= LARGE_BYTES and 10 * counts.live_bytes < counts.bytes:
            what = (
                f"The partition has {counts.bytes} bytes, but only {counts.live_bytes} are live; a broker needs about "
                f"{counts.records / RECORDS_LOADED_PER_SECOND:.0f} s to load it."
            )
            remedy = (
                "Remove what stops the cleaner (the other findings, log-cleaner.log); if nothing stops it, lower "
                "segment.bytes and min.cleanable.dirty.ratio of __consumer_offsets, so that it cleans earlier."
            )
            yield self.finding(None, "too_large", what, remedy)


class TombstonesStay(Rule):
    def find(self) -> Iterator[Finding]:
        counts = self.partition.counts
        is_majority = counts.tombstones >= MIN_TOMBSTONES and 2 * counts.tombstones > counts.records
        if is_majority and counts.span_ms > 2 * DELETE_RETENTION_MS:
            what = (
                f"{counts.tombstones} of {counts.records} records are tombstones that no pass of the cleaner has "
                "removed."
            )
            remedy = (
                "Two passes remove a tombstone, delete.retention.ms apart: check that the cleaner runs "
                "(log-cleaner.log) and that delete.retention.ms of __consumer_offsets is a day or less."
            )
            yield self.finding(None, "tombstones_stay", what, remedy)
