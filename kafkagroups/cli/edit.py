"""The command `edit`: change a copy of a partition's log, step by step."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from kafkagroups.cli import options
from kafkagroups.cli.output import print_line
from kafkagroups.cli.progress import spinner
from kafkagroups.repair.edit import edit

NAME = "edit"
HELP = "copy a partition's log and change the copy: new records, markers, cuts, cleaning passes"
EXAMPLES = """\
The steps are carried out in the order of their options. TP is TOPIC-PARTITION. In G:TP, the last ":" ends the group id
G, which can itself contain ":", and the last "-" before a number ends the topic name.

A pass never cleans the active segment, and it stops at the first open transaction. So --marker and
--roll can come before --clean. A second pass cleans only if records were appended and rolled after the first one.

examples:
  kafkagroups edit data/harbour/3.9.2/__consumer_offsets-9 --out edited --commit billing:invoices-0=42
  kafkagroups edit LOG --out EDITED --marker abort:4 --roll --clean 1700000000000
  kafkagroups edit LOG --out EDITED --cut 31 --delete-group billing --json"""

_TEXTS = (
    ("commit", "G:TP=OFFSET[@MS]", "group G commits OFFSET for TP, at MS (default: the newest timestamp in the log)"),
    ("tombstone", "G:TP", "delete the offset of group G for TP"),
    ("delete-group", "G", "append the tombstones with which a coordinator deletes group G and its offsets"),
    ("marker", "commit|abort:PRODUCER_ID", "commit or abort the open transaction of this producer"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a partition directory; it is never changed")
    parser.add_argument("--out", required=True, metavar="DIR", help="a new or empty folder for the segments")
    parser.set_defaults(steps=[])
    for name, form, help_text in _TEXTS:
        parser.add_argument(f"--{name}", action=_AddStep, metavar=form, help=help_text)
    parser.add_argument("--roll", action=_AddStep, nargs=0, help="close the active segment and begin a new segment")
    parser.add_argument(
        "--cut",
        action=_AddStep,
        metavar="OFFSET",
        help="remove the first batch that contains OFFSET or a higher offset, and everything after it, as a broker "
        "does when it truncates its log",
    )
    parser.add_argument(
        "--cut-time",
        action=_AddStep,
        type=options.parse_time,
        metavar="MS",
        help="remove the first batch with a timestamp after MS, and everything after it; MS is in ms since 1970, or in "
        "ISO 8601 (UTC, if it has no time zone)",
    )
    parser.add_argument(
        "--clean",
        action=_AddStep,
        type=options.parse_time,
        metavar="MS",
        help="run one pass of Kafka 4.3.1's log cleaner at the time MS; a second pass begins where the first one ended",
    )
    parser.add_argument(
        "--coordinator",
        choices=("classic", "new"),
        help="the coordinator that would write the new records (default: the one that wrote the log)",
    )
    parser.add_argument(
        "--kafka",
        metavar="VERSION",
        help="the Kafka version that would write the new records (default: their layout is that of the log's records)",
    )
    parser.add_argument(
        "--partitions",
        type=options.parse_number,
        metavar="N",
        help="the partition count of __consumer_offsets; groups that another partition stores are then refused",
    )
    parser.add_argument(
        "--delete-retention-ms",
        type=options.parse_number,
        default=86_400_000,
        metavar="N",
        help="for --clean: how long tombstones and markers stay after the first pass that reads them, in ms "
        "(default: 86400000, one day)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


class _AddStep(argparse.Action):
    """Adds an option to the list of steps. Options of several kinds keep their order."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        text = None if values == [] else values
        namespace.steps = [*namespace.steps, (self.dest.replace("_", "-"), text)]


def run(args: argparse.Namespace) -> int:
    with spinner(args.path):
        result = edit(
            args.path,
            args.out,
            args.steps,
            coordinator=args.coordinator,
            kafka=args.kafka,
            partitions=args.partitions,
            delete_retention_ms=args.delete_retention_ms,
        )
    if args.json:
        print(json.dumps(result.to_json()))
    else:
        for step in result.steps:
            print_line(step.what)
        segments = "1 segment" if len(result.segments) == 1 else f"{len(result.segments)} segments"
        print_line(f"{result.out}: {segments}, start offset {result.start_offset}, next offset {result.next_offset}")
    sys.stdout.flush()
    if result.damage:
        options.print_error(result.damage)
    return int(result.damage is not None)
