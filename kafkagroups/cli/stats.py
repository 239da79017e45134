"""The command `stats`: why a log is big and slow to load."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from kafkagroups.api import stats
from kafkagroups.cli import options
from kafkagroups.cli.progress import spinner
from kafkagroups.cli.tables import escape, print_table
from kafkagroups.errors import UsageError
from kafkagroups.history.stats import BY, LOAD_RATE, Count, PartitionStats, Stats
from kafkagroups.records.record_types import RECORD_TYPES
from kafkagroups.records.versions import Dialect

DEFAULT_ROWS = 20
"""The largest number of rows in each table of the text output, if the user does not give --top."""
NAME = "stats"
HELP = "show why a log is big and slow: live and dead bytes, open transactions, what the cleaner cannot clean"
EXAMPLES = """\
examples:
  kafkagroups stats /var/lib/kafka/data/__consumer_offsets-12
  kafkagroups stats FOLDER --by partition --top 5
  kafkagroups stats LOG --by type --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    parser.add_argument("--by", choices=BY, default="group", help="what each row counts (group)")
    parser.add_argument("--top", type=int, metavar="N", help="only the N largest rows")
    options.add_coordinator(parser)
    options.add_partitions(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per PATH")


def run(args: argparse.Namespace) -> int:
    dialect = options.choose_dialect(args.coordinator, args.kafka)
    if args.top is not None and args.top < 1:
        raise UsageError(f"--top: expected at least 1, found {args.top}")
    status = 0
    for path in args.paths:
        try:
            with spinner(path):
                statistics = stats(
                    path, args.by, coordinator=dialect.coordinator, kafka=dialect.kafka, partitions=args.partitions
                )
        except UsageError as error:
            options.print_error(error)
            status = 2
            continue
        if args.json:
            print(json.dumps({"path": path, **to_json(statistics, args.top)}), flush=True)
        else:
            _print_text(path, statistics, args.top, dialect)
        for line in statistics.problems:
            options.print_error(line)
            status = max(status, 1)
    return status


def to_json(statistics: Stats, top: int | None) -> dict[str, Any]:
    """Return what `stats --json` prints."""
    partitions = {json.dumps(number): _partition_json(count) for number, count in statistics.partitions.items()}
    return {
        "partitions": partitions,
        "by": statistics.by,
        "rows": [{statistics.by: name, **asdict(count)} for name, count in _largest_rows(statistics, top)],
    }


def _largest_rows(statistics: Stats, top: int | None) -> list[tuple[object, Count]]:
    return sorted(statistics.rows.items(), key=lambda row: (-row[1].bytes, str(row[0])))[:top]


def _partition_json(count: PartitionStats) -> dict[str, Any]:
    fields = asdict(count)
    del fields["in_partitions"]
    return fields


def _print_text(path: str, statistics: Stats, top: int | None, dialect: Dialect) -> None:
    max_rows = DEFAULT_ROWS if top is None else top
    largest_partitions = sorted(statistics.partitions.items(), key=lambda entry: -entry[1].bytes)
    print_table(
        ("part.", "segm.", "batches", "records", "bytes", "live", "tombst.", "last (UTC)", "written by"),
        [(_number(partition), *_partition_columns(count)) for partition, count in largest_partitions[:max_rows]],
    )
    rows = _largest_rows(statistics, None)
    print_table(
        (statistics.by, "part.", "records", "bytes", "dead", "live", "live bytes", "tombst."),
        [
            (
                _row_name(name, statistics.by),
                ", ".join(str(_number(partition)) for partition in count.in_partitions[:3])
                + ", …" * (len(count.in_partitions) > 3),
                count.records,
                count.bytes,
                count.records - count.live_records,
                count.live_records,
                count.live_bytes,
                count.tombstones,
            )
            for name, count in rows[:max_rows]
        ],
    )
    partition_count = len(largest_partitions)
    if max(partition_count, len(rows)) > max_rows:
        print(
            f"Only the {max_rows} largest of {partition_count} partitions and {len(rows)} rows are shown; "
            "--top N shows N."
        )
    print(f"A record is live if a Kafka {dialect.kafka} broker ({dialect.coordinator} coordinator) answers from it.")
    for partition, count in statistics.partitions.items():
        for index, transaction in enumerate(count.open_transactions):
            # Only the oldest open transaction limits consumers and the cleaner.
            consequence = "" if index else "; read_committed consumers and the cleaner stop there"
            print(
                escape(
                    f"partition {_number(partition)}: producer {transaction.producer_id} has an open transaction since "
                    f"{options.format_time(transaction.since_ms)}, offset {transaction.first_offset} "
                    f"({', '.join(transaction.groups)}){consequence}"
                )
            )
    records = sum(count.records for count in statistics.partitions.values())
    size = sum(count.bytes for count in statistics.partitions.values())
    uncleanable = sum(count.uncleanable_bytes for count in statistics.partitions.values())
    freed = sum(count.freed_bytes for count in statistics.partitions.values())
    print(f"{path}: the cleaner cannot clean {uncleanable} of {size} bytes (active segment, open transactions).")
    print(f"One pass over the other bytes would free about {freed} bytes.")
    print(
        f"A broker needs about {records / LOAD_RATE:.1f} s to load {records} records "
        f"(at {LOAD_RATE / 1e6:.1f} million per second, measured on two cores)."
    )


def _row_name(name: object, by: str) -> object:
    if name is None:
        return "(markers, unknown)" if by != "topic" else "(no offset)"
    if by == "type" and isinstance(name, int) and name in RECORD_TYPES:
        return RECORD_TYPES[name].name
    return name


def _partition_columns(count: PartitionStats) -> tuple[object, ...]:
    last = "" if count.last_timestamp_ms is None else options.format_time(count.last_timestamp_ms)
    live = _percent(count.live_bytes, count.bytes)
    sizes = (count.segments, count.batches, count.records, count.bytes, live, count.tombstones)
    return (*sizes, last, count.written_by)


def _number(partition: int | None) -> object:
    return "-" if partition is None else partition


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"
