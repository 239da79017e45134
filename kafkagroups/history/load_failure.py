"""Where the load of a partition fails, and which older record of the group does not fit to the record there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kafkagroups.groups.modern import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.groups.observer import Fate
from kafkagroups.history.group_requests import EPOCHS
from kafkagroups.history.record_fate import RecordFate

_OFFSET = re.compile("offset ([0-9]+): ")
"""How the reason begins if the load fails at one record (groups/fold.py)."""


@dataclass(frozen=True)
class LoadFailure:
    """Why the load of a partition fails.

    Attributes
    ----------
    partition
        The partition of the offsets topic; None if the log's folder has no partition number.
    reason
        The reason, as in `load --json`.
    offset
        The offset of the record at which the load fails; None if the load fails at no single record.
    conflict
        The newest epoch record of the group before, if its group type is not that of the record at `offset`, and no
        tombstone deleted the group. Otherwise None.
    """

    partition: int | None
    reason: str
    offset: int | None = None
    conflict: RecordFate | None = None


def find_load_failures(failed: Mapping[int | None, str], entries: list[RecordFate]) -> list[LoadFailure]:
    """Return the failures of the partitions with records of a group.

    `failed` contains the reason for each partition whose load fails. `entries` are the records of the group.
    """
    partitions = {entry.partition for entry in entries}
    return [
        _describe_failure(partition, reason, [entry for entry in entries if entry.partition == partition])
        for partition, reason in failed.items()
        if partition in partitions
    ]


def _describe_failure(partition: int | None, reason: str, entries: list[RecordFate]) -> LoadFailure:
    match = _OFFSET.match(reason)
    if match is None:
        return LoadFailure(partition, reason)
    offset = int(match[1])
    newest: RecordFate | None = None
    for entry in entries:
        if entry.offset < offset and entry.type in EPOCHS:
            newest = entry
        if entry.offset != offset or newest is None or newest.fate is Fate.TOMBSTONE:
            continue
        group_type = GROUP_TYPE_BY_RECORD_TYPE.get(entry.type or 0)
        if group_type is not None and group_type != GROUP_TYPE_BY_RECORD_TYPE[newest.type or 0]:
            return LoadFailure(partition, reason, offset, newest)
    return LoadFailure(partition, reason, offset)
