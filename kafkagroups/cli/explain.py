"""`kafkagroups explain`: every record that touched a group or an offset, and what became of it."""

from __future__ import annotations

import argparse
import json

from kafkagroups.api import explain
from kafkagroups.cli import options
from kafkagroups.cli.progress import spinner
from kafkagroups.cli.tables import escape, print_table
from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.explain import Explanation
from kafkagroups.history.fates import RecordFate, history_json
from kafkagroups.log.partitioning import partition_for
from kafkagroups.records.serde import RECORD_TYPES

NAME = "explain"
HELP = "say which record made a group or an offset what it is, and what became of the others"
EXAMPLES = """\
examples:
  kafkagroups explain data/harbour/3.9.2 --group billing --coordinator classic
  kafkagroups explain LOG --group billing --topic orders --partition 0
  kafkagroups explain LOG --group billing --until-time 2026-11-21T10:00 --json"""

SHOWN = 20
"""How many records a person sees of a long history."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", help="a partition directory, a .log file or a folder of directories"
    )
    parser.add_argument("--group", metavar="G", required=True, help="the group's id")
    parser.add_argument("--topic", metavar="T", help="only its offset of this topic …")
    parser.add_argument("--partition", type=int, metavar="P", help="… and this partition")
    options.add_coordinator(parser)
    parser.add_argument("--partitions", type=int, metavar="N", help="the offsets topic's partition count")
    parser.add_argument("--until", type=int, metavar="N", help="the state as of this offset")
    options.add_until_time(parser)
    parser.add_argument(
        "--all", action="store_true", help=f"every record, not only {SHOWN} of them and what stands out"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, with every record")


def run(args: argparse.Namespace) -> int:
    rules = options.choose_dialect(args.coordinator, args.kafka)
    whose = {"coordinator": rules.coordinator, "kafka": rules.kafka, "partitions": args.partitions}
    until = {"until": args.until, "until_time": args.until_time}
    worst = 0
    for path in args.paths:
        try:
            with spinner(path):
                told = explain(path, args.group, args.topic, args.partition, **whose, **until)
        except UsageError as error:
            options.print_error(error)
            worst = 2
            continue
        if args.json:
            history = [history_json(entry) for entry in told.history]
            about = {"path": path, "group": told.group, "coordinator": told.coordinator}
            print(json.dumps({**about, "history": history, "answer": told.answer}), flush=True)
        else:
            _print(path, told, args)
        for line in told.problems:
            options.print_error(line)
        worst = max(worst, int(bool(told.problems)))
    return worst


def _print(path: str, told: Explanation, args: argparse.Namespace) -> None:
    what = f"{args.topic}-{args.partition} of {told.group}" if args.topic else told.group
    broker = f"A {told.kafka} broker ({told.coordinator} coordinator)"
    if not told.history:
        home = f"group {told.group} lives in partition {partition_for(told.group, args.partitions or 50)}"
        count = "" if args.partitions else " if the topic has 50 (--partitions)"
        print(escape(f"No record of {what} in {path}; {home}{count}."))
        return
    back = _went_back(told.history)
    chosen = told.history if args.all else _worth_showing(told.history, back)
    rows = [_row(entry, id(entry) in back) for entry in chosen]
    names = ("part.", "record", "written (UTC)", "type", "about", "committed", "note", "producer", "fate", "by", "why")
    used = [number for number in range(len(names)) if number < 5 or any(row[number] != "" for row in rows)]
    print_table([names[number] for number in used], [[row[number] for number in used] for row in rows])
    if len(chosen) < len(told.history):
        left = f"{len(chosen)} of {len(told.history)} records: the last {SHOWN}, and where an offset went back (▼)."
        print(f"{left} --all shows every one.")
    elif back:
        print("▼: the offset went back.")
    if told.answer is None:
        print(escape(f"{broker} answers nothing about {what}."))
    elif args.topic:
        note = f", with the note {told.answer['metadata']!r}" if told.answer["metadata"] else ""
        print(escape(f"{broker} answers {told.answer['offset']} for {what}{note}."))
    else:
        state, offsets = told.answer["state"], len(told.answer["offsets"])
        print(escape(f"{broker} answers that {what} is {state}, with {offsets} offsets."))
    for entry in told.waiting:
        print(
            escape(
                f"{entry.key}: record {entry.offset} waits for the end of producer {entry.producer_id}'s transaction; "
                "asked for stable offsets, a broker answers UNSTABLE_OFFSET_COMMIT."
            )
        )


def _went_back(history: list[RecordFate]) -> set[int]:
    """The records (their ids) that commit less than the one before them, by key and in the order of the log."""
    last: dict[TopicPartition, int] = {}
    back = set()
    for entry in history:
        if entry.key is not None and entry.committed is not None:
            if entry.committed < last.get(entry.key, entry.committed):
                back.add(id(entry))
            last[entry.key] = entry.committed
    return back


def _worth_showing(history: list[RecordFate], back: set[int]) -> list[RecordFate]:
    """The last records, and each that went back with the one of its key before it."""
    if len(history) <= 2 * SHOWN:
        return history
    before: dict[TopicPartition, RecordFate] = {}
    chosen = {id(entry) for entry in history[-SHOWN:]}
    for entry in history:
        if id(entry) in back and entry.key is not None:
            chosen |= {id(entry), id(before[entry.key])}
        if entry.key is not None and entry.committed is not None:
            before[entry.key] = entry
    return [entry for entry in history if id(entry) in chosen]


def _row(entry: RecordFate, went_back: bool) -> tuple[object, ...]:
    name = RECORD_TYPES[entry.type].name if entry.type in RECORD_TYPES else "-" if entry.type is None else entry.type
    assert entry.fate is not None
    return (
        "-" if entry.partition is None else entry.partition,
        entry.offset,
        options.format_time(entry.timestamp),
        name,
        entry.key or entry.member_id or "",
        "" if entry.committed is None else f"{entry.committed}{' ▼' * went_back}",
        entry.note or "",
        "" if entry.producer_id is None else entry.producer_id,
        entry.fate.value,
        "" if entry.by is None else entry.by,
        entry.why or "",
    )
