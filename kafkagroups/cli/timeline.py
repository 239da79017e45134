"""The command `timeline`: the history of a group as events, one event a line.

The text output is at least TEXT_WIDTH characters wide, and as wide as the terminal. A longer sentence is cut: --json
has the whole sentence. Of a commit that goes back, the text shows only the rewind. Without --all, the text also leaves
out transactions that only move an offset forward.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys

from kafkagroups.api import timeline
from kafkagroups.cli import options
from kafkagroups.cli.output import TEXT_WIDTH, escape, print_line, wrap
from kafkagroups.cli.progress import spinner
from kafkagroups.errors import UsageError
from kafkagroups.history.event import Event, count_of
from kafkagroups.history.last_moves import describe_last_move, describe_position
from kafkagroups.history.moved_commits import order_by_time
from kafkagroups.history.rewound import describe_rewound
from kafkagroups.history.static_members import fold_replacements
from kafkagroups.history.timeline import Timeline
from kafkagroups.loading.engines import pause_garbage_collector
from kafkagroups.loading.group_choice import has_wildcard

REWOUND_SHOWN = 20
"""The largest number of positions that went back in the text without --all."""
POSITIONS_SHOWN = 20
"""The largest number of positions with their last moves in the text without --all."""
RETENTION_HINT = (
    "Expired, or deleted by a request: --retention tells the two apart. Give the broker's offsets.retention.minutes, "
    "for example --retention 7d."
)
NAME = "timeline"
HELP = "show the history of a group: generations, commits, rewinds, transactions, deletions, and gaps"
EXAMPLES = """\
examples:
  kafkagroups timeline data/harbour/3.9.2 --group billing --coordinator classic
  kafkagroups timeline data/harbour/cleaning/after-clean --group dashboard
  kafkagroups timeline LOG --group billing --all --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    parser.add_argument("--group", metavar="G", required=True, help="the group id")
    options.add_coordinator(parser)
    options.add_partitions(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help="also show the commits that only move an offset forward, and each step of a member to a new assignment",
    )
    parser.add_argument("--topic", metavar="T", help="only the events of the group's offsets for this topic")
    options.add_until_time(parser)
    parser.add_argument(
        "--since-time",
        type=options.parse_time,
        metavar="T",
        help="show only events with this timestamp or a later one; T is as in --until-time. Gaps have no timestamp",
    )
    parser.add_argument(
        "--retention",
        type=options.parse_retention,
        metavar="TIME",
        help="the broker's offsets.retention.minutes: minutes, or a duration such as 7d. It decides whether a deleted "
        "offset had expired",
    )
    options.add_past_damage(parser)
    options.add_local_engine(parser)
    options.add_max_batch_bytes(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help='one JSON object for each event; if there are several PATHs, each object also has a "path"',
    )


def run(args: argparse.Namespace) -> int:
    # All records of the group stay in memory until they are printed.
    with pause_garbage_collector():
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    dialect = options.choose_dialect(args.coordinator, args.kafka)
    status = 0
    for path in args.paths:
        try:
            with spinner(path):
                history = timeline(
                    path,
                    args.group,
                    coordinator=dialect.coordinator,
                    kafka=dialect.kafka,
                    partitions=args.partitions,
                    all=args.all,
                    topic=args.topic,
                    since_time=args.since_time,
                    until_time=args.until_time,
                    retention_ms=args.retention,
                    past_damage=args.past_damage,
                    max_batch_bytes=args.max_batch_bytes,
                    engine=args.engine,
                )
        except UsageError as error:
            options.print_error(error)
            status = 2
            continue
        if args.json:
            extra = {"path": path} if len(args.paths) > 1 else {}
            for row in history.to_json():
                print(json.dumps(extra | row))
            sys.stdout.flush()
        else:
            _print_text(path, history, args)
        for line in history.problems:
            options.print_error(line)
        status = max(status, int(bool(history.problems)))
    return status


def _print_text(path: str, history: Timeline, args: argparse.Namespace) -> None:
    if not history.events:
        text = options.describe_unknown_group(args.group, args.group, path, history.topic_partitions)
        if args.topic is not None or args.since_time is not None:
            text = f"No event of {args.group} in {path} that --topic and --since-time select."
        if has_wildcard(args.group):
            text += " timeline needs the id of one group: kafkagroups explain also takes a pattern."
        for line in wrap(escape(text)):
            print_line(line)
        return
    shown = _select_events(history.events, shows_all=args.all)
    partitions = {event.partition for event in shown}
    order = ""
    if len(partitions) > 1:
        shown = [shown[number] for number in order_by_time(shown)]
        order = "The events of several partitions are in the order of their times. "
    if shown and shown[0].partition is not None:
        first = shown[0]
        meaning = f"{_format_position(first)} is offset {first.offset} in partition {first.partition}"
        for line in wrap(f"{order}{meaning} of __consumer_offsets."):
            print_line(line)
    positions = [_format_position(event) for event in shown]
    position_width = max(map(len, positions), default=0)
    width = max(TEXT_WIDTH, shutil.get_terminal_size((TEXT_WIDTH, 0)).columns if sys.stdout.isatty() else 0)
    for event, position in zip(shown, positions, strict=True):
        # A gap has no time.
        time = "" if event.timestamp_ms is None else f"{options.format_time_ms(event.timestamp_ms):23} "
        start = "gap: " if event.event == "gap" else f"{time}{position:>{position_width}} "
        for line in wrap(start + escape(event.what), width):
            print_line(line)
    _print_rewound(history, width, shows_all=args.all)
    _print_positions(history, width, shows_all=args.all)
    if args.retention is None and any(event.can_be_request for event in shown):
        for line in wrap(RETENTION_HINT):
            print_line(line)
    forward_count = history.left_out + sum(event.is_routine for event in history.events)
    if not args.all and forward_count:
        print_line(f"Not shown: {count_of(forward_count, 'event')} that only moved forward. --all shows them.")


def _print_rewound(history: Timeline, width: int, *, shows_all: bool) -> None:
    """Print how far the positions that went back had been, and what the group reads twice."""
    rewound = history.rewound if shows_all else history.rewound[:REWOUND_SHOWN]
    if not rewound:
        return
    print_line("Positions that went back, at the end of the log:")
    last_moves = {(each.partition, each.topic_partition): each for each in history.positions}
    for position in rewound:
        last_move = last_moves.get((position.partition, position.topic_partition))
        text = describe_rewound(position)
        if last_move is not None:
            text = f"{text.removesuffix('.')}; {describe_last_move(last_move)}."
        for line in wrap(f"  {escape(text)}", width, "    "):
            print_line(line)
    more = len(history.rewound) - len(rewound)
    if more:
        print_line(f"  {count_of(more, 'more position')} that went back: --all shows all of them.")


def _print_positions(history: Timeline, width: int, *, shows_all: bool) -> None:
    """Print the last moves of the group's positions, if one of them stands still while others moved on."""
    if not any(position.stands_still for position in history.positions):
        return
    shown = history.positions
    if not shows_all and len(shown) > POSITIONS_SHOWN:
        shown = [position for position in shown if position.stands_still][:POSITIONS_SHOWN]
    for line in wrap("Positions at the end of the log, the oldest moves first (! stands still while others move):"):
        print_line(line)
    for position in shown:
        mark = "!" if position.stands_still else " "
        for line in wrap(f"{mark} {escape(describe_position(position))}", width, "    "):
            print_line(line)
    more = len(history.positions) - len(shown)
    if more:
        print_line(f"  {count_of(more, 'more position')}: --all shows all of them.")


def _select_events(events: list[Event], *, shows_all: bool) -> list[Event]:
    """Return the events that the text shows. A rewind replaces the commit right before it."""
    selected: list[Event] = []
    for event in events:
        if event.event == "rewind" and selected and selected[-1].event == "commit":
            selected.pop()
        if shows_all or not event.is_routine:
            selected.append(event)
    return selected if shows_all else fold_replacements(selected)


def _format_position(event: Event) -> str:
    """Return the partition and the offset of an event, for example 9:43."""
    return f"{event.offset}" if event.partition is None else f"{event.partition}:{event.offset}"
