"""The command `synth`."""

from __future__ import annotations

from functools import partial

from kafkagroups.cli.options import VARIED, Options
from kafkagroups.cli.output import print_json, print_table, print_text, progress_bar
from kafkagroups.log.compression import CompressionType
from kafkagroups.synth import write

ARGUMENTS = f"""
--out --json
--records! COUNT  the number of records (200k, 10M), including transaction markers
groups:
--partitions N  the partition count of the topic (default: 50)
--groups N  the number of groups (default: 1000)
--keys N  the number of topic-partitions that each group commits (default: 8)
--skew F  the n-th group commits in proportion to 1/n^F; with 0, all groups are equally busy (default: 1)
--transactional F  fraction of the groups that commit in transactions (default: 0)
--modern F  fraction of the groups that use the new consumer protocol, KIP-848 (default: 0)
--members N  the number of members of each group (default: 3)
--prefix TEXT  the start of all group and topic names (default: no prefix)
records:
--width WIDTH  the number of records in a batch of offsets, or the word varied (default: 8)
--tombstones F  fraction of the records that are tombstones (default: 0.02)
--generations [F=0.01]  fraction of the records that belong to new generations (default: 0; 0.01 with --modern or alone)
--metadata F  fraction of the commits that have a metadata string (default: 0)
--aborts F  fraction of the transactions that are aborted (default: 0.1)
--hanging F  fraction of the transactions that stay open (default: 0.001)
files:
--codec C  the compression codec: {", ".join(codec.name.lower() for codec in CompressionType)} (default: none)
--segment-bytes N  the largest size of a segment in bytes (default: 104857600)
--seed N  the seed of the random choices (default: 0)
"""
EXAMPLES = """\
  kafkagroups synth --out topic --records 1M
  kafkagroups synth --out topic --records 1M --transactional 0.5 --modern 0.2 --metadata 0.1 --codec lz4

The same options give the same bytes. A fraction is a number from 0 to 1."""
MIN_RECORDS_FOR_BAR = 1_000_000
"""Smaller topics take too little time for a progress bar."""


def run(args: Options) -> int:
    # An option that is not given is left out, so that `write` uses its own default.
    own = ("out", "records", "json")
    settings = {name: value for name, value in vars(args).items() if value is not None and name not in own}
    if args.width == VARIED:
        settings["width"] = None
    with progress_bar(MIN_RECORDS_FOR_BAR) as report:
        written = write(args.out, args.records, progress=partial(report, "writing") if report else None, **settings)
    if args.json:
        print_json(written)
        return 0
    columns = ("segments", "batches", "records", "bytes")
    rows = [(number, *(counts[name] for name in columns)) for number, counts in written["partitions"].items()]
    print_table(("partition", *columns), rows)
    counts = f"{sum(row[3] for row in rows)} records, {sum(row[4] for row in rows)} bytes in {len(rows)} partitions"
    print_text(f"{counts} of {written['groups']} groups with {written['live_offsets']} live offsets, in {args.out}")
    transactions = written["transactions"]
    if any(transactions.values()):
        print_text("transactions: " + ", ".join(f"{number} {outcome}" for outcome, number in transactions.items()))
    return 0
