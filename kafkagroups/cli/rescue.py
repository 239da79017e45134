"""The command `rescue`: plan how groups of a dead cluster come back, and commit their offsets to another cluster."""

from __future__ import annotations

import argparse
import json
import os
import sys
from textwrap import fill

from kafkagroups.api import plan_rescue
from kafkagroups.cli import connection, options
from kafkagroups.cli.output import print_line
from kafkagroups.cli.progress import progress_bar
from kafkagroups.cli.rescue_text import OFFSETS_SHOWN, WHERE_OFFSETS_FIT, print_plan, print_rows
from kafkagroups.errors import UsageError
from kafkagroups.repair.apply import OUT_OF_RANGE, RescueRow, apply_plan
from kafkagroups.repair.plan import RescuePlan, find_ambiguous, read_plan, write_plan

NAME = "rescue"
HELP = "restore the groups and offsets of a dead or damaged cluster in another cluster"
EXAMPLES = f"""\
examples:
  kafkagroups rescue plan /backup/kafka/data --coordinator classic --out plan.json
  kafkagroups rescue plan /backup/kafka/data --group 'shop-*' --rename shop-1=shop-new --out plan.json
  kafkagroups rescue apply plan.json --bootstrap broker-1:9092
  kafkagroups rescue apply plan.json --bootstrap broker-1:9092 --yes

`rescue plan` reads a log and sends nothing. `rescue apply` writes only with --yes.
{WHERE_OFFSETS_FIT[: WHERE_OFFSETS_FIT.index(":")]}."""

_APPLY_DESCRIPTION = "Compare a plan with a cluster. With --yes, commit the offsets through the groups' coordinators."
_APPLY_NOTES = """\
Refused: groups with members, offsets outside the partition's log (see
--out-of-range; a negative offset is never clamped), topics and partitions that
do not exist, and what the user may not do. Everything is checked again right before a group is written. After an
interruption, run the same command again.

The user needs these rights: Describe and Read on the groups and on their
topics. Passwords are read from files or from the environment:
KAFKAGROUPS_PASSWORD for SASL, KAFKAGROUPS_KEY_PASSWORD for the key file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    steps = parser.add_subparsers(title="steps", metavar="STEP", required=True)
    plan = steps.add_parser(
        "plan",
        help="read a log, and write the plan: groups, offsets, and what is left out",
        description=f"Read a log, and write a plan: groups, offsets, and what is left out. {WHERE_OFFSETS_FIT}",
    )
    _add_plan_arguments(plan)
    plan.set_defaults(run_step=_run_plan)
    apply = steps.add_parser(
        "apply",
        help="compare a plan with a cluster; with --yes, commit the offsets",
        description=fill(f"{_APPLY_DESCRIPTION} {WHERE_OFFSETS_FIT}", 80),
        epilog=_APPLY_NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_apply_arguments(apply)
    apply.set_defaults(run_step=_run_apply)


def run(args: argparse.Namespace) -> int:
    status: int = args.run_step(args)
    return status


def _add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help=options.PATH_HELP)
    options.add_coordinator(parser)
    options.add_partitions(parser)
    parser.add_argument(
        "--group",
        metavar="GLOB",
        action="append",
        default=[],
        help="only these groups; * stands for any characters and ? for one; can be repeated",
    )
    parser.add_argument(
        "--topic", metavar="GLOB", action="append", default=[], help="only the offsets of these topics; can be repeated"
    )
    parser.add_argument(
        "--rename",
        metavar="OLD=NEW",
        action="append",
        default=[],
        help="the group OLD gets the id NEW in the other cluster; can be repeated",
    )
    parser.add_argument("--out", metavar="FILE", help="write the plan to this new file")
    options.add_until_time(parser)
    options.add_local_engine(parser)
    options.add_max_batch_bytes(parser)
    options.add_past_damage(parser)
    parser.add_argument(
        "--all", action="store_true", help=f"print every offset (default: at most {OFFSETS_SHOWN} of each group)"
    )
    parser.add_argument("--json", action="store_true", help="print the plan as one JSON object")


def _add_apply_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN", help="the file that `rescue plan --out` has written")
    connection.add_arguments(parser)
    parser.add_argument("--yes", action="store_true", help="commit the offsets (default: only show what would change)")
    parser.add_argument(
        "--out-of-range",
        choices=OUT_OF_RANGE,
        default="refuse",
        help="offsets below the log start offset or beyond the log end offset: refuse them, set them to the nearest "
        "offset of the log (clamp), or leave them out without an error (skip; default: refuse)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for each offset")


def _run_apply(args: argparse.Namespace) -> int:
    plan = read_plan(args.plan)
    security = connection.build_security(args)
    if plan.problems:
        options.print_error(f"{args.plan}: this plan was made from a log with problems: {plan.problems[0]}")
    for text in find_ambiguous(plan):
        options.print_error(f"{args.plan}: {text}")
    rows = apply_plan(
        plan,
        args.bootstrap,
        writes=args.yes,
        out_of_range=args.out_of_range,
        security=security,
        max_wait=args.max_wait,
        on_wait=options.print_error,
    )
    finished: list[RescueRow] = []
    try:
        for row in rows:
            finished.append(row)
            if args.json:
                print(json.dumps(row.to_json()), flush=True)
    finally:  # After Ctrl-C too, the user sees what was written.
        if not args.json and (finished or sys.exc_info()[0] is None):
            print_rows(finished, writes=args.yes)
    sys.stdout.flush()
    return int(any(row.result == "refused" for row in finished))


def _run_plan(args: argparse.Namespace) -> int:
    dialect = options.choose_dialect(args.coordinator, args.kafka)
    options.check_engine_of_path(args.path, "auto")
    if args.out is not None and os.path.lexists(args.out):
        raise UsageError(f"{args.out}: this file exists, and a plan never overwrites a file: choose another name")
    with progress_bar() as progress:
        plan = plan_rescue(
            args.path,
            dialect.coordinator,
            dialect.kafka,
            groups=args.group,
            topics=args.topic,
            renames=dict(_parse_rename(text) for text in args.rename),
            partitions=args.partitions,
            until_time=args.until_time,
            progress=progress,
            max_batch_bytes=args.max_batch_bytes,
            past_damage=args.past_damage,
            engine=args.engine,
        )
    if args.out is not None:
        write_plan(plan, args.out)
    if args.json:
        print(json.dumps(plan.to_json()))
    else:
        print_plan(plan, args.path, shows_all=args.all)
        print_line(_describe_file(plan, args.out))
    sys.stdout.flush()
    for line in plan.problems:
        options.print_error(line)
    return int(bool(plan.problems))


def _describe_file(plan: RescuePlan, out: str | None) -> str:
    offsets = sum(len(group.offsets) for group in plan.groups.values())
    groups = sum(bool(group.offsets) for group in plan.groups.values())
    counts = f"{offsets} offsets of {groups} groups"
    return f"{counts}: no file was written (see --out)." if out is None else f"{counts}, written to {out}."


def _parse_rename(text: str) -> tuple[str, str]:
    """Return the old and the new group id in OLD=NEW."""
    old, equals, new = text.partition("=")
    if not equals:
        raise UsageError(f"--rename: expected OLD=NEW, found {text!r}")
    return old, new
