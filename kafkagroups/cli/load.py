"""The command `load`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kafkagroups.cli import answers
from kafkagroups.cli.options import SPARK, Options
from kafkagroups.cli.output import print_line, print_table, print_text, progress_bar, shorten, spinner
from kafkagroups.errors import UsageError
from kafkagroups.groups.modern_group import AnyGroup, ModernGroup
from kafkagroups.history.finding import SHARE_NOTE, count_of, list_names
from kafkagroups.loading.groups import Groups, group_json, member_rows, modern_member_json, sorted_pending
from kafkagroups.loading.partition_count import match_groups
from kafkagroups.records.releases import rules_to_json
from kafkagroups.topic import Topic

if TYPE_CHECKING:
    from kafkagroups.loading.load import OpenTopic
    from kafkagroups.loading.rows import WrittenTables

OFFSETS_SHOWN = 20
"""The text shows at most this number of committed offsets of a group. Pending offsets are always shown."""
GROUPS_SHOWN = 50
"""The text shows at most this number of groups: those with the most committed offsets."""
OFFSET_ROWS_SHOWN = 200
"""The text shows at most this number of committed offsets of all groups."""
_UNSURE_NOTE = "?: another partition has records of the group, too. If that is its home, this row is an old state."
_ASSIGNMENTS = {"assignment": "assigned", "pending_revocation": "of these to revoke", "target_assignment": "target"}
ARGUMENTS = f"""
PATH... --coordinator --kafka --partitions
--group G  show only this group, or all groups that match a pattern with * or ?
--until --until-time
{SPARK}
--to parquet:DIR  write the tables of one PATH as DIR/<table>/….parquet, and print only the row counts
--snapshot DIR  continue from the snapshot in DIR, if DIR contains one, and save the new snapshot in DIR
--max-batch-bytes --all --past-damage --json
"""
EXAMPLES = """\
  kafkagroups load /var/lib/kafka/data
  kafkagroups load data/harbour/1.0.1 --coordinator classic --kafka 1.0.1
  kafkagroups load /var/lib/kafka/data --snapshot state
  kafkagroups load /var/lib/kafka/data --to parquet:tables"""


def run(args: Options) -> int:
    has_limit = args.until is not None or args.until_time is not None
    if args.snapshot and (args.engine == "spark" or args.to or args.past_damage or has_limit):
        raise UsageError("--snapshot cannot be used with --until, --until-time, --past-damage, --to or --engine spark")
    for option in ("snapshot", "to"):
        if getattr(args, option) and len(args.paths) > 1:
            raise UsageError(f"--{option} takes one PATH, not {len(args.paths)}")
    if not args.to:
        return answers.answer_each(args, partial(_load_selected, args), _print_answer, spins=False)
    if args.group is not None:
        raise UsageError("--group cannot be used with --to: the tables contain all groups")

    def written_to_json(topic: Topic, written: WrittenTables) -> dict[str, Any]:
        return {"path": topic.path, "to": args.to, **rules_to_json(topic.dialect.rules_of), "rows": written.rows}

    return answers.answer_each(args, partial(_write_parquet, args), _print_written, written_to_json, spins=False)


def _write_parquet(args: Options, topic: Topic) -> WrittenTables:
    import pyarrow.parquet  # noqa: F401  # If it is missing, the folder is not created.

    from kafkagroups.loading.rows import new_tables, write_tables

    with new_tables(args.to) as folder:
        # Spark's own writer does not support the limits. So with a limit, this process writes the result of the load.
        if args.engine != "spark" or args.until is not None or args.until_time is not None:
            return write_tables(_load(args, topic, **answers.find_stop(args)), folder)
        from kafkagroups.spark.tables import load_and_write

        with spinner(str(topic.path)):
            limits = {name: getattr(args, name) for name in ("partitions", "max_batch_bytes", "past_damage")}
            return load_and_write(str(topic.path), topic.dialect, folder, args.master, **limits)


def _print_written(args: Options, topic: Topic, written: WrittenTables) -> None:
    for table, row_count in written.rows.items():
        print_line(f"{args.to}/{table}: {row_count} rows")


def _load_selected(args: Options, topic: Topic) -> Groups:
    groups = _load(args, topic, **answers.find_stop(args))
    return groups if args.group is None else groups.select(match_groups(groups.partitions_of, args.group))


def _load(args: Options, topic: Topic, **stop: Any) -> Groups:
    if args.engine == "spark":
        with spinner(str(topic.path)):
            return topic.load(**stop)
    if not args.snapshot:
        with progress_bar() as progress:
            return topic.load(progress=progress, **stop)
    from kafkagroups.loading.snapshots import Snapshot

    with spinner(str(topic.path)):
        snapshot = Snapshot.resume(args.snapshot, topic.dialect)
        snapshot = snapshot.advance(topic.path, engine=args.engine, max_batch_bytes=args.max_batch_bytes)
        answers.print_problems(snapshot.notes)  # They are no problems, so the exit code is not used.
        snapshot.save(args.snapshot, max_growth=0.5)
        return snapshot.groups(str(topic.path), args.partitions)


def _print_answer(args: Options, topic: Topic, groups: Groups) -> None:
    partitions = groups.partitions
    records, batches = (sum(map(attrgetter(name), partitions.values())) for name in ("records", "batches"))
    print_text(
        f"{groups.path}: {records} records in {batches} batches of {count_of(len(partitions), 'partition')}, loaded as "
        f"the {groups.coordinator} coordinator of Kafka {groups.kafka} loads them."
    )
    for number, partition in partitions.items():
        if partition.damage:
            answers.print_damage(
                answers.name_partition(number),
                partition.damage,
                "The answers are those of a broker whose recovery has cut the log there.",
            )
    by_size = sorted((-len(parts.offsets), group_id) for group_id, parts in groups.parts())
    shown_ids = sorted(group_id for _, group_id in by_size[: None if args.all else GROUPS_SHOWN])
    shown = {group_id: groups[group_id] for group_id in shown_ids}
    counted = groups.topic_partitions
    unsure = counted.shared_groups if counted.count is None and groups.coordinator == "new" else []
    notes = [SHARE_NOTE] * any(group.type == "share" for group in shown.values()) + [_UNSURE_NOTE] * bool(unsure)
    print_table(
        ("group", "part.", "type", "state", "protocol", "epoch", "memb.", "offsets", "pend."),
        [_list_cells(group_id, group_json(group), group_id in unsure) for group_id, group in shown.items()],
        note=" ".join(notes),
    )
    whole = None if args.engine == "spark" else topic.open()
    for group in shown.values():
        if isinstance(group, ModernGroup) or args.group is not None:
            _print_members(group, whole)
    _print_offsets(args, groups, shown)
    _print_pending(groups)
    # Only the releases of the classic coordinator that answer such offsets keep them apart from groups.
    use = "answers" if groups.coordinator == "classic" else "keeps in memory"
    for title, names in (
        (f"Groups that the coordinator does not have, but whose offsets it {use}", groups.orphans),
        ("Groups with records in a partition that does not answer requests for the group", groups.elsewhere),
    ):
        if names:
            limit = len(names) if args.all else GROUPS_SHOWN
            print_text(f"{title}: {list_names(sorted(names), limit)}{' (see --all)' if limit < len(names) else ''}.")
    answers.print_topic_partitions(groups.topic_partitions, groups.coordinator)
    if any(partition.zeros for partition in partitions.values()):
        print_text("A log ends with zeros: kafkagroups check says what a broker does with them.")
    if args.group is not None and not (groups.groups or groups.orphans or groups.elsewhere):
        print_text(f"The coordinator has no group that matches {args.group!r}.")
    answers.print_gaps({number: loaded.gaps for number, loaded in partitions.items()})
    answers.print_cut(
        args.until, args.until_time, {number: loaded.next_offset for number, loaded in partitions.items()}
    )


def _list_cells(group_id: str, group: Mapping[str, Any], is_unsure: bool) -> tuple[object, ...]:
    counts = [len(group[field]) for field in ("members", "offsets", "pending")]
    epoch = group["generation"] if group["type"] == "classic" else group["group_epoch"]
    protocol = group["protocol"] or ""
    if not protocol or group["protocol_type"] not in ("consumer", "share", "streams"):
        protocol = f"{group['protocol_type']} {protocol}".strip() or "-"
    partition = f"{group['partition']} ?" if is_unsure else group["partition"]
    return (group_id, partition, group["type"], group["state"], protocol, epoch, *counts)


def _print_members(group: AnyGroup, whole: OpenTopic | None) -> None:
    if isinstance(group, ModernGroup):
        title = f"{group.type} group, group epoch {group.group_epoch}, assignment epoch {group.assignment_epoch}"
        members = [modern_member_json(group, member) for _, member in sorted(group.members.items())]
    else:
        title = f"classic group, generation {group.generation}"
        members = list(member_rows(group))
    if members:
        print_text()
        print_text(f"Members of {group.group_id} ({title}):")
    topic_names = {offset.topic_id: key.topic for key, offset in group.offsets.items()}
    for member in members:
        print_text(f"  {answers.describe_member(member)}", indent=" " * 6)
        if group.type == "classic":
            print_text(f"    assigned: {list_names(member['assigned_partitions'] or ['none'])}")
            continue
        nothing_new: dict[str, Any] = {"pending_revocation": {}, "target_assignment": member["assignment"]}
        for field, title in _ASSIGNMENTS.items():
            if field in member and member[field] != nothing_new.get(field):
                if whole is not None and group.type != "streams" and not topic_names.keys() >= member[field].keys():
                    topic_names |= whole.topic_names
                print_text(f"    {title}: {_list_partitions(member[field], topic_names)}")


def _list_partitions(assignment: Mapping[str, Any], topic_names: Mapping[str | None, str]) -> str:
    """A topic whose name no record tells has its id."""
    parts = []
    for topic, content in assignment.items():
        name = topic_names.get(topic, topic)
        is_nested = isinstance(content, Mapping)
        tasks_of = {f"{name} {each}": content[each] for each in content} if is_nested else {name: content}
        parts += [f"{each}: {_list_numbers(numbers)}" for each, numbers in tasks_of.items()]
    return "; ".join(parts) or "none"


def _list_numbers(numbers: list[int]) -> str:
    """Three or more numbers in a row are a range.

    >>> _list_numbers([0, 1, 2, 5, 6])
    '0-2, 5, 6'
    """
    texts: list[str] = []
    for _, each in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [str(number) for _, number in each]
        texts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else run
    return ", ".join(texts)


def _print_offsets(args: Options, groups: Groups, shown: Mapping[str, AnyGroup]) -> None:
    """Of each group, the same number is shown, so that no large group hides another."""
    counts = [len(group.offsets) for group in shown.values()]
    fits = (size for size in range(OFFSETS_SHOWN, 1, -1) if sum(min(n, size) for n in counts) <= OFFSET_ROWS_SHOWN)
    limit = None if args.all else next(fits, 1)
    rows = [
        (group_id, key, offset.offset, offset.expire_timestamp or "", shorten(offset.metadata), offset.record_offset)
        for group_id, group in shown.items()
        for key, offset in sorted(group.offsets.items())[:limit]
    ]
    print_table(("group", "committed topic-partition", "offset", "expire time (UTC)", "metadata", "record"), rows)
    total = sum(len(parts.offsets) for _, parts in groups.parts())
    if total > len(rows) or len(groups) > len(shown):
        hidden = f"{count_of(len(groups) - len(shown), 'group')} and " if len(groups) > len(shown) else ""
        offsets = count_of(total - len(rows), "committed offset")
        print_text(f"Not shown: {hidden}{offsets}. --all shows them, and --group G shows one group.")


def _print_pending(groups: Groups) -> None:
    rows = [
        (group_id, topic_partition, offset.offset, producer_id, offset.record_offset)
        for group_id, group in sorted({**groups.orphans, **groups}.items())
        for topic_partition, producer_id, offset in sorted_pending(group.pending)
    ]
    print_table(("group", "pending topic-partition", "offset", "producer", "record"), rows)
