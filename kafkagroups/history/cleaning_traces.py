"""The traces that passes of the log cleaner leave in a segment, and what the traces say about these passes.

A broker writes the offsets of a partition without holes. So the log cleaner has been at a place where offsets are
missing. A batch with a delete horizon has been through a pass, too: the pass sets the horizon in the first batch with a
tombstone or an unused marker that it keeps. A pass that removes nothing and keeps no tombstone leaves no trace.
Source: Cleaner.cleanInto and MemoryRecords.filterTo (4.3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkagroups.log.batch import DELETE_HORIZON, NO_TIMESTAMP, Batch, record_count

NO_TRACE = -1
DELETE_RETENTION_MS = 86_400_000
"""The default of the topic's setting delete.retention.ms, which the log does not contain."""


class Traces(NamedTuple):
    """The traces in one segment.

    Attributes
    ----------
    end
        The Kafka offset after the last trace; NO_TRACE if there is none.
    horizon_ms
        The newest delete horizon, in ms since the epoch; NO_TIMESTAMP if no batch has one.
    newest_ms
        The largest timestamp of the batches that have a delete horizon; NO_TIMESTAMP if no batch has one.
    """

    end: int = NO_TRACE
    horizon_ms: int = NO_TIMESTAMP
    newest_ms: int = NO_TIMESTAMP


def add_batch(traces: Traces, batch: Batch, previous_end: int) -> Traces:
    """Return the traces of a segment up to a batch. `previous_end` is the offset after the batch before it.

    The native engine follows the same rules (`Follow::start_batch`, follow.rs). A batch that begins before
    `previous_end` is odd: only its delete horizon is a trace.
    """
    end = traces.end
    if batch.base_offset >= previous_end:
        if batch.base_offset > previous_end:
            end = batch.base_offset
        if batch.last_offset - batch.base_offset + 1 > record_count(batch):
            end = batch.next_offset
    if batch.magic >= 2 and batch.attributes & DELETE_HORIZON:
        horizon_ms = max(traces.horizon_ms, batch.base_timestamp)
        return Traces(batch.next_offset, horizon_ms, max(traces.newest_ms, batch.max_timestamp))
    return traces if end == traces.end else traces._replace(end=end)


def find_cleaned_up_to(segment_bases: Sequence[int], traces: Sequence[Traces]) -> int | None:
    """Return the Kafka offset up to which the log was cleaned; None if it contains no trace.

    A pass cleans whole segments. So the offset is the base offset of the segment after the last one with a trace. If
    the last segment of the log has a trace, the log is a copy, and the offset is the one after the last trace. Later
    passes can have cleaned more, without a trace. A pass whose offset map was full stopped inside the segment.
    """
    for number in range(len(traces) - 1, -1, -1):
        if traces[number].end != NO_TRACE:
            return traces[number].end if number == len(segment_bases) - 1 else segment_bases[number + 1]
    return None


def find_last_cleaned(traces: Sequence[Traces]) -> int | None:
    """Return the time of the newest pass that set a delete horizon, in ms since the epoch.

    The horizon is the time of the pass plus delete.retention.ms. The default of this setting is assumed. The result is
    None if no batch has a horizon. It is also None if the pass would then be older than a record that it cleaned: the
    setting was smaller. Later passes can have set no horizon.
    """
    horizon_ms = max((trace.horizon_ms for trace in traces), default=NO_TIMESTAMP)
    newest_ms = max((trace.newest_ms for trace in traces), default=NO_TIMESTAMP)
    if horizon_ms == NO_TIMESTAMP or horizon_ms - DELETE_RETENTION_MS < newest_ms:
        return None
    return horizon_ms - DELETE_RETENTION_MS
