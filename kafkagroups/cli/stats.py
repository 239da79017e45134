"""The command `stats`: why a log is large and slow to load.

A record is live if a broker answers from it, or if its transaction is open. Other records are dead. A row counts the
records of one group, topic, record type or partition.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from kafkagroups.api import stats
from kafkagroups.cli import options
from kafkagroups.cli.output import print_line
from kafkagroups.cli.progress import spinner
from kafkagroups.cli.tables import print_table
from kafkagroups.errors import UsageError
from kafkagroups.history.stats import RECORDS_LOADED_PER_SECOND, ROW_KINDS, Count, PartitionStats, Stats
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.record_types import RECORD_TYPES

DEFAULT_ROWS = 20
"""The default of --top in the text output. JSON contains all rows by default."""
ROW_NAME_WITHOUT_VALUE = {
    "group": "(markers, unknown)",
    "topic": "(no offset)",
    "type": "(markers, unknown)",
    "partition": "(unknown number)",
}
"""For each value of --by: the name of the row that counts the records without a group, topic, type or partition."""
NAME = "stats"
HELP = "show why a log is large and slow: dead records, open transactions, what the cleaner cannot clean"
EXAMPLES = """\
examples:
  kafkagroups stats /var/lib/kafka/data/__consumer_offsets-12
  kafkagroups stats FOLDER --by partition --top 5
  kafkagroups stats LOG --by type --json
  kafkagroups stats s3://bucket/log --engine spark --master spark://host:7077"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    parser.add_argument(
        "--by",
        choices=ROW_KINDS,
        default="group",
        help="one row for each group, topic, type or partition (default: group)",
    )
    parser.add_argument(
        "--top",
        type=options.parse_number,
        metavar="N",
        help=f"only the N largest rows (default: {DEFAULT_ROWS}; with --json: all rows)",
    )
    options.add_coordinator(parser)
    options.add_partitions(parser)
    options.add_engine(parser)
    options.add_max_batch_bytes(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per PATH")


def run(args: argparse.Namespace) -> int:
    dialect = options.choose_dialect(args.coordinator, args.kafka)
    if args.top is not None and args.top < 1:
        raise UsageError(f"--top: expected at least 1, found {args.top}")
    options.check_master(args)
    status = 0
    for path in args.paths:
        try:
            with spinner(path):
                statistics = _count(path, dialect, args)
        except UsageError as error:
            options.print_error(error)
            status = 2
            continue
        if args.json:
            rules = options.rules_to_json(dialect.rules_of)
            print(json.dumps({"path": path, **rules, **to_json(statistics, args.top)}), flush=True)
        else:
            _print_text(path, statistics, args.top, dialect)
        for line in statistics.problems:
            options.print_error(line)
            status = max(status, 1)
    return status


def _count(path: str, dialect: Dialect, args: argparse.Namespace) -> Stats:
    """Return the statistics of one PATH, with the engine of the options."""
    options.check_engine_of_path(path, args.engine)
    load_options = {
        "coordinator": dialect.coordinator,
        "kafka": dialect.kafka,
        "partitions": args.partitions,
        "max_batch_bytes": args.max_batch_bytes,
    }
    if args.engine != "spark":
        return stats(path, args.by, engine=args.engine, **load_options)
    from kafkagroups import spark

    return spark.stats(path, args.by, master=args.master, **load_options)


def to_json(statistics: Stats, top: int | None) -> dict[str, Any]:
    """Return what `stats --json` prints."""
    partitions = {json.dumps(number): _partition_json(partition) for number, partition in statistics.partitions.items()}
    return {
        "partitions": partitions,
        "findings": [asdict(finding) for finding in statistics.findings],
        "by": statistics.by,
        "rows": [{statistics.by: name, **asdict(count)} for name, count in _sort_rows(statistics)[:top]],
    }


def _sort_rows(statistics: Stats) -> list[tuple[object, Count]]:
    """Return the name and the counts of each row; the row with the most bytes is first."""

    def sort_key(row: tuple[object, Count]) -> tuple[int, str]:
        name, count = row
        return -count.bytes, str(name)

    return sorted(statistics.rows.items(), key=sort_key)


def _partition_json(partition: PartitionStats) -> dict[str, Any]:
    fields = asdict(partition)
    del fields["in_partitions"]  # It only repeats the partition's own number.
    fields["written_by_ranges"] = [
        {"from": part.first, "to": part.last, "versions": part.versions} for part in partition.written_by_ranges
    ]
    return fields


def _print_text(path: str, statistics: Stats, top: int | None, dialect: Dialect) -> None:
    max_rows = DEFAULT_ROWS if top is None else top
    partitions = statistics.partitions
    largest_first = sorted(partitions, key=lambda number: -partitions[number].bytes)
    print_table(
        ("part.", "segm.", "batches", "records", "bytes", "live", "tombst.", "last (UTC)", "written by"),
        [_format_partition(number, partitions[number]) for number in largest_first[:max_rows]],
    )
    rows = _sort_rows(statistics)
    print_table(
        (statistics.by, "part.", "records", "bytes", "dead", "live", "live bytes", "tombst."),
        [_format_row(name, count, statistics.by) for name, count in rows[:max_rows]],
    )
    partition_count = len(partitions)
    if max(partition_count, len(rows)) > max_rows:
        print_line(
            f"Only the {max_rows} largest of {partition_count} partitions and {len(rows)} rows are shown; "
            "--top N shows the N largest."
        )
    print_line(
        f"A record is live if a Kafka {dialect.kafka} broker ({dialect.coordinator} coordinator) answers from it, "
        "or if its transaction is open."
    )
    for number, partition in partitions.items():
        for transaction in partition.open_transactions:
            is_oldest = transaction is partition.open_transactions[0]
            consequence = "; read_committed consumers and the cleaner stop at this offset" if is_oldest else ""
            print_line(
                f"partition {_format_number(number)}: producer {transaction.producer_id} has an open transaction "
                f"since {options.format_time(transaction.since_ms)}, offset {transaction.first_offset} "
                f"({', '.join(transaction.groups)}){consequence}"
            )
    record_count = sum(partition.records for partition in partitions.values())
    total_bytes = sum(partition.bytes for partition in partitions.values())
    uncleanable_bytes = sum(partition.uncleanable_bytes for partition in partitions.values())
    freed_bytes = sum(partition.freed_bytes for partition in partitions.values())
    print_line(
        f"{path}: the cleaner cannot clean {uncleanable_bytes} of {total_bytes} bytes "
        "(active segment, open transactions)."
    )
    print_line(f"One pass over the other bytes would free about {freed_bytes} bytes.")
    print_line(
        f"A broker needs about {record_count / RECORDS_LOADED_PER_SECOND:.1f} s to load {record_count} records "
        f"(at {RECORDS_LOADED_PER_SECOND / 1e6:.1f} million records per second, measured on two cores)."
    )


def _format_row(name: object, count: Count, by: str) -> tuple[object, ...]:
    numbers = [str(_format_number(number)) for number in count.in_partitions]
    shown_partitions = ", ".join(numbers if len(numbers) <= 3 else [*numbers[:3], "…"])
    dead_records = count.records - count.live_records
    counts = (count.records, count.bytes, dead_records, count.live_records, count.live_bytes, count.tombstones)
    return (_format_row_name(name, by), shown_partitions, *counts)


def _format_row_name(name: object, by: str) -> object:
    """Return the first cell of a row. `name` is a group, topic, record type, partition or None, as `by` says."""
    if name is None:
        return ROW_NAME_WITHOUT_VALUE[by]
    if by == "type" and isinstance(name, int) and name in RECORD_TYPES:
        return RECORD_TYPES[name].name
    return name


def _format_partition(number: int | None, partition: PartitionStats) -> tuple[object, ...]:
    last_time = "" if partition.last_timestamp_ms is None else options.format_time(partition.last_timestamp_ms)
    live_percent = f"{partition.live_bytes / partition.bytes:.0%}" if partition.bytes else "-"
    return (
        _format_number(number),
        partition.segments,
        partition.batches,
        partition.records,
        partition.bytes,
        live_percent,
        partition.tombstones,
        last_time,
        partition.written_by,
    )


def _format_number(partition: int | None) -> object:
    """Return a partition's number; "-" if the log's folder is not named like a partition."""
    return "-" if partition is None else partition
