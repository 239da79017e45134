"""Loads a topic and counts its records in one pass: `stats`, `check` and `report` are questions to the result.

The native engine counts while it folds a log, and otherwise an observer of the readable engine (totals.py). What only
the load can decide is looked up in the log again (passes.py). Then the rules are asked.

Storms, skips, two writers, and a partition that is not given back need the history of a group, and to replay it costs
much more than to count its records. So only the groups that the totals name are replayed, because they rebalance often,
or because an offset skips or goes back, and those with a member that has to give a partition back when the log ends.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from kafkagroups.groups.modern_group import MEMBER_STATES, ModernGroup
from kafkagroups.history import group_rules, load_rules, partition_rules
from kafkagroups.history.event import describe_skips, join_skips
from kafkagroups.history.fates import ObservedLoad
from kafkagroups.history.finding import OUTSIDER_REMEDY, Finding, count_of, describe_time, name_record, sort_findings
from kafkagroups.history.group_log import GroupLog, load_group_logs
from kafkagroups.history.passes import Partition, refuse_foreign_log
from kafkagroups.history.stats import WRITER, Count, PartitionStats, Stats, sort_rows
from kafkagroups.history.storms import find_storms
from kafkagroups.history.timeline import build_history, find_waiting_members
from kafkagroups.history.totals import OFFSET_TYPES, Observed, take_totals
from kafkagroups.history.transactions import add_details, find_endless_commits, find_hanging
from kafkagroups.history.writers import count_versions, count_writers, find_ranges
from kafkagroups.loading import native
from kafkagroups.loading.groups import Answers, GroupParts
from kafkagroups.loading.load import OpenTopic, WholeTopic
from kafkagroups.log.segments import Log
from kafkagroups.records.written_versions import describe_writers

MAX_WATCHED = 20
"""At most this many groups of a partition are replayed: if more are in trouble, the cause is not one of the groups."""
MAX_WATCHED_RECORDS = 100_000
"""At most this many records of a path are replayed, which takes about ten seconds; of each partition, the groups with
the fewest records come first. `Stats.unwatched` names the others."""
MAX_RETURNED = 5
MAX_RETURNED_RECORDS = 2_000
"""At most this many groups of a path are replayed because a topic can have been created again, and only small ones."""
MIN_WAIT_MS = 30_000
"""A consumer gives partitions back with its next heartbeat, which it sends every few seconds."""


def choose_watched(partition: Partition, max_records: int) -> tuple[list[str], list[str], int]:
    """Return the groups of a partition that are replayed, those that have too many records, and how many are left."""
    watched = {*partition.totals.watched_groups, *_find_unrevoked(partition)}
    names = partition.parts.keys() & (watched | partition.returned)
    counts = {name: partition.by_group[name].records for name in names}
    chosen: list[str] = []
    left_out: list[str] = []
    for name in sorted(names, key=lambda name: (name not in watched, counts[name], name))[:MAX_WATCHED]:
        (chosen if counts[name] <= max_records else left_out).append(name)
        max_records -= counts[name] if name in chosen else 0
    return chosen, left_out, max_records


def _find_unrevoked(partition: Partition) -> Iterator[str]:
    for group_id, parts in partition.parts.items():
        group = parts.group
        if isinstance(group, ModernGroup) and group.type == "consumer" and group.partition == partition.number:
            states = [MEMBER_STATES["consumer"].get(member.state or 0) for member in group.members.values()]
            if "UnrevokedPartitions" in states:
                yield group_id


def watch_group(partition: Partition, log: GroupLog, stats: Stats) -> Iterator[Finding]:
    """Yield the findings about a group of a partition that is worth a replay.

    Whether a member has waited for long depends on the newest time of all logs, so these findings go to `stats`.
    """
    history = build_history(log, partition.number, partition.loaded)
    group = log.group
    command = ["kafkagroups", "timeline", partition.log.path, *partition.rule_options, f"--group={group}"]
    find = partial(partition.finding, group=group, command=command)
    for storm in find_storms(history.events):
        what = f"Group {group}: {storm.what[0].lower()}{storm.what[1:]}."
        yield find(storm.rebalances[0].offset, "rebalance_storm", what, storm.remedy)
    for waiting in find_waiting_members(history):
        if waiting.partitions:
            what = f"Group {group}: {waiting.what}"
            found = find(waiting.offset, "unrevoked_partition", what, topic_partition=waiting.partitions[0])
            stats.waiting.append((waiting.since_ms, found))
    stats.recreated += [(partition.number, group, sign) for sign in history.recreated.values()]
    skips = join_skips(history.events)
    if skips:
        first = skips[0][0]
        time = "" if first.timestamp_ms is None else f" at {describe_time(first.timestamp_ms)}"
        later = [f" Record {name_record(partition.number, run[0].offset)}: {describe_skips(run)}" for run in skips[1:3]]
        later += [f" After that, {count_of(sum(map(len, skips[3:])), 'more skip')}."] * (len(skips) > 3)
        what = f"Group {group} can have skipped records{time}: {describe_skips(skips[0])}{''.join(later)}"
        yield find(first.offset, "skipped_records", what, topic_partition=first.topic_partition)
    for position in history.positions.values():
        if position.has_two_writers and position.rereads:
            what = f"Group {group}: {position.describe_rewound()}"
            remedy = OUTSIDER_REMEDY if position.has_outsider else ""
            yield find(position.record, "two_writers", what, remedy, topic_partition=position.topic_partition)
            return


RULES = (*load_rules.RULES, find_endless_commits, *group_rules.RULES, *partition_rules.RULES)
"""What is asked about each partition, apart from whether it loads."""


def count_logs(topic: OpenTopic, by: str = "group") -> Stats:
    """Load a topic and return its statistics. `by` is one of ROW_KINDS (stats.py): what a row stands for."""
    return CountedTopic(topic, by).sum_stats()


class CountedTopic:
    """A load of a topic that counts. `groups` is the result of the load, and `totals` has those of each partition.

    `whole` is the one of `OpenTopic.load`. `topic_partitions` is the partition count of the topic. It does not say that
    the count was changed if files that were copied into the wrong folder explain what the log shows.
    """

    def __init__(self, topic: OpenTopic, by: str = "group", whole: WholeTopic | None = None) -> None:
        self.topic = topic = topic.in_memory()
        self.by = by
        load = ObservedLoad(topic, lambda log, notes: Observed(topic.dialect, log, notes), whole, follow=native.COUNTS)
        self.groups = load.groups
        self.totals = {number: observer.finish() for number, observer in load.observers.items()}
        logs = {log.partition: log for log in topic.logs}
        self.totals |= {
            number: take_totals(shard, logs[number], topic.dialect) for number, shard in load.shards.items()
        }
        self._returned_left = MAX_RETURNED
        self._watched_left = MAX_WATCHED_RECORDS
        self._misplaced, is_explained = partition_rules.find_misplaced(topic.logs, self.groups)
        topic_partitions = self.groups.topic_partitions
        self.topic_partitions = replace(topic_partitions, changed=None) if is_explained else topic_partitions

    def read_stats(self, *, watches_groups: bool = True) -> Iterator[Stats]:
        """Yield the statistics of each log. Its batches are read again only if something needs them.

        `watches_groups` adds the findings that need the history of a group.
        """
        problems = self.groups.problems_by_partition
        # Before the rules build any group.
        parts = self.groups.groups.unbuilt()
        answers = Answers(parts, self.groups.orphans.unbuilt())
        for log in self.topic.logs:
            stats = Stats(self.by, problems=problems[log.partition])
            partition = self._count(log, stats, parts, answers)
            add_details(partition)
            partition.counts.written_by_ranges = [*find_ranges(partition)]
            stats.value_versions = count_versions(partition) if self.by == "type" else {}
            stats.writers = [*count_writers(partition)] if self.by == WRITER else []
            stats.known_groups = group_rules.list_known_groups(partition)
            failure = load_rules.FailedLoad(partition)
            stats.groups_lost = {log.partition: failure.lost}
            found = [failure.find(), *(find(partition) for find in RULES)]
            if watches_groups:
                names, stats.unwatched, self._watched_left = choose_watched(partition, self._watched_left)
                logs = load_group_logs(self.topic.part(log), names)[1] if names else {}
                found += [watch_group(partition, group_log, stats) for group_log in logs.values()]
            stats.findings = list(chain.from_iterable(found))
            yield stats

    def _count(self, log: Log, stats: Stats, parts: dict[str, GroupParts], answers: Answers) -> Partition:
        totals = self.totals[log.partition]
        loaded = self.groups.partitions[log.partition]
        counts = PartitionStats(batches=loaded.batches, next_offset=loaded.next_offset, gaps=loaded.gaps)
        counts.first_timestamp_ms, counts.last_timestamp_ms = totals.times or (None, None)
        counts.abort_markers, counts.commit_markers = totals.markers
        counts.open_transactions = transactions = sorted(totals.open_transactions, key=lambda each: each.first_offset)
        counts.last_stable_offset = transactions[0].first_offset if transactions else loaded.next_offset
        counts.written_by = describe_writers(totals.writers)
        damage = [gap.from_offset for gap in loaded.gaps or ()]
        counts.add_segments(totals.segments, damage if loaded.damage is None else [*damage, loaded.next_offset])
        stats.partitions[log.partition] = counts
        commits: Counter[str] = Counter()
        by_group: defaultdict[str, Count] = defaultdict(Count)
        returned: dict[str, int] = {}
        """By group: how many more offsets of a topic it has than were deleted, so 0 if only the old ones are back."""
        for row, count in totals.count_rows(self.groups, answers):
            if row.group is not None:
                by_group[row.group].add(count)
                commits[row.group] += count.records - count.tombstones if row.type in OFFSET_TYPES else 0
                if row.topic is not None and 0 < count.tombstones <= 2 * count.live_records:
                    surplus = max(0, count.live_records - count.tombstones)
                    returned[row.group] = min(surplus, returned.get(row.group, surplus))
            counts.add(count)
            if self.by != WRITER and (count.records or count.bytes or count.live_records):
                count.in_partitions = [log.partition]
                stats.add_row(log.partition if self.by == "partition" else getattr(row, self.by), count)
        counts.records = loaded.records
        counts.bytes = sum(segment.bytes for segment in totals.segments)
        partition_rules.read_cleaner_times(log, counts)
        misplaced = self._misplaced.get(log.partition)
        reading = (log, self.topic.dialect, self.topic.chosen_engine)
        max_records = max(MAX_RETURNED_RECORDS, loaded.records // 50)
        small = [group for group in returned if by_group[group].records <= max_records]
        few = sorted(small, key=lambda group: (returned[group], group))[: self._returned_left]
        self._returned_left -= len(few)
        counters = (counts, by_group, commits)
        return Partition(*reading, self.groups, loaded, parts, totals, *counters, {*few}, misplaced)

    def sum_stats(self, *, watches_groups: bool = True) -> Stats:
        refuse_foreign_log(self.topic, self.groups.partitions_of)
        stats = Stats(self.by, topic_partitions=self.topic_partitions)
        for log_stats in self.read_stats(watches_groups=watches_groups):
            stats.add(log_stats)
        finish(stats, self.topic)
        return stats


def finish(stats: Stats, topic: OpenTopic) -> None:
    """Add what only all partitions together show, and sort the findings and the rows."""
    change = stats.topic_partitions.changed
    if change is not None:
        stats.moved_offsets = [*partition_rules.find_moved_offsets(topic, change)]
        stats.findings.append(partition_rules.find_count_change(change))
    # A folder of `pull --follow` keeps what the cleaner of the brokers removes.
    is_followed = any(Path(log.path).with_name("follow.json").exists() for log in topic.logs)
    of_topic = (
        *find_hanging(stats, topic.dialect.version),
        *(() if is_followed else partition_rules.find_uncleaned(stats, topic.dialect)),
        *group_rules.find_families(stats),
        *group_rules.find_look_alikes(stats.known_groups),
        *group_rules.find_recreated(stats.recreated),
    )
    waiting = [finding for since_ms, finding in stats.waiting if stats.newest_ms - since_ms >= MIN_WAIT_MS]
    stats.findings = sort_findings([*stats.findings, *of_topic, *waiting])
    stats.rows = dict(sort_rows(stats))
