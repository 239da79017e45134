"""Pulling the raw topic `__consumer_offsets` from a running cluster into segments.

Control batches are included. The client is kafka-python (extra `live`). Its consumer API is not used, because it would
hide control batches and split batches into records. Three requests are enough: Metadata (the leader of each partition),
ListOffsets (log start offset and high watermark) and Fetch with isolation level read_uncommitted. A Fetch response
contains the bytes of the leader's segments:

- The first batch can begin below the requested offset, because a broker sends whole batches. Batches that end below the
  requested offset are dropped.
- The last batch can be incomplete. It is dropped and requested again.

The pull of a partition ends at the high watermark (the end of the replicated log) that the partition had at the start.
A cleaned log has gaps: an empty response before this high watermark means that no other batch exists below it. Bytes
are written as they are received, and checksums are not checked. So damage on the broker's disk is also damage in the
copy.
Source: FetchRequest.json, ListOffsetsRequest.json, MetadataRequest.json, KafkaApis.handleFetchRequest (4.3.1).

Simpler than a consumer: there are no fetch sessions, only one request is sent at a time, and it always goes to the
leader. Brokers before 0.11 are not supported: they convert batches, and a Metadata request creates a missing topic.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.live.client import TOPIC, Cluster, Security, ask_leaders, connect, describe, refresh
from kafkagroups.log.batch import Batch
from kafkagroups.log.batches import parse_batch
from kafkagroups.log.frames import FrameState, frames
from kafkagroups.log.segment_file import MAX_RELATIVE_OFFSET, SEGMENT_BYTES, segment_name
from kafkagroups.log.writer import create_folder

FETCH_BYTES = 8 * 1024 * 1024
"""The number of bytes that one Fetch request asks for."""
# In a ListOffsets request, these timestamps mean the log start offset and the high watermark.
EARLIEST = -2
LATEST = -1
Progress = Callable[[int, int], None]
"""Called with the number of offsets that were pulled and the number of all offsets."""


@dataclass
class PulledPartition:
    """The pulled part of a partition: the offsets from `first` up to, not including, `next`.

    `bytes` is the number of bytes that were written.
    """

    first: int
    next: int
    bytes: int = 0


@dataclass
class PullResult:
    """The result of a pull: the partitions, and one line in `problems` for each partition that is not complete."""

    partitions: dict[int, PulledPartition] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def pull(
    bootstrap: str,
    out: str | Path,
    *,
    partitions: Iterable[int] | None = None,
    security: Security | None = None,
    segment_bytes: int = SEGMENT_BYTES,
    progress: Progress | None = None,
) -> PullResult:
    """Pull the partitions of a running cluster into files `out`/__consumer_offsets-N/<base offset>.log.

    If an error ends the pull, the files contain whole batches.

    Parameters
    ----------
    bootstrap
        HOST:PORT of a broker, or of several brokers, separated by commas.
    out
        A new or empty folder.
    partitions
        The partitions to pull. None means all.
    security
        How to connect. None means PLAINTEXT.
    segment_bytes
        The size at which a segment is rolled.
    progress
        Called with the number of offsets that were pulled and the number of all offsets.

    Returns
    -------
    PullResult
        The pulled partitions, and the problems of partitions that are not complete.

    Raises
    ------
    UsageError
        kafka-python is not installed, no broker responds, the topic or a partition does not exist, the user has no
        permission, or the folder is not empty.
    """
    folder = Path(out)
    with connect(bootstrap, security or Security()) as cluster:
        create_folder(folder)
        refresh(cluster)
        existing = cluster.leaders
        requested = sorted(existing if partitions is None else set(partitions))
        if missing := [number for number in requested if number not in existing]:
            raise UsageError(f"{TOPIC} has the partitions 0 to {len(existing) - 1}, not {', '.join(map(str, missing))}")
        starts, start_errors = ask_leaders(cluster, requested, _list_offsets_builder(EARLIEST))
        ends, end_errors = ask_leaders(cluster, list(starts), _list_offsets_builder(LATEST))
        errors = sorted({**start_errors, **end_errors}.items())
        result = PullResult(problems=[f"{TOPIC}-{number}: {describe(error)}" for number, error in errors])
        total = sum(end.offset - starts[number].offset for number, end in ends.items())
        finished = 0
        for number, end in sorted(ends.items()):
            part = PulledPartition(starts[number].offset, starts[number].offset)
            result.partitions[number] = part
            try:
                writer = _SegmentWriter(folder / f"{TOPIC}-{number}", part.first, segment_bytes)
                for _ in _pull_partition(cluster, number, part, end.offset, writer):
                    if progress:
                        progress(finished + part.next - part.first, total)
            except _PullStopped as reason:
                result.problems.append(f"{TOPIC}-{number}: pulled up to offset {part.next}, not {end.offset}: {reason}")
            finished += end.offset - part.first
        return result


class _PullStopped(Exception):
    """Raised if a partition cannot be pulled to its end. The message is the reason."""


def _list_offsets_builder(timestamp: int) -> Callable[[list[int]], Any]:
    """Return a function that builds the ListOffsets request for some partitions. `timestamp` is EARLIEST or LATEST."""
    from kafka.protocol.consumer import ListOffsetsRequest

    topic_type = ListOffsetsRequest.ListOffsetsTopic

    def build_request(numbers: list[int]) -> Any:
        partitions = [
            topic_type.ListOffsetsPartition(partition_index=number, current_leader_epoch=-1, timestamp=timestamp)
            for number in numbers
        ]
        topics = [topic_type(name=TOPIC, partitions=partitions)]
        return ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics, min_version=1, max_version=7)

    return build_request


def _fetch_builder(offset: int) -> Callable[[list[int]], Any]:
    """Return a function that builds the Fetch request for some partitions. The response begins at `offset`."""
    from kafka.protocol.consumer import FetchRequest

    topic_type = FetchRequest.FetchTopic

    def build_request(numbers: list[int]) -> Any:
        partitions = [
            topic_type.FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            for number in numbers
        ]
        # Since version 4 a broker does not convert batches. Since version 13 a request has topic ids instead of names.
        return FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[topic_type(topic=TOPIC, partitions=partitions)],
            forgotten_topics_data=[],
            min_version=4,
            max_version=12,
        )

    return build_request


def _pull_partition(
    cluster: Cluster, number: int, part: PulledPartition, end: int, writer: _SegmentWriter
) -> Iterator[None]:
    """Pull the offsets of partition `number` from `part.next` up to, not including, `end`. Yield after each response.

    Raises _PullStopped if the partition cannot be pulled up to `end`.
    """
    while part.next < end:
        responses, errors = ask_leaders(cluster, [number], _fetch_builder(part.next))
        if errors:
            raise _PullStopped(describe(errors[number]))
        response = responses[number]
        data = bytes(response.records or b"")
        batches = list(select_batches(data, part.next, end))
        writer.append(batches, data)
        if batches:
            part.next = batches[-1].next_offset
        elif response.high_watermark < end:
            raise _PullStopped(f"the leader's log ended at offset {end}, and now ends at {response.high_watermark}")
        else:
            part.next = end  # The cleaner has removed all batches up to `end`.
        part.bytes = writer.bytes
        yield


def select_batches(data: bytes, offset: int, end: int) -> Iterator[Batch]:
    """Yield the whole batches of a response that end at or after `offset` and begin before `end`.

    Raises _PullStopped if the response does not begin with a whole batch.
    """
    for frame in frames(data):
        if frame.state is not FrameState.WHOLE:
            is_first = frame.position == 0
            if not is_first:
                return
            raise _PullStopped(frame.reason)
        batch = parse_batch(frame, data[frame.position : frame.end])
        if batch.base_offset >= end:
            return
        if batch.last_offset >= offset:
            yield batch


class _SegmentWriter:
    """Writes the segments of one partition. Even after an error, the segments contain only whole batches."""

    def __init__(self, folder: Path, start_offset: int, segment_bytes: int) -> None:
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.bytes = 0
        """The bytes of all segments."""
        self._base_offset = start_offset
        self._size = 0
        """The bytes of the current segment."""
        folder.mkdir()
        self._path = folder / segment_name(start_offset)
        self._path.touch()

    def append(self, batches: list[Batch], data: bytes) -> None:
        """Append batches, whose bytes are in `data`, to the current segment and to new segments."""
        while batches:
            batches = self._append_to_segment(batches, data)

    def _append_to_segment(self, batches: list[Batch], data: bytes) -> list[Batch]:
        """Append the batches that fit into the current segment. Return the other batches; they need a new segment."""
        first = batches[0]
        count = 0
        size = self._size
        if not self.bytes and first.base_offset < self._base_offset:
            # The log start offset is in the middle of this batch, because the first records of the batch were deleted.
            self._path = self._path.rename(self.folder / segment_name(first.base_offset))
            self._base_offset = first.base_offset
        for batch in batches:
            is_full = size + batch.size > self.segment_bytes
            is_too_far = batch.last_offset - self._base_offset > MAX_RELATIVE_OFFSET
            if size and (is_full or is_too_far):
                break
            size += batch.size
            count += 1
        content = b"".join(data[batch.position : batch.position + batch.size] for batch in batches[:count])
        try:
            with open(self._path, "ab") as file:
                file.write(content)
        except BaseException:
            os.truncate(self._path, self._size)
            raise
        self.bytes += len(content)
        self._size = size
        if count < len(batches):
            self._base_offset = batches[count].base_offset
            self._size = 0
            self._path = self.folder / segment_name(self._base_offset)
        return batches[count:]
