"""Spark tasks: distribution of logs, and what a worker does once after its first task."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from functools import cache
from heapq import heappop, heappush
from typing import TypeVar

T = TypeVar("T")


def distribute(sized_items: Iterable[tuple[int, T]], max_lists: int) -> list[list[T]]:
    """Distribute (size, item) pairs over at most `max_lists` lists of about the same total size.

    There is always at least one list. Items are taken from the largest to the smallest. Each item goes to the list that
    has the smallest total at that moment.
    """
    ordered = sorted(sized_items, key=lambda sized_item: -sized_item[0])
    lists: list[list[T]] = [[] for _ in range(max(1, min(max_lists, len(ordered))))]
    totals = [(0, number) for number in range(len(lists))]
    for size, item in ordered:
        total, number = heappop(totals)
        lists[number].append(item)
        # An empty log has a cost, too. Without the 1, all empty logs would go to the same list.
        heappush(totals, (total + size + 1, number))
    return lists


@cache
def freeze_objects() -> None:
    """Exclude the objects that a worker has imported and compiled from garbage collection, once per worker.

    PySpark collects garbage after every task. Without this call, each collection would visit all of these objects.
    """
    gc.collect()
    gc.freeze()
