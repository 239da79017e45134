"""The command `diff`: compare two logs, two moments of a log, or the two coordinators.

The two sides of the comparison are called a and b.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from kafkagroups.api import diff, load
from kafkagroups.cli import options
from kafkagroups.cli.output import print_line
from kafkagroups.cli.progress import spinner
from kafkagroups.cli.tables import print_table
from kafkagroups.errors import UsageError
from kafkagroups.loading.groups import Groups

NAME = "diff"
HELP = "compare the groups and offsets of two logs, of two moments of one log, or of the two coordinators"
EXAMPLES = """\
examples:
  kafkagroups diff replica-1/__consumer_offsets-12 replica-2/__consumer_offsets-12
  kafkagroups diff LOG --coordinators
  kafkagroups diff LOG --since-time 2026-11-21T10:00 --until-time 2026-11-21T10:05"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", metavar="PATH", nargs="+", help="two logs, or one log with an option below")
    parser.add_argument(
        "--coordinators",
        action="store_true",
        help="compare the two coordinators on one log: a is the classic coordinator, b is the new coordinator",
    )
    parser.add_argument(
        "--since",
        type=options.parse_number,
        metavar="N",
        help="compare two moments of one log: a is the state before the first batch whose base offset is N or more",
    )
    parser.add_argument(
        "--since-time",
        type=options.parse_time,
        metavar="T",
        help="compare two moments of one log: a is the state at this time",
    )
    parser.add_argument(
        "--until",
        type=options.parse_number,
        metavar="N",
        help="load only batches whose base offset is below N (with --since or --since-time: only for b)",
    )
    options.add_until_time(parser)
    options.add_coordinator(parser)
    options.add_partitions(parser)
    options.add_max_batch_bytes(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    with spinner(" and ".join(args.paths)):
        groups_a, groups_b = _load_sides(args)
    differences = diff(groups_a, groups_b)
    if args.json:
        print(json.dumps({**differences, **options.rules_to_json(groups_a.kafka_rules)}))
    else:
        _print_sides(groups_a, groups_b, compares_moments=_compares_moments(args))
        _print_differences(differences)
    problems = list(dict.fromkeys([*groups_a.problems, *groups_b.problems]))  # Each problem once.
    for line in problems:
        options.print_error(line)
    return int(bool(problems))


def _compares_moments(args: argparse.Namespace) -> bool:
    return args.since is not None or args.since_time is not None


def _load_sides(args: argparse.Namespace) -> tuple[Groups, Groups]:
    """Load the two sides of the comparison, a and b, as the options say."""
    compares_moments = _compares_moments(args)
    if args.coordinators and compares_moments:
        raise UsageError("--coordinators cannot be used with --since or --since-time")
    path_count = 1 if args.coordinators or compares_moments else 2
    if len(args.paths) != path_count:
        raise UsageError("expected two PATHs, or one PATH with --coordinators, --since or --since-time")
    if args.coordinators and (args.coordinator or args.kafka):
        raise UsageError(
            "--coordinators compares the coordinators of 3.9.2 and 4.3.1: remove --coordinator and --kafka"
        )
    dialect = options.choose_dialect(args.coordinator, args.kafka)
    path_a = args.paths[0]
    path_b = args.paths[-1]  # Equal to path_a if one PATH is given.
    limits = {
        "partitions": args.partitions,
        "until": args.until,
        "until_time": args.until_time,
        "max_batch_bytes": args.max_batch_bytes,
    }
    if args.coordinators:
        return load(path_a, "classic", **limits), load(path_b, "new", **limits)
    limits_a = limits
    if compares_moments:
        limits_a = {**limits, "until": args.since, "until_time": args.since_time}
    groups_a = load(path_a, dialect.coordinator, dialect.kafka, **limits_a)
    groups_b = load(path_b, dialect.coordinator, dialect.kafka, **limits)
    return groups_a, groups_b


def _print_sides(groups_a: Groups, groups_b: Groups, *, compares_moments: bool) -> None:
    moment = ", the earlier moment" if compares_moments else ""
    print_line(f"a: {groups_a.path}{moment}, {groups_a.coordinator} coordinator of Kafka {groups_a.kafka}")
    print_line(f"b: {groups_b.path}, {groups_b.coordinator} coordinator of Kafka {groups_b.kafka}")


def _print_differences(differences: dict[str, dict[str, Any]]) -> None:
    """Print the result of `diff`. Each difference is a pair of values: a, b. None means no value."""
    if not any(differences.values()):
        print_line("No group, no offset and no pending commit differs.")
    if differences["groups"]:
        rows = [(group_id, *map(_format_group, pair)) for group_id, pair in differences["groups"].items()]
        print_table(("group", "a", "b"), rows)
    for table, title in (("offsets", "committed"), ("pending", "pending")):
        commits = [
            (group_id, topic_partition, *map(_format_commit, pair))
            for group_id, pairs in differences[table].items()
            for topic_partition, pair in pairs.items()
        ]
        if commits:
            print_table(("group", f"{title} topic-partition", "a", "b"), commits)


def _format_group(group: dict[str, object] | None) -> str:
    if group is None:
        return "-"
    members = group["members"]
    assert isinstance(members, list)
    return f"{group['type']} {group['state']} {group['protocol'] or ''} {len(members)} members"


def _format_commit(commit: object) -> str:
    """Return the text of a committed offset, or of a list of pending commits."""
    if commit is None:
        return "-"
    if isinstance(commit, list):
        return ", ".join(f"{pending['offset']} (producer {pending['producer_id']})" for pending in commit)
    assert isinstance(commit, dict)
    return f"{commit['offset']} {commit['metadata']}".strip()
