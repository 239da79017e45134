"""The verdict before a failover (`check`): which partitions load on a release, which fail, and what is then lost.

A partition fails if the coordinator refuses one of its records. The new coordinator then refuses every request for the
groups of the partition. The classic coordinator answers as if these groups had never existed. Damaged bytes do not fail
a load: a broker's recovery cuts the log there before the load.

With a second release, the verdict is about a broker of this release, and release_changes.py finds what changes.
The log is also judged as the log cleaner could leave it (after_cleaning.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.history.after_cleaning import AfterCleaning
from kafkagroups.history.finding import Finding, sort_findings
from kafkagroups.history.group_rules import find_look_alikes
from kafkagroups.history.passes import refuse_foreign_log
from kafkagroups.history.release_changes import find_changes, find_lost_fixes
from kafkagroups.history.scan import CountedTopic
from kafkagroups.history.stats import RECORDS_LOADED_PER_SECOND, KnownGroup, Stats
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.topic_partitions import TopicPartitions
from kafkagroups.log.damage import Damage
from kafkagroups.log.recovery import StartFailure
from kafkagroups.records import versions
from kafkagroups.records.dialects import Dialect, dialect

LOAD_KINDS = (
    "damage",
    "zeros",
    "load_failure",
    "load_memory",
    "does_not_start",
    "misplaced_groups",
    "endless_pending_commit",
    "clock_jump",
    "shared_instance_id",
)
"""The kinds of the statistics' findings that say something about the next load."""


@dataclass(frozen=True)
class PartitionCheck:
    """The verdict about one partition.

    Attributes
    ----------
    error
        Why the load fails; None if the partition loads.
    record_offset
        The Kafka offset of the record at which the load fails. None if the load fails after the last record, or if the
        partition loads.
    damage
        Where the log ends because of damaged bytes; None if it is not damaged.
    records, bytes
        The number of records that are read, and of bytes in the segments.
    seconds
        About how long the load takes.
    groups_lost
        The ids of the groups with records in the partition that the broker then does not answer for, sorted. Empty if
        the partition loads.
    judged_after_cleaning
        Whether the findings also say what happens after the log cleaner has cleaned the log. A log with damage or zeros
        is not judged, and not all large logs are (after_cleaning.py).
    start
        Why a broker does not start with the log; None if it does.
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

    @property
    def loads(self) -> bool:
        """Whether a broker starts with the log, and its load succeeds."""
        return self.error is None and self.start is None

    def to_json(self) -> dict[str, Any]:
        """Return the partition's part of `check --json`."""
        return {"loads": self.loads, **asdict(self)}


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
        The coordinator and the Kafka version after an upgrade or a downgrade; None if no other release is judged.
    partitions
        The verdict about each partition, by its number. With a `target`, it is the verdict about the target.
    findings
        What is wrong, sorted by partition and offset.
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
        return self.loads and all(partition.damage is None for partition in self.partitions.values())

    @property
    def judged(self) -> Dialect:
        """The coordinator and the Kafka version that the verdict is about."""
        return self.dialect if self.target is None else self.target

    @property
    def lost_fixes(self) -> list[str]:
        """What `dialect` and the newest release have, and `target` has not, although it is an upgrade: a line each."""
        return [] if self.target is None else find_lost_fixes(self.dialect, self.target)

    def to_json(self) -> dict[str, Any]:
        """Return what `kafkagroups check --json` prints."""
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

    If `coordinator` is None, it is the default coordinator of this version: "new" from 4.0 on, and before "classic". A
    version before 4.0 that has both coordinators keeps the one of `rules`, if this is also before 4.0. Raise UsageError
    if `coordinator` was given without `kafka`, or if the version does not exist or does not have this coordinator.
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
    """Return the verdict about a topic. `target` is the dialect after an upgrade; None: no other release is judged."""
    counted = CountedTopic(replace(topic, dialect=target or topic.dialect))
    refuse_foreign_log(counted.topic, counted.groups.partitions_of)
    check = judge(counted, counted.read_stats())
    if target is None:
        return check
    refused = [replace(each, kind="refused") if each.kind == "load_failure" else each for each in check.findings]
    before = replace(counted.topic, dialect=topic.dialect)  # Small logs are in memory by now.
    changes = find_changes(before, target, before.load(), counted.groups)
    return replace(check, dialect=topic.dialect, target=target, findings=sort_findings([*refused, *changes]))


def judge(counted: CountedTopic, stats_of_logs: Iterable[Stats]) -> Check:
    """Return the verdict about a topic that was counted. `stats_of_logs` are the statistics of its logs."""
    dialect = counted.topic.dialect
    findings: list[Finding] = []
    known_groups: dict[str, KnownGroup] = {}
    checks = {}
    after_cleaning = AfterCleaning(dialect)
    for log, stats in zip(counted.topic.logs, stats_of_logs, strict=True):
        number = log.partition
        loaded = counted.groups.partitions[number]
        findings += [finding for finding in stats.findings if finding.kind in LOAD_KINDS]
        findings += after_cleaning.find(log, loaded, counted.totals[number].types)
        known_groups |= stats.known_groups
        outcome = (loaded.error, loaded.record_offset, loaded.damage)
        sizes = (loaded.records, log.size, loaded.records / RECORDS_LOADED_PER_SECOND)
        lost = stats.groups_lost.get(number, [])
        checks[number] = PartitionCheck(*outcome, *sizes, lost, number in after_cleaning.judged, loaded.start)
    findings += find_look_alikes(known_groups)
    return Check(counted.topic.path, dialect, None, checks, sort_findings(findings), counted.topic_partitions)
