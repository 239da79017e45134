"""A rescue plan made from logs: what one load of a broker returns, and the commits that it does not return, and why.

The readable engine reports each record during the load, and the native engine fills the table `fates`. One rule decides
from either which commits are left out.

A load reads nothing from a failure on. The keys of a partition whose load fails are therefore read again with the rules
of the newest Kafka version, so that a plan names every group.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.groups.offsets import Fate, Orphan, TopicPartition
from kafkagroups.groups.replay import CountBytes, LogKey, LogKeys, ignore_bytes, read_keys
from kafkagroups.helpers import MAX_INT64
from kafkagroups.history.fates import Fates, RecordFate, read_fate_table
from kafkagroups.history.group_rules import list_recreated
from kafkagroups.history.passes import refuse_foreign_log
from kafkagroups.history.scan import count_logs
from kafkagroups.loading.columns import columns_of
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import PYTHON, OpenTopic, create_observed_engine
from kafkagroups.loading.partition_count import match_groups
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.segment_file import partition_for
from kafkagroups.log.segments import NO_STOP, Log, Stop, batches_until
from kafkagroups.records.releases import CHECKED_VERSIONS, Dialect, dialect, rules_to_json
from kafkagroups.records.serde import decode
from kafkagroups.records.share_group import ShareGroupStatePartitionMetadataValue
from kafkagroups.repair.plan import GroupPlan, LeftOut, PlannedOffset, RescuePlan, Why, check_targets

_SHARE_PARTITIONS_TYPE = 15
"""The type of the record that lists the partitions of a share group."""
_COLUMNS = (
    "partition",
    "offset",
    "group",
    "topic",
    "topic_partition",
    "committed_offset",
    "transactional",
    "producer_id",
    "fate",
)
_LEFT_OUT_FATES = (Fate.PENDING, Fate.ABORTED, Fate.HIDDEN, Fate.IGNORED)
_NO_PARTITION = -1
_ORDER = list(Why)


@dataclass(frozen=True)
class Selection:
    groups: Sequence[str] = ()
    topics: Sequence[str] = ()
    renames: Mapping[str, str] = field(default_factory=dict)


def make_plan(topic: OpenTopic, selection: Selection, count_bytes: CountBytes = ignore_bytes) -> RescuePlan:
    """Load a topic, and return the plan to rescue its groups. `count_bytes` is the one of `OpenTopic.load`.

    Raises UsageError if a pattern matches nothing, a group to rename does not exist, or two groups would have the same
    id.
    """
    path = topic.path
    rules = topic.dialect
    entries: Iterable[_Entry]
    if topic.chosen_engine is PYTHON or topic.stop != NO_STOP:
        commits = _ObservedCommits(rules)
        groups = topic.load(engine=create_observed_engine(commits), count_bytes=count_bytes)
        commits.settle(groups)
        entries = commits.find_left_out(groups)
    else:
        groups = topic.load(count_bytes=count_bytes)
        entries = _find_in_table(topic, groups)
    refuse_foreign_log(topic, groups.partitions_of)
    failed_ids, unreadable = _find_unread(topic, groups)
    left_out: dict[str, dict[TopicPartition, LeftOut]] = {}
    for key, entry in itertools.chain(entries, _find_share_partitions(topic, groups), unreadable.items()):
        _add_left_out(left_out.setdefault(key.group, {}), key.topic_partition, entry)
    all_ids = {*groups.partitions_of, *left_out, *failed_ids}
    group_ids = _match(all_ids, selection.groups, f"{path}: no group matches") if selection.groups else all_ids
    plan = RescuePlan(rules.coordinator, rules.kafka, topic_partitions=groups.topic_partitions)
    for group_id in sorted(group_ids):
        planned = _plan_group(group_id, groups, left_out.get(group_id, {}))
        if not groups.answers_offsets(group_id):
            planned.why = Why.LOAD_FAILED if group_id in failed_ids else _find_why(group_id, groups, planned)
        plan.groups[group_id] = planned
    if selection.topics:
        topics = {key.topic for group in plan.groups.values() for key in (*group.offsets, *group.left_out)}
        selected = _match(topics, selection.topics, f"{path}: no topic of a planned group matches")
        _leave_out(plan, topics - selected, Why.FILTERED)
    if topic.stop.until_time is not None:
        recreated = _find_recreated(topic, groups)
        _leave_out(plan, recreated, Why.OLD_TOPIC, kept={name for name in recreated if not recreated[name]})
    for group_id, new_id in selection.renames.items():
        if group_id not in plan.groups:
            raise UsageError(f"{path}: the plan has no group {group_id!r} to rename")
        plan.groups[group_id].to = new_id
    check_targets(plan)
    plan.made_from = _describe_origin(groups, selection, topic)
    plan.made_from["other_groups"] = sorted(all_ids.difference(group_ids))
    if proposed_ids := _propose_ids(plan, groups, taken=all_ids):
        plan.made_from["proposed_ids"] = proposed_ids
    return plan


def _propose_ids(plan: RescuePlan, groups: Groups, taken: set[str]) -> dict[str, str]:
    """Return an id in a healthy partition for each group with commits whose home partition does not load.

    Each load ends at the bad record again, so on the same cluster a commit behind it would not last.
    """
    count = groups.topic_partitions.count or 0
    unhealthy = {number for number, loaded in groups.partitions.items() if loaded.error or loaded.damage}
    if unhealthy.issuperset(range(count)):
        return {}
    used = taken | {planned.to for planned in plan.groups.values()}
    proposed: dict[str, str] = {}
    for group_id, planned in plan.groups.items():
        if partition_for(planned.to, count) in groups.failed and (planned.offsets or planned.left_out):
            candidates = (f"{group_id}-{number}" for number in itertools.count(2))
            free = (each for each in candidates if each not in used)
            proposed[group_id] = next(each for each in free if partition_for(each, count) not in unhealthy)
            used.add(proposed[group_id])
    return proposed


def _plan_group(group_id: str, groups: Groups, left_out: dict[TopicPartition, LeftOut]) -> GroupPlan:
    group = groups.find_holder(group_id)
    if group is None:
        return GroupPlan(to=group_id, offsets={}, left_out=left_out)
    offsets = {
        key: PlannedOffset(offset.offset, offset.metadata, offset.leader_epoch, group.partition, offset.record_offset)
        for key, offset in group.offsets.items()
    }
    plan = GroupPlan(to=group_id, offsets=offsets, left_out=left_out)
    if not isinstance(group, Orphan):
        plan.type = group.type
        plan.state = group.state.value
    return plan


def _find_why(group_id: str, groups: Groups, planned: GroupPlan) -> Why:
    reasons = {entry.why for entry in planned.left_out.values()}
    if reasons:
        return min(reasons, key=list(Why).index)
    count = groups.topic_partitions.count
    numbers = groups.partitions_of[group_id]
    if groups.coordinator == "new" and count is not None and partition_for(group_id, count) not in numbers:
        return Why.OTHER_PARTITION
    return Why.NO_GROUP


def _match(names: Collection[str], patterns: Sequence[str], refusal: str) -> set[str]:
    selected: set[str] = set()
    for pattern in patterns:
        matches = set(names).intersection(match_groups(names, pattern))
        if not matches:
            raise UsageError(f"{refusal} {pattern!r}")
        selected |= matches
    return selected


def _leave_out(plan: RescuePlan, topics: Collection[str], why: Why, kept: Collection[str] = ()) -> None:
    """The offsets of the topics `kept` stay in the plan, too."""
    for group in plan.groups.values():
        for key in [key for key in group.offsets if key.topic in topics]:
            offset = group.offsets[key] if key.topic in kept else group.offsets.pop(key)
            _add_left_out(group.left_out, key, LeftOut(why, offset.offset, offset.partition, offset.record_offset))


def _find_recreated(topic: OpenTopic, groups: Groups) -> dict[str, bool]:
    """Return the topics that were created again after the time at which the load ends, as later records show, and
    whether that is certain.
    """
    whole = replace(topic, stop=NO_STOP)
    known, later = map(_list_topic_ids, (groups, whole.load()))
    signs = [sign for _, sign, _ in list_recreated(count_logs(whole).recreated)]
    later_signs = [sign for sign in signs if (sign.time_ms or MAX_INT64) > (topic.stop.until_time or 0)]
    by_id = dict.fromkeys({name for name, _ in known} & {name for name, _ in later - known}, True)
    return {sign.topic: sign.is_certain for sign in sorted(later_signs, key=lambda sign: sign.is_certain)} | by_id


def _list_topic_ids(groups: Groups) -> set[tuple[str, str]]:
    offsets = itertools.chain.from_iterable(parts.offsets.items() for _, parts in groups.parts())
    return {(key.topic, offset.topic_id) for key, offset in offsets if offset.topic_id is not None}


def _describe_origin(groups: Groups, selection: Selection, topic: OpenTopic) -> dict[str, Any]:
    return {
        "path": topic.path,
        **rules_to_json(groups.kafka_rules),
        "partitions": sorted(number for number in groups.partitions if number is not None),
        "groups": list(selection.groups),
        "topics": list(selection.topics),
        "until_time_ms": topic.stop.until_time,
        "topic_partitions": groups.topic_partitions.to_json(),
        "problems": groups.problems,
    }


class _RecordKey(NamedTuple):
    partition: int | None
    group: str
    topic_partition: TopicPartition


_Commit = tuple[_RecordKey, int, int, Fate]
"""A commit: its key, the offset of its record, the committed offset, and its fate after the load."""
_Entry = tuple[_RecordKey, LeftOut]


def _add_left_out(left_out: dict[TopicPartition, LeftOut], key: TopicPartition, entry: LeftOut) -> None:
    other = left_out.get(key)
    if other is None or _rank(entry) <= _rank(other):
        left_out[key] = entry


def _rank(entry: LeftOut) -> tuple[int, int]:
    return _ORDER.index(entry.why), -(entry.record_offset or 0)


def _choose(commits: Iterable[_Commit], newest_effects: Mapping[_RecordKey, int], groups: Groups) -> Iterator[_Entry]:
    """Yield the commits that are left out.

    `newest_effects` has the offset of the newest record of each key that took effect: a commit or a tombstone.
    """
    for key, offset, committed, fate in commits:
        if fate in (Fate.PENDING, Fate.HIDDEN) or offset >= newest_effects.get(key, offset):
            why = _find_ignored_why(key, groups) if fate is Fate.IGNORED else Why(fate.value)
            yield key, LeftOut(why, committed, key.partition, offset)


def _find_ignored_why(key: _RecordKey, groups: Groups) -> Why:
    if key.partition in groups.failed:
        return Why.LOAD_FAILED
    group = groups.get(key.group)
    if group is None or group.partition != key.partition:
        return Why.OTHER_PARTITION
    return Why.SHARE_GROUP if group.type == "share" else Why.IGNORED


class _ObservedCommits(Fates):
    """Follows the commits of all groups during a load. Call `settle` after the load, and then `find_left_out`.

    To save memory, only commits that can be left out are kept.
    """

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._newest_effects: dict[_RecordKey, int] = {}

    def _keep(self, entry: RecordFate) -> None:
        if entry.key is None:
            return
        if not _can_be_pending(entry.is_transactional, entry.producer_id, self.dialect):
            self._note_effect(entry)
        if entry.committed is not None:
            super()._keep(entry)

    def decide(self, entry: RecordFate, fate: Fate, by: int, has_same_key: bool = True) -> None:
        super().decide(entry, fate, by, has_same_key)
        if fate is Fate.WINS and entry.key is not None:
            self._note_effect(entry)
        elif fate in (Fate.SUPERSEDED, Fate.DELETED):
            self.drop(entry)

    def _note_effect(self, entry: RecordFate) -> None:
        key = _key_of_entry(entry)
        self._newest_effects[key] = max(entry.offset, self._newest_effects.get(key, entry.offset))

    def find_left_out(self, groups: Groups) -> Iterator[_Entry]:
        commits = [
            (_key_of_entry(entry), entry.offset, entry.committed, entry.fate)
            for entry in self
            if entry.committed is not None and entry.fate in _LEFT_OUT_FATES
        ]
        return _choose(commits, self._newest_effects, groups)


def _can_be_pending(is_transactional: bool, producer_id: int | None, dialect: Dialect) -> bool:
    """Return whether a record takes effect only with a marker of its producer."""
    return is_transactional if dialect.coordinator == "classic" else producer_id is not None


def _key_of_entry(entry: RecordFate) -> _RecordKey:
    assert entry.group is not None and entry.key is not None
    return _RecordKey(entry.partition, entry.group, entry.key)


def _find_in_table(topic: OpenTopic, groups: Groups) -> Iterator[_Entry]:
    """Yield the commits that are left out, from the table `fates`.

    The logs are loaded up to two more times, so that memory depends only on the commits that can be left out.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = columns_of("fates", _COLUMNS)

    def read_rows(column: str, values: Sequence[str]) -> Iterator[dict[str, Any]]:
        for batch in read_fate_table(topic, columns):
            value_set = pa.array(values, type=batch.schema.field(column).type)
            is_wanted = pc.is_in(batch.column(column), value_set=value_set)
            yield from batch.filter(pc.and_(is_wanted, pc.is_valid(batch.column("topic")))).to_pylist()

    commits = [
        (_key_of_row(row), row["offset"], row["committed_offset"], Fate(row["fate"]))
        for row in read_rows("fate", [fate.value for fate in _LEFT_OUT_FATES])
        if row["committed_offset"] is not None
    ]
    keys = {key for key, _, _, fate in commits if fate in (Fate.ABORTED, Fate.IGNORED)}
    newest_effects: dict[_RecordKey, int] = {}
    if keys:
        for row in read_rows("group", sorted({key.group for key in keys})):
            key = _key_of_row(row)
            is_pending = _can_be_pending(row["transactional"], row["producer_id"], topic.dialect)
            if key in keys and (not is_pending or row["fate"] == Fate.WINS.value):
                newest_effects[key] = max(row["offset"], newest_effects.get(key, row["offset"]))
    return _choose(commits, newest_effects, groups)


def _key_of_row(row: dict[str, Any]) -> _RecordKey:
    partition = None if row["partition"] == _NO_PARTITION else row["partition"]
    return _RecordKey(partition, row["group"], TopicPartition(row["topic"], row["topic_partition"]))


def _find_share_partitions(topic: OpenTopic, groups: Groups) -> Iterator[_Entry]:
    share_groups = {group_id for group_id, parts in groups.parts() if parts.decode_group().type == "share"}
    for log in topic.logs:
        wanted = {group_id for group_id in share_groups if groups[group_id].partition == log.partition}
        newest: dict[str, LogRecord] = {}
        for group_id, key, record in _read_keys(log, topic.dialect, topic.stop) if wanted else ():
            if group_id in wanted and key.decoded.type == _SHARE_PARTITIONS_TYPE:
                newest[group_id] = record
        for group_id, record in newest.items():
            value = decode(record.key, record.value, topic.dialect).value
            for each in value.initialized_topics if isinstance(value, ShareGroupStatePartitionMetadataValue) else ():
                for number in each.partitions:
                    record_key = _RecordKey(log.partition, group_id, TopicPartition(each.topic_name, number))
                    yield record_key, LeftOut(Why.SHARE_GROUP, None, log.partition, record.offset)


def _find_unread(topic: OpenTopic, groups: Groups) -> tuple[set[str], dict[_RecordKey, LeftOut]]:
    """From the keys in the partitions whose load fails, return the ids of all groups, and the unreadable commits.

    A commit that the coordinator cannot read is left out, unless it can read a later record of the key.
    """
    group_ids: set[str] = set()
    unreadable: dict[_RecordKey, LeftOut] = {}
    newest_rules = dialect("new", CHECKED_VERSIONS["new"][-1])
    for log in [log for log in topic.logs if log.partition in groups.failed]:
        for group_id, key, record in _read_keys(log, newest_rules, topic.stop):
            group_ids.add(group_id)
            if key.partition is None:
                continue
            record_key = _RecordKey(log.partition, group_id, key.partition)
            try:
                decode(record.key, record.value, topic.dialect)
            except BadBytes:
                unreadable[record_key] = LeftOut(Why.UNREADABLE, None, log.partition, record.offset)
            else:
                unreadable.pop(record_key, None)
    return group_ids, unreadable


def _read_keys(log: Log, rules: Dialect, stop: Stop) -> Iterator[tuple[str, LogKey, LogRecord]]:
    keys = LogKeys(rules)
    for batch in batches_until(log, stop):
        yield from read_keys(batch, keys)
