"""A rescue plan made from logs: what one load of a broker returns, and what it does not return."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.groups.shard import CountBytes, ignore_bytes
from kafkagroups.loading.engines import PYTHON, choose_engine, create_observed_engine
from kafkagroups.loading.group_choice import match_groups
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import load_logs
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.records.dialects import Dialect
from kafkagroups.repair.left_out import (
    ObservedCommits,
    add_left_out,
    find_in_table,
    find_share_partitions,
    find_unread,
)
from kafkagroups.repair.plan import GroupPlan, LeftOut, PlannedOffset, RescuePlan, Why, check_targets


@dataclass(frozen=True)
class Selection:
    """Which groups and offsets of the logs at `path` a plan contains. The fields are parameters of `plan_rescue`."""

    path: str
    groups: Sequence[str] = ()
    topics: Sequence[str] = ()
    renames: Mapping[str, str] = field(default_factory=dict)


def make_plan(
    logs: Sequence[Log],
    dialect: Dialect,
    selection: Selection,
    *,
    partitions: int | None = None,
    stop: Stop = NO_STOP,
    engine: str = "auto",
    count_bytes: CountBytes = ignore_bytes,
) -> RescuePlan:
    """Load logs, and return the plan to rescue their groups.

    The parameters are those of `kafkagroups.plan_rescue`. Raises UsageError if a pattern matches nothing, or a group to
    rename does not exist, or two groups would have the same id.
    """
    path = selection.path
    chosen = choose_engine(engine)
    if chosen is not PYTHON and stop == NO_STOP:
        groups = load_logs(logs, dialect, path, partitions=partitions, engine=chosen, count_bytes=count_bytes)
        entries = find_in_table(logs, groups, chosen, dialect, path=path, partitions=partitions)
    else:
        commits = ObservedCommits(dialect)
        observed = create_observed_engine(commits)
        groups = load_logs(
            logs, dialect, path, partitions=partitions, stop=stop, engine=observed, count_bytes=count_bytes
        )
        commits.settle(groups.groups, groups.orphans, groups.failed)
        entries = commits.find_left_out(groups)
    failed_ids, unreadable = find_unread(logs, groups, dialect, stop)
    left_out: dict[str, dict[TopicPartition, LeftOut]] = {}
    for key, entry in chain(entries, find_share_partitions(logs, groups, dialect, stop), unreadable.items()):
        add_left_out(left_out.setdefault(key.group, {}), key.topic_partition, entry)
    all_ids = {*groups.partitions_of, *left_out, *failed_ids}
    group_ids = _match(all_ids, selection.groups, f"{path}: no group matches") if selection.groups else all_ids
    plan = RescuePlan(dialect.coordinator, dialect.kafka, topic_partitions=groups.topic_partitions)
    for group_id in sorted(group_ids):
        planned = _plan_group(group_id, groups, left_out.get(group_id, {}))
        if planned.type is None:
            planned.why = Why.LOAD_FAILED if group_id in failed_ids else _find_why(group_id, groups, planned)
        plan.groups[group_id] = planned
    if selection.topics:
        _filter_topics(plan, selection)
    for group_id, new_id in selection.renames.items():
        if group_id not in plan.groups:
            raise UsageError(f"{path}: the plan has no group {group_id!r} to rename")
        plan.groups[group_id].to = new_id
    check_targets(plan)
    plan.made_from = _describe_origin(groups, selection, stop)
    plan.made_from["other_groups"] = sorted(all_ids.difference(group_ids))
    return plan


def _plan_group(group_id: str, groups: Groups, left_out: dict[TopicPartition, LeftOut]) -> GroupPlan:
    group = groups.get(group_id)
    if group is None:
        return GroupPlan(group_id, left_out=left_out)
    offsets = {
        key: PlannedOffset(offset.offset, offset.metadata, offset.leader_epoch, group.partition, offset.record_offset)
        for key, offset in group.offsets.items()
    }
    return GroupPlan(group_id, group.type, group.state.value, None, offsets, left_out)


def _find_why(group_id: str, groups: Groups, planned: GroupPlan) -> Why:
    """Return why the broker does not have a group that a record names, if the load of its partitions does not fail."""
    reasons = {entry.why for entry in planned.left_out.values()}
    if reasons:
        return min(reasons, key=list(Why).index)
    count = groups.topic_partitions.count
    numbers = groups.partitions_of[group_id]
    if groups.coordinator == "new" and count is not None and partition_for(group_id, count) not in numbers:
        return Why.OTHER_PARTITION
    return Why.NO_GROUP


def _match(names: Collection[str], patterns: Sequence[str], refusal: str) -> set[str]:
    """Return the names that at least one pattern matches. Raises UsageError if a pattern matches none."""
    selected: set[str] = set()
    for pattern in patterns:
        matches = set(names).intersection(match_groups(names, pattern))
        if not matches:
            raise UsageError(f"{refusal} {pattern!r}")
        selected |= matches
    return selected


def _filter_topics(plan: RescuePlan, selection: Selection) -> None:
    """Leave out the offsets of topics that no pattern matches."""
    topics = {key.topic for group in plan.groups.values() for key in (*group.offsets, *group.left_out)}
    selected = _match(topics, selection.topics, f"{selection.path}: no topic of a planned group matches")
    for group in plan.groups.values():
        for key in [key for key in group.offsets if key.topic not in selected]:
            offset = group.offsets.pop(key)
            entry = LeftOut(Why.FILTERED, offset.offset, offset.partition, offset.record_offset)
            add_left_out(group.left_out, key, entry)


def _describe_origin(groups: Groups, selection: Selection, stop: Stop) -> dict[str, Any]:
    """Return the field `made_from` of a plan."""
    rules = {} if groups.kafka_rules is None else {"kafka_rules": groups.kafka_rules}
    return {
        "path": selection.path,
        **rules,
        "partitions": sorted(number for number in groups.partitions if number is not None),
        "groups": list(selection.groups),
        "topics": list(selection.topics),
        "until_time_ms": stop.until_time,
        "topic_partitions": groups.topic_partitions.to_json(),
        "problems": groups.problems,
    }
