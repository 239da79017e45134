"""Lesson 12: parts of a log, and how the results of the parts are merged.

The result of a part has the newest line of each key: its position in the log, and the committed offset. Merged results
are the offsets that the new coordinator loads.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from kafkagroups.course.log_lines import Line, read_batch_lines
from kafkagroups.log.folders import open_logs

Key = tuple[str, str]
"""A group id and a partition such as "orders-0"."""
NewestLine = tuple[int, int | None]
"""The position of a line in the log, and the committed offset. The committed offset is None for a tombstone."""
PartResult = dict[Key, NewestLine]
"""For each key: the newest line in one part of the log."""
_MARKERS = ("commit", "abort")


def list_part_results(path: str | Path) -> list[PartResult]:
    """Return the results of the smallest parts of a log: one for each line that counts.

    An offset in a transaction counts if the next marker of its producer commits. Tombstones count in any case.

    Parameters
    ----------
    path
        A partition folder, one segment file (`.log`), or a folder of partition folders.

    Raises
    ------
    UsageError
        If there is no log at this path.
    """
    results: list[PartResult] = []
    for log in open_logs(path):
        lines = [line for batch in log for line in read_batch_lines(batch)]
        results += _list_results_of_partition(lines)
    return results


def _list_results_of_partition(lines: Sequence[Line]) -> Iterator[PartResult]:
    markers = [line for line in lines if line.record_type in _MARKERS]
    for line in lines:
        if line.record_type == "offset" and _counts(line, markers):
            assert line.group is not None
            assert line.partition is not None
            yield {(line.group, line.partition): (line.record_offset, line.value)}


def _counts(line: Line, markers: Sequence[Line]) -> bool:
    """Return whether a line of an offset counts. `markers` are all markers of the log, in their order."""
    if line.producer is None or line.value is None:
        return True
    for marker in markers:
        if marker.producer == line.producer and marker.record_offset > line.record_offset:
            return marker.record_type == "commit"
    return False


def merge_results(left: PartResult, right: PartResult) -> PartResult:
    """Return the result of two parts together. `left` can be the earlier or the later part.

    Parameters
    ----------
    left, right
        The results of the parts.
    """
    merged = dict(left)
    for key, line in right.items():
        merged[key] = max(left.get(key, line), line, key=_read_position)
    return merged


def _read_position(line: NewestLine) -> int:
    position, _ = line
    return position


def merge_in_random_order(results: Sequence[PartResult], seed: int) -> dict[Key, int]:
    """Merge the results of all parts, two at a time, and return the offsets that count.

    Parameters
    ----------
    results
        The results of the parts.
    seed
        The order depends only on this number.
    """
    dice = random.Random(seed)
    remaining = list(results)
    while len(remaining) > 1:
        dice.shuffle(remaining)
        remaining.append(merge_results(remaining.pop(), remaining.pop()))
    newest_lines = remaining[0] if remaining else {}
    return {key: value for key, (_, value) in newest_lines.items() if value is not None}
