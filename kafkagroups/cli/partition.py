"""The command `partition`."""

from __future__ import annotations

from kafkagroups.cli.options import Options
from kafkagroups.cli.output import print_json, print_line
from kafkagroups.log.segment_file import DEFAULT_PARTITION_COUNT, partition_for

ARGUMENTS = f"""
GROUP...  a group id
--partitions N={DEFAULT_PARTITION_COUNT}  the partition count of __consumer_offsets: the broker's
    offsets.topic.num.partitions
--json  one line per group: {{"group":…,"partition":…}}
"""
EXAMPLES = """\
  kafkagroups partition billing fraud-check
  kafkagroups partition billing --partitions 100 --json"""


def run(args: Options) -> int:
    for group in args.groups:
        partition = partition_for(group, args.partitions)
        if args.json:
            print_json({"group": group, "partition": partition})
        else:
            print_line(f"{partition:>4}  {group}")
    return 0
