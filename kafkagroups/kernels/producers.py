"""Kernel of the hash table of producers with pending commits. layout.py describes the columns of `producers`."""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.hash_table import find_number
from kafkagroups.kernels.layout import FIRST_NODE, IS_USED, NUMBER, PRODUCER_WALK, PRODUCERS


@kernel
def find_or_add_producer(producer_id: int, counts: Any, producers: Any, secret: Any) -> int:
    """Return the number of a producer's row in `producers`; add the row if the producer is new."""
    row = find_number(producer_id, producers, secret)
    if not producers[row, IS_USED]:
        producers[row, NUMBER] = producer_id
        producers[row, IS_USED] = 1
        producers[row, FIRST_NODE] = -1
        producers[row, PRODUCER_WALK] = 0
        counts[PRODUCERS] += 1
    return row
