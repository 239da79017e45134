"""`kafkagroups diff`: what differs between two logs, two moments of one log, or the two coordinators on one."""

from __future__ import annotations

import argparse
import json

from kafkagroups.api import diff, load
from kafkagroups.cli import options
from kafkagroups.cli.progress import spinner
from kafkagroups.cli.tables import escape, print_table
from kafkagroups.errors import UsageError
from kafkagroups.loading.groups import Groups

NAME = "diff"
HELP = "say what differs between two logs, two moments of one, or the two coordinators on one"
EXAMPLES = """\
examples:
  kafkagroups diff replica-1/__consumer_offsets-12 replica-2/__consumer_offsets-12
  kafkagroups diff LOG --coordinators
  kafkagroups diff LOG --since-time 2026-11-21T10:00 --until-time 2026-11-21T10:05"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", metavar="PATH", nargs="+", help="two logs, or one with the options below")
    parser.add_argument("--coordinators", action="store_true", help="one log: a is the classic one, b the new one")
    parser.add_argument("--since", type=int, metavar="N", help="one log: a is the state as of this offset")
    parser.add_argument("--since-time", type=options.parse_time, metavar="T", help="one log: a is the state then")
    parser.add_argument("--until", type=int, metavar="N", help="both, or with --since b, as of this offset")
    options.add_until_time(parser)
    options.add_coordinator(parser)
    parser.add_argument("--partitions", type=int, metavar="N", help="the topic's partition count")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    with spinner(" and ".join(args.paths)):
        a, b = _sides(args)
    found = diff(a, b)
    if args.json:
        print(json.dumps(found))
    else:
        for letter, side in (("a", a), ("b", b)):
            moment = " (as of --since)" if letter == "a" and (args.since, args.since_time) != (None, None) else ""
            print(escape(f"{letter}: {side.path}{moment}, {side.coordinator} coordinator of Kafka {side.kafka}"))
        for title, rows in (
            (("group", "a", "b"), [(name, *map(_group, pair)) for name, pair in found["groups"].items()]),
            *(
                (
                    ("group", f"{what} topic-partition", "a", "b"),
                    [
                        (name, key, *map(_commit, pair))
                        for name, keys in found[kind].items()
                        for key, pair in keys.items()
                    ],
                )
                for kind, what in (("offsets", "committed"), ("pending", "pending"))
            ),
        ):
            if rows:
                print_table(title, rows)
        if not any(found.values()):
            print("No group, no offset and no pending commit differs.")
    problems = list(dict.fromkeys([*a.problems, *b.problems]))
    for line in problems:
        options.print_error(line)
    return int(bool(problems))


def _sides(args: argparse.Namespace) -> tuple[Groups, Groups]:
    moments = args.since is not None or args.since_time is not None
    if len(args.paths) != (1 if args.coordinators or moments else 2) or (args.coordinators and moments):
        raise UsageError("two PATHs were expected, or one with --coordinators or with --since or --since-time")
    if args.coordinators and (args.coordinator or args.kafka):
        raise UsageError("--coordinators compares 3.9.2's and 4.3.1's; --coordinator and --kafka choose one")
    rules = options.choose_dialect(args.coordinator, args.kafka)

    def side(path: str, coordinator: str, kafka: str | None, first: bool = False) -> Groups:
        until, until_time = (args.since, args.since_time) if first else (args.until, args.until_time)
        return load(path, coordinator, kafka, partitions=args.partitions, until=until, until_time=until_time)

    if args.coordinators:
        return side(args.paths[0], "classic", None), side(args.paths[0], "new", None)
    if moments:
        return side(args.paths[0], rules.coordinator, rules.kafka, first=True), side(
            args.paths[0], rules.coordinator, rules.kafka
        )
    a, b = (side(path, rules.coordinator, rules.kafka) for path in args.paths)
    return a, b


def _group(shown: dict[str, object] | None) -> str:
    if shown is None:
        return "-"
    members = shown["members"]
    assert isinstance(members, list)
    return escape(f"{shown['type']} {shown['state']} {shown['protocol'] or ''} {len(members)} members")


def _commit(shown: object) -> str:
    if shown is None:
        return "-"
    if isinstance(shown, list):
        return ", ".join(f"{commit['offset']} (producer {commit['producer_id']})" for commit in shown)
    assert isinstance(shown, dict)
    return escape(f"{shown['offset']} {shown['metadata']}".strip())
