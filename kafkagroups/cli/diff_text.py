"""The text of the command `diff`: where two replicas fork, and which answers differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kafkagroups.api import diff
from kafkagroups.cli.output import TEXT_WIDTH, escape, print_line, wrap
from kafkagroups.cli.tables import print_table
from kafkagroups.history.event import count_of
from kafkagroups.history.replicas import Change, Replicas, Truncation
from kafkagroups.loading.groups import Groups
from kafkagroups.log.fork import Branch, Fork

_UUID_AT_END = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")


@dataclass(frozen=True)
class Comparison:
    """Two loads that are not loads of replicas: of two moments of a log, or by two coordinators."""

    a: Groups
    b: Groups

    @cached_property
    def differences(self) -> dict[str, dict[str, Any]]:
        return diff(self.a, self.b)

    @property
    def problems(self) -> list[str]:
        """The problems of both loads, each once."""
        return list(dict.fromkeys([*self.a.problems, *self.b.problems]))


def print_comparison(result: Comparison | Replicas, *, compares_moments: bool = False) -> None:
    """Print the two sides, the forks of replicas, and the differences."""
    moment = ", the earlier moment" if compares_moments else ""
    for name, side, note in (("a", result.a, moment), ("b", result.b, "")):
        print_line(f"{name}: {side.path}{note}, {side.coordinator} coordinator of Kafka {side.kafka}")
    changes: dict[tuple[str, str, str], Change] = {}
    if isinstance(result, Replicas):
        for partition, fork in result.forks.items():
            _print_fork(partition, fork, result.truncations[partition])
            changes |= {(change.table, change.group, change.key): change for change in result.changes[partition]}
        _print_other_partitions(result)
    differences = result.differences
    if not any(differences.values()):
        print_line("No group, no offset and no pending commit differs.")
    for table in ("offsets", "pending"):
        rows = [(group_id, key, pair) for group_id, pairs in differences[table].items() for key, pair in pairs.items()]
        _print_rows(table, rows, changes, result)
    groups = [(group_id, "", pair) for group_id, pair in differences["groups"].items()]
    _print_rows("groups", groups, changes, result)


def _print_other_partitions(result: Replicas) -> None:
    """Print which partitions cannot be compared, and why there can be differences without a fork."""
    for name, side, other in (("a", result.a, result.b), ("b", result.b, result.a)):
        numbers = [str(partition) for partition in side.partitions if partition not in other.partitions]
        if numbers:
            for part in wrap(f"Only {name} has these partitions: {', '.join(numbers)}."):
                print_line(part)
    is_cleaning = result.a.partitions.keys() == result.b.partitions.keys() and not result.forks
    if is_cleaning and any(result.differences.values()):
        for part in wrap("The replicas have no fork: only cleaning makes the differences below."):
            print_line(part)


def _print_rows(
    table: str,
    rows: list[tuple[str, str, list[Any]]],
    changes: Mapping[tuple[str, str, str], Change],
    result: Comparison | Replicas,
) -> None:
    """Print the differences of one table. For replicas with a fork, also print the answers that are equal again."""
    describers: dict[str, Callable[[Any, Any], str]] = {
        "groups": _describe_group,
        "offsets": _describe_offset,
        "pending": _describe_pending,
    }
    describe = describers[table]
    cells = []
    for group_id, key, (a, b) in rows:
        change = changes.get((table, group_id, key))
        cells.append((group_id, key, describe(a, b), _describe_healing(change, result)))
    for change in changes.values():
        if change.table == table and not change.differs:
            text = describe(change.before, change.a)
            cells.append((change.group, change.key, text, "healed: the same on a and b"))
    if not cells:
        return
    columns = ["group", {"offsets": "committed", "pending": "pending"}.get(table, ""), "a → b", "after the fork"]
    has_keys = table != "groups"
    shown = [index for index in range(4) if (index != 1 or has_keys) and (index < 3 or changes)]
    print_table(
        [columns[index] for index in shown],
        [[row[index] for index in shown] for row in sorted(cells)],
        width_in_file=TEXT_WIDTH,
    )


def _describe_healing(change: Change | None, result: Comparison | Replicas) -> str:
    """Return what happened to an answer that differs: lost or healed."""
    if change is None or not isinstance(result, Replicas):
        return ""
    newer = next((item.newer for number, item in result.truncations.items() if change in result.changes[number]), "b")
    older = "a" if newer == "b" else "b"
    newer_value, older_value = (change.b, change.a) if newer == "b" else (change.a, change.b)
    ended_by = f" ({change.ended_by})" if change.ended_by else ""
    if change.is_back:
        records = _list_records(newer_value)
        return f"back: {older} deleted it{ended_by}, and {newer} wrote it again" + (f" ({records})" if records else "")
    if not change.is_healed and change.has_newer_changed:
        return f"lost: {newer} is behind ({_list_records(newer_value)})"
    if not change.is_healed:
        if older_value is not None:
            records = _list_records(older_value)
            return f"lost: only {older} has it" + (f" ({records})" if records else "")
        verb = "ended the transaction" if change.table == "pending" else "deleted it"
        return f"lost: only {older} {verb}{ended_by}"
    verb = "healed" if change.has_older_changed else "new"
    if newer_value is None:
        return f"{verb}: deleted on {newer}"
    records = _list_records(newer_value)
    return f"{verb}: {records} on {newer}" if records else f"{verb} on {newer}"


def _list_records(value: Any) -> str:
    """Return the offset of the record of an answer."""
    commits = value if isinstance(value, list) else [value]
    offsets = [str(commit["record_offset"]) for commit in commits if "record_offset" in commit]
    return f"record {', '.join(offsets)}" if offsets else ""


def _print_fork(partition: int | None, fork: Fork, truncation: Truncation) -> None:
    """Print where two replicas of a partition differ, and what a returning broker does."""
    name = "The log" if partition is None else f"Partition {partition}"
    older_name = "a" if truncation.newer == "b" else "b"
    newer, older = (fork.b, fork.a) if truncation.newer == "b" else (fork.a, fork.b)
    lines = []
    if not (fork.a.only and fork.b.only):
        longer_name = "a" if fork.a.only else "b"
        longer, shorter_name = (fork.a, "b") if fork.a.only else (fork.b, "a")
        lines.append(f"{name}: {shorter_name} ends at offset {fork.offset}, and {longer_name} continues.")
        lines.append(_describe_branch(longer_name, longer))
    else:
        lines.append(f"{name}: the replicas fork at offset {fork.offset}. Up to there, their records agree.")
        lines += [_describe_branch("a", fork.a), _describe_branch("b", fork.b)]
    if newer.epochs[-1:] != older.epochs[-1:] and newer.epochs:
        lines.append(f"  {truncation.newer} is the newer replica: its last leader epoch is {newer.epochs[-1][0]}.")
    if truncation.offset is None:
        lines.append(
            "  The log has no leader epochs that tell where a returning broker truncates: it truncates to its high "
            "watermark."
        )
    elif truncation.offset >= older.end_offset:
        lines.append(f"  If {older_name} follows {truncation.newer}, {older_name} truncates nothing.")
    else:
        lines.append(
            f"  When the broker of {older_name} returns and follows {truncation.newer}, it truncates its log to offset "
            f"{truncation.offset}."
        )
    if truncation.offset is not None and truncation.offset > fork.offset and older.only:
        lines.append(
            f"  The records of {older_name} before offset {truncation.offset} stay different: leader epochs do not "
            "show this fork."
        )
    for line in lines:
        for part in wrap(escape(line)):
            print_line(part)


def _describe_branch(name: str, branch: Branch) -> str:
    epoch = "" if branch.leader_epoch in (None, -1) else f", leader epoch {branch.leader_epoch}"
    return (
        f"  Only {name} has {count_of(branch.only, 'record')} from there on: offsets {branch.first} to {branch.last}"
        f"{epoch}."
    )


def _describe_offset(a: dict[str, Any] | None, b: dict[str, Any] | None) -> str:
    """Return the fields of a committed offset that differ, the old value and the new one."""
    if a is None or b is None:
        commit = a or b
        assert commit is not None
        metadata = f" {commit['metadata']!r}" if commit["metadata"] else ""
        text = f"{commit['offset']}{metadata}"
        return f"none → {text}" if a is None else f"{text} → none"
    names = ("offset", "metadata", "leader_epoch")
    parts = [_describe_field(name, a[name], b[name]) for name in names if a[name] != b[name]]
    return "; ".join(parts) or f"offset {a['offset']}"


def _describe_field(name: str, old: Any, new: Any) -> str:
    if name == "leader":
        old, new = (value and _shorten_id(value) for value in (old, new))
    old_text, new_text = (repr(value) if isinstance(value, str) else str(value) for value in (old, new))
    return f"{name.replace('_', ' ')} {old_text} → {new_text}"


def _shorten_id(member_id: str) -> str:
    """Return a member id with only the first eight characters of the UUID at its end, which a broker has appended."""
    return _UUID_AT_END.sub(r"\1…", member_id)


def _describe_pending(a: list[dict[str, Any]] | None, b: list[dict[str, Any]] | None) -> str:
    def list_commits(commits: list[dict[str, Any]] | None) -> str:
        texts = [f"{commit['offset']} (producer {commit['producer_id']})" for commit in commits or ()]
        return ", ".join(texts) or "none"

    return f"{list_commits(a)} → {list_commits(b)}"


def _describe_group(a: dict[str, Any] | None, b: dict[str, Any] | None) -> str:
    """Return the fields of a group that differ, and the members that joined, left or changed from a to b."""
    if a is None or b is None:
        group = a or b
        assert group is not None
        text = f"{group['type']} {group['state']}, {count_of(len(group['members']), 'member')}"
        return f"none → {text}" if a is None else f"{text} → none"
    names = ("type", "state", "protocol_type", "protocol", "generation", "group_epoch", "leader")
    parts = [
        _describe_field(name, a.get(name), b.get(name))
        for name in names
        if name in a and name in b and a[name] != b[name]
    ]
    members_a, members_b = ({member["member_id"]: member for member in group["members"]} for group in (a, b))
    for title, member_ids in (("joined", members_b.keys() - members_a), ("left", members_a.keys() - members_b)):
        if member_ids:
            parts.append(f"{title}: {', '.join(_shorten_id(member_id) for member_id in sorted(member_ids))}")
    for member_id in sorted(members_a.keys() & members_b):
        old = members_a[member_id]
        new = members_b[member_id]
        changed = [name for name in old if new.get(name) != old[name] and not name.endswith("_hex")]
        if old != new:
            parts.append(f"changed: {_shorten_id(member_id)} ({', '.join(changed) or 'bytes'})")
    return "; ".join(parts) or "no field"
