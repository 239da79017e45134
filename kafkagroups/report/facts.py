"""The facts of a report on one path: its load, its statistics, what happened over time, and the log after cleaning."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from kafkagroups.errors import BadBytes
from kafkagroups.history.check import Check, check_logs
from kafkagroups.history.count_logs import count_each_log
from kafkagroups.history.finding import Finding, sort_findings
from kafkagroups.history.findings import add_findings
from kafkagroups.history.moved_groups import MovedOffset, find_moved_offsets
from kafkagroups.history.stats import PartitionStats, Stats
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.cleaner import CleanerConfig, clean
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import Dialect
from kafkagroups.report.activity import Activity, TimeAxis, read_activity
from kafkagroups.report.stories import Stories, read_stories

CHARTED_GROUPS = 8
"""How many groups have a chart of their own: the ones with the most bytes."""
MAX_BYTES_TO_CLEAN = 256 * 2**20
"""The cleaner runs only if the segments that it can clean are not larger. Above, the statistics' estimate is used."""


@dataclass(frozen=True)
class AfterCleaning:
    """A partition after one pass of the cleaner. `is_estimate`: no pass ran, the statistics were used."""

    records: int
    bytes: int
    is_estimate: bool = False


@dataclass
class LogFacts:
    """Everything that a report says about one path.

    `check` is the verdict of `kafkagroups check`. `findings` are its findings and those of `stats`, each once.
    `moved_offsets` are the positions of the groups that moved to another partition, if the partition count was changed.
    `after_cleaning` is by partition number.
    """

    path: str
    dialect: Dialect
    groups: Groups
    stats: Stats
    axis: TimeAxis | None
    activities: list[Activity]
    stories: Stories
    check: Check
    moved_offsets: list[MovedOffset]
    after_cleaning: dict[int | None, AfterCleaning] = field(default_factory=dict)

    @property
    def findings(self) -> list[Finding]:
        """The findings of `stats` and `check`. Of two findings of a kind at one place, the one of `check` says more."""
        places = {(finding.partition, finding.kind) for finding in self.check.findings}
        others = [finding for finding in self.stats.findings if (finding.partition, finding.kind) not in places]
        return sort_findings([*self.check.findings, *others])

    @property
    def options(self) -> str:
        """The options with which another command reads the path by the same rules."""
        topic = self.stats.topic_partitions
        partitions = f" --partitions {topic.count}" if topic.origin == "option" else ""
        return f"--coordinator {self.dialect.coordinator} --kafka {self.dialect.kafka}{partitions}"

    @property
    def stands_out(self) -> bool:
        """Whether the partition count was changed, or something stands out in the history of a group."""
        return bool(self.stories.stories) or self.stats.topic_partitions.changed is not None

    @property
    def now_ms(self) -> int | None:
        """The time of the newest record, in ms since the epoch; None if no record has a time."""
        return None if self.axis is None else self.axis.last_ms


def read_facts(topic: OpenTopic) -> LogFacts:
    """Read the logs of one path: a load that counts, the verdict, the activity over time, and the histories."""
    logs = topic.logs
    counted = count_each_log(topic)
    groups = counted.groups
    stats = Stats("group", topic_partitions=counted.topic_partitions)
    for log_stats in counted.read_stats():
        stats.add(log_stats)
    add_findings(stats)
    check = check_logs(topic)
    axis = _find_axis(stats)
    largest = sorted(
        (name for name in stats.rows if isinstance(name, str)), key=lambda name: (-stats.rows[name].bytes, name)
    )
    charted = set(largest[:CHARTED_GROUPS])
    activities = [read_activity(log, axis or TimeAxis(0, 0), charted) for log in logs]
    counts = [stats.partitions[log.partition] for log in logs]
    stories = read_stories(logs, topic.dialect, activities, counts)
    change = stats.topic_partitions.changed
    moved = [] if change is None else find_moved_offsets(topic, change)
    facts = LogFacts(topic.path, topic.dialect, groups, stats, axis, activities, stories, check, moved)
    for log in logs:
        facts.after_cleaning[log.partition] = _clean(log, stats.partitions[log.partition])
    return facts


def _find_axis(stats: Stats) -> TimeAxis | None:
    firsts = [part.first_timestamp_ms for part in stats.partitions.values() if part.first_timestamp_ms is not None]
    lasts = [part.last_timestamp_ms for part in stats.partitions.values() if part.last_timestamp_ms is not None]
    return TimeAxis(min(firsts), max(lasts)) if firsts and lasts else None


def _clean(log: Log, counts: PartitionStats) -> AfterCleaning:
    """Return what one pass leaves of a partition. The files of the pass are deleted again."""
    cleanable_bytes = counts.bytes - counts.uncleanable_bytes
    if cleanable_bytes <= 0:
        return AfterCleaning(counts.records, counts.bytes)
    if cleanable_bytes <= MAX_BYTES_TO_CLEAN:
        with TemporaryDirectory(prefix="kafkagroups-report-") as folder:
            try:
                result = clean(log, Path(folder) / "cleaned", CleanerConfig())
            except BadBytes:  # Kafka's cleaner fails at this log, too.
                return AfterCleaning(counts.records, counts.bytes)
            return AfterCleaning(result.after.records, result.after.bytes)
    freed_share = counts.freed_bytes / counts.bytes
    records = round(counts.records * (1 - freed_share))
    return AfterCleaning(records, counts.bytes - counts.freed_bytes, is_estimate=True)
