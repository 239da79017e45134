"""Lesson 10: how a cleaned replica grows, compared with a replica that is never cleaned."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kafkagroups import CleanerConfig, compact, load
from kafkagroups.log.folders import open_log
from kafkagroups.log.writer import LogWriter
from kafkagroups.synth import write as write_synthetic


@dataclass(frozen=True)
class ReplicaSizes:
    """The sizes of the two replicas after a round, in bytes. Around a cleaner pass, they are equal if no pass ran.

    `records` were appended to each replica so far. `live_offsets` is how many committed offsets the coordinator loads
    from the cleaned replica.
    """

    records: int
    live_offsets: int
    never_cleaned_bytes: int
    bytes_before_pass: int
    bytes_after_pass: int


def grow_replicas(
    folder: Path, records: int = 40_000, groups: int = 50, rounds: int = 10, min_dirty_ratio: float = 0.5
) -> Iterator[ReplicaSizes]:
    """Append the same synthetic records to two replicas, clean only one, and yield the sizes after each round.

    The replicas are `folder`/never-cleaned and `folder`/cleaned. A pass runs if more than `min_dirty_ratio` of the
    bytes, without the newest segment, is not yet cleaned. This is Kafka's setting min.cleanable.dirty.ratio.
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
        bytes_before_pass = _count_bytes(cleaned)
        if _measure_dirty_ratio(cleaned, first_dirty) > min_dirty_ratio:
            # Each batch is only one millisecond later than the batch before it, so tombstones have a short retention.
            compaction = compact(cleaned, pass_output, CleanerConfig(first_dirty=first_dirty, delete_retention_ms=100))
            first_dirty = compaction.next_dirty_offset
            shutil.rmtree(cleaned)
            pass_output.rename(cleaned)
        live_offsets = sum(len(group.offsets) for group in load(cleaned).values())
        yield ReplicaSizes(
            records=new_batches[-1].next_offset,
            live_offsets=live_offsets,
            never_cleaned_bytes=_count_bytes(never_cleaned),
            bytes_before_pass=bytes_before_pass,
            bytes_after_pass=_count_bytes(cleaned),
        )


def _count_bytes(log: Path) -> int:
    return sum(file.stat().st_size for file in log.glob("*.log"))


def _measure_dirty_ratio(log: Path, first_dirty: int) -> float:
    """Return the dirty bytes divided by all bytes, without the newest segment, which the cleaner does not clean."""
    older_segments = sorted(log.glob("*.log"))[:-1]
    size_by_base_offset = {int(segment.stem): segment.stat().st_size for segment in older_segments}
    dirty_bytes = sum(size for base_offset, size in size_by_base_offset.items() if base_offset >= first_dirty)
    all_bytes = sum(size_by_base_offset.values())
    return dirty_bytes / all_bytes if all_bytes else 0.0
