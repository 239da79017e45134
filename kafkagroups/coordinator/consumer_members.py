"""A member of a consumer group, its way to its target step by step.

A member's own assignment follows its target in three steps, so that a partition never has two owners:

- Unrevoked: until the member reports that it has given partitions back, it stays in its old epoch.
- Unreleased: the member is in the new epoch, but some of its partitions still belong to others.
- Stable: the member has what its epoch gives it.

Source: ConsumerGroupMember, CurrentAssignmentBuilder (4.3.1).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from kafkagroups.coordinator.assignors import java_sort_key
from kafkagroups.coordinator.messages import ConsumerHeartbeat, Errors, Refusal
from kafkagroups.groups.modern_group import ModernGroup, ModernMember
from kafkagroups.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)
from kafkagroups.records.serde import Record

STABLE = 0
UNREVOKED = 1
UNRELEASED = 2
_STATES = (STABLE, UNREVOKED, UNRELEASED)

Epochs = dict[str, dict[int, int]]
"""The partitions of an assignment, by topic id. The value is the epoch since which the member has the partition."""
Partitions = Mapping[str, Collection[int]]

NEW_METADATA = ConsumerGroupMemberMetadataValue(
    instance_id=None, rack_id=None, server_assignor=None, classic_member_metadata=None
)


@dataclass(frozen=True)
class ConsumerMember:
    """A member of a consumer group, with the fields of its two records (types 5 and 8)."""

    member_id: str
    metadata: ConsumerGroupMemberMetadataValue = NEW_METADATA
    epoch: int = 0
    previous_epoch: int = -1
    state: int = STABLE
    assigned: Epochs = field(default_factory=dict)
    revoking: Epochs = field(default_factory=dict)

    @property
    def uses_classic_protocol(self) -> bool:
        return self.metadata.classic_member_metadata is not None

    @property
    def regex(self) -> str | None:
        return self.metadata.subscribed_topic_regex or None

    def at_epoch(self, epoch: int, state: int, assigned: Epochs, revoking: Epochs) -> ConsumerMember:
        return replace(self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking)

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=_write_epochs(self.assigned),
            partitions_pending_revocation=_write_epochs(self.revoking),
        )


def update_metadata(
    metadata: ConsumerGroupMemberMetadataValue, source: ConsumerHeartbeat | ConsumerGroupMemberMetadataValue
) -> ConsumerGroupMemberMetadataValue:
    """Return the metadata that a request or another record changes. What is None or -1 there stays as it was."""
    values = {name: getattr(source, name, None) for name in metadata.__struct_fields__}
    if values["subscribed_topic_names"] is not None:
        values["subscribed_topic_names"] = sort_names(values["subscribed_topic_names"])
    given = {name: value for name, value in values.items() if value not in (None, -1)}
    return msgspec.structs.replace(metadata, **given)


def read_member(member: ModernMember) -> ConsumerMember:
    metadata = member.metadata or NEW_METADATA
    value = member.assignment
    if value is None:
        return ConsumerMember(member.member_id, metadata, member.member_epoch)
    return ConsumerMember(
        member.member_id,
        metadata,
        value.member_epoch,
        value.previous_member_epoch,
        value.state,
        _read_epochs(value.assigned_partitions, value.member_epoch),
        _read_epochs(value.partitions_pending_revocation, value.member_epoch),
    )


def read_members(group: ModernGroup) -> dict[str, ConsumerMember]:
    return {member_id: read_member(member) for member_id, member in group.members.items()}


def find_static_member(group: ModernGroup, instance_id: str | None) -> ConsumerMember | None:
    if instance_id is None:
        return None
    found = [member for member in read_members(group).values() if member.metadata.instance_id == instance_id]
    return found[-1] if found else None


def find_or_create_member(group: ModernGroup, member_id: str) -> ConsumerMember:
    member = group.members.get(member_id)
    return ConsumerMember(member_id) if member is None else read_member(member)


def find_member(group: ModernGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is None:
        if member_id not in group.members:
            text = f"Member {member_id} is not a member of group {group.group_id}."
            raise Refusal(Errors.UNKNOWN_MEMBER_ID, text)
        return read_member(group.members[member_id])
    member = find_static_member(group, instance_id)
    if member is None:
        raise Refusal(Errors.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        text = f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        raise Refusal(Errors.FENCED_INSTANCE_ID, text)
    return member


def check_epoch(member: ConsumerMember, received: int, owned: Partitions | None) -> None:
    """Raise Refusal if the epoch in a heartbeat is not the member's. Epoch 0 joins again.

    The previous epoch is accepted if the response was lost: the member owns nothing that it does not have.
    """
    if received in (0, member.epoch):
        return
    is_previous = received < member.epoch and received == member.previous_epoch
    owns_only_assigned = owned is not None and all(
        topic_id in member.assigned and set(numbers) <= member.assigned[topic_id].keys()
        for topic_id, numbers in owned.items()
    )
    if not is_previous or not owns_only_assigned:
        comparison = "greater" if received > member.epoch else "smaller"
        raise Refusal(
            Errors.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {comparison} member epoch ({received}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
        )


def sort_names(names: Collection[str]) -> tuple[str, ...]:
    """Return topic names as a member's record contains them: once, sorted like Java."""
    return tuple(sorted(set(names), key=java_sort_key))


@dataclass
class MemberChange:
    """A member that joins or changes: before and after, and the records so far. `group` is as before the request."""

    group: ModernGroup
    before: ConsumerMember
    after: ConsumerMember
    records: list[Record]
    epoch: int = 0
    has_same_topics: bool = True
    has_new_subscription: bool = False
    target_epoch: int = 0
    target: Partitions = field(default_factory=dict)


def reconcile(change: MemberChange, owned: Partitions | None, topic_ids: Collection[str] | None) -> ConsumerMember:
    """Return the member after one step towards its target.

    `owned` are the partitions that it reports; None if it reports nothing. `topic_ids` are the existing topics to which
    it subscribes; None if it subscribes to nothing.
    """
    member = change.after
    target_epoch = change.target_epoch
    if (member.state == STABLE and member.epoch == target_epoch) or _owns_any(owned, member.revoking, member.state):
        return _drop_unsubscribed(member, owned, topic_ids) if change.has_new_subscription else member
    if member.state not in _STATES and (owned is None or owned):
        text = "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
        raise Refusal(Errors.FENCED_MEMBER_EPOCH, text)
    kept: Epochs = {}
    revoked: Epochs = {}
    gained: Epochs = {}
    is_waiting = False
    for topic_id in dict.fromkeys([*change.target, *member.assigned]):
        wanted = set(change.target.get(topic_id, ())) if topic_id in (topic_ids or ()) else set()
        for partition, epoch in member.assigned.get(topic_id, {}).items():
            goal = kept if partition in wanted else revoked
            goal.setdefault(topic_id, {})[partition] = epoch
        for partition in sorted(wanted.difference(kept.get(topic_id, ()))):
            is_free = change.group.owners.epochs.get(topic_id, {}).get(partition, -1) == -1
            if is_free or partition in member.revoking.get(topic_id, ()):
                gained.setdefault(topic_id, {})[partition] = target_epoch
            else:
                is_waiting = True
    if revoked and _owns_any(owned, revoked, UNREVOKED):
        epoch = member.epoch if member.state in _STATES else target_epoch
        return member.at_epoch(epoch, UNREVOKED, kept, revoked)
    for topic_id, epochs in gained.items():
        kept.setdefault(topic_id, {}).update(epochs)
    return member.at_epoch(target_epoch, UNRELEASED if is_waiting else STABLE, kept, {})


def _drop_unsubscribed(
    member: ConsumerMember, owned: Partitions | None, topic_ids: Collection[str] | None
) -> ConsumerMember:
    """If the member subscribes to nothing, its previous epoch becomes its epoch, even if it had no partitions.

    A new member without partitions stays as it is: Kafka compares its empty map with an empty map by identity.
    """
    if member.epoch == 0 and not member.assigned:
        return member
    kept = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in (topic_ids or ())}
    if len(kept) == len(member.assigned) and (topic_ids is not None or member.revoking):
        return member
    revoking = {topic_id: dict(epochs) for topic_id, epochs in member.revoking.items()}
    for topic_id, epochs in member.assigned.items():
        if topic_id not in kept:
            revoking.setdefault(topic_id, {}).update(epochs)
    if revoking and _owns_any(owned, revoking, UNREVOKED):
        return member.at_epoch(member.epoch, UNREVOKED, kept, revoking)
    return member.at_epoch(member.epoch, member.state, kept, member.revoking)


def _owns_any(owned: Partitions | None, partitions: Epochs, state: int) -> bool:
    """Return whether an unrevoked member still owns one of the partitions, as far as it reports."""
    if state != UNREVOKED:
        return False
    if owned is None:
        return True
    return any(partition in partitions.get(topic_id, ()) for topic_id in owned for partition in owned[topic_id])


def _read_epochs(topics: Collection[TopicPartitions], member_epoch: int) -> Epochs:
    default = max(member_epoch, 0)
    epochs: Epochs = {}
    for topic in topics:
        given = topic.assignment_epochs
        if given is None or len(given) != len(topic.partitions):
            given = (default,) * len(topic.partitions)
        epochs[topic.topic_id] = dict(zip(topic.partitions, given, strict=True))
    return epochs


def _write_epochs(assignment: Epochs) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(topic_id, tuple(sorted(epochs)), tuple(epochs[partition] for partition in sorted(epochs)))
        for topic_id, epochs in assignment.items()
    )
