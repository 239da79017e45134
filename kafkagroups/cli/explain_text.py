"""The text of the command `explain`: a row for each record, and indented lines about the record below its row.

A backward commit is a commit of a smaller offset than the previous commit of the same topic-partition.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from typing import Any

from kafkagroups.cli import options
from kafkagroups.cli.output import TEXT_WIDTH, escape, print_line, wrap
from kafkagroups.cli.tables import print_table
from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.event import Cause, count_of, describe_duration
from kafkagroups.history.explain import Explanation
from kafkagroups.history.record_fate import RecordFate
from kafkagroups.records.record_types import RECORD_TYPES

LAST_RECORD_COUNT = 20
"""How many of the last records the text shows of a long history (more than twice this number of records).

The text also shows the records that are important (`_is_important`), and each backward commit with the commit before.
"""
UNCHANGED_MEMBER_COUNT = 10
"""How many members that neither joined nor left are listed below the record of a group. Others are only counted."""
_KEPT_FATES = (Fate.WINS, Fate.PENDING, Fate.DELETED, Fate.HIDDEN, Fate.TOMBSTONE)
_MIN_ABOUT_WIDTH = 16
_TIME_COLUMN = "written (UTC)"
_DETAIL_INDENT = "    "
_CAUSES = {
    Cause.EXPIRED: "the offset expired",
    Cause.GROUP_DELETED: "the group was deleted",
    Cause.OFFSET_DELETED: "a request deleted the offset",
    Cause.TOPIC_DELETED: "the topic was deleted",
    Cause.UNKNOWN: "the log does not tell",
}


def find_text_width() -> int:
    """Return the width of the text, in characters: TEXT_WIDTH, or the width of a wider terminal."""
    if not sys.stdout.isatty():
        return TEXT_WIDTH
    return max(TEXT_WIDTH, shutil.get_terminal_size((TEXT_WIDTH, 0)).columns)


def print_history(explanation: Explanation, *, shows_all: bool) -> None:
    """Print the records. If the history is long, print only some records (`_select_records`)."""
    width = find_text_width()
    history = explanation.history
    backward_ids = _find_backward_commits(history)
    shown = history if shows_all else _select_records(history, backward_ids)
    table = _Table(shown, backward_ids, width)
    for line in table.lines(shows_all=shows_all):
        print_line(line)
    notes = []
    if backward_ids & {id(entry) for entry in shown}:
        notes.append("▼: this commit set the offset back.")
    if len(shown) < len(history):
        notes.append(
            f"{len(shown)} of {len(history)} records: the last {LAST_RECORD_COUNT}, and all earlier ones that count, "
            "are pending, were deleted or set an offset back, and the group's own records. --all shows all records."
        )
    for note in notes:
        print_text(note, width)


def print_text(text: str, width: int | None = None) -> None:
    """Print a text in lines of at most `width` characters (None: the width of the text output)."""
    for line in wrap(escape(text), find_text_width() if width is None else width):
        print_line(line)


class _Table:
    """Rows of records that fit the width, with lines of details below the rows.

    If all records are in one partition of the offsets topic, the title names the partition. Otherwise each record is
    shown as partition:offset.
    """

    def __init__(self, entries: list[RecordFate], backward_ids: set[int], width: int) -> None:
        self._entries = entries
        self._width = width
        partitions = {entry.partition for entry in entries}
        self._partition = next(iter(partitions)) if len(partitions) == 1 else None
        self._has_one_partition = len(partitions) == 1
        self._rows = [self._cells(entry, is_backward=id(entry) in backward_ids) for entry in entries]
        titles = ("record", _TIME_COLUMN, "about", "committed", "metadata", "fate", "by")
        columns = list(zip(titles, *self._rows, strict=True))
        self._widths = [max(len(cell) for cell in column) for column in columns]
        self._titles = titles
        self._shown = [index for index, column in enumerate(columns) if any(column[1:]) or index < 3]
        about = titles.index("about")
        metadata = titles.index("metadata")
        self._about = about
        self._gap = 2
        # The metadata of a commit has a column if it fits. Otherwise it is in the lines below the rows.
        self.has_metadata_column = metadata in self._shown and self._total() <= width
        if metadata in self._shown and not self.has_metadata_column:
            self._shown.remove(metadata)
        room = self._widths[about] - max(0, self._total() - width)
        if room < min(self._widths[about], _MIN_ABOUT_WIDTH):
            self._gap = 1
            room = self._widths[about] - max(0, self._total() - width)
        self._widths[about] = max(room, len("about"))

    def _total(self) -> int:
        return sum(self._widths[index] for index in self._shown) + self._gap * (len(self._shown) - 1)

    def _cells(self, entry: RecordFate, *, is_backward: bool) -> tuple[str, ...]:
        assert entry.fate is not None
        offset = str(entry.offset)
        if not self._has_one_partition:
            offset = f"{'-' if entry.partition is None else entry.partition}:{offset}"
        committed = "" if entry.committed is None else str(entry.committed)
        return (
            offset,
            options.format_time_ms(entry.timestamp),
            escape(_name_subject(entry)),
            f"▼ {committed}" if is_backward else committed,
            "" if entry.fate is Fate.MARKER else escape(entry.note or ""),
            entry.fate.value,
            "" if entry.by is None else str(entry.by),
        )

    def lines(self, *, shows_all: bool) -> Iterator[str]:
        """Yield the lines of the table."""
        if self._has_one_partition and self._partition is not None:
            yield f"Records in partition {self._partition} of __consumer_offsets:"
        yield from self._format(self._titles)
        for entry, row in zip(self._entries, self._rows, strict=True):
            yield from self._format(row)
            for detail in self._describe(entry, shows_all=shows_all):
                line = _DETAIL_INDENT + escape(detail)
                yield from wrap(line, self._width, _DETAIL_INDENT + "  ")

    def _format(self, cells: tuple[str, ...]) -> Iterator[str]:
        """Yield the lines of one row. Only a text in the column `about` can need several lines."""
        width = self._widths[self._about]
        shown = self._shown
        committed = self._titles.index("committed")
        if committed in shown and not cells[committed]:
            # The name of a group record's type also uses the room of the next column.
            width += self._gap + self._widths[committed]
            shown = [index for index in shown if index != committed]
        for number, part in enumerate(_divide(cells[self._about], width)):
            texts = []
            for index in shown:
                text = cells[index] if number == 0 else ""
                column_width = self._widths[index]
                if index == self._about:
                    text = part
                    column_width = width
                is_number = self._titles[index] in ("record", "committed", "by")
                texts.append(text.rjust(column_width) if is_number else text.ljust(column_width))
            yield (" " * self._gap).join(texts).rstrip()

    def _describe(self, entry: RecordFate, *, shows_all: bool) -> Iterator[str]:
        """Yield what the columns do not show."""
        parts = []
        if entry.note and entry.fate is not Fate.MARKER and not self.has_metadata_column:
            parts.append(f"metadata: {entry.note}")
        if entry.producer_id is not None:
            parts.append(_describe_producer(entry))
        if parts:
            yield "; ".join(parts)
        content = entry.group_record
        if content is not None:
            text = _describe_group(entry, content)
            if text:
                yield text
            yield from _describe_members(content, shows_all=shows_all)
        elif entry.what is not None:
            yield entry.what
        if entry.fate is Fate.TOMBSTONE and (entry.key is not None or entry.cause is Cause.EXPIRED):
            yield f"cause: {_CAUSES[entry.cause or Cause.UNKNOWN]}"
        if entry.why is not None:
            yield f"{entry.fate.value if entry.fate else ''}: {entry.why}"


def _divide(text: str, width: int) -> Iterator[str]:
    """Yield parts of a text that are at most `width` characters long. The name of a record type ends before a capital.

    Yield one part if the text is empty.
    """
    while len(text) > width:
        end = width
        if text.isalpha():
            end = next((index for index in range(width, width // 2, -1) if text[index].isupper()), width)
        yield text[:end]
        text = text[end:]
    yield text


def _name_subject(entry: RecordFate) -> str:
    """Return what a record is about: a topic-partition, the type of a group record, or a marker."""
    if entry.fate is Fate.MARKER:
        return f"{entry.note} marker"
    if entry.key is not None:
        return str(entry.key)
    if entry.type is None:
        return "-"
    return RECORD_TYPES[entry.type].name if entry.type in RECORD_TYPES else f"type {entry.type}"


def _describe_producer(entry: RecordFate) -> str:
    if entry.fate is Fate.MARKER or entry.is_transactional:
        return f"producer {entry.producer_id}, in a transaction"
    return f"producer {entry.producer_id}, without a transaction: no marker will come"


def _describe_group(entry: RecordFate, content: dict[str, Any]) -> str:
    """Return the type, the state and the epochs of a group, and what changed; "" for a record of one member.

    The timeline's sentence about a change contains the generation or the epoch.
    """
    if entry.member_id is not None or content["type"] is None:
        return entry.what or ""
    parts = [f"{content['type']} group", content["state"]]
    if content["type"] != "classic":
        parts.append(f"assignment epoch {content['assignment_epoch']}")
        if entry.what is None:
            parts.append(f"epoch {content['group_epoch']}")
    elif entry.what is None:
        parts.append(f"generation {content['generation']}")
    text = ", ".join(parts)
    return f"{text}. {entry.what}" if entry.what else f"{text}."


def _describe_members(content: dict[str, Any], *, shows_all: bool) -> Iterator[str]:
    """Yield a line for each member: "+" before a member that joined, "-" before one that left."""
    joined = set(content["members_joined"])
    changed = [member for member in content["members"] if member["member_id"] in joined]
    unchanged = [member for member in content["members"] if member["member_id"] not in joined]
    shown_count = len(unchanged) if shows_all else UNCHANGED_MEMBER_COUNT
    for member_id in content["members_left"]:
        yield f"- {member_id}"
    for member in changed:
        yield f"+ {_describe_member(member)}"
    for member in unchanged[:shown_count]:
        yield f"= {_describe_member(member)}"
    if len(unchanged) > shown_count:
        yield f"= {count_of(len(unchanged) - shown_count, 'more member')}; --all shows them"


def _describe_member(member: dict[str, Any]) -> str:
    parts = [str(member["member_id"])]
    if member["group_instance_id"] is not None:
        parts.append(f"instance {member['group_instance_id']}")
    if "member_epoch" in member:
        parts.append(f"epoch {member['member_epoch']}")
    if member.get("state"):
        parts.append(str(member["state"]))
    for name, label in (("session_timeout_ms", "session"), ("rebalance_timeout_ms", "rebalance")):
        if member.get(name) is not None and member[name] >= 0:
            parts.append(f"{label} time-out {describe_duration(member[name])}")
    return ", ".join(parts)


def print_expirations(explanation: Explanation, *, shows_all: bool) -> None:
    """Print which offsets expire next."""
    expirations = explanation.expires_next
    if not expirations:
        return
    shown = expirations if shows_all else expirations[:LAST_RECORD_COUNT]
    print_line("Expires next:")
    rows = [
        (
            str(expiration.topic_partition),
            expiration.offset,
            options.format_time_ms(expiration.expire_ms),
            "expire time in the record" if expiration.is_from_record else "retention time",
        )
        for expiration in shown
    ]
    print_table(("topic-partition", "offset", "expires (UTC)", "because of"), rows, width_in_file=TEXT_WIDTH)
    if len(shown) < len(expirations):
        print_text(f"{len(shown)} of {len(expirations)} offsets. --all shows all of them.")


def _find_backward_commits(history: list[RecordFate]) -> set[int]:
    """Return Python's ids of the objects in `history` that are backward commits."""
    last_committed: dict[TopicPartition, int] = {}
    backward_ids = set()
    for entry in history:
        if entry.key is None or entry.committed is None:
            continue
        if entry.committed < last_committed.get(entry.key, entry.committed):
            backward_ids.add(id(entry))
        last_committed[entry.key] = entry.committed
    return backward_ids


def _is_important(entry: RecordFate) -> bool:
    """Return whether the text never leaves out this record: it counts, was deleted, deletes, or is a group's record."""
    return entry.fate in _KEPT_FATES or entry.group_record is not None or (entry.key is None and entry.type is not None)


def _select_records(history: list[RecordFate], backward_ids: set[int]) -> list[RecordFate]:
    """Return the records that the text output shows (`LAST_RECORD_COUNT`).

    `backward_ids` is the result of `_find_backward_commits`.
    """
    if len(history) <= 2 * LAST_RECORD_COUNT:
        return history
    previous_commit: dict[TopicPartition, RecordFate] = {}
    selected_ids = {id(entry) for entry in history[-LAST_RECORD_COUNT:]}
    for entry in history:
        if _is_important(entry) or entry.is_unreadable:
            selected_ids.add(id(entry))
        if entry.key is None or entry.committed is None:
            continue
        if id(entry) in backward_ids:
            selected_ids |= {id(entry), id(previous_commit[entry.key])}
        previous_commit[entry.key] = entry
    return [entry for entry in history if id(entry) in selected_ids]
