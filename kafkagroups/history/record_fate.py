"""One record and its fate, as a dataclass and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offsets import TopicPartition


@dataclass(slots=True)
class RecordFate:
    """One record and its fate.

    Attributes
    ----------
    partition, offset
        The partition of the offsets topic, and the record's offset in this partition.
    type, group
        The record type and the group id. None for markers and for records that cannot be read.
    key
        The topic-partition of an offset record.
    member_id
        The member id in the key of a member's record.
    fate
        What became of the record; None until it is decided.
    by
        The offset (in the same log partition) of the record that superseded, deleted, committed, aborted or hid it.
    why
        Why a record is ignored.
    size
        The record's bytes, uncompressed.
    timestamp
        The record's timestamp, ms since the epoch.
    file
        The path of the segment that contains the record.
    committed
        The committed offset in the value of an offset record.
    note
        The metadata in the value of an offset record, or "commit" or "abort" for a marker.
    producer_id
        The producer id of the record's batch; None if the batch has no producer.
    """

    partition: int | None
    offset: int
    type: int | None
    group: str | None
    key: TopicPartition | None
    member_id: str | None
    fate: Fate | None
    by: int | None = None
    why: str | None = None
    size: int = 0
    timestamp: int = -1
    file: str | None = None
    committed: int | None = None
    note: str | None = None
    producer_id: int | None = None


def history_json(entry: RecordFate) -> dict[str, Any]:
    """Return one record of a history as JSON."""
    assert entry.fate is not None
    fields: dict[str, Any] = {
        "partition": entry.partition,
        "offset": entry.offset,
        "type": entry.type,
        "key": None if entry.key is None else str(entry.key),
        "fate": entry.fate.value,
        "by": entry.by,
        "timestamp": entry.timestamp,
    }
    if entry.committed is not None:
        fields |= {"committed_offset": entry.committed, "metadata": entry.note}
    if entry.fate is Fate.MARKER:
        fields["control"] = entry.note
    if entry.producer_id is not None:
        fields["producer_id"] = entry.producer_id
    if entry.member_id is not None:
        fields["member_id"] = entry.member_id
    if entry.why is not None:
        fields["why"] = entry.why
    return fields
