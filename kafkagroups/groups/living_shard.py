"""The state of one partition in a running new coordinator: what its log says, and what the log has not confirmed yet.

A running coordinator applies a record to its memory before the record is in the log, with the same code as a load
(replay.py). Until the log confirms the record, a failed append must take the changes back, and a fetch, DescribeGroups
and ListGroups must not see them, so the shard remembers each changed group as it was before.

Of a group without a record, for example that of a refused commit, a load finds nothing; it becomes visible with the
next batch of the partition.

A classic group is remembered as an object, not by its content, so taking back an append does not bring an earlier
generation back.

Simpler than Kafka: Kafka's maps keep every version of every entry until the log has confirmed it (timeline maps). Here
a group is copied as a whole before its first change in a batch.
Source: SnapshottableCoordinator, SnapshotRegistry, GroupMetadataManager.replay (4.3.1).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkagroups.groups.classic_group import ClassicGroup, ClassicMember, GroupOffsets
from kafkagroups.groups.group import Group, Member
from kafkagroups.groups.log_records import LogKeys, read_keys
from kafkagroups.groups.map_orders import Version
from kafkagroups.groups.modern_group import ModernGroup, copy_group
from kafkagroups.groups.offsets import GroupOffsetsCopy, Offsets
from kafkagroups.groups.replay import NewShard
from kafkagroups.log.batch import Batch

LivingGroup = ClassicGroup | ModernGroup
"""A group in a running coordinator."""


class _EarlierGroup(NamedTuple):
    group: Any
    offsets: GroupOffsetsCopy


Changes = dict[str, _EarlierGroup]


@dataclass
class LivingShard(NewShard):
    """What a running coordinator knows of one partition. `groups` contains ClassicGroup and ModernGroup objects.

    `now_ms` is the time of the state of a group without a record. `appended` are the changes of each batch that the log
    has not confirmed, the oldest first, and `unappended` are the changes since then.
    """

    groups: dict[str, Any] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)
    now_ms: int = 0
    appended: deque[Changes] = field(default_factory=deque)
    unappended: Changes = field(default_factory=dict)

    def keep_classic_group(self, group: Group) -> None:
        self.groups[group.group_id] = build_classic_group(group, self.dialect.version, self.now_ms)

    def add_group(self, group: LivingGroup) -> None:
        self._remember(group.group_id)
        self.groups[group.group_id] = group

    def remove_group(self, group_id: str) -> None:
        self._remember(group_id)
        self.groups.pop(group_id, None)

    def apply_new(self, batch: Batch, keys: LogKeys) -> None:
        """Apply a batch that the coordinator is about to append, or the marker that another broker wrote."""
        changed_groups = {group_id for group_id, _, _ in read_keys(batch, keys)}
        if batch.is_control:
            changed_groups.update(self.offsets.pending.get(batch.producer_id, ()))
        for group_id in changed_groups:
            self._remember(group_id)
        self.apply(batch, keys)

    def end_batch(self) -> None:
        self.appended.append(self.unappended)
        self.unappended = {}

    def confirm(self) -> None:
        self.appended.popleft()

    def revert(self, batch_count: int) -> None:
        self._swap(self.unappended)
        self.unappended = {}
        for _ in range(batch_count):
            self._swap(self.appended.pop())

    @contextmanager
    def committed(self) -> Iterator[None]:
        later_changes = [changes for changes in (*self.appended, self.unappended) if changes]
        for changes in reversed(later_changes):
            self._swap(changes)
        try:
            yield
        finally:
            for changes in later_changes:
                self._swap(changes)

    def _remember(self, group_id: str) -> None:
        if group_id not in self.unappended:
            group = self.groups.get(group_id)
            earlier = copy_group(group) if isinstance(group, ModernGroup) else group
            self.unappended[group_id] = _EarlierGroup(earlier, self.offsets.copy_group(group_id))

    def _swap(self, changes: Changes) -> None:
        for group_id, earlier in changes.items():
            current = self.groups.pop(group_id, None)
            if earlier.group is not None:
                self.groups[group_id] = earlier.group
            changes[group_id] = _EarlierGroup(current, self.offsets.replace_group(group_id, earlier.offsets))


def build_classic_group(loaded: Group, kafka: Version, now_ms: int) -> ClassicGroup:
    """If the log has no group record, the group became Empty at this time, as in Kafka."""
    has_state_time = loaded.current_state_timestamp is not None
    has_group_record = bool(loaded.members or loaded.generation or loaded.protocol_type or has_state_time)
    group = ClassicGroup(
        loaded.group_id,
        kafka,
        loaded.current_state_timestamp if has_group_record else now_ms,
        generation=loaded.generation,
        protocol_type=loaded.protocol_type or None,
        protocol=loaded.protocol,
        leader=loaded.leader,
        offsets=GroupOffsets(
            dict(loaded.offsets), {producer: dict(pending) for producer, pending in loaded.pending.items()}
        ),
    )
    for member in loaded.members.values():
        group.add(_build_classic_member(member, loaded.protocol))
    group.state = loaded.state
    group.compute_subscribed_topics()
    return group


def _build_classic_member(member: Member, protocol: str | None) -> ClassicMember:
    # A group record has each member's subscription for only one protocol: the group's protocol.
    return ClassicMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.protocol_type,
        [(protocol or "", member.subscription_bytes)],
        member.assignment_bytes,
    )
