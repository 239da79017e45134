"""The sections of a report about answers: groups and offsets, damage, and whether a broker loads the log."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kafkagroups.groups.group_parts import GroupParts
from kafkagroups.history.event import list_names
from kafkagroups.history.failures import describe_answers
from kafkagroups.loading.starts import Start, judge_start
from kafkagroups.report.facts import LogFacts
from kafkagroups.report.markup import Content, Html, details, element, fact_list, join, limited_table, paragraph, table
from kafkagroups.report.offset_tables import render_offsets
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
        element("h4", "Committed offsets"),
        render_offsets(facts, parts, largest[:MAX_GROUPS]),
        cut,
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
            rows: list[tuple[str, Content]] = [
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
            items.append(join(paragraph(element("b", caption)), fact_list(rows)))
        if loaded.zeros is not None:
            zeros = loaded.zeros
            starts = [(start.value, judge_start(start, zeros, facts.groups.coordinator).value) for start in Start]
            caption = f"Partition {format_partition(number)}: {zeros.file} ends with {zeros.bytes} zeros"
            items.append(table(("a start", "what the broker does"), starts, caption))
    return join(*items) if items else paragraph("✓ No damaged bytes: every checksum is right.")


def render_verdict(facts: LogFacts) -> Html:
    """Return the verdict of `check`: whether a broker loads each partition, and the groups that are lost if not."""
    check = facts.check
    rows = [
        (
            format_partition(number),
            part.error,
            "-" if part.record_offset is None else part.record_offset,
            _shorten(part.groups_lost),
        )
        for number, part in check.partitions.items()
        if part.error is not None
    ]
    count = len(check.partitions)
    not_judged = [
        format_partition(number) for number, part in check.partitions.items() if not part.judged_after_cleaning
    ]
    after_cleaning = Html("")
    if not_judged:
        after_cleaning = paragraph(
            "Not judged as the log cleaner could leave it, because of size, damage or zeros: "
            f"{format_of(len(not_judged), 'partition')} ({list_names(not_judged)})."
        )
    broker = f"Kafka {check.judged.kafka} ({check.judged.coordinator} coordinator)"
    if not rows:
        name = "the partition" if count == 1 else f"all {count} partitions"
        line = element("p", f"✓ {broker} loads {name}.", class_="good")
        damage = "" if check.is_sound else paragraph("The verdict is about what is before the damage.")
        return join(line, damage, after_cleaning)
    columns = ("partition", "why", "record", "groups without answers")
    return join(
        element("p", f"✗ {broker} cannot load {len(rows)} of {format_of(count, 'partition')}.", class_="bad"),
        paragraph(f"For the groups of such a partition, {describe_answers(check.judged)}."),
        limited_table(columns, rows, "Partitions that do not load", MAX_ROWS),
        after_cleaning,
    )


def _shorten(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return (", ".join(names[:MAX_NAMES]) + more) or "-"
