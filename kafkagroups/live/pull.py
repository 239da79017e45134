"""The raw topic `__consumer_offsets` of a running cluster, pulled as segments: what its leaders have on disk.

The client is kafka-python (extra `live`), below its consumer API, which would hide control batches and take batches
apart. Three requests do it: Metadata (which broker leads which partition), ListOffsets (log start, high watermark)
and Fetch, isolation read_uncommitted, whose records are bytes of the leader's own segments:

- the first batch may begin below the offset asked for, and batches come whole: what lies below is dropped;
- the last one may be cut off: it is dropped, and asked for again;
- a cleaned log has gaps: an empty answer below the end means that there is nothing more.

The pull ends at the high watermark that a partition had when it began. Bytes are written as they come, checksums are
not judged: damage on the broker's disk is damage here.
Source: FetchRequest.json, ListOffsetsRequest.json, MetadataRequest.json, KafkaApis.handleFetchRequest (4.3.1).

Simpler than a consumer: one request at a time, no fetch sessions, always the leader, no brokers before 0.11 (they
would convert batches, and create the topic when asked for it).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.live.client import TOPIC, Cluster, Security, ask_leaders, connected, refresh, words
from kafkagroups.log.batch import Batch
from kafkagroups.log.batches import parse_batch
from kafkagroups.log.frames import FrameState, frames
from kafkagroups.log.segment_file import MOST_OFFSETS, SEGMENT_BYTES, segment_name
from kafkagroups.log.writer import create_folder

FETCH_BYTES = 8 * 1024 * 1024
EARLIEST, LATEST = -2, -1
Progress = Callable[[int, int], None]


@dataclass
class PulledPartition:
    """What was pulled of a partition: from offset `first` up to and without `next`, in how many bytes."""

    first: int
    next: int
    bytes: int = 0


@dataclass
class Pulled:
    """What was pulled, by partition, and a line for each partition of which not all could be."""

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
) -> Pulled:
    """Writes `out`/__consumer_offsets-N/<base>.log for each partition of a running cluster, or for `partitions`.

    `bootstrap` is HOST:PORT of one broker or of several, with commas. `out` is a new or empty folder. `progress` hears
    how many offsets are behind and how many there are. Whatever ends the pull, whole batches are what is left.

    UsageError: no client, no cluster, no topic, no permission, no such partition, a folder that is not empty.
    """
    folder = Path(out)
    with connected(bootstrap, security or Security()) as cluster:
        create_folder(folder)
        refresh(cluster)
        known = cluster.leaders
        wanted = sorted(known if partitions is None else set(partitions))
        if unknown := [number for number in wanted if number not in known]:
            raise UsageError(f"{TOPIC} has {len(known)} partitions from 0 on, not {', '.join(map(str, unknown))}")
        starts, failed = ask_leaders(cluster, wanted, _list_offsets(EARLIEST))
        ends, more = ask_leaders(cluster, list(starts), _list_offsets(LATEST))
        pulled = Pulled(problems=[f"{TOPIC}-{n}: {words(error)}" for n, error in sorted({**failed, **more}.items())])
        total = sum(answer.offset - starts[number].offset for number, answer in ends.items())
        behind = 0
        for number, end in sorted(ends.items()):
            part = pulled.partitions[number] = PulledPartition(starts[number].offset, starts[number].offset)
            try:
                writer = _Writer(folder / f"{TOPIC}-{number}", part.first, segment_bytes)
                for _ in _pull_partition(cluster, number, part, end.offset, writer):
                    if progress:
                        progress(behind + part.next - part.first, total)
            except _Stopped as stopped:
                pulled.problems.append(
                    f"{TOPIC}-{number}: pulled up to offset {part.next}, not {end.offset}: {stopped}"
                )
            behind += end.offset - part.first
        return pulled


class _Stopped(Exception):
    """Why a partition cannot be pulled further."""


def _list_offsets(which: int) -> Callable[[list[int]], Any]:
    from kafka.protocol.consumer import ListOffsetsRequest

    named = ListOffsetsRequest.ListOffsetsTopic

    def request(numbers: list[int]) -> Any:
        partitions = [
            named.ListOffsetsPartition(partition_index=number, current_leader_epoch=-1, timestamp=which)
            for number in numbers
        ]
        topics = [named(name=TOPIC, partitions=partitions)]
        return ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics, min_version=1, max_version=7)

    return request


def _fetch(offset: int) -> Callable[[list[int]], Any]:
    from kafka.protocol.consumer import FetchRequest

    named = FetchRequest.FetchTopic

    def request(numbers: list[int]) -> Any:
        partitions = [
            named.FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            for number in numbers
        ]
        # version 4 is the first that brings batches as they are, 12 the last that names the topic
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
    """Writes a partition from `part.next` to `end`, and yields after each answer. _Stopped: it ends before."""
    while part.next < end:
        answers, errors = ask_leaders(cluster, [number], _fetch(part.next))
        if errors:
            raise _Stopped(words(errors[number]))
        data = bytes(answers[number].records or b"")
        batches = list(whole_batches(data, part.next, end))
        writer.append(batches, data)
        if batches:
            part.next = batches[-1].next_offset
        elif answers[number].high_watermark < end:
            raise _Stopped(f"the leader ended at offset {end}, and now at {answers[number].high_watermark}")
        else:
            part.next = end  # the cleaner left nothing up to there
        part.bytes = writer.bytes
        yield


def whole_batches(data: bytes, offset: int, end: int) -> Iterator[Batch]:
    """The whole batches of a fetched set that reach `offset` and begin below `end`. _Stopped: it begins with none."""
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
    """A partition's folder of segments. Whatever happens, whole batches are what is left of an answer."""

    def __init__(self, folder: Path, start_offset: int, segment_bytes: int) -> None:
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.bytes = 0
        self._base, self._size = start_offset, 0
        folder.mkdir()
        self._path = folder / segment_name(start_offset)
        self._path.touch()

    def append(self, batches: list[Batch], data: bytes) -> None:
        """Appends batches of `data`, segment by segment."""
        while batches:
            batches = self._append_to_one(batches, data)

    def _append_to_one(self, batches: list[Batch], data: bytes) -> list[Batch]:
        first, taken, size = batches[0], 0, self._size
        if not self.bytes and first.base_offset < self._base:  # records were deleted up to the middle of this batch
            self._path = self._path.rename(self.folder / segment_name(first.base_offset))
            self._base = first.base_offset
        for batch in batches:
            if size and (size + batch.size > self.segment_bytes or batch.last_offset - self._base > MOST_OFFSETS):
                break
            size += batch.size
            taken += 1
        content = b"".join(data[batch.position : batch.position + batch.size] for batch in batches[:taken])
        try:
            with open(self._path, "ab") as file:
                file.write(content)
        except BaseException:
            os.truncate(self._path, self._size)
            raise
        self.bytes += len(content)
        self._size = size
        if taken < len(batches):
            self._base, self._size = batches[taken].base_offset, 0
            self._path = self.folder / segment_name(self._base)
        return batches[taken:]
