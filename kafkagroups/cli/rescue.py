"""The command `rescue`."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from textwrap import fill

from kafkagroups.cli import answers
from kafkagroups.cli.options import CONNECTION, Options, Parser, find_connection
from kafkagroups.cli.output import print_error, print_json, print_table, print_text, progress_bar, shorten
from kafkagroups.errors import UsageError
from kafkagroups.history.finding import LISTED_NAMES, list_names
from kafkagroups.repair.apply_plan import OUT_OF_RANGE, RescueRow, apply_plan
from kafkagroups.repair.plan import GroupPlan, RescuePlan, Why, find_ambiguous, read_plan, write_plan
from kafkagroups.topic import Topic

_RESULTS = ("would_set", "set", "same", "skipped", "refused")
OFFSETS_SHOWN = 20
"""The text shows at most this number of planned offsets of a group. Commits that are left out are always shown."""
WHERE_OFFSETS_FIT = (
    "Offsets only fit topics whose records kept their offsets: the topic's files were copied, or a tool that keeps "
    "offsets copied the topic. After a copy with new offsets, do not apply this plan."
)
_REASONS = {
    Why.FILTERED: "the topic does not match --topic.",
    Why.OLD_TOPIC: "the log shows that the topic was created again after --until-time: these offsets fit the old one. "
    "If they are planned all the same, that is not certain: see kafkagroups stats.",
    Why.PENDING: "the transaction was open, so its result is not known. The plan has the offset before it, if any.",
    Why.ABORTED: "the transaction was aborted. The plan has the committed offset before it, if there is one.",
    Why.HIDDEN: "a tombstone deleted the group, so the broker did not return the offset.",
    Why.SHARE_GROUP: "the progress of a share group is in the topic __share_group_state.",
    Why.OTHER_PARTITION: "another partition of __consumer_offsets answered for the group (see --partitions). If the "
    "offset here is higher, the plan can repeat records: find out which one is right (kafkagroups stats).",
    Why.LOAD_FAILED: "the load fails before this record (see --past-damage, --coordinator and --kafka).",
    Why.IGNORED: "the coordinator did not use the record.",
    Why.UNREADABLE: "the coordinator cannot read the commit, so its offset is not known (see --kafka).",
    Why.NO_GROUP: "the group was deleted, or the coordinator skips the types of its records (see --coordinator).",
}
PLAN_ARGUMENTS = """
PATH --coordinator --kafka --partitions
--group GLOB...  only these groups; * stands for any characters and ? for one; can be repeated
--topic GLOB...  only the offsets of these topics; can be repeated
--rename RENAME...  OLD=NEW: the group OLD gets the id NEW in the other cluster; can be repeated
--out FILE  write the plan to this new file
--until-time --engine --max-batch-bytes --past-damage --all --json
"""
APPLY_ARGUMENTS = f"""
PLAN  the file that `rescue plan --out` has written
{CONNECTION}
options of this step:
--yes  commit the offsets (default: only show what would change)
--out-of-range {"|".join(OUT_OF_RANGE)}=refuse  what to do with offsets outside the log: refuse them, set them to the
    nearest offset of the log (clamp), or leave them out without an error (skip)
--json
"""
ARGUMENTS = ""
EXAMPLES = f"""\
  kafkagroups rescue plan /backup/kafka/data --coordinator classic --out plan.json
  kafkagroups rescue apply plan.json --bootstrap broker-1:9092
  kafkagroups rescue apply plan.json --bootstrap broker-1:9092 --yes

`rescue plan` reads a log and sends nothing. `rescue apply` writes only with --yes.
{WHERE_OFFSETS_FIT[: WHERE_OFFSETS_FIT.index(":")]}."""

_NOTES = """\
Refused: groups with members, offsets outside the partition's log (a negative offset is never clamped), topics and
partitions that do not exist, and what the user may not do: it needs Describe and Read on the groups and on their
topics. Everything is checked again right before a group is written. After an interruption, run the command again."""


def add_steps(parser: Parser) -> None:
    steps = parser.add_subparsers(title="steps", metavar="STEP", required=True, dest="step")
    plan = "Read a log, and write a plan: groups, offsets, and what is left out."
    apply = "Compare a plan with a cluster. With --yes, commit the offsets through the groups' coordinators."
    for name, text, arguments, notes in (("plan", plan, PLAN_ARGUMENTS, ""), ("apply", apply, APPLY_ARGUMENTS, _NOTES)):
        step = steps.add_parser(name, help=text, description=fill(f"{text} {WHERE_OFFSETS_FIT}", 80), epilog=notes)
        step.declare(arguments)


def run(args: Options) -> int:
    return _run_plan(args) if args.step == "plan" else _run_apply(args)


def _run_apply(args: Options) -> int:
    plan = read_plan(args.plan)
    connection = find_connection(args)
    problems = [f"this plan was made from a log with problems: {problem}" for problem in plan.problems[:1]]
    for text in (*problems, *find_ambiguous(plan)):
        print_error(f"{args.plan}: {text}")
    rows = apply_plan(plan, writes=args.yes, out_of_range=args.out_of_range, **connection)
    finished: list[RescueRow] = []
    try:
        for row in rows:
            finished.append(row)
            if args.json:
                print_json(row.to_json())
    finally:  # After Ctrl-C too, the user sees what was written.
        if not args.json and (finished or sys.exc_info()[0] is None):
            _print_rows(finished, writes=args.yes)
    sys.stdout.flush()
    return int(any(row.result == "refused" for row in finished))


def _run_plan(args: Options) -> int:
    if args.out is not None and os.path.lexists(args.out):
        raise UsageError(f"{args.out}: this file exists, and a plan never overwrites a file: choose another name")

    def plan_rescue(topic: Topic) -> RescuePlan:
        filters = {"groups": args.group, "topics": args.topic, "renames": dict(map(_parse_rename, args.rename))}
        with progress_bar() as progress:
            plan = topic.plan_rescue(until_time=args.until_time, progress=progress, **filters)
        if args.out is not None:
            write_plan(plan, args.out)
        return plan

    return answers.answer_each(args, plan_rescue, _print_plan, spins=False)


def _parse_rename(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals:
        raise UsageError(f"--rename: expected OLD=NEW, found {text!r}")
    return old, new


def _print_plan(args: Options, topic: Topic, plan: RescuePlan) -> None:
    print_text(f"{topic.path}, loaded as the {plan.coordinator} coordinator of Kafka {plan.kafka} loads it.")
    groups = dict(sorted(plan.groups.items()))
    _print_groups(groups, None if args.all else LISTED_NAMES)
    rows = [
        (group_id, key, offset.offset, shorten(offset.metadata))
        for group_id, group in groups.items()
        for key, offset in sorted(group.offsets.items())[: None if args.all else OFFSETS_SHOWN]
    ]
    print_table(("group", "planned topic-partition", "offset", "metadata"), rows)
    offset_count = sum(len(group.offsets) for group in groups.values())
    if offset_count > len(rows):
        print_text(f"Not shown: {offset_count - len(rows)} planned offsets. --all shows them.")
    _print_left_out(groups)
    if plan.proposed_ids:
        renames = [shlex.quote(f"--rename={old}={new}") for old, new in plan.proposed_ids.items()]
        names = list_names(renames, len(renames) if args.all else LISTED_NAMES)
        print_text(f"Partitions that fail keep no offsets. For the same cluster, take ids of healthy ones: {names}.")
    if plan.other_groups:
        print_text(f"Not in the plan, because --group does not match: {list_names(plan.other_groups)}.")
    if plan.topic_partitions is not None:
        answers.print_topic_partitions(plan.topic_partitions, plan.coordinator)
    print_text(WHERE_OFFSETS_FIT)
    place = ": no file was written (see --out)" if args.out is None else f", written to {args.out}"
    print_text(f"{offset_count} offsets of {sum(bool(group.offsets) for group in groups.values())} groups{place}.")


def _print_groups(groups: dict[str, GroupPlan], name_limit: int | None) -> None:
    rows = []
    others: dict[Why, list[str]] = {}
    for group_id, group in groups.items():
        if group.why is not None and not group.offsets and not group.left_out:
            others.setdefault(group.why, []).append(group_id)
        else:
            state = group.state or ("-" if group.why is None else group.why.value)
            rows.append((group_id, group.to, group.type or "-", state, len(group.offsets), len(group.left_out)))
    print_table(("group", "becomes", "type", "state", "offsets", "left out"), rows)
    for why, group_ids in others.items():
        names = list_names(group_ids, name_limit or len(group_ids))
        print_text(f"Groups without offsets to restore ({why.value}): {names}.")


def _print_left_out(groups: dict[str, GroupPlan]) -> None:
    rows = []
    for group_id, group in groups.items():
        for key, entry in sorted(group.left_out.items()):
            planned = group.offsets[key].offset if key in group.offsets else None
            rows.append((group_id, key, entry.why.value, entry.offset, planned, entry.record_offset))
    print_table(("group", "left-out topic-partition", "why", "offset", "planned", "record"), rows)
    reasons = {group.why for group in groups.values()} | {Why(row[2]) for row in rows}
    for why in Why:
        if why in reasons:
            print_text(f"{why.value}: {_REASONS[why]}")


def _print_rows(rows: Sequence[RescueRow], *, writes: bool) -> None:
    table = [(row.group, row.topic_partition, row.now, row.planned, row.result, row.why or "") for row in rows]
    print_table(("group", "topic-partition", "now", "planned", "result", "why"), table)
    counts = Counter(row.result for row in rows)
    counted = ", ".join(f"{counts[result]} {result}" for result in _RESULTS if counts[result])
    print_text(f"{len(rows)} offsets: {counted or 'nothing to do'}.")
    print_text(WHERE_OFFSETS_FIT)
    if not writes and counts["would_set"]:
        print_text("Nothing was written. --yes commits the offsets.")
