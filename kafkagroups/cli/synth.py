"""The command `synth`: write a synthetic topic of any size."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from kafkagroups.cli.progress import progress_bar
from kafkagroups.cli.tables import escape, print_table
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
LARGE_TOPIC = 1_000_000
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

    def add(
        section: Any, flag: str, parse: Callable[[str], Any], metavar: str, help_text: str, **settings: Any
    ) -> None:
        # With SUPPRESS, an option that the user does not give is not in `args`, so `write` uses its own default.
        section.add_argument(flag, type=parse, metavar=metavar, default=argparse.SUPPRESS, help=help_text, **settings)

    groups = parser.add_argument_group("groups")
    add(groups, "--partitions", int, "P", "the partition count of the offsets topic (50)")
    add(groups, "--groups", int, "G", "the number of groups, each in its own partition of the topic (1000)")
    add(groups, "--keys", int, "N", "the number of topic-partitions that a group commits (8)")
    add(
        groups, "--skew", float, "F", "the n-th group commits in proportion to 1/n^F: 1 is Zipf's law, 0 is uniform (1)"
    )
    add(groups, "--hot", float, "F", "fraction of the groups that are in one partition (0: as the group names decide)")
    add(groups, "--transactional", float, "F", "fraction of the groups that commit in transactions (0)")
    add(groups, "--modern", float, "F", "fraction of the groups that use the new protocol, KIP-848 (0)")
    add(groups, "--members", int, "N", "the number of members of a group (3)")
    add(groups, "--prefix", str, "TEXT", "the prefix of all names (none)")

    records = parser.add_argument_group("records")
    add(records, "--width", _parse_width, "N", "records per batch of offsets, or: varied (8)")
    add(records, "--tombstones", float, "F", "fraction of the records that are tombstones (0.02)")
    help_text = "fraction of the records that are group records (0; 0.01 without a number, or with --modern)"
    add(records, "--generations", float, "F", help_text, nargs="?", const=0.01)
    add(records, "--metadata", float, "F", "fraction of the commits that have a metadata string (0)")
    add(records, "--aborts", float, "F", "fraction of the transactions that are aborted (0.1)")
    add(records, "--hanging", float, "F", "fraction of the transactions that stay open (0.001)")

    files = parser.add_argument_group("files")
    names = [codec.name.lower() for codec in CompressionType]
    add(files, "--codec", str, "C", f"{', '.join(names)} (none)")
    add(files, "--segment-bytes", int, "N", "the largest size of a segment (104857600)")
    add(files, "--seed", int, "S", "the seed of the random choices (0)")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    settings = {name: value for name, value in vars(args).items() if name not in ("out", "records", "json", "run")}
    with progress_bar("records", min_total=LARGE_TOPIC) as report:
        progress = partial(report, "writing") if report else None
        written = write(args.out, args.records, progress=progress, **settings)
    if args.json:
        print(json.dumps(written))
    else:
        _print_text(args.out, written)
    sys.stdout.flush()
    return 0


def parse_count(text: str) -> int:
    """Return the number of a text such as 1000000, 1M or 200k."""
    factor = {"k": 1000, "M": 1_000_000}.get(text[-1:], 1)
    try:
        return int(text) if factor == 1 else round(float(text[:-1]) * factor)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"expected a number such as 1000, 200k or 1M, found {text!r}") from None


def _parse_width(text: str) -> int | None:
    if text == "varied":
        return None
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number or the word varied, found {text!r}") from None


def _print_text(out: str, written: dict[str, Any]) -> None:
    columns = ("segments", "batches", "records", "bytes")
    parts = written["partitions"]
    print_table(
        ("partition", *columns), [(number, *(part[column] for column in columns)) for number, part in parts.items()]
    )
    sums = {column: sum(part[column] for part in parts.values()) for column in columns}
    print(f"{sums['records']} records, {sums['bytes']} bytes in {len(parts)} partitions", end=" ")
    print(escape(f"of {written['groups']} groups with {written['live_offsets']} live offsets, in {out}"))
    if any(written["transactions"].values()):
        print("transactions:", ", ".join(f"{number} {outcome}" for outcome, number in written["transactions"].items()))
