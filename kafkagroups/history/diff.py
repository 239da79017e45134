"""The differences between two loads (`diff`): of two logs, two moments, or two coordinators.

The loads are compared by the answers of a broker:

- A group differs if its type, state, protocol type, protocol or members differ, or if only one load has the group.
- An offset differs if its offset, metadata or leader epoch differs.
- A pending commit is a commit in an open transaction. A pending commit differs if its producer, offset or metadata
  differs. Pending commits are compared even if the coordinator does not have the group.

If only one load has a group or an offset, the value of the other load is null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkagroups.loading.groups import Groups
from kafkagroups.tables.group_json import description_json, offsets_json, pending_json

_GROUP_FIELDS = ("type", "state", "protocol_type", "protocol", "members")
_OFFSET_FIELDS = ("offset", "metadata", "leader_epoch")
_PENDING_FIELDS = ("producer_id", "offset", "metadata")


def compare(first: Groups, second: Groups) -> dict[str, dict[str, Any]]:
    """Return the differences between two loads: `{"groups": {…}, "offsets": {…}, "pending": {…}}`.

    A pair is a list: the value in the first load, then the value in the second load, in the form of `load --json`.

    - "groups" has a pair for each group id that differs.
    - "offsets" and "pending" have a dict for each group id. The dict has a pair for each topic partition that differs.
    """
    groups = {}
    offsets = {}
    pending = {}
    for group_id in sorted({*first, *second, *first.orphans, *second.orphans}):
        first_group = _group_json(first, group_id)
        second_group = _group_json(second, group_id)
        if _select_group_fields(first_group) != _select_group_fields(second_group):
            groups[group_id] = [first_group, second_group]
        offset_pairs = _find_differences(
            _offsets_json(first, group_id), _offsets_json(second, group_id), _select_offset_fields
        )
        if offset_pairs:
            offsets[group_id] = offset_pairs
        pending_pairs = _find_differences(
            _pending_json(first, group_id), _pending_json(second, group_id), _select_pending_fields
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


def _select_group_fields(group: dict[str, Any] | None) -> object:
    return None if group is None else [group[name] for name in _GROUP_FIELDS]


def _select_offset_fields(offset: Any) -> object:
    return [offset[name] for name in _OFFSET_FIELDS]


def _select_pending_fields(commits: Any) -> object:
    return [[commit[name] for name in _PENDING_FIELDS] for commit in commits]


def _find_differences(
    first: dict[str, Any], second: dict[str, Any], select_fields: Callable[[Any], object]
) -> dict[str, list[Any]]:
    """Return a pair of values for each key whose values differ. If only one load has the key, the other value is None.

    `select_fields` returns the compared fields of a value.
    """
    differences = {}
    for key in dict.fromkeys([*first, *second]):
        is_in_both = key in first and key in second
        if not is_in_both or select_fields(first[key]) != select_fields(second[key]):
            differences[key] = [first.get(key), second.get(key)]
    return differences


_SELECT = {"groups": _select_group_fields, "offsets": _select_offset_fields, "pending": _select_pending_fields}


def is_same(table: str, first: Any, second: Any) -> bool:
    """Return whether two answers of a table ("groups", "offsets", "pending") are equal in the compared fields."""
    if first is None or second is None:
        return first is second
    return _SELECT[table](first) == _SELECT[table](second)


def list_answers(loaded: Groups, group_id: str) -> dict[tuple[str, str], Any]:
    """Return everything that is compared of a group, by table and topic partition ("" for the group itself)."""
    answers: dict[tuple[str, str], Any] = {}
    group = _group_json(loaded, group_id)
    if group is not None:
        answers["groups", ""] = group
    answers |= {("offsets", key): offset for key, offset in _offsets_json(loaded, group_id).items()}
    answers |= {("pending", key): commits for key, commits in _pending_json(loaded, group_id).items()}
    return answers
