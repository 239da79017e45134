"""`kafkagroups stats`: why a log is so big, and so slow."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from kafkagroups.api import stats
from kafkagroups.cli import options
from kafkagroups.cli.progress import spinner
from kafkagroups.cli.tables import printable, table
from kafkagroups.errors import UsageError
from kafkagroups.history.stats import BY, LOAD_RATE, Count, PartitionStats, Stats
from kafkagroups.records.dialect import Dialect
from kafkagroups.records.serde import RECORD_TYPES

SHOWN = 20
"""How many rows a person sees without --top."""
NAME = "stats"
HELP = "say why a log is so big, and so slow: live and dead bytes, open transactions, what the cleaner may not touch"
EXAMPLES = """\
examples:
  kafkagroups stats /var/lib/kafka/data/__consumer_offsets-12
  kafkagroups stats FOLDER --by partition --top 5
  kafkagroups stats LOG --by type --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", help="a partition directory, a .log file or a folder of directories"
    )
    parser.add_argument("--by", choices=BY, default="group", help="what the rows are (group)")
    parser.add_argument("--top", type=int, metavar="N", help="only the N largest rows")
    options.add_coordinator(parser)
    parser.add_argument("--partitions", type=int, metavar="N", help="the topic's partition count")
    parser.add_argument("--json", action="store_true", help="one JSON object a PATH")


def run(args: argparse.Namespace) -> int:
    rules = options.rules(args.coordinator, args.kafka)
    if args.top is not None and args.top < 1:
        raise UsageError(f"--top: at least 1 row was expected, not {args.top}")
    worst = 0
    for path in args.paths:
        try:
            with spinner(path):
                counted = stats(
                    path, args.by, coordinator=rules.coordinator, kafka=rules.kafka, partitions=args.partitions
                )
        except UsageError as error:
            options.complain(error)
            worst = 2
            continue
        if args.json:
            print(json.dumps({"path": path, **to_json(counted, args.top)}), flush=True)
        else:
            _print(path, counted, args.top, rules)
        for line in counted.problems:
            options.complain(line)
            worst = max(worst, 1)
    return worst


def to_json(counted: Stats, top: int | None) -> dict[str, Any]:
    """What `stats --json` prints."""
    partitions = {json.dumps(number): _partition_json(count) for number, count in counted.partitions.items()}
    return {
        "partitions": partitions,
        "by": counted.by,
        "rows": [{counted.by: name, **asdict(count)} for name, count in _largest(counted, top)],
    }


def _largest(counted: Stats, top: int | None) -> list[tuple[object, Count]]:
    return sorted(counted.rows.items(), key=lambda row: (-row[1].bytes, str(row[0])))[:top]


def _partition_json(count: PartitionStats) -> dict[str, Any]:
    shown = asdict(count)
    del shown["in_partitions"]
    return shown


def _print(path: str, counted: Stats, top: int | None, rules: Dialect) -> None:
    most = SHOWN if top is None else top
    largest = sorted(counted.partitions.items(), key=lambda entry: -entry[1].bytes)
    table(
        ("part.", "segm.", "batches", "records", "bytes", "live", "tombst.", "last (UTC)", "written by"),
        [(_number(partition), *_partition(count)) for partition, count in largest[:most]],
    )
    rows = _largest(counted, None)
    table(
        (counted.by, "part.", "records", "bytes", "dead", "live", "live bytes", "tombst."),
        [
            (
                _name(name, counted.by),
                ", ".join(str(_number(partition)) for partition in count.in_partitions[:3])
                + ", …" * (len(count.in_partitions) > 3),
                count.records,
                count.bytes,
                count.records - count.live_records,
                count.live_records,
                count.live_bytes,
                count.tombstones,
            )
            for name, count in rows[:most]
        ],
    )
    if max(len(largest), len(rows)) > most:
        print(f"The {most} largest are shown, of {len(largest)} partitions and {len(rows)} rows (--top N for others).")
    print(f"Live and dead as a {rules.kafka} broker ({rules.coordinator} coordinator) loads it.")
    for partition, count in counted.partitions.items():
        for number, each in enumerate(count.open_transactions):
            pins = "" if number else ": reading committed data and cleaning stop there"
            print(
                printable(
                    f"partition {_number(partition)}: producer {each.producer_id} has an open transaction since "
                    f"{options.calendar(each.since_ms)}, offset {each.first_offset} ({', '.join(each.groups)}){pins}"
                )
            )
    records = sum(count.records for count in counted.partitions.values())
    size = sum(count.bytes for count in counted.partitions.values())
    pinned = sum(count.uncleanable_bytes for count in counted.partitions.values())
    freed = sum(count.freed_bytes for count in counted.partitions.values())
    print(f"{path}: {pinned} of {size} bytes are out of the cleaner's reach (active segment, open transactions);")
    print(f"of the others a pass would free about {freed}.")
    print(
        f"A broker takes about {records / LOAD_RATE:.1f} s to load {records} records "
        f"(at {LOAD_RATE / 1e6:.1f} million a second, measured on two cores)."
    )


def _name(name: object, by: str) -> object:
    if name is None:
        return "(markers, unknown)" if by != "topic" else "(no offset)"
    return RECORD_TYPES[name].name if by == "type" and isinstance(name, int) and name in RECORD_TYPES else name


def _partition(count: PartitionStats) -> tuple[object, ...]:
    last = "" if count.last_timestamp_ms is None else options.calendar(count.last_timestamp_ms)
    live = _share(count.live_bytes, count.bytes)
    sizes = (count.segments, count.batches, count.records, count.bytes, live, count.tombstones)
    return (*sizes, last, count.written_by)


def _number(partition: int | None) -> object:
    return "-" if partition is None else partition


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"
