"""The logs that the log cleaner could leave of a log, each as a folder that can be loaded, and what their loads tell.

A cleaning can make a log unloadable, because it removes a record that the coordinator needs: for example, the tombstone
between the records of a consumer group and those of a streams group with the same id. It can also remove the record at
which a load fails. So each log that the cleaner could leave is loaded:

- The active segment stays, or it is rolled first, so that a pass can clean its records, too.
- A pass ends at the base of any segment up to the first uncleanable offset, because the offset map can be full there,
  or min.compaction.lag.ms keeps the later segments back.
- A second pass after delete.retention.ms removes the tombstones that the first pass has marked, and a third one removes
  markers. A broker runs them only if new records were appended and can be cleaned.

Only records of the new protocols need each other, so other logs that load need no pass. Logs with damage, logs that the
cleaner fails to clean, and logs above MAX_SIZE or MAX_TOTAL_SIZE are not judged.

Simpler than Kafka: no broker dies while a pass has replaced only some segments, no records come before a second pass,
and the map is not full in the middle of a segment.
Source: Cleaner.java, LogToClean.java (4.3.1).
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.groups.replay import LoadedPartition
from kafkagroups.history.finding import Finding
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.cleaner import DELETE_RETENTION_MS, CleanerConfig, LogToClean, clean, read_log
from kafkagroups.log.folders import open_log
from kafkagroups.log.segment_file import is_segment_name, segment_name
from kafkagroups.log.segments import Log
from kafkagroups.records.releases import READ_TYPES, Dialect

MAX_SIZE = 8 * 2**20
"""Each log is written and loaded. A log of this size takes about 5 s, measured on one core."""
MAX_TOTAL_SIZE = 16 * 2**20
"""`check` of a large folder should not take minutes."""
MAX_BOUNDARIES = 8
"""The largest number of ends of the first pass that are tried. In a log with more segments, some are left out."""


@dataclass(frozen=True)
class CleanedLog:
    """A log that is reachable. `steps` say how, as the end of "after …"; `options` of `kafkagroups edit` do the same.

    `is_whole` says whether each pass reached its end.
    """

    log: Log
    steps: list[str]
    options: list[str]
    is_whole: bool


def is_whole(log: Log) -> bool:
    """Return whether a pass can clean a log: the passes clean folders of whole segments."""
    return not log.ranges and all(is_segment_name(os.path.basename(segment)) for segment in log.segments)


def _new_folder(folder: Path, log: Log) -> Path:
    name = "log" if log.partition is None else f"__consumer_offsets-{log.partition}"
    new_folder = Path(tempfile.mkdtemp(dir=folder)) / name
    new_folder.mkdir()
    return new_folder


def copy_log(log: Log, folder: Path, new_segment: int | None = None) -> Log:
    copy = _new_folder(folder, log)
    for segment in log.segments:
        (copy / os.path.basename(segment)).write_bytes(log.read(segment))
    if new_segment is not None:
        (copy / segment_name(new_segment)).touch()
    return open_log(copy, max_batch_bytes=log.max_batch_bytes)


def list_cleaned(log: Log) -> Iterator[CleanedLog]:
    """Yield each log that passes over a log can leave. The first ones need the fewest steps.

    Raises UsageError or BadBytes if the cleaner itself fails at the log, or at times that do not fit into 64 bits.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy = copy_log(log, folder)
        if len(copy.segments) > 1:
            yield from _clean_from(copy, [], [], folder)
        if os.path.getsize(copy.segments[-1]):
            end = max((batch.next_offset for batch in copy), default=copy.start_offset)
            yield from _clean_from(copy_log(copy, folder, end), ["the active segment was rolled"], ["--roll"], folder)


def _clean_from(log: Log, steps: list[str], options: list[str], folder: Path) -> Iterator[CleanedLog]:
    source = _read(log)
    bases = [segment.base_offset for segment in source.segments[1:]]
    ends = [base for base in bases if base <= source.first_uncleanable]
    count = min(len(ends), MAX_BOUNDARIES)
    for number in range(count, 0, -1):
        end = ends[number * len(ends) // count - 1]
        yield from _run_passes(CleanedLog(log, steps, options, is_whole=number == count), end, folder)


def _run_passes(cleaned: CleanedLog, end: int, folder: Path) -> Iterator[CleanedLog]:
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
    return read_log(log, None, None, lambda step, done, total: None)


def _read_content(log: Log) -> list[bytes]:
    return [content for content in (Path(segment).read_bytes() for segment in log.segments) if content]


def list_read_types(rules: Dialect) -> set[int]:
    """Return the record types above 2 that a coordinator reads."""
    is_classic = rules.coordinator == "classic"
    return {number for number, versions in READ_TYPES.items() if rules.version in versions and not is_classic}


def load_alone(log: Log, rules: Dialect) -> Groups:
    return OpenTopic([log], rules, engine="auto").load()


class AfterCleaning:
    """Judges the logs of one path as the log cleaner could leave them."""

    def __init__(self, rules: Dialect) -> None:
        self.rules = rules
        self._bytes_left = MAX_TOTAL_SIZE

    def find(self, log: Log, loaded: LoadedPartition, types: Collection[int]) -> list[Finding] | None:
        """Return the finding about a partition that loads now but not after a cleaning, or the other way round.

        `loaded` is the partition as it loads together with the others. `types` are the record types in the log. None
        means that the log was not judged.
        """
        if not is_whole(log) or loaded.damage is not None or loaded.gaps or loaded.zeros is not None:
            return None
        if loaded.error is None and list_read_types(self.rules).isdisjoint(types):
            return []
        if log.size > min(MAX_SIZE, self._bytes_left):
            return None
        self._bytes_left -= log.size
        with suppress(UsageError, BadBytes):
            return list(islice(self._find_by_passes(log), 1))
        return None

    def _find_by_passes(self, log: Log) -> Iterator[Finding]:
        now = load_alone(log, self.rules).partitions[log.partition]
        for cleaned in list_cleaned(log) if now.records else ():
            after = load_alone(cleaned.log, self.rules).partitions[log.partition]
            if now.error is None and after.error is not None:
                yield _describe_loss(log, self.rules, cleaned, after)
            if now.error is not None and after.error is None and cleaned.is_whole:
                yield _describe_gain(log, self.rules, cleaned, now)


def _describe_loss(log: Log, rules: Dialect, cleaned: CleanedLog, after: LoadedPartition) -> Finding:
    what = (
        f"Kafka {rules.kafka} loads the partition now, but the log cleaner can make it unloadable: after this it fails "
        f"({', then '.join(cleaned.steps)}): {after.error}."
    )
    command = ["kafkagroups", "rescue", "plan", log.path]
    return Finding.make(log.partition, after.record_offset, "fails_after_cleaning", what, command=command)


def _describe_gain(log: Log, rules: Dialect, cleaned: CleanedLog, now: LoadedPartition) -> Finding:
    steps = ", then ".join(cleaned.steps)
    what = f"Kafka {rules.kafka} fails to load the partition now, but loads it after the log cleaner has run ({steps})."
    remedy = (
        "A broker that leads the partition cleans these records only if its active segment is rolled before it dies"
    )
    command = None
    if cleaned.options.count("--clean") == 1:
        command = ["kafkagroups", "edit", log.path, "--out", "COPY", *cleaned.options]
        remedy += f"; in a copy, this does the same: {shlex.join(command)}"
    else:
        remedy += ", and it runs a further pass only if it has new records to clean."
    return Finding.make(log.partition, now.record_offset, "loads_after_cleaning", what, remedy, command=command)
