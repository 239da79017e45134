"""What differs between two loads (`diff`): two logs, two moments, or two coordinators.

Only what a broker would answer differently counts:

- A group differs if its type, state, protocol type, protocol or members differ, or if only one side has it.
- An offset differs by offset, metadata or leader epoch.
- A pending commit differs by producer, offset or metadata, even if the coordinator does not have the group.

A side that has nothing is null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkagroups.loading.groups import Groups
from kafkagroups.tables.group_json import description_json, offsets_json, pending_json

_GROUP_FIELDS = ("type", "state", "protocol_type", "protocol", "members")
_OFFSET_FIELDS = ("offset", "metadata", "leader_epoch")
_PENDING_FIELDS = ("producer_id", "offset", "metadata")


def compare(a: Groups, b: Groups) -> dict[str, dict[str, Any]]:
    """Return `{"groups": {group: [a, b]}, "offsets": {group: {topic-partition: [a, b]}}, "pending": …}`.

    The values are those of `load --json`.
    """
    groups = {}
    offsets = {}
    pending = {}
    for group_id in sorted({*a, *b, *a.orphans, *b.orphans}):
        group_a = _group(a, group_id)
        group_b = _group(b, group_id)
        if _compared_of_group(group_a) != _compared_of_group(group_b):
            groups[group_id] = [group_a, group_b]
        different = _differing(_offsets(a, group_id), _offsets(b, group_id), _compared_of_offset)
        if different:
            offsets[group_id] = different
        different = _differing(_pending(a, group_id), _pending(b, group_id), _compared_of_pending)
        if different:
            pending[group_id] = different
    return {"groups": groups, "offsets": offsets, "pending": pending}


def _group(side: Groups, group_id: str) -> dict[str, Any] | None:
    return description_json(side[group_id]) if group_id in side else None


def _offsets(side: Groups, group_id: str) -> dict[str, Any]:
    return offsets_json(side[group_id].offsets) if group_id in side else {}


def _pending(side: Groups, group_id: str) -> dict[str, Any]:
    holder = side.get(group_id) or side.orphans.get(group_id)
    return pending_json(holder.pending) if holder else {}


def _compared_of_group(shown: dict[str, Any] | None) -> object:
    return shown and [shown[name] for name in _GROUP_FIELDS]


def _compared_of_offset(shown: Any) -> object:
    return [shown[name] for name in _OFFSET_FIELDS]


def _compared_of_pending(shown: Any) -> object:
    return [[commit[name] for name in _PENDING_FIELDS] for commit in shown]


def _differing(a: dict[str, Any], b: dict[str, Any], compared: Callable[[Any], object]) -> dict[str, list[Any]]:
    different = {}
    for key in dict.fromkeys([*a, *b]):
        if key not in a or key not in b or compared(a[key]) != compared(b[key]):
            different[key] = [a.get(key), b.get(key)]
    return different
