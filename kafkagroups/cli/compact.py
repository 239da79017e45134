"""`kafkagroups compact`: what one pass of the log cleaner leaves of a partition."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from kafkagroups.api import compact
from kafkagroups.cli import options
from kafkagroups.cli.progress import progress_bar
from kafkagroups.cli.tables import printable, table
from kafkagroups.log.cleaner import Compaction
from kafkagroups.log.offset_map import DEFAULT_CAPACITY

NAME = "compact"
HELP = "write what one pass of Kafka 4.3.1's log cleaner leaves of a partition"
EXAMPLES = """\
examples:
  kafkagroups compact data/harbour/3.9.2/__consumer_offsets-9 --out cleaned
  kafkagroups compact LOG --out CLEANED --delete-retention-ms 0 --json
  kafkagroups compact CLEANED --out AGAIN --first-dirty 42    a second pass: 42 is what the first one said"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a partition directory")
    parser.add_argument("--out", required=True, metavar="DIR", help="a new or empty folder for the segments")
    for flag, help_text in (
        ("--now-ms", "the time of the pass (the newest time in the log)"),
        ("--delete-retention-ms", "how long a tombstone stays once it was marked (86400000, a day)"),
        ("--first-dirty", "up to which offset the log is clean (the log's start, also for an offset outside the log)"),
        ("--first-uncleanable", "where the pass stops, moved down to its segment's start (as far as may be)"),
        ("--segment-bytes", "the largest segment to make of several (104857600)"),
        ("--map-entries", f"keys that fit in the offset map ({DEFAULT_CAPACITY}, a broker's default)"),
        ("--producer-expiration-ms", "after which time a producer is forgotten (86400000; -1: never)"),
    ):
        parser.add_argument(flag, type=int, metavar="N", default=argparse.SUPPRESS, help=help_text)
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    given = {name: value for name, value in vars(args).items() if name not in ("path", "out", "json", "run")}
    with progress_bar() as progress:
        done = compact(args.path, args.out, progress=progress, **given)
    if args.json:
        answer = asdict(done)
        del answer["damage"]
        print(json.dumps(answer))
    else:
        _print(args, done)
    sys.stdout.flush()
    if done.damage:
        options.complain(done.damage)
    return int(done.damage is not None)


def _print(args: argparse.Namespace, done: Compaction) -> None:
    print(printable(f"{args.path} after one pass of the cleaner, in {args.out}"))
    columns = ("segments", "batches", "records", "bytes")
    before, after = ([asdict(size)[column] for column in columns] for size in (done.before, done.after))
    gone = [a - b for a, b in zip(before, after, strict=True)]
    table(("", *columns), [("before", *before), ("after", *after), ("gone", *gone)])
    if not done.groups:
        print("nothing was dirty: all is in the active segment, or waits for an open transaction")
        return
    for group in done.groups:
        if len(group) > 1:
            print(f"segments {', '.join(map(str, group))} became one")
    print(f"next dirty offset {done.next_dirty_offset}: a second pass takes it as --first-dirty")
