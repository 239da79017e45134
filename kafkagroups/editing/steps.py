"""The steps of an edit, and the texts that describe them on the command line.

A step is one change of a log. The texts are those of the command's options:

    commit         GROUP:TOPIC-PARTITION=OFFSET[@MS]
    tombstone      GROUP:TOPIC-PARTITION
    delete-group   GROUP
    marker         commit:PRODUCER_ID or abort:PRODUCER_ID
    roll           no text
    cut            OFFSET
    cut-time       MS
    clean          MS

A group id can contain every character. No topic name contains ":", so the last ":" ends the group id. The last "-"
before a number ends the topic name: "orders-1-0" is partition 0 of the topic "orders-1", and "foo--1" is partition -1
of "foo".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.whole_numbers import parse_whole_number


@dataclass(frozen=True)
class Commit:
    """Append the record of a committed offset.

    `timestamp_ms` is the time of the commit in ms since 1970; None means the newest timestamp in the log.
    `offset` can be negative, because brokers store every offset that a client commits.
    """

    group: str
    partition: TopicPartition
    offset: int
    timestamp_ms: int | None = None


@dataclass(frozen=True)
class Tombstone:
    """Append a record without a value, which deletes a group's committed offset for one partition."""

    group: str
    partition: TopicPartition


@dataclass(frozen=True)
class DeleteGroup:
    """Append the tombstones with which a coordinator deletes a group and its offsets."""

    group: str


@dataclass(frozen=True)
class Marker:
    """Append the control record that commits or aborts the open transaction of a producer."""

    producer_id: int
    commits: bool


@dataclass(frozen=True)
class Roll:
    """Close the active segment, and begin a new segment."""


@dataclass(frozen=True)
class Cut:
    """Remove all records from a Kafka offset on."""

    offset: int


@dataclass(frozen=True)
class CutTime:
    """Remove the first batch that contains a timestamp after a time (ms since 1970), and all later batches."""

    time_ms: int


@dataclass(frozen=True)
class Clean:
    """Run one pass of the log cleaner at a time (ms since 1970)."""

    now_ms: int


Step = Commit | Tombstone | DeleteGroup | Marker | Roll | Cut | CutTime | Clean


def parse_step(name: str, text: str | int | None = None) -> Step:
    """Return the step with this name, which the text describes.

    Raises UsageError if no step has this name, or if the text does not have the form that the module describes.
    """
    if name not in _PARSERS:
        raise UsageError(f"no step {name!r}: choose one of {', '.join(STEP_NAMES)}")
    if name == "roll":
        if text is not None:
            raise UsageError(f"roll: expected no text, found {text!r}")
        return Roll()
    if text is None:
        raise UsageError(f"{name}: expected {_FORMS[name]}")
    try:
        return _PARSERS[name](str(text))
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def _parse_commit(text: str) -> Step:
    group, colon, rest = text.rpartition(":")
    partition_text, equals, number_text = rest.rpartition("=")
    if not colon or not equals:
        raise _make_form_error("commit", text)
    offset_text, _, time_text = number_text.partition("@")
    timestamp_ms = parse_whole_number(time_text) if "@" in number_text else None
    if timestamp_ms is not None and timestamp_ms < 0:
        raise UsageError(f"expected a time of 0 or above, in ms since 1970, found {timestamp_ms}")
    partition = _parse_partition("commit", partition_text, text)
    return Commit(group, partition, parse_whole_number(offset_text), timestamp_ms)


def _parse_tombstone(text: str) -> Step:
    group, colon, partition_text = text.rpartition(":")
    if not colon:
        raise _make_form_error("tombstone", text)
    return Tombstone(group, _parse_partition("tombstone", partition_text, text))


def _parse_partition(name: str, partition_text: str, text: str) -> TopicPartition:
    match = re.fullmatch(r"(?s)(.*?)-(-?[0-9]+)", partition_text)
    # The shortest topic leaves the longest number. "a-1-2" is the topic "a-1", because "1-2" is not a number.
    if match is None:
        raise _make_form_error(name, text)
    return TopicPartition(match[1], parse_whole_number(match[2]))


def _parse_marker(text: str) -> Step:
    kind, _, producer_text = text.partition(":")
    if kind not in ("commit", "abort"):
        raise _make_form_error("marker", text)
    return Marker(parse_whole_number(producer_text), kind == "commit")


def _parse_cut(text: str) -> Step:
    offset = parse_whole_number(text)
    if offset < 0:
        raise UsageError(f"expected an offset of 0 or above, found {offset}")
    return Cut(offset)


def _make_form_error(name: str, text: str) -> UsageError:
    return UsageError(f"expected {_FORMS[name]}, found {text!r}")


_FORMS = {
    "commit": "GROUP:TOPIC-PARTITION=OFFSET or GROUP:TOPIC-PARTITION=OFFSET@MS",
    "tombstone": "GROUP:TOPIC-PARTITION",
    "delete-group": "GROUP",
    "marker": "commit:PRODUCER_ID or abort:PRODUCER_ID",
    "roll": "no text",
    "cut": "OFFSET",
    "cut-time": "a time in ms since 1970",
    "clean": "a time in ms since 1970",
}
"""What the text of each step must look like."""

_PARSERS: dict[str, Callable[[str], Step]] = {
    "commit": _parse_commit,
    "tombstone": _parse_tombstone,
    "delete-group": DeleteGroup,
    "marker": _parse_marker,
    "roll": lambda text: Roll(),
    "cut": _parse_cut,
    "cut-time": lambda text: CutTime(parse_whole_number(text)),
    "clean": lambda text: Clean(parse_whole_number(text)),
}

STEP_NAMES = tuple(_PARSERS)
"""The names of the steps."""
