"""The verdict before a failover (`check`): which partitions load on a release, which fail, and what is then lost.

A partition fails if the coordinator refuses one of its records. The new coordinator then refuses every request for the
groups of the partition, while the classic one answers as if these groups had never existed. Damaged bytes do not fail
a load, because a broker's recovery cuts the log there first. With a second release, the verdict is about a broker of
that release, and release_changes.py finds what changes.

A cleaning can make a log unloadable, because it removes a record that the coordinator needs: for example, the tombstone
between the records of a consumer group and those of a streams group with the same id. It can also remove the record at
which a load fails. So each log that the cleaner could leave (cleanings.py) is loaded.

Only records of the new protocols need each other, so other logs that load need no pass. Logs with damage, logs that the
cleaner fails to clean, and logs above MAX_SIZE or MAX_TOTAL_SIZE are not judged.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.groups.replay import LoadedPartition
from kafkagroups.history.cleanings import MAX_SIZE, CleanedLog, is_whole, list_cleaned
from kafkagroups.history.finding import LOAD_KINDS, Finding, join_words, sort_findings
from kafkagroups.history.group_rules import find_look_alikes
from kafkagroups.history.partition_rules import find_count_change, find_uncleaned
from kafkagroups.history.passes import refuse_foreign_log
from kafkagroups.history.release_changes import find_changes, find_lost_fixes, list_read_types
from kafkagroups.history.scan import CountedTopic
from kafkagroups.history.stats import RECORDS_LOADED_PER_SECOND, Stats
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.partition_count import TopicPartitions
from kafkagroups.log.damage import Damage, Gap, StartFailure
from kafkagroups.log.segments import Log
from kafkagroups.records import versions
from kafkagroups.records.dialects import Dialect, dialect

MAX_TOTAL_SIZE = 16 * 2**20
"""`check` of a large folder should not take minutes."""


class AfterCleaning:
    """Judges the logs of one path as the log cleaner could leave them. `judged` has the partitions that were judged."""

    def __init__(self, rules: Dialect) -> None:
        self.rules = rules
        self.judged: set[int | None] = set()
        self._bytes_left = MAX_TOTAL_SIZE

    def find(self, log: Log, loaded: LoadedPartition, types: Collection[int]) -> list[Finding]:
        """Return the finding about a partition that loads now but not after a cleaning, or the other way round.

        `loaded` is the partition as it loads together with the others. `types` are the record types in the log.
        """
        if not is_whole(log) or loaded.damage is not None or loaded.gaps or loaded.zeros is not None:
            return []
        findings: list[Finding] = []
        if loaded.error is not None or not list_read_types(self.rules).isdisjoint(types):
            if log.size > min(MAX_SIZE, self._bytes_left):
                return []
            self._bytes_left -= log.size
            try:
                findings = list(islice(self._find_by_passes(log), 1))
            except (UsageError, BadBytes):
                return []
        self.judged.add(log.partition)
        return findings

    def _find_by_passes(self, log: Log) -> Iterator[Finding]:
        now = self._load(log)
        for cleaned in list_cleaned(log) if now.records else ():
            after = self._load(cleaned.log)
            if now.error is None and after.error is not None:
                yield _describe_loss(log, self.rules, cleaned, after)
            if now.error is not None and after.error is None and cleaned.is_whole:
                yield _describe_gain(log, self.rules, cleaned, now)

    def _load(self, log: Log) -> LoadedPartition:
        return OpenTopic([log], self.rules, engine="auto").load().partitions[log.partition]


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


@dataclass(frozen=True)
class PartitionCheck:
    """The verdict about one partition.

    Attributes
    ----------
    error, record_offset
        Why the load fails, and the Kafka offset of the record at which it fails. Both are None if the partition loads,
        and the offset also if the load fails after the last record.
    damage
        Where the log ends because of damaged bytes; None if it is not damaged.
    records, bytes, seconds
        The number of records that are read and of bytes in the segments, and about how long the load takes.
    groups_lost
        The ids of the groups with records in the partition that the broker then does not answer for, sorted.
    judged_after_cleaning
        Whether the findings also say what happens after the log cleaner has cleaned the log, which they do not for a
        log with damage or zeros, and for some large logs (check.py).
    start
        Why a broker does not start with the log; None if it does.
    gaps
        The damaged bytes that the reader has skipped; None without `past_damage`.
    """

    error: str | None
    record_offset: int | None
    damage: Damage | None
    records: int
    bytes: int
    seconds: float
    groups_lost: list[str]
    judged_after_cleaning: bool
    start: StartFailure | None = None
    gaps: list[Gap] | None = None

    @property
    def loads(self) -> bool:
        """Whether a broker starts with the log, and its load succeeds."""
        return self.error is None and self.start is None

    @property
    def is_damaged(self) -> bool:
        return self.damage is not None or bool(self.gaps)

    def to_json(self) -> dict[str, Any]:
        fields = {"loads": self.loads, **asdict(self)}
        if self.gaps is None:
            del fields["gaps"]
        return fields


@dataclass(frozen=True)
class Check:
    """The verdict about the logs at a path.

    Attributes
    ----------
    path
        The path that was checked.
    dialect
        The coordinator and the Kafka version that loads the log, or that wrote it, if there is a `target`.
    target
        The coordinator and the Kafka version after an upgrade or a downgrade, if another release is judged.
    partitions
        The verdict about each partition, by its number. With a `target`, it is the verdict about the target.
    findings
        What is wrong, what costs most first; of one kind, by partition and offset.
    topic_partitions
        The partition count of `__consumer_offsets`, and how it was found.
    """

    path: str
    dialect: Dialect
    target: Dialect | None
    partitions: dict[int | None, PartitionCheck]
    findings: list[Finding]
    topic_partitions: TopicPartitions

    @property
    def loads(self) -> bool:
        """Whether every partition loads."""
        return all(partition.loads for partition in self.partitions.values())

    @property
    def is_sound(self) -> bool:
        """Whether every partition loads, and no partition is damaged."""
        return self.loads and not any(partition.is_damaged for partition in self.partitions.values())

    @property
    def judged(self) -> Dialect:
        """The coordinator and the Kafka version that the verdict is about."""
        return self.dialect if self.target is None else self.target

    @property
    def lost_fixes(self) -> list[str]:
        """What `dialect` and the newest release have, and `target` has not, although it is an upgrade: a line each."""
        return [] if self.target is None else find_lost_fixes(self.dialect, self.target)

    def to_json(self) -> dict[str, Any]:
        """What `kafkagroups check --json` prints."""
        rules = self.dialect
        fields: dict[str, Any] = {"path": self.path, "coordinator": rules.coordinator, "kafka": rules.kafka}
        fields["kafka_rules"] = rules.rules_of
        if self.target is not None:
            fields |= {"to_coordinator": self.target.coordinator, "to": self.target.kafka}
            fields |= {"to_rules": self.target.rules_of, "lost_fixes": self.lost_fixes or None}
        return {
            **{name: value for name, value in fields.items() if value is not None},
            "loads": self.loads,
            "partitions": {json.dumps(number): part.to_json() for number, part in self.partitions.items()},
            "findings": [finding.to_json() for finding in self.findings],
            "topic_partitions": self.topic_partitions.to_json(),
        }


def choose_target(rules: Dialect, kafka: str | None, coordinator: str | None) -> Dialect | None:
    """Return the dialect after an upgrade or a downgrade to a Kafka version; None if `kafka` is None.

    Without a `coordinator`, it is "new" from 4.0 on, and before "classic". A version before 4.0 that has both keeps the
    one of `rules`, if this is also before 4.0. Raises UsageError if `coordinator` was given without `kafka`, or if the
    version does not exist or does not have this coordinator.
    """
    if kafka is None:
        if coordinator is not None:
            raise UsageError("a coordinator to change to needs the Kafka version to change to")
        return None
    if coordinator is None:
        coordinator = rules.coordinator
        version = versions.parse_newest_patch(kafka)
        has_only_new = versions.parse_newest_patch(rules.kafka) >= versions.FIRST_WITHOUT_CLASSIC_COORDINATOR
        if version >= versions.FIRST_WITHOUT_CLASSIC_COORDINATOR:
            coordinator = "new"
        elif has_only_new or version < versions.FIRST_WITH_NEW_COORDINATOR:
            coordinator = "classic"
    return dialect(coordinator, kafka)


def check_logs(topic: OpenTopic, target: Dialect | None = None) -> Check:
    """Return the verdict about a topic. `target` is the dialect after an upgrade, if another release is judged."""
    counted = CountedTopic(replace(topic, dialect=target or topic.dialect))
    refuse_foreign_log(counted.topic, counted.groups.partitions_of)
    check = judge(counted, counted.read_stats(watches_groups=False))
    if target is None:
        return check
    refused = [replace(each, kind="refused") if each.kind == "load_failure" else each for each in check.findings]
    before = replace(counted.topic, dialect=topic.dialect)  # Small logs are in memory by now.
    changes = find_changes(before, target, before.load(), counted.groups)
    return replace(check, dialect=topic.dialect, target=target, findings=sort_findings([*refused, *changes]))


def judge(counted: CountedTopic, stats_of_logs: Iterable[Stats]) -> Check:
    dialect = counted.topic.dialect
    whole = Stats()
    findings: list[Finding] = []
    checks = {}
    after_cleaning = AfterCleaning(dialect)
    for log, stats in zip(counted.topic.logs, stats_of_logs, strict=True):
        number = log.partition
        loaded = counted.groups.partitions[number]
        whole.add(stats)
        findings += after_cleaning.find(log, loaded, counted.totals[number].types)
        outcome = (loaded.error, loaded.record_offset, loaded.damage)
        sizes = (loaded.records, log.size, loaded.records / RECORDS_LOADED_PER_SECOND)
        lost = stats.groups_lost.get(number, [])
        is_judged = number in after_cleaning.judged
        checks[number] = PartitionCheck(*outcome, *sizes, lost, is_judged, loaded.start, loaded.gaps)
    findings += [finding for finding in whole.findings if finding.kind in LOAD_KINDS]
    findings += find_uncleaned(whole, dialect)  # It takes longer to load each day.
    findings += find_look_alikes(whole.known_groups)
    if counted.topic_partitions.changed is not None:
        findings.append(find_count_change(counted.topic_partitions.changed))
    return Check(counted.topic.path, dialect, None, checks, sort_findings(findings), counted.topic_partitions)
