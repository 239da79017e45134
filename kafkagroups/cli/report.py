"""The command `report`: one HTML page about logs, with findings and remedies first."""

from __future__ import annotations

import argparse

from kafkagroups.api import report
from kafkagroups.cli import options
from kafkagroups.cli.output import print_line
from kafkagroups.cli.progress import spinner
from kafkagroups.errors import UsageError
from kafkagroups.history.event import count_of
from kafkagroups.topic import Topic

NAME = "report"
HELP = "write one HTML page about logs: findings with remedies, history, transactions, size, offsets"
EXAMPLES = """\
examples:
  kafkagroups report /var/lib/kafka/data --out report.html --kafka 3.9.2
  kafkagroups report broker-1 broker-2 --out report.html       two logs; if they fork, where

The page contains everything that it needs. It makes no request to any host, and
it runs no script."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    parser.add_argument("--out", required=True, metavar="FILE", help="the HTML file; an existing file is replaced")
    options.add_coordinator(parser)
    options.add_partitions(parser)
    options.add_local_engine(parser)
    options.add_max_batch_bytes(parser)


def run(args: argparse.Namespace) -> int:
    dialect = options.choose_dialect(args.coordinator, args.kafka)
    paths = []
    status = 0
    for path in args.paths:
        try:
            Topic(path, dialect.coordinator, dialect.kafka, partitions=args.partitions).open()
        except UsageError as error:
            options.print_error(error)
            status = 2
        else:
            paths.append(path)
    if not paths:
        return status
    with spinner(args.out):
        result = report(
            paths,
            args.out,
            coordinator=dialect.coordinator,
            kafka=dialect.kafka,
            partitions=args.partitions,
            engine=args.engine,
            max_batch_bytes=args.max_batch_bytes,
        )
    findings = count_of(len(result.findings), "finding") if result.findings else "no findings"
    print_line(f"{args.out}: {findings}.")
    for line in result.problems:
        options.print_error(line)
    return max(status, int(bool(result.problems)))
