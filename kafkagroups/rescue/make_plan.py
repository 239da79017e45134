"""A rescue plan made from logs: what one load of a broker returns, and what it does not return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.shard import CountBytes, ignore_bytes
from kafkagroups.loading.engines import PYTHON, create_observed_engine
from kafkagroups.loading.group_choice import match_groups
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.rescue.left_out import LeftOutByGroup, LeftOutCommits, add_left_out
from kafkagroups.rescue.plan import GroupPlan, LeftOut, PlannedOffset, RescuePlan, Why
from kafkagroups.rescue.unread import UnreadRecords, find_unread


def make_plan(
    topic: OpenTopic,
    *,
    group_patterns: Sequence[str] = (),
    topic_patterns: Sequence[str] = (),
    renames: Mapping[str, str] | None = None,
    count_bytes: CountBytes = ignore_bytes,
) -> RescuePlan:
    """Load a topic, and return the plan to rescue its groups. The other parameters are those of `Topic.plan_rescue`.

    Raises UsageError if a pattern matches nothing, or a group to rename does not exist, or two groups would have the
    same id.
    """
    path, dialect, stop = topic.path, topic.dialect, topic.stop
    groups, left_out = _load(topic, count_bytes)
    unread = find_unread(topic.logs, groups, dialect, stop)
    unread.add_to(left_out)
    all_ids = {*groups.partitions_of, *left_out}.union(*unread.group_ids.values())
    group_ids = _select_groups(all_ids, group_patterns, path)
    plan = RescuePlan(dialect.coordinator, dialect.kafka)
    for group_id in group_ids:
        group = groups.get(group_id)
        plan.groups[group_id] = _plan_group(group_id, group, left_out)
        if group is None:
            plan.groups[group_id].why = _find_why(group_id, groups, left_out, unread)
    if topic_patterns:
        _filter_topics(plan, topic_patterns, path)
    _rename(plan, renames or {}, path)
    plan.topic_partitions = groups.topic_partitions
    plan.made_from = _describe_origin(groups, path, group_patterns, topic_patterns, stop)
    plan.made_from["other_groups"] = sorted(all_ids.difference(group_ids))
    return plan


def _load(topic: OpenTopic, count_bytes: CountBytes) -> tuple[Groups, LeftOutByGroup]:
    """Load a topic. Return the result of the load, and the commits that are left out."""
    if topic.chosen_engine is not PYTHON and topic.stop == NO_STOP:
        from kafkagroups.rescue.left_out_table import find_left_out

        groups = topic.load(count_bytes=count_bytes)
        # The partitions of share groups are only in group records, which the table does not contain.
        if not any(parts.decode_group().type == "share" for _, parts in groups.parts()):
            return groups, find_left_out(topic, groups)
    commits = LeftOutCommits(topic.dialect)
    groups = topic.load(engine=create_observed_engine(commits), count_bytes=count_bytes)
    commits.settle(groups.groups, groups.orphans, groups.failed)
    return groups, commits.find(groups)


def _plan_group(group_id: str, group: AnyGroup | None, left_out: LeftOutByGroup) -> GroupPlan:
    plan = GroupPlan(group_id, left_out=left_out.get(group_id, {}))
    if group is not None:
        plan.type = group.type
        plan.state = group.state.value
        for key, offset in group.offsets.items():
            plan.offsets[key] = PlannedOffset(
                offset.offset, offset.metadata, offset.leader_epoch, group.partition, offset.record_offset
            )
    return plan


def _find_why(group_id: str, groups: Groups, left_out: LeftOutByGroup, unread: UnreadRecords) -> Why:
    """Return why the broker does not have a group that a record names."""
    if unread.fails_for(group_id):
        return Why.LOAD_FAILED
    reasons = {entry.why for entry in left_out.get(group_id, {}).values()}
    if reasons:
        return min(reasons, key=list(Why).index)
    count = groups.topic_partitions.count
    numbers = groups.partitions_of[group_id]
    if groups.coordinator == "new" and count is not None and partition_for(group_id, count) not in numbers:
        return Why.OTHER_PARTITION
    return Why.NO_GROUP


def _select_groups(group_ids: set[str], patterns: Sequence[str], path: str) -> list[str]:
    """Return the groups that at least one pattern matches, sorted. Without patterns, return all groups."""
    if not patterns:
        return sorted(group_ids)
    selected: set[str] = set()
    for pattern in patterns:
        matches = group_ids.intersection(match_groups(group_ids, pattern))
        if not matches:
            raise UsageError(f"{path}: no group matches {pattern!r}")
        selected |= matches
    return sorted(selected)


def _filter_topics(plan: RescuePlan, patterns: Sequence[str], path: str) -> None:
    """Leave out the offsets of topics that no pattern matches."""
    keys = {key for group in plan.groups.values() for key in (*group.offsets, *group.left_out)}
    topics = {key.topic for key in keys}
    selected: set[str] = set()
    for pattern in patterns:
        matches = topics.intersection(match_groups(topics, pattern))
        if not matches:
            raise UsageError(f"{path}: no topic of a planned group matches {pattern!r}")
        selected |= matches
    for group in plan.groups.values():
        for key in [key for key in group.offsets if key.topic not in selected]:
            offset = group.offsets.pop(key)
            entry = LeftOut(Why.FILTERED, offset.offset, offset.partition, offset.record_offset)
            add_left_out(group.left_out, key, entry)


def _rename(plan: RescuePlan, renames: Mapping[str, str], path: str) -> None:
    """Set the ids that groups get in the other cluster. Raises UsageError if two groups would have the same id."""
    for group_id, new_id in renames.items():
        if group_id not in plan.groups:
            raise UsageError(f"{path}: the plan has no group {group_id!r} to rename")
        plan.groups[group_id].to = new_id
    check_targets(plan)


def check_targets(plan: RescuePlan) -> None:
    """Raise UsageError if two groups of a plan would have the same id in the other cluster."""
    origins: dict[str, str] = {}
    for group_id in sorted(plan.groups):
        group = plan.groups[group_id]
        if not group.offsets:
            continue
        other = origins.setdefault(group.to, group_id)
        if other != group_id:
            raise UsageError(f"the groups {other!r} and {group_id!r} would both become {group.to!r}")


def _describe_origin(
    groups: Groups, path: str, group_patterns: Sequence[str], topic_patterns: Sequence[str], stop: Stop
) -> dict[str, Any]:
    """Return the field `made_from` of a plan."""
    rules = {} if groups.kafka_rules is None else {"kafka_rules": groups.kafka_rules}
    return {
        "path": path,
        **rules,
        "partitions": sorted(number for number in groups.partitions if number is not None),
        "groups": list(group_patterns),
        "topics": list(topic_patterns),
        "until_time_ms": stop.until_time,
        "topic_partitions": groups.topic_partitions.to_json(),
        "problems": groups.problems,
    }
