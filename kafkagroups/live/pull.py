"""Pulls the raw topic `__consumer_offsets` of a running cluster as segments, control batches included.

The client is kafka-python (extra `live`). Its consumer API is not used, because that would hide control batches and
split batches into records. Three requests are enough: Metadata (the leader of each partition), ListOffsets (log start
and high watermark) and Fetch with isolation level read_uncommitted. A Fetch response contains the bytes of the leader's
segments:

- The first batch can begin below the requested offset, because batches come whole. Batches that end below this offset
  are dropped.
- The last batch can be incomplete. It is dropped and requested again.
- A cleaned log has gaps. An empty response below the end means that no batch follows.

The pull ends at the high watermark that a partition had at the start. Bytes are written as they come, and checksums
are not checked. So damage on the broker's disk is also damage in the copy.
Source: FetchRequest.json, ListOffsetsRequest.json, MetadataRequest.json, KafkaApis.handleFetchRequest (4.3.1).

Simpler than a consumer: one request at a time, no fetch sessions, always the leader, and no brokers before 0.11. Those
would convert batches, and they create a topic that a client asks about.
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
EARLIEST = -2
LATEST = -1
Progress = Callable[[int, int], None]
"""Called with the number of offsets that were pulled and the number of all offsets."""


@dataclass
class PulledPartition:
    """The part of a partition that was pulled: offsets from `first` up to, not including, `next`."""

    first: int
    next: int
    bytes: int = 0


@dataclass
class PullResult:
    """The result of a pull: the partitions, and one line for each partition that is not complete."""

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
    """Write `out`/__consumer_offsets-N/<base>.log for each partition of a running cluster.

    If an error ends the pull, the files contain whole batches.

    Parameters
    ----------
    bootstrap
        HOST:PORT of a broker, or of several brokers with commas between them.
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

    Raises
    ------
    UsageError
        kafka-python is not installed, the cluster or its topic is missing, the user has no permission, a partition does
        not exist, or the folder is not empty.
    """
    folder = Path(out)
    with connect(bootstrap, security or Security()) as cluster:
        create_folder(folder)
        refresh(cluster)
        known = cluster.leaders
        wanted = sorted(known if partitions is None else set(partitions))
        if unknown := [number for number in wanted if number not in known]:
            raise UsageError(f"{TOPIC} has the partitions 0 to {len(known) - 1}, not {', '.join(map(str, unknown))}")
        starts, start_errors = ask_leaders(cluster, wanted, _build_list_offsets(EARLIEST))
        ends, end_errors = ask_leaders(cluster, list(starts), _build_list_offsets(LATEST))
        errors = sorted({**start_errors, **end_errors}.items())
        pulled = PullResult(problems=[f"{TOPIC}-{number}: {describe(error)}" for number, error in errors])
        total = sum(end.offset - starts[number].offset for number, end in ends.items())
        done = 0
        for number, end in sorted(ends.items()):
            part = PulledPartition(starts[number].offset, starts[number].offset)
            pulled.partitions[number] = part
            try:
                writer = _Writer(folder / f"{TOPIC}-{number}", part.first, segment_bytes)
                for _ in _pull_partition(cluster, number, part, end.offset, writer):
                    if progress:
                        progress(done + part.next - part.first, total)
            except _Stopped as stopped:
                pulled.problems.append(
                    f"{TOPIC}-{number}: pulled up to offset {part.next}, not {end.offset}: {stopped}"
                )
            done += end.offset - part.first
        return pulled


class _Stopped(Exception):
    """The reason why a partition cannot be pulled to its end."""


def _build_list_offsets(timestamp: int) -> Callable[[list[int]], Any]:
    """Return a function that builds the ListOffsets request for some partitions."""
    from kafka.protocol.consumer import ListOffsetsRequest

    named = ListOffsetsRequest.ListOffsetsTopic

    def request(numbers: list[int]) -> Any:
        partitions = [
            named.ListOffsetsPartition(partition_index=number, current_leader_epoch=-1, timestamp=timestamp)
            for number in numbers
        ]
        topics = [named(name=TOPIC, partitions=partitions)]
        return ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics, min_version=1, max_version=7)

    return request


def _build_fetch(offset: int) -> Callable[[list[int]], Any]:
    """Return a function that builds the Fetch request for some partitions."""
    from kafka.protocol.consumer import FetchRequest

    named = FetchRequest.FetchTopic

    def request(numbers: list[int]) -> Any:
        partitions = [
            named.FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            for number in numbers
        ]
        # Version 4 is the first that returns batches unconverted, version 12 the last that names the topic.
        return FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[named(topic=TOPIC, partitions=partitions)],
            forgotten_topics_data=[],
            min_version=4,
            max_version=12,
        )

    return request


def _pull_partition(cluster: Cluster, number: int, part: PulledPartition, end: int, writer: _Writer) -> Iterator[None]:
    """Write a partition from `part.next` to `end`, and yield after each response. _Stopped if it ends before."""
    while part.next < end:
        responses, errors = ask_leaders(cluster, [number], _build_fetch(part.next))
        if errors:
            raise _Stopped(describe(errors[number]))
        response = responses[number]
        data = bytes(response.records or b"")
        batches = list(select_batches(data, part.next, end))
        writer.append(batches, data)
        if batches:
            part.next = batches[-1].next_offset
        elif response.high_watermark < end:
            raise _Stopped(f"the leader's log ended at offset {end}, and now ends at {response.high_watermark}")
        else:
            part.next = end  # The cleaner has removed all batches up to there.
        part.bytes = writer.bytes
        yield


def select_batches(data: bytes, offset: int, end: int) -> Iterator[Batch]:
    """Yield the whole batches of a response that reach `offset` and begin below `end`.

    _Stopped if the response does not begin with a whole batch.
    """
    for frame in frames(data):
        if frame.state is not FrameState.WHOLE:
            if frame.position:
                return
            raise _Stopped(frame.reason)
        batch = parse_batch(frame, data[frame.position : frame.end])
        if batch.base_offset >= end:
            return
        if batch.last_offset >= offset:
            yield batch


class _Writer:
    """The segments of one partition. After an error they contain only whole batches."""

    def __init__(self, folder: Path, start_offset: int, segment_bytes: int) -> None:
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.bytes = 0
        self._base = start_offset
        self._size = 0
        folder.mkdir()
        self._path = folder / segment_name(start_offset)
        self._path.touch()

    def append(self, batches: list[Batch], data: bytes) -> None:
        """Append batches of `data`, segment by segment."""
        while batches:
            batches = self._append_to_one(batches, data)

    def _append_to_one(self, batches: list[Batch], data: bytes) -> list[Batch]:
        """Append the batches that fit into the current segment, and return the others."""
        first = batches[0]
        count = 0
        size = self._size
        if not self.bytes and first.base_offset < self._base:
            # The log start is in the middle of this batch, because records were deleted up to there.
            self._path = self._path.rename(self.folder / segment_name(first.base_offset))
            self._base = first.base_offset
        for batch in batches:
            if size and (
                size + batch.size > self.segment_bytes or batch.last_offset - self._base > MAX_RELATIVE_OFFSET
            ):
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
            self._base = batches[count].base_offset
            self._size = 0
            self._path = self.folder / segment_name(self._base)
        return batches[count:]
