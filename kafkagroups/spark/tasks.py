"""Spark tasks: how logs are distributed over them, and what each worker does when a task ends."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from functools import cache
from heapq import heappop, heappush
from typing import TypeVar

T = TypeVar("T")


def distribute(sized: Iterable[tuple[int, T]], most: int) -> list[list[T]]:
    """Distribute (size, item) pairs over at most `most` lists of about the same total size.

    There is always at least one list. The largest item comes first; each goes to the list that is smallest then.
    """
    ordered = sorted(sized, key=lambda entry: -entry[0])
    lists: list[list[T]] = [[] for _ in range(max(1, min(most, len(ordered))))]
    filled = [(0, number) for number in range(len(lists))]
    for size, item in ordered:
        total, number = heappop(filled)
        lists[number].append(item)
        heappush(filled, (total + size + 1, number))
    return lists


@cache
def freeze_objects() -> None:
    """Exclude what a worker has imported and compiled from garbage collection, once per worker.

    PySpark collects garbage after every task; without this, each collection visits all of these objects.
    """
    gc.collect()
    gc.freeze()
