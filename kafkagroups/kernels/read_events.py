"""Reads the commits that may create groups, from a log that the engine has loaded without an error."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from kafkagroups.kernels.events import ID_TEXT, find_commit_events
from kafkagroups.kernels.hash_table import add_texts
from kafkagroups.kernels.layout import SIZE_BITS
from kafkagroups.kernels.second_reading import Array, SecondReading
from kafkagroups.kernels.secret import process_secret
from kafkagroups.kernels.unpack import as_array
from kafkagroups.log.segments import Log

INITIAL_EVENT_ROWS = 4096


class EventReader(SecondReading[tuple[int, str]]):
    """The reader of the Kafka offset and the group id of each event (events.py) of some groups.

    `group_ids` are the ids of these groups. `batch_count` is how many batches the load of the log has read.
    """

    def __init__(self, log: Log, group_ids: Collection[str], batch_count: int) -> None:
        super().__init__(log)
        self._batches_left = np.array([batch_count], np.int64)
        self._group_ids = list(group_ids)
        encoded_ids = [group_id.encode() for group_id in self._group_ids]
        sizes = np.array([len(encoded_id) for encoded_id in encoded_ids], np.int64)
        self._ids = np.zeros((len(sizes), 2), np.int64)
        self._ids[:, ID_TEXT] = (np.cumsum(sizes) - sizes) << SIZE_BITS | sizes
        # A group id can be empty, but numpy cannot make an array from 0 bytes.
        self._id_bytes = as_array(b"".join(encoded_ids) or b"\0")
        self._id_slots = np.full(1 << (2 * len(sizes) + 1).bit_length(), -1, np.int64)
        add_texts(self._ids, self._id_slots, self._id_bytes, process_secret())
        self._events = np.empty((INITIAL_EVENT_ROWS, 2), np.int64)

    @property
    def has_more(self) -> bool:
        return bool(self._batches_left[0])

    def scan(self, data: Array, position: int) -> tuple[int, int, int]:
        status, next_position, count = find_commit_events(
            data,
            position,
            self._batches_left,
            self._id_slots,
            self._ids,
            self._id_bytes,
            self._events,
            process_secret(),
        )
        return status, next_position, count

    def collect(self, data: Array, count: int, segment: str) -> Iterator[tuple[int, str]]:
        for offset, row in self._events[:count].tolist():
            yield offset, self._group_ids[row]

    def grow(self) -> None:
        self._events = np.empty((2 * len(self._events), 2), np.int64)
