"""Lesson 10: passes of the log cleaner, what each did with each record, and how a cleaned replica grows.

The shop's log is one partition of the offsets topic (data/harbour/cleaning).
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafkagroups import CleanerConfig, compact, edit
from kafkagroups.course.lesson_folders import find_data, make_scratch_folder
from kafkagroups.course.small_logs import encode_commit, encode_records
from kafkagroups.log.batch import TRANSACTIONAL, LogRecord
from kafkagroups.log.cleaner import CleanedTransactions, ProducerStates, add_batch
from kafkagroups.log.folders import open_log
from kafkagroups.log.writer import LogWriter
from kafkagroups.synth import write as write_synthetic

_SHOP_LOG = "harbour/cleaning/before-clean/__consumer_offsets-38"
_HANGING_OFFSET = 216
_HANGING_PRODUCER = 77


class CleanerPass(NamedTuple):
    """One pass of the cleaner, with the partition folder before and after it.

    From `end_offset` on, the log is unchanged.
    """

    title: str
    log_before: Path
    log_after: Path
    end_offset: int


def classify_records(log: str | Path) -> Iterator[tuple[str, LogRecord]]:
    """Yield each record of a partition folder with its class for the cleaner: "marker", "aborted" (in an aborted
    transaction), "tombstone" or "value".
    """
    producers = ProducerStates()
    for batch in open_log(log):
        add_batch(producers, batch)
    transactions = CleanedTransactions(producers.aborted)
    for batch in open_log(log):
        is_discardable = transactions.check_next_batch(batch)
        for record in batch.records:
            if batch.is_control:
                yield "marker", record
            elif is_discardable:
                yield "aborted", record
            else:
                yield "tombstone" if record.value is None else "value", record


def list_offset_map_records(log: str | Path) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return the offset, key and value of each record that the cleaner reads into its offset map: no transaction
    markers, and no records of aborted transactions.
    """
    return [
        (record.offset, record.key, record.value)
        for record_class, record in classify_records(log)
        if record_class in ("value", "tombstone")
    ]


def write_log_with_hanging_transaction(folder: str | Path) -> Path:
    """Write the shop's log with one more record, which begins a transaction without a marker, and return the folder.

    The added record has offset 216 and producer id 77, so each later offset is one larger than in the shop's log.
    """
    offset_shift = 0
    with LogWriter(folder, segment_bytes=8_000) as log:
        for batch in open_log(find_data(_SHOP_LOG)):
            if batch.base_offset == _HANGING_OFFSET:
                commits = [encode_commit("till-sync", 7)]
                time_ms = batch.max_timestamp
                log.append(encode_records(_HANGING_OFFSET, time_ms, commits, TRANSACTIONAL, _HANGING_PRODUCER))
                offset_shift = 1
            # The first 8 bytes of a batch are the base offset. The checksum does not cover these bytes (lesson 03), so
            # the checksum stays correct.
            log.append((batch.base_offset + offset_shift).to_bytes(8, "big") + batch.data[8:])
    return Path(folder)


def abort_transaction(log: Path, producer_id: int) -> Path:
    """Return a copy of a partition folder, in which an abort marker in a new segment ends a hanging transaction."""
    copy = make_scratch_folder() / "ended"
    edit(log, copy, ["roll", ("marker", f"abort:{producer_id}")])
    return copy


def find_results(cleaner_pass: CleanerPass) -> dict[int, str]:
    """Return, by offset, the class of each record (`classify_records`) and what a pass did with it: "kept", "gone",
    "waits" (a tombstone or a marker, until its delete horizon), or "unchanged" if the pass did not read it.
    """
    horizons = read_horizons(cleaner_pass.log_after)
    results = {}
    for record_class, record in classify_records(cleaner_pass.log_before):
        if record.offset >= cleaner_pass.end_offset:
            results[record.offset] = "unchanged"
        elif record.offset not in horizons:
            results[record.offset] = f"{record_class} gone"
        elif record_class in ("tombstone", "marker") and horizons[record.offset] is not None:
            results[record.offset] = f"{record_class} waits"
        else:
            results[record.offset] = f"{record_class} kept"
    return results


def read_horizons(log: Path) -> dict[int, int | None]:
    return {record.offset: batch.delete_horizon_ms for batch in open_log(log) for record in batch.records}


class ReplicaSizes(NamedTuple):
    """How many records were appended to each of the two replicas so far, and the sizes of the replicas in bytes."""

    records: int
    never_cleaned_bytes: int
    bytes_after_pass: int


def grow_replicas(folder: Path, records: int = 40_000, groups: int = 50, rounds: int = 10) -> Iterator[ReplicaSizes]:
    """Append the same synthetic records to two replicas, clean only one, and yield the sizes after each round.

    The replicas are `folder`/never-cleaned and `folder`/cleaned. A pass runs if more than half of the bytes, without
    the newest segment, is not yet cleaned (the default of min.cleanable.dirty.ratio).
    """
    never_cleaned = folder / "never-cleaned"
    cleaned = folder / "cleaned"
    pass_output = folder / "pass"
    write_synthetic(folder / "synthetic", records, partitions=1, groups=groups, seed=8)
    batches = list(open_log(folder / "synthetic" / "__consumer_offsets-0"))
    batches_per_round = math.ceil(len(batches) / rounds)
    first_dirty = 0  # The first offset that no pass has cleaned.
    for start in range(0, len(batches), batches_per_round):
        new_batches = batches[start : start + batches_per_round]
        for log in (never_cleaned, cleaned):
            with LogWriter(log, segment_bytes=16_384) as writer:
                for batch in new_batches:
                    writer.append(batch.data)
        if _measure_dirty_ratio(cleaned, first_dirty) > 0.5:
            # Each batch is only one millisecond later than the batch before it, so tombstones have a short retention.
            compaction = compact(cleaned, pass_output, CleanerConfig(first_dirty=first_dirty, delete_retention_ms=100))
            first_dirty = compaction.next_dirty_offset
            shutil.rmtree(cleaned)
            pass_output.rename(cleaned)
        yield ReplicaSizes(new_batches[-1].next_offset, _count_bytes(never_cleaned), _count_bytes(cleaned))


def _count_bytes(log: Path) -> int:
    return sum(file.stat().st_size for file in log.glob("*.log"))


def _measure_dirty_ratio(log: Path, first_dirty: int) -> float:
    size_by_base_offset = {int(older.stem): older.stat().st_size for older in sorted(log.glob("*.log"))[:-1]}
    dirty_bytes = sum(size for base_offset, size in size_by_base_offset.items() if base_offset >= first_dirty)
    return dirty_bytes / max(sum(size_by_base_offset.values()), 1)
