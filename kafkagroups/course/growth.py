"""Lesson 08: how a replica that is cleaned and one that is never cleaned grow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kafkagroups.api import compact, load
from kafkagroups.log.record_batch import rebuild_bytes
from kafkagroups.log.segments import open_log
from kafkagroups.log.writer import LogWriter
from kafkagroups.synth import write as write_synthetic


@dataclass(frozen=True)
class Growth:
    """The size of two replicas after the same number of records.

    Attributes
    ----------
    records
        How many records were written so far.
    live
        How many committed offsets a load finds.
    never_cleaned
        The bytes of the replica that is never cleaned.
    before_pass, after_pass
        The bytes of the other replica before and after its pass. They are equal if no pass was due.
    """

    records: int
    live: int
    never_cleaned: int
    before_pass: int
    after_pass: int


def grow_replicas(
    folder: Path, records: int = 40_000, groups: int = 50, rounds: int = 10, ratio: float = 0.5
) -> Iterator[Growth]:
    """Append the same synthetic records to two replicas, clean only one of them, and yield their sizes per round.

    The replicas are `folder`/never-cleaned and `folder`/cleaned. Batches are one millisecond apart.

    Parameters
    ----------
    folder
        Where the replicas are written.
    records
        How many records are written in all.
    groups
        How many groups commit.
    rounds
        How often the sizes are measured.
    ratio
        A pass runs if more than this part of the closed segments' bytes is dirty.
    """
    never_cleaned = folder / "never-cleaned"
    cleaned = folder / "cleaned"
    pass_output = folder / "pass"
    write_synthetic(folder / "synthetic", records, partitions=1, groups=groups, seed=8)
    batches = list(open_log(folder / "synthetic" / "__consumer_offsets-0"))
    batches_per_round = -(-len(batches) // rounds)
    first_dirty = 0
    for start in range(0, len(batches), batches_per_round):
        new_batches = batches[start : start + batches_per_round]
        for log in (never_cleaned, cleaned):
            with LogWriter(log, segment_bytes=16_384) as writer:
                for batch in new_batches:
                    writer.append(rebuild_bytes(batch))
        before_pass = _count_bytes(cleaned)
        if _dirty_ratio(cleaned, first_dirty) > ratio:
            result = compact(cleaned, pass_output, first_dirty=first_dirty, delete_retention_ms=100)
            first_dirty = result.next_dirty_offset
            shutil.rmtree(cleaned)
            pass_output.rename(cleaned)
        live = sum(len(group.offsets) for group in load(cleaned).values())
        yield Growth(
            records=new_batches[-1].next_offset,
            live=live,
            never_cleaned=_count_bytes(never_cleaned),
            before_pass=before_pass,
            after_pass=_count_bytes(cleaned),
        )


def _count_bytes(log: Path) -> int:
    return sum(file.stat().st_size for file in log.glob("*.log"))


def _dirty_ratio(log: Path, first_dirty: int) -> float:
    """Return which part of the closed segments' bytes was written since the last pass."""
    closed_segments = sorted(log.glob("*.log"))[:-1]
    sizes = [(int(segment.stem), segment.stat().st_size) for segment in closed_segments]
    dirty_bytes = sum(size for base_offset, size in sizes if base_offset >= first_dirty)
    all_bytes = sum(size for _, size in sizes)
    return dirty_bytes / all_bytes if all_bytes else 0.0
