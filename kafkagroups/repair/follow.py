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
from pathlib import Path

import msgspec

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.log.batch import Batch
from kafkagroups.log.batches import parse_batch
from kafkagroups.log.cleaner import CleanerConfig, clean, read_log
from kafkagroups.log.folders import list_folder, open_log, write_file
from kafkagroups.log.segment_file import FrameState, base_offset_of, find_frames
from kafkagroups.repair import client
from kafkagroups.repair.client import TOPIC, Cluster
from kafkagroups.repair.pull import PullStopped, SegmentWriter, choose_partitions, pull_partition

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


class _Partition:
    """The copy of one partition: what is known of it, and its open segments."""

    def __init__(self, path: Path, followed: FollowedPartition, report: Callable[[str], None]) -> None:
        self.path = path
        self.followed = followed
        self.report = report
        self.cleaned_until = 0
        self.open()

    def open(self) -> None:
        """Read the segments again, and count what they have. `newest_ms` has the newest timestamp of each by its name.

        `first_ms` is the first timestamp of the current segment (after a start, the newest one so far), or None.
        """
        _replace(self.path, self._cleaned)
        followed = self.followed
        if followed.stopped:
            self.report(f"{self.path.name} is not followed: {followed.stopped}")
        files = sorted(self.path.glob("*.log"))
        if not files and followed.next > followed.since:
            raise UsageError(
                f"{self.path}: no segment, although {STATE_FILE} counts some; restore it, or use a new folder"
            )
        self.newest_ms: dict[str, int] = {}
        if files:
            counted = followed.next
            last_gap = followed.gaps[-1][1] if followed.gaps else 0
            followed.next = max(base_offset_of(files[0].name), last_gap)
            for file in files:
                self.newest_ms[file.name] = self._read_segment(file, counted, is_last=file == files[-1])
        self.writer = SegmentWriter(self.path, followed.next)
        self.first_ms = self.newest_ms.get(self.writer.path.name)

    @property
    def _cleaned(self) -> Path:
        return self.path.with_name(f"{self.path.name}.cleaned")

    def _read_segment(self, file: Path, counted: int, *, is_last: bool) -> int:
        """Count the batches of a segment, and return the newest timestamp; -1 if there is none.

        An incomplete batch at the end of the last segment is cut off.
        """
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
                self.followed.next = max(self.followed.next, counted)
                self._count(batch)
            self.followed.next = max(self.followed.next, batch.next_offset)
            newest_ms = max(newest_ms, batch.max_timestamp)
        return newest_ms

    def pull(self, cluster: Cluster, number: int, start: int, end: int) -> None:
        """Raises PullStopped."""
        followed = self.followed
        if end < followed.next:
            followed.stopped = (
                f"the log ends at offset {end}, but this copy has the offsets up to {followed.next}: the topic was "
                "created again or truncated. Follow into a new folder"
            )
            raise PullStopped(followed.stopped)
        self._add_gap(start)
        self.writer.next_offset = followed.next
        for batches in pull_partition(cluster, number, end, self.writer):
            self.writer.sync()
            for batch in batches:
                self._count(batch)
                name = self.writer.path.name
                self.newest_ms[name] = max(self.newest_ms.get(name, 0), batch.max_timestamp)
                self.first_ms = self.first_ms or batch.max_timestamp
            self._add_gap(self.writer.next_offset)

    def _count(self, batch: Batch) -> None:
        """Count a batch of the copy: the offsets that it does not have are missing."""
        for offset in _offsets(batch):
            self._add_gap(offset)
            self.followed.next = max(self.followed.next, offset + 1)
        self._add_gap(batch.next_offset)

    def _add_gap(self, end: int) -> None:
        """Note that the offsets up to `end` are gone, if they were written after the first pull began."""
        first = max(self.followed.next, self.followed.since)
        if first < end:
            self.followed.gaps.append((first, end))
        self.followed.next = max(self.followed.next, end)

    def clean(self, time_ms: int, keep_ms: int) -> None:
        """Clean the segments whose records are all older than `keep_ms`."""
        if self.first_ms is not None and time_ms - self.first_ms > keep_ms // _SEGMENTS_OF_KEEP:
            self.writer.roll()
            self.first_ms = None
        names = sorted(self.newest_ms)
        recent = [name for name in names if self.newest_ms[name] >= time_ms - keep_ms]
        until = base_offset_of(recent[0]) if recent else self.followed.next
        if recent != names and until > self.cleaned_until:
            self._clean_until(until, time_ms)
            self.cleaned_until = until

    def _clean_until(self, until: int, time_ms: int) -> None:
        log = open_log(self.path)
        first_uncleanable = min(until, read_log(log, None, None, lambda *_: None).first_uncleanable)
        if log.damage is not None:
            self.report(f"{self.path.name}: not cleaned, because it has damaged bytes: {log.damage}")
            return
        before = self.writer.bytes
        copy = self._cleaned / self.path.name
        clean(log, copy, CleanerConfig(now_ms=time_ms, first_uncleanable=first_uncleanable))
        copy.rename(self._cleaned / "whole")
        self.followed.gaps = [gap for gap in self.followed.gaps if gap[1] >= first_uncleanable]
        self.open()
        if self.writer.bytes < before:
            self.report(f"{self.path.name}: cleaned {before - self.writer.bytes} bytes of records older than the limit")


class _Copy:
    def __init__(self, folder: Path, keep_ms: int | None, report: Callable[[str], None]) -> None:
        self.folder = folder
        self.keep_ms = keep_ms
        self.report = report
        self.state = _read_state(folder / STATE_FILE)
        self.next_cleaning_ms = 0
        self.saved = b""
        self.partitions = {number: self._open(number) for number in self.state.partitions}
        self._save()

    def _open(self, number: int) -> _Partition:
        return _Partition(self.folder / f"{TOPIC}-{number}", self.state.partitions[number], self.report)

    def pull(self, cluster: Cluster, partitions: Iterable[int] | None) -> None:
        numbers = choose_partitions(cluster, partitions)
        if self.state.topic_id and cluster.topic_id and cluster.topic_id != self.state.topic_id:
            raise UsageError(f"{self.folder}: {TOPIC} was created again since then; follow it into a new folder")
        self.state.topic_id = self.state.topic_id or cluster.topic_id
        stopped = {number for number, followed in self.state.partitions.items() if followed.stopped}
        ranges, errors = cluster.ask_log_ranges([number for number in numbers if number not in stopped])
        for number, error in errors.items():
            self.report(f"{TOPIC}-{number}: {error}")
        for number, (start, end) in sorted(ranges.items()):
            if number not in self.state.partitions:
                self.state.partitions[number] = FollowedPartition(end, start)
                self._save()  # Before the folder exists, so that a run that is killed now is no stranger to the next.
                self.partitions[number] = self._open(number)
            try:
                self.partitions[number].pull(cluster, number, start, end)
            except PullStopped as reason:
                self.report(f"{TOPIC}-{number}: {reason}")
        self._save()

    def clean(self, time_ms: int) -> None:
        """Clean the segments that are too old: at most once an hour, because each pass reads the whole partition."""
        if self.keep_ms is None or time_ms < self.next_cleaning_ms:
            return
        self.next_cleaning_ms = time_ms + min(_HOUR_MS, self.keep_ms // _SEGMENTS_OF_KEEP)
        for partition in self.partitions.values():
            partition.clean(time_ms, self.keep_ms)
            self._save()

    def _save(self) -> None:
        """Write `follow.json`, if something changed. The batches that it counts are on the disk."""
        state = msgspec.json.encode(self.state)
        if state == self.saved:
            return
        work = self.folder / _NEW_STATE_FILE
        write_file(work, [state])
        work.replace(self.folder / STATE_FILE)
        self.saved = state


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
