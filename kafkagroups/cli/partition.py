"""The command `partition`: the partition of __consumer_offsets that stores a group."""

from __future__ import annotations

import argparse
import json

from kafkagroups.cli import options
from kafkagroups.cli.output import print_line
from kafkagroups.log.partitioning import partition_for

NAME = "partition"
HELP = "print the partition of __consumer_offsets that stores a group"
EXAMPLES = """\
examples:
  kafkagroups partition billing fraud-check
  kafkagroups partition billing --partitions 100 --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", metavar="GROUP", nargs="+", help="a group id")
    parser.add_argument(
        "--partitions",
        type=options.parse_number,
        default=50,
        metavar="N",
        help="the partition count of __consumer_offsets (the broker's offsets.topic.num.partitions; default: 50)",
    )
    parser.add_argument("--json", action="store_true", help='one line per group: {"group":…,"partition":…}')


def run(args: argparse.Namespace) -> int:
    for group in args.groups:
        partition = partition_for(group, args.partitions)
        if args.json:
            print(json.dumps({"group": group, "partition": partition}))
        else:
            print_line(f"{partition:>4}  {group}")
    return 0
