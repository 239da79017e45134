"""The command `stats`: why a log is large and slow to load.

A record is live if a broker answers from it, or if its transaction is open. Other records are dead. A row counts the
records of one group, topic, record type or partition.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict
from typing import Any

from kafkagroups.api import stats
from kafkagroups.cli import options
from kafkagroups.cli.output import TEXT_WIDTH, escape, print_line, wrap
from kafkagroups.cli.progress import spinner
from kafkagroups.cli.tables import print_table
from kafkagroups.cli.topic_partitions import print_topic_partitions
from kafkagroups.errors import UsageError
from kafkagroups.history.finding import Finding
from kafkagroups.history.hanging import abort_command
from kafkagroups.history.stats import RECORDS_LOADED_PER_SECOND, ROW_KINDS, WRITER, Count, PartitionStats, Stats
from kafkagroups.history.writers import WriterCount
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
HANGING = "hanging_transaction"
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
        help="one row for each group, topic, type or partition, or for each writer: commits of a group with the same "
        "batch size, leader epoch and transactional bit (default: group)",
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
    options.add_past_damage(parser)
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
            print_topic_partitions(statistics.topic_partitions, dialect.coordinator)
            options.print_gaps({number: partition.gaps for number, partition in statistics.partitions.items()})
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
        "past_damage": args.past_damage,
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
        "rows": _rows_to_json(statistics)[:top],
        "topic_partitions": statistics.topic_partitions.to_json(),
    }


def _rows_to_json(statistics: Stats) -> list[dict[str, Any]]:
    if statistics.by != WRITER:
        return [{statistics.by: name, **asdict(count)} for name, count in _sort_rows(statistics)]
    commit_count = sum(writer.commits for writer in statistics.writers)
    return [
        {
            "group": writer.key.group,
            "leader_epoch": writer.key.leader_epoch,
            "transactional": writer.key.is_transactional,
            "records_per_batch": writer.key.records_per_batch,
            "partition": writer.partition,
            "commits": writer.commits,
            "share": writer.commits / commit_count,
            "commits_per_minute": writer.commits_per_minute,
            "interval_ms": writer.interval_ms,
            "records": writer.records,
            "bytes": writer.bytes,
            "first_timestamp_ms": writer.first_timestamp_ms,
            "last_timestamp_ms": writer.last_timestamp_ms,
        }
        for writer in _sort_writers(statistics)
    ]


def _sort_writers(statistics: Stats) -> list[WriterCount]:
    """Return the writers; the one with the most commits is first."""
    return sorted(statistics.writers, key=lambda writer: (-writer.commits, writer.key))


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
    if partition.gaps is None:
        del fields["gaps"]
    return fields


def _print_text(path: str, statistics: Stats, top: int | None, dialect: Dialect) -> None:
    max_rows = DEFAULT_ROWS if top is None else top
    partitions = statistics.partitions
    largest_first = sorted(partitions, key=lambda number: -partitions[number].bytes)[:max_rows]
    _print_table(
        ("part.", "segm.", "batches", "records", "bytes", "live", "tombst.", "last record (UTC)"),
        [_format_partition(number, partitions[number]) for number in largest_first],
    )
    row_count = len(statistics.rows) + len(statistics.writers)
    if statistics.by == WRITER:
        _print_writer_rows(statistics, max_rows)
    else:
        _print_table(
            (statistics.by, "part.", "records", "bytes", "dead", "live", "live bytes", "tombst."),
            [_format_row(name, count, statistics.by) for name, count in _sort_rows(statistics)[:max_rows]],
        )
    partition_count = len(partitions)
    if max(partition_count, row_count) > max_rows:
        _print_wrapped(
            f"Only the {max_rows} largest of {partition_count} partitions and {row_count} rows are shown; "
            "--top N shows the N largest."
        )
    _print_wrapped(
        f"A record is live if a Kafka {dialect.kafka} broker ({dialect.coordinator} coordinator) answers from it, "
        "or if its transaction is open. The bytes of a batch are divided among its records."
    )
    _print_cleaning(statistics, largest_first)
    _print_writers(statistics, largest_first)
    record_count = sum(partition.records for partition in partitions.values())
    _print_wrapped(
        f"A broker needs about {record_count / RECORDS_LOADED_PER_SECOND:.1f} s to load {record_count} records "
        f"(at {RECORDS_LOADED_PER_SECOND / 1e6:.1f} million records per second, measured on two cores)."
    )
    _print_transactions(statistics)
    _print_findings(path, statistics.findings)


def _print_writer_rows(statistics: Stats, max_rows: int) -> None:
    """Print who commits most often: a row for each writer."""
    commit_count = sum(writer.commits for writer in statistics.writers)
    rows: list[tuple[object, ...]] = []
    for writer in _sort_writers(statistics)[:max_rows]:
        rate = writer.commits_per_minute
        rows.append(
            (
                writer.key.group,
                writer.key.leader_epoch,
                "yes" if writer.key.is_transactional else "no",
                writer.key.records_per_batch,
                writer.commits,
                f"{writer.commits / commit_count:.0%}",
                "-" if rate is None else f"{rate:.1f}",
                "-" if writer.interval_ms is None else f"{writer.interval_ms / 1000:.3f}",
            )
        )
    columns = ("group", "epoch", "txn", "recs/batch", "commits", "share", "per min.", "median s")
    _print_table(columns, rows)
    _print_wrapped(
        "A row is the commits of a group with the same leader epoch, transactional bit and number of records in a "
        'batch. "Median s" is the median time between two commits, in seconds.'
    )


def _print_cleaning(statistics: Stats, numbers: list[int | None]) -> None:
    """Print what the cleaner can and cannot clean, and what it has cleaned. `numbers` are the partitions to show."""
    _print_table(
        ("part.", "uncleanable from", "bytes there", "frees bytes", "cleaned to", "cleaned (UTC)"),
        [_format_cleaning(number, statistics.partitions[number]) for number in numbers],
    )
    partitions = statistics.partitions.values()
    tombstones = sum(partition.tombstones for partition in partitions)
    live_records = sum(partition.live_records for partition in partitions)
    live_bytes = sum(partition.live_bytes for partition in partitions)
    _print_wrapped(
        '"Uncleanable from" is the first offset that cleaning cannot touch: the base offset of the segment with the '
        'first open transaction, or of the active segment. One pass of the cleaner frees about the bytes in "frees '
        'bytes". "Cleaned" is about the last pass that left traces in the log ("-": none); its time assumes that '
        "delete.retention.ms is 1 day."
    )
    _print_wrapped(
        f"If every segment were cleaned, {live_records} live records with about {live_bytes} bytes would stay. Until "
        f"delete.retention.ms is over, the newest of {tombstones} tombstones and the control records stay, too."
    )


def _format_cleaning(number: int | None, partition: PartitionStats) -> tuple[object, ...]:
    cleaned_ms = partition.last_cleaned_ms
    return (
        _format_number(number),
        partition.first_uncleanable_offset,
        partition.uncleanable_bytes,
        partition.freed_bytes,
        "-" if partition.cleaned_up_to is None else partition.cleaned_up_to,
        "-" if cleaned_ms is None else options.format_time(cleaned_ms),
    )


def _print_writers(statistics: Stats, numbers: list[int | None]) -> None:
    """Print which Kafka versions can have written which offsets. `numbers` are the partitions to show."""
    rows: list[tuple[object, ...]] = [
        (_format_number(number), part.first, part.last, part.versions or "every version")
        for number in numbers
        for part in statistics.partitions[number].written_by_ranges
    ]
    if rows:
        _print_table(("part.", "from offset", "to offset", "can be written by Kafka"), rows)


def _print_transactions(statistics: Stats) -> None:
    """Print the open transactions that are no findings."""
    found = {(finding.partition, finding.offset) for finding in statistics.findings if finding.kind == HANGING}
    for number, partition in statistics.partitions.items():
        for transaction in partition.open_transactions:
            if (number, transaction.first_offset) not in found:
                _print_wrapped(
                    f"Partition {_format_number(number)}: producer {transaction.producer_id} has an open transaction "
                    f"since {options.format_time(transaction.since_ms)}, offset {transaction.first_offset} "
                    f"({', '.join(transaction.groups)}). If it does not end, this command ends it:"
                )
                _print_command(abort_command(number, transaction.first_offset))


def _print_findings(path: str, findings: list[Finding]) -> None:
    """Print a paragraph for each finding: what is wrong, and what to do."""
    print_line("")
    if not findings:
        _print_wrapped(f"{path}: no findings.")
    for number, finding in enumerate(findings, start=1):
        remedy, separator, command = _split_remedy(finding.remedy)
        where = f"Partition {_format_number(finding.partition)}"
        _print_wrapped(f"Finding {number}. {where}: {finding.what} Remedy: {remedy}{separator}")
        if command:
            _print_command(command)


def _split_remedy(remedy: str) -> tuple[str, str, str]:
    """Return the text before a command at the end of a remedy, a colon, and the command; "" if there is no command."""
    found = re.search(r"(: )(kafka-[a-z-]+\.sh .*)$", remedy)
    if found is None:
        return remedy, "", ""
    return remedy[: found.start()], ":", found[2]


def _print_command(command: str) -> None:
    """Print a shell command. A backslash ends each line except the last one, so that the lines can be copied."""
    words = escape(command).split(" --")
    line = f"    {words[0]}"
    for word in words[1:]:
        if len(line) + len(word) + 5 > TEXT_WIDTH:
            print_line(f"{line} \\")
            line = "     "
        line += f" --{word}"
    print_line(line)


def _print_table(columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    print_table(columns, rows, width_in_file=TEXT_WIDTH)


def _print_wrapped(line: str) -> None:
    for part in wrap(escape(line), indent=""):
        print_line(part)


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
    )


def _format_number(partition: int | None) -> object:
    """Return a partition's number; "-" if the log's folder is not named like a partition."""
    return "-" if partition is None else partition
