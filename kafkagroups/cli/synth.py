"""The command `synth`: write a synthetic topic of any size."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from kafkagroups.cli import options
from kafkagroups.cli.output import print_line
from kafkagroups.cli.progress import progress_bar
from kafkagroups.cli.tables import print_table
from kafkagroups.errors import UsageError
from kafkagroups.helpers import parse_whole_number
from kafkagroups.log.compression import CompressionType
from kafkagroups.synth import write

NAME = "synth"
HELP = "write a synthetic topic of any size, as segments that a broker can load"
EXAMPLES = """\
examples:
  kafkagroups synth --out topic --records 1M
  kafkagroups synth --out topic --records 10M --groups 10000 --keys 100 --width varied --skew 0 --generations
  kafkagroups synth --out topic --records 1M --transactional 0.5 --modern 0.2 --metadata 0.1 --codec lz4
  kafkagroups synth --out topic --records 1M --hot 0.5      half of the groups are in one partition

The same options give the same bytes. A fraction is a number from 0 to 1."""
MIN_RECORDS_FOR_BAR = 1_000_000
"""A progress bar is shown only for at least this number of records. Smaller topics take too little time."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="a new or empty folder for the partition directories"
    )
    parser.add_argument(
        "--records",
        required=True,
        type=parse_count,
        metavar="N",
        help="the number of records (200k, 10M), including transaction markers",
    )

    def add(section: Any, flag: str, parse: Callable[[str], Any], metavar: str, help_text: str, **others: Any) -> None:
        # With SUPPRESS, an option that the user does not give is not in `args`, so `write` uses its own default.
        section.add_argument(flag, type=parse, metavar=metavar, default=argparse.SUPPRESS, help=help_text, **others)

    groups = parser.add_argument_group("groups")
    add(groups, "--partitions", options.parse_number, "P", "the partition count of the topic (default: 50)")
    add(groups, "--groups", options.parse_number, "G", "the number of groups (default: 1000)")
    add(
        groups,
        "--keys",
        options.parse_number,
        "N",
        "the number of topic-partitions that each group commits (default: 8)",
    )
    help_text = "the n-th group commits in proportion to 1/n^F; with 0, all groups are equally busy (default: 1)"
    add(groups, "--skew", float, "F", help_text)
    help_text = "fraction of the groups that are stored in one partition, the hot partition (default: no hot partition)"
    add(groups, "--hot", float, "F", help_text)
    add(groups, "--transactional", float, "F", "fraction of the groups that commit in transactions (default: 0)")
    help_text = "fraction of the groups that use the new consumer protocol, KIP-848 (default: 0)"
    add(groups, "--modern", float, "F", help_text)
    add(groups, "--members", options.parse_number, "N", "the number of members of each group (default: 3)")
    add(groups, "--prefix", str, "TEXT", "the start of all group and topic names (default: no prefix)")

    records = parser.add_argument_group("records")
    help_text = "the number of records in a batch of offsets, or the word varied (default: 8)"
    add(records, "--width", _parse_width, "N", help_text)
    add(records, "--tombstones", float, "F", "fraction of the records that are tombstones (default: 0.02)")
    help_text = (
        "fraction of the records that belong to new generations (default: 0, or 0.01 with --modern); --generations "
        "without F means 0.01"
    )
    add(records, "--generations", float, "F", help_text, nargs="?", const=0.01)
    add(records, "--metadata", float, "F", "fraction of the commits that have a metadata string (default: 0)")
    add(records, "--aborts", float, "F", "fraction of the transactions that are aborted (default: 0.1)")
    add(records, "--hanging", float, "F", "fraction of the transactions that stay open (default: 0.001)")

    files = parser.add_argument_group("files")
    codec_names = ", ".join(codec.name.lower() for codec in CompressionType)
    add(files, "--codec", str, "C", f"the compression codec: {codec_names} (default: none)")
    add(
        files,
        "--segment-bytes",
        options.parse_number,
        "N",
        "the largest size of a segment in bytes (default: 104857600)",
    )
    add(files, "--seed", options.parse_number, "S", "the seed of the random choices (default: 0)")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    # All names except these four are settings of `write`. "run" is in `args` too (cli/__init__.py).
    settings = {name: value for name, value in vars(args).items() if name not in ("out", "records", "json", "run")}
    with progress_bar("records", min_total=MIN_RECORDS_FOR_BAR) as report:
        progress = partial(report, "writing") if report else None
        written = write(args.out, args.records, progress=progress, **settings)
    if args.json:
        print(json.dumps(written))
    else:
        _print_text(args.out, written)
    sys.stdout.flush()
    return 0


def parse_count(text: str) -> int:
    """Return the number that a text means, such as 1000000, 1M or 200k."""
    factors = {"k": 1000, "M": 1_000_000}
    suffix = text[-1:]
    try:
        if suffix not in factors:
            return parse_whole_number(text)
        return round(float(text[:-1]) * factors[suffix])
    except (UsageError, ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"expected a number such as 1000, 200k or 1M, found {text!r}") from None


def _parse_width(text: str) -> int | None:
    """Return the number of records in --width, or None for the word varied."""
    if text == "varied":
        return None
    try:
        return parse_whole_number(text)
    except UsageError:
        raise argparse.ArgumentTypeError(f"expected a number or the word varied, found {text!r}") from None


def _print_text(out: str, written: dict[str, Any]) -> None:
    columns = ("segments", "batches", "records", "bytes")
    partitions = written["partitions"]
    rows = [(number, *(counts[column] for column in columns)) for number, counts in partitions.items()]
    print_table(("partition", *columns), rows)
    record_count = sum(counts["records"] for counts in partitions.values())
    byte_count = sum(counts["bytes"] for counts in partitions.values())
    counts_text = f"{record_count} records, {byte_count} bytes in {len(partitions)} partitions"
    print_line(f"{counts_text} of {written['groups']} groups with {written['live_offsets']} live offsets, in {out}")
    transactions = written["transactions"]
    if any(transactions.values()):
        print_line("transactions: " + ", ".join(f"{number} {outcome}" for outcome, number in transactions.items()))
