"""The command `explain`: every record of a group or of one of its offsets, and the fate of each record.

The fate says what happened to a record: a broker answers with it, a newer record superseded it, and so on.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from kafkagroups.api import explain, find_groups
from kafkagroups.cli import options
from kafkagroups.cli.explain_text import LAST_RECORD_COUNT, print_expirations, print_history, print_text
from kafkagroups.cli.output import print_line
from kafkagroups.cli.progress import spinner
from kafkagroups.cli.topic_partitions import print_topic_partitions
from kafkagroups.errors import UsageError
from kafkagroups.groups.expire_times import Expiration
from kafkagroups.groups.observer import Fate
from kafkagroups.history.event import count_of
from kafkagroups.history.explain import Explanation
from kafkagroups.history.record_fate import history_json
from kafkagroups.loading.engines import pause_garbage_collector
from kafkagroups.loading.group_choice import has_wildcard, match_groups
from kafkagroups.records.dialects import Dialect

NAME = "explain"
HELP = "show which record decides the state of a group or of an offset, and the fate of the other records"
EXAMPLES = """\
examples:
  kafkagroups explain data/harbour/3.9.2 --group billing --coordinator classic
  kafkagroups explain LOG --group billing --topic orders --partition 0
  kafkagroups explain LOG --group 'bill*' --topic orders --since-time 2026-11-21T10:00
  kafkagroups explain LOG --group billing --retention 7d
  kafkagroups explain LOG --group billing --until-time 2026-11-21T10:00 --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    parser.add_argument(
        "--group",
        metavar="G",
        required=True,
        help="the group id, or a pattern: * stands for any characters, and ? for one character",
    )
    parser.add_argument("--topic", metavar="T", help="only the group's offsets for this topic")
    parser.add_argument(
        "--partition", type=options.parse_number, metavar="P", help="only this partition of the topic; needs --topic"
    )
    options.add_coordinator(parser)
    options.add_partitions(parser)
    parser.add_argument(
        "--until",
        type=options.parse_number,
        metavar="N",
        help="read whole batches, and only those whose base offset is below N; in a folder of partitions, read only "
        "the partition with the group's records",
    )
    options.add_until_time(parser)
    parser.add_argument(
        "--since-time",
        type=options.parse_time,
        metavar="T",
        help="show only records with this timestamp or a later one; T is as in --until-time. The fates and the answer "
        "are those of the whole log",
    )
    parser.add_argument(
        "--retention",
        type=options.parse_retention,
        metavar="TIME",
        help="the broker's offsets.retention.minutes: minutes, or a duration such as 7d, 12h, 30min or 10s. Shows when "
        "the offsets without an expire time expire, and which deleted offsets had expired",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"show every record. By default, a long history is cut to the last {LAST_RECORD_COUNT} records, the "
        "group's own records, and the records that count, are pending, were deleted, or set an offset back",
    )
    options.add_engine(parser)
    options.add_max_batch_bytes(parser)
    options.add_past_damage(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object for each group, with every record")


def run(args: argparse.Namespace) -> int:
    # All records of the group stay in memory until they are printed.
    with pause_garbage_collector():
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    dialect = options.choose_dialect(args.coordinator, args.kafka)
    options.check_master(args)
    status = 0
    for path in args.paths:
        try:
            group_ids = _find_groups(path, dialect, args)
        except UsageError as error:
            options.print_error(error)
            status = 2
            continue
        problems: dict[str, None] = {}
        for number, group_id in enumerate(group_ids):
            try:
                with spinner(path):
                    explanation = _explain(path, group_id, dialect, args)
            except UsageError as error:
                options.print_error(error)
                status = 2
                continue
            if args.json:
                print(json.dumps(_to_json(path, explanation, dialect)), flush=True)
            else:
                if number:
                    print_line("")
                _print_text(path, explanation, args)
                print_topic_partitions(explanation.topic_partitions, explanation.coordinator, group_id)
                options.print_gaps(explanation.gaps)
                if args.until is not None or args.until_time is not None:
                    options.print_cut(explanation.next_offsets)
            problems |= dict.fromkeys(explanation.problems)
        for line in problems:
            options.print_error(line)
        status = max(status, int(bool(problems)))
    return status


def _find_groups(path: str, dialect: Dialect, args: argparse.Namespace) -> list[str]:
    """Return the ids of the groups that --group names."""
    options.check_engine_of_path(path, args.engine)
    if not has_wildcard(args.group):
        return [args.group]
    limits: dict[str, Any] = {
        "partitions": args.partitions,
        "until_time": args.until_time,
        "max_batch_bytes": args.max_batch_bytes,
        "past_damage": args.past_damage,
    }
    with spinner(path):
        if args.engine != "spark":
            limits |= {"coordinator": dialect.coordinator, "kafka": dialect.kafka, "engine": args.engine}
            return find_groups(path, args.group, **limits)
        from kafkagroups import spark

        groups = spark.load_groups(path, dialect.coordinator, dialect.kafka, master=args.master, **limits)
    return match_groups(groups.partitions_of, args.group)


def _explain(path: str, group_id: str, dialect: Dialect, args: argparse.Namespace) -> Explanation:
    """Return the explanation of a group in one PATH, with the engine of the options."""
    load_options = {
        "coordinator": dialect.coordinator,
        "kafka": dialect.kafka,
        "partitions": args.partitions,
        "max_batch_bytes": args.max_batch_bytes,
        "past_damage": args.past_damage,
        "until": args.until,
        "until_time": args.until_time,
        "since_time": args.since_time,
        "retention_ms": args.retention,
    }
    if args.engine != "spark":
        return explain(path, group_id, args.topic, args.partition, engine=args.engine, **load_options)
    from kafkagroups import spark

    return spark.explain(path, group_id, args.topic, args.partition, master=args.master, **load_options)


def _to_json(path: str, explanation: Explanation, dialect: Dialect) -> dict[str, Any]:
    next_offsets = explanation.next_offsets.items()
    partitions = {
        json.dumps(number): {"gaps": [asdict(gap) for gap in gaps]} for number, gaps in explanation.gaps.items()
    }
    damage = {json.dumps(number): asdict(place) for number, place in explanation.find_damage().items()}
    return {
        "path": path,
        "group": explanation.group,
        "coordinator": explanation.coordinator,
        **options.rules_to_json(dialect.rules_of),
        "history": [history_json(entry) for entry in explanation.history],
        "answer": explanation.answer,
        "error": explanation.error,
        "expires_next": [_expiration_to_json(expiration) for expiration in explanation.expires_next],
        "rewound": [position.to_json() for position in explanation.rewound],
        "expires_without_members": [_expiration_to_json(expiration) for expiration in explanation.protected],
        # A JSON name is a text: the partition None becomes "null".
        "next_offsets": {json.dumps(partition): next_offset for partition, next_offset in next_offsets},
        "topic_partitions": explanation.topic_partitions.to_json(),
        **({"partitions": partitions} if partitions else {}),
        **({"damage": damage} if damage else {}),
    }


def _expiration_to_json(expiration: Expiration) -> dict[str, Any]:
    return {
        "topic_partition": str(expiration.topic_partition),
        "offset": expiration.offset,
        "expire_ms": expiration.expire_ms,
        "from": "record" if expiration.is_from_record else "retention",
    }


def _print_text(path: str, explanation: Explanation, args: argparse.Namespace) -> None:
    group = explanation.group
    subject = group or "the group with the empty id"
    if args.topic is not None:
        topic_or_partition = args.topic if args.partition is None else f"{args.topic}-{args.partition}"
        subject = f"{topic_or_partition} of {subject}"
    broker = f"A {explanation.kafka} broker ({explanation.coordinator} coordinator)"
    if not explanation.history and args.since_time is None:
        if has_wildcard(group):
            print_text(f"No group in {path} matches {group}.")
        else:
            print_text(options.describe_unknown_group(subject, group, path, explanation.topic_partitions))
        if explanation.error is not None:
            print_text(f"{broker} fails to load {explanation.error}.")
        for place in explanation.find_damage().values():
            print_text(f"Damage: {place}.")
        return
    if explanation.history:
        print_history(explanation, shows_all=args.all)
    else:
        print_text(f"No record of {subject} since {options.format_time_ms(args.since_time)}.")
    _print_answer(explanation, subject, broker, args)
    for entry in explanation.waiting:
        end = f"until producer {entry.producer_id}'s transaction ends"
        if entry.fate is Fate.PENDING and not entry.is_transactional:
            end = f"for good: no marker will come, because producer {entry.producer_id} wrote it without a transaction"
        print_text(
            f"{entry.key}: record {entry.offset} is pending {end}. To a request for stable offsets, a broker answers "
            "UNSTABLE_OFFSET_COMMIT."
        )
    print_expirations(explanation, shows_all=args.all)


def _print_answer(explanation: Explanation, subject: str, broker: str, args: argparse.Namespace) -> None:
    """Print what a broker answers about the subject: a group, the offsets of a topic, or one offset."""
    failure = "" if explanation.error is None else f"; it fails to load {explanation.error}"
    answer = explanation.answer
    if answer is None:
        text = f"nothing about {subject}"
    elif args.topic is None:
        text = f"that {subject} is {answer['state']}, with {count_of(len(answer['offsets']), 'offset')}"
    elif args.partition is None:
        offsets = ", ".join(f"{key}: {offset['offset']}" for key, offset in answer.items())
        text = f"{offsets} for {subject}"
    else:
        metadata = f", with the metadata {answer['metadata']!r}" if answer["metadata"] else ""
        text = f"{answer['offset']} for {subject}{metadata}"
    damage = explanation.find_damage()
    if not damage:
        print_text(f"{broker} answers {text}{failure}.")
        return
    cuts = ", ".join(
        f"{place.offset}" if number is None else f"{place.offset} of partition {number}"
        for number, place in damage.items()
    )
    print_text(
        f"The log is damaged. After an unclean start has cut the log at offset {cuts}, {broker[0].lower()}{broker[1:]} "
        f"answers {text}{failure}."
    )
    for place in damage.values():
        print_text(f"Damage: {place}.")
    print_text("A clean start does not cut the log, and can fail. kafkagroups check says what each start does.")
