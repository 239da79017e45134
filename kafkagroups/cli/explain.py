"""The command `explain`: every record of a group or of one of its offsets, and the fate of each record.

The fate says what happened to a record: a broker answers with it, a newer record superseded it, and so on. A backward
commit is a commit of a smaller offset than the previous commit of the same topic-partition.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from kafkagroups.api import explain
from kafkagroups.cli import options
from kafkagroups.cli.output import print_line
from kafkagroups.cli.progress import spinner
from kafkagroups.cli.tables import print_table
from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.explain import Explanation
from kafkagroups.history.record_fate import RecordFate, history_json
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.record_types import RECORD_TYPES

NAME = "explain"
HELP = "show which record decides the state of a group or of an offset, and the fate of the other records"
EXAMPLES = """\
examples:
  kafkagroups explain data/harbour/3.9.2 --group billing --coordinator classic
  kafkagroups explain LOG --group billing --topic orders --partition 0
  kafkagroups explain LOG --group billing --until-time 2026-11-21T10:00 --json"""

LAST_RECORD_COUNT = 20
"""How many of the last records the text output shows of a long history (more than twice this number of records).

The text output also shows each backward commit, and the previous commit of the same topic-partition.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    parser.add_argument("--group", metavar="G", required=True, help="the group id")
    parser.add_argument("--topic", metavar="T", help="only the group's offset for this topic; needs --partition")
    parser.add_argument(
        "--partition", type=options.parse_number, metavar="P", help="the topic's partition; needs --topic"
    )
    options.add_coordinator(parser)
    options.add_partitions(parser)
    parser.add_argument("--until", type=options.parse_number, metavar="N", help=options.UNTIL_HELP)
    options.add_until_time(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"show every record, not only the last {LAST_RECORD_COUNT} and the commits that set an offset back",
    )
    options.add_engine(parser)
    options.add_max_batch_bytes(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object, with every record")


def run(args: argparse.Namespace) -> int:
    dialect = options.choose_dialect(args.coordinator, args.kafka)
    options.check_master(args)
    status = 0
    for path in args.paths:
        try:
            with spinner(path):
                explanation = _explain(path, dialect, args)
        except UsageError as error:
            options.print_error(error)
            status = 2
            continue
        if args.json:
            print(json.dumps(_to_json(path, explanation, dialect)), flush=True)
        else:
            _print_text(path, explanation, args)
            if args.until is not None or args.until_time is not None:
                options.print_cut(explanation.next_offsets)
        for line in explanation.problems:
            options.print_error(line)
        status = max(status, int(bool(explanation.problems)))
    return status


def _explain(path: str, dialect: Dialect, args: argparse.Namespace) -> Explanation:
    """Return the explanation of one PATH, with the engine of the options."""
    options.check_engine_of_path(path, args.engine)
    load_options = {
        "coordinator": dialect.coordinator,
        "kafka": dialect.kafka,
        "partitions": args.partitions,
        "max_batch_bytes": args.max_batch_bytes,
        "until": args.until,
        "until_time": args.until_time,
    }
    if args.engine != "spark":
        return explain(path, args.group, args.topic, args.partition, engine=args.engine, **load_options)
    from kafkagroups import spark

    return spark.explain(path, args.group, args.topic, args.partition, master=args.master, **load_options)


def _to_json(path: str, explanation: Explanation, dialect: Dialect) -> dict[str, Any]:
    next_offsets = explanation.next_offsets.items()
    return {
        "path": path,
        "group": explanation.group,
        "coordinator": explanation.coordinator,
        **options.rules_to_json(dialect.rules_of),
        "history": [history_json(entry) for entry in explanation.history],
        "answer": explanation.answer,
        "error": explanation.error,
        # A JSON name is a text: the partition None becomes "null".
        "next_offsets": {json.dumps(partition): next_offset for partition, next_offset in next_offsets},
    }


def _print_text(path: str, explanation: Explanation, args: argparse.Namespace) -> None:
    subject = f"{args.topic}-{args.partition} of {explanation.group}" if args.topic else explanation.group
    broker = f"A {explanation.kafka} broker ({explanation.coordinator} coordinator)"
    if not explanation.history:
        print_line(options.describe_unknown_group(subject, explanation.group, path, args.partitions))
        if explanation.error is not None:
            print_line(f"{broker} fails to load {explanation.error}.")
        return
    _print_history(explanation, shows_all=args.all)
    _print_answer(explanation, subject, broker, is_offset=bool(args.topic))
    for entry in explanation.waiting:
        print_line(
            f"{entry.key}: record {entry.offset} is pending until producer {entry.producer_id}'s transaction ends. "
            "To a request for stable offsets, a broker answers UNSTABLE_OFFSET_COMMIT."
        )


def _print_history(explanation: Explanation, *, shows_all: bool) -> None:
    """Print a table of the records. If the history is long, print only some records (`_select_records`)."""
    backward_ids = _find_backward_commits(explanation.history)
    shown_entries = explanation.history if shows_all else _select_records(explanation.history, backward_ids)
    rows = [_format_row(entry, is_backward=id(entry) in backward_ids) for entry in shown_entries]
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
    # A column after "about" is shown only if a record has a value for this column.
    first_optional = columns.index("about") + 1
    shown_columns = list(range(first_optional))
    for index in range(first_optional, len(columns)):
        if any(row[index] != "" for row in rows):
            shown_columns.append(index)
    print_table([columns[index] for index in shown_columns], [[row[index] for index in shown_columns] for row in rows])
    if len(shown_entries) < len(explanation.history):
        print_line(
            f"{len(shown_entries)} of {len(explanation.history)} records: the last {LAST_RECORD_COUNT}, and the "
            "commits that set an offset back (▼). --all shows all records."
        )
    elif backward_ids:
        print_line("▼: this commit set the offset back.")


def _print_answer(explanation: Explanation, subject: str, broker: str, *, is_offset: bool) -> None:
    """Print what a broker answers about the subject: an offset if `is_offset` is true, otherwise a group."""
    failure = "" if explanation.error is None else f"; it fails to load {explanation.error}"
    if explanation.answer is None:
        print_line(f"{broker} answers nothing about {subject}{failure}.")
    elif is_offset:
        answer = explanation.answer
        metadata = f", with the metadata {answer['metadata']!r}" if answer["metadata"] else ""
        print_line(f"{broker} answers {answer['offset']} for {subject}{metadata}{failure}.")
    else:
        state = explanation.answer["state"]
        offset_count = len(explanation.answer["offsets"])
        print_line(f"{broker} answers that {subject} is {state}, with {offset_count} offsets{failure}.")


def _find_backward_commits(history: list[RecordFate]) -> set[int]:
    """Return Python's ids of the objects in `history` that are backward commits."""
    last_committed: dict[TopicPartition, int] = {}
    backward_ids = set()
    for entry in history:
        if entry.key is None or entry.committed is None:
            continue
        if entry.committed < last_committed.get(entry.key, entry.committed):
            backward_ids.add(id(entry))
        last_committed[entry.key] = entry.committed
    return backward_ids


def _select_records(history: list[RecordFate], backward_ids: set[int]) -> list[RecordFate]:
    """Return the records that the text output shows (`LAST_RECORD_COUNT`).

    `backward_ids` is the result of `_find_backward_commits`.
    """
    if len(history) <= 2 * LAST_RECORD_COUNT:
        return history
    previous_commit: dict[TopicPartition, RecordFate] = {}
    selected_ids = {id(entry) for entry in history[-LAST_RECORD_COUNT:]}
    for entry in history:
        if entry.key is None or entry.committed is None:
            continue
        if id(entry) in backward_ids:
            selected_ids |= {id(entry), id(previous_commit[entry.key])}
        previous_commit[entry.key] = entry
    return [entry for entry in history if id(entry) in selected_ids]


def _format_row(entry: RecordFate, *, is_backward: bool) -> tuple[object, ...]:
    """Return the cells of a record, in the order of the columns in _print_history."""
    type_name: object = "-" if entry.type is None else entry.type
    if entry.type in RECORD_TYPES:
        type_name = RECORD_TYPES[entry.type].name
    committed = "" if entry.committed is None else str(entry.committed)
    if is_backward:
        committed += " ▼"
    assert entry.fate is not None
    return (
        "-" if entry.partition is None else entry.partition,
        entry.offset,
        options.format_time(entry.timestamp),
        type_name,
        entry.key or entry.member_id or "",
        committed,
        entry.note or "",  # The metadata of a commit, or the type of a marker.
        "" if entry.producer_id is None else entry.producer_id,
        entry.fate.value,
        "" if entry.by is None else entry.by,
        entry.why or "",
    )
