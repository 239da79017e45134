"""The command `explain`: every record of a group or an offset, with its fate."""

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
from kafkagroups.history.record_fate import RecordFate, history_json
from kafkagroups.log.partitioning import partition_for
from kafkagroups.records.record_types import RECORD_TYPES

NAME = "explain"
HELP = "show which record decides a group's or an offset's state, and the fate of the other records"
EXAMPLES = """\
examples:
  kafkagroups explain data/harbour/3.9.2 --group billing --coordinator classic
  kafkagroups explain LOG --group billing --topic orders --partition 0
  kafkagroups explain LOG --group billing --until-time 2026-11-21T10:00 --json"""

SHOWN = 20
"""The number of records in the text output of a long history."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    parser.add_argument("--group", metavar="G", required=True, help="the group id")
    parser.add_argument("--topic", metavar="T", help="only the group's offset for this topic; needs --partition")
    parser.add_argument("--partition", type=int, metavar="P", help="the topic's partition; needs --topic")
    options.add_coordinator(parser)
    options.add_partitions(parser)
    parser.add_argument("--until", type=int, metavar="N", help=options.UNTIL_HELP)
    options.add_until_time(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"show every record, not only the last {SHOWN} and those where an offset went back",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, with every record")


def run(args: argparse.Namespace) -> int:
    rules = options.choose_dialect(args.coordinator, args.kafka)
    rules_options = {"coordinator": rules.coordinator, "kafka": rules.kafka, "partitions": args.partitions}
    until = {"until": args.until, "until_time": args.until_time}
    worst = 0
    for path in args.paths:
        try:
            with spinner(path):
                explanation = explain(path, args.group, args.topic, args.partition, **rules_options, **until)
        except UsageError as error:
            options.print_error(error)
            worst = 2
            continue
        if args.json:
            history = [history_json(entry) for entry in explanation.history]
            about = {"path": path, "group": explanation.group, "coordinator": explanation.coordinator}
            print(json.dumps({**about, "history": history, "answer": explanation.answer}), flush=True)
        else:
            _print(path, explanation, args)
            if args.until is not None or args.until_time is not None:
                options.print_cut(explanation.next_offsets)
        for line in explanation.problems:
            options.print_error(line)
        worst = max(worst, int(bool(explanation.problems)))
    return worst


def _print(path: str, explanation: Explanation, args: argparse.Namespace) -> None:
    what = f"{args.topic}-{args.partition} of {explanation.group}" if args.topic else explanation.group
    broker = f"A {explanation.kafka} broker ({explanation.coordinator} coordinator)"
    if not explanation.history:
        partition = partition_for(explanation.group, args.partitions or 50)
        home = f"group {explanation.group} is stored in partition {partition}"
        count = "" if args.partitions else " if the topic has 50 (--partitions)"
        print(escape(f"No record of {what} in {path}; {home}{count}."))
        return
    back = _find_backward_commits(explanation.history)
    chosen = explanation.history if args.all else _select_records(explanation.history, back)
    rows = [_row(entry, id(entry) in back) for entry in chosen]
    names = (
        "part.",
        "record",
        "written (UTC)",
        "type",
        "about",
        "committed",
        "metadata",
        "producer",
        "fate",
        "by",
        "why",
    )
    used = [number for number in range(len(names)) if number < 5 or any(row[number] != "" for row in rows)]
    print_table([names[number] for number in used], [[row[number] for number in used] for row in rows])
    if len(chosen) < len(explanation.history):
        shown = (
            f"{len(chosen)} of {len(explanation.history)} records: the last {SHOWN}, and where an offset went back (▼)."
        )
        print(f"{shown} --all shows all of them.")
    elif back:
        print("▼: the offset went back.")
    if explanation.answer is None:
        print(escape(f"{broker} answers nothing about {what}."))
    elif args.topic:
        metadata = f", with the metadata {explanation.answer['metadata']!r}" if explanation.answer["metadata"] else ""
        print(escape(f"{broker} answers {explanation.answer['offset']} for {what}{metadata}."))
    else:
        state = explanation.answer["state"]
        offsets = len(explanation.answer["offsets"])
        print(escape(f"{broker} answers that {what} is {state}, with {offsets} offsets."))
    for entry in explanation.waiting:
        print(
            escape(
                f"{entry.key}: record {entry.offset} is pending until producer {entry.producer_id}'s transaction ends; "
                "to a request for stable offsets, a broker answers UNSTABLE_OFFSET_COMMIT."
            )
        )


def _find_backward_commits(history: list[RecordFate]) -> set[int]:
    """Return the object ids of records that commit a smaller offset than the key's record before them."""
    last: dict[TopicPartition, int] = {}
    back = set()
    for entry in history:
        if entry.key is not None and entry.committed is not None:
            if entry.committed < last.get(entry.key, entry.committed):
                back.add(id(entry))
            last[entry.key] = entry.committed
    return back


def _select_records(history: list[RecordFate], back: set[int]) -> list[RecordFate]:
    """Return the last records, and each backward commit with the key's record before it."""
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
    name: object = "-" if entry.type is None else entry.type
    if entry.type in RECORD_TYPES:
        name = RECORD_TYPES[entry.type].name
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
