"""Static members that get a new member id again and again: their events in one line.

Two processes with the same instance id fence each other. Each of them joins again, and gets a new member id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, pairwise

from kafkagroups.history.event import Event, describe_time

MIN_FOLDED = 2
"""The smallest number of further new ids that stand in one line."""


def fold_replacements(events: list[Event]) -> list[Event]:
    """Return the events of one or more partitions with one event for repeated new ids of a static member.

    In consecutive events about new ids, the first event of each static member stays, and one event follows that sums up
    the others.
    """
    folded: list[Event] = []
    for has_replaced, run in groupby(events, key=lambda event: bool(event.replaced_instances)):
        same_kind = list(run)
        folded += _fold_run(same_kind) if has_replaced else same_kind
    return folded


def _fold_run(run: list[Event]) -> Iterator[Event]:
    by_instances: dict[tuple[int | None, tuple[str, ...]], list[Event]] = {}
    for event in run:
        by_instances.setdefault((event.partition, event.replaced_instances), []).append(event)
    for event in run:
        same = by_instances[event.partition, event.replaced_instances]
        if len(same) <= MIN_FOLDED or event is same[0]:
            yield event
        elif event is same[1]:
            yield replace(event, what=_describe_repeated(same))


def _describe_repeated(same: list[Event]) -> str:
    """Return a sentence about all events except the first one."""
    last = same[-1]
    place = f"{last.offset}" if last.partition is None else f"{last.partition}:{last.offset}"
    until = "" if last.timestamp_ms is None else f" until {describe_time(last.timestamp_ms)}"
    changes = sum(_get_settings(before) != _get_settings(after) for before, after in pairwise(same))
    count = len(same) - 1
    if changes == count:
        settings = ", each with other settings than the one before"
    else:
        settings = f", {changes} of them with other settings than the one before" if changes else ""
    names = ", ".join(last.replaced_instances)
    return f"static member {names}: {count} more new ids{until} ({place}){settings}. --all shows each."


def _get_settings(event: Event) -> list[dict[str, object]]:
    return [member.settings for _, member in event.members]
