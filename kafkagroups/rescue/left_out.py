"""The commits of a log that a coordinator does not return after a load: aborted, pending, hidden and ignored ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.fates import Fates
from kafkagroups.history.record_fate import RecordFate
from kafkagroups.loading.groups import Groups
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.serde import Record
from kafkagroups.records.share_group import ShareGroupStatePartitionMetadataValue
from kafkagroups.rescue.plan import LeftOut, Why

_SHARE_PARTITIONS_TYPE = 15
"""The type of the record that lists the partitions of a share group."""
_ORDER = list(Why)

LeftOutByGroup = dict[str, dict[TopicPartition, LeftOut]]
"""The commits that are left out, by group id and topic partition."""


class RecordKey(NamedTuple):
    """The key of an offset record, and the partition of `__consumer_offsets` that contains the record."""

    partition: int | None
    group: str
    topic_partition: TopicPartition


class Commit(NamedTuple):
    """A commit and its fate after the load. `offset` is the offset of the record, `committed` the committed offset."""

    key: RecordKey
    offset: int
    committed: int
    fate: Fate


class LeftOutCommits(Fates):
    """Follows the commits of all groups during a load. Call `settle` after the load, and then `find`.

    To save memory, only the entries of commits that can be left out are kept.
    """

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._newest_effects: dict[RecordKey, int] = {}
        """The offset of the newest record of each key that took effect: a commit or a tombstone."""
        self._share_partitions: dict[tuple[int | None, str], tuple[int, ShareGroupStatePartitionMetadataValue]] = {}
        """The newest list of the partitions of each share group, with the offset of its record."""

    def _keep(self, entry: RecordFate) -> None:
        if entry.key is None or entry.group is None:
            return
        has_producer = entry.producer_id is not None
        is_pending = entry.is_transactional if self.dialect.coordinator == "classic" else has_producer
        if not is_pending:
            self._note_effect(entry)
        if entry.committed is not None:
            super()._keep(entry)

    def decide(self, entry: RecordFate, fate: Fate, by: int, *, has_same_key: bool = True) -> None:
        super().decide(entry, fate, by, has_same_key=has_same_key)
        if entry.key is None or entry.group is None:
            return
        if fate is Fate.WINS:
            self._note_effect(entry)
        elif fate in (Fate.SUPERSEDED, Fate.DELETED):
            self._drop(entry)

    def _note_effect(self, entry: RecordFate) -> None:
        key = _key_of(entry)
        self._newest_effects[key] = max(entry.offset, self._newest_effects.get(key, entry.offset))

    def _drop(self, entry: RecordFate) -> None:
        position = (entry.partition, entry.offset)
        others = [other for other in self.records.get(position, ()) if other is not entry]
        if others:
            self.records[position] = others
        else:
            self.records.pop(position, None)

    def end_group_record(self, group_id: str, record: Record, offset: int, was_known: bool, is_known: bool) -> None:
        super().end_group_record(group_id, record, offset, was_known, is_known)
        if record.type != _SHARE_PARTITIONS_TYPE:
            return
        if isinstance(record.value, ShareGroupStatePartitionMetadataValue):
            self._share_partitions[self.partition, group_id] = (offset, record.value)
        else:
            self._share_partitions.pop((self.partition, group_id), None)

    def find(self, groups: Groups) -> LeftOutByGroup:
        """Return the commits that are left out. `groups` is the result of the load."""
        commits = []
        for entry in self:
            assert entry.committed is not None and entry.fate is not None
            commits.append(Commit(_key_of(entry), entry.offset, entry.committed, entry.fate))
        found = choose_left_out(commits, self._newest_effects, groups)
        for (partition, group_id), (offset, value) in self._share_partitions.items():
            group = groups.get(group_id)
            if group is None or group.type != "share" or group.partition != partition:
                continue
            left_out_of_group = found.setdefault(group_id, {})
            for topic in value.initialized_topics:
                for number in topic.partitions:
                    key = TopicPartition(topic.topic_name, number)
                    add_left_out(left_out_of_group, key, LeftOut(Why.SHARE_GROUP, None, partition, offset))
        return found


def choose_left_out(
    commits: Iterable[Commit], newest_effects: Mapping[RecordKey, int], groups: Groups
) -> LeftOutByGroup:
    """Return the commits that are left out. `groups` is the result of the load.

    `newest_effects` has the offset of the newest record of each key that took effect: a commit or a tombstone. For each
    topic partition, the result has one commit: the one with the first reason in the order of `Why`, and of several
    commits with the same reason, the newest.
    """
    found: LeftOutByGroup = {}
    for commit in commits:
        why = _find_why(commit, newest_effects, groups)
        if why is not None:
            key = commit.key
            left_out = LeftOut(why, commit.committed, key.partition, commit.offset)
            add_left_out(found.setdefault(key.group, {}), key.topic_partition, left_out)
    return found


def _find_why(commit: Commit, newest_effects: Mapping[RecordKey, int], groups: Groups) -> Why | None:
    """Return why a commit is left out. None: it is not, or a later record of its key took effect."""
    match commit.fate:
        case Fate.PENDING:
            return Why.PENDING
        case Fate.HIDDEN:
            return Why.HIDDEN
        case Fate.ABORTED | Fate.IGNORED if commit.offset < newest_effects.get(commit.key, commit.offset):
            return None
        case Fate.ABORTED:
            return Why.ABORTED
        case Fate.IGNORED:
            return _find_ignored_why(commit.key, groups)
    return None


def _find_ignored_why(key: RecordKey, groups: Groups) -> Why:
    if key.partition in groups.failed:
        return Why.LOAD_FAILED
    group = groups.get(key.group)
    if group is None or group.partition != key.partition:
        return Why.OTHER_PARTITION
    return Why.SHARE_GROUP if group.type == "share" else Why.IGNORED


def add_left_out(left_out: dict[TopicPartition, LeftOut], key: TopicPartition, entry: LeftOut) -> None:
    """Add a commit, unless another commit of the topic partition is more important to know."""
    other = left_out.get(key)
    if other is None or _rank(entry) <= _rank(other):
        left_out[key] = entry


def _rank(entry: LeftOut) -> tuple[int, int]:
    """Return the rank of a commit. The smallest rank is the most important."""
    return _ORDER.index(entry.why), -(entry.record_offset or 0)


def _key_of(entry: RecordFate) -> RecordKey:
    assert entry.group is not None and entry.key is not None
    return RecordKey(entry.partition, entry.group, entry.key)
