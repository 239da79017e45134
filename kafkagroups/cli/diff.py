"""The command `diff`: compare two logs, two moments of a log, or the two coordinators.

The two sides of the comparison are called a and b.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kafkagroups.api import diff
from kafkagroups.cli.answers import (
    describe_topic_partitions,
    find_stop,
    name_partition,
    open_topics,
    print_gaps,
    print_problems,
)
from kafkagroups.cli.options import rules_to_json
from kafkagroups.cli.output import print_json, print_table, print_text
from kafkagroups.cli.progress import spinner
from kafkagroups.errors import UsageError
from kafkagroups.history.replicas import Change, Replicas, Truncation
from kafkagroups.history.words import count_of
from kafkagroups.loading.groups import Groups
from kafkagroups.log.fork import Branch, Fork

ARGUMENTS = """
PATH...  two logs, or one log with an option below
--coordinators  compare the two coordinators on one log: a is the classic coordinator, b is the new coordinator
--since N  compare two moments of one log: a is the state before the first batch whose base offset is N or more
--since-time T  compare two moments of one log: a is the state at this time
--until N  load only batches whose base offset is below N (with --since or --since-time: only for b)
--until-time --coordinator --kafka --partitions --max-batch-bytes --past-damage
--json  one JSON object
"""
EXAMPLES = """\
examples:
  kafkagroups diff replica-1/__consumer_offsets-12 replica-2/__consumer_offsets-12
  kafkagroups diff LOG --coordinators
  kafkagroups diff LOG --since-time 2026-11-21T10:00 --until-time 2026-11-21T10:05"""

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


def run(args: argparse.Namespace) -> int:
    compares_moments = args.since is not None or args.since_time is not None
    _check_paths(args, compares_moments)
    with spinner(" and ".join(args.paths)):
        result = _compare_sides(args, compares_moments)
    if args.json:
        found = result.to_json() if isinstance(result, Replicas) else result.differences
        print_json({**found, **_topics_to_json(result), **rules_to_json(result.a.kafka_rules)})
    else:
        _print_comparison(result, compares_moments=compares_moments)
        _print_topics(result)
        # Of two moments of one log, the later one has all gaps.
        for groups in {side.path: side for side in (result.a, result.b)}.values():
            print_gaps({number: loaded.gaps for number, loaded in groups.partitions.items()})
    return print_problems(result.problems)


def _topics_to_json(result: Comparison | Replicas) -> dict[str, Any]:
    """Return the fields about the partition count: the one of side b, and of a if it differs."""
    a, b = (side.topic_partitions.to_json() for side in (result.a, result.b))
    return {"topic_partitions": b} if a == b else {"topic_partitions": b, "topic_partitions_a": a}


def _print_topics(result: Comparison | Replicas) -> None:
    """Print the lines about the topics of both sides; only once if they are the same."""
    sides = (result.a, result.b)
    lines_a, lines_b = (describe_topic_partitions(side.topic_partitions, side.coordinator) for side in sides)
    for line in lines_a:
        print_text(line if line in lines_b else f"a: {line}")
    for line in lines_b:
        if line not in lines_a:
            print_text(f"b: {line}")


def _check_paths(args: argparse.Namespace, compares_moments: bool) -> None:
    """Raise UsageError if the options contradict each other, or if the number of paths does not fit the options."""
    if args.coordinators and compares_moments:
        raise UsageError("--coordinators cannot be used with --since or --since-time")
    path_count = 1 if args.coordinators or compares_moments else 2
    if len(args.paths) != path_count:
        raise UsageError("expected two PATHs, or one PATH with --coordinators, --since or --since-time")
    if args.coordinators and (args.coordinator or args.kafka):
        raise UsageError(
            "--coordinators compares the coordinators of 3.9.2 and 4.3.1: remove --coordinator and --kafka"
        )


def _compare_sides(args: argparse.Namespace, compares_moments: bool) -> Comparison | Replicas:
    """Load and compare the two sides, a and b, as the options say. Two paths are compared as replicas.

    With --past-damage, no fork is looked for: the records in a gap are missing, and a fork would look the same.
    """
    first, *others = open_topics(args)
    stop = find_stop(args)
    if args.coordinators:
        sides = [replace(first, coordinator=name, kafka=None) for name in ("classic", "new")]
        return Comparison(*[side.load(**stop) for side in sides])
    if compares_moments:
        return Comparison(first.load(until=args.since, until_time=args.since_time), first.load(**stop))
    if args.past_damage:
        return Comparison(*[side.load(**stop) for side in (first, *others)])
    return first.diff(*others, **stop)


def _print_comparison(result: Comparison | Replicas, *, compares_moments: bool) -> None:
    """Print the two sides, the forks of replicas, and the differences."""
    moment = ", the earlier moment" if compares_moments else ""
    for name, side, note in (("a", result.a, moment), ("b", result.b, "")):
        print_text(f"{name}: {side.path}{note}, {side.coordinator} coordinator of Kafka {side.kafka}")
    changes: list[Change] = []
    if isinstance(result, Replicas):
        for partition, fork in result.forks.items():
            _print_fork(partition, fork, result.truncations[partition])
            changes += result.changes[partition]
        _print_other_partitions(result)
    if not any(result.differences.values()):
        print_text("No group, no offset and no pending commit differs.")
    for table in ("offsets", "pending", "groups"):
        _print_differences(table, [change for change in changes if change.table == table], result)


def _print_differences(table: str, changes: list[Change], result: Comparison | Replicas) -> None:
    """Print the differences of one table. For replicas with a fork, also print the answers that are equal again."""
    change_of = {(change.group, change.key): change for change in changes}
    title, describe = _TABLES[table]
    rows = [
        (change.group, change.key, describe(change.before, change.a), "healed: the same on a and b")
        for change in changes
        if not change.differs
    ]
    for group_id, found in result.differences[table].items():
        for key, pair in found.items() if isinstance(found, dict) else [("", found)]:
            rows.append((group_id, key, describe(*pair), _describe_healing(change_of.get((group_id, key)), result)))
    print_table(("group", title, "a → b", "after the fork"), sorted(rows))


def _print_other_partitions(result: Replicas) -> None:
    """Print which partitions cannot be compared, and why there can be differences without a fork."""
    for name, side, other in (("a", result.a, result.b), ("b", result.b, result.a)):
        numbers = [str(partition) for partition in side.partitions if partition not in other.partitions]
        if numbers:
            print_text(f"Only {name} has these partitions: {', '.join(numbers)}.")
    is_cleaning = result.a.partitions.keys() == result.b.partitions.keys() and not result.forks
    if is_cleaning and any(result.differences.values()):
        print_text("The replicas have no fork: only cleaning makes the differences below.")


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
    name = name_partition(partition)
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
        print_text(line)


def _describe_branch(name: str, branch: Branch) -> str:
    epoch = "" if branch.leader_epoch in (None, -1) else f", leader epoch {branch.leader_epoch}"
    return (
        f"  Only {name} has {count_of(branch.only, 'record')} from there on: offsets {branch.first} to {branch.last}"
        f"{epoch}."
    )


Answer = dict[str, Any]


def _describe_offset(a: Answer | None, b: Answer | None) -> str:
    """Return the fields of a committed offset that differ, the old value and the new one."""
    if a is None or b is None:
        return _describe_one(a, b, lambda each: f"{each['offset']} {each['metadata']!r}".removesuffix(" ''"))
    return "; ".join(_list_fields(a, b, ("offset", "metadata", "leader_epoch"))) or f"offset {a['offset']}"


def _describe_one(a: Answer | None, b: Answer | None, describe: Callable[[Answer], str]) -> str:
    """Return the change of something that only one side has."""
    return f"{describe(a) if a else 'none'} → {describe(b) if b else 'none'}"


def _list_fields(a: Answer, b: Answer, names: Sequence[str]) -> Iterator[str]:
    """Yield the change of each field that both sides have with different values."""
    for name in names:
        if name in a and name in b and a[name] != b[name]:
            sides = [_shorten_id(each[name]) if name == "leader" and each[name] else each[name] for each in (a, b)]
            texts = [repr(value) if isinstance(value, str) else str(value) for value in sides]
            yield f"{name.replace('_', ' ')} {' → '.join(texts)}"


def _shorten_id(member_id: str) -> str:
    """Return a member id with only the first eight characters of the UUID at its end, which a broker has appended."""
    return _UUID_AT_END.sub(r"\1…", member_id)


def _describe_pending(a: list[dict[str, Any]] | None, b: list[dict[str, Any]] | None) -> str:
    sides = ([f"{commit['offset']} (producer {commit['producer_id']})" for commit in side or ()] for side in (a, b))
    return " → ".join(", ".join(texts) or "none" for texts in sides)


def _describe_group(a: Answer | None, b: Answer | None) -> str:
    """Return the fields of a group that differ, and the members that joined, left or changed from a to b."""
    if a is None or b is None:
        return _describe_one(
            a, b, lambda each: f"{each['type']} {each['state']}, {count_of(len(each['members']), 'member')}"
        )
    names = ("type", "state", "protocol_type", "protocol", "generation", "group_epoch", "leader")
    parts = list(_list_fields(a, b, names))
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


_TABLES: dict[str, tuple[str, Callable[[Any, Any], str]]] = {
    "offsets": ("committed", _describe_offset),
    "pending": ("pending", _describe_pending),
    "groups": ("", _describe_group),
}
"""The title of the keys of each table, and how its differences are described."""
