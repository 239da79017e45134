"""The new coordinator's shard: what each record of a partition changes.

Source: CoordinatorLoaderImpl, OffsetMetadataManager.replay, GroupMetadataManager.replay (4.0.2 to 4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkagroups.errors import LoadFailed
from kafkagroups.groups.group import Group, GroupRecord, build_group
from kafkagroups.groups.log_records import LogKeys, read_control_type
from kafkagroups.groups.modern import GROUP_TYPE_BY_RECORD_TYPE, apply_record, create_group
from kafkagroups.groups.modern_group import AnyGroup, ModernGroup
from kafkagroups.groups.observer import NO_OBSERVER, Observer
from kafkagroups.groups.offsets import Offsets, build_offset_and_metadata
from kafkagroups.groups.shard import Shard
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch
from kafkagroups.records.consumer_group import GroupIdKey
from kafkagroups.records.control import ControlType
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.record_types import RECORD_TYPES
from kafkagroups.records.refusals import (
    CONSUMER_RECORD_AFTER_COMMIT,
    CONSUMER_RECORD_WITHOUT_GROUP,
    SHARE_PARTITION_STATES,
    SHARE_RECORD_AFTER_COMMIT,
    SHARE_RECORD_WITHOUT_GROUP,
    STREAMS_RECORD_AFTER_COMMIT,
)
from kafkagroups.records.serde import Record

GROUP_CREATING_RECORD_TYPES = (3, 5, 10, 11)
"""The group records and member records of consumer and share groups. They always create a missing group.

Some releases refuse other records of these groups if the group does not exist (REFUSALS_WITHOUT_GROUP). In later
releases, and in streams groups, a record of any type creates the group.
"""
REFUSALS_WITHOUT_GROUP = {"consumer": CONSUMER_RECORD_WITHOUT_GROUP, "share": SHARE_RECORD_WITHOUT_GROUP}
"""For each group type: the refusal (records/refusals.py) of a record whose group does not exist."""
REFUSALS_AFTER_COMMIT = {
    "consumer": CONSUMER_RECORD_AFTER_COMMIT,
    "share": SHARE_RECORD_AFTER_COMMIT,
    "streams": STREAMS_RECORD_AFTER_COMMIT,
}
"""For each group type: the refusal of a record whose group is a simple group (created by an offset commit)."""


@dataclass
class NewShard(Shard):
    """What one partition's log contains, as the new coordinator reads it."""

    def replay(self, batches: Iterable[Batch], observer: Observer = NO_OBSERVER) -> None:
        self.offsets = Offsets.copy_of(self.offsets, observer)
        keys = LogKeys(self.dialect)
        for batch in batches:
            self.apply(batch, keys, observer)

    def apply(self, batch: Batch, keys: LogKeys, observer: Observer = NO_OBSERVER) -> None:
        """Apply one batch. A load and a running coordinator change a shard only here.

        `keys` are the decoded keys of the log. Raises LoadFailed or BadBytes as `replay` does.
        """
        offsets = self.offsets
        assert isinstance(offsets, Offsets)
        if batch.is_control:
            _end_transactions(offsets, batch, observer)
            return
        producer = batch.producer_id
        groups = self.groups
        for record_offset, group_id, partition, record in self.decode_records(batch, keys, observer):
            if partition is None:
                self._replay_other(record_offset, record, group_id, observer)
            elif record.value is None:
                offsets.remove(group_id, partition, record_offset)
                offsets.remove_all_pending(group_id, partition, record_offset)
            else:
                if group_id not in groups:
                    self.keep_classic_group(Group(group_id, self.partition))
                offset = build_offset_and_metadata(record, record_offset, batch_offset=record_offset)
                if producer == NO_PRODUCER_ID:
                    offsets.put(group_id, partition, offset)
                else:
                    offsets.put_pending(producer, group_id, partition, offset)

    def keep_classic_group(self, group: Group) -> None:
        """Add a classic group, or replace the group with its id. A running coordinator keeps it as a living group."""
        self.groups[group.group_id] = group

    def _replay_other(self, record_offset: int, record: Record, group_id: str, observer: Observer) -> None:
        if isinstance(record.key, GroupMetadataKey | GroupIdKey):
            was_known = group_id in self.groups
            try:
                self.replay_group(record_offset, record, group_id)
            except LoadFailed as error:
                error.offset = record_offset
                raise
            observer.end_group_record(group_id, record, record_offset, was_known, group_id in self.groups)

    def replay_group(self, offset: int, record: Record, group_id: str) -> None:
        """Create, change or delete the group as the record says. Unknown record types are skipped."""
        if isinstance(record.key, GroupIdKey):
            self._replay_modern(record, group_id)
        elif not isinstance(record.key, GroupMetadataKey):
            return
        elif record.value is None:
            self.groups.pop(group_id, None)
        else:
            self.keep_classic_group(build_group(self.partition, record, offset, self.dialect))

    def _replay_modern(self, record: Record, group_id: str) -> None:
        """Apply a record of a consumer, share or streams group. Create the group if it does not exist.

        Raises LoadFailed if the coordinator's release refuses the record.
        """
        group_type = GROUP_TYPE_BY_RECORD_TYPE[record.type]
        group = self._find_decoded_group(group_id)
        # Type 15: the partition states of a share group.
        if record.type == 15 and SHARE_PARTITION_STATES.applies_to(self.dialect.version):
            raise LoadFailed(f"Kafka {self.dialect.kafka} reads record type 15, but cannot replay it")
        if group is None:
            is_tombstone = record.value is None
            always_creates_group = record.type in GROUP_CREATING_RECORD_TYPES and not is_tombstone
            refusal = REFUSALS_WITHOUT_GROUP.get(group_type)
            if not always_creates_group and refusal is not None and refusal.applies_to(self.dialect.version):
                raise LoadFailed(f"{_name_type(record)} names {group_type} group {group_id!r}, which is not known")
            if is_tombstone:
                return
        elif group.type != group_type and not self._can_convert(group_type, group):
            raise LoadFailed(
                f"{_name_type(record)} belongs to a {group_type} group, but {group_id!r} is a {group.type} group"
            )
        if not isinstance(group, ModernGroup):
            group = create_group(group_id, self.partition, group_type, self.dialect)
            self.groups[group_id] = group
        if not apply_record(group, record):
            del self.groups[group_id]

    def _can_convert(self, group_type: str, group: AnyGroup) -> bool:
        """Return whether a record of a `group_type` group converts `group`, which must be a simple group."""
        return (
            not isinstance(group, ModernGroup)
            and group.is_simple
            and not REFUSALS_AFTER_COMMIT[group_type].applies_to(self.dialect.version)
        )

    def _find_decoded_group(self, group_id: str) -> AnyGroup | None:
        group = self.groups.get(group_id)
        return group.decode() if isinstance(group, GroupRecord) else group


def _end_transactions(offsets: Offsets, batch: Batch, observer: Observer) -> None:
    for index, log_record in enumerate(batch.records):
        observer.start_record(index)
        control_type = read_control_type(log_record)
        if control_type in (ControlType.COMMIT, ControlType.ABORT):
            commits = control_type is ControlType.COMMIT
            offsets.end_transaction(batch.producer_id, commits=commits, by=log_record.offset, compares_batches=False)


def _name_type(record: Record) -> str:
    return f"{RECORD_TYPES[record.type].name} (record type {record.type})"
