"""Spark tasks: the distribution of logs over tasks, and what a worker process does once after its first task."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from functools import cache
from heapq import heappop, heappush
from typing import TypeVar

T = TypeVar("T")


def distribute(sized_items: Iterable[tuple[int, T]], max_lists: int) -> list[list[T]]:
    """Distribute items over at most `max_lists` lists of about the same total size.

    `sized_items` are pairs of a size and an item. The result has at least one list. Items are taken from the largest to
    the smallest. Each item is added to the list that has the smallest total size at that moment.
    """
    ordered = sorted(sized_items, key=lambda sized_item: -sized_item[0])
    lists: list[list[T]] = [[] for _ in range(max(1, min(max_lists, len(ordered))))]
    totals = [(0, number) for number in range(len(lists))]
    for size, item in ordered:
        total, number = heappop(totals)
        lists[number].append(item)
        # Without the 1, all items of size 0 (empty logs) would be added to the same list.
        heappush(totals, (total + size + 1, number))
    return lists


@cache
def exclude_objects_from_gc() -> None:
    """Exclude all objects that exist now from garbage collection. Only the first call in a worker process does this.

    PySpark collects garbage after every task, and each collection would check all objects that the worker imported.
    """
    gc.collect()
    gc.freeze()
