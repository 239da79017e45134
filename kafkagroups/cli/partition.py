"""`kafkagroups partition`: where groups live."""

from __future__ import annotations

import argparse
import json

from kafkagroups.cli.tables import printable
from kafkagroups.log.partitioning import partition_for

NAME = "partition"
HELP = "say on which partition of __consumer_offsets a group lives"
EXAMPLES = """\
examples:
  kafkagroups partition billing fraud-check
  kafkagroups partition billing --partitions 100 --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", metavar="GROUP", nargs="+", help="a group id")
    parser.add_argument("--partitions", type=int, default=50, metavar="N", help="offsets.topic.num.partitions (50)")
    parser.add_argument("--json", action="store_true", help='a line each: {"group":…,"partition":…}')


def run(args: argparse.Namespace) -> int:
    for group in args.groups:
        partition = partition_for(group, args.partitions)
        print(
            json.dumps({"group": group, "partition": partition}) if args.json else f"{partition:>4}  {printable(group)}"
        )
    return 0
