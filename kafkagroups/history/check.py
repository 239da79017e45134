"""The verdict before a failover (`check`): which partitions load on a release, which fail, and what is then lost.

A partition fails if the coordinator refuses one of its records. The new coordinator then refuses every request for the
groups of the partition. The classic coordinator answers as if these groups had never existed. Damaged bytes do not fail
a load: a broker's recovery cuts the log there before the load.

With a second release, the verdict is about a broker of this release, and release_changes.py finds what changes.
The log is also judged as the log cleaner could leave it (after_cleaning.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.groups.log_records import LogKeys, find_group_ids
from kafkagroups.history.after_cleaning import AfterCleaning
from kafkagroups.history.endless_commits import find_endless_commits
from kafkagroups.history.event import count_of, list_names
from kafkagroups.history.finding import Finding, sort_findings
from kafkagroups.history.further_failures import find_further_failures
from kafkagroups.history.load_findings import HARMLESS_OUTCOMES, cut_command, find_damage, find_way_out
from kafkagroups.history.log_signs import read_signs
from kafkagroups.history.look_alikes import find_look_alikes
from kafkagroups.history.misplaced_groups import find_misplaced
from kafkagroups.history.release_changes import find_changes
from kafkagroups.history.stats import RECORDS_LOADED_PER_SECOND
from kafkagroups.history.unexpected_unload import describe_unload
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.starts import Start, judge_start
from kafkagroups.loading.topic_partitions import TopicPartitions
from kafkagroups.log.damage import Damage
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.segments import Log
from kafkagroups.log.zeros import Zeros
from kafkagroups.records.dialects import CHECKED_VERSIONS, Dialect, dialect
from kafkagroups.records.versions import (
    FIRST_WITH_NEW_COORDINATOR,
    FIRST_WITHOUT_CLASSIC_COORDINATOR,
    parse_newest_patch,
)


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
    groups_lost
        The ids of the groups with records in the partition that the broker then does not answer for, sorted. Empty if
        the partition loads.
    judged_after_cleaning
        Whether the findings also say what happens after the log cleaner has cleaned the log. A log with damage or zeros
        is not judged, and not all large logs are (after_cleaning.py).
    """

    error: str | None
    record_offset: int | None
    damage: Damage | None
    records: int
    bytes: int
    groups_lost: list[str] = field(default_factory=list)
    judged_after_cleaning: bool = False

    @property
    def loads(self) -> bool:
        """Whether the load succeeds."""
        return self.error is None

    @property
    def seconds(self) -> float:
        """About how long the load takes, in seconds."""
        return self.records / RECORDS_LOADED_PER_SECOND

    def to_json(self) -> dict[str, Any]:
        """Return the partition's part of `check --json`."""
        return {
            "loads": self.loads,
            "error": self.error,
            "record_offset": self.record_offset,
            "damage": None if self.damage is None else asdict(self.damage),
            "records": self.records,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "groups_lost": self.groups_lost,
            "judged_after_cleaning": self.judged_after_cleaning,
        }


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

    def to_json(self) -> dict[str, Any]:
        """Return what `kafkagroups check --json` prints."""
        fields: dict[str, Any] = {
            "path": self.path,
            "coordinator": self.dialect.coordinator,
            "kafka": self.dialect.kafka,
        }
        if self.dialect.rules_of is not None:
            fields["kafka_rules"] = self.dialect.rules_of
        if self.target is not None:
            fields |= {"to_coordinator": self.target.coordinator, "to": self.target.kafka}
            if self.target.rules_of is not None:
                fields["to_rules"] = self.target.rules_of
        partitions = {"null" if number is None else str(number): part for number, part in self.partitions.items()}
        return {
            **fields,
            "loads": self.loads,
            "partitions": {name: part.to_json() for name, part in partitions.items()},
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
        version = parse_newest_patch(kafka)
        has_only_new = parse_newest_patch(rules.kafka) >= FIRST_WITHOUT_CLASSIC_COORDINATOR
        if version >= FIRST_WITHOUT_CLASSIC_COORDINATOR:
            coordinator = "new"
        elif has_only_new or version < FIRST_WITH_NEW_COORDINATOR:
            coordinator = "classic"
    return dialect(coordinator, kafka)


def check_logs(topic: OpenTopic, target: Dialect | None = None) -> Check:
    """Return the verdict about a topic. `target` is the dialect after an upgrade; None: no other release is judged."""
    logs = topic.logs
    rules = topic.dialect
    groups = topic.load()
    judged = rules if target is None else target
    judged_groups = groups if target is None else replace(topic, dialect=target).load()
    checks = {}
    findings: list[Finding] = []
    after_cleaning = AfterCleaning(judged)
    misplaced = find_misplaced(logs, judged, judged_groups, topic.chosen_engine)
    for log in logs:
        findings += misplaced.get(log.partition, [])
        findings += after_cleaning.find(log, judged_groups.partitions[log.partition])
        check = _check_partition(log, judged_groups, is_judged_after_cleaning=log.partition in after_cleaning.judged)
        checks[log.partition] = check
        findings += _find_zeros(log.partition, judged_groups.partitions[log.partition].zeros, judged)
        findings += find_damage(log.partition, judged_groups.partitions[log.partition])
        findings += find_endless_commits(log, judged_groups, topic.chosen_engine)
        findings += read_signs(log, judged, topic.chosen_engine).find(log, judged)
        if check.error is not None:
            kind = "load_failure" if target is None else "refused"
            further = find_further_failures(log, judged, check.record_offset)
            findings += further.findings
            way_out = find_way_out(log, judged_groups) + further.note
            unload = describe_unload(log, judged_groups, kind, way_out)
            findings.append(unload or _describe_failure(log, check, judged, kind, way_out))
    partition_of = {group_id: parts.group.partition for group_id, parts in judged_groups.groups.unbuilt().items()}
    findings += find_look_alikes(partition_of)
    if target is not None:
        findings += find_changes(logs, groups, judged_groups, rules, target)
    return Check(topic.path, rules, target, checks, sort_findings(findings), judged_groups.topic_partitions)


def _check_partition(log: Log, groups: Groups, *, is_judged_after_cleaning: bool) -> PartitionCheck:
    loaded = groups.partitions[log.partition]
    lost = [] if loaded.error is None else _find_lost_groups(log, groups)
    return PartitionCheck(
        error=loaded.error,
        record_offset=loaded.record_offset,
        damage=loaded.damage,
        records=loaded.records,
        bytes=log.size,
        groups_lost=lost,
        judged_after_cleaning=is_judged_after_cleaning,
    )


def _find_lost_groups(log: Log, groups: Groups) -> list[str]:
    """Return the groups with records in a partition that fails to load, and that are not answered.

    If the partition count is known, a group whose home is another partition is not lost: its home answers.
    """
    count = groups.topic_partitions.count
    has_homes = groups.coordinator == "new" and count is not None and log.partition is not None
    lost = []
    for group_id in sorted(set(_read_group_ids(log))):
        is_elsewhere = has_homes and count is not None and partition_for(group_id, count) != log.partition
        if group_id not in groups and not is_elsewhere:
            lost.append(group_id)
    return lost


def _read_group_ids(log: Log) -> Iterator[str]:
    """Yield the group ids in the keys of all records, also of those after the record at which a load fails."""
    keys = LogKeys(dialect("new", CHECKED_VERSIONS["new"][-1]))
    for batch in log:
        yield from find_group_ids(batch, keys)


def find_group_of(log: Log, offset: int | None) -> str | None:
    """Return the group that the key of a record names. Return None if no record has the offset, or its key no group."""
    if offset is None:
        return None
    keys = LogKeys(dialect("new", CHECKED_VERSIONS["new"][-1]))
    for batch in log:
        if batch.next_offset <= offset or batch.is_control:
            continue
        try:
            for record in batch.records:
                if record.offset == offset:
                    return keys[record.key].group_id
        except BadBytes:
            return None
        if batch.base_offset > offset:
            break
    return None


def _find_zeros(number: int | None, zeros: Zeros | None, rules: Dialect) -> list[Finding]:
    """Return the finding about zeros at the end of a segment, if a kind of start does not load all batches."""
    if zeros is None:
        return []
    outcomes = {start: judge_start(start, zeros, rules.coordinator) for start in Start}
    if all(outcome in HARMLESS_OUTCOMES for outcome in outcomes.values()):
        return []
    starts = "; ".join(f"{start.value}, it {outcome.value}" for start, outcome in outcomes.items())
    what = (
        f"{zeros.file} ends with {count_of(zeros.bytes, 'zero')} from byte {zeros.position} on, and it depends on the "
        f"start what a Kafka {rules.kafka} broker does: {starts}."
    )
    remedy = (
        "Before the broker starts, delete .kafka_cleanshutdown in its log.dirs, so that recovery cuts the zeros off; "
        "before a failover to it, restart it so."
    )
    if zeros.later_segments:
        remedy = (
            "Let the broker copy the partition from another replica: recovery can delete the "
            f"{count_of(zeros.later_segments, 'later segment')}."
        )
    return [Finding(number, None, None, None, "zeros", what, remedy)]


def describe_answers(rules: Dialect) -> str:
    """Return what clients get for the groups of a partition whose load has failed, as the end of a sentence."""
    if rules.coordinator == "new":
        return "every request for them is answered NOT_COORDINATOR"
    return (
        "the broker answers as if they had never existed: OffsetFetch returns -1 without an error, so consumers start "
        "at auto.offset.reset"
    )


def _describe_failure(log: Log, check: PartitionCheck, rules: Dialect, kind: str, remedy: str) -> Finding:
    """Return the finding about a partition that fails to load."""
    offset = check.record_offset
    lost = ""
    if check.groups_lost:
        names = list_names(check.groups_lost)
        lost = f"; {count_of(len(check.groups_lost), 'group')} lost ({names}): {describe_answers(rules)}"
    what = f"A Kafka {rules.kafka} broker cannot load the partition: {check.error}{lost}."
    return Finding(
        log.partition, offset, find_group_of(log, offset), None, kind, what, remedy, cut_command(log, offset)
    )
