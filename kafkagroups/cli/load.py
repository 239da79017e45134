"""The command `load`: load a log as a broker does, and show its groups or write them to files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from kafkagroups import api
from kafkagroups.cli.log_text import name_partition, print_cut, print_gaps, print_topic_partitions
from kafkagroups.cli.options import (
    SPARK,
    answer_each,
    check_path,
    choose_dialect,
    find_rules,
    print_problems,
    rules_to_json,
)
from kafkagroups.cli.output import format_time_ms, print_json, print_line, print_table, print_text
from kafkagroups.cli.progress import progress_bar, spinner
from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.groups.expire_times import find_expirations
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.shard import LoadedPartition
from kafkagroups.history.words import count_of
from kafkagroups.loading.group_choice import choose_log, has_wildcard, match_groups
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.starts import Outcome, Start, judge_start
from kafkagroups.log.folders import open_logs
from kafkagroups.records.dialects import Dialect, dialect
from kafkagroups.tables.group_json import group_json, modern_member_json, offsets_json, pending_json, sorted_pending

EXPIRATIONS_SHOWN = 10
"""The text shows at most this number of offsets with an expire time: those that expire first."""
OFFSETS_SHOWN = 20
"""The text shows at most this number of committed offsets of a group. Pending offsets are always shown."""
GROUPS_SHOWN = 50
"""The text shows at most this number of groups: those with the most committed offsets."""
OFFSET_ROWS_SHOWN = 200
"""The text shows at most this number of committed offsets of all groups."""
ARGUMENTS = f"""
PATH... --coordinator --kafka --partitions
--group G  show only this group, or all groups that match a pattern with * or ?
--until N  read whole batches, and only those whose base offset is below N; the log must have one partition; a folder of
    several partitions also needs --group
--until-time
{SPARK}
--to parquet:DIR  write the tables of one PATH as DIR/<table>/….parquet, and print only the row counts
--snapshot DIR  continue from the snapshot in DIR, if DIR contains one, and save the new snapshot in DIR
--max-batch-bytes
--all  print every group and committed offset (default: the {GROUPS_SHOWN} groups with the most offsets, at most
    {OFFSETS_SHOWN} offsets of each group, and {OFFSET_ROWS_SHOWN} offsets in all)
--past-damage --json
"""
EXAMPLES = """\
examples:
  kafkagroups load /var/lib/kafka/data
  kafkagroups load data/harbour/3.9.2 --coordinator classic
  kafkagroups load /var/lib/kafka/data/__consumer_offsets-12 --json
  kafkagroups load data/harbour/1.0.1 --coordinator classic --kafka 1.0.1
  kafkagroups load /var/lib/kafka/data --snapshot state
  kafkagroups load /var/lib/kafka/data --to parquet:tables"""


def run(args: argparse.Namespace) -> int:
    rules = choose_dialect(args)
    has_limit = args.until is not None or args.until_time is not None
    if args.snapshot and (args.engine == "spark" or args.to or args.past_damage or has_limit):
        raise UsageError("--snapshot cannot be used with --until, --until-time, --past-damage, --to or --engine spark")
    if args.snapshot and len(args.paths) > 1:
        raise UsageError(f"--snapshot takes one PATH, not {len(args.paths)}")
    if args.to:
        if args.group is not None:
            raise UsageError("--group cannot be used with --to: the tables contain all groups")
        if len(args.paths) > 1:
            raise UsageError(f"--to takes one PATH, not {len(args.paths)}")
        return _write_parquet(args, rules, has_limit=has_limit)

    def ask(path: str) -> Groups:
        try:
            return _load_selected(path, rules, args)
        except InvalidLog as error:
            raise UsageError(str(error)) from None

    def print_answer(path: str, groups: Groups) -> None:
        _print_groups(groups, shows_all=args.all)
        if args.group is not None and not (groups.groups or groups.orphans or groups.elsewhere):
            print_text(f"The coordinator has no group that matches {args.group}.")
        print_gaps({number: loaded.gaps for number, loaded in groups.partitions.items()})
        print_cut(args, {number: loaded.next_offset for number, loaded in groups.partitions.items()})

    return answer_each(args, ask, lambda path, groups: [to_json(groups)], print_answer)


def _write_parquet(args: argparse.Namespace, dialect: Dialect, *, has_limit: bool) -> int:
    """Load one PATH, write its tables as Parquet files, and return the exit code."""
    import pyarrow.parquet  # noqa: F401  # If it is missing, the folder is not created.

    from kafkagroups.tables.parquet import new_tables, write_tables

    (path,) = args.paths
    with new_tables(args.to) as folder:
        # Spark's own writer does not support the limits. So with a limit, this process writes the result of the load.
        if args.engine != "spark" or has_limit:
            written = write_tables(_load(path, dialect, args), folder)
        else:
            from kafkagroups.spark.tables import load_and_write

            with spinner(path):
                limits = {name: getattr(args, name) for name in ("partitions", "max_batch_bytes", "past_damage")}
                written = load_and_write(path, dialect, folder, args.master, **limits)
    if args.json:
        print_json({"path": path, "to": args.to, **rules_to_json(dialect.rules_of), "rows": written.rows})
    else:
        for table, row_count in written.rows.items():
            print_line(f"{args.to}/{table}: {row_count} rows")
    return print_problems(written.problems)


def _resume_snapshot(path: str, dialect: Dialect, args: argparse.Namespace) -> Groups:
    """Update the snapshot with the new batches of the log, save it, and return its groups.

    A snapshot has, for each partition, a segment with the records that still count, and the position of the log up to
    which it holds.
    """
    from kafkagroups.loading.snapshots import Snapshot

    snapshot = Snapshot.resume(args.snapshot, dialect)
    snapshot = snapshot.advance(path, engine=args.engine, max_batch_bytes=args.max_batch_bytes)
    print_problems(snapshot.notes)
    snapshot.save(args.snapshot, max_growth=0.5)
    return snapshot.groups(path, args.partitions)


def _load_selected(path: str, dialect: Dialect, args: argparse.Namespace) -> Groups:
    """Load one PATH, and return the groups that --group selects.

    With --until, only the partition with the records of the group is loaded.
    """
    if args.group is None:
        return _load(path, dialect, args)
    logs = open_logs(path)
    if args.until is None or len(logs) == 1:
        groups = _load(path, dialect, args)
    else:
        if has_wildcard(args.group):
            raise UsageError("an offset to stop at needs one partition: give the id of one group, and not a pattern")
        # Also after the offset of --until.
        whole = {"until": None, "until_time": None}
        find_partitions = lambda: set(_load(path, dialect, args, whole).partitions_of.get(args.group, ()))  # noqa: E731
        chosen = choose_log(logs, args.group, args.partitions, find_partitions, path=path)
        groups = replace(_load(chosen[0].path, dialect, args), path=path)
    return groups.select(match_groups(groups.partitions_of, args.group))


def _load(path: str, dialect: Dialect, args: argparse.Namespace, limits: dict[str, None] | None = None) -> Groups:
    """Load one PATH with the engine, the limits and the snapshot of the options. `limits` replaces some of them."""
    if args.snapshot:
        with spinner(path):
            return _resume_snapshot(path, dialect, args)
    rules = find_rules(args, dialect) | (limits or {})
    if args.engine != "spark":
        check_path(path)
        with progress_bar() as progress:
            return api.load(path, progress=progress, **rules)
    from kafkagroups import spark

    with spinner(path):
        return spark.load_groups(path, **rules)


def to_json(groups: Groups) -> dict[str, Any]:
    """Return what `load --json` prints."""
    return {
        "path": groups.path,
        "coordinator": groups.coordinator,
        "kafka": groups.kafka,
        **rules_to_json(groups.kafka_rules),
        "partitions": {
            json.dumps(partition): _partition_to_json(loaded) for partition, loaded in groups.partitions.items()
        },
        "groups": {group_id: group_json(groups[group_id]) for group_id in sorted(groups)},
        "orphans": {
            group_id: {"offsets": offsets_json(orphan.offsets), "pending": pending_json(orphan.pending)}
            for group_id, orphan in sorted(groups.orphans.items())
        },
        "elsewhere": dict(sorted(groups.elsewhere.items())),
        "topic_partitions": groups.topic_partitions.to_json(),
    }


def _partition_to_json(loaded: LoadedPartition) -> dict[str, Any]:
    fields = asdict(loaded)
    del fields["record_offset"]  # The error contains it as text.
    if loaded.zeros is not None:
        del fields["zeros"]["later_segments"]
    if loaded.gaps is None:
        del fields["gaps"]
    return fields


def _print_groups(groups: Groups, *, shows_all: bool) -> None:
    """Print the result of a load for people. `shows_all`: print all groups and committed offsets."""
    partitions = groups.partitions.values()
    records = sum(partition.records for partition in partitions)
    batches = sum(partition.batches for partition in partitions)
    print_text(
        f"{groups.path}: {records} records in {batches} batches of {count_of(len(partitions), 'partition')}, loaded as "
        f"the {groups.coordinator} coordinator of Kafka {groups.kafka} loads them."
    )
    for number, partition in groups.partitions.items():
        if partition.damage:
            print_text(
                f"{name_partition(number)} is damaged: its answers are those of a broker whose recovery has cut the "
                f"log at offset {partition.damage.offset}. Before such a recovery, a broker can fail to load the "
                "partition."
            )
    offset_counts = {group_id: len(parts.offsets) for group_id, parts in groups.parts()}
    group_ids = sorted(groups)
    if not shows_all and len(groups) > GROUPS_SHOWN:
        group_ids = sorted(sorted(groups, key=lambda group_id: (-offset_counts[group_id], group_id))[:GROUPS_SHOWN])
    print_table(
        ("group", "part.", "type", "state", "protocol", "epoch", "memb.", "offsets", "pend."),
        [_list_cells(group_id, group_json(groups[group_id])) for group_id in group_ids],
    )
    for group_id in group_ids:
        _print_members(group_id, groups[group_id])
    _print_offsets(groups, group_ids, shows_all=shows_all, total=sum(offset_counts.values()))
    _print_pending(groups)
    _print_expirations(groups)
    for title, names in (
        ("Groups that the coordinator does not have, but whose offsets it keeps in memory", groups.orphans),
        ("Groups with records in a partition that does not answer requests for the group", groups.elsewhere),
    ):
        more = 0 if shows_all else len(names) - GROUPS_SHOWN
        if names:
            listed = ", ".join(sorted(names)[: len(names) - max(more, 0)])
            print_text(f"{title}: {listed}{f' and {more} more; --all shows them' if more > 0 else ''}.")
    print_topic_partitions(groups.topic_partitions, groups.coordinator)
    _print_zeros(groups)


def _list_cells(group_id: str, group: Mapping[str, Any]) -> tuple[object, ...]:
    counts = [len(group[field]) for field in ("members", "offsets", "pending")]
    epoch = group["generation"] if group["type"] == "classic" else group["group_epoch"]
    protocol = group["protocol"] or ""
    if not protocol or group["protocol_type"] not in ("consumer", "share", "streams"):
        protocol = f"{group['protocol_type']} {protocol}".strip() or "-"
    return (group_id, group["partition"], group["type"], group["state"], protocol, epoch, *counts)


def _print_members(group_id: str, group: Any) -> None:
    """Print the members of a consumer, share or streams group: states, epochs, and what is assigned to them."""
    if not isinstance(group, ModernGroup) or not group.members:
        return
    print_text()
    epochs = f"group epoch {group.group_epoch}, assignment epoch {group.assignment_epoch}"
    print_text(f"Members of {group_id} ({group.type} group, {epochs}):")
    for member_id in sorted(group.members):
        member = modern_member_json(group, group.members[member_id])
        instance = f", instance {member['group_instance_id']}" if member["group_instance_id"] else ""
        protocol = ", classic protocol" if member["member_type"] == 0 else ""
        print_text(f"  {member_id} (client {member['client_id'] or '-'}{instance}{protocol})")
        epochs = f"member epoch {member['member_epoch']}"
        if "state" in member:
            previous = member["previous_member_epoch"]
            epochs = (
                f"{member['state'] or 'no state'}, {epochs}, previous {'none' if previous in (None, -1) else previous}"
            )
        print_text(f"    {epochs}")
        print_text(f"    assigned: {_list_partitions(member['assignment'])}")
        if "pending_revocation" in member:
            print_text(f"    pending revocation: {_list_partitions(member['pending_revocation'])}")
        if member["target_assignment"] != member["assignment"]:
            print_text(f"    target: {_list_partitions(member['target_assignment'])}")


def _list_partitions(assignment: Mapping[str, Any]) -> str:
    """Return the text of an assignment: partitions by topic id, or tasks by role and subtopology."""
    parts = []
    for name, content in assignment.items():
        if isinstance(content, Mapping):
            parts += [f"{name} {subtopology}: {_list_numbers(tasks)}" for subtopology, tasks in content.items()]
        else:
            parts.append(f"{name}: {_list_numbers(content)}")
    return "; ".join(parts) or "none"


def _list_numbers(numbers: list[int]) -> str:
    """Return sorted numbers as text. Three or more in a row are a range.

    >>> _list_numbers([0, 1, 2, 5, 6])
    '0-2, 5, 6'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = []
    for run in runs:
        texts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(number) for number in run]
    return ", ".join(texts)


def _print_offsets(groups: Groups, group_ids: list[str], *, shows_all: bool, total: int) -> None:
    """Print the committed offsets. Of each group, the same number is shown, so that no large group hides another."""
    counts = [len(groups[group_id].offsets) for group_id in group_ids]
    limit = max(counts, default=0) if shows_all else OFFSETS_SHOWN
    while not shows_all and limit > 1 and sum(min(count, limit) for count in counts) > OFFSET_ROWS_SHOWN:
        limit -= 1
    rows = [
        (group_id, topic_partition, offset.offset, offset.metadata, offset.record_offset)
        for group_id in group_ids
        for topic_partition, offset in sorted(groups[group_id].offsets.items())[:limit]
    ]
    print_table(("group", "committed topic-partition", "offset", "metadata", "record"), rows)
    if total > len(rows) or len(groups) > len(group_ids):
        hidden = f"{count_of(len(groups) - len(group_ids), 'group')} and " if len(groups) > len(group_ids) else ""
        print_text(
            f"Not shown: {hidden}{count_of(total - len(rows), 'committed offset')}. --all shows them, and --group G "
            "shows one group."
        )


def _print_expirations(groups: Groups) -> None:
    """Print which offsets vanish at a time that is in their records, the earliest first."""
    rules = dialect(groups.coordinator, groups.kafka)
    expirations = sorted(
        (expiration.expire_ms, group_id, expiration.topic_partition, expiration.offset)
        for group_id in groups
        if any(offset.expire_timestamp is not None for offset in groups[group_id].offsets.values())
        for expiration in find_expirations(groups[group_id], rules)
    )
    print_table(
        ("group", "expiring topic-partition", "offset", "expires (UTC)"),
        [(*names, format_time_ms(expire_ms)) for expire_ms, *names in expirations[:EXPIRATIONS_SHOWN]],
    )
    more = len(expirations) - EXPIRATIONS_SHOWN
    if more > 0:
        print_text(
            f"Not shown: {count_of(more, 'later offset')} with an expire time. `explain --group G` shows those of a "
            "group."
        )


def _print_pending(groups: Groups) -> None:
    """Print the offsets of open transactions, of groups and of orphans."""
    rows = [
        (group_id, topic_partition, offset.offset, producer_id, offset.record_offset)
        for group_id in sorted({*groups, *groups.orphans})
        for topic_partition, producer_id, offset in sorted_pending(
            groups[group_id].pending if group_id in groups else groups.orphans[group_id].pending
        )
    ]
    print_table(("group", "pending topic-partition", "offset", "producer", "record"), rows)


def _print_zeros(groups: Groups) -> None:
    """Print which partitions end with zeros, and what a broker does with these zeros at each kind of start."""
    files_of: dict[tuple[Outcome, ...], list[str]] = {}
    for loaded in groups.partitions.values():
        if loaded.zeros is not None:
            zeros = loaded.zeros
            outcomes = tuple(judge_start(start, zeros, groups.coordinator) for start in Start)
            unit = "zero byte follows" if zeros.bytes == 1 else "zero bytes follow"
            files_of.setdefault(outcomes, []).append(f"{zeros.file}, byte {zeros.position}: {zeros.bytes} {unit}.")
    for outcomes, lines in files_of.items():
        for line in lines:
            print_line(line)
        rows = [(start.value, outcome.value) for start, outcome in zip(Start, outcomes, strict=True)]
        print_table(("start", f"what a Kafka {groups.kafka} broker does with the zeros"), rows)
