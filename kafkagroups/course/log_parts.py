"""Lesson 12: parts of a log, and how the results of the parts are merged.

Merged results are the offsets that the new coordinator loads; the classic one needs the records in their order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

from kafkagroups.api import load
from kafkagroups.course.log_lines import Line, read_batch_lines
from kafkagroups.course.small_logs import SmallRecord, write_small_log
from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.log.folders import open_logs
from kafkagroups.records.serde import ControlType

Key = tuple[str | None, str | None]
NewestLine = tuple[int, int | None]
"""The position of a line in the log, and the committed offset, or None for a tombstone."""
PartResult = dict[Key, NewestLine]
# The partition and the producer id of a described log.
_TOPIC_PARTITION = TopicPartition("t", 0)
_PRODUCER_ID = 1


def list_part_results(path: str | Path) -> list[PartResult]:
    """Return the results of the smallest parts of a log: one for each line that counts.

    An offset in a transaction counts if the next marker of its producer commits, and a tombstone always.
    """
    results: list[PartResult] = []
    for log in open_logs(path):
        lines = [line for batch in log for line in read_batch_lines(batch)]
        markers = [line for line in lines if line.record_type in ("commit", "abort")]
        results += [
            {(line.group, line.partition): (line.record_offset, line.value)}
            for line in lines
            if line.record_type == "offset" and _counts(line, markers)
        ]
    return results


def _counts(line: Line, markers: Sequence[Line]) -> bool:
    if line.producer is None or line.value is None:
        return True
    ends = (each for each in markers if each.producer == line.producer and each.record_offset > line.record_offset)
    end = next(ends, None)
    return end is not None and end.record_type == "commit"


def merge_results(left: PartResult, right: PartResult) -> PartResult:
    """Return the result of two parts together. `left` can be the earlier or the later part."""
    merged = dict(left)
    for key, line in right.items():
        merged[key] = max(left.get(key, line), line, key=itemgetter(0))
    return merged


def merge_in_random_order(results: Sequence[PartResult], seed: int) -> dict[Key, int]:
    """Merge the results of all parts, two at a time, in an order that depends only on the seed."""
    dice = random.Random(seed)
    remaining = list(results)
    while len(remaining) > 1:
        dice.shuffle(remaining)
        remaining.append(merge_results(remaining.pop(), remaining.pop()))
    newest_lines = remaining[0] if remaining else {}
    return {key: value for key, (_, value) in newest_lines.items() if value is not None}


def load_described_log(lines: Sequence[str], coordinator: str) -> int | None:
    """Write a log about one offset, and return the offset that the "new" or "classic" coordinator loads, or None.

    Each line is a batch: "commit: 100", "commit in a transaction: 101" (any number), "tombstone" or "marker that
    commits the transaction". Another text raises UsageError.
    """
    with TemporaryDirectory() as folder:
        write_small_log(Path(folder), (_parse_line(line).encode() for line in lines))
        group = load(folder, coordinator).get("shop")
        committed = group.offsets.get(_TOPIC_PARTITION) if group else None
        return committed.offset if committed else None


def _parse_line(line: str) -> SmallRecord:
    kind, _, committed = line.partition(": ")
    if kind == "marker that commits the transaction":
        return SmallRecord(producer=_PRODUCER_ID, ends=ControlType.COMMIT)
    if kind == "tombstone":
        return SmallRecord("t")
    if kind in ("commit", "commit in a transaction") and committed:
        return SmallRecord("t", int(committed), 0 if kind == "commit" else _PRODUCER_ID)
    raise UsageError(f"unknown record {line!r}: the docstring of load_described_log lists the texts")
