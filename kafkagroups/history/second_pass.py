"""A second pass over a log, for what the first one cannot know: it feeds several followers, and opens no segment twice.

A load decides what the second pass must look at, for example the producers whose transaction is still open. If all
followers name their producers, the native engine finds the batches of these. Otherwise the log is read in plain Python.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence

from kafkagroups.errors import BadBytes
from kafkagroups.helpers import MAX_INT64, MIN_INT64
from kafkagroups.loading import native
from kafkagroups.loading.engines import Engine
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.segment_file import WHOLE_FILE, base_offset_of
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import Stop
from kafkagroups.records.dialects import DEFAULT_DIALECT


class Follower:
    """What a second pass feeds: batches from `first_offset` to the one that begins at `last_offset`.

    `producers` are the ids of the producers whose batches it gets. None: all batches. Empty: it needs no pass.
    """

    producers: Collection[int] | None = ()
    first_offset = MIN_INT64
    last_offset = MAX_INT64

    def follow(self, batch: Batch) -> None:
        """Take the next batch. Its records can be unreadable."""


def list_readable(batch: Batch) -> tuple[LogRecord, ...]:
    """Return the records of a batch; none if they cannot be read, which the load has found, too."""
    try:
        return batch.records
    except BadBytes:
        return ()


def read_again(log: Log, followers: Sequence[Follower], engine: Engine) -> None:
    """Read a log for followers. Segments that none of them needs are not opened."""
    active = [follower for follower in followers if follower.producers is None or follower.producers]
    if not active:
        return
    bases = [base_offset_of(segment) for segment in log.segments]
    last_offset = max(follower.last_offset for follower in active)
    # A transaction can begin right after the end of another one, which is in the segment before.
    first = max(0, bisect_right(bases, min(follower.first_offset for follower in active)) - 2)
    end = max(1, bisect_right(bases, last_offset))
    part = log.select_ranges({segment: log.ranges.get(segment, WHOLE_FILE) for segment in log.segments[first:end]})
    part.skips_damage = log.skips_damage
    if any(follower.producers is None for follower in active):
        batches = iter(part)
    else:
        producers = {number for follower in active for number in follower.producers or ()}
        batches = _read_batches_of(part, producers, last_offset, engine)
    for batch in batches:
        if batch.base_offset > last_offset:
            return
        for follower in active:
            is_wanted = follower.producers is None or batch.producer_id in follower.producers
            if is_wanted and batch.base_offset <= follower.last_offset:
                follower.follow(batch)


def _read_batches_of(log: Log, producer_ids: Collection[int], last_offset: int, engine: Engine) -> Iterator[Batch]:
    """Yield the batches of some producers in a log, up to the batch that begins at an offset."""
    if engine.name == "compiled":
        stop = Stop(until_offset=last_offset + 1)
        reading = native.read_if_possible(log, DEFAULT_DIALECT, stop, producers=producer_ids)
        if reading is not None:
            yield from native.read_batches_at(log, reading.found_batches()[0])
            return
    yield from log
