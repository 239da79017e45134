"""What differs between two states: of two logs, of one log at two moments, of two coordinators on one log.

Only what a broker would answer differently counts. A group differs when its type, state, protocol type, protocol or
members do, or when only one side knows it; an offset by offset, metadata or leader epoch; a pending commit by
producer, offset or metadata, also where the coordinator does not know the group. Null: that side has nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafkagroups.groups.loading import Orphan
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.tables.answers import group_json, offsets_json, pending_json

State = tuple[Mapping[str, AnyGroup], Mapping[str, Orphan]]
"""What a coordinator holds: the groups that it knows, and what it keeps of those that it does not."""
_Pairs = dict[str, Any]


def diff(a: State, b: State) -> dict[str, _Pairs]:
    """`{"groups": {group: [a, b]}, "offsets": {group: {topic-partition: [a, b]}}, "pending": …}`, all as in `load`."""
    out: dict[str, _Pairs] = {"groups": {}, "offsets": {}, "pending": {}}
    for group_id in sorted({*a[0], *b[0], *a[1], *b[1]}):
        pair = [_shown(state[0].get(group_id)) for state in (a, b)]
        if _told(pair[0]) != _told(pair[1]):
            out["groups"][group_id] = pair
        offsets = [offsets_json(state[0][group_id].offsets) if group_id in state[0] else {} for state in (a, b)]
        holders = [state[0].get(group_id) or state[1].get(group_id) for state in (a, b)]
        pending = [pending_json(holder.pending) if holder else {} for holder in holders]
        for name, sides, told in (("offsets", offsets, _offset), ("pending", pending, _commits)):
            if differing := _differing(sides[0], sides[1], told):
                out[name][group_id] = differing
    return out


def _shown(group: AnyGroup | None) -> dict[str, Any] | None:
    if group is None:
        return None
    return {name: content for name, content in group_json(group).items() if name not in ("offsets", "pending")}


def _told(shown: dict[str, Any] | None) -> object:
    return shown and [shown[name] for name in ("type", "state", "protocol_type", "protocol", "members")]


def _offset(shown: Any) -> object:
    return [shown[name] for name in ("offset", "metadata", "leader_epoch")]


def _commits(shown: Any) -> object:
    return [[commit[name] for name in ("producer_id", "offset", "metadata")] for commit in shown]


def _differing(a: dict[str, Any], b: dict[str, Any], told: Callable[[Any], object]) -> _Pairs:
    keys = [*a, *(key for key in b if key not in a)]
    return {
        key: [a.get(key), b.get(key)] for key in keys if key not in a or key not in b or told(a[key]) != told(b[key])
    }
