"""The command `edit`."""

from __future__ import annotations

import argparse

from kafkagroups.cli import answers
from kafkagroups.cli.options import Parser, print_newer
from kafkagroups.cli.output import print_json, print_line, spinner
from kafkagroups.history.finding import count_of
from kafkagroups.repair.edit import edit

STEPS = """
--commit G:TP=OFFSET[@MS]  group G commits OFFSET for TP, at MS (default: the newest timestamp in the log)
--tombstone G:TP  delete the offset of group G for TP
--delete-group G  append the tombstones with which a coordinator deletes group G and its offsets
--marker commit|abort:PRODUCER_ID  commit or abort the open transaction of this producer
--roll  close the active segment and begin a new segment
--cut OFFSET  remove the first batch with OFFSET or a higher offset, and what follows, as a broker truncates its log
--cut-time MS  remove the first batch with a timestamp after MS, and what follows; MS is in ms since 1970 or ISO 8601
--clean MS  run one pass of Kafka 4.3.1's log cleaner at the time MS; a second pass begins where the first one ended
"""
ARGUMENTS = """
PATH  a partition directory; it is never changed
--out
--coordinator classic|new  the coordinator that would write the new records (default: the one that wrote the log)
--kafka VERSION  the Kafka version that would write the new records (default: their layout is that of the log's records)
--json
"""
NOTES = """\
The steps are carried out in the order of their options. TP is TOPIC-PARTITION. In G:TP, the last ":" ends the group id
G, which can itself contain ":", and the last "-" before a number ends the topic name. A pass never cleans the active
segment, and it stops at the first open transaction. So --marker and --roll can come before --clean.
"""
EXAMPLES = """\
  kafkagroups edit data/harbour/3.9.2/__consumer_offsets-9 --out edited --commit billing:invoices-0=42
  kafkagroups edit LOG --out EDITED --marker abort:4 --roll --clean 1700000000000
  kafkagroups edit LOG --out EDITED --cut 31 --delete-group billing --json"""


def add_steps(parser: Parser) -> None:
    parser.set_defaults(steps=[])
    parser.declare(STEPS, action=_AddStep)


class _AddStep(argparse.Action):
    """Options of several kinds keep their order."""

    def __call__(self, parser: object, namespace: argparse.Namespace, values: object, option: object = None) -> None:
        text = None if values == [] else values
        namespace.steps = [*namespace.steps, (self.dest.replace("_", "-"), text)]


def run(args: argparse.Namespace) -> int:
    print_newer(args.kafka)
    with spinner(args.path):
        result = edit(args.path, args.out, args.steps, coordinator=args.coordinator, kafka=args.kafka)
    if args.json:
        print_json(result.to_json())
    else:
        for step in result.steps:
            print_line(step.what)
        segments = count_of(len(result.segments), "segment")
        print_line(f"{result.out}: {segments}, start offset {result.start_offset}, next offset {result.next_offset}")
    return answers.print_problems([str(result.damage)] if result.damage else [])
