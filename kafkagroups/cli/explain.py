"""The command `explain`: every record of a group or an offset, and the record's fate."""

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

LAST_RECORDS = 20
"""The text output of a long history shows this number of records from its end, and the backward commits."""


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
        help=f"show every record, not only the last {LAST_RECORDS} and those where an offset went back",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, with every record")


def run(args: argparse.Namespace) -> int:
    dialect = options.choose_dialect(args.coordinator, args.kafka)
    dialect_options = {"coordinator": dialect.coordinator, "kafka": dialect.kafka, "partitions": args.partitions}
    until = {"until": args.until, "until_time": args.until_time}
    status = 0
    for path in args.paths:
        try:
            with spinner(path):
                explanation = explain(path, args.group, args.topic, args.partition, **dialect_options, **until)
        except UsageError as error:
            options.print_error(error)
            status = 2
            continue
        if args.json:
            history = [history_json(entry) for entry in explanation.history]
            header = {"path": path, "group": explanation.group, "coordinator": explanation.coordinator}
            outcome = {
                "answer": explanation.answer,
                "error": explanation.error,
                "next_offsets": {
                    json.dumps(number): next_offset for number, next_offset in explanation.next_offsets.items()
                },
            }
            print(json.dumps({**header, "history": history, **outcome}), flush=True)
        else:
            _print_text(path, explanation, args)
            if args.until is not None or args.until_time is not None:
                options.print_cut(explanation.next_offsets)
        for line in explanation.problems:
            options.print_error(line)
        status = max(status, int(bool(explanation.problems)))
    return status


def _print_text(path: str, explanation: Explanation, args: argparse.Namespace) -> None:
    subject = f"{args.topic}-{args.partition} of {explanation.group}" if args.topic else explanation.group
    broker = f"A {explanation.kafka} broker ({explanation.coordinator} coordinator)"
    if not explanation.history:
        partition = partition_for(explanation.group, args.partitions or 50)
        home = f"group {explanation.group} is stored in partition {partition}"
        condition = "" if args.partitions else " if the topic has 50 (--partitions)"
        print(escape(f"No record of {subject} in {path}; {home}{condition}."))
        if explanation.error is not None:
            print(escape(f"{broker} fails to load {explanation.error}."))
        return
    backward_ids = _find_backward_commits(explanation.history)
    shown_entries = explanation.history if args.all else _select_records(explanation.history, backward_ids)
    rows = [_format_row(entry, id(entry) in backward_ids) for entry in shown_entries]
    columns = (
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
    # The first five columns are always shown. Other columns are shown only if a record has a value for them.
    used = [index for index in range(len(columns)) if index < 5 or any(row[index] != "" for row in rows)]
    print_table([columns[index] for index in used], [[row[index] for index in used] for row in rows])
    if len(shown_entries) < len(explanation.history):
        print(
            f"{len(shown_entries)} of {len(explanation.history)} records: the last {LAST_RECORDS}, and where an offset "
            "went back (▼). --all shows all of them."
        )
    elif backward_ids:
        print("▼: the offset went back.")
    failure = "" if explanation.error is None else f"; it fails to load {explanation.error}"
    if explanation.answer is None:
        print(escape(f"{broker} answers nothing about {subject}{failure}."))
    elif args.topic:
        metadata = f", with the metadata {explanation.answer['metadata']!r}" if explanation.answer["metadata"] else ""
        print(escape(f"{broker} answers {explanation.answer['offset']} for {subject}{metadata}{failure}."))
    else:
        state = explanation.answer["state"]
        offsets = len(explanation.answer["offsets"])
        print(escape(f"{broker} answers that {subject} is {state}, with {offsets} offsets{failure}."))
    for entry in explanation.waiting:
        print(
            escape(
                f"{entry.key}: record {entry.offset} is pending until producer {entry.producer_id}'s transaction ends; "
                "to a request for stable offsets, a broker answers UNSTABLE_OFFSET_COMMIT."
            )
        )


def _find_backward_commits(history: list[RecordFate]) -> set[int]:
    """Return the object ids of the records that commit a smaller offset than the previous record of the same key."""
    last_offset: dict[TopicPartition, int] = {}
    backward_ids = set()
    for entry in history:
        if entry.key is not None and entry.committed is not None:
            if entry.committed < last_offset.get(entry.key, entry.committed):
                backward_ids.add(id(entry))
            last_offset[entry.key] = entry.committed
    return backward_ids


def _select_records(history: list[RecordFate], backward_ids: set[int]) -> list[RecordFate]:
    """Return the last records, and each backward commit with the previous commit of the same key.

    A backward commit has a smaller offset than the previous commit. `backward_ids` are the object ids of these records.
    """
    if len(history) <= 2 * LAST_RECORDS:
        return history
    previous: dict[TopicPartition, RecordFate] = {}
    selected_ids = {id(entry) for entry in history[-LAST_RECORDS:]}
    for entry in history:
        if id(entry) in backward_ids and entry.key is not None:
            selected_ids |= {id(entry), id(previous[entry.key])}
        if entry.key is not None and entry.committed is not None:
            previous[entry.key] = entry
    return [entry for entry in history if id(entry) in selected_ids]


def _format_row(entry: RecordFate, is_backward: bool) -> tuple[object, ...]:
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
        "" if entry.committed is None else f"{entry.committed}{' ▼' * is_backward}",
        entry.note or "",
        "" if entry.producer_id is None else entry.producer_id,
        entry.fate.value,
        "" if entry.by is None else entry.by,
        entry.why or "",
    )
