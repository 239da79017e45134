"""The verdict before a failover (`check`): which partitions load on a release, which fail, and what is then lost.

A partition fails if the coordinator refuses one of its records. The new coordinator then refuses every request for the
groups of the partition, while the classic one answers as if these groups had never existed. Damaged bytes do not fail
a load, because a broker's recovery cuts the log there first.

With a second release (`check --to`), the verdict is about a broker of that release, after an upgrade or a downgrade,
and these findings say what changes:

- `skipped`: the old release reads a record of a group, and the new release skips it, because it does not know its type.
- `group_differs`, `offset_differs`, `pending_differs`: both releases load the partition, but answer differently, as
  `diff` compares answers. The epochs of a group are compared, too: without a record of its epoch, a group has epoch 0
  before Kafka 4.3, and epoch 1 from 4.3 on.
- `refused`, `load_failure`: the new or the old release cannot load a partition. It has no answers for its groups, so
  they have no differences.

A difference is what a client sees if it sends the same request to both releases:

- The partitions that a member of a consumer group has not revoked yet are a difference between 4.2 and 4.3. From 4.3
  on, ConsumerGroupDescribe counts them as assigned, apart from topics that the broker does not know. A log does not say
  which topics exist, so this difference is also a finding if the topic was deleted.
- The name of a streams group's assignor is no difference between 4.3 and 4.4. Only StreamsGroupDescribe v1, which is
  new in 4.4, has a field for it.

Source: ConsumerGroupMember.asConsumerGroupDescribeMember (4.2.1, 4.3.1); StreamsGroupDescribeResponse.json (4.4.0).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.groups.modern_replay import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.groups.replay import LogKeys, read_keys
from kafkagroups.history.finding import CHECKED_KINDS, REMEDIES, Finding, count_of, list_names, sort_findings
from kafkagroups.history.replicas import describe_difference, is_same, list_pairs
from kafkagroups.history.scan import CountedTopic
from kafkagroups.history.stats import RECORDS_LOADED_PER_SECOND, Stats
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.partition_count import TopicPartitions
from kafkagroups.log.batches import Damage, Gap, StartFailure
from kafkagroups.log.segments import Log
from kafkagroups.records import releases as versions
from kafkagroups.records.releases import LARGE_DECOMPRESSED_RECORD, READ_TYPES, REFUSALS, Dialect, dialect

_ASSIGNOR_FIELDS = ("protocol", "assignor")
_KEEP_OFFSETS = (
    "Before the change, save the group's offsets (kafkagroups rescue plan PATH --group GROUP), to set them again."
)
_NO_SHARE_GROUPS = (
    "The other release has no share groups, whose progress is in the topic __share_group_state: let the group's "
    "consumers process everything before the change, or read its records with another group afterwards."
)
_REMEDIES = {
    "groups": REMEDIES["skipped"],
    "offsets": _KEEP_OFFSETS,
    "pending": "Before the change, let the producer end its transaction.",
}


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
    partitions: dict[int | None, PartitionCheck] = field(repr=False)
    findings: list[Finding] = field(repr=False)
    topic_partitions: TopicPartitions = field(repr=False)

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
    end = versions.FIRST_WITHOUT_CLASSIC_COORDINATOR
    has_both = versions.FIRST_WITH_NEW_COORDINATOR <= versions.parse_newest_patch(kafka) < end
    if coordinator is None and has_both and versions.parse_newest_patch(rules.kafka) < end:
        coordinator = rules.coordinator
    return dialect(coordinator, kafka)


def check_logs(topic: OpenTopic, target: Dialect | None = None) -> Check:
    """Return the verdict about a topic. `target` is the dialect after an upgrade, if another release is judged."""
    counted = CountedTopic(replace(topic, dialect=target or topic.dialect))
    check = judge(counted, counted.sum_stats(watches_groups=False))
    if target is None:
        return check
    refused = [replace(each, kind="refused") if each.kind == "load_failure" else each for each in check.findings]
    before = replace(counted.topic, dialect=topic.dialect)  # Small logs are in memory by now.
    changes = find_changes(before, target, before.load(), counted.groups)
    return replace(check, dialect=topic.dialect, target=target, findings=sort_findings([*refused, *changes]))


def judge(counted: CountedTopic, stats: Stats) -> Check:
    findings = [finding for finding in stats.findings if finding.kind in CHECKED_KINDS]
    checks = {}
    for log in counted.topic.logs:
        number = log.partition
        loaded = counted.groups.partitions[number]
        outcome = (loaded.error, loaded.record_offset, loaded.damage)
        sizes = (loaded.records, log.size, loaded.records / RECORDS_LOADED_PER_SECOND)
        checks[number] = PartitionCheck(*outcome, *sizes, stats.groups_lost[number], loaded.start, loaded.gaps)
    return Check(counted.topic.path, counted.topic.dialect, None, checks, findings, counted.topic_partitions)


@dataclass(frozen=True)
class Change(Finding):
    """A finding about an answer that differs between two releases.

    `before` and `after` are the answers, in the form of `load --json`; None if a release has no such group or offset.
    """

    before: Any = None
    after: Any = None

    def to_json(self) -> dict[str, Any]:
        fields = super().to_json()
        del fields["before"], fields["after"]
        return fields | {"from": self.before, "to": self.after}


def find_changes(topic: OpenTopic, target: Dialect, before: Groups, after: Groups) -> Iterator[Finding]:
    """Yield what changes if a coordinator with other rules loads a topic. `before` and `after` are the two loads."""
    for log in topic.logs:
        loaded = before.partitions[log.partition]
        if loaded.error is not None:
            what = f"Already Kafka {before.kafka}, before the change, cannot load the partition: {loaded.error}."
            yield Finding.make(log.partition, loaded.record_offset, "load_failure", what)
        if after.partitions[log.partition].error is None:
            yield from _find_skipped(log, before, topic.dialect, target)
    yield from _find_differences(before, after)


def find_lost_fixes(old_rules: Dialect, new_rules: Dialect) -> list[str]:
    """Return which fixes and limits an upgrade takes away, because the new release came out before the old one."""
    old = versions.parse_newest_patch(old_rules.kafka)
    new = versions.parse_newest_patch(new_rules.kafka)
    lost = []
    for refusal in (*REFUSALS, LARGE_DECOMPRESSED_RECORD) if old < new else ():
        refuses = refusal.applies_to(old)
        refuses_later = refusal.applies_to(new)
        is_limit = versions.AFTER_ALL_VERSIONS in {releases.until for releases in refusal.releases}
        was_fixed = any(releases.until <= old for releases in refusal.releases)
        what = f"{refusal.description[0].lower()}{refusal.description[1:]}"
        releases_text = f"unlike {old_rules.kafka}, {new_rules.kafka}"
        if refuses_later and not refuses and was_fixed and not is_limit:
            issue = f" ({refusal.issue})" if refusal.issue else ""
            lost.append(f"The upgrade takes a fix away{issue}: {releases_text} refuses {what}.")
        if refuses and not refuses_later and is_limit:
            lost.append(f"The upgrade takes a limit away: {releases_text} accepts {what}.")
    return lost


def _find_skipped(log: Log, before: Groups, old_rules: Dialect, new_rules: Dialect) -> Iterator[Finding]:
    """Yield a finding for each group with records that only the new rules skip, and that the group still needs."""
    skipped_types = _list_modern_types(old_rules) - _list_modern_types(new_rules)
    keys = LogKeys(old_rules)
    found: dict[str, list[tuple[int, int]]] = {}
    for batch in log if skipped_types else ():
        for group_id, key, record in read_keys(batch, keys):
            if key.decoded.type in skipped_types:
                found.setdefault(group_id, []).append((record.offset, key.decoded.type))
    has_answers = before.partitions[log.partition].error is None
    for group_id, records in found.items():
        if has_answers and (group_id not in before or before[group_id].type == "classic"):
            continue
        types = sorted({number for _, number in records})
        kinds = list_names(sorted({GROUP_TYPE_BY_RECORD_TYPE[number] for number in types}))
        what = (
            f"Kafka {new_rules.kafka} ({new_rules.coordinator} coordinator) skips {count_of(len(records), 'record')} "
            f"of {kinds} group {group_id} (types {', '.join(map(str, types))}), so it knows no members of it."
        )
        yield Finding.make(log.partition, records[0][0], "skipped", what, group=group_id)


def _list_modern_types(rules: Dialect) -> set[int]:
    """Return the record types above 2 that a coordinator reads."""
    is_classic = rules.coordinator == "classic"
    return {number for number, versions in READ_TYPES.items() if rules.version in versions and not is_classic}


def _find_differences(before: Groups, after: Groups) -> Iterator[Finding]:
    """Yield a finding for each answer that differs. Groups of partitions that one release cannot load are left out."""
    failed = {*before.failed, *after.failed}
    for table, group_id, name, (old, new) in list_pairs(before, after):
        found = (groups.groups.get(group_id) or groups.orphans.get(group_id) for groups in (before, after))
        partition = next((parts.partition for parts in found if parts is not None), None)
        if partition in failed and not (group_id in before and group_id in after):
            continue
        differs = not is_same(table, old, new) or (table == "groups" and _has_other_epochs(old, new))
        if not differs or _is_new_assignor_name(table, old, new):
            continue
        unstable = "pending commits (UNSTABLE_OFFSET_COMMIT) " if table == "pending" else ""
        what = (
            f"Kafka {after.kafka} ({after.coordinator}) answers otherwise than Kafka {before.kafka} "
            f"({before.coordinator}) about group {group_id}{f', {name}' if name else ''}: "
            f"{unstable}{describe_difference(table, old, new)}."
        )
        remedy = _choose_remedy(table, old, new)
        command = ["kafkagroups", "rescue", "plan", "PATH", "--group", "GROUP"] if remedy == _KEEP_OFFSETS else None
        kept: Any = old if new is None else new
        records = kept if table == "pending" else [kept]
        offset = None if table == "groups" else records[0]["record_offset"]
        place = (partition, offset, group_id, name or None)
        yield Change(*place, f"{table.removesuffix('s')}_differs", what, remedy, command, before=old, after=new)


def _choose_remedy(table: str, old: Any, new: Any) -> str:
    if table == "groups" and new is None:
        return _NO_SHARE_GROUPS if old["type"] == "share" else _KEEP_OFFSETS
    if table == "groups" and old is not None and old["type"] == new["type"]:
        return "Nothing has to be done: the group keeps its type, and other findings say if its offsets change."
    return _REMEDIES[table]


def _has_other_epochs(old: Any, new: Any) -> bool:
    """A broker answers UNKNOWN_SERVER_ERROR about a streams group without a topology, so nobody sees its epochs."""
    is_described = old["type"] != "streams" or old["topology"] is not None
    return is_described and any(old.get(field) != new.get(field) for field in ("group_epoch", "assignment_epoch"))


def _is_new_assignor_name(table: str, old: Any, new: Any) -> bool:
    """Return whether two answers about a streams group differ only in the assignor's name, which one of them lacks."""
    if table != "groups" or old is None or new is None or {old["type"], new["type"]} != {"streams"}:
        return False
    is_without = None in (old["protocol"], new["protocol"])
    return is_without and bool(old | dict.fromkeys(_ASSIGNOR_FIELDS) == new | dict.fromkeys(_ASSIGNOR_FIELDS))
