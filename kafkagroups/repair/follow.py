"""A copy of the topic that goes on: what the log cleaner of the brokers removes stays in the copy (`pull --follow`).

The folder has a folder of segments for each partition, which every command reads, also while they grow. Next to them,
`follow.json` says from where each partition goes on, and which offsets are missing, because the log cleaner had taken
them before they were read:

    {"partitions": {"12": {"since": 4711, "next": 5000, "gaps": [[4800, 4820]]}}}

`since` was the end of the log when the first pull began. Gaps before it are not listed, because the cleaner has always
worked there. Batches are written, and then counted in `follow.json`. After a process was killed, the next one goes on
behind the last whole batch in the segments, and counts the batches that are there already. So no batch is lost or kept
twice, and no gap is forgotten. Only an incomplete batch at the end of the last segment is cut off.

With a limit of age, segments whose records are all older are cleaned as a broker's log cleaner does, up to the first
open transaction: of each key, the newest record stays. So the disk needed is bounded, and the answer of a load stays
right. Gaps before the end of what was cleaned are no longer listed, because the copy lacks other offsets there, too. A
partition with damaged bytes is never cleaned, because the cleaner would end there.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.log.batch import Batch
from kafkagroups.log.batches import parse_batch
from kafkagroups.log.cleaner import CleanerConfig, clean, read_log
from kafkagroups.log.folders import list_folder, open_log
from kafkagroups.log.segment_file import FrameState, base_offset_of, find_frames
from kafkagroups.repair import client
from kafkagroups.repair.client import TOPIC, Cluster
from kafkagroups.repair.pull import PulledPartition, PullStopped, SegmentWriter, choose_partitions, pull_partition

STATE_FILE = "follow.json"
_NEW_STATE_FILE = "follow.json.new"
_LOCK_FILE = "follow.lock"
_SEGMENTS_OF_KEEP = 10
"""Segments are rolled so often that the age at which records are cleaned is right to a tenth."""
_HOUR_MS = 3_600_000


class FollowedPartition(msgspec.Struct):
    """What `follow.json` says of a partition. `gaps` are pairs: the first missing offset, and the next present one.

    `stopped` is the reason why it does not go on, or None.
    """

    since: int
    next: int
    gaps: list[tuple[int, int]] = []
    stopped: str | None = None


class _State(msgspec.Struct, forbid_unknown_fields=True):
    partitions: dict[int, FollowedPartition]
    topic_id: str | None = None


def follow(
    bootstrap: str,
    out: str | Path,
    *,
    partitions: Iterable[int] | None = None,
    keep_ms: int | None = None,
    security: client.Security | None = None,
    max_wait: float = client.MAX_WAIT_SECONDS,
    report: Callable[[str], None] = client.ignore_report,
    rounds: Iterable[int] | None = None,
) -> None:
    """Copy the topic of a running cluster into segments, and go on with what is new.

    Parameters
    ----------
    bootstrap, partitions, security, max_wait
        As in `pull`. `max_wait` limits the waits of one round over all partitions.
    out
        A new or empty folder, or one in which `follow` has worked before: it then goes on from there.
    keep_ms
        Clean segments of which every record is older, in ms. None keeps all records.
    report
        Called with a message for people, such as a broker that does not answer, or a partition that was cleaned.
    rounds
        The times of the rounds over all partitions, in ms since the epoch. None: one each second, without an end.

    Raises
    ------
    UsageError
        As in `pull`, or the folder has other files, another process works in it, or `follow.json` is damaged. Once a
        round has succeeded, a cluster that does not answer is waited for.
    """
    with _lock(Path(out)):
        copy = _Copy(Path(out), keep_ms, report)
        times = iter(_each_second() if rounds is None else rounds)
        has_answered = False
        time_ms = next(times, None)
        while time_ms is not None:
            try:
                with client.connect(bootstrap, security, max_wait, report) as cluster:
                    while time_ms is not None:
                        cluster.waits = client.Waits(max_wait, report)
                        copy.pull(cluster, partitions)
                        has_answered = True
                        copy.clean(time_ms)
                        time_ms = next(times, None)
            except client.NoBroker as error:
                if not has_answered:
                    raise
                report(str(error))
                time_ms = next(times, None)


def _each_second() -> Iterator[int]:
    while True:
        yield time.time_ns() // 1_000_000
        time.sleep(1)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Keep other processes out of the folder until this one ends, also if it is killed."""
    import fcntl

    names = {*list_folder(folder)} - {_LOCK_FILE, _NEW_STATE_FILE}
    if names and STATE_FILE not in names:
        raise UsageError(f"{folder}: expected a new or empty folder, or one with {STATE_FILE}, found other files in it")
    with open(folder / _LOCK_FILE, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{folder}: another process follows the topic into this folder") from None
        yield


@dataclass
class _Segments:
    """The open copy of a partition; `newest_ms` has the newest timestamp of each segment, by its file's name."""

    writer: SegmentWriter
    newest_ms: dict[str, int]
    first_ms: int | None = None
    """The first timestamp of the current segment."""


class _Copy:
    def __init__(self, folder: Path, keep_ms: int | None, report: Callable[[str], None]) -> None:
        self.folder = folder
        self.keep_ms = keep_ms
        self.report = report
        self.state = _read_state(folder / STATE_FILE)
        self.next_cleaning_ms = 0
        self.cleaned_until: dict[int, int] = {}
        self.saved = b""
        self.segments = {number: self._resume(number) for number in self.state.partitions}
        self._save()

    def pull(self, cluster: Cluster, partitions: Iterable[int] | None) -> None:
        numbers = choose_partitions(cluster, partitions)
        if self.state.topic_id and cluster.topic_id and cluster.topic_id != self.state.topic_id:
            raise UsageError(f"{self.folder}: {TOPIC} was created again since then; follow it into a new folder")
        self.state.topic_id = self.state.topic_id or cluster.topic_id
        numbers = [each for each in numbers if each not in self.segments or not self.state.partitions[each].stopped]
        ranges, errors = cluster.ask_log_ranges(numbers)
        for number, error in errors.items():
            self.report(f"{TOPIC}-{number}: {error}")
        for number, (start, end) in sorted(ranges.items()):
            if number not in self.state.partitions:
                self.state.partitions[number] = FollowedPartition(end, start)
                self._save()  # Before the folder exists, so that a run that is killed now is no stranger to the next.
                self.segments[number] = self._resume(number)
            try:
                self._pull_partition(cluster, number, start, end)
            except PullStopped as reason:
                self.report(f"{TOPIC}-{number}: {reason}")
        self._save()

    def clean(self, time_ms: int) -> None:
        """Clean the segments that are too old: at most once an hour, because each pass reads the whole partition."""
        if self.keep_ms is None or time_ms < self.next_cleaning_ms:
            return
        self.next_cleaning_ms = time_ms + min(_HOUR_MS, self.keep_ms // _SEGMENTS_OF_KEEP)
        for number, segments in self.segments.items():
            if segments.first_ms is not None and time_ms - segments.first_ms > self.keep_ms // _SEGMENTS_OF_KEEP:
                segments.writer.roll(self.state.partitions[number].next)
                segments.first_ms = None
            names = sorted(segments.newest_ms)
            recent = [name for name in names if segments.newest_ms[name] >= time_ms - self.keep_ms]
            until = int(recent[0].partition(".")[0]) if recent else self.state.partitions[number].next
            if recent != names and until > self.cleaned_until.get(number, 0):
                self._clean_partition(number, until, time_ms)
                self.cleaned_until[number] = until

    def _clean_partition(self, number: int, until: int, time_ms: int) -> None:
        path = self._path(number)
        log = open_log(path)
        first_uncleanable = min(until, read_log(log, None, None, lambda *_: None).first_uncleanable)
        if log.damage is not None:
            self.report(f"{path.name}: not cleaned, because it has damaged bytes: {log.damage}")
            return
        before = _count_bytes(path)
        cleaned = self.folder / f"{path.name}.cleaned"
        clean(log, cleaned / path.name, CleanerConfig(now_ms=time_ms, first_uncleanable=first_uncleanable))
        (cleaned / path.name).rename(cleaned / "whole")
        _replace(path, cleaned)
        followed = self.state.partitions[number]
        followed.gaps = [gap for gap in followed.gaps if gap[1] >= first_uncleanable]
        self.segments[number] = self._resume(number)
        self._save()
        if _count_bytes(path) < before:
            self.report(f"{path.name}: cleaned {before - _count_bytes(path)} bytes of records older than the limit")

    def _pull_partition(self, cluster: Cluster, number: int, start: int, end: int) -> None:
        followed = self.state.partitions[number]
        segments = self.segments[number]
        if end < followed.next:
            followed.stopped = (
                f"the log ends at offset {end}, but this copy has the offsets up to {followed.next}: the topic was "
                "created again or truncated. Follow into a new folder"
            )
            raise PullStopped(followed.stopped)
        if start > followed.next:
            self._add_gap(number, start)
        pulled = PulledPartition(start, followed.next, segments.writer.bytes)
        for batches in pull_partition(cluster, number, pulled, end, segments.writer):
            segments.writer.sync()
            for batch in batches:
                self._count(number, batch)
                name = segments.writer.path.name
                segments.newest_ms[name] = max(segments.newest_ms.get(name, 0), batch.max_timestamp)
                segments.first_ms = segments.first_ms or batch.max_timestamp
            if pulled.next > followed.next:
                self._add_gap(number, pulled.next)

    def _count(self, number: int, batch: Batch) -> None:
        """Count a batch of the copy: the offsets that it does not have are missing."""
        followed = self.state.partitions[number]
        for offset in _offsets(batch):
            self._add_gap(number, offset)
            followed.next = max(followed.next, offset + 1)
        self._add_gap(number, batch.next_offset)

    def _add_gap(self, number: int, end: int) -> None:
        """Note that the offsets up to `end` are gone, if they were written after the first pull began."""
        followed = self.state.partitions[number]
        first = max(followed.next, followed.since)
        if first < end:
            followed.gaps.append((first, end))
        followed.next = max(followed.next, end)

    def _resume(self, number: int) -> _Segments:
        path = self._path(number)
        _replace(path, self.folder / f"{path.name}.cleaned")
        followed = self.state.partitions[number]
        if followed.stopped:
            self.report(f"{path.name} is not followed: {followed.stopped}")
        files = sorted(path.glob("*.log"))
        if not files:
            if followed.next > followed.since:
                raise UsageError(
                    f"{path}: no segment, although {STATE_FILE} counts some; restore it, or use a new folder"
                )
            shutil.rmtree(path, ignore_errors=True)
            return _Segments(SegmentWriter(path, followed.next), {})
        counted = followed.next
        last_gap = followed.gaps[-1][1] if followed.gaps else 0
        followed.next = max(base_offset_of(files[0].name), last_gap)
        newest_ms = {}
        for file in files:
            newest_ms[file.name] = self._read_segment(number, file, counted, is_last=file == files[-1])
        writer = SegmentWriter.resume(path)
        return _Segments(writer, newest_ms, newest_ms.get(writer.path.name))

    def _read_segment(self, number: int, file: Path, counted: int, *, is_last: bool) -> int:
        """Count the batches of a segment, and return the newest timestamp; -1 if there is none.

        An incomplete batch at the end of the last segment is cut off.
        """
        followed = self.state.partitions[number]
        newest_ms = -1
        data = file.read_bytes()
        for frame in find_frames(data):
            if frame.state is FrameState.INCOMPLETE and is_last:
                os.truncate(file, frame.position)
                self.report(f"{file}: the last run was killed while it wrote a batch, which is read again")
                break
            if frame.state is not FrameState.WHOLE:
                raise UsageError(f"{file}, byte {frame.position}: {frame.reason}; follow the topic into a new folder")
            batch = parse_batch(frame, data[frame.position : frame.end])
            if batch.next_offset > counted:  # It was written, and the process was killed before it was counted.
                followed.next = max(followed.next, counted)
                self._count(number, batch)
            followed.next = max(followed.next, batch.next_offset)
            newest_ms = max(newest_ms, batch.max_timestamp)
        return newest_ms

    def _path(self, number: int) -> Path:
        return self.folder / f"{TOPIC}-{number}"

    def _save(self) -> None:
        """Write `follow.json`, if something changed. The batches that it counts are on the disk."""
        state = msgspec.json.encode(self.state)
        if state == self.saved:
            return
        work = self.folder / _NEW_STATE_FILE
        with open(work, "wb") as file:
            file.write(state)
            file.flush()
            os.fsync(file.fileno())
        work.replace(self.folder / STATE_FILE)
        self.saved = state


def _count_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.iterdir())


def _offsets(batch: Batch) -> list[int]:
    try:
        return [record.offset for record in batch.records]
    except BadBytes:
        return [batch.base_offset]


def _replace(path: Path, cleaned: Path) -> None:
    """Put a cleaned partition in the place of the old one. If the process was killed meanwhile, finish or undo it."""
    whole = cleaned / "whole"
    if whole.exists():
        if path.exists():
            path.rename(cleaned / "old")
        whole.rename(path)
    shutil.rmtree(cleaned, ignore_errors=True)


def _read_state(path: Path) -> _State:
    if not path.exists():
        return _State({})
    try:
        return msgspec.json.decode(path.read_bytes(), type=_State)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
