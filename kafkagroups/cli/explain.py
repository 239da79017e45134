"""`kafkagroups explain`: every record that touched a group or an offset, and what became of it."""

from __future__ import annotations

import argparse
import json

from kafkagroups.api import explain
from kafkagroups.cli import options
from kafkagroups.cli.tables import printable, table
from kafkagroups.groups.fates import RecordFate, history_json
from kafkagroups.records.serde import RECORD_TYPES

NAME = "explain"
HELP = "say which record made a group or an offset what it is, and what became of the others"
EXAMPLES = """\
examples:
  kafkagroups explain data/harbour/3.9.2 --group billing --coordinator classic
  kafkagroups explain LOG --group billing --topic orders --partition 0
  kafkagroups explain LOG --group billing --until-time 2026-11-21T10:00 --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a partition directory, a .log file or a folder of directories")
    parser.add_argument("--group", metavar="G", required=True, help="the group's id")
    parser.add_argument("--topic", metavar="T", help="only its offset of this topic …")
    parser.add_argument("--partition", type=int, metavar="P", help="… and this partition")
    options.add_coordinator(parser)
    parser.add_argument("--partitions", type=int, metavar="N", help="the offsets topic's partition count")
    parser.add_argument("--until", type=int, metavar="N", help="the state as of this offset")
    options.add_until_time(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    rules = options.rules(args.coordinator, args.kafka)
    told = explain(
        args.path,
        args.group,
        args.topic,
        args.partition,
        coordinator=rules.coordinator,
        kafka=rules.kafka,
        partitions=args.partitions,
        until=args.until,
        until_time=args.until_time,
    )
    if args.json:
        history = [history_json(entry) for entry in told.history]
        shown = {"group": told.group, "coordinator": told.coordinator, "history": history, "answer": told.answer}
        print(json.dumps(shown))
    else:
        rows = [_row(entry) for entry in told.history]
        names = ("part.", "record", "written (UTC)", "type", "about", "committed", "fate", "by", "why")
        wide = len(names) - (not any(row[-1] for row in rows))
        table(names[:wide], [row[:wide] for row in rows])
        what = f"{args.topic}-{args.partition} of {args.group}" if args.topic else args.group
        if told.answer is None:
            print(printable(f"A broker answers nothing about {what}."))
        elif args.topic:
            print(printable(f"A broker answers {told.answer['offset']} for {what}: {json.dumps(told.answer)}"))
        else:
            state, offsets = told.answer["state"], len(told.answer["offsets"])
            print(printable(f"A broker answers that {what} is {state}, with {offsets} offsets."))
    for line in told.problems:
        options.complain(line)
    return int(bool(told.problems))


def _row(entry: RecordFate) -> tuple[object, ...]:
    name = RECORD_TYPES[entry.type].name if entry.type in RECORD_TYPES else "-" if entry.type is None else entry.type
    assert entry.fate is not None
    return (
        "-" if entry.partition is None else entry.partition,
        entry.offset,
        options.calendar(entry.timestamp),
        name,
        entry.key or entry.member_id or "",
        "" if entry.committed is None else entry.committed,
        entry.fate.value,
        "" if entry.by is None else entry.by,
        entry.why or "",
    )
