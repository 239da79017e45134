"""The facts of a report on one path: its load, its statistics, its verdict, and what happened over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.history.check import Check, judge
from kafkagroups.history.finding import Finding, quote, sort_findings
from kafkagroups.history.passes import refuse_foreign_log
from kafkagroups.history.scan import CountedTopic
from kafkagroups.history.stats import OpenTransaction, Stats
from kafkagroups.history.words import describe_topic
from kafkagroups.html_report.activity import PARTS, Activity, Story, TimeAxis, read_activity, read_stories
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic

FOLLOWED_GROUPS = 100
"""How many groups are followed over time: the ones with the most bytes."""


@dataclass(frozen=True)
class LogFacts:
    """Everything that a report says about one path.

    `stories` are the histories of groups in which something stands out, and
    `untold` counts further such groups.
    """

    topic: OpenTopic
    groups: Groups
    stats: Stats
    check: Check
    axis: TimeAxis
    activities: Sequence[Activity]
    stories: Sequence[Story]
    untold: int

    @property
    def findings(self) -> list[Finding]:
        """The findings of `stats`, and those that only `check` has."""
        others = [finding for finding in self.check.findings if finding not in self.stats.findings]
        return sort_findings([*self.stats.findings, *others])

    def command(self, name: str, *words: str, group: str | None = None) -> str:
        """Return the line of a shell that asks another command about the path, or about a group in it."""
        topic = self.stats.topic_partitions
        of_group = [] if group is None else [f"--group={quote(group)}"]
        rules = ["--coordinator", self.topic.dialect.coordinator, "--kafka", self.topic.dialect.kafka]
        count = ["--partitions", str(topic.count)] if topic.origin == "option" else []
        return " ".join(["kafkagroups", name, quote(self.topic.path), *of_group, *words, *rules, *count])

    @property
    def assumptions(self) -> list[str]:
        """What was assumed about the partition count, and which partitions the folder lacks."""
        return list(describe_topic(self.stats.topic_partitions, self.topic.dialect.coordinator))

    @property
    def losses(self) -> list[tuple[int | None, str, int | None, Sequence[str]]]:
        """What is lost because a partition does not load, and what a broker's recovery cuts off.

        Each loss is the partition, why, the record where it begins, and the ids of the groups that lose something.
        """
        checks = self.check.partitions
        failures = [(number, one.error, one.record_offset, one.groups_lost) for number, one in checks.items()]
        damages = [(number, loaded.damage) for number, loaded in self.groups.partitions.items()]
        return [
            *((number, error, record, groups) for number, error, record, groups in failures if error is not None),
            *((number, str(damage), damage.offset, damage.groups_after) for number, damage in damages if damage),
        ]

    @property
    def open_transactions(self) -> list[tuple[int | None, OpenTransaction]]:
        """The partition of each open transaction, and the transaction; the oldest one first."""
        pairs = [(number, one) for number, part in self.stats.partitions.items() for one in part.open_transactions]
        return sorted(pairs, key=lambda pair: (pair[1].since_ms, pair[1].first_offset))

    @property
    def parts_of_time(self) -> list[tuple[int, int, str, int]]:
        """The start of each part of the time, its bytes, the group that wrote most of them, and the group's bytes."""
        parts = []
        for part in range(PARTS):
            size = sum(activity.bytes[part] for activity in self.activities)
            by_group = sum((activity.group_bytes[part] for activity in self.activities), Counter[str]())
            group, group_size = max(by_group.items(), key=lambda item: item[1], default=("-", 0))
            parts += [(self.axis.find_start(part), size, group, group_size)] if size else []
        return parts

    @property
    def largest_groups(self) -> list[str]:
        """The groups that a broker has after a load, the one with the most bytes in the log first."""
        rows = self.stats.rows
        return sorted(self.groups, key=lambda name: (-rows[name].bytes if name in rows else 0, name))

    @staticmethod
    def list_offsets(group: AnyGroup) -> list[tuple[TopicPartition, OffsetAndMetadata | None, int | None]]:
        """Return the topic partitions of a group, each with its committed offset and its pending one."""
        pending = {key: commit.offset for commits in group.pending.values() for key, commit in commits.items()}
        return [(key, group.offsets.get(key), pending.get(key)) for key in sorted({*group.offsets, *pending})]

    def total(self, name: str) -> int:
        """Return the sum of a number of all partitions, for example of "bytes"."""
        return sum(getattr(counts, name) for counts in self.stats.partitions.values())


def read_facts(topic: OpenTopic) -> LogFacts:
    """Read the logs of one path: a load that counts, the verdict, the activity over time, and the histories."""
    counted = CountedTopic(topic)
    refuse_foreign_log(counted.topic, counted.groups.partitions_of)
    stats_of_logs = list(counted.read_stats())
    check = judge(counted, stats_of_logs)
    stats = counted.sum_stats(stats_of_logs)
    logs = counted.topic.logs
    times = [time for part in stats.partitions.values() for time in (part.first_timestamp_ms, part.last_timestamp_ms)]
    known = [time for time in times if time is not None]
    axis = TimeAxis(min(known, default=-1), max(known, default=-1))
    # The rows are sorted by bytes.
    followed = [name for name in stats.rows if isinstance(name, str)][:FOLLOWED_GROUPS]
    activities = [read_activity(log, axis, followed) for log in logs]
    stories, untold = read_stories(logs, topic.dialect, activities, stats)
    return LogFacts(topic, counted.groups, stats, check, axis, activities, stories, untold)
