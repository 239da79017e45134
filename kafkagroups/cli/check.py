"""The command `check`: the verdict before a failover, an upgrade or a downgrade."""

from __future__ import annotations

import argparse
import json
import sys

from kafkagroups.api import check
from kafkagroups.cli import options
from kafkagroups.cli.check_text import print_check
from kafkagroups.cli.progress import spinner
from kafkagroups.errors import UsageError
from kafkagroups.history.check import Check
from kafkagroups.history.event import count_of, list_names

NAME = "check"
HELP = "say whether the next failover, or a broker after an upgrade or downgrade, loads a log"
EXAMPLES = """\
examples:
  kafkagroups check /var/lib/kafka/data --kafka 4.3.1
  kafkagroups check /var/lib/kafka/data --coordinator classic --kafka 3.9.2 --to 4.3.1
  kafkagroups check LOG --kafka 4.1.1 --json

The exit code is 1 if a partition fails to load or is damaged."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser, "; each PATH is checked independently")
    options.add_coordinator(parser)
    options.add_partitions(parser)
    parser.add_argument(
        "--to",
        metavar="VERSION",
        help="judge an upgrade or downgrade to this Kafka version, and show what it refuses, skips or answers "
        "differently",
    )
    parser.add_argument(
        "--to-coordinator",
        choices=("classic", "new"),
        help="the coordinator of the version in --to (default: the same one, if the version has it)",
    )
    options.add_local_engine(parser)
    options.add_max_batch_bytes(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per PATH")


def run(args: argparse.Namespace) -> int:
    dialect = options.choose_dialect(args.coordinator, args.kafka)
    status = 0
    for path in args.paths:
        try:
            with spinner(path):
                verdict = check(
                    path,
                    dialect.coordinator,
                    dialect.kafka,
                    partitions=args.partitions,
                    to=args.to,
                    to_coordinator=args.to_coordinator,
                    engine=args.engine,
                    max_batch_bytes=args.max_batch_bytes,
                )
        except UsageError as error:
            options.print_error(error)
            status = 2
            continue
        if args.json:
            print(json.dumps(verdict.to_json()))
        else:
            print_check(verdict)
        sys.stdout.flush()
        if not verdict.is_sound:
            options.print_error(_describe_problem(verdict))
            status = max(status, 1)
    return status


def _describe_problem(verdict: Check) -> str:
    """Return one line that names the partitions that fail to load or are damaged."""
    failed = [number for number, partition in verdict.partitions.items() if not partition.loads]
    damaged = [number for number, partition in verdict.partitions.items() if partition.damage is not None]
    problems = []
    if failed:
        kafka = verdict.judged.kafka
        problems.append(f"Kafka {kafka} fails to load {count_of(len(failed), 'partition')} ({list_names(failed)})")
    if damaged:
        problems.append(f"{count_of(len(damaged), 'partition')} damaged ({list_names(damaged)})")
    return f"{verdict.path}: {'; '.join(problems)}"
