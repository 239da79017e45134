"""A copy of the topic `__consumer_offsets` of a running cluster, byte for byte, as segments.

A consumer is not used, because it hides control batches and splits batches into records. Three requests are enough:

- Metadata returns the leader of each partition.
- ListOffsets returns a partition's log start offset and high watermark (the end of the replicated log).
- Fetch, with isolation level read_uncommitted, returns bytes of the leader's segments.

A broker sends whole batches, so the first one in a response can begin below the requested offset; those that end below
it are dropped. The last batch can be incomplete; it is dropped and requested again.

The pull of a partition ends at the high watermark that it had at the start. If the log cleaner has removed the last
batches below this offset, a response contains no batch below it, and the pull is complete, too. Checksums are not
checked, so damage on the broker's disk is also damage in the copy.
Source: FetchRequest.json (4.3.1); ListOffsetsRequest.json (4.3.1); MetadataRequest.json (4.3.1);
KafkaApis.handleFetchRequest (4.3.1).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from kafkagroups.errors import UsageError
from kafkagroups.log import segment_file
from kafkagroups.log.batch import Batch
from kafkagroups.log.batches import parse_batch
from kafkagroups.log.folders import create_folder
from kafkagroups.log.segment_file import SEGMENT_BYTES
from kafkagroups.repair.client import READ_UNCOMMITTED, TOPIC, Cluster, Connection, connect

FETCH_BYTES = 8 * 1024 * 1024
Progress = Callable[[int, int], None]
"""A function that gets the number of offsets that were pulled, and the number of all offsets."""


@dataclass(frozen=True)
class PulledPartition:
    first: int
    next: int
    bytes: int


@dataclass
class PullResult:
    partitions: dict[int, PulledPartition] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def pull(
    bootstrap: str,
    out: str | Path,
    *,
    partitions: Iterable[int] | None = None,
    progress: Progress | None = None,
    **connection: Unpack[Connection],
) -> PullResult:
    """Pull the partitions of a running cluster into files `out`/__consumer_offsets-N/<base offset>.log.

    Even after an error, the files contain only whole batches. `bootstrap` is HOST:PORT of a broker, or of several,
    separated by commas, and `out` a new or empty folder. `partitions` None means all. `progress` is called with the
    number of offsets that were pulled, and the number of all offsets. `connection` are the parameters of `connect`.

    Raises UsageError if kafka-python is not installed, no broker responds, the topic or a partition does not exist, the
    user has no permission, the folder is not empty, or `max_wait` is not above 0.
    """
    folder = Path(out)
    with connect(bootstrap, **connection) as cluster:
        create_folder(folder)
        ranges, errors = cluster.ask_log_ranges(choose_partitions(cluster, partitions))
        result = PullResult()
        for number, error in sorted(errors.items()):
            result.problems.append(f"{TOPIC}-{number}: {error}{cluster.waits.explain_end()}")
        total_offsets = sum(end - start for start, end in ranges.values())
        finished_offsets = 0  # The offset count of the partitions before the current partition.
        for number, (start, end) in sorted(ranges.items()):
            writer = SegmentWriter(folder / f"{TOPIC}-{number}", start)
            try:
                for _ in pull_partition(cluster, number, end, writer):
                    if progress:
                        progress(finished_offsets + writer.next_offset - start, total_offsets)
            except PullStopped as reason:
                why = f"{reason}{cluster.waits.explain_end()}"
                problem = f"{TOPIC}-{number}: pulled up to offset {writer.next_offset}, not {end}: {why}"
                result.problems.append(problem)
            result.partitions[number] = PulledPartition(start, writer.next_offset, writer.bytes)
            finished_offsets += end - start
        return result


def choose_partitions(cluster: Cluster, partitions: Iterable[int] | None) -> list[int]:
    """Ask who leads, and return the partitions to pull. Raises UsageError if one does not exist."""
    cluster.refresh_leaders()
    existing = cluster.leaders
    requested = sorted(existing if partitions is None else set(partitions))
    missing = [number for number in requested if number not in existing]
    if missing:
        raise UsageError(f"{TOPIC} has the partitions 0 to {len(existing) - 1}, not {', '.join(map(str, missing))}")
    return requested


class PullStopped(Exception):
    """A partition cannot be pulled to its end. The message is the reason."""


def _build_fetch(offset: int, partitions: list[int]) -> Any:
    from kafka.protocol.consumer import FetchRequest

    topic_type = FetchRequest.FetchTopic
    partition_requests = [
        topic_type.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        for partition in partitions
    ]
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        isolation_level=READ_UNCOMMITTED,
        topics=[topic_type(topic=TOPIC, partitions=partition_requests)],
        # Before version 4, a broker converts batches to magic 0 or 1. Since version 13, a request contains topic ids
        # instead of names.
        min_version=4,
        max_version=12,
    )


def pull_partition(cluster: Cluster, number: int, end_offset: int, writer: SegmentWriter) -> Iterator[list[Batch]]:
    """Pull up to, not including, `end_offset`. Yield the new batches after each response.

    Raises PullStopped.
    """
    while writer.next_offset < end_offset:
        responses, errors = cluster.ask_leaders([number], partial(_build_fetch, writer.next_offset))
        if errors:
            raise PullStopped(errors[number])
        response = responses[number]
        data = bytes(response.records or b"")
        batches = list(_select_batches(data, writer, end_offset))
        if batches:
            writer.append(batches, data)
        elif response.high_watermark < end_offset:
            raise PullStopped(
                f"the leader's log ended at offset {end_offset}, and now ends at {response.high_watermark}"
            )
        else:
            writer.next_offset = end_offset  # The cleaner has removed all batches up to `end_offset`.
        yield batches


def _select_batches(data: bytes, writer: SegmentWriter, end_offset: int) -> Iterator[Batch]:
    """Raises PullStopped if the response does not begin with a whole batch at this offset."""
    next_offset = writer.next_offset
    # Only the first batch of a log can begin below the requested offset.
    min_base_offset = next_offset if writer.bytes else 0
    has_batch = False
    reason = "found only earlier batches"
    for frame in segment_file.find_frames(data):  # A frame is the position and the size of a batch.
        if frame.state is not segment_file.FrameState.WHOLE:
            reason = frame.reason
            break
        batch = parse_batch(frame, data[frame.position : frame.end])
        if batch.base_offset >= end_offset:
            return
        if batch.last_offset < next_offset:
            continue
        if not min_base_offset <= batch.base_offset <= batch.last_offset:
            reason = f"found a batch with the offsets {batch.base_offset} to {batch.last_offset}"
            break
        yield batch
        has_batch = True
        next_offset = batch.last_offset + 1
        min_base_offset = next_offset
    # If the response has a whole batch, the bytes after it are requested again.
    if data and not has_batch:
        raise PullStopped(f"expected a batch from offset {next_offset} on: {reason}")


class SegmentWriter:
    """The segments of a folder, in which `next_offset` is the next one to pull. A new folder gets an empty segment."""

    def __init__(self, folder: Path, next_offset: int) -> None:
        self.folder = folder
        self.next_offset = next_offset
        folder.mkdir(exist_ok=True)
        sizes = {segment_file.base_offset_of(path.name): path.stat().st_size for path in folder.glob("*.log")}
        self.bytes = sum(sizes.values())
        self._base_offset = max(sizes, default=next_offset)
        self._size = sizes.get(self._base_offset, 0)
        """The number of bytes in the current segment."""
        self.path.touch()

    def sync(self) -> None:
        with open(self.path, "rb") as file:
            os.fsync(file.fileno())

    def roll(self) -> None:
        if self._size > 0:
            self._base_offset = self.next_offset
            self._size = 0
            self.path.touch()

    @property
    def path(self) -> Path:
        return self.folder / segment_file.segment_name(self._base_offset)

    def append(self, batches: list[Batch], data: bytes) -> None:
        """Append batches, whose `position` is one in `data`.

        Only a segment with a single batch can exceed SEGMENT_BYTES.
        """
        if not self.bytes and batches[0].base_offset < self._base_offset:
            # The first records of this batch were deleted, so the log start offset is in the middle of the batch.
            path = self.path
            self._base_offset = batches[0].base_offset
            path.rename(self.path)
        content = bytearray()
        for batch in batches:
            size = self._size + len(content)
            is_full = size + batch.size > SEGMENT_BYTES
            is_too_far = batch.last_offset - self._base_offset > segment_file.MAX_RELATIVE_OFFSET
            if (is_full or is_too_far) and size > 0:
                self._write(content)
                self.sync()
                content = bytearray()
                self._base_offset = batch.base_offset
                self._size = 0
            content += data[batch.position : batch.position + batch.size]
        self._write(content)
        self.next_offset = batches[-1].next_offset

    def _write(self, content: bytearray) -> None:
        try:
            with open(self.path, "ab") as file:
                file.write(content)
        except BaseException:
            # A part of the content may have been written.
            os.truncate(self.path, self._size)
            raise
        self.bytes += len(content)
        self._size += len(content)
