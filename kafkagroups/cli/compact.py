"""The command `compact`: write the segments that one pass of the log cleaner leaves."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from kafkagroups.api import compact
from kafkagroups.cli import options
from kafkagroups.cli.output import print_line
from kafkagroups.cli.progress import progress_bar
from kafkagroups.cli.tables import print_table
from kafkagroups.groups.after_damage import describe_rest
from kafkagroups.log.cleaner import Compaction
from kafkagroups.log.folders import open_logs
from kafkagroups.log.offset_map import DEFAULT_CAPACITY
from kafkagroups.records.dialects import DEFAULT_DIALECT

NAME = "compact"
HELP = "write the segments that one pass of Kafka 4.3.1's log cleaner leaves of a partition"
EXAMPLES = """\
examples:
  kafkagroups compact data/harbour/3.9.2/__consumer_offsets-9 --out cleaned
  kafkagroups compact LOG --out CLEANED --delete-retention-ms 0 --json
  kafkagroups compact CLEANED --out AGAIN --first-dirty 42    a second pass; the first pass printed 42"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a partition directory")
    parser.add_argument("--out", required=True, metavar="DIR", help="a new or empty folder for the segments")
    for flag, help_text in (
        ("--now-ms", "the time of the pass in ms since 1970 (default: the newest timestamp in the log)"),
        (
            "--delete-retention-ms",
            "how long tombstones and markers stay after the first pass that reads them, in ms "
            "(default: 86400000, one day)",
        ),
        (
            "--first-dirty",
            "the first offset that no earlier pass has cleaned (default, or if N is outside the log: the start of the "
            "log)",
        ),
        (
            "--first-uncleanable",
            "the pass stops at the start of the segment that contains this offset (default: the start of the active "
            "segment or the last stable offset, whichever comes first)",
        ),
        ("--segment-bytes", "the largest size of a merged segment in bytes (default: 104857600)"),
        (
            "--map-entries",
            "the number of keys that fit in the offset map, which stores the newest offset of each key "
            f"(default: {DEFAULT_CAPACITY}, as in a broker)",
        ),
        (
            "--producer-expiration-ms",
            "the time in ms after which an idle producer expires (default: 86400000, one day; -1: never)",
        ),
    ):
        # With SUPPRESS, an option that the user does not give is not in `args`, so `compact` uses its own default.
        parser.add_argument(flag, type=options.parse_number, metavar="N", default=argparse.SUPPRESS, help=help_text)
    options.add_local_engine(parser, verb="cleans")
    options.add_max_batch_bytes(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    # All names except these four are parameters of `compact`. "run" is in `args` too (cli/__init__.py).
    config = {name: value for name, value in vars(args).items() if name not in ("path", "out", "json", "run")}
    with progress_bar() as progress:
        compaction = compact(args.path, args.out, progress=progress, **config)
    if args.json:
        result = asdict(compaction)
        del result["damage"]  # The damage is printed on stderr.
        print(json.dumps(result))
    else:
        _print_text(args, compaction)
    sys.stdout.flush()
    if compaction.damage:
        damaged_log = open_logs(args.path)[0].limit_batches(args.max_batch_bytes)
        options.print_error(describe_rest(damaged_log, compaction.damage, DEFAULT_DIALECT))
    return int(compaction.damage is not None)


def _print_text(args: argparse.Namespace, compaction: Compaction) -> None:
    print_line(f"{args.path} after one pass of the cleaner, in {args.out}")
    columns = ("segments", "batches", "records", "bytes")
    before = [getattr(compaction.before, column) for column in columns]
    after = [getattr(compaction.after, column) for column in columns]
    removed = [count_before - count_after for count_before, count_after in zip(before, after, strict=True)]
    print_table(("", *columns), [("before", *before), ("after", *after), ("removed", *removed)])
    replaced_segments = compaction.groups  # For each new segment: the base offsets of the segments it replaces.
    if not replaced_segments:
        print_line("Nothing was cleaned: no dirty record is before the first uncleanable segment.")
        print_line(
            "Records from --first-dirty on are dirty. Without --first-dirty, or if --first-dirty is outside the log, "
            "all records are dirty."
        )
        print_line(
            "The first uncleanable segment is the segment that contains --first-uncleanable. Without "
            "--first-uncleanable, it is the segment in which the oldest open transaction begins, or the active segment "
            "if no transaction is open."
        )
        return
    for base_offsets in replaced_segments:
        if len(base_offsets) > 1:
            print_line(f"Segments {', '.join(map(str, base_offsets))} were merged.")
    next_dirty = compaction.next_dirty_offset
    print_line(f"The next dirty offset is {next_dirty}: run a second pass with --first-dirty {next_dirty}.")
