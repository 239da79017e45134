"""The text of the command `explain`: a row for each record, and indented lines about the record below its row.

A backward commit is a commit of a smaller offset than the previous commit of the same topic-partition.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from kafkagroups.cli import options
from kafkagroups.cli.output import TEXT_WIDTH, escape, print_line, wrap
from kafkagroups.cli.record_table import RecordTable, name_type
from kafkagroups.cli.tables import print_table
from kafkagroups.groups.modern import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.event import Cause, count_of, describe_duration
from kafkagroups.history.explain import Explanation
from kafkagroups.history.record_fate import RecordFate

LAST_RECORD_COUNT = 20
"""How many of the last records the text shows of a long history (more than twice this number of records).

The text also shows the records that are important (`_is_important`), and each backward commit with the commit before.
"""
UNCHANGED_MEMBER_COUNT = 10
"""How many members that neither joined nor left are listed below the record of a group. Others are only counted."""
MIN_USUAL_COMMITS = 3
"""From how many commits on the same metadata is the usual one, if most commits have it."""
_KEPT_FATES = (Fate.WINS, Fate.PENDING, Fate.DELETED, Fate.HIDDEN, Fate.TOMBSTONE)
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
    failed_at = {failure.partition: failure.offset for failure in explanation.failures}
    shown = history if shows_all else _select_records(history, failed_at)
    table = RecordTable(shown, width)
    usual_metadata = _find_usual_metadata(history)
    details = _Details(table, failed_at, usual_metadata, shows_all=shows_all)
    for text in _describe_failures(explanation):
        print_text(text, width)
    for line in table.lines():
        print_line(line)
    for entry, row, name in table.rows():
        print_line(row)
        for detail in (*([name] if name else ()), *details.describe(entry)):
            for line in wrap(_DETAIL_INDENT + escape(detail), width, _DETAIL_INDENT + "  "):
                print_line(line)
    if usual_metadata and not table.has_metadata:
        print_text(f"Usual metadata of the commits: {usual_metadata}. Only other metadata stands below a row.", width)
    for note in _find_notes(shown, table):
        print_text(note, width)
    if len(shown) < len(history):
        print_text(
            f"{len(shown)} of {len(history)} records: the last {LAST_RECORD_COUNT}, and all earlier ones that count, "
            "are pending, were deleted or set an offset back, and the group's own records. --all shows all records.",
            width,
        )


def _find_usual_metadata(history: list[RecordFate]) -> str:
    """Return the metadata that most commits have, if there are enough commits. Otherwise return ""."""
    counts = Counter(entry.note or "" for entry in history if entry.committed is not None)
    [(metadata, count)] = counts.most_common(1) or [("", 0)]
    return metadata if count >= MIN_USUAL_COMMITS and 2 * count > counts.total() else ""


def _describe_failures(explanation: Explanation) -> Iterator[str]:
    """Yield what the failure of a load means for the records that it makes the coordinator ignore."""
    for failure in explanation.failures:
        if not any(entry.is_unloaded and entry.partition == failure.partition for entry in explanation.history):
            continue
        name = "this log" if failure.partition is None else f"partition {failure.partition}"
        yield f"Kafka {explanation.kafka} fails to load {name}: {failure.reason}."
        conflict = failure.conflict
        if conflict is not None and conflict.type is not None:
            group_type = GROUP_TYPE_BY_RECORD_TYPE[conflict.type]
            yield (
                f"The newest record of the {group_type} group before it is {name_type(conflict.type)} at "
                f"{conflict.offset}: no tombstone deleted the {group_type} group."
            )
        if failure.offset is not None:
            yield (
                f"Ignored records before {failure.offset}: up to there, no other record has superseded, deleted or "
                f"aborted them. The load does not read the records after {failure.offset}."
            )


def _find_notes(shown: list[RecordFate], table: RecordTable) -> Iterator[str]:
    """Yield what the signs and columns of the table mean, if the table has them."""
    if any(entry.went_back for entry in shown):
        yield "▼: this commit set the offset back."
    if table.has_producer:
        yield "producer: the producer id and the producer epoch of the transaction."
    if any(entry.by is not None for entry in shown):
        yield "by: the record that superseded, deleted, hid, committed or aborted this record."


def print_text(text: str, width: int | None = None) -> None:
    """Print a text in lines of at most `width` characters (None: the width of the text output)."""
    for line in wrap(escape(text), find_text_width() if width is None else width):
        print_line(line)


class _Details:
    """The indented lines about a record below its row.

    `table` has the columns that need no line. `failed_at` has the offset at which the load of a partition fails.
    `usual_metadata` is the metadata that most commits have; "" if there is none.
    """

    def __init__(
        self,
        table: RecordTable,
        failed_at: Mapping[int | None, int | None],
        usual_metadata: str,
        *,
        shows_all: bool,
    ) -> None:
        self._table = table
        self._failed_at = failed_at
        self._usual_metadata = usual_metadata
        self._shows_all = shows_all
        self._producer = ""
        """The last producer that a line names. A line names only another producer."""

    def describe(self, entry: RecordFate) -> Iterator[str]:
        """Yield what the columns do not show."""
        parts = []
        metadata = self._describe_metadata(entry)
        if metadata:
            parts.append(metadata)
        producer = self._describe_producer(entry)
        if producer and producer != self._producer:
            parts.append(producer)
        self._producer = producer or self._producer
        if parts:
            yield "; ".join(parts)
        content = entry.group_record
        if content is not None:
            text = _describe_group(entry, content)
            if text:
                yield text
            yield from _describe_members(content, shows_all=self._shows_all)
        elif entry.what is not None:
            yield entry.what
        if entry.fate is Fate.TOMBSTONE and (entry.key is not None or entry.cause is Cause.EXPIRED):
            yield f"cause: {_CAUSES[entry.cause or Cause.UNKNOWN]}"
        if entry.is_unloaded:
            # The reason is above the table, once for all records.
            if entry.offset == self._failed_at.get(entry.partition):
                yield "The load fails at this record."
        elif entry.why is not None:
            yield f"{entry.fate.value if entry.fate else ''}: {entry.why}"

    def _describe_metadata(self, entry: RecordFate) -> str:
        """Return the metadata of a commit, if it is not the usual one and no column shows it. Otherwise return ""."""
        if entry.fate is Fate.MARKER or entry.committed is None or entry.note == self._usual_metadata:
            return ""
        if entry.note and not self._table.has_metadata:
            return f"metadata: {entry.note}"
        return "" if entry.note or not self._usual_metadata else "no metadata, although the other commits have some"

    def _describe_producer(self, entry: RecordFate) -> str:
        """Return the producer of a record, if the table has no column for it. Otherwise return ""."""
        if entry.producer_id is None:
            return ""
        producer = f"producer {entry.producer_id}, epoch {entry.producer_epoch}"
        if not entry.is_transactional and entry.fate is not Fate.MARKER:
            return f"{producer}, without a transaction: no marker will come"
        return "" if self._table.has_producer else f"{producer}, in a transaction"


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
    protected = explanation.protected
    if protected:
        count = count_of(len(protected), "offset")
        times = f"{options.format_time_ms(protected[0].expire_ms)} UTC"
        print_text(
            f"Protected by the group's members: {count} with an expire time in the record, the first of them {times}. "
            "After this time, an offset expires as soon as the group has no member."
        )
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


def _is_important(entry: RecordFate) -> bool:
    """Return whether the text never leaves out this record: it counts, was deleted, deletes, or is a group's record."""
    return entry.fate in _KEPT_FATES or entry.group_record is not None or (entry.key is None and entry.type is not None)


def _select_records(history: list[RecordFate], failed_at: Mapping[int | None, int | None]) -> list[RecordFate]:
    """Return the records that the text output shows (`LAST_RECORD_COUNT`).

    `failed_at` has the offset at which the load of a partition fails. The records before it that would count are shown.
    """
    if len(history) <= 2 * LAST_RECORD_COUNT:
        return history
    previous_commit: dict[tuple[int | None, TopicPartition], RecordFate] = {}
    selected_ids = {id(entry) for entry in history[-LAST_RECORD_COUNT:]}
    for entry in history:
        failed_offset = failed_at.get(entry.partition)
        would_count = entry.is_unloaded and (failed_offset is None or entry.offset <= failed_offset)
        if would_count or _is_important(entry) or entry.is_unreadable:
            selected_ids.add(id(entry))
        if entry.key is None or entry.committed is None:
            continue
        place = (entry.partition, entry.key)
        if entry.went_back:
            # With --since-time, the commit before can be missing.
            selected_ids |= {id(entry), id(previous_commit.get(place, entry))}
        previous_commit[place] = entry
    return [entry for entry in history if id(entry) in selected_ids]
