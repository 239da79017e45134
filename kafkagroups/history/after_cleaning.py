"""The log as the log cleaner could leave it before the next failover, and whether a broker then loads it (`check`).

A cleaning can make a log unloadable, because it removes a record that the coordinator needs. For example, a tombstone
expires that separates the records of a consumer group from those of a streams group with the same id. A cleaning can
also remove the record at which a load fails. These logs are reachable, and each of them is loaded:

- The active segment stays, or it is rolled first. Then a pass can clean its records, too.
- A pass ends at the base of any segment up to the first uncleanable offset. The offset map can be full there, or
  min.compaction.lag.ms keeps the later segments back.
- A second pass after delete.retention.ms removes the tombstones that the first pass has marked. A third one removes
  markers. A broker runs them only if new records were appended and can be cleaned.

Simpler than Kafka: a broker can also die while a pass has replaced only some of its segments, and new records come
before a second pass. Neither is tried. The map is not full in the middle of a segment.

A log that loads, and in which no record needs another one, needs no pass: it loads after every cleaning. Only records
of the new protocols need each other, so with the classic coordinator these are all logs that load. A log with damage is
not judged, and one that the cleaner fails to clean is not. Passes take time: a log above MAX_SIZE bytes gets none, and
the logs of one path above MAX_TOTAL_SIZE bytes together get none, either.
Source: Cleaner.java, LogToClean.java (4.3.1).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.groups.shard import LoadedPartition
from kafkagroups.history.finding import Finding, join_words
from kafkagroups.history.release_changes import list_read_types
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.cleaner import CleanerConfig, clean
from kafkagroups.log.folders import open_log
from kafkagroups.log.log_to_clean import LogToClean, read_log
from kafkagroups.log.segment_file import is_segment_name, segment_name
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import Dialect

MAX_SIZE = 8 * 2**20
"""Each reachable log is written and loaded. A log of this size takes about 5 s, measured on one core."""
MAX_TOTAL_SIZE = 16 * 2**20
"""`check` of a large folder should not take minutes."""
MAX_BOUNDARIES = 8
"""The largest number of ends of the first pass that are tried. In a log with more segments, some are left out."""
DELETE_RETENTION_MS = 86_400_000


@dataclass(frozen=True)
class CleanedLog:
    """A log that is reachable. `steps` say how, as the end of "after …". `is_whole` if each pass reached its end.

    `options` are those of `kafkagroups edit` that do the same.
    """

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

    def find(self, log: Log, loaded: LoadedPartition, types: Collection[int]) -> list[Finding]:
        """Return the finding about a partition that loads now but not after a cleaning, or the other way round.

        `loaded` is the partition as it loads together with the others. `types` are the record types in the log.
        """
        # Passes clean folders of whole segments.
        is_whole = not log.ranges and all(is_segment_name(os.path.basename(segment)) for segment in log.segments)
        if not is_whole or loaded.damage is not None or loaded.zeros is not None:
            return []
        findings: list[Finding] = []
        if loaded.error is not None or not list_read_types(self.rules).isdisjoint(types):
            if log.size > min(MAX_SIZE, self._bytes_left):
                return []
            self._bytes_left -= log.size
            with tempfile.TemporaryDirectory() as folder:
                try:
                    findings = list(islice(self._find_by_passes(log, Path(folder)), 1))
                except (UsageError, BadBytes):
                    # The cleaner itself fails at some logs, and at times that do not fit into 64 bits.
                    return []
        self.judged.add(log.partition)
        return findings

    def _find_by_passes(self, log: Log, folder: Path) -> Iterator[Finding]:
        copy = _copy(log, folder)
        now = self._load(copy)
        for cleaned in _list_cleaned(copy, folder) if now.records else ():
            after = self._load(cleaned.log)
            if now.error is None and after.error is not None:
                yield _describe_loss(log, self.rules, cleaned, after)
            if now.error is not None and after.error is None and cleaned.is_whole:
                yield _describe_gain(log, self.rules, cleaned, now)

    def _load(self, log: Log) -> LoadedPartition:
        return OpenTopic([log], self.rules, engine="auto").load().partitions[log.partition]


def _new_folder(folder: Path, log: Log) -> Path:
    """Return a new folder below `folder` for a copy of a log."""
    name = "log" if log.partition is None else f"__consumer_offsets-{log.partition}"
    new_folder = Path(tempfile.mkdtemp(dir=folder)) / name
    new_folder.mkdir()
    return new_folder


def _copy(log: Log, folder: Path, new_segment: int | None = None) -> Log:
    """Return a copy of a log, with a new, empty active segment if `new_segment` is given."""
    copy = _new_folder(folder, log)
    for segment in log.segments:
        (copy / os.path.basename(segment)).write_bytes(log.read(segment))
    if new_segment is not None:
        (copy / segment_name(new_segment)).touch()
    return open_log(copy, max_batch_bytes=log.max_batch_bytes)


def _list_cleaned(log: Log, folder: Path) -> Iterator[CleanedLog]:
    """Yield each log that passes over a log can leave. The first ones need the fewest steps."""
    if len(log.segments) > 1:
        yield from _clean_from(log, [], [], folder)
    if os.path.getsize(log.segments[-1]):
        end = max((batch.next_offset for batch in log), default=log.start_offset)
        yield from _clean_from(_copy(log, folder, end), ["the active segment was rolled"], ["--roll"], folder)


def _clean_from(log: Log, steps: list[str], options: list[str], folder: Path) -> Iterator[CleanedLog]:
    """Yield the logs that passes over a log leave. The first pass ends at any of at most MAX_BOUNDARIES segments."""
    source = _read(log)
    bases = [segment.base_offset for segment in source.segments[1:]]
    ends = [base for base in bases if base <= source.first_uncleanable]
    count = min(len(ends), MAX_BOUNDARIES)
    for number in range(count, 0, -1):
        end = ends[number * len(ends) // count - 1]
        yield from _run_passes(CleanedLog(log, steps, options, is_whole=number == count), end, folder)


def _run_passes(cleaned: CleanedLog, end: int, folder: Path) -> Iterator[CleanedLog]:
    """Yield the logs after up to three passes. The first pass ends at the offset `end`."""
    now_ms = max(_read(cleaned.log).newest_ms, 0)
    for number in range(3):
        log = cleaned.log
        time_ms = now_ms + number * (DELETE_RETENTION_MS + 1)
        pass_end = _read(log).first_uncleanable if number else end
        later = " when delete.retention.ms is over and new records were appended" if number else ""
        name = f"{'another' if number else 'a'} pass of the log cleaner up to offset {pass_end}{later}"
        target = _new_folder(folder, log)
        clean(log, target, CleanerConfig(time_ms, DELETE_RETENTION_MS, first_uncleanable=pass_end))
        after = open_log(target, max_batch_bytes=log.max_batch_bytes)
        if _read_content(log) == _read_content(after):
            return
        options = [*cleaned.options, "--clean", str(time_ms)]
        cleaned = CleanedLog(after, [*cleaned.steps, name], options, cleaned.is_whole)
        yield cleaned


def _read(log: Log) -> LogToClean:
    source, _ = read_log(log, None, None, lambda step, done, total: None)
    return source


def _read_content(log: Log) -> list[bytes]:
    return [content for content in (Path(segment).read_bytes() for segment in log.segments) if content]


def _describe_loss(log: Log, rules: Dialect, cleaned: CleanedLog, after: LoadedPartition) -> Finding:
    what = (
        f"Kafka {rules.kafka} loads the partition now, but the log cleaner can make it unloadable: after this it fails "
        f"({', then '.join(cleaned.steps)}): {after.error}."
    )
    command = ["kafkagroups", "rescue", "plan", log.path]
    remedy = (
        "Keep a copy of the partition's folder as it is now, and save the offsets of its groups while they load: "
        f"{join_words(command)}"
    )
    return Finding(log.partition, after.record_offset, None, None, "fails_after_cleaning", what, remedy, command)


def _describe_gain(log: Log, rules: Dialect, cleaned: CleanedLog, now: LoadedPartition) -> Finding:
    steps = ", then ".join(cleaned.steps)
    what = f"Kafka {rules.kafka} fails to load the partition now, but loads it after the log cleaner has run ({steps})."
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
