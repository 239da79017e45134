"""The command `diff`: compare two logs, two moments of a log, or the two coordinators.

The two sides of the comparison are called a and b.
"""

from __future__ import annotations

import argparse
import json

from kafkagroups.api import compare_replicas, load
from kafkagroups.cli import options
from kafkagroups.cli.diff_text import Comparison, print_comparison
from kafkagroups.cli.progress import spinner
from kafkagroups.cli.topic_partitions import print_topic_partitions_of_sides, topic_partitions_of_sides
from kafkagroups.errors import UsageError
from kafkagroups.history.replicas import Replicas

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
    options.add_past_damage(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    compares_moments = _compares_moments(args)
    _check_paths(args)
    with spinner(" and ".join(args.paths)):
        result = _compare_sides(args)
    if args.json:
        found = result.to_json() if isinstance(result, Replicas) else result.differences
        topic = topic_partitions_of_sides(result.a.topic_partitions, result.b.topic_partitions)
        print(json.dumps({**found, **topic, **options.rules_to_json(result.a.kafka_rules)}))
    else:
        print_comparison(result, compares_moments=compares_moments)
        print_topic_partitions_of_sides(result.a, result.b)
        # Of two moments of one log, the later one has all gaps.
        for groups in {side.path: side for side in (result.a, result.b)}.values():
            options.print_gaps({number: loaded.gaps for number, loaded in groups.partitions.items()})
    for line in result.problems:
        options.print_error(line)
    return int(bool(result.problems))


def _compares_moments(args: argparse.Namespace) -> bool:
    return args.since is not None or args.since_time is not None


def _check_paths(args: argparse.Namespace) -> None:
    """Raise UsageError if the options contradict each other, or if the number of paths does not fit the options."""
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


def _compare_sides(args: argparse.Namespace) -> Comparison | Replicas:
    """Load and compare the two sides, a and b, as the options say. Two paths are compared as replicas.

    With --past-damage, no fork is looked for: the records in a gap are missing, and a fork would look the same.
    """
    dialect = options.choose_dialect(args.coordinator, args.kafka)
    limits = {
        "partitions": args.partitions,
        "until": args.until,
        "until_time": args.until_time,
        "max_batch_bytes": args.max_batch_bytes,
    }
    loading = {**limits, "past_damage": args.past_damage}
    path = args.paths[0]
    if args.coordinators:
        return Comparison(load(path, "classic", **loading), load(path, "new", **loading))
    if _compares_moments(args):
        earlier = {**loading, "until": args.since, "until_time": args.since_time}
        groups_a = load(path, dialect.coordinator, dialect.kafka, **earlier)
        return Comparison(groups_a, load(path, dialect.coordinator, dialect.kafka, **loading))
    if args.past_damage:
        sides = [load(side, dialect.coordinator, dialect.kafka, **loading) for side in args.paths]
        return Comparison(*sides)
    return compare_replicas(path, args.paths[1], dialect.coordinator, dialect.kafka, **limits)
