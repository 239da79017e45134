"""Kernels of the hash table of producers: find or add a producer, and fill a new table.

A row of the array `producers` is a producer with pending commits, and the first node of its list. layout.py describes
the columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.layout import FIRST_NODE, IS_USED, PRODUCER_OF_ROW, PRODUCER_WALK, PRODUCERS
from kafkagroups.kernels.scan import hash_number


@kernel
def find_or_add_producer(producer_id: int, counts: Any, producers: Any, secret: Any) -> int:
    """Return the number of a producer's row in `producers`; add the row if the producer is new."""
    mask = len(producers) - 1
    row = hash_number(np.uint64(producer_id), secret) & mask
    while producers[row, IS_USED]:
        if producers[row, PRODUCER_OF_ROW] == producer_id:
            return row
        row = row + 1 & mask
    producers[row, PRODUCER_OF_ROW] = producer_id
    producers[row, FIRST_NODE] = -1
    producers[row, PRODUCER_WALK] = 0
    producers[row, IS_USED] = 1
    counts[PRODUCERS] += 1
    return row


@kernel
def rehash_producers(rows: Any, counts: Any, producers: Any, secret: Any) -> None:
    """Add the producers in `rows`, each with its first node, to `producers`, an empty hash table."""
    for number in range(len(rows)):
        row = find_or_add_producer(rows[number, PRODUCER_OF_ROW], counts, producers, secret)
        producers[row, FIRST_NODE] = rows[number, FIRST_NODE]
