"""The commits of a log that are not in a rescue plan, and why: aborted, pending, hidden, unreadable and ignored ones.

The readable engine reports each record during the load. The native engine fills the table `fates`, without an object
per record. Both find the commits whose fate is to be left out, and which records of their keys took effect; one rule
decides from these.

A load does not read the records from a failure on, and it cannot read the record at which it fails. For partitions
whose load fails, the keys are read again with the rules of the newest Kafka version, so that a plan names every group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import LogKey, LogKeys, read_keys
from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.fate_table import read_fate_table
from kafkagroups.history.fates import Fates
from kafkagroups.history.record_fate import RecordFate
from kafkagroups.loading.engines import Engine
from kafkagroups.loading.groups import Groups
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import Stop, batches_until
from kafkagroups.records.dialects import CHECKED_VERSIONS, Dialect, dialect
from kafkagroups.records.serde import decode
from kafkagroups.records.share_group import ShareGroupStatePartitionMetadataValue
from kafkagroups.repair.plan import LeftOut, Why
from kafkagroups.tables.columns import columns_of

if TYPE_CHECKING:
    import pyarrow as pa

_SHARE_PARTITIONS_TYPE = 15
"""The type of the record that lists the partitions of a share group."""
_COLUMNS = (
    *("partition", "offset", "group", "topic", "topic_partition"),
    *("committed_offset", "transactional", "producer_id", "fate"),
)
_LEFT_OUT_FATES = (Fate.PENDING, Fate.ABORTED, Fate.HIDDEN, Fate.IGNORED)
_NO_PARTITION = -1
"""The number of a partition in the table if the name of the log's folder has no number."""
_ORDER = list(Why)


class RecordKey(NamedTuple):
    """The key of an offset record, and the partition of `__consumer_offsets` that contains the record."""

    partition: int | None
    group: str
    topic_partition: TopicPartition


Entry = tuple[RecordKey, LeftOut]
"""A commit that is left out, with its key."""


def add_left_out(left_out: dict[TopicPartition, LeftOut], key: TopicPartition, entry: LeftOut) -> None:
    """Add a commit, unless another commit of the topic partition is more important to know."""
    other = left_out.get(key)
    if other is None or _rank(entry) <= _rank(other):
        left_out[key] = entry


def _rank(entry: LeftOut) -> tuple[int, int]:
    """Return the rank of a commit. The smallest rank is the most important."""
    return _ORDER.index(entry.why), -(entry.record_offset or 0)


class _Commit(NamedTuple):
    """A commit and its fate after the load. `offset` is the offset of the record, `committed` the committed offset."""

    key: RecordKey
    offset: int
    committed: int
    fate: Fate


def _choose(commits: Iterable[_Commit], newest_effects: Mapping[RecordKey, int], groups: Groups) -> Iterator[Entry]:
    """Yield the commits that are left out. `groups` is the result of the load.

    `newest_effects` has the offset of the newest record of each key that took effect: a commit or a tombstone.
    """
    for key, offset, committed, fate in commits:
        if fate in (Fate.PENDING, Fate.HIDDEN) or offset >= newest_effects.get(key, -1):
            why = _find_ignored_why(key, groups) if fate is Fate.IGNORED else Why(fate.value)
            yield key, LeftOut(why, committed, key.partition, offset)


def _find_ignored_why(key: RecordKey, groups: Groups) -> Why:
    if key.partition in groups.failed:
        return Why.LOAD_FAILED
    group = groups.get(key.group)
    if group is None or group.partition != key.partition:
        return Why.OTHER_PARTITION
    return Why.SHARE_GROUP if group.type == "share" else Why.IGNORED


class ObservedCommits(Fates):
    """Follows the commits of all groups during a load. Call `settle` after the load, and then `find_left_out`.

    To save memory, only the entries of commits that can be left out are kept.
    """

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._newest_effects: dict[RecordKey, int] = {}

    def _keep(self, entry: RecordFate) -> None:
        if entry.key is None or entry.group is None:
            return
        if not _can_be_pending(entry.is_transactional, entry.producer_id, self.dialect):
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
        key = _key_of_entry(entry)
        self._newest_effects[key] = max(entry.offset, self._newest_effects.get(key, entry.offset))

    def _drop(self, entry: RecordFate) -> None:
        position = (entry.partition, entry.offset)
        others = [other for other in self.records.get(position, ()) if other is not entry]
        if others:
            self.records[position] = others
        else:
            self.records.pop(position, None)

    def find_left_out(self, groups: Groups) -> Iterator[Entry]:
        """Return the commits that are left out. `groups` is the result of the load."""
        commits = [
            _Commit(_key_of_entry(entry), entry.offset, entry.committed, entry.fate)
            for entry in self
            if entry.committed is not None and entry.fate in _LEFT_OUT_FATES
        ]
        return _choose(commits, self._newest_effects, groups)


def _can_be_pending(is_transactional: bool, producer_id: int | None, dialect: Dialect) -> bool:
    """Return whether a record takes effect only with a marker of its producer."""
    return is_transactional if dialect.coordinator == "classic" else producer_id is not None


def _key_of_entry(entry: RecordFate) -> RecordKey:
    assert entry.group is not None and entry.key is not None
    return RecordKey(entry.partition, entry.group, entry.key)


def find_in_table(
    logs: Sequence[Log], groups: Groups, engine: Engine, dialect: Dialect, *, path: str, partitions: int | None
) -> Iterator[Entry]:
    """Return the commits that are left out, from the table `fates`. `groups` is the result of the load.

    The logs are loaded again, up to two times. The memory does not depend on the number of records, except those of the
    commits that can be left out.
    """
    import pyarrow.compute as pc

    def read_rows(column: str, values: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of offset records with one of these values in a column."""
        columns = columns_of("fates", _COLUMNS)
        for batch in read_fate_table(logs, dialect, columns, engine, path=path, partitions=partitions):
            is_wanted = pc.and_(_is_in(batch, column, values), pc.is_valid(batch.column("topic")))
            yield from batch.filter(is_wanted).to_pylist()

    commits = [
        _Commit(_key_of_row(row), row["offset"], row["committed_offset"], Fate(row["fate"]))
        for row in read_rows("fate", [fate.value for fate in _LEFT_OUT_FATES])
        if row["committed_offset"] is not None
    ]
    keys = {commit.key for commit in commits if commit.fate in (Fate.ABORTED, Fate.IGNORED)}
    newest_effects: dict[RecordKey, int] = {}
    if keys:
        for row in read_rows("group", sorted({key.group for key in keys})):
            key = _key_of_row(row)
            is_pending = _can_be_pending(row["transactional"], row["producer_id"], dialect)
            if key in keys and (not is_pending or row["fate"] == Fate.WINS.value):
                newest_effects[key] = max(row["offset"], newest_effects.get(key, -1))
    return _choose(commits, newest_effects, groups)


def _is_in(batch: pa.RecordBatch, column: str, values: Sequence[str]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.is_in(batch.column(column), value_set=pa.array(values, type=batch.schema.field(column).type))


def _key_of_row(row: dict[str, Any]) -> RecordKey:
    partition = None if row["partition"] == _NO_PARTITION else row["partition"]
    return RecordKey(partition, row["group"], TopicPartition(row["topic"], row["topic_partition"]))


def find_share_partitions(logs: Sequence[Log], groups: Groups, rules: Dialect, stop: Stop) -> Iterator[Entry]:
    """Yield the partitions of share groups, which the newest record of type 15 of each group lists.

    `groups` is the result of the load with `rules`. The progress of these groups is in another topic.
    """
    share_groups = {group_id for group_id, parts in groups.parts() if parts.decode_group().type == "share"}
    for log in logs:
        wanted = {group_id for group_id in share_groups if groups[group_id].partition == log.partition}
        newest: dict[str, LogRecord] = {}
        for group_id, key, record in _read_keys(log, rules, stop) if wanted else ():
            if group_id in wanted and key.decoded.type == _SHARE_PARTITIONS_TYPE:
                newest[group_id] = record
        for group_id, record in newest.items():
            value = decode(record.key, record.value, rules).value
            for topic in value.initialized_topics if isinstance(value, ShareGroupStatePartitionMetadataValue) else ():
                for number in topic.partitions:
                    record_key = RecordKey(log.partition, group_id, TopicPartition(topic.topic_name, number))
                    yield record_key, LeftOut(Why.SHARE_GROUP, None, log.partition, record.offset)


def find_unread(
    logs: Sequence[Log], groups: Groups, rules: Dialect, stop: Stop
) -> tuple[set[str], dict[RecordKey, LeftOut]]:
    """Return what the keys say in the partitions whose load fails: the ids of all groups, and the unreadable commits.

    `groups` is the result of the load with `rules`. A commit that the coordinator cannot read is left out, unless it
    can read a later record of the key.
    """
    group_ids: set[str] = set()
    unreadable: dict[RecordKey, LeftOut] = {}
    newest_rules = dialect("new", CHECKED_VERSIONS["new"][-1])
    for log in [log for log in logs if log.partition in groups.failed]:
        for group_id, key, record in _read_keys(log, newest_rules, stop):
            group_ids.add(group_id)
            if key.partition is None:
                continue
            record_key = RecordKey(log.partition, group_id, key.partition)
            try:
                decode(record.key, record.value, rules)
            except BadBytes:
                unreadable[record_key] = LeftOut(Why.UNREADABLE, None, log.partition, record.offset)
            else:
                unreadable.pop(record_key, None)
    return group_ids, unreadable


def _read_keys(log: Log, rules: Dialect, stop: Stop) -> Iterator[tuple[str, LogKey, LogRecord]]:
    keys = LogKeys(rules)
    for batch in batches_until(log, stop):
        yield from read_keys(batch, keys)
