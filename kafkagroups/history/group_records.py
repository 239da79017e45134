"""The content of group records, for `explain`: the group after the batch of each record.

A classic group has one record, which contains everything. The records of a consumer, share or streams group contain
only what changed. So the records of the group are applied one after another, as in a load, and each record is shown
with the group after its batch. A broker never answers between two records of one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.fold import fold_batches
from kafkagroups.groups.group import Group, GroupRecord as UndecodedGroup
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.shard import Shard
from kafkagroups.history.event import Event
from kafkagroups.history.group_log import GroupRecord, Step
from kafkagroups.history.group_requests import CLASSIC_GROUP, EPOCHS
from kafkagroups.records.dialects import Dialect
from kafkagroups.tables.group_json import description_json

_LEFT_OUT = ("assignment", "target_assignment", "subscription", "subscription_hex", "assignment_hex")
"""The fields of a member that are long, and that do not tell who is a member."""


def read_group_records(
    steps: list[Step], partition: int | None, dialect: Dialect, group_id: str, events: list[Event]
) -> dict[int, dict[str, Any]]:
    """Return the content of the group's own records, by their offsets in the log.

    `steps` is the log of the group in one partition, and `events` are its events. The content of a record is:

    - "type", "state", "protocol_type", "protocol", and "generation" and "leader" (classic group), or "group_epoch" and
      "assignment_epoch" (other groups): the group after the record's batch. After the tombstone of a group, the state
      is "Dead", and the other fields are null.
    - "members": a list of the members after the batch, without their subscriptions and assignments. For the record of
      one member, only this member.
    - "members_joined", "members_left": the ids of the members that joined and left since the group record before. The
      records of one request share one list, which is at the record with the epoch.

    If a broker's load fails at a record, this record and the later ones have no content.
    """
    changes = {
        event.offset: event for event in reversed(events) if event.event in ("generation", "empty", "epoch", "deleted")
    }
    contents: dict[int, dict[str, Any]] = {}
    shard = fold_batches(partition, [], dialect)
    for batch in _group_records_by_batch(steps):
        try:
            for group_record in batch:
                _apply(shard, group_record, group_id)
        except (LoadFailed, BadBytes):
            return contents
        if all(group_record.is_offset for group_record in batch):
            continue
        found = shard.groups.get(group_id)
        group = found.decode() if isinstance(found, UndecodedGroup) else found
        description = _describe(group)
        for group_record in batch:
            if group_record.is_offset:
                continue
            change = changes.get(group_record.offset)
            contents[group_record.offset] = description | {
                "members": _select_members(group_record, description["members"]),
                "members_joined": [] if change is None else list(change.members_joined),
                "members_left": [] if change is None else list(change.members_left),
            }
    return contents


def _group_records_by_batch(steps: list[Step]) -> Iterator[list[GroupRecord]]:
    group_records = (step for step in steps if isinstance(step, GroupRecord))
    for _, batch in groupby(group_records, key=lambda record: record.batch_offset):
        yield list(batch)


def _apply(shard: Shard, group_record: GroupRecord, group_id: str) -> None:
    """Apply a record to the group in a shard. The offsets are left out: they do not change the group's description."""
    if not group_record.is_offset:
        shard.replay_group(group_record.offset, group_record.record, group_id)
    elif shard.dialect.coordinator == "new" and group_record.value is not None:
        shard.groups.setdefault(group_id, Group(group_id, shard.partition))


def _describe(group: AnyGroup | None) -> dict[str, Any]:
    """Return the description of a group, with short members."""
    if group is None:
        return {"type": None, "state": "Dead", "protocol_type": None, "protocol": None, "members": []}
    description = description_json(group)
    for name in ("partition", "topology", "assignor"):
        description.pop(name, None)
    description["members"] = [
        {name: value for name, value in member.items() if name not in _LEFT_OUT} for member in description["members"]
    ]
    return description


def _select_members(group_record: GroupRecord, members: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the members that a record is about: all members for the record of a group, else the member in its key."""
    if group_record.type in (CLASSIC_GROUP, *EPOCHS):
        return members
    member_id = getattr(group_record.record.key, "member_id", None)
    return [member for member in members if member["member_id"] == member_id]
