"""The differences between two loads (`diff`): of two logs, two moments, or two coordinators.

Only differences in a broker's answers count:

- A group differs if its type, state, protocol type, protocol or members differ, or if only one load has the group.
- An offset differs if its offset, metadata or leader epoch differs.
- A pending commit (its transaction is open) differs if its producer, offset or metadata differs. This includes pending
  commits of groups that the coordinator does not have.

If one load does not have a group or an offset, the value of this load is null.
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

    Each pair [a, b] contains different values of the two loads, as in `load --json`. "pending" has the same form as
    "offsets".
    """
    groups = {}
    offsets = {}
    pending = {}
    for group_id in sorted({*a, *b, *a.orphans, *b.orphans}):
        group_a = _group_json(a, group_id)
        group_b = _group_json(b, group_id)
        if _compared_group_fields(group_a) != _compared_group_fields(group_b):
            groups[group_id] = [group_a, group_b]
        offset_pairs = _find_differences(
            _offsets_json(a, group_id), _offsets_json(b, group_id), _compared_offset_fields
        )
        if offset_pairs:
            offsets[group_id] = offset_pairs
        pending_pairs = _find_differences(
            _pending_json(a, group_id), _pending_json(b, group_id), _compared_pending_fields
        )
        if pending_pairs:
            pending[group_id] = pending_pairs
    return {"groups": groups, "offsets": offsets, "pending": pending}


def _group_json(loaded: Groups, group_id: str) -> dict[str, Any] | None:
    return description_json(loaded[group_id]) if group_id in loaded else None


def _offsets_json(loaded: Groups, group_id: str) -> dict[str, Any]:
    return offsets_json(loaded[group_id].offsets) if group_id in loaded else {}


def _pending_json(loaded: Groups, group_id: str) -> dict[str, Any]:
    group = loaded.get(group_id) or loaded.orphans.get(group_id)
    return pending_json(group.pending) if group else {}


def _compared_group_fields(group: dict[str, Any] | None) -> object:
    return group and [group[name] for name in _GROUP_FIELDS]


def _compared_offset_fields(offset: Any) -> object:
    return [offset[name] for name in _OFFSET_FIELDS]


def _compared_pending_fields(commits: Any) -> object:
    return [[commit[name] for name in _PENDING_FIELDS] for commit in commits]


def _find_differences(
    a: dict[str, Any], b: dict[str, Any], select_fields: Callable[[Any], object]
) -> dict[str, list[Any]]:
    """Return, by key, the pair of values in `a` and `b` if their selected fields differ or if only one of them exists.

    `select_fields` returns the fields of a value that are compared.
    """
    differences = {}
    for key in dict.fromkeys([*a, *b]):
        if key not in a or key not in b or select_fields(a[key]) != select_fields(b[key]):
            differences[key] = [a.get(key), b.get(key)]
    return differences
