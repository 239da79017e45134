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
from kafkagroups.cli.progress import spinner
from kafkagroups.cli.stats_text import DEFAULT_ROWS, print_stats
from kafkagroups.errors import UsageError
from kafkagroups.history.stats import (
    ROW_KINDS,
    WRITER,
    PartitionStats,
    Stats,
    sort_rows,
    sort_writers,
    value_versions_json,
)
from kafkagroups.records.dialects import Dialect

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
        help=f"at most N rows in each table, the largest first (default: {DEFAULT_ROWS}; with --json: all rows)",
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
            print_stats(path, statistics, args.top, dialect)
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
        **({"value_versions": value_versions_json(statistics.value_versions)} if statistics.by == "type" else {}),
        "topic_partitions": statistics.topic_partitions.to_json(),
        "moved_offsets": [offset.to_json() for offset in statistics.moved_offsets],
    }


def _rows_to_json(statistics: Stats) -> list[dict[str, Any]]:
    if statistics.by != WRITER:
        return [{statistics.by: name, **asdict(count)} for name, count in sort_rows(statistics)]
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
            "share_of_partition": writer.commits / statistics.count_commits(writer.partition),
            "commits_per_minute": writer.commits_per_minute,
            "interval_ms": writer.interval_ms,
            "records": writer.records,
            "bytes": writer.bytes,
            "first_timestamp_ms": writer.first_timestamp_ms,
            "last_timestamp_ms": writer.last_timestamp_ms,
        }
        for writer in sort_writers(statistics)
    ]


def _partition_json(partition: PartitionStats) -> dict[str, Any]:
    fields = asdict(partition)
    del fields["in_partitions"]  # It only repeats the partition's own number.
    fields["written_by_ranges"] = [
        {"from": part.first, "to": part.last, "versions": part.versions} for part in partition.written_by_ranges
    ]
    if partition.gaps is None:
        del fields["gaps"]
    return fields
