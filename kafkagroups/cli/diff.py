"""The command `diff`: compare two logs, two moments of a log, or the two coordinators."""

from __future__ import annotations

import argparse
import json
from typing import Any

from kafkagroups.api import diff, load
from kafkagroups.cli import options
from kafkagroups.cli.progress import spinner
from kafkagroups.cli.tables import escape, print_table
from kafkagroups.errors import UsageError
from kafkagroups.loading.groups import Groups

NAME = "diff"
HELP = "show the differences between two logs, two moments of one log, or the two coordinators on one log"
EXAMPLES = """\
examples:
  kafkagroups diff replica-1/__consumer_offsets-12 replica-2/__consumer_offsets-12
  kafkagroups diff LOG --coordinators
  kafkagroups diff LOG --since-time 2026-11-21T10:00 --until-time 2026-11-21T10:05"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", metavar="PATH", nargs="+", help="two logs, or one log with an option below")
    parser.add_argument(
        "--coordinators", action="store_true", help="one log: a is the classic coordinator, b the new one"
    )
    parser.add_argument(
        "--since",
        type=int,
        metavar="N",
        help="one log: a is the state before the first batch whose base offset is N or more",
    )
    parser.add_argument(
        "--since-time", type=options.parse_time, metavar="T", help="one log: a is the state at this time"
    )
    parser.add_argument(
        "--until",
        type=int,
        metavar="N",
        help="a and b (only b, if --since is given): only batches whose base offset is below N",
    )
    options.add_until_time(parser)
    options.add_coordinator(parser)
    options.add_partitions(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    with spinner(" and ".join(args.paths)):
        a, b = _load_sides(args)
    differences = diff(a, b)
    if args.json:
        print(json.dumps(differences))
    else:
        _print_sides(a, b, is_moment=args.since is not None or args.since_time is not None)
        _print_differences(differences)
    problems = list(dict.fromkeys([*a.problems, *b.problems]))
    for line in problems:
        options.print_error(line)
    return int(bool(problems))


def _load_sides(args: argparse.Namespace) -> tuple[Groups, Groups]:
    """Load the two sides of the comparison, a and b, as the options say."""
    is_moment = args.since is not None or args.since_time is not None
    is_one_log = args.coordinators or is_moment
    if len(args.paths) != (1 if is_one_log else 2) or (args.coordinators and is_moment):
        raise UsageError("expected two PATHs, or one PATH with --coordinators, --since or --since-time")
    if args.coordinators and (args.coordinator or args.kafka):
        raise UsageError(
            "--coordinators compares the coordinators of 3.9.2 and 4.3.1: remove --coordinator and --kafka"
        )
    dialect = options.choose_dialect(args.coordinator, args.kafka)
    path = args.paths[0]
    limits = {"partitions": args.partitions, "until": args.until, "until_time": args.until_time}

    if args.coordinators:
        return load(path, "classic", **limits), load(path, "new", **limits)
    a_path, b_path = (path, path) if is_moment else args.paths
    a_limits = {**limits, "until": args.since, "until_time": args.since_time} if is_moment else limits
    a = load(a_path, dialect.coordinator, dialect.kafka, **a_limits)
    b = load(b_path, dialect.coordinator, dialect.kafka, **limits)
    return a, b


def _print_sides(a: Groups, b: Groups, is_moment: bool) -> None:
    moment = " (as of --since)" if is_moment else ""
    print(escape(f"a: {a.path}{moment}, {a.coordinator} coordinator of Kafka {a.kafka}"))
    print(escape(f"b: {b.path}, {b.coordinator} coordinator of Kafka {b.kafka}"))


def _print_differences(differences: dict[str, dict[str, Any]]) -> None:
    if not any(differences.values()):
        print("No group, no offset and no pending commit differs.")
    if differences["groups"]:
        rows = [(name, *map(_format_group, sides)) for name, sides in differences["groups"].items()]
        print_table(("group", "a", "b"), rows)
    for table, title in (("offsets", "committed"), ("pending", "pending")):
        commits = [
            (name, key, *map(_format_commit, sides))
            for name, keys in differences[table].items()
            for key, sides in keys.items()
        ]
        if commits:
            print_table(("group", f"{title} topic-partition", "a", "b"), commits)


def _format_group(group: dict[str, object] | None) -> str:
    if group is None:
        return "-"
    members = group["members"]
    assert isinstance(members, list)
    return escape(f"{group['type']} {group['state']} {group['protocol'] or ''} {len(members)} members")


def _format_commit(commit: object) -> str:
    """Return the text of a committed offset, or of a list of pending commits."""
    if commit is None:
        return "-"
    if isinstance(commit, list):
        return ", ".join(f"{pending['offset']} (producer {pending['producer_id']})" for pending in commit)
    assert isinstance(commit, dict)
    return escape(f"{commit['offset']} {commit['metadata']}".strip())
