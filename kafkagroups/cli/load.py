"""The command `load`: load a log as a broker does, and show its groups or write them to files."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kafkagroups.api import load
from kafkagroups.cli import options
from kafkagroups.cli.load_text import GROUPS_SHOWN, OFFSET_ROWS_SHOWN, OFFSETS_SHOWN, print_groups
from kafkagroups.cli.output import print_line
from kafkagroups.cli.progress import progress_bar, spinner
from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.groups.shard import LoadedPartition
from kafkagroups.loading.engines import pause_garbage_collector
from kafkagroups.loading.group_choice import choose_log, has_wildcard, match_groups
from kafkagroups.loading.groups import Groups
from kafkagroups.log.folders import open_logs
from kafkagroups.records.dialects import Dialect
from kafkagroups.tables.group_json import group_json, offsets_json, pending_json

NAME = "load"
HELP = "load a log as a broker's coordinator does, and show the groups and offsets"
EXAMPLES = """\
examples:
  kafkagroups load data/harbour/3.9.2 --coordinator classic
  kafkagroups load /var/lib/kafka/data/__consumer_offsets-12 --json
  kafkagroups load data/harbour/1.0.1 --coordinator classic --kafka 1.0.1
  kafkagroups load /var/lib/kafka/data --snapshot state
  kafkagroups load /var/lib/kafka/data --to parquet:tables"""


_UNTIL_HELP = f"{options.UNTIL_HELP}; a folder of several partitions also needs --group"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser, "; each PATH is loaded independently")
    options.add_coordinator(parser)
    options.add_partitions(parser)
    parser.add_argument(
        "--group", metavar="G", help="show only this group, or all groups that match a pattern with * or ?"
    )
    parser.add_argument("--until", type=options.parse_number, metavar="N", help=_UNTIL_HELP)
    options.add_until_time(parser)
    options.add_engine(parser)
    parser.add_argument(
        "--to",
        type=_parse_parquet_folder,
        metavar="parquet:DIR",
        help="write the tables of one PATH as DIR/<table>/….parquet, and print only the row counts",
    )
    parser.add_argument(
        "--snapshot",
        metavar="DIR",
        help="continue from the snapshot in DIR, if DIR contains one, and save the new snapshot in DIR",
    )
    options.add_max_batch_bytes(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"print every group and committed offset (default: the {GROUPS_SHOWN} groups with the most offsets, at "
        f"most {OFFSETS_SHOWN} offsets of each group, and {OFFSET_ROWS_SHOWN} offsets in all)",
    )
    options.add_past_damage(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per PATH")


def run(args: argparse.Namespace) -> int:
    status = 0
    dialect = options.choose_dialect(args.coordinator, args.kafka)
    options.check_master(args)
    conflicts_with_snapshot = args.engine == "spark" or args.to or args.past_damage or _has_limit(args)
    if args.snapshot and conflicts_with_snapshot:
        raise UsageError("--snapshot cannot be used with --until, --until-time, --past-damage, --to or --engine spark")
    if args.snapshot and len(args.paths) > 1:
        raise UsageError(f"--snapshot takes one PATH, not {len(args.paths)}")
    if args.to and args.group is not None:
        raise UsageError("--group cannot be used with --to: the tables contain all groups")
    if args.to:
        return _write_parquet(args, dialect)
    for path in args.paths:
        try:
            groups = _load_selected(path, dialect, args)
        except (UsageError, InvalidLog) as error:
            options.print_error(error)
            status = 2
            continue
        if args.json:
            with pause_garbage_collector():
                print(json.dumps(to_json(groups)))
        else:
            print_groups(groups, shows_all=args.all)
            if args.group is not None and not (groups.groups or groups.orphans or groups.elsewhere):
                print_line(f"The coordinator has no group that matches {args.group}.")
            options.print_gaps({number: loaded.gaps for number, loaded in groups.partitions.items()})
            if _has_limit(args):
                options.print_cut({number: loaded.next_offset for number, loaded in groups.partitions.items()})
        sys.stdout.flush()
        for line in groups.problems:
            options.print_error(line)
            status = max(status, 1)
    return status


def _has_limit(args: argparse.Namespace) -> bool:
    """Return whether the options limit the load to the beginning of the log."""
    return args.until is not None or args.until_time is not None


def _parse_parquet_folder(text: str) -> str:
    file_format, _, folder = text.partition(":")
    if file_format != "parquet" or not folder:
        raise argparse.ArgumentTypeError(f"expected parquet:DIR, found {text!r}")
    return folder


def _write_parquet(args: argparse.Namespace, dialect: Dialect) -> int:
    """Load one PATH, write its tables as Parquet files, and return the exit code."""
    import pyarrow.parquet  # noqa: F401  # If it is missing, the folder is not created.

    from kafkagroups.tables.parquet import prepare_empty_folder, write_tables

    if len(args.paths) > 1:
        raise UsageError(f"--to takes one PATH, not {len(args.paths)}")
    (path,) = args.paths
    prepare_empty_folder(args.to)
    # Spark's own writer does not support the limits. So with a limit, this process writes the result of the load.
    if args.engine != "spark" or _has_limit(args):
        written = write_tables(_load(path, dialect, args), args.to)
    else:
        from kafkagroups.spark.parquet import load_and_write

        with spinner(path):
            written = load_and_write(
                path, dialect, args.partitions, args.master, args.to, args.max_batch_bytes, past_damage=args.past_damage
            )
    if args.json:
        rules = options.rules_to_json(dialect.rules_of)
        print(json.dumps({"path": path, "to": args.to, **rules, "rows": written.rows}))
    else:
        for table, row_count in written.rows.items():
            print_line(f"{args.to}/{table}: {row_count} rows")
    sys.stdout.flush()
    for line in written.problems:
        options.print_error(line)
    return int(bool(written.problems))


def _resume_snapshot(path: str, dialect: Dialect, args: argparse.Namespace) -> Groups:
    """Update the snapshot with the new batches of the log, save it, and return its groups.

    A snapshot stores the state of each partition before the last step of a load, and the offset up to which the
    partition was read.
    """
    from kafkagroups.loading.snapshots import Snapshot, files

    snapshot = Snapshot(dialect, {})
    if files.has_snapshot(args.snapshot):
        files.check_dialect(Path(args.snapshot), dialect)
        snapshot = Snapshot.read(args.snapshot)
    snapshot = snapshot.advance(path, engine=args.engine, max_batch_bytes=args.max_batch_bytes)
    snapshot.save(args.snapshot)
    return snapshot.groups(path, args.partitions)


def _load_selected(path: str, dialect: Dialect, args: argparse.Namespace) -> Groups:
    """Load one PATH, and return the groups that --group selects.

    With --until, only the partition with the records of the group is loaded.
    """
    if args.group is None:
        return _load(path, dialect, args)
    logs = open_logs(path)
    if args.until is None or len(logs) == 1:
        groups = _load(path, dialect, args)
    else:
        if has_wildcard(args.group):
            raise UsageError("an offset to stop at needs one partition: give the id of one group, and not a pattern")
        chosen = choose_log(logs, args.group, args.partitions, lambda: _find_partitions(path, dialect, args), path=path)
        groups = replace(_load(chosen[0].path, dialect, args), path=path)
    return groups.select(match_groups(groups.partitions_of, args.group))


def _find_partitions(path: str, dialect: Dialect, args: argparse.Namespace) -> set[int | None]:
    """Return the partitions with records of the group that --group names, also after the offset of --until."""
    whole = argparse.Namespace(**{**vars(args), "until": None, "until_time": None})
    return set(_load(path, dialect, whole).partitions_of.get(args.group, ()))


def _load(path: str, dialect: Dialect, args: argparse.Namespace) -> Groups:
    """Load one PATH with the engine, the limits and the snapshot of the options."""
    if args.snapshot:
        with spinner(path):
            return _resume_snapshot(path, dialect, args)
    limits = {
        "partitions": args.partitions,
        "until": args.until,
        "until_time": args.until_time,
        "max_batch_bytes": args.max_batch_bytes,
        "past_damage": args.past_damage,
    }
    options.check_engine_of_path(path, args.engine)
    if args.engine != "spark":
        with progress_bar() as progress:
            return load(path, dialect.coordinator, dialect.kafka, engine=args.engine, progress=progress, **limits)
    from kafkagroups import spark

    with spinner(path):
        return spark.load_groups(path, dialect.coordinator, dialect.kafka, master=args.master, **limits)


def to_json(groups: Groups) -> dict[str, Any]:
    """Return what `load --json` prints."""
    return {
        "path": groups.path,
        "coordinator": groups.coordinator,
        "kafka": groups.kafka,
        **options.rules_to_json(groups.kafka_rules),
        "partitions": {
            json.dumps(partition): _partition_to_json(loaded) for partition, loaded in groups.partitions.items()
        },
        "groups": {group_id: group_json(groups[group_id]) for group_id in sorted(groups)},
        "orphans": {
            group_id: {"offsets": offsets_json(orphan.offsets), "pending": pending_json(orphan.pending)}
            for group_id, orphan in sorted(groups.orphans.items())
        },
        "elsewhere": dict(sorted(groups.elsewhere.items())),
        "topic_partitions": groups.topic_partitions.to_json(),
    }


def _partition_to_json(loaded: LoadedPartition) -> dict[str, Any]:
    fields = asdict(loaded)
    del fields["record_offset"]  # The error contains it as text.
    if loaded.zeros is not None:
        del fields["zeros"]["later_segments"]
    if loaded.gaps is None:
        del fields["gaps"]
    return fields
