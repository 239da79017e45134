"""The groups and commits of partitions whose load fails, as far as the keys of the records name them.

A load does not read the records from the failure on, and it cannot read the record at which it fails. Here, the keys
are read with the rules of the newest Kafka version, so that a plan names every group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import LogKey, LogKeys
from kafkagroups.loading.groups import Groups
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import Stop, batches_until
from kafkagroups.records.dialects import CHECKED_VERSIONS, Dialect, dialect
from kafkagroups.records.serde import decode
from kafkagroups.rescue.left_out import LeftOutByGroup, RecordKey, add_left_out
from kafkagroups.rescue.plan import LeftOut, Why


@dataclass
class UnreadRecords:
    """What the keys of the records say in the partitions whose load fails.

    `group_ids` has the ids of the groups in each of these partitions. `commits` has, for each key, the offset of the
    newest commit record that the coordinator cannot read, unless it can read a later record of the key.
    """

    group_ids: dict[int | None, set[str]] = field(default_factory=dict)
    commits: dict[RecordKey, int] = field(default_factory=dict)

    def fails_for(self, group_id: str) -> bool:
        """Return whether a partition whose load fails contains records of a group."""
        return any(group_id in group_ids for group_ids in self.group_ids.values())

    def add_to(self, left_out: LeftOutByGroup) -> None:
        """Add the commits that the coordinator cannot read to those that are left out."""
        for key, offset in self.commits.items():
            entry = LeftOut(Why.UNREADABLE, None, key.partition, offset)
            add_left_out(left_out.setdefault(key.group, {}), key.topic_partition, entry)


def find_unread(logs: Sequence[Log], groups: Groups, rules: Dialect, stop: Stop) -> UnreadRecords:
    """Return what the keys say in the partitions whose load fails. `groups` is the result of the load with `rules`."""
    found = UnreadRecords()
    for log in logs:
        if log.partition in groups.failed:
            _read_keys(log, rules, stop, found)
    return found


def _read_keys(log: Log, rules: Dialect, stop: Stop, found: UnreadRecords) -> None:
    keys = LogKeys(dialect("new", CHECKED_VERSIONS["new"][-1]))
    group_ids = found.group_ids.setdefault(log.partition, set())
    for batch in batches_until(log, stop):
        if batch.is_control:
            continue
        try:
            records = batch.records
        except BadBytes:
            continue
        for record in records:
            try:
                key = keys[record.key]
            except BadBytes:
                continue
            if key.group_id is None:
                continue
            group_ids.add(key.group_id)
            if key.partition is not None:
                _add_commit(log.partition, key, record, rules, found)


def _add_commit(partition: int | None, key: LogKey, record: LogRecord, rules: Dialect, found: UnreadRecords) -> None:
    assert key.group_id is not None and key.partition is not None
    record_key = RecordKey(partition, key.group_id, key.partition)
    try:
        decode(record.key, record.value, rules)
    except BadBytes:
        found.commits[record_key] = record.offset
    else:
        found.commits.pop(record_key, None)
