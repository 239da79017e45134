"""The command `compact`: write the segments that one pass of the log cleaner leaves."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from kafkagroups.api import compact
from kafkagroups.cli import options
from kafkagroups.cli.progress import progress_bar
from kafkagroups.cli.tables import escape, print_table
from kafkagroups.log.cleaner import Compaction
from kafkagroups.log.offset_map import DEFAULT_CAPACITY

NAME = "compact"
HELP = "clean a partition as one pass of Kafka 4.3.1's log cleaner does, into a new folder"
EXAMPLES = """\
examples:
  kafkagroups compact data/harbour/3.9.2/__consumer_offsets-9 --out cleaned
  kafkagroups compact LOG --out CLEANED --delete-retention-ms 0 --json
  kafkagroups compact CLEANED --out AGAIN --first-dirty 42    a second pass; the first one printed 42"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a partition directory")
    parser.add_argument("--out", required=True, metavar="DIR", help="a new or empty folder for the segments")
    for flag, help_text in (
        ("--now-ms", "the time of the pass in ms (the newest timestamp in the log)"),
        ("--delete-retention-ms", "how long a marked tombstone is retained, in ms (86400000, one day)"),
        (
            "--first-dirty",
            "the offset at which the dirty part begins (the log start, also used if N is outside the log)",
        ),
        (
            "--first-uncleanable",
            "the offset at which the pass stops, moved down to the start of its segment (the last possible offset)",
        ),
        ("--segment-bytes", "the largest size of a merged segment (104857600)"),
        (
            "--map-entries",
            f"the number of keys that fit in the offset map ({DEFAULT_CAPACITY}, the default of a broker)",
        ),
        ("--producer-expiration-ms", "ms after which an idle producer expires (86400000; -1: never)"),
    ):
        parser.add_argument(flag, type=int, metavar="N", default=argparse.SUPPRESS, help=help_text)
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    config = {name: value for name, value in vars(args).items() if name not in ("path", "out", "json", "run")}
    with progress_bar() as progress:
        compaction = compact(args.path, args.out, progress=progress, **config)
    if args.json:
        result = asdict(compaction)
        del result["damage"]
        print(json.dumps(result))
    else:
        _print_text(args, compaction)
    sys.stdout.flush()
    if compaction.damage:
        options.print_error(compaction.damage)
    return int(compaction.damage is not None)


def _print_text(args: argparse.Namespace, compaction: Compaction) -> None:
    print(escape(f"{args.path} after one pass of the cleaner, in {args.out}"))
    columns = ("segments", "batches", "records", "bytes")
    before = [asdict(compaction.before)[column] for column in columns]
    after = [asdict(compaction.after)[column] for column in columns]
    removed = [old - new for old, new in zip(before, after, strict=True)]
    print_table(("", *columns), [("before", *before), ("after", *after), ("removed", *removed)])
    if not compaction.groups:
        print("Nothing was cleaned: every record is in the active segment or after the start of an open transaction.")
        return
    for merged_segments in compaction.groups:
        if len(merged_segments) > 1:
            print(f"Segments {', '.join(map(str, merged_segments))} were merged.")
    print(f"The next dirty offset is {compaction.next_dirty_offset}; a second pass needs it as --first-dirty.")
