"""The log as the log cleaner could leave it before the next failover, and whether a broker then loads it (`check`).

A cleaning can make a log unloadable, because it removes a record that the coordinator needs. For example, a tombstone
expires that separates the records of a consumer group from those of a streams group with the same id. A cleaning can
also remove the record at which a load fails. These logs are reachable, and each of them is loaded:

- The active segment stays, or it is rolled first. Then a pass can clean its records, too.
- A pass ends at the base of any segment up to the first uncleanable offset. The offset map can be full there, or
  min.compaction.lag.ms keeps the later segments back.
- The pass replaces its groups of segments one after another, beginning with the oldest. A broker can die between two.
  The size of a group depends on segment.bytes: the default, or the largest segment of the log.
- A second pass after delete.retention.ms removes the tombstones that the first pass has marked. A third one removes
  markers. A broker runs them only if new records were appended and can be cleaned.

Simpler than Kafka: the new records before a second pass are left out, because they are not known. The map is not full
in the middle of a segment.

A log that loads, and in which no record needs another one, needs no pass: it loads after every cleaning. With the
classic coordinator, these are all logs that load. A log with damage is not judged. Passes take time: a log above
MAX_SIZE bytes gets none, and the logs of one path above MAX_TOTAL_SIZE bytes together get none, either.
Source: Cleaner.java, LogToClean.java (4.3.1).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.groups.shard import LoadedPartition
from kafkagroups.history.finding import Finding, join_words
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.cleaner import CleanerConfig, clean
from kafkagroups.log.folders import open_log
from kafkagroups.log.log_to_clean import LogToClean, read_log
from kafkagroups.log.segment_file import SEGMENT_BYTES, base_offset_of, is_segment_name, segment_name
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import READ_TYPES, Dialect

MAX_SIZE = 8 * 2**20
"""Each reachable log is written and loaded. A log of this size takes about 5 s, measured on one core."""
MAX_TOTAL_SIZE = 16 * 2**20
"""`check` and `report` of a large folder should not take minutes."""
MAX_SIZE_TO_SCAN = 64 * 2**20
"""The largest log that is searched for records that need other records."""
MAX_BOUNDARIES = 8
"""The largest number of ends of the first pass that are tried. In a log with more segments, some are left out."""
DELETE_RETENTION_MS = 86_400_000
_PASSES = 3


@dataclass(frozen=True)
class CleanedLog:
    """A log that is reachable. `steps` say how, as the end of "after …". `is_whole` if each pass reached its end."""

    log: Log
    steps: list[str]
    options: list[str]
    is_whole: bool


class AfterCleaning:
    """Judges the logs of one path as the log cleaner could leave them. `rules` is the coordinator that loads them.

    `judged` has the partitions that were judged.
    """

    def __init__(self, rules: Dialect) -> None:
        self.rules = rules
        self.judged: set[int | None] = set()
        self._bytes_left = MAX_TOTAL_SIZE

    def find(self, log: Log, loaded: LoadedPartition) -> list[Finding]:
        """Return the finding about a partition that loads now but not after a cleaning, or the other way round.

        `loaded` is the partition as it loads together with the others.
        """
        if not _is_whole(log) or loaded.damage is not None or loaded.zeros is not None:
            return []
        if loaded.error is None and _never_fails(log, self.rules):
            self.judged.add(log.partition)
            return []
        if log.size > min(MAX_SIZE, self._bytes_left):
            return []
        self._bytes_left -= log.size
        self.judged.add(log.partition)
        return _find_by_passes(log, self.rules)


def _find_by_passes(log: Log, rules: Dialect) -> list[Finding]:
    now = _load(log, rules)
    if not now.records:
        return []
    with tempfile.TemporaryDirectory() as folder, suppress(UsageError, BadBytes):
        # The cleaner itself fails at some logs, and at times that do not fit into 64 bits.
        for cleaned in _Cleanings(log, Path(folder)).list_logs():
            after = _load(cleaned.log, rules)
            if now.error is None and after.error is not None:
                return [_describe_loss(log, rules, cleaned, after)]
            if now.error is not None and after.error is None and cleaned.is_whole:
                return [_describe_gain(log, rules, cleaned, now)]
    return []


def _is_whole(log: Log) -> bool:
    """Return whether a log is a folder of whole segments, which passes can clean."""
    names = [os.path.basename(segment) for segment in log.segments]
    return log.content is None and not log.ranges and all(map(is_segment_name, names))


def _load(log: Log, rules: Dialect) -> LoadedPartition:
    return OpenTopic([log], rules, engine="auto").load().partitions[log.partition]


def _never_fails(log: Log, rules: Dialect) -> bool:
    """Return whether each part of a log that loads is known to load: no record in it needs another one.

    Only records of the new protocols need each other.
    """
    if rules.coordinator == "classic":
        return True
    if log.size > MAX_SIZE_TO_SCAN:
        return False
    prefixes = {number.to_bytes(2, "big") for number, versions in READ_TYPES.items() if rules.version in versions}
    for batch in log:
        try:
            records = () if batch.is_control else batch.records
        except BadBytes:
            continue
        if any((record.key or b"")[:2] in prefixes for record in records):
            return False
    return True


class _Cleanings:
    """The passes over a log. Their logs are written to numbered folders in `folder`."""

    def __init__(self, log: Log, folder: Path) -> None:
        self.log = log
        self.folder = folder
        self._count = 0
        self._name = "log" if log.partition is None else f"__consumer_offsets-{log.partition}"

    def list_logs(self) -> Iterator[CleanedLog]:
        """Yield each log that passes can leave. The first ones need the fewest steps."""
        if len(self.log.segments) > 1:
            yield from self._clean_from(self.log, [], [])
        if os.path.getsize(self.log.segments[-1]):
            rolled = self._roll()
            yield from self._clean_from(rolled, ["the active segment was rolled"], ["--roll"])

    def _new_folder(self) -> Path:
        self._count += 1
        return self.folder / str(self._count) / self._name

    def _roll(self) -> Log:
        """Return a copy of the log with a new, empty active segment."""
        folder = self._new_folder()
        folder.mkdir(parents=True)
        next_offset = self.log.start_offset
        for batch in self.log:
            next_offset = batch.next_offset
        for segment in self.log.segments:
            shutil.copy2(segment, folder / os.path.basename(segment))
        (folder / segment_name(next_offset)).touch()
        return self._open(folder)

    def _open(self, folder: Path) -> Log:
        return open_log(folder, max_batch_bytes=self.log.max_batch_bytes)

    def _clean_from(self, log: Log, steps: list[str], options: list[str]) -> Iterator[CleanedLog]:
        """Yield the logs that passes over a log leave, whose first pass ends at any segment."""
        source = _read(log)
        ends = [segment.base_offset for segment in source.segments[1:]]
        ends = [end for end in ends if end <= source.first_uncleanable]
        now_ms = max(source.newest_ms, 0)
        for end in reversed(_select(ends)):
            is_last = end == ends[-1]
            yield from self._run_passes(log, end, now_ms, steps, options, is_last=is_last)

    def _run_passes(
        self, log: Log, end: int, now_ms: int, steps: list[str], options: list[str], *, is_last: bool
    ) -> Iterator[CleanedLog]:
        """Yield the logs during and after up to three passes. The first pass ends at the offset `end`."""
        is_whole = is_last
        for number in range(_PASSES):
            time_ms = now_ms + number * (DELETE_RETENTION_MS + 1)
            pass_end = end if number == 0 else _read(log).first_uncleanable
            name = f"a pass of the log cleaner up to offset {pass_end}"
            if number:
                name = f"another {name[2:]} when delete.retention.ms is over and new records were appended"
            middle, cleaned = self._run_pass(log, pass_end, time_ms)
            for index, partly in enumerate(middle, start=1):
                step = f"{name} that has replaced only {index} of {len(middle) + 1} groups of segments"
                yield CleanedLog(partly, [*steps, step], [], is_whole=False)
            if _have_same_content(log, cleaned):
                return
            steps = [*steps, name]
            options = [*options, "--clean", str(time_ms)]
            yield CleanedLog(cleaned, steps, options, is_whole)
            log = cleaned

    def _run_pass(self, log: Log, end: int, now_ms: int) -> tuple[list[Log], Log]:
        """Return the logs in the middle of a pass, and the log after the pass."""
        whole = self._new_folder()
        config = CleanerConfig(now_ms, DELETE_RETENTION_MS, first_uncleanable=end)
        whole.parent.mkdir(parents=True, exist_ok=True)
        clean(log, whole, config)
        largest = max(os.path.getsize(segment) for segment in log.segments)
        parts = self._new_folder()
        parts.parent.mkdir(parents=True, exist_ok=True)
        small_groups = CleanerConfig(
            now_ms, DELETE_RETENTION_MS, first_uncleanable=end, segment_bytes=min(max(largest, 1), SEGMENT_BYTES)
        )
        groups = clean(log, parts, small_groups).groups
        middle = [self._mix(log, parts, groups[:count]) for count in range(1, len(groups))]
        return middle, self._open(whole)

    def _mix(self, log: Log, cleaned: Path, groups: list[list[int]]) -> Log:
        """Return a log whose first groups of segments are replaced by the cleaned ones."""
        folder = self._new_folder()
        folder.mkdir(parents=True)
        replaced = {base for group in groups for base in group}
        for group in groups:
            shutil.copy2(cleaned / segment_name(group[0]), folder)
        for segment in log.segments:
            if base_offset_of(segment) not in replaced:
                shutil.copy2(segment, folder / os.path.basename(segment))
        return self._open(folder)


def _read(log: Log) -> LogToClean:
    source, _ = read_log(log, None, None, lambda step, done, total: None)
    return source


def _select(ends: list[int]) -> list[int]:
    """Return at most MAX_BOUNDARIES of the ends, evenly divided. The last one is always there."""
    if len(ends) <= MAX_BOUNDARIES:
        return ends
    return [ends[(index + 1) * len(ends) // MAX_BOUNDARIES - 1] for index in range(MAX_BOUNDARIES)]


def _have_same_content(first: Log, second: Log) -> bool:
    def read(log: Log) -> list[bytes]:
        return [content for content in (Path(segment).read_bytes() for segment in log.segments) if content]

    return read(first) == read(second)


def _describe_steps(cleaned: CleanedLog) -> str:
    return ", then ".join(cleaned.steps)


def _describe_loss(log: Log, rules: Dialect, cleaned: CleanedLog, after: LoadedPartition) -> Finding:
    what = (
        f"Kafka {rules.kafka} loads the partition now, but the log cleaner can make it unloadable: after this it fails "
        f"({_describe_steps(cleaned)}): {after.error}."
    )
    command = ["kafkagroups", "rescue", "plan", log.path]
    remedy = (
        "Keep a copy of the partition's folder as it is now, and save the offsets of its groups while they load: "
        f"{join_words(command)}"
    )
    return Finding(log.partition, after.record_offset, None, None, "fails_after_cleaning", what, remedy, command)


def _describe_gain(log: Log, rules: Dialect, cleaned: CleanedLog, now: LoadedPartition) -> Finding:
    what = (
        f"Kafka {rules.kafka} fails to load the partition now, but loads it after the log cleaner has run "
        f"({_describe_steps(cleaned)})."
    )
    remedy = (
        "A broker that leads the partition cleans these records only if its active segment is rolled before it dies"
    )
    command = None
    if cleaned.options.count("--clean") == 1:
        command = ["kafkagroups", "edit", log.path, "--out", "COPY", *cleaned.options]
        remedy += f"; in a copy, this does the same: {join_words(command)}"
    else:
        remedy += ", and it runs a further pass only if it has new records to clean."
    return Finding(log.partition, now.record_offset, None, None, "loads_after_cleaning", what, remedy, command)
