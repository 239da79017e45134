"""The command `pull`: copy the topic __consumer_offsets of a running cluster into segment files."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import asdict
from functools import partial

from kafkagroups.cli import connection, options
from kafkagroups.cli.output import print_line
from kafkagroups.cli.progress import progress_bar
from kafkagroups.cli.tables import print_table
from kafkagroups.repair.pull import PullResult, pull

NAME = "pull"
HELP = "copy __consumer_offsets of a running cluster into segment files, byte for byte, with control batches"
EXAMPLES = """\
examples:
  kafkagroups pull --bootstrap broker-1:9092 --out pulled
  kafkagroups load pulled
  kafkagroups pull --bootstrap broker-1:9092,broker-2:9092 --partitions 0,3,7-9 --out pulled --json
  kafkagroups pull --bootstrap broker-1:9093 --out pulled --security-protocol SASL_SSL --cafile ca.pem \\
      --sasl-mechanism SCRAM-SHA-512 --user auditor --password-file secret

The user needs the rights to describe and to read the topic __consumer_offsets. Passwords are read from files or from
the environment: KAFKAGROUPS_PASSWORD for SASL, KAFKAGROUPS_KEY_PASSWORD for the key file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    connection.add_arguments(parser)
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="a new or empty folder for the partition directories"
    )
    parser.add_argument(
        "--partitions", type=parse_numbers, metavar="LIST", help="only these partitions, such as 0,3,7-9 (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    security = connection.build_security(args)
    with progress_bar("offsets", min_total=0) as report:
        progress = partial(report, "pulling") if report else None
        pulled = pull(
            args.bootstrap,
            args.out,
            partitions=args.partitions,
            security=security,
            progress=progress,
            max_wait=args.max_wait,
            on_wait=options.print_error,
        )
    if args.json:
        print(json.dumps({"partitions": {str(number): asdict(part) for number, part in pulled.partitions.items()}}))
    else:
        _print_text(args.out, pulled)
    sys.stdout.flush()
    for line in pulled.problems:
        options.print_error(line)
    return int(bool(pulled.problems))


def parse_numbers(text: str) -> list[int]:
    """Return the numbers in a text such as 0,3,7-9, in ascending order."""
    error = argparse.ArgumentTypeError(f"expected numbers and ranges such as 0,3,7-9, found {text!r}")
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(?P<first>[0-9]{1,6})(?:-(?P<last>[0-9]{1,6}))?", part)
        if not match:
            raise error
        first = int(match["first"])
        last = int(match["last"] or first)
        if last < first:
            raise error
        numbers.update(range(first, last + 1))
    return sorted(numbers)


def _print_text(out: str, pulled: PullResult) -> None:
    partitions = pulled.partitions
    rows = [
        (number, partition.first, partition.next, partition.bytes)
        for number, partition in partitions.items()
        if partition.bytes
    ]
    print_table(("partition", "first", "next", "bytes"), rows)
    total_bytes = sum(partition.bytes for partition in partitions.values())
    empty_count = len(partitions) - len(rows)
    print_line(f"{total_bytes} bytes of {len(partitions)} partitions, {empty_count} of them empty, in {out}")
