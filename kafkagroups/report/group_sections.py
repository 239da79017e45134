"""The sections of a report about answers: groups and their states, damage, and whether a broker loads the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kafkagroups.groups.group_parts import GroupParts
from kafkagroups.history.event import list_names
from kafkagroups.loading.starts import Start, judge_start
from kafkagroups.report.facts import LogFacts
from kafkagroups.report.markup import Content, Html, details, element, join, limited_table, paragraph, table
from kafkagroups.report.words import format_bytes, format_count, format_of, format_partition, format_time

MAX_GROUPS = 100
MAX_STATES = 20_000
"""The states of at most this number of groups are counted, because the records of all these groups are decoded."""
MAX_NAMES = 50
MAX_ROWS = 50


def render_groups(facts: LogFacts) -> Html:
    """Return the groups that a broker has after a load: a table of states, and the groups with the most bytes."""
    parts = dict(facts.groups.parts())
    rows = facts.stats.rows
    largest = sorted(parts, key=lambda group: (-rows[group].bytes if group in rows else 0, group))
    if not largest:
        return paragraph("The log has no group.")
    decoded = largest[:MAX_STATES]
    states = Counter((parts[group].decode_group().type, _find_state(parts[group])) for group in decoded)
    state_rows = [(kind, state, format_count(count)) for (kind, state), count in sorted(states.items())]
    group_rows = [_group_row(group, parts[group]) for group in largest[:MAX_GROUPS]]
    columns = (
        "group",
        "partition",
        "type",
        "state",
        "members",
        "generation or epoch",
        "offsets",
        "pending",
        "newest commit (UTC)",
    )
    cut = ""
    if len(largest) > MAX_GROUPS:
        text = f"Only the {MAX_GROUPS} groups with the most bytes, of {format_count(len(largest))}, are shown."
        cut = element("p", text, class_="cut")
    return join(
        paragraph(f"After a load, a Kafka {facts.groups.kafka} broker has {format_of(len(largest), 'group')}."),
        table(("type", "state", "groups"), state_rows, f"States of {format_of(len(decoded), 'group')}"),
        _render_orphans(facts),
        details("Groups", table(columns, group_rows, "Groups, the one with the most bytes first"), cut),
    )


def _find_state(parts: GroupParts) -> str:
    state: str = parts.decode_group().state.value
    return state


def _group_row(group_id: str, parts: GroupParts) -> tuple[Content, ...]:
    group: Any = parts.decode_group()
    number = group.generation if group.type == "classic" else group.group_epoch
    newest = max((offset.commit_timestamp for offset in parts.offsets.values()), default=None)
    return (
        group_id,
        format_partition(group.partition),
        group.type,
        group.state.value,
        len(group.members),
        number,
        len(parts.offsets),
        sum(len(pending) for pending in parts.pending.values()),
        format_time(newest),
    )


def _render_orphans(facts: LogFacts) -> Html:
    orphans = sorted(facts.groups.orphans)
    if not orphans:
        return Html("")
    names = list_names(orphans)
    return paragraph(f"{format_of(len(orphans), 'deleted group')} still have offsets in memory: {names}.")


def render_damage(facts: LogFacts) -> Html:
    """Return the damaged bytes, and the zeros at the end of a segment with what each kind of start does."""
    items = []
    for number, loaded in facts.groups.partitions.items():
        if loaded.damage is not None:
            damage = loaded.damage
            rows: list[tuple[Content, Content]] = [
                ("file", damage.file),
                ("byte", format_count(damage.position)),
                ("record", damage.offset),
                ("reason", damage.reason),
            ]
            if damage.bytes_after is not None:
                rows.append(("bytes from there on", format_bytes(damage.bytes_after)))
                rows.append(("readable batches behind it", format_count(damage.readable_batches_after or 0)))
                rows.append(("their records", format_count(damage.readable_records_after or 0)))
                rows.append(("their groups", ", ".join(damage.groups_after[:MAX_NAMES]) or "-"))
            caption = f"Partition {format_partition(number)}: a broker's recovery cuts the log here"
            items.append(table(("fact", "value"), rows, caption))
        if loaded.zeros is not None:
            zeros = loaded.zeros
            starts = [(start.value, judge_start(start, zeros, facts.groups.coordinator).value) for start in Start]
            caption = f"Partition {format_partition(number)}: {zeros.file} ends with {zeros.bytes} zeros"
            items.append(table(("a start", "what the broker does"), starts, caption))
    return join(*items) if items else paragraph("✓ No damaged bytes: every checksum is right.")


def render_verdict(facts: LogFacts) -> Html:
    """Return whether a broker loads each partition, and the groups that are lost if not."""
    if facts.check is not None:
        return _render_check(facts, facts.check)
    failed = facts.groups.failed
    count = len(facts.groups.partitions)
    if not failed:
        words = f"✓ Kafka {facts.groups.kafka} ({facts.groups.coordinator} coordinator) loads {_all_of(count)}."
        return element("p", words, class_="good")
    rows = [(format_partition(number), error, _name_lost(facts, number)) for number, error in failed.items()]
    return join(
        _failure_line(facts, len(failed), count),
        limited_table(("partition", "why", "groups without answers"), rows, "Partitions that do not load", MAX_ROWS),
    )


def _all_of(count: int) -> str:
    return "the partition" if count == 1 else f"all {count} partitions"


def _failure_line(facts: LogFacts, failed: int, count: int) -> Html:
    words = f"✗ Kafka {facts.groups.kafka} cannot load {failed} of {format_of(count, 'partition')}."
    return element("p", words, class_="bad")


def _name_lost(facts: LogFacts, partition: int | None) -> str:
    """Return the groups with records in a partition for which the broker does not answer."""
    lost = sorted(
        group
        for group, numbers in facts.groups.partitions_of.items()
        if partition in numbers and group not in facts.groups
    )
    more = f" and {len(lost) - MAX_NAMES} more" if len(lost) > MAX_NAMES else ""
    return (", ".join(lost[:MAX_NAMES]) + more) or "-"


def _render_check(facts: LogFacts, check: Mapping[str, Any]) -> Html:
    """Return the verdict of `kafkagroups check`, from its JSON."""
    partitions: Mapping[str, Mapping[str, Any]] = check["partitions"]
    rows = [
        (
            name,
            part["error"] or "damaged bytes",
            "-" if part["record_offset"] is None else part["record_offset"],
            _shorten(part["groups_lost"]),
        )
        for name, part in partitions.items()
        if not part["loads"] or part["damage"]
    ]
    failed = sum(not part["loads"] for part in partitions.values())
    if failed:
        line = _failure_line(facts, failed, len(partitions))
    else:
        words = f"✓ Kafka {check['kafka']} ({check['coordinator']} coordinator) loads {_all_of(len(partitions))}."
        line = element("p", words, class_="good")
    if not rows:
        return line
    columns = ("partition", "why", "record", "groups without answers")
    return join(line, limited_table(columns, rows, "Partitions that do not load, or are damaged", MAX_ROWS))


def _shorten(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return (", ".join(names[:MAX_NAMES]) + more) or "-"
