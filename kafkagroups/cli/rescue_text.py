"""The text of the command `rescue`: tables of a plan, and why commits are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kafkagroups.cli.output import TEXT_WIDTH, escape, print_line, wrap
from kafkagroups.cli.tables import WIDTH_IN_FILE, print_table
from kafkagroups.cli.topic_partitions import describe_topic_partitions
from kafkagroups.history.event import list_names
from kafkagroups.repair.apply import RescueRow
from kafkagroups.repair.plan import RescuePlan, Why

_RESULTS = ("would_set", "set", "same", "skipped", "refused")
OFFSETS_SHOWN = 20
"""The text shows at most this number of planned offsets of a group. Commits that are left out are always shown."""
WHERE_OFFSETS_FIT = (
    "Offsets only fit topics whose records kept their offsets: the topic's files were copied, or a tool that keeps "
    "offsets copied the topic. After a copy with new offsets, do not apply this plan."
)
_REASONS = {
    Why.FILTERED: "the topic does not match --topic.",
    Why.PENDING: "the transaction of the commit was open, so its result is not known. The plan has the committed "
    "offset before it, if there is one.",
    Why.ABORTED: "the transaction of the commit was aborted. The plan has the committed offset before it, if there is "
    "one.",
    Why.HIDDEN: "a tombstone deleted the group, so the broker did not return the offset.",
    Why.SHARE_GROUP: "the progress of a share group is in the topic __share_group_state.",
    Why.OTHER_PARTITION: "another partition of __consumer_offsets answered for the group (see --partitions).",
    Why.LOAD_FAILED: "the load of the partition fails, so the broker did not use the record (see --past-damage, "
    "--coordinator and --kafka).",
    Why.IGNORED: "the coordinator did not use the record.",
    Why.UNREADABLE: "the coordinator cannot read the commit, so its offset is not known (see --kafka).",
    Why.NO_GROUP: "the group was deleted, or its records are of types that the coordinator skips (see --coordinator).",
}


def print_plan(plan: RescuePlan, path: str, *, shows_all: bool = False) -> None:
    """Print a plan for people. `shows_all`: print every planned offset of each group, and the name of every group."""
    print_line(f"{path}, loaded as the {plan.coordinator} coordinator of Kafka {plan.kafka} loads it.")
    _print_groups(plan, shows_all=shows_all)
    _print_offsets(plan, shows_all=shows_all)
    _print_left_out(plan)
    if plan.other_groups:
        print_wrapped(f"Not in the plan, because --group does not match: {list_names(plan.other_groups)}.")
    if plan.topic_partitions is not None:
        for line in describe_topic_partitions(plan.topic_partitions, plan.coordinator):
            print_wrapped(line)
    print_wrapped(WHERE_OFFSETS_FIT)


def _print_groups(plan: RescuePlan, *, shows_all: bool) -> None:
    """Print the groups with offsets or left-out commits in a table, and the other ones in a line for each reason."""
    rows = []
    others: dict[Why, list[str]] = {}
    for group_id, group in sorted(plan.groups.items()):
        if group.why is not None and not group.offsets and not group.left_out:
            others.setdefault(group.why, []).append(group_id)
            continue
        state = group.state or ("-" if group.why is None else group.why.value)
        rows.append((group_id, group.to, group.type or "-", state, len(group.offsets), len(group.left_out)))
    print_table(("group", "becomes", "type", "state", "offsets", "left out"), rows, width_in_file=TEXT_WIDTH)
    for why, group_ids in others.items():
        names = ", ".join(group_ids) if shows_all else list_names(group_ids)
        print_wrapped(f"Groups without offsets to restore ({why.value}): {names}.")


def _print_offsets(plan: RescuePlan, *, shows_all: bool) -> None:
    rows: list[tuple[object, ...]] = []
    hidden_count = 0
    for group_id, group in sorted(plan.groups.items()):
        offsets = sorted(group.offsets.items())
        shown = len(offsets) if shows_all else OFFSETS_SHOWN
        rows += [(group_id, key, offset.offset, offset.metadata) for key, offset in offsets[:shown]]
        hidden_count += len(offsets[shown:])
    if rows:
        print_table(("group", "planned topic-partition", "offset", "metadata"), rows, width_in_file=TEXT_WIDTH)
    if hidden_count:
        print_wrapped(f"Not shown: {hidden_count} planned offsets. --all shows them.")


def _print_left_out(plan: RescuePlan) -> None:
    rows: list[tuple[object, ...]] = []
    reasons = {group.why for group in plan.groups.values()}
    for group_id, group in sorted(plan.groups.items()):
        for key, entry in sorted(group.left_out.items()):
            planned = group.offsets.get(key)
            reasons.add(entry.why)
            rows.append(
                (
                    group_id,
                    key,
                    entry.why.value,
                    "-" if entry.offset is None else entry.offset,
                    "-" if planned is None else planned.offset,
                    "-" if entry.record_offset is None else entry.record_offset,
                )
            )
    if rows:
        columns = ("group", "left-out topic-partition", "why", "offset", "planned", "record")
        print_table(columns, rows, width_in_file=TEXT_WIDTH)
    for why in Why:
        if why in reasons:
            print_wrapped(f"{why.value}: {_REASONS[why]}")
    _print_lower_plans(plan)


def _print_lower_plans(plan: RescuePlan) -> None:
    """Print a line for each group whose planned offset is lower than the one of another partition of the topic."""
    has_lower = False
    for group_id, group in sorted(plan.groups.items()):
        lower = []
        for key, entry in sorted(group.left_out.items()):
            planned = group.offsets.get(key)
            if entry.why is not Why.OTHER_PARTITION or entry.offset is None or planned is None:
                continue
            if planned.offset < entry.offset:
                lower.append(f"{key} ({planned.offset}, and {entry.offset} in partition {entry.partition})")
        if lower:
            has_lower = True
            print_wrapped(
                f"Group {group_id}: the planned offset is lower than the one of the other partition: "
                f"{list_names(lower)}."
            )
    if has_lower:
        print_wrapped(
            "The plan can repeat records. Find out which partition is right (kafkagroups stats) before you apply it, "
            "and edit the plan if the other one is."
        )


def print_rows(rows: Sequence[RescueRow], *, writes: bool) -> None:
    """Print the rows of an application for people. `writes`: whether the command was allowed to write."""
    if rows:
        table = [
            (
                row.group,
                row.topic_partition,
                "-" if row.now is None else row.now,
                row.planned,
                row.result,
                row.why or "",
            )
            for row in rows
        ]
        columns = ("group", "topic-partition", "now", "planned", "result", "why")
        print_table(columns, table, width_in_file=WIDTH_IN_FILE if any(row.why for row in rows) else TEXT_WIDTH)
    counts = Counter(row.result for row in rows)
    counted = ", ".join(f"{counts[result]} {result}" for result in _RESULTS if counts[result])
    print_line(f"{len(rows)} offsets: {counted or 'nothing to do'}.")
    print_wrapped(WHERE_OFFSETS_FIT)
    if not writes and counts["would_set"]:
        print_line("Nothing was written. --yes commits the offsets.")


def print_wrapped(line: str) -> None:
    for part in wrap(escape(line)):
        print_line(part)
