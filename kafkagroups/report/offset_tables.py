"""The tables of a report with committed offsets: of each group, and of the groups that moved to another partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkagroups.groups.group_parts import GroupParts
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.history.finding import quote
from kafkagroups.history.moved_groups import MovedOffset, sort_moved
from kafkagroups.report.facts import LogFacts
from kafkagroups.report.markup import Content, Html, command, details, element, join, limited_table, paragraph, table
from kafkagroups.report.words import format_count, format_of, format_time

MAX_OFFSETS = 20
"""A table shows at most this number of offsets of a group, as the texts of `load` and `rescue plan` do."""
MAX_MOVED_OFFSETS = 200
MAX_METADATA = 80
"""A metadata text can have thousands of characters. The table shows at most this number of them."""
NO_OFFSET = "-"


def render_offsets(facts: LogFacts, parts: Mapping[str, GroupParts], groups: Sequence[str]) -> Html:
    """Return a closed table for each of these groups that has offsets: what a broker answers, and pending commits."""
    tables = [
        _render_group(facts, group, parts[group]) for group in groups if parts[group].offsets or parts[group].pending
    ]
    if not tables:
        return paragraph("No group has a committed offset.")
    return join(
        paragraph(
            "What a broker answers to OffsetFetch after a load. A pending offset is in an open transaction: clients "
            "that require stable offsets get UNSTABLE_OFFSET_COMMIT."
        ),
        *tables,
    )


def _render_group(facts: LogFacts, group: str, parts: GroupParts) -> Html:
    pending: dict[TopicPartition, int] = {}
    for offsets in parts.pending.values():
        pending |= {key: offset.offset for key, offset in offsets.items()}
    keys = sorted({*parts.offsets, *pending})
    columns = ["topic partition", "offset", "committed (UTC)", "record", "metadata"]
    if pending:
        columns.append("pending offset")
    rows = []
    for key in keys[:MAX_OFFSETS]:
        row = _offset_row(key, parts.offsets.get(key))
        if pending:
            row.append(pending.get(key, NO_OFFSET))
        rows.append(row)
    caption = "Committed offsets"
    cut = ""
    if len(keys) > MAX_OFFSETS:
        line = f"Only the first {MAX_OFFSETS} of {format_count(len(keys))} topic partitions are shown. To see all:"
        cut = join(
            element("p", line, class_="cut"),
            command(f"kafkagroups load {quote(facts.path)} --group={quote(group)} --all {facts.options}"),
        )
    count = format_of(len(parts.offsets), "committed offset")
    summary = join(element("b", group), f": {count}", f", {len(pending)} pending" if pending else "")
    return details(summary, table(columns, rows, caption), cut)


def _offset_row(key: TopicPartition, offset: OffsetAndMetadata | None) -> list[Content]:
    if offset is None:
        return [str(key), NO_OFFSET, NO_OFFSET, NO_OFFSET, ""]
    metadata = offset.metadata
    if len(metadata) > MAX_METADATA:
        metadata = f"{metadata[:MAX_METADATA]}…"
    return [str(key), offset.offset, format_time(offset.commit_timestamp), offset.record_offset, metadata]


def render_moved_offsets(moved: Sequence[MovedOffset]) -> Html:
    """Return the table of the old and the new positions of groups that moved to another partition."""
    if not moved:
        return Html("")
    only_old = sum(offset.is_newest_old for offset in moved)
    rows = [
        (
            offset.group,
            str(offset.topic_partition),
            *_describe_position(offset.old),
            *_describe_position(offset.new),
            "old" if offset.is_newest_old else "new",
        )
        for offset in sort_moved(moved)
    ]
    columns = (
        "group",
        "topic partition",
        "offset in the old partition",
        "committed there (UTC)",
        "offset in the new partition",
        "committed here (UTC)",
        "newest",
    )
    newest_old = ""
    if only_old:
        newest_old = (
            f" The newest commit of {format_of(only_old, 'offset')} is in the old partition: these stand first."
        )
    return details(
        f"The old and the new positions ({format_of(len(moved), 'offset')})",
        paragraph(
            "The time of a commit decides which one is newest, not its partition. The highest position that the group "
            f"reached can be larger: the end of the timeline shows it.{newest_old}"
        ),
        limited_table(columns, rows, "Positions of the groups that moved", MAX_MOVED_OFFSETS),
    )


def _describe_position(offset: OffsetAndMetadata | None) -> tuple[Content, Content]:
    if offset is None:
        return NO_OFFSET, NO_OFFSET
    return offset.offset, format_time(offset.commit_timestamp)
