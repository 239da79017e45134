"""The command `timeline`.

Of a commit that goes back, the text shows only the rewind. Without --all, the text also leaves out transactions that
only move an offset forward.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import groupby
from typing import Any

from kafkagroups.cli import answers
from kafkagroups.cli.output import format_time_ms, print_text
from kafkagroups.history.event import Event, describe_skips, join_skips
from kafkagroups.history.finding import count_of, name_record
from kafkagroups.history.timeline import Timeline, fold_replacements, order_by_time
from kafkagroups.topic import Topic

POSITIONS_SHOWN = 20
"""The largest number of positions in each list of the text without --all."""
RETENTION_HINT = "Did offsets expire, or did a request delete them? Give --retention (your offsets.retention.minutes)."
ARGUMENTS = """
PATH...
--group! G  the group id
--coordinator --kafka --partitions --all --topic --until-time --since-time --retention
--past-damage --engine --max-batch-bytes
--json  print lines of JSON (with --all, also the events that only move forward)
"""
EXAMPLES = """\
  kafkagroups timeline data/harbour/3.9.2 --group billing --coordinator classic
  kafkagroups timeline LOG --group billing --all --json"""


def run(args: argparse.Namespace) -> int:
    def ask(topic: Topic) -> Timeline:
        selection = {"topic": args.topic, "since_time": args.since_time, "until_time": args.until_time}
        return topic.timeline(args.group, all=args.all, retention_ms=args.retention, **selection)

    def to_json(topic: Topic, history: Timeline) -> list[dict[str, Any]]:
        return [({"path": topic.path} if len(args.paths) > 1 else {}) | row for row in history.to_json()]

    return answers.answer_each(args, ask, _print_timeline, to_json)


def _print_timeline(args: argparse.Namespace, topic: Topic, history: Timeline) -> None:
    answers.print_default_rules(args, topic)
    if history.events or history.left_out:
        _print_history(history, args)
    elif args.topic is not None or args.since_time is not None:
        print_text(f"No event of {args.group} in {topic.path} that the options select.")
    else:
        print_text(answers.describe_unknown_group(args.group, args.group, topic, history.topic_partitions))


def _print_history(history: Timeline, args: argparse.Namespace) -> None:
    shown = _select_events(history.events, shows_all=args.all)
    order = ""
    if len({event.partition for event in shown}) > 1:
        shown = [shown[number] for number in order_by_time(shown)]
        order = "The events of several partitions are in the order of their times. "
    places = [name_record(event.partition, event.offset) for event in shown]
    if shown and shown[0].partition is not None:
        place = f"offset {shown[0].offset} in partition {shown[0].partition} of __consumer_offsets"
        print_text(f"{order}{places[0]} is {place}.")
    width = max(map(len, places), default=0)
    for event, place in zip(shown, places, strict=True):
        # A gap has no time.
        time = "" if event.timestamp_ms is None else f"{format_time_ms(event.timestamp_ms):23} "
        print_text(f"{'gap:' if event.event == 'gap' else f'{time}{place:>{width}}'} {event.what}")
    _print_positions(history, shows_all=args.all)
    waiting = [f"  {line}" for line in history.waiting]
    _print_list("Members and partitions that are not settled:", waiting, len(waiting), shows_all=args.all)
    for line in filter(None, (history.memberless, history.expiry, history.writers)):
        print_text(line)
    if args.retention is None and any(event.can_be_request for event in shown):
        print_text(RETENTION_HINT)
    forward_count = history.left_out + sum(event.is_routine for event in history.events)
    if not args.all and forward_count:
        storms = ", also of storms" if any(event.event == "storm" for event in history.events) else ""
        print_text(f"Not shown: {count_of(forward_count, 'routine event')}{storms}. --all shows them.")
    answers.print_cut(None, args.until_time, history.next_offsets)


def _print_positions(history: Timeline, *, shows_all: bool) -> None:
    rewound = [
        f"  {each.describe_rewound().removesuffix('.')}; {each.describe_last_move()}." for each in history.rewound
    ]
    _print_list("Positions that went back, at the end of the log:", rewound, len(rewound), shows_all=shows_all)
    positions = history.positions
    still = [position for position in positions if position.stands_still or position.pauses]
    lines = [
        f"{'!' if each.stands_still else ' ?'[each.pauses]} {each.topic_partition}: {each.now} "
        f"({name_record(each.partition, each.moved_record)}), {each.describe_last_move()}."
        for each in (positions if shows_all or len(positions) <= POSITIONS_SHOWN else still)
        if still
    ]
    marks = "! stands still while others move, ? so far for less than a minute"
    title = f"Positions at the end of the log, the oldest moves first ({marks}):"
    _print_list(title, lines, len(positions), shows_all=shows_all)


def _print_list(title: str, lines: list[str], count: int, *, shows_all: bool) -> None:
    shown = lines if shows_all else lines[:POSITIONS_SHOWN]
    for line in [title, *shown] if shown else ():
        print_text(line)
    if shown and count > len(shown):
        print_text(f"  {count_of(count - len(shown), 'more position')}: --all shows all of them.")


def _select_events(events: list[Event], *, shows_all: bool) -> list[Event]:
    """A rewind replaces the commit right before it."""
    selected: list[Event] = []
    for event in events:
        if event.event in ("rewind", "skip") and selected and selected[-1].event == "commit":
            selected.pop()
        if shows_all or not event.is_routine:
            selected.append(event)
    if shows_all:
        return selected
    folded: list[Event] = []
    for is_skip, run in groupby(fold_replacements(selected), key=lambda event: event.event == "skip"):
        folded += [replace(part[0], what=describe_skips(part)) for part in join_skips(run)] if is_skip else run
    return folded
