"""The text of the command `load`: tables of groups and offsets, and the members of the new protocols."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

from kafkagroups.cli.options import format_time_ms
from kafkagroups.cli.output import TEXT_WIDTH, escape, print_line, wrap
from kafkagroups.cli.tables import print_table
from kafkagroups.cli.topic_partitions import print_topic_partitions
from kafkagroups.groups.expire_times import find_expirations
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.history.event import LISTED_NAMES, count_of
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.starts import Outcome, Start, judge_start
from kafkagroups.records.dialects import dialect
from kafkagroups.tables.group_json import group_json, modern_member_json, sorted_pending

EXPIRATIONS_SHOWN = 10
"""The text shows at most this number of offsets with an expire time: those that expire first."""
OFFSETS_SHOWN = 20
"""The text shows at most this number of committed offsets of a group. Pending offsets are always shown."""
GROUPS_SHOWN = 50
"""The text shows at most this number of groups: those with the most committed offsets."""
OFFSET_ROWS_SHOWN = 200
"""The text shows at most this number of committed offsets of all groups."""


def print_groups(groups: Groups, *, shows_all: bool = False) -> None:
    """Print the result of a load for people. `shows_all`: print all groups and committed offsets."""
    partitions = groups.partitions.values()
    records = sum(partition.records for partition in partitions)
    batches = sum(partition.batches for partition in partitions)
    counted_partitions = "1 partition" if len(partitions) == 1 else f"{len(partitions)} partitions"
    print_line(f"{groups.path}: {records} records in {batches} batches of {counted_partitions},")
    print_line(f"loaded as the {groups.coordinator} coordinator of Kafka {groups.kafka} loads them.")
    for number, partition in groups.partitions.items():
        if partition.damage:
            name = "The log" if number is None else f"Partition {number}"
            _print_wrapped(
                f"{name} is damaged: its answers are those of a broker whose recovery has cut the log at offset "
                f"{partition.damage.offset}. Before such a recovery, a broker can fail to load the partition."
            )
    group_ids = sorted(groups) if shows_all else _choose_groups(groups)
    _print_group_table(groups, group_ids)
    _print_members(groups, group_ids)
    _print_offsets(groups, group_ids, shows_all=shows_all)
    _print_pending(groups)
    _print_expirations(groups)
    for title, names in (
        ("Groups that the coordinator does not have, but whose offsets it keeps in memory", groups.orphans),
        ("Groups with records in a partition that does not answer requests for the group", groups.elsewhere),
    ):
        if names:
            _print_wrapped(f"{title}: {_list_some(sorted(names), shows_all=shows_all)}.")
    print_topic_partitions(groups.topic_partitions, groups.coordinator)
    _print_zeros(groups)


def _choose_groups(groups: Groups) -> list[str]:
    """Return the ids of the groups that the text shows, sorted."""
    if len(groups) <= GROUPS_SHOWN:
        return sorted(groups)
    offset_counts = {group_id: len(parts.offsets) for group_id, parts in groups.parts()}
    return sorted(heapq.nsmallest(GROUPS_SHOWN, groups, key=lambda group_id: (-offset_counts[group_id], group_id)))


def _list_some(names: list[str], *, shows_all: bool) -> str:
    """Return names for a sentence. Without `shows_all`, at most GROUPS_SHOWN names."""
    more = 0 if shows_all else len(names) - GROUPS_SHOWN
    listed = ", ".join(names if more <= 0 else names[:GROUPS_SHOWN])
    return f"{listed} and {more} more; --all shows them" if more > 0 else listed


def _print_group_table(groups: Groups, group_ids: list[str]) -> None:
    rows = []
    for group_id in group_ids:
        group = group_json(groups[group_id])
        counts = [len(group[field]) for field in ("members", "offsets", "pending")]
        epoch = group["generation"] if group["type"] == "classic" else group["group_epoch"]
        partition = "-" if group["partition"] is None else group["partition"]
        rows.append((group_id, partition, group["type"], group["state"], _name_protocol(group), epoch, *counts))
    columns = ("group", "part.", "type", "state", "protocol", "epoch", "memb.", "offsets", "pend.")
    print_table(columns, rows, width_in_file=TEXT_WIDTH)


def _name_protocol(group: Mapping[str, Any]) -> str:
    """Return the assignor of a group. A classic group of another protocol type than "consumer" is named with it."""
    if group["protocol"] and group["protocol_type"] in ("consumer", "share", "streams"):
        return str(group["protocol"])
    return f"{group['protocol_type']} {group['protocol'] or ''}".strip() or "-"


def _print_members(groups: Groups, group_ids: list[str]) -> None:
    """Print the members of consumer, share and streams groups: states, epochs, and what is assigned to them."""
    for group_id in group_ids:
        group = groups[group_id]
        if not isinstance(group, ModernGroup) or not group.members:
            continue
        print_line("")
        epochs = f"group epoch {group.group_epoch}, assignment epoch {group.assignment_epoch}"
        _print_wrapped(f"Members of {group_id} ({group.type} group, {epochs}):")
        for member_id in sorted(group.members):
            _print_member(modern_member_json(group, group.members[member_id]))


def _print_member(member: Mapping[str, Any]) -> None:
    instance = f", instance {member['group_instance_id']}" if member["group_instance_id"] else ""
    protocol = ", classic protocol" if member["member_type"] == 0 else ""
    _print_wrapped(f"  {member['member_id']} (client {member['client_id'] or '-'}{instance}{protocol})")
    state = ""
    if "state" in member:
        previous = member["previous_member_epoch"]
        state = f"{member['state'] or 'no state'}, "
        epochs = f"member epoch {member['member_epoch']}, previous {'none' if previous in (None, -1) else previous}"
    else:
        epochs = f"member epoch {member['member_epoch']}"
    _print_wrapped(f"    {state}{epochs}")
    _print_wrapped(f"    assigned: {_list_partitions(member['assignment'])}")
    if "pending_revocation" in member:
        _print_wrapped(f"    pending revocation: {_list_partitions(member['pending_revocation'])}")
    if member["target_assignment"] != member["assignment"]:
        _print_wrapped(f"    target: {_list_partitions(member['target_assignment'])}")


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


def _print_offsets(groups: Groups, group_ids: list[str], *, shows_all: bool) -> None:
    offsets_of = {group_id: sorted(groups[group_id].offsets.items()) for group_id in group_ids}
    limit = None if shows_all else _find_limit([len(offsets) for offsets in offsets_of.values()])
    rows: list[tuple[object, ...]] = []
    cut_counts: dict[str, int] = {}
    for group_id, offsets in offsets_of.items():
        # One row less would not be worth the note.
        shown = len(offsets) if limit is None or len(offsets) == OFFSETS_SHOWN + 1 == limit + 1 else limit
        for topic_partition, offset in offsets[:shown]:
            rows.append((group_id, topic_partition, offset.offset, offset.metadata, offset.record_offset))
        if len(offsets) > shown:
            cut_counts[group_id] = len(offsets) - shown
    if rows:
        columns = ("group", "committed topic-partition", "offset", "metadata", "record")
        print_table(columns, rows, width_in_file=TEXT_WIDTH)
    if len(groups) > len(group_ids):
        more_groups = len(groups) - len(group_ids)
        more_offsets = sum(len(parts.offsets) for _, parts in groups.parts()) - len(rows)
        _print_wrapped(
            f"Only the {len(group_ids)} groups with the most committed offsets are shown. Not shown: "
            f"{count_of(more_groups, 'group')} and {count_of(more_offsets, 'committed offset')}. --all shows them, and "
            "--group G shows one group."
        )
    elif len(cut_counts) > LISTED_NAMES:
        more = count_of(sum(cut_counts.values()), "committed offset")
        _print_wrapped(f"Not shown: {more} of {len(cut_counts)} groups. --all shows them.")
    elif cut_counts:
        counts = ", ".join(f"{count} of {group_id}" for group_id, count in cut_counts.items())
        _print_wrapped(f"Not shown: committed offsets, {counts}. --all shows them.")


def _find_limit(offset_counts: list[int]) -> int:
    """Return how many offsets of each group are shown: at most OFFSETS_SHOWN, and OFFSET_ROWS_SHOWN in all."""
    limit = OFFSETS_SHOWN
    while limit > 1 and sum(min(count, limit) for count in offset_counts) > OFFSET_ROWS_SHOWN:
        limit -= 1
    return limit


def _print_expirations(groups: Groups) -> None:
    """Print which offsets vanish at a time that is in their records, the earliest first."""
    rules = dialect(groups.coordinator, groups.kafka)
    expirations = [
        (expiration, group_id)
        for group_id in sorted(groups)
        if any(offset.expire_timestamp is not None for offset in groups[group_id].offsets.values())
        for expiration in find_expirations(groups[group_id], rules)
    ]
    expirations.sort(key=lambda pair: pair[0].expire_ms)
    rows = [
        (group_id, expiration.topic_partition, expiration.offset, format_time_ms(expiration.expire_ms))
        for expiration, group_id in expirations[:EXPIRATIONS_SHOWN]
    ]
    if rows:
        columns = ("group", "expiring topic-partition", "offset", "expires (UTC)")
        print_table(columns, rows, width_in_file=TEXT_WIDTH)
    if len(expirations) > len(rows):
        more = count_of(len(expirations) - len(rows), "later offset")
        _print_wrapped(f"Not shown: {more} with an expire time. `explain --group G` shows those of a group.")


def _print_pending(groups: Groups) -> None:
    """Print the offsets of open transactions, of groups and of orphans."""
    rows = [
        (group_id, topic_partition, offset.offset, producer_id, offset.record_offset)
        for group_id in sorted({*groups, *groups.orphans})
        for topic_partition, producer_id, offset in sorted_pending(_pending_of(groups, group_id))
    ]
    if rows:
        columns = ("group", "pending topic-partition", "offset", "producer", "record")
        print_table(columns, rows, width_in_file=TEXT_WIDTH)


def _pending_of(groups: Groups, group_id: str) -> Any:
    return groups[group_id].pending if group_id in groups else groups.orphans[group_id].pending


def _print_wrapped(line: str) -> None:
    for part in wrap(escape(line)):
        print_line(part)


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
        print_table(
            ("start", f"what a Kafka {groups.kafka} broker does with the zeros"), rows, width_in_file=TEXT_WIDTH
        )
